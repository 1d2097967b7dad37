"""`adapcla run`: a whole experiment from one TOML or from options, ending with its page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapcla.cli.options import AsJson, Quick, assignments, emit, listed, pairs, whole_numbers
from adapcla.errors import UsageError

if TYPE_CHECKING:
    from adapcla.pipeline.settings import DataSettings
    from adapcla.pipeline.steps import Step
    from adapcla.study.runner import StudyPlan
    from adapcla.study.spec import StudySpec

DEMONSTRATION = "demo"


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("run")(run)


def run(
    experiment: Annotated[
        str, typer.Argument(help="TOML file; `demo`, or nothing, is the demonstration on a small made-up world.")
    ] = "",
    out: Annotated[Path, typer.Option("--out", help="Folder; the experiment gets a folder of its name in it.")] = Path(
        "runs"
    ),
    cohort: Annotated[
        Path | None, typer.Option("--cohort", help="Cohort folder, in place of the data of a file.")
    ] = None,
    methods: Annotated[str | None, typer.Option("--methods", help="Names with commas, all, or none.")] = None,
    seeds: Annotated[str | None, typer.Option("--seeds", help="Fit seeds, with commas.")] = None,
    external: Annotated[
        list[str] | None, typer.Option("--external", help="NAME=PATH of a synthetic cohort made elsewhere.")
    ] = None,
    suites: Annotated[str | None, typer.Option("--suites", help="tail, fidelity, utility, … with commas.")] = None,
    analyse: Annotated[
        str | None, typer.Option("--analyse", help="probes, schedules, kernel, bound, cases, law, with commas.")
    ] = None,
    patients: Annotated[int | None, typer.Option("--patients", min=0, help="Patients per sample; 0: as train.")] = None,
    split_seed: Annotated[int | None, typer.Option("--split-seed", help="Seed of the patient split.")] = None,
    control: Annotated[
        float | None, typer.Option("--control", help="Share of patients reserved for privacy tests.")
    ] = None,
    quick: Quick = False,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE of any other key, such as fit.settings.width=64.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan with rough times and end.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep finished steps with the same settings; this is the default.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Do all steps again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Prepare, train, sample, evaluate, analyse and report what is missing; the last line is the path of the page."""
    from adapcla.study.runner import StudyPlan, chosen_methods

    if resume and overwrite:
        raise UsageError("--resume and --overwrite exclude each other")
    changes = {
        "data": None if cohort is None else {"source": "cohort", "path": str(cohort.resolve())},
        "fit.methods": None if methods is None else chosen_methods(methods),
        "fit.seeds": None if seeds is None else whole_numbers(seeds, "--seeds"),
        "evaluate.suites": None if suites is None else listed(suites),
        "evaluate.quick": quick or None,
        "analyse.parts": None if analyse is None else listed(analyse),
        "sample.patients": patients,
        "split.seed": split_seed,
        "split.control": control,
        **{f"external.{name}": path for name, path in pairs(external or [], "--external", "NAME=PATH")},
    }
    given = {name: value for name, value in changes.items() if value is not None}
    asked = specification(experiment, cohort, {**given, **assignments(setting or [])})
    plan = StudyPlan(asked, out)
    if dry_run:
        _show(plan, as_json)
        return
    if overwrite:
        plan.forget()
    page = plan.run()
    if as_json:
        failed = [f"{row} seed {seed}: {why}" for (row, seed), why in plan.failed.items()]
        about = {"experiment": plan.spec.name, "fingerprint": plan.spec.fingerprint(), "failed": failed}
        emit({"report": str(page), "scores": str(page.parent / "tables" / "scores.csv"), **about})
    else:
        typer.echo(str(page))


def specification(experiment: str, cohort: Path | None, changes: dict[str, Any]) -> StudySpec:
    """The specification of a file, of the demonstration, or of a cohort folder, with some dotted keys changed."""
    from importlib.resources import as_file, files

    from adapcla.study.spec import read_study, study_from

    if not experiment and cohort is not None:
        name = re.sub(r"[^a-z0-9.]+", "-", cohort.resolve().name.lower()).strip("-.") or "cohort"
        return study_from({"name": name}, changes, "options")
    if experiment not in ("", DEMONSTRATION):
        return read_study(experiment, changes)
    with as_file(files("adapcla.study") / f"{DEMONSTRATION}.toml") as path:
        return read_study(path, changes)


def _show(plan: StudyPlan, as_json: bool) -> None:
    """Print the steps with their state and rough time."""
    show_steps(plan.steps, plan.root, plan.spec.data, as_json, f"then the page: {plan.report}")


def show_steps(steps: Sequence[Step], root: Path, data: DataSettings, as_json: bool, end: str) -> None:
    """Print the steps of any plan with their state and rough time, and what comes in the end."""
    from adapcla.pipeline.estimate import clock
    from adapcla.pipeline.steps import expected_seconds

    timed = list(zip(steps, expected_seconds(steps), strict=True))
    left = sum(seconds for step, seconds in timed if not step.done)
    if as_json:
        told = [{"stage": s.stage, "what": s.what, "done": s.done, "seconds": round(t)} for s, t in timed]
        emit({"steps": told, "seconds": round(left), "out": str(root)})
        return
    for step, seconds in timed:
        typer.echo(f"{'done' if step.done else clock(seconds):>8}  {step.stage:<9} {step.what}")
    if data.source != "planted" and not steps[0].done:
        typer.echo("          (the data is not prepared yet: times are those of a middling cohort)")
    typer.echo(f"{clock(left):>8}  in all, roughly, on two quiet cores; {end}")
