"""The fidelity suite on cases solved by hand, and what copying must score."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import wasserstein_distance
from sklearn.metrics import r2_score

from adapcla.data import Cohort
from adapcla.evaluation.comparison import Comparison, Score
from adapcla.evaluation.metric import METRICS, metrics_of

metrics_of(["fidelity"])


def scores(key: str, train: Cohort, synthetic: Cohort, test: Cohort | None = None) -> dict[str, Score]:
    return METRICS[key].compute(Comparison.of(train, test or train, synthetic))


def value(key: str, train: Cohort, synthetic: Cohort, test: Cohort | None = None) -> float | None:
    return scores(key, train, synthetic, test)["all"].value


@pytest.fixture
def train() -> Cohort:
    """Four visits of three patients; prevalence A 3/4, B 2/4, C 1/4, and six codes in all."""
    return Cohort.of([[["A", "B"], ["A"]], [["A", "B"]], [["C"]]])


def test_prevalence_error_by_hand(train: Cohort):
    """Synthetic prevalence A 1/2, B 1/2, D 1/2 against A 3/4, B 1/2, C 1/4, D 0: gaps ¼, 0, ¼, ½ over four codes."""
    made = Cohort.of([[["A", "B"]], [["D"]]])
    assert value("prevalence_mae", train, made) == pytest.approx(0.25)
    expected = r2_score([0.75, 0.5, 0.25, 0.0], [0.5, 0.5, 0.0, 0.5])
    assert value("prevalence_r2", train, made) == pytest.approx(expected)
    assert value("unigram_r2", train, made) == pytest.approx(expected)


def test_log_prevalence_adds_half_a_visit(train: Cohort):
    """Codes A, B, C: (3.5, 2.5, 1.5)/5 against, for two visits {A,B} {A,B}, (2.5, 2.5, 0.5)/3."""
    made = Cohort.of([[["A", "B"]], [["A", "B"]]], train.vocabulary)
    truth, guess = np.log(np.array([3.5, 2.5, 1.5]) / 5), np.log(np.array([2.5, 2.5, 0.5]) / 3)
    assert value("prevalence_log_mae", train, made) == pytest.approx(np.abs(truth - guess).mean())
    assert value("prevalence_log_r2", train, made) == pytest.approx(r2_score(truth, guess))


def test_heldout_scores_look_at_the_test_patients(train: Cohort):
    made = Cohort.of([[["C"]], [["A", "B"]]])
    assert value("prevalence_mae_heldout", train, made, test=made) == 0.0
    assert value("prevalence_mae", train, made, test=made) > 0


def test_prevalence_by_stratum_needs_something_that_varies(train: Cohort):
    """Of three codes one is tail, one head: R² of one number says nothing, its error does."""
    assert scores("prevalence_r2", train, train)["tail"].reason == "fewer than two such codes"
    assert scores("prevalence_mae", train, train)["tail"].value == 0.0


def test_lengths_by_hand(train: Cohort):
    """Visits per patient 2, 1, 1 (mean 4/3) against 3; codes per visit 2, 1, 2, 1 (mean 1.5) against 1."""
    made = Cohort.of([[["A"], ["A"], ["B"]]])
    assert value("visits_per_patient_diff", train, made) == pytest.approx(3 - 4 / 3)
    assert value("codes_per_visit_diff", train, made) == pytest.approx(-0.5)
    assert value("visits_per_patient_w1", train, made) == pytest.approx(wasserstein_distance([2, 1, 1], [3]))
    assert value("codes_per_visit_w1", train, made) == pytest.approx(0.5)


def test_mass_and_coverage_by_hand(train: Cohort):
    """The tail is C. Synthetic codes A, C, C, Z: tail mass 2/4, unseen 1/4; A and C of A, B, C are covered."""
    made = Cohort.of([[["A", "C"]], [["C", "Z"]]])
    assert value("tail_mass", train, made) == 0.5
    assert value("unseen_mass", train, made) == 0.25
    assert value("tail_coverage", train, made) == 1.0
    assert value("code_coverage", train, made) == pytest.approx(2 / 3)


def test_sequence_order_matters_to_sequential_bigrams_only():
    forth = Cohort.of([[["A"], ["B"]], [["A"], ["C"]], [["A"], ["B"]]])
    back = Cohort.of([list(reversed(record)) for record in forth.patients()])
    assert value("bigram_corr", forth, back) == value("bigram_corr", forth, forth)
    assert value("sequential_bigram_corr", forth, forth) == pytest.approx(1.0)
    assert value("sequential_bigram_r2", forth, back) < 0


@pytest.mark.parametrize("key", [one.key for one in metrics_of(["fidelity"]) if not one.heldout])
def test_an_exact_copy_is_perfect(key: str):
    train = Cohort.of([[["A", "B"], ["A", "C"]], [["A", "B", "D"]], [["A"], ["B"], ["A", "B"]], [["E", "A"]]])
    one = METRICS[key]
    score = one.compute(Comparison.of(train, train, train))["all"]
    if one.goal == "up":
        assert score.value == pytest.approx(1.0)
    elif one.goal == "down" or key.endswith("_diff"):
        assert score.value == pytest.approx(0.0, abs=1e-12)


def test_intervals_narrow_with_more_patients(train: Cohort):
    draw = np.random.default_rng(1)
    many = [[[c for c in "ABC" if draw.random() < 0.5] or ["A"]] for _ in range(2000)]
    widths = []
    for n in (100, 2000):
        score = scores("prevalence_mae", train, Cohort.of(many[:n]))["all"]
        assert score.low is not None and score.high is not None
        widths.append(score.high - score.low)
    assert widths[1] < widths[0] / 2
