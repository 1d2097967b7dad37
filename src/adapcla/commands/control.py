"""`adapcla control`: a population with a prevalence that somebody asked for, by the paper's rule and by closed loop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from adapcla.commands.options import AsJson, Out, Overwrite, Seed, emit
from adapcla.console import say

MODES = ("paper", "calibrated")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("control")(control)


def control(
    run: Annotated[Path, typer.Argument(help="Folder of a trained run or saved model.")],
    toward: Annotated[Path, typer.Option("--toward", help="Prevalence file (code, prevalence) or cohort folder.")],
    patients: Annotated[int, typer.Option("--patients", min=1, help="Number of patients.")],
    out: Out,
    seed: Seed = 1,
    strength: Annotated[float, typer.Option("--strength", help="0 no control, 1 the full shift.")] = 1.0,
    missing: Annotated[str, typer.Option("--missing", help="Codes without a target: keep or drop.")] = "keep",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Sample towards a target in both modes and show, code by code, what was requested and what came out."""
    from dataclasses import asdict

    from adapcla import files
    from adapcla.generators.generator import load
    from adapcla.generators.shards import write_sample
    from adapcla.generators.steering import closed_loop, steer
    from adapcla.report.figures.control import requested_against_achieved
    from adapcla.report.style import save_both
    from adapcla.scaffold.steering import achieved

    files.refuse_populated(out, overwrite)
    generator = load(run)
    summary: dict[str, Any] = {"strength": strength, "patients": patients}
    got = {}
    model = generator.model
    steering = steer(model, toward, strength, missing)
    for mode in MODES:
        if mode == "calibrated":
            steering = closed_loop(model, steering, seed)
        cohort = write_sample(model, patients, seed, out / mode, steering=steering, overwrite=overwrite)
        got[mode] = cohort.prevalence()
        summary[mode] = asdict(achieved(steering.target, got[mode], cohort.n_visits))
    summary["unknown_codes"] = len(steering.unknown)
    summary["unreachable_codes"] = len(steering.unreachable)
    _write_table(out / "control.csv", generator.prevalence_, steering.target, got)
    figure = requested_against_achieved(generator.prevalence_, steering.target, got, cohort.n_visits)
    save_both(figure, out / "control")
    files.write_json(out / "summary.json", summary)
    if as_json:
        emit(summary)
    else:
        for mode in MODES:
            near, n = summary[mode]["inside_sampling_error"], summary[mode]["n_judged"]
            say(f"{mode}: {near:.1%} of {n} judged codes came out inside sampling error")
        say(f"tables and figure: {out}/control.csv, control.png")


def _write_table(path: Path, source: Any, target: Any, got: dict[str, Any]) -> None:
    """Requested and achieved prevalence of every code, one row a code."""
    import polars as pl

    columns = {"code": target.vocabulary.tokens, "source": source.share, "requested": target.share}
    columns |= {f"achieved_{mode}": prevalence.on(target.vocabulary).share for mode, prevalence in got.items()}
    pl.DataFrame(columns).with_columns(pl.col(pl.Float64).fill_nan(None)).write_csv(path)
