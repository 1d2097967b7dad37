"""Verbs about cohorts: `import`, `export`, `describe`, `split`, `simulate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapcla import engine
from adapcla.cli.options import AsJson, Cluster, CohortFolder, DryRun, Given, Out, Overwrite, Verb, emit, show_need
from adapcla.console import meter, say
from adapcla.errors import ExistsError, InputError, UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from adapcla.io.preview import Preview

#: Formats that a source of another name reads back.
_READER = {"csv": "table", "parquet": "table", "xlsx": "table"}
#: A format of its own: no patients, but how frequent each code is.
PREVALENCE = "prevalence"
_FIGURES = (".png", ".svg")


def import_(
    source: Annotated[str, typer.Argument(help="table, mimic3, mimic4, eicu, omop, meds, fhir or synthea.")],
    path: Annotated[Path, typer.Argument(help="Folder or file to read.")],
    given: Given,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write; not needed with --dry-run.")] = None,
    allow_dropped: Annotated[
        float,
        typer.Option("--allow-dropped", min=0, max=1, help="Share of visits, codes or patients that may be dropped."),
    ] = 0.01,
    dry_run: DryRun = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Read patients from a SOURCE at PATH into a cohort folder."""
    from adapcla.files import refuse_populated
    from adapcla.io import read
    from adapcla.io.losses import ALLOWED, require_kept
    from adapcla.io.preview import preview

    if dry_run:
        show_preview(preview(source, path, allow_dropped, **given.reading), as_json)
        return
    if out is None:
        raise UsageError("no --out\nexpected: a folder for the cohort\nto do: add --out DIR, or --dry-run for a look")
    # Refuse before the reading, not after.
    refuse_populated(out, overwrite)
    cohort = read(source, path, **given.reading)
    require_kept(cohort, allow_dropped, path)
    # Whoever goes on from here has been asked already.
    cohort = replace(cohort, card={**cohort.card, ALLOWED: allow_dropped})
    cohort.save(out, overwrite=overwrite)
    counts = {"patients": cohort.n_patients, "visits": cohort.n_visits, "codes": cohort.n_codes}
    dropped = cohort.card.get("dropped", {})
    if as_json:
        more = {"attributes": sorted(cohort.attributes), "labels": len(cohort.label_names), "dropped": dropped}
        emit({"out": str(out), "source": source, **counts, "entries": cohort.n_entries, **more})
        return
    typer.echo(f"{out}: " + ", ".join(f"{n:,} {name}" for name, n in counts.items()))
    for reason, n in dropped.items():
        typer.echo(f"  left out: {n:,} {reason}")
    say(f"next: adapcla describe {out}")


def show_preview(found: Preview, as_json: bool) -> None:
    """Say what a first look found: what columns are taken for, and what would be left out; fail where the run would."""
    if as_json:
        emit(found.content())
        return
    for number, column in enumerate(found.columns, 1):
        name = column.name or f"column {number}"
        typer.echo(f"{name}: {column.kind}" + (f" → {column.part}" if column.part else ""))
    for row in found.rows:
        typer.echo("  " + " | ".join(row))
    for table, size in found.tables:
        typer.echo(f"{table}: {size:,} bytes")
    for what, how in found.taken_for.items():
        typer.echo(f"{what}: {how}")
    if not found.header:
        typer.echo("the first line does not look like a header: its names are not shown")
    for reason, n in found.dropped.items():
        typer.echo(f"  would be left out: {n:,} {reason}")
    if found.problem:
        raise InputError(found.problem)
    if found.tried is None:
        typer.echo("too large to be tried: what is left out is counted while it is read")
        return
    if found.systems:
        typer.echo("code systems: " + ", ".join(f"{name} {n:,}" for name, n in found.systems.items()))
    part = "all of it" if found.tried == "all" else f"the first {found.tried:,} rows"
    typer.echo(f"tried {part}: {found.patients:,} patients, {found.visits:,} visits, {found.codes:,} codes")
    if found.seconds is not None:
        typer.echo(f"reading all of it takes about {found.seconds:,.0f} s here")


