"""`adapcla synthesize`: from your table to a data set you may share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adapcla import engine
from adapcla.cli.options import AsJson, Cluster, DryRun, Given, Out, Overwrite, Verb, emit
from adapcla.console import say
from adapcla.errors import GateError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from adapcla.pipeline.settings import DataSettings
    from adapcla.pipeline.steps import Step
    from adapcla.release.plan import ReleasePlan
    from adapcla.release.settings import ReleaseSettings
    from adapcla.release.synthesize import Release


def synthesize(
    source: Annotated[
        str, typer.Argument(metavar="[SOURCE] PATH", help="A table, a source of `import` and its path, or simulated.")
    ],
    out: Out,
    given: Given,
    path: Annotated[str, typer.Argument(hidden=True)] = "",
    work: Annotated[
        Path | None, typer.Option("--work", help="Working folder, which holds real patients; beside OUT if not given.")
    ] = None,
    cluster: Cluster = "local",
    dry_run: DryRun = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Make a data set you may share from a table: read, train, sample, evaluate, decide and write.

    A second call resumes where the first one stopped.
    """
    from adapcla.release.plan import ReleasePlan
    from adapcla.release.synthesize import released, settings_of

    settings = settings_of(source, path, options=given.reading, changes=given.settings)
    plan = ReleasePlan(settings, out, work, overwrite)
    if dry_run:
        _show_source(settings, as_json)
        end = f"the release: {plan.out}"
        show_steps(plan.steps, plan.root, settings.data, settings.patients, cluster, as_json, end)
        if not as_json and (plan.steps[0].done or settings.data.source == "planted"):
            say(plan.effort(plan.attempts[0]).shortened or "there is time for all epochs")
        return
    with engine.cluster(cluster):
        plan.run()
    _report(plan, released(plan), as_json)


def _show_source(settings: ReleaseSettings, as_json: bool) -> None:
    """Say what the head of a table is taken for, before the plan that reads all of it."""
    data = settings.data
    if as_json or data.source in ("planted", "cohort"):
        return
    from adapcla.cli.data import show_preview
    from adapcla.io.preview import preview

    show_preview(preview(data.source, Path(data.path), settings.allow_dropped, **data.options), as_json=False)


def show_steps(
    steps: Sequence[Step], root: Path, data: DataSettings, patients: int, cluster: str, as_json: bool, end: str
) -> None:
    """Print the steps of a plan with their state and rough time, what they need, and what comes in the end."""
    from adapcla.pipeline.estimate import clock, sizes_of, steps_need
    from adapcla.pipeline.steps import expected_seconds

    timed = list(zip(steps, expected_seconds(steps), strict=True))
    left = sum(seconds for step, seconds in timed if not step.done)
    with engine.cluster(cluster):
        need = steps_need(steps, sizes_of(data, steps[0].record), patients, engine.n_workers())
    if as_json:
        listed = [{"stage": s.stage, "what": s.what, "done": s.done, "seconds": round(t)} for s, t in timed]
        emit({"steps": listed, "seconds": round(left), "need": need._asdict(), "out": str(root)})
        return
    for step, seconds in timed:
        typer.echo(f"{'done' if step.done else clock(seconds):>8}  {step.stage:<9} {step.what}")
    if data.source != "planted" and not steps[0].done:
        typer.echo("          (the data is not prepared yet: times are those of a middling cohort)")
    typer.echo(f"{clock(left):>8}  in all, roughly, on two quiet cores; then {end}")
    typer.echo(f"          {need.sentence}")


def _report(plan: ReleasePlan, made: Release, as_json: bool) -> None:
    """Say what came of it; a gate that was not met is an error with its reasons and what to do."""
    from adapcla.pipeline.estimate import clock
    from adapcla.release.summary import advice, indicators, what_helps
    from adapcla.report.gate_words import words_of

    about = plan.summary()
    shown = indicators(about)
    if as_json:
        emit(
            {
                "out": None if made.folder is None else str(made.folder),
                "page": str(made.page),
                "work": str(plan.root),
                "passed": made.passed,
                "model": about.model_passed,
                "tries": len(about.attempts),
                "status": {one.key: {**one._asdict(), "tone": one.tone} for one in shown},
                "advice": advice(about).sentence,
                "reasons": list(made.reasons),
            }
        )
    else:
        for one in shown:
            typer.echo(f"{one.outcome:>8}  {one.title}: {one.value} {one.unit}. {one.sentence}")
        typer.echo(f"Recommended use: {advice(about).sentence}")
        if made.folder is not None:
            typer.echo(f"{made.folder}: {made.cohort.n_patients:,} synthetic patients; open {made.page}")
    later = "a second call resumes from it; delete it when you no longer need to resume"
    say(f"{plan.root} holds real patients: {later}")
    took = sum(sum(each.seconds.values()) for each in about.attempts)
    say(f"took {clock(took)}, excluding reading and writing; --minutes {plan.settings.minutes:g}")
    if plan.settings.model and made.passed and not about.model_passed:
        broken = ", ".join(words_of(line).title for line in about.chosen.model_lines if not line.passed)
        say(f"the model was not written: attacks on it succeed ({broken or 'none could be assessed'})")
    if not made.passed:
        todo = [] if plan.settings.repair else ["--repair, which does the following by itself"]
        reasons = [f"- {reason}" for reason in made.reasons]
        steps = "; ".join([*todo, *what_helps(about.chosen)])
        raise GateError(
            "\n".join(["refused: nothing was released", *reasons, f"to do: {steps}; all scores are on {made.page}"])
        )


def _settings() -> type[BaseModel]:
    from adapcla.release.settings import ReleaseSettings

    return ReleaseSettings


VERBS = (Verb("synthesize", synthesize, _settings, reads=True),)
