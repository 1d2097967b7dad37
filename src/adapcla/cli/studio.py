"""`adapcla studio`: the verbs in a browser, on this computer only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adapcla.cli.options import AsJson, emit
from adapcla.console import say


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("studio")(studio)


def studio(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Folder to work in; what is made lies there.")
    ] = Path(),
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="Port; 8765, or a free one, if left out.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve pages for all of it on this computer; the address, with its token, is printed. Ctrl-C ends it."""
    import sys

    from adapcla.studio.server import opened

    served = opened(folder, port)

    def ready() -> None:
        if as_json:
            emit({"address": served.address, "folder": str(served.folder), "port": served.port})
        else:
            typer.echo(served.address)
        sys.stdout.flush()
        say(f"{served.folder}: open the address above in a browser of this computer; Ctrl-C ends, jobs go on")
        if show:
            import webbrowser

            webbrowser.open(served.address)

    served.serve(ready)
