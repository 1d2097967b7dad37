"""Settings: one place for defaults, unknown and unread names refused; budgets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Cohort
from adapcla.errors import UsageError
from adapcla.generation import generator_for
from adapcla.training.settings import METHODS, Budget, Settings, refuse_unread, settings_from


def test_nested_and_plain_names_reach_their_place() -> None:
    changed = settings_from(Settings(), {"width": 32, "budget": {"passes": 2}, "tempering": 0.2})
    assert (changed.architecture.width, changed.budget.passes, changed.tempering) == (32, 2, 0.2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"widht": 3}, "did you mean 'width'"),
        ({"width": -3}, "width"),
        ({"schedule": "sudden"}, "schedule"),
        ({"learning_rate": "fast"}, "learning_rate"),
    ],
)
def test_wrong_settings_are_named(changes: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        settings_from(Settings(), changes)


def test_the_fingerprint_knows_what_changes_the_weights() -> None:
    base = Settings()
    assert base.fingerprint() == Settings().fingerprint()
    assert base.fingerprint() != settings_from(base, {"width": 32}).fingerprint()
    assert base.fingerprint() == settings_from(base, {"checkpoint_seconds": 1}).fingerprint()


def test_what_is_off_is_not_written_and_can_be_turned_on_and_off() -> None:
    """Fingerprints of all other settings stay as they were."""
    kept = settings_from(Settings(), {"last_weights": True})
    assert "last_weights" not in Settings().model_dump() and kept.model_dump()["last_weights"] is True
    assert kept.fingerprint() != Settings().fingerprint() == settings_from(kept, {"last_weights": False}).fingerprint()
    assert settings_from(Settings(), kept.model_dump()) == kept
    assert Settings().fingerprint() == "296435ab3a123755"


def test_another_family_brings_its_own_settings() -> None:
    eva = settings_from(Settings(), {"family": "eva", "latent": 8, "width": 32})
    assert (eva.architecture.family, eva.architecture.latent, eva.architecture.width) == ("eva", 8, 32)
    assert settings_from(Settings(), eva.model_dump()) == eva
    with pytest.raises(UsageError, match="no setting is called 'blocks'"):
        settings_from(Settings(), {"family": "eva", "blocks": 3})
    with pytest.raises(UsageError, match="expected one of eva"):
        settings_from(Settings(), {"family": "diffusion"})


def test_settings_saved_before_there_were_families_are_read() -> None:
    saved = Settings().model_dump()
    del saved["architecture"]["family"], saved["first_stage"], saved["bias_at_validation"]
    assert settings_from(Settings(), saved) == Settings()


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("adapcla-no-scaffold", {"tempering": 0.5}),
        ("halo", {"permuted": True}),
        ("eva", {"bias_at_validation": True}),
        ("gpt", {"prior_strength": 3.0}),
    ],
)
def test_a_setting_that_a_model_does_not_read_is_refused(method: str, changes: dict, tiny: Cohort) -> None:
    generator = generator_for(method, **changes)
    with pytest.raises(UsageError, match=f"setting {next(iter(changes))}: {method} with these settings does not read"):
        generator.fit(tiny, tiny)


def test_every_method_reads_what_its_row_says() -> None:
    for method in METHODS.values():
        refuse_unread(method.settings)
    refuse_unread(generator_for("gpt", prior=True, prior_strength=3.0).settings)


@given(n_steps=st.integers(2, 5000), warmup=st.floats(0, 0.5))
def test_the_rate_rises_then_falls_and_stays_in_bounds(n_steps: int, warmup: float) -> None:
    budget = Budget(learning_rate=1.0, warmup=warmup, final_rate=0.1)
    rates = [budget.rate(step, n_steps) for step in range(n_steps)]
    top = rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert max(rates) <= 1.0
    assert rates[-1] == pytest.approx(0.1, abs=0.02) or n_steps < 10


def test_a_fraction_of_a_pass_is_a_fraction_of_its_steps() -> None:
    assert Budget(passes=0.5, batch_size=10).steps(100) == 5
    assert Budget(passes=0.001, batch_size=10).steps(100) == 1
