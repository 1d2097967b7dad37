"""`adapcla report`: one page of one or more finished experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adapcla.cli.options import AsJson, Overwrite, emit
from adapcla.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("report")(report)


def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of finished experiments, or folders that hold them.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for report.html, tables and figures.")],
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Merge finished experiments into one self-contained page."""
    from adapcla.files import refuse_populated
    from adapcla.study.page import write_study_page
    from adapcla.study.results import studies_in

    if out.suffix == ".html":
        raise UsageError(
            f"--out {out}: a page lies in a folder of its own, with its tables and figures\n"
            f"to do: name a folder, such as --out {out.with_suffix('')}"
        )
    refuse_populated(out, overwrite)
    studies = [study for folder in folders for study in studies_in(folder)]
    page = write_study_page(studies, out)
    if as_json:
        emit({"report": str(page), "experiments": [study.name for study in studies]})
    else:
        typer.echo(str(page))
