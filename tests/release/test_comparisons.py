"""The fixed comparisons: each has a status, the whole is no better than its worst, and nothing is left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.evaluation import Scores, evaluate
from adapcla.evaluation.comparison import Score
from adapcla.evaluation.scores import Row, normalise
from adapcla.io.simulator import simulate
from adapcla.release.comparisons import COMPARISONS, Comparisons, compare

KEYS = [key for key, *_ in COMPARISONS]


@pytest.fixture(scope="module")
def parts() -> tuple[Cohort, Cohort, Cohort]:
    """Training, test and as many other patients of the same distribution."""
    world = simulate(3_000, 60, seed=1)
    train, test, other = (world.subset(np.arange(i * 1_000, (i + 1) * 1_000)) for i in range(3))
    return train, test, other


def compared(train: Cohort, test: Cohort, synthetic: Cohort) -> Comparisons:
    return compare(evaluate(train, test, synthetic, ["tail", "fidelity"], quick=True), train)


def quality(found: Comparisons) -> dict[str, str]:
    return {one.key: one.quality for one in found.each}


def test_other_patients_of_the_same_distribution_are_never_poor(parts):
    found = compared(*parts)
    assert [one.key for one in found.each] == KEYS and found.releasable
    assert "poor" not in quality(found).values(), quality(found)
    assert quality(found)["prevalence"] == quality(found)["codes_per_visit"] == "good"


def test_visits_with_too_many_codes_are_refused(parts):
    """A release with 10.0 codes per visit in place of 7.77 was called good once."""
    train, test, other = parts
    visits = [[list(visit) for visit in patient] for patient in other.patients()]
    rng = np.random.default_rng(1)
    tokens = np.array(train.vocabulary.tokens)
    for patient in visits:
        for visit in patient:
            visit[:] = sorted({*visit, *rng.choice(tokens[:20], size=max(1, len(visit) // 4), replace=False)})
    found = compared(train, test, Cohort.of(visits, train.vocabulary))
    assert quality(found)["codes_per_visit"] == "poor" and not found.releasable
    assert found.quality == "poor" and any("% more" in reason for reason in found.reasons)


def test_rare_codes_that_are_much_too_frequent_are_refused(parts):
    """Every rare code comes three times as often as it did, though most codes are right."""
    train, test, other = parts
    rare = np.flatnonzero(train.strata().tail)
    rng = np.random.default_rng(1)
    patients = [[list(visit) for visit in patient] for patient in other.patients()]
    tokens = train.vocabulary.tokens
    for code in rare:
        for _ in range(3 * int(train.patient_counts[code]) + 10):
            patient = patients[rng.integers(len(patients))]
            visit = patient[rng.integers(len(patient))]
            if tokens[code] not in visit:
                visit.append(tokens[code])
    found = compared(train, test, Cohort.of(patients, train.vocabulary))
    assert quality(found)["rare_prevalence"] == "poor" and not found.releasable


def test_independent_codes_are_poor_at_what_codes_have_to_do_with_each_other(parts):
    from adapcla.evaluation.references import Reference

    train, test, _ = parts
    found = compared(train, test, Reference.MARGINAL.cohort(train, test, train.n_patients, 1))
    assert quality(found)["prevalence"] == "good" and found.releasable
    assert quality(found)["rare_cooccurrence"] == "poor" and found.quality == "poor"


def test_what_was_not_computed_is_grey_and_the_whole_is_fair_at_best():
    train = Cohort.of([[["A", "B"], ["A"]]] * 30)
    rows = (
        Row("prevalence_off_2x", "fidelity", "down", "all", 0.0, None, None, 2, ""),
        Row("codes_per_visit_diff", "fidelity", "match", "all", 0.01, None, None, 2, ""),
    )
    found = compare(Scores("x", 1, rows), train)
    assert quality(found) == {
        **dict.fromkeys(KEYS, "unknown"), "prevalence": "good", "codes_per_visit": "good"
    }  # fmt: skip
    assert found.quality == "fair" and found.releasable
    assert compare(Scores("x", 1, ()), train).quality == "unknown"


def test_what_the_records_do_not_have_is_said_and_does_not_count():
    train = Cohort.of([[["A"]], [["B"]]] * 30)
    found = {one.key: one for one in compare(Scores("x", 1, ()), train).each}
    assert not any(found[key].applies for key in ("cooccurrence", "order", "values", "stays"))
    assert found["order"].sentence == "no patient of these records has two visits"


@pytest.mark.parametrize(
    ("share", "expected"), [(0.9, "good"), (0.6, "fair"), (0.2, "poor"), (1.7, "good"), (None, "unknown")]
)
def test_the_share_of_the_gap_decides_where_more_is_better(share, expected):
    row = Row("pair_seen_heldout", "tail", "up", "halves", 0.5, None, None, 9, "", 0.8, 1.0, 0.2, share)
    train = Cohort.of([[["A", "B"], ["A"]]] * 30)
    assert quality(compare(Scores("x", 1, (row,)), train))["cooccurrence"] == expected


def test_beyond_real_is_as_wrong_as_before_it_where_a_match_is_wanted():
    share, _ = normalise(Score(0.3, 9), 0.0, 0.2, "match")
    row = Row("next_visit_gain", "fidelity", "match", "all", 0.3, None, None, 9, "", 0.2, None, 0.0, share)
    train = Cohort.of([[["A", "B"], ["A"]]] * 30)
    found = {one.key: one for one in compare(Scores("x", 1, (row,)), train).each}
    assert found["order"].quality == "fair" and "50% of the gap" in found["order"].sentence


@pytest.mark.parametrize(("low", "known"), [(0.5, True), (0.25, False)])
def test_a_gap_smaller_than_its_uncertainty_says_nothing(low, known):
    """Independent codes reach 0.1 to 0.3; real patients 0.8, from `low` on."""
    row = Row("pair_seen_heldout", "tail", "up", "halves", 0.5, None, None, 9, "", 0.8, 1.0, 0.2, 0.6)
    row = replace(row, marginal_low=0.1, marginal_high=0.3, real_test_low=low, real_test_high=0.9)
    found = {one.key: one for one in compare(Scores("x", 1, (row,)), Cohort.of([[["A", "B"]]] * 30)).each}
    assert (found["cooccurrence"].quality == "unknown") != known
    assert known or found["cooccurrence"].sentence == "too few patients to tell"
