"""The structure of a world: syndromes, progressions, persistence, rates, and what other populations change of it."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.io.simulator.codes import FEWEST_CODES, code_layout
from adapcla.io.simulator.structure import (
    BIRTH_BANDS,
    GROUP_SHARE,
    MOST_VISITS,
    N_GROUPS,
    Links,
    balance_rates,
    draw_structure,
    moved_log_odds,
    rewire,
)


@pytest.fixture(scope="module")
def plan():
    return code_layout(600)


@pytest.fixture(scope="module")
def world(plan):
    return draw_structure(plan, 7)


@pytest.fixture(scope="module")
def large():
    plan = code_layout(3000)
    return plan, draw_structure(plan, 7)


def test_links_are_in_row_order_without_repeats():
    """Rows 1, 0, 1 with targets 5, 2, 5: the repeat of (1, 5) goes, its first chance stays."""
    rows, targets = [np.array([1, 0]), np.array([1])], [np.array([5, 2]), np.array([5])]
    links = Links.of(rows, targets, [np.array([0.1, 0.2]), np.array([0.9])])
    assert links.source.tolist() == [0, 1]
    assert links.target.tolist() == [2, 5]
    assert links.chance.tolist() == [0.2, 0.1]
    assert links.starts(3).tolist() == [0, 1, 2, 2]


def test_the_default_world_has_a_few_hundred_syndromes_that_hold_every_rare_code_once(large):
    plan, world = large
    assert 200 <= world.n_syndromes <= 400
    shown, rare = world.emissions, world.is_rare
    target = plan.target[plan.disorders]
    assert np.array_equal(np.sort(shown.target[rare]), plan.disorders[target <= np.quantile(target, 0.6)])
    assert plan.target[shown.target[~rare]].min() >= np.quantile(target, 0.65)
    # Two partners for each disorder of a mean visit.
    assert (np.bincount(shown.source[~rare]) == round(2 * plan.target.sum())).all()
    families = [
        len(np.unique(plan.category[shown.target[(shown.source == s) & rare]])) for s in range(world.n_syndromes)
    ]
    assert np.mean(families) > 2
    assert max(families) <= 3


def test_siblings_share_partners(large):
    """Two syndromes with codes of one family share nearly half of their partners, two of different ones by chance."""
    plan, world = large
    shown, rare = world.emissions, world.is_rare
    partners = [set(shown.target[(shown.source == s) & ~rare]) for s in range(world.n_syndromes)]
    homes = [set(plan.category[shown.target[(shown.source == s) & rare]]) for s in range(world.n_syndromes)]
    pairs = [(a, b) for a in range(world.n_syndromes) for b in range(a)]
    same = [len(partners[a] & partners[b]) for a, b in pairs if homes[a] & homes[b]]
    other = [len(partners[a] & partners[b]) for a, b in pairs if not homes[a] & homes[b]]
    assert np.mean(same) > 0.4 * len(partners[0])
    assert np.mean(other) < 0.1 * len(partners[0])


def test_a_syndrome_has_forerunners_and_its_diagnosis_brings_it_again(plan, world):
    links, shown, rare = world.progressions, world.emissions, world.is_rare
    into = links.target >= len(plan.vocabulary)
    syndrome = links.target[into] - len(plan.vocabulary)
    member = np.isin(links.source[into], shown.target)
    # Of all members the most common rare one alone leads anywhere, and only to its own syndrome.
    assert np.array_equal(np.sort(syndrome[member]), np.arange(world.n_syndromes))
    for source, number in zip(links.source[into][member], syndrome[member], strict=True):
        assert plan.target[source] == plan.target[shown.target[(shown.source == number) & rare]].max()
    assert not np.isin(links.source[~into], shown.target).any()
    one_sex = (world.group_factor[:, len(plan.vocabulary) :] == 0).any(axis=0)
    assert np.array_equal(np.unique(syndrome[~member]), np.flatnonzero(~one_sex))


@pytest.mark.parametrize("law_seed", range(1, 9))
def test_the_smallest_worlds_have_partners_too(law_seed):
    world = draw_structure(code_layout(FEWEST_CODES), law_seed)
    assert (~world.is_rare).any()


def test_every_chance_is_a_chance(world):
    for chances in (world.emissions.chance, world.progressions.chance):
        assert (chances > 0).all()
        assert (chances < 1).all()
    assert ((world.persistence >= 0) & (world.persistence < 1)).all()
    assert world.first_reason.sum(axis=1) == pytest.approx(1)
    assert world.next_reason.sum(axis=1) == pytest.approx(1)
    assert GROUP_SHARE.sum() == pytest.approx(1)


def test_group_factors_average_to_one_and_some_families_are_of_one_sex(plan, world):
    factor = np.delete(world.group_factor, plan.reasons, axis=1)
    assert factor.shape[0] == N_GROUPS
    assert GROUP_SHARE @ factor == pytest.approx(1)
    women, men = factor[: len(BIRTH_BANDS)], factor[len(BIRTH_BANDS) :]
    only_women, only_men = (men == 0).all(axis=0), (women == 0).all(axis=0)
    assert only_women.any() or only_men.any()
    assert not (only_women & only_men).any()


def test_nothing_leads_to_what_only_one_sex_can_have_except_itself(plan, world):
    factor = world.group_factor
    one_sex = (factor == 0).any(axis=0)
    links = world.progressions
    entering = one_sex[links.target] & ~np.isin(links.target, plan.reasons)
    # Relapses alone: from a rare member, which the other sex cannot have either.
    assert one_sex[links.source[entering]].all()
    partner = world.emissions.target[~world.is_rare]
    assert not one_sex[partner].any()


def test_the_seed_makes_another_structure(plan, world):
    again, other = draw_structure(plan, 7), draw_structure(plan, 8)
    assert np.array_equal(again.emissions.target, world.emissions.target)
    assert np.array_equal(again.progressions.chance, world.progressions.chance)
    assert not np.array_equal(other.emissions.target, world.emissions.target)


def test_the_deep_population_rewires_a_third(plan, world):
    deep = rewire(world, plan, 7)
    before = set(zip(world.emissions.source.tolist(), world.emissions.target.tolist(), strict=True))
    after = set(zip(deep.emissions.source.tolist(), deep.emissions.target.tolist(), strict=True))
    assert 0.05 < len(before - after) / len(before) < 0.35
    rare = lambda w: set(zip(w.emissions.source[w.is_rare], w.emissions.target[w.is_rare], strict=True))  # noqa: E731
    assert rare(deep) == rare(world)
    assert 0.2 < (deep.persistence < world.persistence).sum() / (world.persistence > 0).sum() < 0.5
    assert not np.array_equal(deep.progressions.target, world.progressions.target)


def test_only_codes_outside_syndromes_and_syndromes_are_moved(plan, world):
    log_odds = moved_log_odds(world, plan, 7)
    moved = np.flatnonzero(log_odds[: len(plan.vocabulary)])
    assert len(moved) > 10
    assert not np.isin(moved, world.emissions.target).any()
    assert not np.isin(moved, plan.reasons).any()
    assert np.abs(log_odds[log_odds != 0]).min() >= 0.7
    assert (log_odds > 0).any()
    assert (log_odds < 0).any()
    assert 0.05 < (log_odds[len(plan.vocabulary) :] != 0).mean() < 0.4


@pytest.fixture(scope="module")
def rates(plan):
    return balance_rates(draw_structure(plan, 7), plan)


def test_every_disorder_can_come_by_itself_and_no_reason_can(plan, rates):
    assert (rates.hazard[plan.disorders] > 0).all()
    assert (rates.hazard[plan.reasons] == 0).all()


def test_a_code_that_owes_nothing_to_others_has_the_hazard_of_its_target(plan, rates):
    """Neither persistent, nor shown by a syndrome, nor led to: the share is 1 − exp(−hazard), about the hazard."""
    world = draw_structure(plan, 7)
    alone = np.setdiff1d(plan.disorders, world.emissions.target)
    alone = np.setdiff1d(alone, world.progressions.target)
    alone = alone[(world.persistence[alone] == 0) & (plan.target[alone] < 0.01)]
    assert len(alone) > 20
    assert rates.hazard[alone] == pytest.approx(plan.target[alone], rel=0.03)


def test_there_is_a_return_rate_after_every_visit_but_the_last(rates):
    assert rates.return_log_odds.shape == (MOST_VISITS - 1,)
    assert np.isfinite(rates.return_log_odds).all()
