"""Examples of masked labels: the label's codes are gone from the judged visit and from nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort, LabelRule
from adapcla.evaluation import masking, utility
from adapcla.evaluation.comparison import Comparison
from adapcla.evaluation.utility import masked, masked_trial
from adapcla.evaluation.references import marginal
from adapcla.evaluation.metric import METRICS

RULE = LabelRule.of({"a": ["A1", "A2"], "b": ["B1"]})
VOCABULARY = ["A1", "A2", "B1", "X"]


def test_only_the_codes_of_the_label_and_only_in_the_last_visit_are_masked():
    cohort = Cohort.of([[["A1", "X"], ["A1", "A2", "B1"]], [["A2"]]], VOCABULARY)
    examples, truth = masked(cohort, RULE, np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    assert truth.tolist() == [1, 1, 1, 0]
    assert list(examples.patients()) == [
        [["A1", "X"], ["B1", "zz-asked/00"]],
        [["A1", "X"], ["A1", "A2", "zz-asked/01"]],
        [["zz-asked/00"]],
        [["A2", "zz-asked/01"]],
    ]


def test_every_test_patient_is_asked_for_every_label_and_repeats_stay_on_one_side():
    made = Cohort.of([[["A1", "X"]], [["B1"]], [["X"]], [["A1"], ["B1"]]] * 15, VOCABULARY)
    test = Cohort.of([[["A1"]], [["X"]], [["B1", "A2"]]], VOCABULARY)
    trial, patients = masked_trial(made, test, RULE, seed=1)
    assert patients.tolist() == [0, 1, 2]
    assert trial.test.targets[0].ravel().tolist() == [1, 0, 0, 0, 1, 1]
    # 60 patients are asked for both labels' worth of examples each; one record in 15 copies is on one side.
    assert len(trial.train.rows[0]) + len(trial.valid.rows[0]) == 120
    records = [str(record[:-1]) + str(sorted(record[-1])) for record in trial.train.inputs.patients()]
    sides = [{records[row] for row in part.rows[0]} for part in (trial.train, trial.valid)]
    assert not sides[0] & sides[1]


def company(n: int, seed: int) -> Cohort:
    """Two kinds of patients: a label's code stands with the X of its kind, and is new in the last visit."""
    draw = np.random.default_rng(seed)
    patients = []
    for _ in range(n):
        kind, ill = int(draw.integers(2)), draw.random() < 0.9
        mark = ["A1", "A2"][int(draw.integers(2))] if kind == 0 else "B1"
        visit = [f"X{kind}"] + [mark] * ill if draw.random() < 0.9 else ["X2"]
        patients.append([["X2"]] * int(draw.integers(0, 2)) + [visit])
    return RULE.label(Cohort.of(patients, ["A1", "A2", "B1", "X0", "X1", "X2"]))


def test_what_stands_with_a_label_is_learned_and_independent_codes_teach_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(utility, "QUICK_LABELS", 1)
    monkeypatch.setattr(masking, "EXAMPLES", 2000)
    train, test = company(1000, 1), company(300, 2)
    real, chance = (
        METRICS["tstr_masked_auroc"].compute(Comparison.of(train, test, made, quick=True))
        for made in (train, marginal(train, 1000, seed=1))
    )
    assert real["all"].low > 0.7 and real["all"].low > chance["all"].high
    # Nobody had the label before: all are new, and a repeat cannot be judged.
    assert real["new"].value == real["all"].value
    assert real["repeat"].value is None and real["repeat"].reason
