"""Train on synthetic, test on real: what a task holds, chance without structure, better with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, roc_auc_score
from tests.evaluation.conftest import GLUCOSE, World, score_of, value_of

from adapcla.data import Cohort, LabelRule
from adapcla.data.vocabulary import READMITTED, discharge_code
from adapcla.evaluation import utility
from adapcla.evaluation.comparison import Comparison
from adapcla.evaluation.metric import METRICS, metrics_of
from adapcla.evaluation.references import marginal
from adapcla.evaluation.stays import Stays
from adapcla.evaluation.utility import (
    MORTALITY,
    READMISSION,
    Prediction,
    balanced_predictions,
    bands_of,
    came_back,
    died_at_last,
    examples_of,
    label_table,
    mask_label_codes,
    masked_task,
    next_visit_predictions,
    readable,
)
from adapcla.seeds import random_stream

# ---- tasks --------------------------------------------------------------------------------------------------
TWO = LabelRule.of({"a": ["A"], "b": ["B"]})


def mixed(n: int, every: int) -> Cohort:
    """n different patients; each `every`-th has code A, each second B."""
    return Cohort.of(
        [
            [[f"N{i:04d}"] + (["A"] if i % every == 0 else []), [f"N{i:04d}"] + (["B"] if i % 2 else [])]
            for i in range(n)
        ],
        [f"N{i:04d}" for i in range(n)] + ["A", "B"],
    )


def test_balanced_sets_have_the_papers_shares_when_patients_are_few():
    """66 of 660 have the label: 6 validate (66/11), 60 train, as many without it beside them; 20 of 200 test."""
    task = utility.balanced_task(mixed(660, 10), mixed(200, 10).on(mixed(660, 10).vocabulary), TWO, seed=1)
    sets = task.task
    assert [len(part.rows[0]) for part in (sets.train, sets.valid, sets.test)] == [120, 12, 40]
    for part in (sets.train, sets.valid, sets.test):
        for target in part.targets:
            assert target.mean() == 0.5
    assert task.learned == (0, 1)
    assert not set(sets.train.rows[0]) & set(sets.valid.rows[0])


def test_large_cohorts_give_the_scaled_numbers_exactly():
    cohort = mixed(400, 2)
    sets = utility.balanced_task(cohort, cohort, TWO, seed=1, scale=0.02).task
    assert [len(part.rows[0]) for part in (sets.train, sets.valid, sets.test)] == [100, 10, 20]


def test_the_test_patients_do_not_depend_on_the_synthetic_ones():
    test = mixed(300, 5)
    one = utility.balanced_task(test, test, TWO, seed=3).task
    other = utility.balanced_task(test.subset(np.arange(150)), test, TWO, seed=3).task
    for a, b in zip(one.test.rows, other.test.rows, strict=True):
        assert a.tolist() == b.tolist()


def test_a_label_with_too_few_patients_says_why():
    synthetic, test = mixed(300, 100), mixed(300, 5)
    task = utility.balanced_task(synthetic, test, TWO, seed=1)
    assert task.learned == (1,)
    assert "synthetic" in task.reasons[0]
    rows, truth = task.untaught[0]
    assert truth.mean() == 0.5 and len(rows) == 120
    task = utility.balanced_task(test, synthetic, TWO, seed=1)
    assert "test patients" in task.reasons[0] and 0 not in task.untaught


def test_repeats_of_a_record_stay_on_one_side():
    cohort = mixed(50, 5)
    repeated = cohort.subset(np.tile(np.arange(50), 20))
    for task in (
        utility.balanced_task(repeated, cohort, TWO, seed=1).task,
        utility.natural_task(repeated, cohort, TWO, seed=1),
    ):
        keys = utility.record_keys(repeated)
        for train, valid in zip(task.train.rows, task.valid.rows, strict=True):
            assert not np.isin(keys[train], keys[valid]).any()


@given(n=st.integers(2, 60), kinds=st.integers(2, 20), share=st.floats(0.01, 0.99), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_apart_loses_nobody(n, kinds, share, seed):
    records = np.arange(n, dtype=np.uint64) % np.uint64(kinds)
    rows = np.arange(n)
    large, small = utility.apart(records, rows, share, random_stream(seed, "test"))
    assert sorted([*large, *small]) == rows.tolist()
    assert not set(records[large]) & set(records[small])
    assert len(large) and len(small)


def test_the_natural_task_uses_everybody_at_natural_prevalence():
    cohort = mixed(200, 5)
    task = utility.natural_task(cohort, cohort.subset(np.arange(50)), TWO, seed=1)
    assert sorted(np.concatenate([task.train.rows[0], task.valid.rows[0]])) == list(range(200))
    assert len(task.valid.rows[0]) == 20
    assert task.test.targets[0].shape == (50, 2)


def test_next_visit_inputs_hold_no_last_visit():
    """Code B is only in second visits and A only in first ones: inputs never hold B, targets never say a."""
    cohort = mixed(100, 5)
    task = utility.next_visit_task(cohort, cohort, TWO, seed=1)
    assert task.train.inputs.n_visits == 100
    assert task.train.inputs.visit_counts[cohort.vocabulary.index["B"]] == 0
    assert task.test.targets[0].mean(axis=0).tolist() == [0.0, 0.5]


def test_patients_of_one_visit_have_no_next_visit():
    cohort = Cohort.of([[["A"]], [["A"], ["B"]], [["B"], ["A"], ["A", "B"]]])
    assert list(cohort.without_last_visits().patients()) == [[["A"]], [["B"], ["A"]]]
    assert utility.last_visit_labels(cohort, TWO).tolist() == [[0, 1], [1, 1]]


def test_long_records_are_read_from_their_last_visits():
    cohort = Cohort.of([[[f"C{i:02d}"] for i in range(30)]])
    kept = utility.recent(cohort)
    assert kept.n_visits == utility.LONGEST_RECORD
    assert next(iter(kept.patients()))[-1] == ["C29"]


@pytest.mark.parametrize(("n_labels", "n_tail"), [(25, 8), (9, 3), (2, 0)])
def test_the_tail_is_the_8_rarest_of_25_labels(n_labels, n_tail):
    counts = np.arange(n_labels, 0, -1)
    labels = (np.arange(n_labels)[:, None] < counts[None, :]).astype(np.uint8)
    tail = utility.tail_labels(labels)
    assert tail.sum() == n_tail
    assert tail[n_labels - n_tail :].all()


def test_labels_come_from_the_card_before_they_are_made_up():
    cohort = mixed(40, 5)
    assert utility.label_rule(TWO.label(cohort)) == TWO
    assert utility.label_rule(cohort) == LabelRule.auto(cohort)


# ---- labels -------------------------------------------------------------------------------------------------
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
    for key in ("tstr_acc", "tstr_f1", "tstr_auprc"):
        assert learned["real"][key].value > 0.8


def test_scores_are_in_bounds_with_their_intervals_and_numbers(learned):
    for scores in learned.values():
        for key, score in scores.items():
            assert 0 <= score.low <= score.value <= score.high <= 1, key
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
    predictions = comparison.once(utility.balanced_predictions)
    assert [each.label for each in predictions] == [0, 1, 2, 3]
    table = label_table(predictions, RULE.names)
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
    predictions = [
        Prediction(0, rows, np.array([1, 0], np.uint8), np.array([0.9, 0.1])),
        Prediction(1, rows, np.array([1, 0], np.uint8), np.array([0.9, 0.8])),
        Prediction(2, rows, np.array([0, 0], np.uint8), np.array([0.9, 0.8])),
    ]
    comparison._work[balanced_predictions,] = predictions
    scores = METRICS["tstr_acc"].compute(comparison)
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


def test_new_onsets_are_scored_apart_from_repeats():
    """Three patients had the label before and three did not; one of each has it again, or for the first time."""
    rule = LabelRule.of({"a": ["A"]})
    had, fresh = [["A"]], [["B"]]
    test = rule.label(Cohort.of([[*past, last] for past in (had, fresh) for last in (["A"], ["B"], ["B"])]))
    probability = np.array([0.9, 0.1, 0.2, 0.3, 0.8, 0.1])
    prediction = Prediction(0, np.arange(6), np.array([1, 0, 0, 1, 0, 0], np.uint8), probability)
    comparison = Comparison.of(test, test, test, intervals=False)
    comparison._work[next_visit_predictions,] = [prediction]
    scores = METRICS["tstr_next_auroc"].compute(comparison)
    assert {name: score.value for name, score in scores.items()} == {
        "all": 7 / 8,
        "tail": None,
        "new": 1 / 2,
        "repeat": 1.0,
    }
    assert scores["new"].n == scores["repeat"].n == 3


# ---- masked labels ------------------------------------------------------------------------------------------
THREE = LabelRule.of({"a": ["A1", "A2"], "b": ["B1"]})
FEW_CODES = ["A1", "A2", "B1", "X"]


def test_only_the_codes_of_the_label_and_only_in_the_last_visit_are_masked():
    cohort = Cohort.of([[["A1", "X"], ["A1", "A2", "B1"]], [["A2"]]], FEW_CODES)
    examples, truth = mask_label_codes(cohort, THREE, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    assert truth.tolist() == [1, 1, 1, 0]
    assert list(examples.patients()) == [
        [["A1", "X"], ["B1", "zz-question/00"]],
        [["A1", "X"], ["A1", "A2", "zz-question/01"]],
        [["zz-question/00"]],
        [["A2", "zz-question/01"]],
    ]


def test_every_test_patient_is_asked_for_every_label_and_repeats_stay_on_one_side():
    made = Cohort.of([[["A1", "X"]], [["B1"]], [["X"]], [["A1"], ["B1"]]] * 15, FEW_CODES)
    test = Cohort.of([[["A1"]], [["X"]], [["B1", "A2"]]], FEW_CODES)
    task, patients = masked_task(made, test, THREE, seed=1)
    assert patients.tolist() == [0, 1, 2]
    assert task.test.targets[0].ravel().tolist() == [1, 0, 0, 0, 1, 1]
    # 60 patients are asked for both labels' worth of examples each; one record in 15 copies is on one side.
    assert len(task.train.rows[0]) + len(task.valid.rows[0]) == 120
    records = [str(record[:-1]) + str(sorted(record[-1])) for record in task.train.inputs.patients()]
    sides = [{records[row] for row in part.rows[0]} for part in (task.train, task.valid)]
    assert not sides[0] & sides[1]


def neighbours(n: int, seed: int) -> Cohort:
    """Two kinds of patients: a label's code stands with the X of its kind, and is new in the last visit."""
    draw = np.random.default_rng(seed)
    patients = []
    for _ in range(n):
        kind, ill = int(draw.integers(2)), draw.random() < 0.9
        mark = ["A1", "A2"][int(draw.integers(2))] if kind == 0 else "B1"
        visit = [f"X{kind}"] + [mark] * ill if draw.random() < 0.9 else ["X2"]
        patients.append([["X2"]] * int(draw.integers(0, 2)) + [visit])
    return THREE.label(Cohort.of(patients, ["A1", "A2", "B1", "X0", "X1", "X2"]))


