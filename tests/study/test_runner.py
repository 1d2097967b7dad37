from __future__ import annotations

import fcntl

import polars as pl
import pytest

from adapcla.data.split import open_splits
from adapcla.errors import AdapclaError, ExistsError, InputError, InterruptedRun, UsageError
from adapcla.evaluation.references import LawReference
from adapcla.files import read_json
from adapcla.io.simulator import simulate
from adapcla.pipeline import tasks
from adapcla.pipeline.steps import record, run_steps
from adapcla.study.runner import StudyPlan
from adapcla.study.spec import study_from

SMALL = {
    "name": "small",
    "data": {"planted": {"patients": 60, "codes": 60}},
    "fit": {
        "methods": ["adapcla", "marginal"],
        "settings": {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 32},
    },
    "evaluate": {"suites": ["tail"]},
}


def stamps(root):
    return {path.relative_to(root).as_posix(): path.stat().st_mtime_ns for path in root.rglob("stage.json")}


def test_running_twice_does_nothing_and_one_changed_setting_redoes_what_depends_on_it(tmp_path):
    page = StudyPlan(study_from(SMALL), tmp_path).run()
    root = page.parent
    assert page == tmp_path / "small" / "report.html" and page.is_file()
    before = stamps(root)
    assert StudyPlan(study_from(SMALL), tmp_path).run() == page
    assert stamps(root) == before

    StudyPlan(study_from(SMALL, {"evaluate.seed": 2}), tmp_path).run()
    after = stamps(root)
    changed = {name for name in before if after[name] != before[name]}
    rows = {f"{row}/seed1/scores/seed1/stage.json" for row in ("adapcla", "marginal")}
    law = {f"references/{reference.value}/stage.json" for reference in LawReference}
    assert changed == {"page/stage.json", *rows, *law}


def test_a_title_changes_the_page_and_nothing_else(tmp_path):
    content = {**SMALL, "fit": {"methods": ["marginal"]}}
    root = StudyPlan(study_from(content), tmp_path).run().parent
    before = stamps(root)
    page = StudyPlan(study_from(content, {"title": "Another title"}), tmp_path).run()
    assert {name for name, at in stamps(root).items() if before.get(name) != at} == {"page/stage.json"}
    assert "Another title" in page.read_text(encoding="utf-8")


