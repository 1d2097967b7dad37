from __future__ import annotations

import pytest

from adapcla.generation.generator import generator_for
from adapcla.generation.recommended import recommended, with_recommended
from adapcla.training.settings import METHODS

SIZES = (60_000, 85_000, 900)


@pytest.mark.parametrize("patients", [10, 1_500, 6_000, 30_000, 1_000_000])
def test_every_size_of_cohort_has_a_budget_that_can_be_trained(patients):
    rule = recommended(patients, 2 * patients, 500)
    assert 0 < rule.learning_rate < 0.1 and rule.passes >= 1 and rule.width % 8 == 0


def test_larger_cohorts_never_take_smaller_batches_and_nobody_takes_passes_that_overfit():
    rules = [recommended(n, 2 * n, 900) for n in (500, 2_000, 5_000, 10_000, 20_000, 60_000, 1_000_000)]
    assert max(rule.passes for rule in rules) < 16
    assert [rule.batch_size for rule in rules] == sorted(rule.batch_size for rule in rules)


def test_what_a_row_or_the_caller_says_is_kept():
    changes = with_recommended("halo-paper-size", {"passes": 3}, *SIZES)
    assert changes == {"patience": 20, "passes": 3}
    assert with_recommended("adapcla", {"budget": {"passes": 2}}, *SIZES)["budget"] == {"passes": 2}
    assert "passes" not in with_recommended("adapcla", {"budget": {"passes": 2}}, *SIZES)


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if row.row.usual])
def test_the_rule_gives_no_row_a_setting_that_it_does_not_know(method):
    settings = generator_for(method, **with_recommended(method, {}, *SIZES)).settings
    assert settings.budget.learning_rate == METHODS[method].row.settings.get(
        "learning_rate", recommended(*SIZES).learning_rate
    )