def test_what_stands_with_a_label_is_learned_and_independent_codes_teach_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(utility, "QUICK_LABELS", 1)
    monkeypatch.setattr(utility, "EXAMPLES", 2000)
    train, test = neighbours(1000, 1), neighbours(300, 2)
    real, chance = (
        METRICS["tstr_masked_auroc"].compute(Comparison.of(train, test, made, quick=True))
        for made in (train, marginal(train, 1000, seed=1))
    )
    assert real["all"].low > 0.7 and real["all"].low > chance["all"].high
    # Nobody had the label before: all are new, and a repeat cannot be judged.
    assert real["new"].value == real["all"].value
    assert real["repeat"].value is None and real["repeat"].reason


# ---- outcomes -----------------------------------------------------------------------------------------------
def test_death_is_asked_of_last_visits_and_its_codes_are_taken_out_there_alone():
    cohort = Cohort.of(
        [[["A", "END/home"], ["B", "END/died"]], [["A", "END/home"]]],
        ["A", "B", *map(discharge_code, ("died", "home"))],
    )
    asked = examples_of(cohort, died_at_last(Stays.of(cohort)), MORTALITY, most=9, seed=1)
    assert list(asked.inputs.patients()) == [[["A", "END/home"], ["B", "zz-question/00"]], [["A", "zz-question/00"]]]
    assert asked.truth.tolist() == [1, 0] and asked.patient.tolist() == [0, 1]


