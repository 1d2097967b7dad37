"""`adapcla run`: a whole experiment from one TOML, ending with its page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adapcla.commands.options import AsJson, assignments, emit

if TYPE_CHECKING:
    from adapcla.experiment.plan import Plan


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("run")(run)


def run(
    experiment: Annotated[Path, typer.Argument(help="TOML file, such as experiments/demo.toml.")],
    out: Annotated[Path, typer.Option("--out", help="Folder; the experiment gets a folder of its name in it.")] = Path(
        "runs"
    ),
    setting: Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE, such as data.path=/mimic.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan with rough times and end.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep what is done with the same settings; so it is without this, too.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Forget what is done and begin again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Prepare, train, sample, evaluate, analyse and report whatever is missing; the last line is the page's place."""
    from adapcla.errors import UsageError
    from adapcla.experiment.plan import Plan
    from adapcla.experiment.spec import read_spec

    if resume and overwrite:
        raise UsageError("--resume and --overwrite exclude each other")
    plan = Plan(read_spec(experiment, assignments(setting or [])), out)
    if dry_run:
        _show(plan, as_json)
        return
    if overwrite:
        plan.forget()
    page = plan.run()
    if as_json:
        emit({"report": str(page), "experiment": plan.spec.name, "fingerprint": plan.spec.fingerprint()})
    else:
        typer.echo(str(page))


def _show(plan: Plan, as_json: bool) -> None:
    """Print the steps with their state and rough time."""
    from adapcla.experiment.estimate import clock

    timed = list(zip(plan.steps, plan.expected(), strict=True))
    left = sum(seconds for step, seconds in timed if not step.done)
    if as_json:
        steps = [{"stage": s.stage, "what": s.what, "done": s.done, "seconds": round(t)} for s, t in timed]
        emit({"steps": steps, "seconds": round(left), "out": str(plan.folder.root)})
        return
    for step, seconds in timed:
        typer.echo(f"{'done' if step.done else clock(seconds):>8}  {step.stage:<9} {step.what}")
    if plan.spec.data.source != "planted" and not plan.steps[0].done:
        typer.echo("          (the data is not prepared yet: times are those of a middling cohort)")
    typer.echo(f"{clock(left):>8}  in all, roughly, on two quiet cores; then the page: {plan.folder.report}")
