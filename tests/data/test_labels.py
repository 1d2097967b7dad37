"""Labels by rule: what sets a label, how `auto` chooses, and that a rule survives its card."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapcla.data import Code, Cohort
from adapcla.data.labels import LabelRule
from adapcla.errors import InputError


def test_any_visit_of_a_patient_sets_the_label() -> None:
    """Patient 0 holds A at visit 1 only: label a is 1 for the patient, (0, 1) for its visits."""
    cohort = Cohort.of([[["B"], ["A"]], [["C"]]])
    rule = LabelRule.of({"a": ["A"], "bc": ["B", "C"], "unknown": ["Z"]})
    assert rule.apply(cohort).tolist() == [[1, 1, 0], [0, 1, 0]]
    assert rule.apply_visits(cohort).tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]
    assert rule.apply(cohort).dtype == np.uint8


def test_auto_takes_the_nearest_on_the_log_scale() -> None:
    """Of 100 patients A has 5 (log 2 away), B 99 (log 1.98 away), C 20 and D 10 (inside), E 1 (log 10 away)."""
    counts = {"A": 5, "B": 99, "C": 20, "D": 10, "E": 1}
    patients = [[[code for code, n in counts.items() if i < n] or ["X"]] for i in range(100)]
    cohort = Cohort.of(patients)
    assert LabelRule.auto(cohort, n=1).names == ("C",)
    assert LabelRule.auto(cohort, n=2).names == ("C", "D")
    assert LabelRule.auto(cohort, n=3).names == ("B", "C", "D")
    assert LabelRule.auto(cohort, n=4).names == ("A", "B", "C", "D")


def test_auto_leaves_out_what_everybody_has() -> None:
    cohort = Cohort.of([[["A", "B"]], [["A"]]])
    assert LabelRule.auto(cohort).names == ("B",)


def test_auto_groups_by_category_and_keeps_systems_apart() -> None:
    """V10 is a history of cancer in ICD-9 and a cyclist's injury in ICD-10: two labels."""
    codes = [
        Code.of("V1005", "ICD9CM"),
        Code.of("V100XXA", "ICD10CM"),
        Code.of("4019", "ICD9CM"),
        Code.of("4011", "ICD9CM"),
    ]
    cohort = Cohort.of([[["ICD9CM/V1005"]], [["ICD10CM/V100XXA"]], [["ICD9CM/4019"], ["ICD9CM/4011"]]], codes)
    rule = LabelRule.auto(cohort)
    assert rule.names == ("401", "V10 (V00-Y99)", "V10 (V01-V91)")
    assert rule.apply(cohort).tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]


def test_auto_speaks_of_diagnoses_where_there_are_any() -> None:
    codes = [Code.of("I10", "ICD10CM"), Code.of("aspirin", "RX", domain="drug")]
    both = Cohort.of([[["ICD10CM/I10", "RX/aspirin"]], [["RX/aspirin"]], [["ICD10CM/I10"]]], codes)
    assert LabelRule.auto(both).names == ("I10",)
    drugs = Cohort.of(
        [[["RX/aspirin"]], [["RX/heparin"]]], [Code.of(c, "RX", domain="drug") for c in ("aspirin", "heparin")]
    )
    assert LabelRule.auto(drugs).names == ("RX/aspirin", "RX/heparin")


def test_a_rule_of_unequal_lengths_is_refused() -> None:
    with pytest.raises(InputError):
        LabelRule(("a",), ())


def test_the_rule_survives_a_saved_cohort(tmp_path) -> None:
    rule = LabelRule.of({"z": ["A"], "a": ["B"]})
    rule.label(Cohort.of([[["A"]], [["B"]]])).save(tmp_path / "c")
    again = Cohort.open(tmp_path / "c")
    assert again.label_names == ("z", "a")
    assert LabelRule.from_card(again.card) == rule
    assert LabelRule.from_card({}) is None


visits = st.lists(st.sampled_from("ABCDEFG"), min_size=1, max_size=4)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(visits, min_size=1, max_size=4), min_size=1, max_size=8))
def test_patients_are_the_maximum_of_their_visits(patients: list[list[list[str]]]) -> None:
    cohort = Cohort.of(patients)
    rule = LabelRule.of({"ab": "AB", "c": "C", "none": ""})
    by_visit = rule.apply_visits(cohort)
    wanted = np.maximum.reduceat(by_visit, cohort.patient_starts[:-1], axis=0)
    assert (rule.apply(cohort) == wanted).all()
    auto = LabelRule.auto(cohort, n=3)
    assert auto == LabelRule.auto(cohort.subset(np.arange(cohort.n_patients)[::-1]), n=3)
