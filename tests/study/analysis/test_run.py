"""The analyses of an experiment, from folder to folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from adapcla.errors import InputError, UsageError
from adapcla.files import read_json
from adapcla.io import simulator
from adapcla.report.figures.cohorts import rarest
from adapcla.report.style import panels
from adapcla.study.analysis.kernel import eigenvalue_table, similarity_table
from adapcla.study.analysis.probes import summary_table
from adapcla.study.analysis.run import PARTS, ResultFolder, observed_fit, open_trajectory, save_trajectory
from adapcla.study.runner import StudyPlan
from adapcla.study.spec import ANALYSES, AnalysisSettings, study_from


# ---- the folder of results -------------------------------------------------------------------------------------
def test_tables_figures_pages_and_a_summary(tmp_path):
    folder = ResultFolder(tmp_path / "out")
    folder.table("deep/numbers", pl.DataFrame({"x": [1.0, float("nan")]}), how="by hand")
    with panels() as (figure, _):
        folder.figure("drawn", (figure, "a caption"))
    folder.text("deep/page.md", "# A page")
    folder.facts["found"] = 3
    folder.close()
    names = {path.relative_to(folder.out).as_posix() for path in folder.out.rglob("*") if path.is_file()}
    written = {"deep/numbers.csv", "deep/numbers.json", "deep/page.md"}
    assert names == {*written, "drawn.svg", "drawn.png", "summary.json"}
    assert read_json(folder.out / "summary.json") == {"captions": {"drawn": "a caption"}, "found": 3}
    # What is not a number is missing, in both forms.
    assert pl.read_csv(folder.out / "deep" / "numbers.csv")["x"].to_list() == [1.0, None]
    content = read_json(folder.out / "deep" / "numbers.json")
    assert content == {"notes": {"how": "by hand"}, "columns": ["x"], "rows": [{"x": 1.0}, {"x": None}]}


# ---- observed fits ---------------------------------------------------------------------------------------------
def test_an_observed_fit_uses_its_whole_budget(world, probes):
    """A learning rate that makes everything worse would stop an ordinary fit early."""
    changes = {**SMALL, "passes": 2, "learning_rate": 1.0, "validations": 30, "schedule": "none"}
    run = observed_fit(world.train, world.valid, probes, changes=changes, looks=3)
    assert run.generator.outcome_.steps == run.generator.outcome_.n_steps
    assert run.kernels == ()
    assert all(torch.isfinite(p).all() for p in run.generator.model.network.parameters())


# ---- saved trajectory ----------------------------------------------------------------------------------------
def test_a_trajectory_comes_back_with_its_kernels_and_gives_the_same_tables(tmp_path, probed, probes):
    save_trajectory(tmp_path / "t", probes, probed.trajectory, probed.kernels)
    again = open_trajectory(tmp_path / "t")
    assert again.probes.probes == probes.probes and len(again.kernels) == len(probed.kernels) > 0
    assert np.array_equal(again.trajectory.log_p, probed.trajectory.log_p)
    assert np.array_equal(again.trajectory.truth, probed.trajectory.truth)
    before = summary_table(probes, probed.trajectory, (5, 12))
    assert summary_table(again.probes, again.trajectory, (5, 12)).equals(before)
    for table in (similarity_table, eigenvalue_table):
        assert table(*again).equals(table(probes, probed.trajectory, probed.kernels))


def test_no_patient_is_written(tmp_path, probed, probes):
    folder = save_trajectory(tmp_path / "t", probes, probed.trajectory)
    names = {path.name for path in folder.iterdir()}
    assert "patient_starts.npy" not in names and "codes.npy" not in names
    assert open_trajectory(folder).probes.contexts is None


def test_a_damaged_trajectory_is_named(tmp_path, probed, probes):
    folder = save_trajectory(tmp_path / "t", probes, probed.trajectory)
    (folder / "log_p.npy").write_bytes(b"nothing")
    with pytest.raises(InputError, match="log_p"):
        open_trajectory(folder)
    with pytest.raises(InputError):
        open_trajectory(tmp_path / "nowhere")


# ---- analyses ------------------------------------------------------------------------------------------------
SMALL = {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 64, "validations": 2}
WORLD = {"planted": {"patients": 900, "codes": 150}}


def plan_of(out: Path, methods=(), data=WORLD, **analyse) -> StudyPlan:
    """A plan of analyses alone: nothing is scored, and only what is named is trained."""
    fit = {"methods": list(methods), "settings": SMALL}
    content = {"name": "a", "data": data, "fit": fit, "evaluate": {"suites": []}, "sample": {"patients": 60}}
    return StudyPlan(study_from({**content, "analyse": {"contexts": [4, 8], **analyse}}), out)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are composed but not rendered, and there is no page: other tests do that."""

    def empty(_: object, stem: Path) -> None:
        for ending in ("svg", "png"):
            path = Path(f"{stem}.{ending}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    monkeypatch.setattr("adapcla.report.style.save_both", empty)
    monkeypatch.setattr("adapcla.study.page.write_study_page", lambda studies, folder: folder / "report.html")


def test_every_analysis_that_can_be_asked_for_exists():
    assert set(PARTS) == set(ANALYSES)
    assert AnalysisSettings(parts=ANALYSES).parts == ANALYSES


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Probes, kernel and schedules of one world, with figures and the page."""
    out = tmp_path_factory.mktemp("observed")
    plan = plan_of(out, parts=["probes", "kernel", "schedules"], schedules=["base", "none"])
    assert [step.stage for step in plan.steps] == ["prepare", "probe", "probe", "analyse", "analyse", "analyse"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adapcla.study.page._cohort_figures", lambda *_: iter(()))
        plan.run()
    return out


def test_each_part_leaves_tables_figures_captions_and_facts(observed):
    folder = observed / "a" / "analysis"
    for part, figure in (("probes", "probe_dynamics"), ("kernel", "kernel"), ("schedules", "schedules_endpoint")):
        assert figure in read_json(folder / part / "summary.json")["captions"]
        assert (folder / part / f"{figure}.svg").stat().st_size > 1000
    names = {path.name for path in (folder / "probes").iterdir()}
    assert {"probe_summary.csv", "probe_separation.json", "probe_curves.csv", "endpoint.csv"} <= names
    assert read_json(folder / "probes" / "summary.json")["contexts"] >= 1
    kernel = pl.read_csv(folder / "kernel" / "kernel_correlations.csv")
    assert set(kernel["contexts"]) == {4, 8} and set(kernel["group"]) == {"all", "shared"}
    assert "context" not in pl.read_csv(folder / "kernel" / "kernel_similarity.csv").columns
    assert set(pl.read_csv(folder / "schedules" / "schedules.csv")["schedule"]) == {"base", "none"}
    page = (observed / "a" / "report.html").read_text(encoding="utf-8")
    assert "analysis-probe_summary.csv" in page and "trajectories" not in page


@pytest.mark.usefixtures("undrawn")
def test_a_part_more_trains_nothing_that_was_observed_already(observed, monkeypatch):
    for name, value in {"BOUND_CODES": 120, "SETTING_CODES": 6, "HORIZONS": (20,)}.items():
        monkeypatch.setattr(f"adapcla.study.analysis.run.{name}", value)
    plan = plan_of(observed, parts=["probes", "kernel", "schedules", "bound"], schedules=["base", "none"])
    assert [step.what for step in plan.steps if step.stage == "probe" and not step.done] == []
    plan.run()
    facts = read_json(observed / "a" / "analysis" / "bound" / "summary.json")
    assert facts["bound crossed"] == 0
    assert facts["prior-shift identity off by"] < 1e-9 and facts["scaffold off centre by"] < 1e-9
    plan_of(observed, parts=["probes"]).run()
    assert not (observed / "a" / "analysis" / "kernel").exists()  # of an earlier run, and no longer listed


@pytest.mark.usefixtures("undrawn")
def test_cases_and_law_of_simulated_patients(tmp_path):
    world = simulator.simulate(patients=900, codes=150, seed=1)
    token = world.vocabulary.tokens[3]
    plan_of(tmp_path, ["adapcla", "marginal"], parts=["cases", "law"], codes=[token]).run()
    folder = tmp_path / "a" / "analysis"
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    assert {"cases/next_visit.csv", "cases/neighbours.csv", "cases/examples.md", "cases/neighbours.png"} <= names
    assert f"cases/codes/{token.replace('/', '-')}.md" in names
    methods = set(pl.read_csv(folder / "cases" / "next_visit.csv")["method"])
    assert {"adapcla", "truth", "last visit again"} <= methods
    law = pl.read_csv(folder / "law" / "law.csv")
    assert {"prevalence", "adapcla"} <= set(law["method"]) and set(law["world"]) == {"own", "another"}


@pytest.mark.usefixtures("undrawn")
def test_rare_codes_are_pictured_with_patients_generated_to_have_them(tmp_path, monkeypatch):
    """Of the codes that thirty held-out patients have, the two rarest; without a row that can generate them, none."""
    monkeypatch.setattr("adapcla.study.analysis.run.PATIENTS_EACH", 40)
    plan_of(tmp_path, ["adapcla"], parts=["diseases"]).run()
    folder = tmp_path / "a" / "analysis" / "diseases"
    captions = read_json(folder / "summary.json")["captions"]
    test = simulator.simulate(patients=900, codes=150, seed=1).split(seed=4)[2]
    rare = [test.vocabulary.tokens[code].replace("/", "-") for code in rarest(test, 30, 2)]
    assert list(captions) == rare and all((folder / f"{name}.svg").is_file() for name in rare)
    assert all("40 that adapcla generated" in caption for caption in captions.values())
    plan_of(tmp_path / "lone", ["marginal"], parts=["diseases"]).run()
    assert not read_json(tmp_path / "lone" / "a" / "analysis" / "diseases" / "summary.json")["captions"]


@pytest.mark.usefixtures("undrawn")
def test_single_patients_of_other_data_are_never_shown(tmp_path):
    """Simulated patients, said to be read from a table."""
    cohort = replace(simulator.simulate(patients=300, codes=80, seed=1), card={"source": "table"}).save(tmp_path / "c")
    plan_of(tmp_path, ["adapcla"], {"source": "cohort", "path": str(cohort)}, parts=["cases"]).run()
    folder = tmp_path / "a" / "analysis" / "cases"
    assert (folder / "next_visit.csv").is_file() and not list(folder.rglob("*example*"))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"parts": ["probes"], "contexts": [0]}, "analyse.contexts: expected whole numbers above 0"),
        ({"parts": ["schedules"], "schedules": ["sometimes"]}, "schedule 'sometimes'"),
        ({"parts": ["probes"], "method": "tailwise"}, "no one-shot logit"),
        ({"parts": ["probes"], "method": "adapkla"}, "did you mean 'adapcla'"),
    ],
)
def test_what_cannot_be_analysed_is_said_before_anything_is_done(tmp_path, settings, match):
    with pytest.raises(UsageError, match=match):
        plan_of(tmp_path, **settings)
    assert not any(tmp_path.iterdir())


def test_the_analysis_of_a_finished_run_is_on_its_page(finished_run):
    assert (finished_run / "analysis" / "bound" / "bound.csv").is_file()
    page = (finished_run / "report.html").read_text(encoding="utf-8")
    assert "analysis-bound.csv" in page
