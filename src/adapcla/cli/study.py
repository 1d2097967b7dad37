"""Verbs about experiments: `run` and `report`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapcla import engine
from adapcla.cli.options import AsJson, Cluster, DryRun, Given, Overwrite, Verb, emit
from adapcla.cli.release import show_steps
from adapcla.errors import UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from adapcla.study.spec import StudySpec

DEMONSTRATION = "demo"


def run(
    given: Given,
    experiment: Annotated[
        str, typer.Argument(help="TOML file; `demo`, or nothing, is the demonstration on simulated patients.")
    ] = "",
    out: Annotated[Path, typer.Option("--out", help="Folder; the experiment gets a folder of its name in it.")] = Path(
        "runs"
    ),
    cluster: Cluster = "local",
    dry_run: DryRun = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Do all steps again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment: prepare, train, sample, evaluate and analyse what is missing; its last line is the page.

    Finished steps with the same settings are kept. --set changes any setting of the TOML file, such as
    --set fit.settings.width=64, --set 'evaluate.suites=["tail"]' or --set external.NAME=FOLDER.
    """
    from adapcla.study.runner import StudyPlan

    plan = StudyPlan(study_of(experiment, given.settings), out)
    if dry_run:
        patients = plan.spec.sample.patients
        show_steps(plan.steps, plan.root, plan.spec.data, patients, cluster, as_json, f"the page: {plan.report}")
        return
    if overwrite:
        plan.forget()
    with engine.cluster(cluster):
        page = plan.run()
    if as_json:
        failed = [f"{row} seed {seed}: {why}" for (row, seed), why in plan.failed.items()]
        about = {"experiment": plan.spec.name, "fingerprint": plan.spec.fingerprint(), "failed": failed}
        emit({"report": str(page), "scores": str(page.parent / "tables" / "scores.csv"), **about})
    else:
        typer.echo(str(page))


def study_of(experiment: str, given: dict[str, Any]) -> StudySpec:
    """The study of a file, of the demonstration, or of a cohort folder, with the settings that were given."""
    from importlib.resources import as_file, files

    from adapcla.pipeline.settings import RunOptions, settings_from
    from adapcla.study.runner import method_names
    from adapcla.study.spec import read_study, study_from

    own = {name: value for name, value in given.items() if name in RunOptions.model_fields}
    asked = settings_from(RunOptions, own, source="run")
    cohort = None if asked.cohort is None else Path(asked.cohort).resolve()
    if any(seed < 1 for seed in asked.seeds):
        raise UsageError("--seeds: expected whole numbers above 0 with commas between them")
    changes: dict[str, Any] = {
        "data": None if cohort is None else {"source": "cohort", "path": str(cohort)},
        "fit.methods": method_names(",".join(asked.methods)) if asked.methods else None,
        "fit.seeds": tuple(dict.fromkeys(asked.seeds)) or None,
        "evaluate.quick": asked.quick or None,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    changes |= {name: value for name, value in given.items() if name not in own}
    if not experiment and cohort is not None:
        name = re.sub(r"[^a-z0-9.]+", "-", cohort.name.lower()).strip("-.") or "cohort"
        return study_from({"name": name}, changes, "options")
    if experiment not in ("", DEMONSTRATION):
        return read_study(experiment, changes)
    with as_file(files("adapcla.study") / f"{DEMONSTRATION}.toml") as path:
        return read_study(path, changes)


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


def _run_group() -> type[BaseModel]:
    from adapcla.pipeline.settings import RunOptions

    return RunOptions


VERBS = (
    Verb(
        "run",
        run,
        _run_group,
        former={
            "--external": "--set external.NAME=FOLDER",
            "--suites": "--set 'evaluate.suites=[\"tail\"]'",
            "--analyse": "--set 'analyse.parts=[\"probes\"]'",
            "--patients": "--set sample.patients=N",
            "--split-seed": "--set split.seed=N",
            "--control": "--set split.control=SHARE",
            "--resume": "leave it out: finished steps are always kept, unless --overwrite is given",
        },
    ),
    Verb("report", report),
)