def test_return_is_asked_of_every_stay_of_which_it_is_known():
    cohort = Cohort.of([[["A", READMITTED.token], ["B"]]], ["A", "B", READMITTED])
    asked = examples_of(cohort, came_back(Stays.of(cohort)), READMISSION, most=9, seed=1)
    with_history = [["A", READMITTED.token], ["B", "zz-question/00"]]
    assert list(asked.inputs.patients()) == [[["A", "zz-question/00"]], with_history]
    assert asked.truth.tolist() == [1, 0]
    assert len(examples_of(cohort, came_back(Stays.of(cohort)), READMISSION, most=1, seed=1).truth) == 1


def test_numbers_are_read_as_bands_and_no_visit_is_lost(world: World):
    cohort = world(100)
    read = readable(cohort, bands_of(cohort))
    assert read.n_visits == cohort.n_visits and read.n_entries == cohort.n_entries and read.values is None
    tokens = {token for patient in read.patients() for visit in patient for token in visit}
    assert f"{GLUCOSE.token}/b00" in tokens and GLUCOSE.token not in tokens
    few = readable(cohort, bands_of(cohort.subset(np.arange(3))))
    assert GLUCOSE.token in {token for patient in few.patients() for visit in patient for token in visit}


def test_few_deaths_say_so(world: World):
    train = world(300, 1)
    few = train.subset(np.arange(12))
    reason = score_of("mortality_auroc", train, train, few, quick=True).reason
    assert reason.startswith("insufficient data")


