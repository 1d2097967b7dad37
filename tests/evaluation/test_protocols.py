"""Data sets of the utility protocols: balance, sizes, separation, what a classifier may see."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapcla import Cohort
from adapcla.data import LabelRule
from adapcla.evaluation import protocols
from adapcla.seeds import random_stream

RULE = LabelRule.of({"a": ["A"], "b": ["B"]})


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
    trial = protocols.balanced_trial(mixed(660, 10), mixed(200, 10).on(mixed(660, 10).vocabulary), RULE, seed=1)
    sets = trial.trial
    assert [len(part.rows[0]) for part in (sets.train, sets.valid, sets.test)] == [120, 12, 40]
    for part in (sets.train, sets.valid, sets.test):
        for target in part.targets:
            assert target.mean() == 0.5
    assert trial.learned == (0, 1)
    assert not set(sets.train.rows[0]) & set(sets.valid.rows[0])


def test_large_cohorts_give_the_scaled_numbers_exactly():
    cohort = mixed(400, 2)
    sets = protocols.balanced_trial(cohort, cohort, RULE, seed=1, scale=0.02).trial
    assert [len(part.rows[0]) for part in (sets.train, sets.valid, sets.test)] == [100, 10, 20]


def test_the_test_patients_do_not_depend_on_the_synthetic_ones():
    test = mixed(300, 5)
    one = protocols.balanced_trial(test, test, RULE, seed=3).trial
    other = protocols.balanced_trial(test.subset(np.arange(150)), test, RULE, seed=3).trial
    for a, b in zip(one.test.rows, other.test.rows, strict=True):
        assert a.tolist() == b.tolist()


def test_a_label_with_too_few_patients_says_why():
    synthetic, test = mixed(300, 100), mixed(300, 5)
    trial = protocols.balanced_trial(synthetic, test, RULE, seed=1)
    assert trial.learned == (1,)
    assert "synthetic" in trial.reasons[0]
    rows, truth = trial.untaught[0]
    assert truth.mean() == 0.5 and len(rows) == 120
    trial = protocols.balanced_trial(test, synthetic, RULE, seed=1)
    assert "test patients" in trial.reasons[0] and 0 not in trial.untaught


def test_repeats_of_a_record_stay_on_one_side():
    cohort = mixed(50, 5)
    repeated = cohort.subset(np.tile(np.arange(50), 20))
    for trial in (
        protocols.balanced_trial(repeated, cohort, RULE, seed=1).trial,
        protocols.natural_trial(repeated, cohort, RULE, seed=1),
    ):
        keys = protocols.record_keys(repeated)
        for train, valid in zip(trial.train.rows, trial.valid.rows, strict=True):
            assert not np.isin(keys[train], keys[valid]).any()


@given(n=st.integers(2, 60), kinds=st.integers(2, 20), share=st.floats(0.01, 0.99), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_apart_loses_nobody(n, kinds, share, seed):
    records = np.arange(n, dtype=np.uint64) % np.uint64(kinds)
    rows = np.arange(n)
    large, small = protocols.apart(records, rows, share, random_stream(seed, "test"))
    assert sorted([*large, *small]) == rows.tolist()
    assert not set(records[large]) & set(records[small])
    assert len(large) and len(small)


def test_natural_protocol_uses_everybody_at_natural_prevalence():
    cohort = mixed(200, 5)
    trial = protocols.natural_trial(cohort, cohort.subset(np.arange(50)), RULE, seed=1)
    assert sorted(np.concatenate([trial.train.rows[0], trial.valid.rows[0]])) == list(range(200))
    assert len(trial.valid.rows[0]) == 20
    assert trial.test.targets[0].shape == (50, 2)


def test_next_visit_inputs_hold_no_last_visit():
    """Code B is only in second visits and A only in first ones: inputs never hold B, targets never say a."""
    cohort = mixed(100, 5)
    trial = protocols.next_visit_trial(cohort, cohort, RULE, seed=1)
    assert trial.train.inputs.n_visits == 100
    assert trial.train.inputs.visit_counts[cohort.vocabulary.index["B"]] == 0
    assert trial.test.targets[0].mean(axis=0).tolist() == [0.0, 0.5]


def test_patients_of_one_visit_have_no_next_visit():
    cohort = Cohort.of([[["A"]], [["A"], ["B"]], [["B"], ["A"], ["A", "B"]]])
    assert list(cohort.without_last_visits().patients()) == [[["A"]], [["B"], ["A"]]]
    assert protocols.last_visit_labels(cohort, RULE).tolist() == [[0, 1], [1, 1]]


def test_long_records_are_read_from_their_last_visits():
    cohort = Cohort.of([[[f"C{i:02d}"] for i in range(30)]])
    kept = protocols.recent(cohort)
    assert kept.n_visits == protocols.LONGEST_RECORD
    assert next(iter(kept.patients()))[-1] == ["C29"]


@pytest.mark.parametrize(("n_labels", "n_tail"), [(25, 8), (9, 3), (2, 0)])
def test_the_tail_is_the_8_rarest_of_25_labels(n_labels, n_tail):
    counts = np.arange(n_labels, 0, -1)
    labels = (np.arange(n_labels)[:, None] < counts[None, :]).astype(np.uint8)
    tail = protocols.tail_labels(labels)
    assert tail.sum() == n_tail
    assert tail[n_labels - n_tail :].all()


def test_labels_come_from_the_card_before_they_are_made_up():
    cohort = mixed(40, 5)
    assert protocols.label_rule(RULE.label(cohort)) == RULE
    assert protocols.label_rule(cohort) == LabelRule.auto(cohort)
