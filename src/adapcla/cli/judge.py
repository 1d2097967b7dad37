"""`adapcla judge`: what programs that others wrote say of synthetic patients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adapcla.cli.options import AsJson, Out, Overwrite, Seed, emit, listed
from adapcla.console import say


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("judge")(judge)


def judge(
    subject: Annotated[
        Path, typer.Argument(metavar="SYNTHETIC", help="Synthetic cohort, or a release that holds one.")
    ],
    train: Annotated[Path, typer.Option("--train", help="Cohort the generator learned from.")],
    test: Annotated[Path, typer.Option("--test", help="Cohort of real patients it did not see.")],
    out: Out,
    judges: Annotated[str, typer.Option("--judges", help="Names with commas; all if empty.")] = "",
    patients: Annotated[int, typer.Option("--patients", min=50, help="Most patients that judges are shown.")] = 2_000,
    dqd: Annotated[
        Path | None, typer.Option("--dqd", help="Sources of OHDSI's Data Quality Dashboard; its checks need them.")
    ] = None,
    python: Annotated[
        Path | None, typer.Option("--python", help="Interpreter for judges of its version, if not on PATH.")
    ] = None,
    environments: Annotated[
        Path | None, typer.Option("--environments", help="Folder of the judges' environments; the cache if not given.")
    ] = None,
    seed: Seed = 1,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Ask outside judges about synthetic and about held-out real patients, each in an environment of its own."""
    from dataclasses import asdict

    from adapcla.data import Cohort
    from adapcla.files import refuse_populated
    from adapcla.judges.environments import Environments, default_folder
    from adapcla.judges.inputs import subject_in
    from adapcla.judges.panel import judged, table_of
    from adapcla.judges.table import judges_of

    refuse_populated(out, overwrite)
    chosen = judges_of(listed(judges))
    synthetic, learned_from, unseen = subject_in(subject), Cohort.open(train), Cohort.open(test)
    verdicts = judged(
        synthetic,
        learned_from,
        unseen,
        chosen,
        Environments(environments or default_folder(), python),
        out,
        subject=subject.resolve().name,
        extras={} if dqd is None else {"dqd": str(dqd.resolve())},
        seed=seed,
        most=patients,
        overwrite=overwrite,
    )
    if as_json:
        emit({"out": str(out), "verdicts": [asdict(verdict) for verdict in verdicts]})
    else:
        typer.echo(table_of(verdicts).markdown())
    silent = len({verdict.judge for verdict in verdicts if not verdict.metric})
    say(f"{out}: {len(chosen)} judges were asked, {silent} gave no verdict")