def test_a_cohort_in_which_nobody_dies_is_predicted_no_for_everybody(world: World):
    train = world(300, 1)
    alive = train.keep_entries(np.asarray(train.codes) != train.vocabulary.index["END/died"])
    score = score_of("mortality_auroc", train, alive, quick=True)
    assert score.value == 0.5


@pytest.mark.behaviour
def test_other_patients_of_the_law_teach_who_dies_and_chance_does_not(world: World):
    train, test = world(600, 1), world(800, 3)
    taught, chance = (
        value_of("mortality_auroc", train, one, test, quick=True) for one in (world(1500, 2), marginal(train, 1500, 1))
    )
    assert taught > 0.75 > 0.65 > chance


# ---- measures with patient weights --------------------------------------------------------------------------
REFERENCE = {
    utility.accuracy: lambda y, p, w: accuracy_score(y, p >= 0.5, sample_weight=w),
    utility.f1: lambda y, p, w: f1_score(y, p >= 0.5, sample_weight=w, zero_division=0),
    utility.average_precision: lambda y, p, w: average_precision_score(y, p, sample_weight=w),
    utility.roc_area: lambda y, p, w: roc_auc_score(y, p, sample_weight=w),
}


@st.composite
def cases(draw):
    """Truths of both kinds, scores with many ties, weights with zeros that leave both kinds."""
    n = draw(st.integers(2, 40))
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    truth = random.integers(0, 2, n).astype(np.uint8)
    truth[:2] = 0, 1
    score = np.round(random.random(n), draw(st.integers(0, 3)))
    weights = random.poisson(1.0, (n, 3))
    weights[:2] = 1
    return truth, score, weights


@pytest.mark.parametrize("measure", REFERENCE, ids=lambda measure: measure.__name__)
@given(case=cases())
@settings(max_examples=60, deadline=None)
def test_every_weighting_gives_what_scikit_learn_gives(measure, case):
    truth, score, weights = case
    expected = [REFERENCE[measure](truth, score, column) for column in weights.T]
    found = measure(truth, score, weights)
    assert found == pytest.approx(expected, abs=1e-12)
    assert ((found >= 0) & (found <= 1)).all()


def test_a_case_on_paper():
    """Order by score: 1, 0, 1, 0. Precision at the hits: 1/1 and 2/3, so AUPRC = (1 + 2/3)/2 = 5/6.

    Of the four pairs of a positive and a negative three are in order: AUROC = 3/4.
    """
    truth, score, ones = np.array([1, 0, 1, 0], np.uint8), np.array([0.9, 0.8, 0.7, 0.1]), np.ones((4, 1), int)
    assert utility.average_precision(truth, score, ones)[0] == pytest.approx(5 / 6)
    assert utility.roc_area(truth, score, ones)[0] == pytest.approx(3 / 4)


def test_one_kind_of_patient_has_no_ranking():
    none, score, ones = np.zeros(3, np.uint8), np.array([0.1, 0.2, 0.3]), np.ones((3, 2), int)
    assert np.isnan(utility.average_precision(none, score, ones)).all()
    assert np.isnan(utility.roc_area(none, score, ones)).all()
    assert utility.f1(none, score, ones).tolist() == [0.0, 0.0]


def test_a_constant_score_is_chance():
    truth, score, ones = np.array([1, 0, 0, 0], np.uint8), np.zeros(4), np.ones((4, 1), int)
    assert utility.average_precision(truth, score, ones)[0] == pytest.approx(0.25)
    assert utility.roc_area(truth, score, ones)[0] == pytest.approx(0.5)
