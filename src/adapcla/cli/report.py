"""`adapcla report`: one page of one or more finished experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adapcla.cli.options import AsJson, Overwrite, emit
from adapcla.errors import ExistsError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("report")(report)


def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of finished experiments, or folders that hold them.")],
    out: Annotated[Path, typer.Option("--out", help="HTML file to write; tables and figures go beside it.")],
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Merge finished experiments into one self-contained page."""
    from adapcla.study.page import write_page
    from adapcla.study.results import studies_in

    if out.exists() and not overwrite:
        raise ExistsError(f"{out} exists\nto do: name another --out, or add --overwrite")
    studies = [study for folder in folders for study in studies_in(folder)]
    page = write_page(studies, out)
    if as_json:
        emit({"report": str(page), "experiments": [study.name for study in studies]})
    else:
        typer.echo(str(page))
