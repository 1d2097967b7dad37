"""The analyses of an experiment, from folder to folder."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from adapcla.errors import ExistsError, UsageError
from adapcla.files import read_json
from adapcla.generation import generator_for
from adapcla.io import simulator as planted
from adapcla.report.figures.cohorts import rarest
from adapcla.report.style import panels
from adapcla.study.analysis.probes import next_visits
from adapcla.study.analysis.run import PARTS, REAL, ResultFolder, write_code_page, write_examples, write_neighbours
from adapcla.study.runner import StudyPlan
from adapcla.study.spec import ANALYSES, AnalysisSettings, study_from


# ---- analysis folder -----------------------------------------------------------------------------------------
def test_tables_figures_pages_and_a_summary(tmp_path):
    folder = ResultFolder(tmp_path / "out")
    folder.table("told", pl.DataFrame({"x": [1]}), how="by hand")
    with panels() as (figure, _):
        folder.figure("drawn", (figure, "a caption"))
    folder.text("deep/page.md", "# A page")
    folder.facts["found"] = 3
    folder.close()
    names = {path.relative_to(folder.out).as_posix() for path in folder.out.rglob("*") if path.is_file()}
    assert names == {"told.csv", "told.json", "drawn.svg", "drawn.png", "deep/page.md", "summary.json"}
    assert json.loads((folder.out / "summary.json").read_text()) == {"captions": {"drawn": "a caption"}, "found": 3}


def test_a_table_is_written_twice_and_missing_numbers_are_missing(tmp_path):
    ResultFolder(tmp_path).table("deep/told", pl.DataFrame({"x": [1.0, float("nan")]}), how="by hand")
    assert pl.read_csv(tmp_path / "deep" / "told.csv")["x"].to_list() == [1.0, None]
    content = json.loads((tmp_path / "deep" / "told.json").read_text())
    assert content == {"notes": {"how": "by hand"}, "columns": ["x"], "rows": [{"x": 1.0}, {"x": None}]}


def test_a_populated_folder_is_refused_at_once(tmp_path):
    (tmp_path / "old").write_text("mine")
    with pytest.raises(ExistsError):
        ResultFolder(tmp_path)
    assert ResultFolder(tmp_path, overwrite=True).out == tmp_path


# ---- case pages ----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def setting():
    parts = planted.simulate(patients=300, codes=80, seed=1).split(seed=4)
    return parts, generator_for("marginal").fit(parts.train, parts.valid), next_visits(parts.test)


@pytest.mark.parametrize(("made_up", "folder"), [(True, ""), (False, REAL)])
def test_single_real_patients_lie_apart_and_are_named_so(setting, tmp_path, capsys, made_up, folder):
    parts, run, cases = setting
    write_examples(ResultFolder(tmp_path), cases, {"marginal": run}, parts.train.strata(), 1, made_up)
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {tmp_path / folder}
    assert ("never share it" in capsys.readouterr().err) == (not made_up)


def test_neighbours_and_a_page(setting, tmp_path):
    parts, run, cases = setting
    folder = ResultFolder(tmp_path)
    samples = {"marginal": run.sample(50)}
    write_neighbours(folder, parts.train, parts.test, samples)
    token = parts.train.vocabulary.tokens[0]
    write_code_page(folder, token, parts.train, parts.test, samples, {"marginal": run}, cases, None)
    assert (tmp_path / "neighbours.csv").exists() and (tmp_path / "neighbours.png").exists()
    assert token in (tmp_path / "codes" / f"{token.replace('/', '-')}.md").read_text()


# ---- analyses ------------------------------------------------------------------------------------------------
SMALL = {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 64, "validations": 2}
WORLD = {"planted": {"patients": 900, "codes": 150}}


def plan_of(out: Path, methods=(), data=WORLD, **asked) -> StudyPlan:
    """A plan of analyses alone: nothing is judged, and only what is named is trained."""
    fit = {"methods": list(methods), "settings": SMALL}
    analyse = {"contexts": [4, 8], **asked}
    content = {"name": "a", "data": data, "fit": fit, "evaluate": {"suites": []}, "sample": {"patients": 60}}
    return StudyPlan(study_from({**content, "analyse": analyse}), out)


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
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Probes, kernel and schedules of one world, with figures and the page."""
    out = tmp_path_factory.mktemp("watched")
    plan = plan_of(out, parts=["probes", "kernel", "schedules"], schedules=["base", "none"])
    assert [step.stage for step in plan.steps] == ["prepare", "probe", "probe", "analyse", "analyse", "analyse"]
    plan.run()
    return out


def test_each_part_leaves_tables_figures_captions_and_facts(watched):
    folder = watched / "a" / "analysis"
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
    page = (watched / "a" / "report.html").read_text(encoding="utf-8")
    assert "analysis-probe_summary.csv" in page and "trajectories" not in page


