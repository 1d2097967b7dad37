"""Fitting, and whether there is memory for it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from adapcla.data import Cohort, Prevalence
from adapcla.data.split import Split
from adapcla.errors import UsageError
from adapcla.generation import fitting as memory
from adapcla.generation import generator_for
from adapcla.generation.fitting import FIRST_STAGE, fit, initial_model, measure_pace, objective_for, stages
from adapcla.models.base import Moment, ScaffoldedLikelihood, Shape
from adapcla.models.registry import FAMILIES
from adapcla.training.settings import METHODS, Settings, settings_from

SMALL = {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 64, "validations": 2}


def test_the_first_stage_is_static_and_otherwise_the_same() -> None:
    first, second = stages(Settings(tempering=0.2, positive_weight=1.5, first_stage="static"))
    assert (first.schedule, first.bias_at_inference, first.first_stage) == ("constant", True, "")
    assert (first.tempering, first.positive_weight) == (second.tempering, second.positive_weight) == (0.2, 1.5)
    assert stages(Settings()) == (Settings(),)


def test_a_plain_first_stage_has_no_scaffold_and_is_otherwise_the_same() -> None:
    first, second = stages(METHODS["release-weight"].settings)
    assert (first.schedule, first.bias_at_inference, first.first_stage) == ("none", False, "")
    assert first == settings_from(second, {"first_stage": ""})


def test_the_parts_of_the_release_are_added_one_at_a_time() -> None:
    """Stages, then the weight, then the scaffold: neighbours differ in that alone, and all have HALO's head."""
    steps = [METHODS[name].settings for name in ("halo", "release-stages", "release-weight", "adapcla-release")]
    dumps = [{**step.model_dump(), "last_weights": step.last_weights} for step in steps]
    changes = [{name for name in one if one[name] != two[name]} - {"method"} for one, two in pairwise(dumps)]
    assert changes == [{"first_stage", "last_weights"}, {"positive_weight"}, {"first_stage", "schedule", "tempering"}]
    assert {step.architecture.head for step in steps} == {"halo"}  # type: ignore[attr-defined]
    assert steps[-1].tempering == 0.2 and steps[-1].positive_weight == 1.5


def test_the_second_stage_begins_with_the_weights_of_the_first(parts: Split, tmp_path) -> None:  # type: ignore[no-untyped-def]
    class Beginning:
        looks = 2
        weights: dict[str, torch.Tensor] | None = None

        def look(self, modules: torch.nn.Module, moment: Moment) -> None:
            if moment.step == 0:
                self.weights = {name: value.clone() for name, value in modules.state_dict().items()}

    seen = Beginning()
    staged = generator_for("adapcla-release", **SMALL)
    staged.fit(parts.train, parts.valid, folder=tmp_path, observers=[seen])
    alone, _ = fit(stages(staged.settings)[0], parts.train, parts.valid)
    assert seen.weights is not None
    for name, value in alone.network.state_dict().items():
        assert torch.equal(value, seen.weights[name]), name
    assert (tmp_path / FIRST_STAGE / "journal.jsonl").is_file()
    facts = staged.model.facts
    assert facts["passes"] == pytest.approx(2 * facts["first stage"]["passes"])


def test_the_objective_follows_the_schedule(tiny: Cohort) -> None:
    settings = settings_from(Settings(), {"width": 16, "heads": 2, "layers": 1, "schedule": "fast"})
    objective = objective_for(initial_model(settings, tiny))
    assert isinstance(objective, ScaffoldedLikelihood)
    assert [objective.weight(Moment(step, 101, 1)) for step in (10, 30, 50)] == [1.0, 0.5, 0.0]


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.objective is not None])
def test_every_trained_family_gets_its_network_and_objective(name: str, tiny: Cohort) -> None:
    model = initial_model(settings_from(Settings(), {"family": name, "width": 16, "schedule": "none"}), tiny)
    assert objective_for(model).modules is model.network


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"family": "eva", "schedule": "base"}, "without a scaffold"),
        ({"family": "gpt", "schedule": "none", "positive_weight": 1.5}, "positive_weight"),
        ({"family": "eva", "schedule": "none", "calibration_rounds": 2}, "calibration_rounds"),
    ],
)
def test_settings_without_a_meaning_are_refused(changes: dict, message: str, tiny: Cohort) -> None:
    model = initial_model(settings_from(Settings(), {"width": 16, **changes}), tiny)
    with pytest.raises(UsageError, match=message):
        objective_for(model)


def test_what_is_counted_has_the_prevalence_and_the_lengths_of_training(parts: Split) -> None:
    train = parts.train
    floor = generator_for("marginal").fit(train, parts.valid)
    written = floor.sample(4000)
    assert written.n_visits / written.n_patients == pytest.approx(train.n_visits / train.n_patients, rel=0.06)
    frequent = train.visit_counts > 60
    assert np.allclose(written.prevalence().share[frequent], train.prevalence().share[frequent], rtol=0.25)
    assert floor.model.facts["parameters"] == floor.model.facts["steps"] == 0


@pytest.mark.parametrize("name", ["marginal", "adapcla-release", "gpt", "eva"])
def test_a_loaded_generator_fits_again_to_the_same_model(name: str, parts: Split, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Fitting depends on settings and patients alone, so that loading loses nothing."""
    from adapcla.generation import load

    known = {**METHODS[name].settings.architecture.model_dump(), **METHODS[name].settings.budget.model_dump()}
    first = generator_for(name, **{key: value for key, value in SMALL.items() if key in known})
    first.fit(parts.train, parts.valid).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.method == name
    again = loaded.fit(parts.train, parts.valid)
    assert again.model.facts["steps"] == first.model.facts["steps"]
    assert again.sample(20, seed=1).fingerprint == first.sample(20, seed=1).fingerprint


def test_a_head_of_codes_times_codes_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A within-visit matrix over 50,000 codes has more than 50,000² = 2.5 · 10⁹ weights: 90 GB at 36 bytes each."""
    monkeypatch.setattr(memory, "available_bytes", lambda: 64 * 10**9)
    codes = Prevalence.of({f"C{number:05d}": 0.001 for number in range(50_000)}, n_visits=1000)
    settings = generator_for("halo").settings
    with pytest.raises(UsageError, match=r"GB are free\nto do"):
        memory.demand_memory(settings, Shape(50_000, 48), codes)


def test_every_method_is_measured_by_its_parameters(parts: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    prevalence = parts.train.prevalence()
    for name in METHODS:
        settings = generator_for(name).settings
        assert (
            memory.demand_memory(settings, Shape(parts.train.n_codes, settings.architecture.context), prevalence) >= 0
        )


def test_training_is_refused_before_the_first_step(parts: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    with pytest.raises(UsageError, match="parameters"):
        generator_for("adapcla", width=16, layers=1, heads=2).fit(parts.train, parts.valid)


@pytest.mark.parametrize("method", ["adapcla", "tailwise"])
def test_the_pace_of_a_fit_is_measured_on_its_own_patients(method: str, parts: Split) -> None:
    """A prior that leaves each patient's own pairs out must find them among those that it counted."""
    settings = generator_for(method, width=16, layers=1, heads=2, batch_size=32).settings
    pace = measure_pace(settings, parts.train, seconds=0.0)
    assert pace is not None and pace.epoch > 0
