"""A study as steps: rows, what is done again after a change, failures, steering, patients from elsewhere."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from adapcla.data import Cohort
from adapcla.data.split_folder import open_splits
from adapcla.errors import AdapclaError, ExistsError, InputError, InterruptedRun, UsageError
from adapcla.evaluation.references import LawReference
from adapcla.files import read_json
from adapcla.io.simulator import simulate
from adapcla.pipeline import tasks
from adapcla.pipeline.steps import record, run_steps
from adapcla.pipeline.tasks import checked_row, known_settings
from adapcla.study.runner import StudyPlan, check_rows, method_names
from adapcla.study.spec import study_from
from adapcla.training.settings import METHODS

SMALL = {
    "name": "small",
    "data": {"planted": {"patients": 60, "codes": 60}},
    "fit": {
        "methods": ["adapcla", "marginal"],
        "settings": {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 32},
    },
    "evaluate": {"suites": ["tail"]},
}
MARGINAL = {**SMALL, "fit": {"methods": ["marginal"]}}
SHIFTED = {"planted": {"patients": 60, "codes": 60, "seed": 2, "population": "shifted"}}
STEERED = {**SMALL, "targets": {"shifted": {"data": SHIFTED, "methods": ["marginal"], "modes": ["paper"]}}}


@pytest.fixture(autouse=True, scope="module")
def without_pictures() -> Iterator[None]:
    """Pages without figures, which other tests draw."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adapcla.study.page.figures", lambda study: iter(()))
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, without_pictures: None) -> Path:
    """The folder that a study of two rows and a target was run in; not to be changed."""
    out = tmp_path_factory.mktemp("finished")
    page = StudyPlan(study_from(STEERED), out).run()
    assert page == out / "small" / "report.html" and page.is_file()
    return out


