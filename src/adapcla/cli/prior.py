"""`adapcla prior`: prevalences that a site can share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adapcla.cli.options import AsJson, CohortFolder, Overwrite, emit
from adapcla.disclosure import MIN_COUNT


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    verb = typer.Typer(help="Prevalences that a site can share.", no_args_is_help=True)
    verb.command("export")(export)
    verb.callback()(_prior)
    app.add_typer(verb, name="prior")


def _prior() -> None:
    """Prevalences that a site can share."""


def export(
    cohort: CohortFolder,
    out: Annotated[Path, typer.Option("--out", help="CSV file to write.")],
    min_cell: Annotated[int, typer.Option("--min-cell", help="Leave out codes of fewer visits than this.")] = MIN_COUNT,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write the share of visits that hold each code, small cells left out."""
    from adapcla.data import Cohort
    from adapcla.data.prevalence import write_prevalence
    from adapcla.errors import ExistsError

    if out.exists() and not overwrite:
        raise ExistsError(f"{out} exists\nto do: name another --out, or add --overwrite")
    prevalence = Cohort.open(cohort).prevalence()
    left_out = write_prevalence(prevalence, out, min_cell)
    n_codes = int(prevalence.known.sum()) - left_out
    if as_json:
        emit({"out": str(out), "codes": n_codes, "left_out": left_out, "min_cell": min_cell})
        return
    typer.echo(f"{out}: {n_codes:,} codes; {left_out:,} left out with fewer than {min_cell} visits")
