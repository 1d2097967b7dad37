"""Train on synthetic, test on real: chance where there is nothing to learn, better where there is."""

import numpy as np
import pytest

from adapcla import Cohort
from adapcla.data import LabelRule
from adapcla.evaluation import utility
from adapcla.evaluation.comparison import Comparison
from adapcla.evaluation.utility import accuracy, roc_area
from adapcla.evaluation.references import marginal
from adapcla.evaluation.metric import METRICS, metrics_of
from adapcla.evaluation.utility import Prediction, label_table

KEYS = [metric.key for metric in metrics_of(["utility"])]
GROUPS = 4
#: Label g: any code of group g.
RULE = LabelRule.of({f"group{g}": [f"G{g}{c}" for c in range(6)] for g in range(GROUPS)})


def loyal(n: int, seed: int) -> Cohort:
    """Patients whose every visit holds two codes of their own group and one of a random group."""
    random = np.random.default_rng(seed)
    patients = []
    for _ in range(n):
        group = random.integers(GROUPS)
        patients.append(
            [
                {f"G{group}{c}" for c in random.integers(0, 6, 2)}
                | {f"G{random.integers(GROUPS)}{random.integers(6)}"}
                | {f"X{random.integers(10)}"}
                for _ in range(random.integers(2, 5))
            ]
        )
    vocabulary = [code for codes in RULE.codes for code in codes] + [f"X{i}" for i in range(10)]
    return RULE.label(Cohort.of(patients, vocabulary))


@pytest.fixture(scope="module")
def learned():
    """Scores of classifiers trained on real patients, and of next-visit ones trained on independent codes."""
    train, test = loyal(800, 1), loyal(400, 2)
    out = {}
    with pytest.MonkeyPatch.context() as patch:
        # The quick look takes every third label; here are few.
        patch.setattr(utility, "QUICK_LABELS", 1)
        for name, synthetic, keys in (
            ("real", train, KEYS),
            ("marginal", marginal(train, 800, seed=1), [key for key in KEYS if "next" in key]),
        ):
            comparison = Comparison.of(train, test, synthetic, quick=True)
            out[name] = {key: METRICS[key].compute(comparison)["all"] for key in keys}
    return out


def test_the_next_visit_is_learned_from_real_patients_and_not_from_independent_codes(learned):
    assert learned["real"]["tstr_next_auroc"].low > 0.75
    assert abs(learned["marginal"]["tstr_next_auroc"].value - 0.5) < 0.2
    for key in ("tstr_next_auroc", "tstr_next_auprc"):
        assert learned["real"][key].low > learned["marginal"][key].high


def test_labels_that_are_in_the_input_are_learned(learned):
    for key in ("tstr_acc", "tstr_f1", "tstr_auprc", "tstr_natural_auprc", "tstr_natural_auroc"):
        assert learned["real"][key].value > 0.8


def test_scores_are_in_bounds_with_their_intervals_and_numbers(learned):
    for scores in learned.values():
        for key, score in scores.items():
            assert 0 <= score.low <= score.value <= score.high <= 1, key
    assert learned["real"]["tstr_natural_auroc"].n == 400 * GROUPS
    assert learned["real"]["tstr_acc"].n <= 200 * GROUPS


def test_the_same_comparison_gives_the_same_scores():
    train, test = loyal(120, 1), loyal(80, 2)
    one, same = (METRICS["tstr_next_auprc"].compute(Comparison.of(train, test, train, quick=True)) for _ in range(2))
    assert one == same


def test_a_label_that_was_never_generated_counts_as_chance_instead_of_vanishing(monkeypatch):
    """Of the 4 labels, group 0 is never written: accuracy 0.5, F1 0, AUPRC 0.5 enter the mean in its place."""
    train, test = loyal(400, 1), loyal(200, 2)
    without = train.keep_codes(np.array([not token.startswith("G0") for token in train.vocabulary.tokens]))
    comparison = Comparison.of(train, test, without, quick=True)
    monkeypatch.setattr(utility, "QUICK_LABELS", 1)
    judgements = comparison.once(utility.balanced_predictions)
    assert [each.label for each in judgements] == [0, 1, 2, 3]
    table = label_table(judgements, RULE.names)
    assert table[0]["accuracy"] is None and "synthetic patients" in table[0]["reason"]
    others = [row["accuracy"] for row in table[1:]]
    assert METRICS["tstr_acc"].compute(comparison)["all"].value == pytest.approx((sum(others) + 0.5) / 4)


def test_the_mean_over_labels_on_paper():
    """Label 0: both right, accuracy 1. Label 1: one of two right, 0.5. Label 2 has no positive test patient and goes.

    Mean = 0.75 over 4 pairs. Label 1 is the rarest of training, so that it makes up the tail.
    """
    rule = LabelRule.of({"a": ["A"], "b": ["B"], "c": ["C"]})
    train = rule.label(Cohort.of([[["A", "C"]], [["A"]], [["C"]], [["A", "B", "C"]]]))
    comparison = Comparison.of(train, train.subset([0, 1]), train, intervals=False)
    rows = np.arange(2)
    judgements = [
        Prediction(0, rows, np.array([1, 0], np.uint8), np.array([0.9, 0.1])),
        Prediction(1, rows, np.array([1, 0], np.uint8), np.array([0.9, 0.8])),
        Prediction(2, rows, np.array([0, 0], np.uint8), np.array([0.9, 0.8])),
    ]
    scores = utility.mean_over_labels(lambda _: judgements, accuracy, comparison)
    assert (scores["all"].value, scores["all"].n, scores["all"].low) == (0.75, 4, None)
    assert scores["tail"].value == 0.5


@pytest.mark.parametrize("key", KEYS)
def test_too_few_patients_is_null_with_a_reason(key):
    cohort = loyal(8, 1).subset(np.arange(8))
    for score in METRICS[key].compute(Comparison.of(cohort, cohort, cohort)).values():
        assert score.value is None and score.reason


def test_patients_of_one_visit_have_no_next_visit_to_learn():
    train = loyal(100, 1)
    single = Cohort.of([[["G00", "X1"]], [["G10"]]] * 50, train.vocabulary)
    comparison = Comparison.of(train, train, single)
    assert METRICS["tstr_next_auroc"].compute(comparison)["all"].reason == (
        "fewer than 50 synthetic patients of two visits or more"
    )


def test_new_onsets_are_judged_apart_from_repeats(monkeypatch):
    """Three patients had the label before and three did not; one of each has it again, or for the first time."""
    rule = LabelRule.of({"a": ["A"]})
    had, fresh = [["A"]], [["B"]]
    test = rule.label(Cohort.of([[*past, last] for past in (had, fresh) for last in (["A"], ["B"], ["B"])]))
    said = np.array([0.9, 0.1, 0.2, 0.3, 0.8, 0.1])
    judgement = Prediction(0, np.arange(6), np.array([1, 0, 0, 1, 0, 0], np.uint8), said)
    comparison = Comparison.of(test, test, test, intervals=False)
    scores = utility.mean_over_labels(lambda _: [judgement], roc_area, comparison, onsets=True)
    assert {name: score.value for name, score in scores.items()} == {
        "all": 7 / 8,
        "tail": None,
        "new": 1 / 2,
        "repeat": 1.0,
    }
    assert scores["new"].n == scores["repeat"].n == 3