@pytest.fixture
def out(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished study, to go on with."""
    return Path(shutil.copytree(finished, tmp_path / "copy", copy_function=shutil.copy2))


def stamps(root: Path) -> dict[str, int]:
    return {path.relative_to(root).as_posix(): path.stat().st_mtime_ns for path in root.rglob("stage.json")}


def changed_steps(out: Path, changes: dict | None = None) -> set[str]:
    """The steps that another run with some changes does again."""
    before = stamps(out / "small")
    StudyPlan(study_from(STEERED, changes), out).run()
    return {name for name, at in stamps(out / "small").items() if before.get(name) != at}


# ---- rows -----------------------------------------------------------------------------------------------------
def test_all_means_every_usual_row():
    every = method_names("all")
    assert {"adapcla", "tailwise", "halo", "gpt", "lstm", "eva", "synteg", "adapcla-release"} <= set(every)
    assert not {"marginal", "halo-paper-size"} & set(every)
    assert method_names("lstm, lstm") == ("lstm",)
    with pytest.raises(UsageError, match="did you mean 'halo'"):
        method_names("hallo")


@pytest.mark.parametrize("method", METHODS)
def test_settings_reach_the_rows_that_know_them(method):
    mine = known_settings(method, {"heads": 2, "passes": 3, "latent": 5, "nonsense": 1})
    assert mine["passes"] == 3 and mine["nonsense"] == 1
    assert ("latent" in mine) == (method == "eva")


def test_a_setting_that_is_off_reaches_its_row_and_one_that_nobody_knows_is_refused():
    assert known_settings("gpt", {"copy_head": False}) == {"copy_head": False}
    assert known_settings("adapcla", {"copy_head": False}) == {}
    with pytest.raises(UsageError, match="no setting is called 'widht'"):
        checked_row("lstm", {"widht": 3})


def test_what_rows_differ_in_cannot_be_set_for_all_of_them():
    """With one schedule for all, AdaPCLA and its control without a scaffold would be the same fit."""
    fit = {"methods": ["adapcla", "adapcla-no-scaffold"], "settings": {"schedule": "fast"}}
    with pytest.raises(UsageError, match="'adapcla' and 'adapcla-no-scaffold' have the same settings"):
        check_rows(study_from({"name": "a", "fit": fit}).fit)
    assert set(check_rows(study_from({"name": "a", "fit": {**fit, "settings": {}}}).fit)) == set(fit["methods"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fit.methods": ["adapkla"]}, "did you mean 'adapcla'"),
        ({"fit.settings": {"widht": 3}}, "did you mean 'width'"),
        ({"targets.x": {"data": {}, "methods": ["halo"]}}, "'halo' is to be steered"),
        (
            {"fit.variants": {"odd": {"method": "adapcla", "settings": {"copy_head": True}}}},
            r"fit.variants.odd.settings: adapcla has no setting 'copy_head'",
        ),
        ({"external": {"theirs": "nowhere"}}, r"external\.theirs"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_done(tmp_path, changes, message):
    with pytest.raises((UsageError, InputError), match=message):
        StudyPlan(study_from({**SMALL, "fit": dict(SMALL["fit"])}, changes), tmp_path)
    assert not any(tmp_path.iterdir())


# ---- steps ----------------------------------------------------------------------------------------------------
def test_the_steps_come_in_order_with_what_they_need():
    steps = StudyPlan(study_from(SMALL), "nowhere").steps
    of_simulator = ["evaluate"] * len(LawReference)
    assert [step.stage for step in steps] == ["prepare", *of_simulator, *["train", "sample", "evaluate"] * 2]
    assert not any(step.done for step in steps) and all(step.seconds > 0 for step in steps)


def test_a_second_run_does_nothing_and_one_changed_setting_redoes_what_depends_on_it(out):
    """Another seed of the evaluation scores everything again, steered samples too, and draws nothing again."""
    assert changed_steps(out) == set()
    rows = {f"{row}/seed1/scores/seed1/stage.json" for row in ("adapcla", "marginal")}
    simulated = {f"references/{reference.value}/stage.json" for reference in LawReference}
    steered = "marginal/seed1/toward/shifted/paper/scores/stage.json"
    assert changed_steps(out, {"evaluate.seed": 2}) == {"page/stage.json", steered, *rows, *simulated}


def test_a_title_changes_the_page_and_nothing_else(out):
    assert changed_steps(out, {"title": "Another title"}) == {"page/stage.json"}
    assert "Another title" in (out / "small" / "report.html").read_text(encoding="utf-8")


def test_forgetting_takes_every_record_away(out):
    plan = StudyPlan(study_from(STEERED), out)
    assert all(step.done for step in plan.steps)
    plan.forget()
    assert not any(step.done for step in plan.steps)


def test_a_second_process_is_refused_while_the_first_works(tmp_path):
    plan = StudyPlan(study_from(MARGINAL), tmp_path)
    plan.root.mkdir(parents=True)
    with (plan.root / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ExistsError, match="in use by another process"):
            plan.run()


def test_the_cohort_is_described_before_it_is_divided(finished):
    about = read_json(finished / "small" / "study.json")
    assert record(finished / "small" / about["data"])["description"]["patients"] == 60


def test_a_split_within_the_training_part_never_sees_the_test_part(tmp_path):
    """12,000 are not needed to see it: of 200 patients the inner parts together are the outer training part."""
    data = {"planted": {"patients": 200, "codes": 60}}
    plan = StudyPlan(study_from({**SMALL, "data": data, "split": {"within": 4, "seed": 5}}), tmp_path)
    run_steps(plan.steps[:1], plan.root)
    inner = open_splits(plan.data)
    outer = simulate(patients=200, codes=60, seed=1).split(seed=4)
    assert sum(part.n_patients for part in inner.values()) == outer.train.n_patients
    key = [repr(patient) for part in inner.values() for patient in part.patients()]
    assert sorted(key) == sorted(repr(patient) for patient in outer.train.patients())


# ---- failures -------------------------------------------------------------------------------------------------
def test_a_method_that_fails_is_a_line_that_says_why_and_is_tried_again(out, monkeypatch):
    plain = tasks.train

    def breaks(folder, parts, row, *rest, **options):
        if row[0] == "lstm":
            raise AdapclaError("step 3: loss is nan\nto do: something")
        return plain(folder, parts, row, *rest, **options)

    monkeypatch.setattr(tasks, "train", breaks)
    spec = study_from(STEERED, {"fit.methods": ["adapcla", "marginal", "lstm"]})
    plan = StudyPlan(spec, out)
    page = plan.run()
    cost = page.parent / "tables" / "cost.md"
    assert plan.failed == {("lstm", 1): "step 3: loss is nan"}
    assert all("seed 1 failed: step 3: loss is nan" in path.read_text(encoding="utf-8") for path in (page, cost))
    monkeypatch.setattr(tasks, "train", plain)
    again = StudyPlan(spec, out)
    again.run()
    assert again.failed == {} and "failed" not in cost.read_text(encoding="utf-8")


@pytest.mark.parametrize("fault", [InterruptedRun("stopped"), InputError("damaged"), ExistsError("there")])
def test_a_fault_that_is_not_the_methods_ends_the_run(tmp_path, monkeypatch, fault):
    def breaks(*_, **__):
        raise fault

    monkeypatch.setattr(tasks, "train", breaks)
    with pytest.raises(type(fault)):
        StudyPlan(study_from(MARGINAL), tmp_path).run()


def results_of(root: Path) -> dict[str, bytes]:
    """Cohorts, weights and scores of a study; records and journals hold times."""
    names = ("*.npy", "*.safetensors", "scores.csv", "curves.json", "vocabulary.*")
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for name in names
        for path in sorted(root.rglob(name))
        if not {"cache", "tables"} & set(path.parts)
    }


def test_a_study_that_was_stopped_at_any_step_ends_with_the_same_bytes(finished, tmp_path, monkeypatch):
    """And a step that was finished is not done again."""
    spec = study_from(STEERED)
    for name in ("prepare", "train_run", "stream_sample", "evaluate_cohort"):
        with monkeypatch.context() as patch:

            def stop(*_, **__):
                raise KeyboardInterrupt

            patch.setattr(tasks, name, stop)
            before = stamps(tmp_path)
            with pytest.raises(KeyboardInterrupt):
                StudyPlan(spec, tmp_path).run_steps()
            assert before.items() <= stamps(tmp_path).items()
    StudyPlan(spec, tmp_path).run_steps()
    found = results_of(tmp_path / "small")
    assert found == results_of(finished / "small") and len(found) > 10


# ---- patients from elsewhere ----------------------------------------------------------------------------------
def test_patients_generated_elsewhere_stand_beside_the_rows(out, tmp_path):
    """Somebody else's cohort has a code that training never saw; it is scored and drawn all the same."""
    cohort = simulate(patients=80, codes=60, seed=3)
    Cohort.of([*cohort.patients(), [["UNHEARD-OF"]]]).save(tmp_path / "theirs")
    changes = {"external": {"theirs": str(tmp_path / "theirs")}}
    assert {name.partition("/")[0] for name in changed_steps(out, changes)} == {"external", "page"}
    tables = out / "small" / "tables"
    assert set(pl.read_csv(tables / "scores.csv")["row"]) == {"adapcla", "marginal", "theirs"}
    assert "| theirs |" in (tables / "tail-plausibility.md").read_text(encoding="utf-8")
    assert changed_steps(out, changes) == set()
