"""Roll-up: small cases that can be counted on the fingers, and properties that hold for any cohort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Attribute, Code, Cohort, Vocabulary
from adapcla.data.rollup import CommonAttributes, roll_up
from adapcla.data.vocabulary import discharge_code
from adapcla.errors import InputError


def visits(*codes: str) -> list[list[str]]:
    return [list(codes)]


def named(found) -> dict[str, str | None]:
    return {
        old: None if new is None else new.token for old, new in zip(found.vocabulary.tokens, found.codes, strict=True)
    }


def test_a_rare_code_goes_to_its_nearest_ancestor_that_has_enough():
    """410.0 and 410.1 meet in 410 (2 patients); 411.0 and 414.0 only in the block; 451.0 only in the chapter."""
    codes = ("4100", "4101", "4110", "4140", "4510", "4460", "4019", "4019")
    train = Cohort.of([visits(code) for code in codes])
    assert named(roll_up(train, 2)) == {
        "4510": "390-459",
        "4019": "4019",
        "4100": "410",
        "4101": "410",
        "4110": "410-414",
        "4140": "410-414",
        "4460": "390-459",
    }


def test_patients_whose_code_kept_its_name_do_not_count_for_the_ancestor():
    """Ten patients of 250.00 do not make 250 a common code: it would be written for the one of 250.01 alone."""
    train = Cohort.of([visits("25000")] * 10 + [visits("25001")])
    assert named(roll_up(train, 3)) == {"25000": "25000", "25001": None}


def test_a_category_in_the_data_meets_those_that_come_up_to_it():
    train = Cohort.of([visits("250")] * 2 + [visits("25001")])
    found = roll_up(train, 3)
    assert named(found) == {"250": "250", "25001": "250"}
    assert found.steps.tolist() == [0, 1]


def test_a_patient_counts_once_however_many_of_the_codes_they_hold():
    train = Cohort.of([[["4100", "4101"], ["4102"]], visits("4019"), visits("4019")])
    assert named(roll_up(train, 2))["4100"] is None


def test_other_patients_follow_what_training_patients_have():
    """A code that only others hold goes to an ancestor that training gave the vocabulary, or is left out, counted."""
    codes = ["4019", "4100", "4101", "4109", "5070"]
    train = Cohort.of([visits("4100"), visits("4101"), visits("4019"), visits("4019")], codes)
    others = Cohort.of([visits("4109"), [["5070"], ["4019"]], visits("5070")], codes)
    found = roll_up(train, 2)
    rolled = found.applied(others)
    assert list(rolled.patients()) == [[["410"]], [["4019"]]]
    assert rolled.vocabulary == found.applied(train).vocabulary
    assert rolled.card["dropped"]["patients left without visits"] == 1


@pytest.mark.parametrize(
    ("code", "system", "domain", "up"),
    [
        ("E11.9", "ICD10CM", "diagnosis", ["E11", "E08-E13", "E00-E89"]),
        ("E8497", "ICD9CM", "diagnosis", ["E849", "E846-E849", "E000-E999"]),
        ("V4581", "ICD9CM", "diagnosis", ["V45", "V40-V49", "V01-V91"]),
        ("001", "ICD9CM", "diagnosis", ["001-009", "001-139"]),
        ("410-414", "ICD9CM", "diagnosis", ["390-459"]),
        ("390-459", "ICD9CM", "diagnosis", []),
        ("A10BA02", "ATC", "drug", ["A10BA", "A10B", "A10", "A"]),
        ("9671", "ICD9PROC", "procedure", ["96"]),
        ("aspirin", "RX", "drug", []),
        ("A00.03", "PLANTED", "diagnosis", ["A00", "A0", "A"]),
    ],
)
def test_the_way_up(code, system, domain, up):
    from adapcla.data.code_systems import ancestors

    found = ancestors(Vocabulary.of([Code.of(code, system, domain=domain)]))[0]
    assert [each.bare for each in found] == up
    assert all(each.system == system and each.domain == domain for each in found)


def test_what_was_rolled_up_stays_as_it_is_when_rolled_up_again():
    train = Cohort.of([visits("4100"), visits("4110"), visits("4019"), visits("4019")])
    once = roll_up(train, 2).applied(train)
    twice = roll_up(once, 2)
    assert twice.applied(once).fingerprint == once.fingerprint and not twice.steps.any()


def test_the_facts_add_up():
    train = Cohort.of([visits("4100", "4019"), visits("4101", "4019"), visits("aspirin", "4019")])
    facts = roll_up(train, 2).facts(train)
    assert facts["entries"] == {"all": 6, "kept in full": 3, "rolled up": 2, "not placed": 1}
    assert facts["codes"]["before"] == facts["codes"]["kept in full"] + facts["codes"]["rolled up"] + 1
    assert facts["steps"] == [2]


_CODES = ("4100", "4101", "4110", "4019", "4011", "25000", "25001", "V270", "E8497", "aspirin")
_PATIENT = st.lists(st.sets(st.sampled_from(_CODES), min_size=1, max_size=4), min_size=1, max_size=3)


@given(st.lists(_PATIENT, min_size=3, max_size=12), st.integers(1, 5))
def test_every_code_that_is_left_is_held_by_enough_training_patients(patients, smallest):
    train = Cohort.of(patients, _CODES)
    rolled = roll_up(train, smallest).applied(train)
    assert (rolled.patient_counts >= smallest).all()
    # Nothing is lost silently: every entry is there, merged in its visit, or counted.
    gone = rolled.card.get("dropped", {}).get("entries of codes left out", 0)
    assert rolled.n_entries + gone <= train.n_entries


@given(st.lists(_PATIENT, min_size=3, max_size=10))
def test_a_smallest_count_of_one_changes_nothing(patients):
    train = Cohort.of(patients)
    assert roll_up(train, 1).applied(train).fingerprint == train.fingerprint


def test_codes_that_become_one_are_one_in_a_visit():
    cohort = Cohort.of([[["A", "B"], ["B"]]])
    assert list(cohort.recode([Code.of("X"), Code.of("X")]).patients()) == [[["X"], ["X"]]]


def test_attributes_that_few_share_become_unknown_together():
    """Two women of 30, one man of 30: his age would tell who he is as well, so both become unknown."""
    sex = Attribute(np.array([0, 0, 1, -1], dtype=np.int16), ("F", "M"))
    age = Attribute(np.array([0, 0, 0, -1], dtype=np.int16), ("30", "90"))
    train = Cohort.of([visits("A")] * 4, attributes={"sex": sex, "age": age})
    common = CommonAttributes.of(train, 2)
    kept = common.applied(train)
    assert kept.attributes["sex"].values.tolist() == [0, 0, -1, -1] and kept.attributes["sex"].categories == ("F",)
    assert kept.attributes["age"].categories == ("30",) and common.n_hidden(train) == 1
    test = Cohort.of([visits("A")], attributes={"sex": sex.of_patients(np.array([2])), "age": age.of_patients([2])})
    assert common.applied(test).attributes["sex"].values.tolist() == [-1]


def test_a_cohort_without_attributes_stays():
    train = Cohort.of([visits("A")] * 3)
    assert CommonAttributes.of(train, 2).applied(train) is train


def test_numbers_keep_their_values_and_those_of_few_patients_go():
    """Glucose of three patients stays with its values; potassium of one goes, and is counted; so does a rare ending."""
    vocabulary = [
        *(Code.of(name, "LAB", domain="lab", unit="mg/dL") for name in ("glucose", "potassium")),
        *(Code.of(name, "ICD9CM") for name in ("41000", "41001")),
        *(discharge_code(name) for name in ("home", "died")),
    ]
    rows = [["ICD9CM/41000", "LAB/glucose", "END/home"], ["ICD9CM/41001", "LAB/glucose", "LAB/potassium", "END/home"]]
    train = Cohort.of(
        [[rows[0]], [rows[1]], [["LAB/glucose", "END/died"]]],
        vocabulary,
        values=np.array([np.nan, np.nan, 1, np.nan, np.nan, 2, 9, np.nan, 3], dtype=np.float32),
    )
    rolled = roll_up(train, 2).applied(train)
    assert list(rolled.patients()) == [[["END/home", "ICD9CM/410", "LAB/glucose"]]] * 2 + [[["LAB/glucose"]]]
    assert rolled.values[~np.isnan(rolled.values)].tolist() == [1, 2, 3]
    assert rolled.card["dropped"] == {"entries of codes left out": 2}


@pytest.mark.parametrize("new", [Code.of("X"), Code.of("X", unit="g"), Code.of("B", unit="mg")])
def test_a_number_never_loses_its_unit_nor_meets_another_code(new):
    cohort = Cohort.of([[["A", "B"]]], [Code.of("A", unit="mg"), Code.of("B", unit="mg")], values=np.float32([1, 2]))
    with pytest.raises(InputError, match="the number A would become"):
        cohort.recode([new, Code.of("B", unit="mg")])
    renamed = cohort.recode([Code.of("C", unit="mg"), Code.of("B", unit="mg")])
    assert renamed.values.tolist() == [2, 1]
