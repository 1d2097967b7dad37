from __future__ import annotations

import pytest

from adapcla.data.split_folder import open_splits
from adapcla.errors import AdapclaError, UsageError
from adapcla.files import read_json
from adapcla.pipeline import tasks
from adapcla.pipeline.steps import record
from adapcla.study.runner import StudyPlan
from adapcla.study.spec import study_from

SMALL = {
    "name": "small",
    "data": {"planted": {"patients": 80, "codes": 60}},
    "fit": {
        "methods": ["adapcla-no-scaffold", "release-stages", "marginal"],
        "settings": {"width": 16, "layers": 1, "heads": 2, "batch_size": 32},
        "grid": {"learning_rates": [1e-9, 3e-3], "passes": [2, 4]},
    },
    "evaluate": {"suites": []},
}


def worked(spec, folder):
    """The plan after all its steps, with its index and without a page."""
    plan = StudyPlan(spec, folder)
    plan.run_steps()
    plan.write_index()
    return plan


def test_every_row_gets_the_cell_of_least_validation_loss_and_the_same_number_of_cells(tmp_path):
    root = worked(study_from(SMALL), tmp_path).root
    cells = read_json(root / "study.json")["tuning"]
    assert [sum(cell["row"] == row for cell in cells) for row in ("adapcla-no-scaffold", "release-stages")] == [4, 4]
    for row in ("adapcla-no-scaffold", "release-stages"):
        own = [cell for cell in cells if cell["row"] == row]
        (chosen,) = [cell for cell in own if cell["chosen"]]
        assert chosen["loss"] == min(cell["loss"] for cell in own) and chosen["learning_rate"] == 3e-3
        fit = record(root / row / "seed1")
        budget = fit["settings"]["budget"]
        # A rate of a billionth learns nothing; the fit has the chosen cell, goes to the end and keeps the last weights.
        assert budget["learning_rate"] == 3e-3 and fit["settings"]["last_weights"]
        assert fit["costs"]["steps"] == chosen["steps"] and not fit["costs"]["stopped early"]


def test_one_number_of_passes_gives_all_rows_equal_steps_those_of_two_stages_too(tmp_path):
    spec = study_from(
        SMALL, {"fit.grid.passes": [4], "fit.methods": ["adapcla", "adapcla-no-scaffold", "release-stages"]}
    )
    root = worked(spec, tmp_path).root
    steps = {record(root / row / "seed1")["costs"]["steps"] for row in spec.fit.methods}
    assert len(steps) == 1


def test_tuning_sees_no_test_and_no_control_patients(tmp_path, monkeypatch):
    seen = []
    train_run = tasks.train_run

    def watched(generator, train, valid, folder, **options):
        seen.append((folder.parts, train.fingerprint, valid.fingerprint))
        return train_run(generator, train, valid, folder, **options)

    monkeypatch.setattr(tasks, "train_run", watched)
    spec = study_from(SMALL, {"split.control": 0.2, "fit.methods": ["adapcla-no-scaffold"]})
    plan = worked(spec, tmp_path)
    cells = [prints for parts, *prints in seen if "tuning" in parts]
    parts = open_splits(plan.data)
    own = [parts["train"].fingerprint, parts["valid"].fingerprint]
    assert len(cells) == 4 and all(prints == own for prints in cells)


def test_a_second_run_does_nothing_and_a_new_cell_alone_is_added(tmp_path):
    content = {**SMALL, "fit": {**SMALL["fit"], "methods": ["adapcla-no-scaffold"]}}
    root = worked(study_from(content), tmp_path).root
    at = {path: path.stat().st_mtime_ns for path in root.rglob("stage.json")}
    worked(study_from(content), tmp_path)
    assert at == {path: path.stat().st_mtime_ns for path in root.rglob("stage.json")}
    plan = StudyPlan(study_from(content, {"fit.grid.learning_rates": [1e-9, 1e-8, 3e-3]}), tmp_path)
    assert sum(not step.done for step in plan.steps if step.stage == "tune") == 2


def test_a_rate_at_which_training_fails_is_a_cell_without_a_loss(tmp_path, monkeypatch):
    train_run = tasks.train_run

    def failing(generator, train, valid, folder, **options):
        if generator.settings.budget.learning_rate == 3e-3 and "tuning" in folder.parts:
            raise AdapclaError("step 3: loss is nan")
        return train_run(generator, train, valid, folder, **options)

    monkeypatch.setattr(tasks, "train_run", failing)
    plan = worked(study_from(SMALL, {"fit.methods": ["adapcla-no-scaffold"]}), tmp_path)
    row = "adapcla-no-scaffold"
    assert plan.row(row)[1]["learning_rate"] == 1e-9
    failed = [cell for cell in plan.tuning_table() if cell["learning_rate"] == 3e-3]
    assert len(failed) == 2 and all(cell["loss"] is None and not cell["chosen"] for cell in failed)
    assert record(plan.root / "tuning" / row / "rate0.003-passes2")["why"] == "step 3: loss is nan"


def test_fewer_patients_for_the_cells_are_training_patients(tmp_path):
    worked(study_from(SMALL, {"fit.grid.patients": 20, "fit.methods": ["adapcla-no-scaffold"]}), tmp_path)
    asked = read_json(next((tmp_path / "small" / "tuning").rglob("outcome.json")))
    assert asked["patients"] == 20
    assert record(tmp_path / "small" / "adapcla-no-scaffold" / "seed1")["costs"]["steps"] > 0


@pytest.mark.parametrize("place", ["fit.settings.passes", "fit.settings.learning_rate"])
def test_what_the_grid_chooses_cannot_be_set_as_well(place):
    with pytest.raises(UsageError, match=r"fit.grid chooses it"):
        study_from(SMALL, {place: 2})