def test_the_steps_come_in_order_with_what_they_need():
    steps = StudyPlan(study_from(SMALL), "nowhere").steps
    of_law = ["evaluate"] * len(LawReference)
    assert [step.stage for step in steps] == ["prepare", *of_law, *["train", "sample", "evaluate"] * 2]
    assert not any(step.done for step in steps) and all(step.seconds > 0 for step in steps)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"fit.methods": ["adapkla"]}, "did you mean 'adapcla'"),
        ({"fit.settings": {"widht": 3}}, "did you mean 'width'"),
        ({"targets.x": {"data": {}, "methods": ["halo"]}}, "'halo' is to be steered"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_done(tmp_path, changes, told):
    with pytest.raises(UsageError, match=told):
        StudyPlan(study_from({**SMALL, "fit": dict(SMALL["fit"])}, changes), tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_variant_with_a_setting_that_its_method_does_not_have_is_refused(tmp_path):
    variants = {"odd": {"method": "adapcla", "settings": {"copy_head": True}}}
    content = {**SMALL, "fit": {**SMALL["fit"], "variants": variants}}
    with pytest.raises(UsageError, match=r"fit.variants.odd.settings: adapcla has no setting 'copy_head'"):
        StudyPlan(study_from(content), tmp_path)


def test_forgetting_does_everything_again(tmp_path):
    content = {**SMALL, "fit": {"methods": ["marginal"]}}
    plan = StudyPlan(study_from(content), tmp_path)
    plan.run()
    assert all(step.done for step in plan.steps)
    plan.forget()
    assert not any(step.done for step in plan.steps)


def test_a_second_process_is_refused_while_the_first_works(tmp_path):
    plan = StudyPlan(study_from({**SMALL, "fit": {"methods": ["marginal"]}}), tmp_path)
    plan.root.mkdir(parents=True)
    with (plan.root / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ExistsError, match="in use by another process"):
            plan.run()


def test_the_cohort_is_described_before_it_is_divided(finished_run):
    about = read_json(finished_run / "study.json")
    assert record(finished_run / about["data"])["description"]["patients"] == 260


def test_a_method_that_fails_is_a_line_that_says_why_and_is_tried_again(tmp_path, monkeypatch):
    plain = tasks.train
    content = {**SMALL, "fit": {**SMALL["fit"], "methods": ["lstm", "marginal"]}}

    def breaks(folder, parts, row, *rest, **options):
        if row[0] == "lstm":
            raise AdapclaError("step 3: loss is nan\nto do: something")
        return plain(folder, parts, row, *rest, **options)

    monkeypatch.setattr(tasks, "train", breaks)
    plan = StudyPlan(study_from(content), tmp_path)
    page = plan.run()
    assert plan.failed == {("lstm", 1): "step 3: loss is nan"}
    assert "seed 1 failed: step 3: loss is nan" in page.read_text(encoding="utf-8")
    assert "seed 1 failed" in (page.parent / "tables" / "cost.md").read_text(encoding="utf-8")
    monkeypatch.setattr(tasks, "train", plain)
    again = StudyPlan(study_from(content), tmp_path)
    again.run()
    assert again.failed == {} and "failed" not in (page.parent / "tables" / "cost.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("fault", [InterruptedRun("stopped"), InputError("damaged"), ExistsError("there")])
def test_a_fault_that_is_not_the_methods_ends_the_run(tmp_path, monkeypatch, fault):
    def breaks(*_, **__):
        raise fault

    monkeypatch.setattr(tasks, "train", breaks)
    with pytest.raises(type(fault)):
        StudyPlan(study_from(SMALL), tmp_path).run()


def test_patients_made_elsewhere_stand_beside_the_rows(tmp_path):
    """Somebody else's cohort has a code that training never saw; it is judged and drawn all the same."""
    from adapcla.data import Cohort

    cohort = simulate(patients=80, codes=60, seed=3)
    strange = Cohort.of([*cohort.patients(), [["UNHEARD-OF"]]])
    strange.save(tmp_path / "theirs")
    content = {**SMALL, "fit": {"methods": ["marginal"]}, "external": {"theirs": str(tmp_path / "theirs")}}
    root = StudyPlan(study_from(content), tmp_path / "out").run().parent
    scores = pl.read_csv(root / "tables" / "scores.csv")
    assert set(scores["row"]) == {"marginal", "theirs"}
    assert "| theirs |" in (root / "tables" / "tail-plausibility.md").read_text(encoding="utf-8")
    before = stamps(root)
    StudyPlan(study_from(content), tmp_path / "out").run()
    assert stamps(root) == before


def test_an_absent_cohort_from_elsewhere_is_named_before_anything_is_done(tmp_path):
    with pytest.raises(InputError, match=r"external\.theirs"):
        StudyPlan(study_from({**SMALL, "external": {"theirs": str(tmp_path / "nowhere")}}), tmp_path / "out")


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


def test_another_judge_scores_steered_samples_again_without_drawing_them_again(tmp_path):
    shifted = {"planted": {"patients": 60, "codes": 60, "seed": 2, "population": "shifted"}}
    content = {**SMALL, "fit": {"methods": ["marginal"]}}
    content["targets"] = {"shifted": {"data": shifted, "methods": ["marginal"], "modes": ["paper"]}}
    root = StudyPlan(study_from(content), tmp_path).run().parent
    before = stamps(root)
    StudyPlan(study_from(content, {"evaluate.seed": 2}), tmp_path).run()
    changed = {name for name, at in stamps(root).items() if before[name] != at}
    toward = "marginal/seed1/toward/shifted/paper"
    assert f"{toward}/scores/stage.json" in changed and f"{toward}/sample/stage.json" not in changed


def found(root) -> dict[str, bytes]:
    """Cohorts, weights and scores of a study; records and journals hold times."""
    names = ("*.npy", "*.safetensors", "scores.csv", "curves.json", "vocabulary.*")
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for name in names
        for path in sorted(root.rglob(name))
        if "cache" not in path.parts
    }


def test_a_study_that_was_stopped_at_any_step_ends_with_the_same_bytes(tmp_path, monkeypatch):
    """And a step that was finished is not done again."""
    spec = study_from({**SMALL, "fit": {**SMALL["fit"], "methods": ["adapcla"]}})
    whole = StudyPlan(spec, tmp_path / "whole")
    whole.run_steps()
    for name in ("prepare", "train_run", "stream_sample", "evaluate_cohort"):
        with monkeypatch.context() as patched:

            def stop(*_, **__):
                raise KeyboardInterrupt

            patched.setattr(tasks, name, stop)
            before = stamps(tmp_path / "cut")
            with pytest.raises(KeyboardInterrupt):
                StudyPlan(spec, tmp_path / "cut").run_steps()
            after = stamps(tmp_path / "cut")
            assert before.items() <= after.items()
    StudyPlan(spec, tmp_path / "cut").run_steps()
    assert found(tmp_path / "cut") == found(tmp_path / "whole") and len(found(tmp_path / "cut")) > 10