@pytest.mark.usefixtures("undrawn")
def test_a_part_more_trains_nothing_that_was_watched_already(watched, monkeypatch):
    asked = {"parts": ["probes", "kernel", "schedules", "bound"], "schedules": ["base", "none"]}
    plan = plan_of(watched, **asked, bound_codes=6, bound_world=120, horizons=[20])
    assert [step.what for step in plan.steps if step.stage == "probe" and not step.done] == []
    plan.run()
    facts = read_json(watched / "a" / "analysis" / "bound" / "summary.json")
    assert facts["bound crossed"] == 0
    assert facts["prior-shift identity off by"] < 1e-9 and facts["scaffold off centre by"] < 1e-9
    plan_of(watched, parts=["probes"]).run()
    assert not (watched / "a" / "analysis" / "kernel").exists()  # of an earlier run, and no longer asked for


@pytest.mark.usefixtures("undrawn")
def test_a_saved_trajectory_stands_in_for_a_watched_fit(watched, tmp_path):
    saved = watched / "a" / "analysis" / "trajectories" / "base" / "seed1"
    plan = plan_of(tmp_path, parts=["probes"], trajectory=str(saved))
    assert [step.stage for step in plan.steps] == ["prepare", "analyse"]
    plan.run()
    again = pl.read_csv(tmp_path / "a" / "analysis" / "probes" / "probe_summary.csv")
    assert again.equals(pl.read_csv(watched / "a" / "analysis" / "probes" / "probe_summary.csv"))


@pytest.mark.usefixtures("undrawn")
def test_cases_and_law_of_a_made_up_world(tmp_path):
    world = planted.simulate(patients=900, codes=150, seed=1)
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
def test_rare_codes_are_pictured_with_patients_who_were_asked_to_have_them(tmp_path):
    """Of the codes that thirty held-out patients have, the two rarest; without a row that can be asked, none."""
    plan_of(tmp_path, ["adapcla"], parts=["diseases"], asked_for=40).run()
    folder = tmp_path / "a" / "analysis" / "diseases"
    captions = read_json(folder / "summary.json")["captions"]
    test = planted.simulate(patients=900, codes=150, seed=1).split(seed=4)[2]
    rare = [test.vocabulary.tokens[code].replace("/", "-") for code in rarest(test, 30, 2)]
    assert list(captions) == rare and all((folder / f"{name}.svg").is_file() for name in rare)
    assert all("40 that adapcla wrote" in caption for caption in captions.values())
    plan_of(tmp_path / "lone", ["marginal"], parts=["diseases"]).run()
    assert not read_json(tmp_path / "lone" / "a" / "analysis" / "diseases" / "summary.json")["captions"]


@pytest.mark.usefixtures("undrawn")
def test_single_patients_of_other_data_are_shown_only_where_they_are_asked_for(tmp_path):
    """The planted world, said to be read from a table: nobody is shown, then one patient in a folder of its own."""
    from dataclasses import replace

    cohort = replace(planted.simulate(patients=300, codes=80, seed=1), card={"source": "table"}).save(tmp_path / "c")
    data = {"source": "cohort", "path": str(cohort)}
    plan_of(tmp_path, ["adapcla"], data, parts=["cases"]).run()
    folder = tmp_path / "a" / "analysis" / "cases"
    assert not list(folder.rglob("*example*"))
    plan_of(tmp_path, ["adapcla"], data, parts=["cases"], examples=1).run()
    assert {path.parent.name for path in folder.rglob("*example*") if path.is_file()} == {"examples-of-real-patients"}
    plan_of(tmp_path, ["adapcla"], data, parts=["cases"]).run()
    assert not list(folder.rglob("*example*"))


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({"parts": ["probes"], "contexts": [0]}, "analyse.contexts: expected whole numbers above 0"),
        ({"parts": ["schedules"], "schedules": ["sometimes"]}, "schedule 'sometimes'"),
        ({"parts": ["probes"], "method": "tailwise"}, "no one-shot logit"),
        ({"parts": ["probes"], "method": "adapkla"}, "did you mean 'adapcla'"),
    ],
)
def test_what_cannot_be_analysed_is_said_before_anything_is_done(tmp_path, asked, match):
    with pytest.raises(UsageError, match=match):
        plan_of(tmp_path, **asked)
    assert not any(tmp_path.iterdir())


def test_the_analysis_of_a_finished_run_is_on_its_page(finished_run):
    assert (finished_run / "analysis" / "bound" / "bound.csv").is_file()
    page = (finished_run / "report.html").read_text(encoding="utf-8")
    assert "analysis-bound.csv" in page
