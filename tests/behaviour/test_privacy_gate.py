"""The gate's self-test on the planted world, where fresh patients of the same law cost nothing.

Leaks must fail and fresh draws must pass, also where the distance test of the field sees nothing.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from adapcla.data import Code, Cohort, Vocabulary
from adapcla.data.ragged import starts_from_sizes
from adapcla.disclosure import MIN_COUNT
from adapcla.evaluation.comparison import ALL, Comparison
from adapcla.evaluation.metric import METRICS
from adapcla.evaluation.privacy import LIMITS, GateLine, gate
from adapcla.evaluation.privacy.strata import BEYOND_PREVALENCE, holds_any
from adapcla.io import simulator as planted
from adapcla.seeds import random_stream

# So many codes that some are held by one member alone: rare codes come together, in few patients.
N, CODES, SEEDS = 800, 600, range(1, 21)


@lru_cache(maxsize=32)
def world(seed: int) -> tuple[Cohort, Cohort, Cohort]:
    """Members, controls and fresh patients, all drawn from one law."""
    every = planted.simulate(patients=3 * N, codes=CODES, seed=seed)
    members, controls, fresh = (every.subset(np.arange(k * N, (k + 1) * N)) for k in range(3))
    return members, controls, fresh


def joined(one: Cohort, other: Cohort) -> Cohort:
    """The patients of two cohorts on one vocabulary."""
    return Cohort(
        one.vocabulary,
        np.concatenate([one.codes, other.codes]),
        starts_from_sizes(np.concatenate([one.codes_per_visit, other.codes_per_visit])),
        starts_from_sizes(np.concatenate([one.visits_per_patient, other.visits_per_patient])),
    )


def with_copied_tail(members: Cohort, fresh: Cohort, share: float = 0.05) -> Cohort:
    """Fresh patients, `share` of whom are replaced by members that hold a rare code, word for word."""
    n_copied = round(share * fresh.n_patients)
    rare = np.flatnonzero(holds_any(members, members.patient_counts < MIN_COUNT))[:n_copied]
    assert len(rare) == n_copied
    return joined(fresh.subset(np.arange(fresh.n_patients - n_copied)), members.subset(rare))


def without_one_code(cohort: Cohort) -> Cohort:
    """Every patient without the first code of the first visit that has two or more."""
    large = np.flatnonzero(cohort.codes_per_visit >= 2)
    first = large[np.unique(cohort.patient_of_visit[large], return_index=True)[1]]
    stay = np.ones(cohort.n_entries, dtype=bool)
    stay[cohort.visit_starts[first]] = False
    sizes = cohort.codes_per_visit.copy()
    sizes[first] -= 1
    return Cohort(cohort.vocabulary, cohort.codes[stay], starts_from_sizes(sizes), cohort.patient_starts)


def on_other_codes(cohort: Cohort) -> Cohort:
    """The same patients on codes that nobody else has."""
    codes = tuple(Code.of(f"OTHER/{number:05d}") for number in range(cohort.n_codes))
    return replace(cohort, vocabulary=Vocabulary(codes))


def marginal(members: Cohort, like: Cohort, seed: int, fewest_holders: int = 1) -> Cohort:
    """Visits of independent codes at the members' prevalence, only of codes that enough members hold."""
    share = np.where(members.patient_counts >= fewest_holders, members.prevalence().share, 0.0)
    drawn = random_stream(seed, "marginal").random((like.n_visits, like.n_codes)) < share
    drawn[drawn.sum(axis=1) == 0, int(np.argmax(share))] = True
    return Cohort(
        like.vocabulary,
        np.nonzero(drawn)[1].astype(np.int32),
        starts_from_sizes(drawn.sum(axis=1)),
        like.patient_starts,
    )


def lines_of(seed: int, synthetic: Cohort) -> list[GateLine]:
    """The gate's lines for a synthetic cohort in the world of this seed."""
    members, controls, _ = world(seed)
    return judged(Comparison.of(members, controls, synthetic, control=controls))


def judged(comparison: Comparison) -> list[GateLine]:
    """The gate's lines for a comparison."""
    keys = {key for limit in LIMITS for key in (limit.key, *limit.each)}
    return gate({key: METRICS[key].compute(comparison) for key in keys})


def failed(lines: list[GateLine]) -> set[str]:
    """The lines that were refused for a leak, not for want of patients."""
    return {line.name for line in lines if not line.passed and line.value is not None}


def test_fresh_draws_of_the_same_law_pass() -> None:
    refused = {seed: failed(lines_of(seed, world(seed)[2])) for seed in SEEDS}
    assert sum(bool(names) for names in refused.values()) <= 1, refused