def export(
    cohort: CohortFolder,
    to: Annotated[str, typer.Option("--to", help="csv, parquet, xlsx, meds, omop, fhir or prevalence.")],
    out: Annotated[Path, typer.Option("--out", help="Folder to write; of prevalence, a CSV file.")],
    given: Given,
    cluster: Cluster = "local",
    dry_run: DryRun = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a COHORT as CSV, Parquet, Excel, MEDS, OMOP or FHIR, or its prevalences without small counts."""
    from adapcla.data import Cohort
    from adapcla.files import refuse_populated
    from adapcla.io.writers import WriteOptions, check_format, writable, write
    from adapcla.pipeline.settings import ExportOptions, settings_from

    asked = settings_from(ExportOptions, given.settings, source="export")
    if to == PREVALENCE:
        _write_prevalence(cohort, out, asked.min_cell, overwrite, as_json)
        return
    check_format(to)
    folder = None if asked.vocabulary is None else Path(asked.vocabulary)
    options = WriteOptions(asked.split, asked.visit_type, asked.birth_year, folder, asked.for_excel)
    refuse_populated(out, overwrite)
    patients = Cohort.open(cohort)
    if dry_run:
        from adapcla.pipeline.estimate import writing_need

        with engine.cluster(cluster):
            workers = engine.n_workers()
        show_need(writing_need(patients, to, options, workers), as_json)
        return
    with engine.cluster(cluster):
        write(patients, out, to, overwrite, options)
    held = writable(patients, to, options)
    files = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    result = {
        "out": str(out),
        "to": to,
        "patients": held.n_patients,
        "patients left out": patients.n_patients - held.n_patients,
        "visits": held.n_visits,
        "files": files,
    }
    if as_json:
        emit(result)
        return
    typer.echo(f"{out}: {held.n_patients:,} patients, {held.n_visits:,} visits in {len(files)} files")
    if to != "xlsx":
        say(f"reads back with: adapcla import {_READER.get(to, to)} {out} --out DIR")


def _write_prevalence(cohort: Path, out: Path, min_cell: int, overwrite: bool, as_json: bool) -> None:
    """Write the share of visits that hold each code, small cells left out."""
    from adapcla.data import Cohort
    from adapcla.data.prevalence import write_prevalence

    if out.exists() and not overwrite:
        raise ExistsError(f"{out} exists\nto do: name another --out, or add --overwrite")
    prevalence = Cohort.open(cohort).prevalence()
    left_out = write_prevalence(prevalence, out, min_cell)
    n_codes = int(prevalence.known.sum()) - left_out
    if as_json:
        emit({"out": str(out), "codes": n_codes, "left_out": left_out, "min_cell": min_cell})
        return
    typer.echo(f"{out}: {n_codes:,} codes; {left_out:,} left out with fewer than {min_cell} visits")


def prior(
    action: Annotated[str, typer.Argument(help="export.")],
    cohort: CohortFolder,
    out: Annotated[Path, typer.Option("--out", help="CSV file to write.")],
    given: Given,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write prevalences: the former name of `export --to prevalence`."""
    if action != "export":
        raise UsageError(f"prior {action}\nto do: adapcla export COHORT --to prevalence --out FILE")
    export(cohort, PREVALENCE, out, given, overwrite=overwrite, as_json=as_json)


def describe(
    cohort: CohortFolder,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Draw the long tail into this file, .png or .svg.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", envvar="ADAPCLA_SEED", help="Seed of the sampled visits.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Describe a cohort: its size, its long tail, how alike visits are, and what was dropped while reading."""
    from adapcla.data import Cohort
    from adapcla.data.description import describe as description_of

    if figure is not None and figure.suffix.lower() not in _FIGURES:
        raise UsageError(f"--figure {figure}\nexpected: a file ending in {' or '.join(_FIGURES)}")
    patients = Cohort.open(cohort)
    description = description_of(patients, seed)
    if figure is not None:
        from adapcla.report import style
        from adapcla.report.figures.cohorts import longtail

        style.save_figure(longtail(patients), figure)
        say(f"figure: {figure}")
    if as_json:
        emit(description)
    else:
        _show_description(cohort, description)


def _show_description(folder: Path, description: dict[str, Any]) -> None:
    """Print the description as tables for people."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from adapcla.data import description as words

    screen = Console(highlight=False)
    # Headings are lines of their own: a title of a narrow table would be broken to its width.
    screen.print(Text(f"{folder.name} ({description['source']})", style="italic"))
    plain = Table(show_header=False, box=None)
    plain.add_column(style="bold")
    plain.add_column()
    for name, value in words.summary_lines(description):
        plain.add_row(name, value)
    screen.print(plain)
    screen.print(Text("\nHow the codes are used", style="italic"))
    parts = Table(box=None, header_style="bold")
    parts.add_column("stratum")
    for heading in ("codes", "% of codes", "% of entries", "visits per code"):
        parts.add_column(heading, justify="right")
    for name, part in words.stratum_rows(description):
        parts.add_row(
            name,
            f"{part['codes']:,}",
            words.percent(part["share_of_codes"]),
            words.percent(part["share_of_entries"]),
            "–" if part["lowest"] is None else f"{part['lowest']:,} to {part['highest']:,}",
        )
    screen.print(parts)
    if description["dropped"]:
        screen.print(Text("\nDropped while reading", style="italic"))
        dropped = Table(show_header=False, box=None)
        dropped.add_column(style="bold")
        dropped.add_column(justify="right")
        for reason, n in sorted(description["dropped"].items()):
            dropped.add_row(str(reason), f"{n:,}" if isinstance(n, int) else str(n))
        screen.print(dropped)


def split(
    cohort: CohortFolder,
    out: Out,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the patient split; 4 if left out.")] = None,
    control: Annotated[float, typer.Option("--control", help="Share of patients reserved for privacy tests.")] = 0.0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Divide patients into train, valid, test and control; `train` takes the folder that holds these parts."""
    from adapcla.data import Cohort
    from adapcla.data.split import SPLIT_SEED
    from adapcla.data.split_folder import save_splits, split_cohort
    from adapcla.files import refuse_populated

    refuse_populated(out, overwrite)
    parts = split_cohort(Cohort.open(cohort), SPLIT_SEED if seed is None else seed, control)
    save_splits(parts, out, overwrite)
    counts = {name: part.n_patients for name, part in parts.items()}
    if as_json:
        emit({"out": str(out), **counts})
    else:
        say(f"{out}: " + ", ".join(f"{name} {n:,}" for name, n in counts.items()))


def simulate(out: Out, given: Given, overwrite: Overwrite = False, as_json: AsJson = False) -> None:
    """Simulate patients with known probabilities, long-tailed like hospital records; no patient is real."""
    from adapcla.files import refuse_populated
    from adapcla.io import simulator
    from adapcla.pipeline.settings import SimulateOptions, settings_from

    asked = settings_from(SimulateOptions, given.settings, source="simulate")
    refuse_populated(out, overwrite)
    with meter("patients", asked.patients) as bar:
        cohort = simulator.simulate(**asked.model_dump(), advance=bar.advance)
    cohort.save(out, overwrite=overwrite)
    counts = {"patients": cohort.n_patients, "visits": cohort.n_visits, "codes": cohort.n_codes}
    if as_json:
        emit({"out": str(out), **counts, "entries": cohort.n_entries, "population": asked.population})
    else:
        say(
            f"{out}: {cohort.n_patients:,} simulated patients, {cohort.n_visits:,} visits, "
            f"{cohort.n_codes:,} codes; look at it with: adapcla describe {out}"
        )


def _export_options() -> type[BaseModel]:
    from adapcla.pipeline.settings import ExportOptions

    return ExportOptions


def _simulate_options() -> type[BaseModel]:
    from adapcla.pipeline.settings import SimulateOptions

    return SimulateOptions


VERBS = (
    Verb("import", import_, reads=True),
    Verb("export", export, _export_options),
    Verb("describe", describe),
    Verb("split", split),
    Verb("simulate", simulate, _simulate_options),
    Verb("prior", prior, _export_options, hidden=True),
)
