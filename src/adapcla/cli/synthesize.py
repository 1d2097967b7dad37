"""`adapcla synthesize`: from your table to a data set you may share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adapcla.cli import reading
from adapcla.cli.options import (
    Accept,
    AllowDropped,
    AsJson,
    Out,
    Overwrite,
    Population,
    Reason,
    Seed,
    assignments,
    emit,
    listed,
)
from adapcla.console import say
from adapcla.disclosure import MIN_COUNT
from adapcla.errors import GateError

if TYPE_CHECKING:
    from adapcla.release.plan import ReleasePlan
    from adapcla.release.synthesize import Release


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("synthesize")(synthesize)


def synthesize(
    source: Annotated[
        str, typer.Argument(metavar="[SOURCE] PATH", help="A table, or a source of `import` and its path; or planted.")
    ],
    out: Out,
    path: Annotated[str, typer.Argument(hidden=True)] = "",
    minutes: Annotated[float, typer.Option("--minutes", help="Time on two cores that the whole should take.")] = 10.0,
    patients: Annotated[int, typer.Option("--patients", min=0, help="Synthetic patients; 0: as many as real.")] = 0,
    formats: Annotated[
        str, typer.Option("--format", help="csv, parquet, xlsx, meds, omop, fhir, with commas.")
    ] = "csv",
    min_patients: Annotated[
        int, typer.Option("--min-patients", min=2, help="Fewest patients of a code; rarer ones are rolled up.")
    ] = MIN_COUNT,
    rollup: Annotated[
        str, typer.Option("--rollup", help="The way up for rarer codes: icd, ccs, or a CSV file code, parent.")
    ] = "icd",
    repair: Annotated[
        bool, typer.Option("--repair", help="Where the gate is not met, try more carefully, three times at most.")
    ] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Write what the gate refuses, with UNSAFE in the folder's name.")
    ] = False,
    accept: Accept = None,
    reason: Reason = "",
    population: Population = 0,
    model: Annotated[
        bool, typer.Option("--model", help="Write the generator too, where attacks on it fail; takes longer.")
    ] = False,
    method: Annotated[str, typer.Option("--method", help="A row of `adapcla methods`.")] = "tailwise",
    seed: Seed = 1,
    birth_year: Annotated[
        int | None, typer.Option("--birth-year", help="OMOP: year of birth of patients of unknown age.")
    ] = None,
    patient: reading.Patient = None,
    visit: reading.Visit = None,
    codes: reading.Codes = None,
    date: reading.Date = None,
    day: reading.Day = None,
    separator: reading.Separator = None,
    domains: reading.Domains = "dx",
    level: reading.Level = "full",
    icd: reading.Icd = "apart",
    attributes: reading.Attributes = "",
    labels: reading.Labels = None,
    system: reading.System = "",
    max_visits: reading.MaxVisits = None,
    labs: reading.Labs = "200",
    lab_values: reading.LabValues = "last",
    value: reading.Value = None,
    unit: reading.Unit = None,
    time: reading.Time = None,
    kind: reading.Kind = None,
    length: reading.Length = None,
    ending: reading.Ending = None,
    allow_dropped: AllowDropped = 0.01,
    title: Annotated[str, typer.Option("--title", help="Heading of page and card; the file's name if empty.")] = "",
    work: Annotated[
        Path | None, typer.Option("--work", help="Working folder, which holds real patients; beside OUT if not given.")
    ] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE of any other key, as for run.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan with rough times and end.")] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Make a data set you may share: read, train, judge, decide and write; a second call takes up where one stopped."""
    options = reading.asked(locals())
    from adapcla.release.plan import ReleasePlan
    from adapcla.release.synthesize import released, settings_of

    settings = settings_of(
        source,
        path,
        options=options,
        changes={**assignments(setting or []), **({"evaluate.population": population} if population else {})},
        minutes=minutes,
        patients=patients,
        method=method,
        seed=seed,
        formats=listed(formats),
        min_patients=min_patients,
        rollup=rollup,
        repair=repair,
        anyway=anyway,
        model=model,
        birth_year=birth_year,
        allow_dropped=allow_dropped,
        accept=tuple(accept or ()),
        reason=reason,
        title=title or None,
    )
    plan = ReleasePlan(settings, out, work, overwrite)
    if dry_run:
        _show(plan, as_json)
        return
    plan.run()
    _tell(plan, released(plan), as_json)


def _show(plan: ReleasePlan, as_json: bool) -> None:
    """Print the steps with their state and rough time."""
    from adapcla.cli.run import show_steps

    show_steps(plan.steps, plan.root, plan.settings.data, as_json, f"then the release: {plan.out}")


def _tell(plan: ReleasePlan, made: Release, as_json: bool) -> None:
    """Say what came of it; a gate that was not met is an error with its reasons and what to do."""
    from adapcla.pipeline.estimate import clock
    from adapcla.release.summary import advice, indicators
    from adapcla.report.gate_words import TO_DO, words_of

    told = plan.summary()
    shown = indicators(told)
    if as_json:
        emit(
            {
                "out": None if made.folder is None else str(made.folder),
                "page": str(made.page),
                "work": str(plan.root),
                "passed": made.passed,
                "model": told.model_passed,
                "tries": len(told.attempts),
                "status": {one.key: {**one._asdict(), "tone": one.tone} for one in shown},
                "advice": advice(told).sentence,
                "reasons": list(made.reasons),
            }
        )
    else:
        for one in shown:
            typer.echo(f"{one.outcome:>8}  {one.title}: {one.value} {one.unit}. {one.sentence}")
        typer.echo(f"Recommended use: {advice(told).sentence}")
        if made.folder is not None:
            typer.echo(f"{made.folder}: {made.cohort.n_patients:,} synthetic patients; open {made.page}")
    later = "a second call resumes from it; delete it when you no longer need to resume"
    say(f"{plan.root} holds real patients: {later}")
    took = sum(sum(each.seconds.values()) for each in told.attempts)
    say(f"took {clock(took)}, excluding reading and writing; --minutes {plan.settings.minutes:g}")
    if plan.settings.model and made.passed and not told.model_passed:
        broken = ", ".join(words_of(line).title for line in told.chosen.model_lines if not line.passed)
        say(f"the model was not written: attacks on it succeed ({broken or 'none could be assessed'})")
    if not made.passed:
        where = "nothing was released" if made.folder is None else f"{made.folder} was written anyway"
        todo = [] if plan.settings.repair else ["--repair, which does the following by itself"]
        raise GateError(
            "\n".join(
                [
                    f"refused: {where}",
                    *(f"- {reason}" for reason in made.reasons),
                    "to do: " + "; ".join([*todo, *TO_DO]) + f"; all scores are on {made.page}",
                ]
            )
        )
