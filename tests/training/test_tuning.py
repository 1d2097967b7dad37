"""How long, in which batches and how fast a fit is trained where nobody says so."""

from __future__ import annotations

import pytest

from adapcla.generation import generator_for
from adapcla.training.settings import METHODS, Settings, refuse_unread, settings_from
from adapcla.training.tuning import EPOCHS, SCAFFOLDED_EPOCHS, choose_budget, epochs_within


def test_what_is_given_stays_and_the_rest_follows_from_the_patients() -> None:
    given = settings_from(Settings(), {"learning_rate": 0.5, "passes": 3})
    budget = choose_budget(given, 1_000).budget
    assert (budget.learning_rate, budget.passes) == (0.5, 3) and budget.batch_size < 100
    assert choose_budget(choose_budget(given, 1_000), 900_000) == choose_budget(given, 1_000)


def test_small_cohorts_get_steps_enough_and_large_ones_no_more_than_that() -> None:
    plain = settings_from(Settings(), {"schedule": "none"})
    found = [choose_budget(plain, n).budget for n in (300, 3_000, 100_000, 200_000, 100_000_000)]
    assert [budget.passes for budget in found] == [EPOCHS[1], 32.0, EPOCHS[0], EPOCHS[0] / 2, 1.0]
    sizes = [budget.batch_size for budget in found]
    assert sizes == sorted(sizes)


def test_a_scaffold_is_annealed_over_few_epochs() -> None:
    """Its weights are candidates only at the end, when too many epochs would have overfitted."""
    assert {choose_budget(Settings(), n).budget.passes for n in (300, 100_000)} == {SCAFFOLDED_EPOCHS}


def test_a_row_keeps_what_it_says() -> None:
    assert choose_budget(METHODS["synteg"].settings, 5_000).budget.passes == METHODS["synteg"].row.settings["passes"]


def test_the_prior_is_for_small_cohorts_and_damping_for_large_ones() -> None:
    ours = settings_from(METHODS["tailwise"].settings, {"prior_strength": 30})
    small, large = (choose_budget(ours, n).architecture for n in (3_000, 30_000))
    assert small.prior and small.prior_strength == 30 and not small.damping
    assert large.damping == ours.architecture.damping > 0 and not large.prior
    both = choose_budget(settings_from(ours, {"prior_below": 0}), 3_000).architecture
    assert both.prior and both.damping == ours.architecture.damping
    refuse_unread(settings_from(METHODS["tailwise"].settings, {"prior": False}))
    for n in (3_000, 30_000):
        refuse_unread(choose_budget(ours, n))
        assert choose_budget(choose_budget(ours, n), 30_000) == choose_budget(ours, n)


def test_private_training_does_not_look_at_the_number_of_patients() -> None:
    private = generator_for("adapcla", privacy={"epsilon": 4}).settings
    assert choose_budget(private, 1_000).budget == choose_budget(private, 1_000_000).budget


@pytest.mark.parametrize(("seconds", "epochs"), [(1_000, 8.0), (40, 4.0), (0.1, 0.1)])
def test_time_shortens_training(seconds: float, epochs: float) -> None:
    assert epochs_within(seconds, 10, 8.0) == epochs
