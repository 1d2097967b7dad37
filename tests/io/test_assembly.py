"""The policies of every source, on rows written by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapcla.data import Cohort
from adapcla.errors import InputError
from adapcla.io import Options, assembly
from adapcla.io.assembly import assemble
from adapcla.io.workbench import Workbench

#: patient, visit, date, day, sequence
VisitRow = tuple[str, str, str, str, str]
#: patient, visit, code
EntryRow = tuple[str, str, str]


def built(
    visits: list[VisitRow],
    entries: list[EntryRow],
    people: list[tuple[str, str, str]] | None = None,
    system: str = "",
    **options: object,
) -> Cohort:
    def batch(rows: list[tuple[str, ...]], names: list[str]) -> pa.RecordBatch:
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        return pa.record_batch([pa.array(column, pa.string()) for column in columns], names=names)

    with Workbench() as bench:
        bench.add("visits", [batch(visits, ["patient", "visit", "date", "day", "sequence"])])
        rows = [(*entry, system, "diagnosis") for entry in entries]
        bench.add("entries", [batch(rows, ["patient", "visit", "code", "system", "domain"])])
        if people is not None:
            bench.add("people", [batch(people, ["patient", "visit", "sex"])])
        return assemble(
            bench,
            source="hand",
            visit_rule="by hand",
            options=Options(**options),
            attributes=[] if people is None else ["sex"],
        )


def undated(*ids: tuple[str, str]) -> list[VisitRow]:
    return [(patient, visit, "", "", "") for patient, visit in ids]


def order(visits: list[VisitRow]) -> list[str]:
    """The visit ids of one patient in the order of the cohort: the code of a visit is its id."""
    cohort = built(visits, [(v[0], v[1], f"v{v[1]}") for v in visits])
    return [visit[0][1:] for patient in cohort.patients() for visit in patient]


def test_without_dates_visits_stand_in_numeric_order_of_their_ids() -> None:
    assert order(undated(("1", "10"), ("1", "9"), ("1", "100"))) == ["9", "10", "100"]


def test_ids_that_are_no_numbers_stand_after_numbers_in_text_order() -> None:
    assert order(undated(("1", "b"), ("1", "a"), ("1", "7"))) == ["7", "a", "b"]


def test_dates_come_before_ids_and_times_count() -> None:
    rows = [("1", "1", "2020-01-02", "", ""), ("1", "2", "2020-01-01 09:00:00", "", ""), ("1", "3", "20200101", "", "")]
    assert order(rows) == ["3", "2", "1"]


def test_sequences_are_numbers_before_they_are_text() -> None:
    assert order([("1", "1", "", "", "10"), ("1", "2", "", "", "9"), ("1", "3", "", "", "x")]) == ["2", "1", "3"]


def test_days_count_from_the_first_visit_by_calendar() -> None:
    """2020-02-28 23:00 to 2020-03-01 01:00 is two calendar days (a leap year), though 26 hours."""
    visits = [("1", "1", "2020-02-28 23:00:00", "", ""), ("1", "2", "2020-03-01 01:00:00", "", "")]
    days = built(visits, [("1", "1", "A"), ("1", "2", "A")]).days
    assert days is not None and days.tolist() == [0, 2]


def test_days_start_at_the_first_visit_that_is_kept() -> None:
    visits = [("1", "1", "", "5", ""), ("1", "2", "", "8", ""), ("1", "3", "", "10", "")]
    cohort = built(visits, [("1", "2", "A"), ("1", "3", "A")])
    assert cohort.days is not None and cohort.days.tolist() == [0, 2]
    assert cohort.card["dropped"] == {"visits without a code": 1}


def test_no_dates_mean_no_days() -> None:
    assert built(undated(("1", "1")), [("1", "1", "A")]).days is None


def test_of_two_dates_of_a_visit_the_earlier_counts() -> None:
    visits = [("1", "1", "2020-01-09", "", ""), ("1", "1", "2020-01-01", "", ""), ("1", "2", "2020-01-05", "", "")]
    cohort = built(visits, [("1", "1", "A"), ("1", "2", "B")])
    assert list(cohort.patients()) == [[["A"], ["B"]]]


def test_everything_that_is_left_out_is_counted() -> None:
    """One of each: no patient, no visit, no code, bad code, repeated code, unknown visit, empty visit and patient."""
    visits = undated(("1", "1"), ("", "2"), ("1", ""), ("1", "3"), ("9", "9"))
    entries = [
        ("1", "1", "A"),
        ("1", "1", "A"),
        ("1", "1", ""),
        ("1", "1", "=A"),
        ("", "1", "A"),
        ("1", "", "A"),
        ("1", "77", "A"),
    ]
    cohort = built(visits, entries)
    assert list(cohort.patients()) == [[["A"]]]
    assert cohort.card["dropped"] == {
        "visit rows without a patient id": 1,
        "visit rows without a visit id": 1,
        "codes without a patient or visit id": 2,
        "empty code cells": 1,
        "codes of a form that is not allowed": 1,
        "codes of visits that are not known": 1,
        "repeated codes in a visit": 1,
        "visits without a code": 2,
        "patients without a visit": 1,
    }


@pytest.mark.parametrize("code", ["-1", ".5", "/x", "_x", "=1", "a b", "x" * 65, "é"])
def test_a_system_before_it_does_not_make_a_code_allowed(code: str) -> None:
    """`-1` alone is a formula in a spreadsheet; `ICD9CM/-1` would have passed."""
    cohort = built(undated(("1", "1")), [("1", "1", "A"), ("1", "1", code)], system="ICD9CM")
    assert cohort.card["dropped"] == {"codes of a form that is not allowed": 1}


def test_nobody_left_is_an_error_that_says_why() -> None:
    with pytest.raises(InputError, match="no patient is left; left out: 1 codes of a form that is not allowed"):
        built(undated(("1", "1")), [("1", "1", "=A")])
    with pytest.raises(InputError, match="no patient is left"):
        built([], [])


def test_too_many_codes_are_a_wrong_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "MAX_CODES", 2)
    with pytest.raises(InputError, match="looks like an identifier"):
        built(undated(("1", "1")), [("1", "1", "A"), ("1", "1", "B"), ("1", "1", "C")])


def test_a_code_in_two_systems_is_two_codes() -> None:
    cohort = built(undated(("1", "1")), [("1", "1", "4019")], system="ICD9CM")
    assert cohort.vocabulary.codes[0].description == "Unspecified essential hypertension"
    assert cohort.vocabulary.tokens == ("ICD9CM/4019",)


def test_an_attribute_is_that_of_the_first_visit_that_has_one() -> None:
    visits = [("1", "1", "", "0", ""), ("1", "2", "", "5", ""), ("2", "1", "", "0", ""), ("3", "1", "", "0", "")]
    entries = [("1", "1", "A"), ("1", "2", "A"), ("2", "1", "A"), ("3", "1", "A")]
    people = [("1", "1", ""), ("1", "2", "F"), ("2", "", "M"), ("2", "", "M"), ("4", "", "F")]
    sex = built(visits, entries, people).attributes["sex"]
    assert (sex.values.tolist(), sex.categories) == ([0, 1, -1], ("F", "M"))


def test_an_attribute_with_too_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "MAX_CATEGORIES", 1)
    with pytest.raises(InputError, match="column 'sex': 2 different values"):
        built(undated(("1", "1"), ("2", "1")), [("1", "1", "A"), ("2", "1", "A")], [("1", "", "F"), ("2", "", "M")])


def test_patients_that_lose_all_visits_lose_their_attributes_too() -> None:
    visits = undated(("1", "1"), ("2", "1"), ("3", "1"))
    people = [("1", "", "F"), ("2", "", "M"), ("3", "", "F")]
    cohort = built(visits, [("1", "1", "A"), ("3", "1", "B")], people)
    assert cohort.attributes["sex"].values.tolist() == [0, 0]


_ids = st.sampled_from(["1", "2", "10", "a", ""])


@settings(max_examples=25)
@given(
    st.lists(st.tuples(_ids, _ids, st.sampled_from(["A", "B", "=C", ""])), min_size=1, max_size=25),
    st.randoms(use_true_random=False),
    st.sampled_from([None, 1, 2]),
)
def test_counts_are_conserved_and_order_does_not_matter(entries: list[EntryRow], draws, max_visits: int | None) -> None:
    """Every entry is in the cohort or in exactly one count, unless its visit was cut off."""
    visits = [(patient, visit, "", "", "") for patient, visit, _ in entries]
    usable = any(patient and visit and code in ("A", "B") for patient, visit, code in entries)
    if not usable:
        with pytest.raises(InputError):
            built(visits, entries, max_visits=max_visits)
        return
    cohort = built(visits, entries, max_visits=max_visits)
    dropped = cohort.card["dropped"]
    of_entries = sum(n for reason, n in dropped.items() if "code" in reason and not reason.startswith("visit"))
    if max_visits is None:
        assert cohort.n_entries + of_entries == len(entries)
    else:
        assert int(np.max(cohort.visits_per_patient)) <= max_visits
    draws.shuffle(entries)
    draws.shuffle(visits)
    again = built(visits, entries, max_visits=max_visits)
    assert again.fingerprint == cohort.fingerprint
    assert again.card == cohort.card
