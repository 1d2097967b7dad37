"""A cohort in numbers, against cohorts that can be counted by eye."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Attribute, Code, Cohort, description
from adapcla.data.description import describe, lines, long_tail, overlap, parts, spread
from adapcla.data.vocabulary import visit_kind_code


def test_sizes_of_a_cohort_counted_by_eye(tiny_full):
    """{A, B} {B} | {C} | {A, B, D} {A}: 8 entries; A and B in 3 visits, C and D in 1."""
    told = describe(tiny_full)
    assert (told["patients"], told["visits"], told["codes"], told["entries"]) == (3, 5, 4, 8)
    assert told["codes_per_visit"]["mean"] == 1.6
    assert told["visits_per_patient"]["one_visit"] == pytest.approx(1 / 3, abs=1e-6)
    assert told["strata"]["singletons"] == {
        "codes": 2,
        "share_of_codes": 0.5,
        "share_of_entries": 0.25,
        "lowest": 1,
        "highest": 1,
    }
    assert told["bands"]["2-5"]["codes"] == 2
    assert told["domains"]["drug"] == {"codes": 1, "share_of_entries": 0.125}
    assert told["attributes"] == {"sex": {"F": None, "M": None, "unknown": None}}
    assert told["labels"] == {"first": None, "second": None}
    assert told["days"]["between_visits"]["median"] == 18.5
    assert told["dropped"] == {"empty visits": 2}


def test_next_visits_are_compared_pair_by_pair(tiny):
    """{A, B} and {B} share 1 of 2; {A, B, D} and {A} share 1 of 3: the mean is 5/12."""
    assert overlap(tiny)["next_visit"] == pytest.approx(5 / 12, abs=1e-6)
    assert overlap(tiny)["pairs"] == 2


def test_random_visits_are_somebody_elses():
    """Two patients without a code in common: a visit of the other shares nothing."""
    told = overlap(Cohort.of([[["A"], ["A"], ["A"]], [["B"], ["B"], ["B"]]]))
    assert (told["next_visit"], told["random_visit"]) == (1.0, 0.0)


def test_the_overlap_of_single_visits_is_unknown_with_a_reason():
    told = overlap(Cohort.of([[["A"]], [["A"]]]))
    assert told["next_visit"] is None
    assert told["reason"] == "no patient has two visits"


def test_large_cohorts_are_compared_on_a_seeded_sample(monkeypatch):
    monkeypatch.setattr(description, "MOST_PAIRS", 10)
    cohort = Cohort.of([[["A", "B"], ["B"]]] * 30 + [[["C"], ["C"]]] * 30)
    assert overlap(cohort, seed=1)["pairs"] == 10
    assert overlap(cohort, seed=1) == overlap(cohort, seed=1)
    assert len({overlap(cohort, seed=seed)["next_visit"] for seed in range(8)}) > 1


def test_the_curve_of_a_perfect_power_law_has_its_slope():
    """Counts 3,600 / rank: slope −1; half of the entries are within the first codes."""
    counts = np.array([3600 // rank for rank in (1, 2, 3, 4, 5, 6)])
    told = long_tail(counts)
    assert told["slope"] == pytest.approx(-1, abs=1e-6)
    assert told["codes_with_half_of_entries"] == 2
    assert told["curve"] == [[1, 3600], [2, 1800], [5, 720], [6, 600]]


def test_nothing_of_a_single_patient_is_told(tiny_full):
    """Only counts, shares and names of categories: no code, no list as long as the patients or visits."""
    told = describe(tiny_full)
    assert not any(f'"{token}"' in json.dumps(told) for token in tiny_full.vocabulary.tokens)


def test_an_empty_cohort_is_described_too():
    told = describe(Cohort.of([]))
    assert (told["patients"], told["codes_per_visit"]["mean"], told["long_tail"]["slope"]) == (0, None, None)
    json.dumps(told, allow_nan=False)


visits = st.lists(st.sets(st.sampled_from("ABCDEF"), min_size=1), min_size=1, max_size=4)


@given(st.lists(visits, min_size=1, max_size=12))
def test_every_description_is_json_and_its_parts_add_up(patients):
    cohort = Cohort.of(patients)
    told = json.loads(json.dumps(describe(cohort), allow_nan=False))
    cut = told["strata"]
    assert cut["head"]["codes"] + cut["mid"]["codes"] + cut["tail"]["codes"] == told["codes_present"]
    assert sum(part["codes"] for part in told["bands"].values()) == told["codes_present"]
    assert sum(part["share_of_entries"] for part in told["bands"].values()) == pytest.approx(1, abs=1e-5)


def test_the_spread_of_nothing_is_unknown():
    assert set(spread(np.zeros(0, dtype=np.int64)).values()) == {None}


def test_numbers_and_choices_are_told_of_enough_patients_alone():
    """Eleven patients have a glucose, of 1 to 11, and came in; ten of them have a potassium, and nobody was at home."""
    glucose, potassium = (Code.of(name, "LAB", domain="lab", unit="mg/dL") for name in ("glucose", "potassium"))
    patients = [[["LAB/glucose", *(["LAB/potassium"] if i else []), "KIND/inpatient"]] for i in range(11)]
    flat = [value for i in range(11) for value in ([np.nan, i + 1, 4.0] if i else [np.nan, 1.0])]
    cohort = Cohort.of(
        patients,
        [glucose, potassium, visit_kind_code("inpatient"), visit_kind_code("home")],
        values=np.array(flat, dtype=np.float32),
    )
    told = describe(cohort)
    assert told["groups"] == {"kind": {"KIND/inpatient": 1.0}}
    assert told["numbers"] == {
        "codes": 2,
        "of too few patients": 1,
        "told": {"LAB/glucose": {"unit": "mg/dL", "visits": 11, "quartiles": [3.5, 6.0, 8.5]}},
    }
    assert "numbers" not in describe(cohort.without_values())


def test_categories_and_labels_of_few_patients_are_withheld():
    """One patient of sex X was counted in the description, which is what people share first."""
    sex = Attribute(np.array([0] * 30 + [1] * 20 + [2], dtype=np.int16), ("F", "M", "X"))
    band = Attribute(np.array([0] * 25 + [-1] * 26, dtype=np.int16), ("18-29",))
    labels = np.array([[1, 1, 0]] * 20 + [[1, 0, 0]] * 30 + [[0, 0, 1]], dtype=np.uint8)
    names = ("all but one", "some", "one")
    cohort = Cohort.of([[["A"]]] * 51, attributes={"sex": sex, "age_band": band}, labels=labels, label_names=names)
    described = describe(cohort)
    assert described["attributes"] == {"age_band": {"18-29": 25, "unknown": 26}, "sex": {"F": 30, "M": None, "X": None}}
    assert described["labels"] == {"all but one": None, "some": pytest.approx(20 / 51, abs=1e-6), "one": None}
    assert "X fewer than 11" in dict(lines(described))["sex"]


# ---- in words ---------------------------------------------------------------------------------------------
def test_every_number_of_a_small_cohort_is_told(tiny: Cohort):
    """Three patients, five visits, four codes; a third of the patients have one visit."""
    told = dict(lines(describe(tiny)))
    assert (told["patients"], told["visits"], told["codes"]) == ("3", "5", "4")
    assert told["visits per patient"].endswith("33.3 % have one")
    assert told["dropped"] == "nothing"


def test_the_parts_of_the_tail_come_with_the_bands(tiny: Cohort):
    names = [name for name, _ in parts(describe(tiny))]
    assert names[:3] == ["head", "mid", "tail"]
    assert len(names) == len(set(names)) and not any(name == "in 1 visits" for name in names)
