"""A condition on patients: what it means, how it is read, and what is said where it cannot be understood."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Code, Cohort, Vocabulary
from adapcla.data.criteria import Criteria, nearest_codes
from adapcla.errors import UsageError

#: patient 0: {A, B} then {B};  patient 1: {C};  patient 2: {A, B, D} then {A}
CASES = {
    "one code": (Criteria.of("A"), [True, False, True]),
    "all of two": (Criteria.of(["A", "D"]), [False, False, True]),
    "any of two": (Criteria.of("C|D"), [False, True, True]),
    "in the first visit": (Criteria.of("B", at="first"), [True, False, True]),
    "in the last visit": (Criteria.of("B", at="last"), [True, False, False]),
    "within one visit": (Criteria.of("A", within=1), [True, False, True]),
    "without": (Criteria.of("A", without="D"), [True, False, False]),
    "two visits": (Criteria.of(visits="2.."), [True, False, True]),
    "at most one": (Criteria.of(visits="..1"), [False, True, False]),
    "exactly one": (Criteria.of(visits="1"), [False, True, False]),
    "female": (Criteria.of(where=[("sex", "F")]), [True, False, False]),
    "a family": (Criteria.of("*"), [True, True, True]),
    "anybody": (Criteria.of(), [True, True, True]),
}


@pytest.mark.parametrize("name", CASES)
def test_who_fulfils_it(name: str, tiny_full: Cohort) -> None:
    condition, expected = CASES[name]
    assert condition.fulfilled(tiny_full).tolist() == expected
    assert condition.patients(tiny_full).n_patients == sum(expected)


def test_an_unknown_code_is_named_with_the_nearest_ones_and_their_descriptions() -> None:
    vocabulary = Vocabulary.of(
        [
            Code.of("27700", "ICD9CM", description="Cystic fibrosis"),
            Code.of("4019", "ICD9CM", description="Hypertension"),
        ]
    )
    cohort = Cohort.of([[["ICD9CM/4019"]]], vocabulary)
    with pytest.raises(UsageError, match=r"ICD9CM/2770: no such code[\s\S]*27700 \(Cystic fibrosis\)"):
        Criteria.of("ICD9CM/2770").fulfilled(cohort)
    assert nearest_codes("cystic", vocabulary) == "ICD9CM/27700 (Cystic fibrosis)"
    with pytest.raises(UsageError, match="no code has a name or description like it"):
        Criteria.of("QQ*").fulfilled(cohort)
    assert not Criteria.of("QQ").fulfilled(cohort, known=False).any()


def test_signs_other_than_the_star_stand_for_themselves() -> None:
    condition = Criteria.of("A?*")
    assert not condition.fulfilled(Cohort.of([[["AB"]]]), known=False).any()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"having": "A|"}, "expected a code"),
        ({"having": "A", "at": "middle"}, "expected one of any, first, last"),
        ({"having": "A", "within": 0}, "at least 1 visit"),
        ({"visits": "5..2"}, "numbers of visits"),
        ({"visits": "many"}, "numbers of visits"),
        ({"within": 2}, "expected --having"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Criteria.of(**options)  # type: ignore[arg-type]


def test_unknown_attributes_are_refused(tiny_full: Cohort) -> None:
    with pytest.raises(UsageError, match="no attribute 'age'"):
        Criteria.of(where=[("age", "old")]).fulfilled(tiny_full)
    with pytest.raises(UsageError, match="expected one of F, M"):
        Criteria.of(where=[("sex", "X")]).fulfilled(tiny_full)
    assert not Criteria.of(where=[("age", "old")]).fulfilled(tiny_full, known=False).any()


def test_the_sentence_and_the_card_say_everything() -> None:
    condition = Criteria.of(["A|B", "C"], "D", [("sex", "F")], "2..5", "last", 3)
    assert condition.text == (
        "with A or B in the last visit within 3 visits; with C in the last visit within 3 visits; without D; sex F; "
        "2 to 5 visits"
    )
    assert condition.as_card() == {
        "having": ["A|B", "C"],
        "without": ["D"],
        "where": ["sex=F"],
        "visits": [2, 5],
        "at": "last",
        "within": 3,
    }
    assert Criteria().text == "anybody"


def test_clauses_are_judged_one_by_one(tiny: Cohort) -> None:
    met = Criteria.of(["A", "C"]).clauses_met(tiny)
    assert met.dtype == np.bool_ and met.tolist() == [[True, False], [False, True], [True, False]]