def test_five_per_cent_copied_tail_patients_fail_where_the_distance_test_is_at_chance() -> None:
    noticed, accuracies = 0, []
    for seed in SEEDS:
        members, controls, fresh = world(seed)
        comparison = Comparison.of(members, controls, with_copied_tail(members, fresh), control=controls)
        noticed += bool(failed(judged(comparison)))
        accuracies.append(METRICS["halo_membership_accuracy"].compute(comparison)[ALL].value)
    assert noticed >= 19
    assert max(accuracies) < 0.56
    assert np.mean(accuracies) < 0.53


@pytest.mark.parametrize("seed", [1, 2])
def test_a_train_copy_fails_every_line(seed: int) -> None:
    lines = lines_of(seed, world(seed)[0])
    assert failed(lines) == {line.name for line in lines}


@pytest.mark.parametrize("seed", [1, 2])
def test_members_without_one_code_fail_though_no_record_is_copied(seed: int) -> None:
    names = failed(lines_of(seed, without_one_code(world(seed)[0])))
    assert {"near_copy_excess", "unique_pair_gap [beyond_prevalence]", "membership_auc", "attribute_residual"} <= names


@pytest.mark.parametrize("seed", [1, 2])
def test_patients_on_other_codes_tell_nothing_about_real_ones(seed: int) -> None:
    assert failed(lines_of(seed, on_other_codes(world(seed)[2]))) == set()


def test_codes_of_few_patients_leak_even_without_any_pattern_and_minimal_support_stops_it() -> None:
    """Independent codes copy nobody, but a code that one member alone holds is written for members only.

    Rare codes come together, so that about 200 of 800 members hold any: the area of 0.59 to 0.67 is known to ±0.05, and
    the smallest of them cannot be told from chance. In 50 other worlds (seeds 101 to 150) the leak was noticed in 44,
    and the supported cohort passed in 47. The bars are set by these, for ten worlds that were not looked at: at such
    rates fewer than six of ten, or fewer than seven, come once in 270 and once in 490. A gate that noticed one leak in
    twenty would reach its bar once in 360,000 draws of worlds, and a support that stopped nothing once in 32,000.
    """
    leaked, stopped = 0, 0
    for seed in range(201, 211):
        members, _, fresh = world(seed)
        leaked += "membership_auc [rare]" in failed(lines_of(seed, marginal(members, fresh, seed)))
        supported = marginal(members, fresh, seed, fewest_holders=MIN_COUNT)
        stopped += not failed(lines_of(seed, supported))
    assert leaked >= 6
    assert stopped >= 7


def independent_patients(n: int, codes: int, seed: int) -> Cohort:
    """Patients of one visit of eight different codes, all codes equally likely."""
    drawn = random_stream(seed, "independent").random((n, codes)).argpartition(8, axis=1)[:, :8]
    vocabulary = Vocabulary(tuple(Code.of(f"X/{number:05d}") for number in range(codes)))
    return Cohort(vocabulary, np.sort(drawn, axis=1).astype(np.int32).ravel(), np.arange(n + 1) * 8, np.arange(n + 1))


def test_prevalences_alone_are_no_memory_of_pairs_and_copies_still_are() -> None:
    """A member counts both codes of a pair once more: independent codes at members' prevalences have a gap of pairs.

    A code has 27 members here, so that one of them is 4 % of its prevalence. Where every fortieth patient is a copy in
    addition, the line fails.
    """
    members, controls = (independent_patients(4_000, 1_200, seed) for seed in (1, 2))
    written = marginal(members, independent_patients(12_000, 1_200, 3), 1, fewest_holders=MIN_COUNT)
    gap = METRICS["unique_pair_gap"].compute(Comparison.of(members, controls, written, control=controls))
    everything, beyond = gap[ALL], gap[BEYOND_PREVALENCE]
    assert everything.value > 0.01 and everything.low > 0
    assert beyond.low < 0 < beyond.high and abs(beyond.value) < 0.005
    (line,) = (line for line in gate({"unique_pair_gap": gap}) if line.value is not None)
    assert line.passed and line.verdict == "kept"
    copying = Comparison.of(members, controls, joined(written, members.subset(np.arange(300))), control=controls)
    leaked = gate({"unique_pair_gap": METRICS["unique_pair_gap"].compute(copying)})
    assert failed(leaked) == {"unique_pair_gap [beyond_prevalence]"}


def test_a_small_leak_among_many_members_is_found_by_fewer_controls() -> None:
    """Controls a quarter as many as members: the groups are cut to equal size and the copies are still seen."""
    members, controls, fresh = world(1)
    few = controls.subset(np.arange(N // 4))
    leaky = Comparison.of(members, few, with_copied_tail(members, fresh, 0.1), control=few)
    assert failed(judged(leaky)) & {"copy_excess", "rare_copy_excess"}
    assert failed(judged(Comparison.of(members, few, fresh, control=few))) == set()
