"""The policies of every source, on rows written by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.io.whole import WHOLES

from adapcla.data import Cohort
from adapcla.errors import InputError
from adapcla.io import ReadOptions, assemble, read
from adapcla.io.assemble import SourceTables
from adapcla.io.database import Database

#: patient, visit, date, day, sequence
VisitRow = tuple[str, str, str, str, str]
#: patient, visit, code
EntryRow = tuple[str, str, str]


def built(
    visits: list[VisitRow],
    entries: list[EntryRow],
    people: list[tuple[str, str, str]] | None = None,
    system: str = "",
    domain: str = "diagnosis",
    **options: object,
) -> Cohort:
    def table(rows: list[tuple[str, ...]], names: list[str]) -> pa.Table:
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        return pa.table([pa.array(column, pa.string()) for column in columns], names=names)

    with Database() as db:
        db.add("v", table(visits, ["patient", "visit", "start", "day", "sequence"]))
        db.add("e", table(entries, ["patient", "visit", "code"]))
        db.add("p", table(people or [], ["patient", "visit", "sex"]))
        found = SourceTables(
            visits="""SELECT patient, visit, start, '' AS "end", day, sequence, '' AS kind, '' AS discharge,
                false AS died, CAST(NULL AS DOUBLE) AS length_days FROM v""",
            events=f"""SELECT patient, visit, '' AS time, '{system}' AS system, code, '{domain}' AS domain,
                false AS measured, '' AS value, '' AS unit FROM e""",
            visit_rule="by hand",
            patients="""SELECT patient, visit, '' AS sex, '' AS birth, '' AS age, '' AS death, sex AS attribute_sex
                FROM p""",
            attributes=() if people is None else ("sex",),
        )
        return assemble.assemble(db, found, ReadOptions(**options), "hand")


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
        ("1", "1", "A\x07"),
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
        "codes of characters that cannot be printed, or too long": 1,
        "codes of visits that are not known": 1,
        "repeated codes in a visit": 1,
        "visits without a code": 2,
        "patients without a visit": 1,
    }


@pytest.mark.parametrize(
    "code", ["-1", ".5", "=1+1", "@x", "Aspirin 81 mg", "Übelkeit", "日本", "x" * 200, "a,b;c", "'a"]
)
def test_any_code_that_can_be_printed_is_kept(code: str) -> None:
    """A code is what a source says it is; 66 of 100 rows of a table with umlauts were lost once."""
    cohort = built(undated(("1", "1")), [("1", "1", code)], system="HOUSE")
    assert cohort.vocabulary.tokens == (f"HOUSE/{code}",)
    assert cohort.card["dropped"] == {}


@pytest.mark.parametrize("code", ["a\tb\x00", "x" * 300, "a\u200e", "\x7f"])
def test_what_cannot_be_printed_or_is_too_long_is_counted(code: str) -> None:
    cohort = built(undated(("1", "1")), [("1", "1", "A"), ("1", "1", code)])
    assert cohort.card["dropped"] == {"codes of characters that cannot be printed, or too long": 1}


def test_codes_are_normalised() -> None:
    """A letter and its accent as one or as two characters, and blanks of any kind, are one code."""
    rows = [("1", "1", "\u00dcbel  keit"), ("1", "1", "U\u0308bel\u00a0keit"), ("1", "1", "\u00dcbel keit")]
    cohort = built(undated(("1", "1")), rows)
    assert cohort.vocabulary.tokens == ("\u00dcbel keit",)
    assert cohort.card["dropped"] == {"repeated codes in a visit": 2}


def test_names_of_drugs_that_differ_in_case_are_one_as_most_rows_write_it() -> None:
    visits, rows = undated(("1", "1"), ("1", "2"), ("1", "3")), []
    rows = [("1", "1", "Aspirin"), ("1", "2", "ASPIRIN"), ("1", "3", "Aspirin")]
    assert built(visits, rows, system="DRUG", domain="drug").vocabulary.tokens == ("DRUG/Aspirin",)
    assert built(visits, rows).vocabulary.tokens == ("ASPIRIN", "Aspirin")


def test_nobody_left_is_an_error_that_says_why() -> None:
    with pytest.raises(InputError, match="no patient is left; left out: 1 codes of characters that cannot be printed"):
        built(undated(("1", "1")), [("1", "1", "\x07")])
    with pytest.raises(InputError, match="no patient is left"):
        built([], [])


def test_too_many_codes_are_a_wrong_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "MAX_CODES", 2)
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
    monkeypatch.setattr(assemble, "MAX_CATEGORIES", 1)
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
    st.lists(st.tuples(_ids, _ids, st.sampled_from(["A", "B", "C\x07", ""])), min_size=1, max_size=25),
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


def test_codes_go_to_their_visit_or_their_day() -> None:
    """Visit v is known; w is not and takes the date of its code; a code with neither visit nor date has no home."""
    rows = {
        "visit": ["v", "w", "", ""],
        "time": ["2020-01-09", "2020-02-01", "2020-03-01T10:00", ""],
        "code": ["A", "B", "C", "D"],
    }
    with Database() as db:
        db.add("e", pa.table(rows))
        found = SourceTables(
            visits="""SELECT '1' AS patient, 'v' AS visit, '2020-01-01' AS start, '' AS "end", '' AS day,
                '' AS sequence, '' AS kind, '' AS discharge, false AS died, CAST(NULL AS DOUBLE) AS length_days""",
            events="""SELECT '1' AS patient, visit, time, '' AS system, code, 'diagnosis' AS domain, false AS measured,
                '' AS value, '' AS unit FROM e""",
            visit_rule="by hand",
            day_visits=True,
        )
        cohort = assemble.assemble(db, found, ReadOptions())
    assert list(cohort.patients()) == [[["A"], ["B"], ["C"]]]
    assert cohort.days is not None and cohort.days.tolist() == [0, 31, 60]
    assert cohort.card["dropped"] == {
        "visit rows without a visit id": 1,
        "codes without a patient or visit id": 1,
    }
    assert cohort.card["codes without a visit, by day"] == 1


def test_patients_that_are_read_one_by_one_are_those_that_are_read_together(tmp_path: Path, monkeypatch) -> None:
    """Numbers, stays, deaths and attributes of MIMIC-IV, and what is dropped."""
    data = WHOLES["mimic4"](tmp_path / "data")
    asked = {"domains": ("dx", "px", "rx", "lab", "stay"), "max_visits": 2}
    together = read("mimic4", data.root, **asked).save(tmp_path / "together")
    monkeypatch.setattr(assemble, "_ENTRIES_AT_ONCE", 1)
    apart = read("mimic4", data.root, **asked).save(tmp_path / "apart")
    for path in together.iterdir():
        assert path.read_bytes() == (apart / path.name).read_bytes(), path.name
    assert Cohort.open(apart).n_patients == 2 and Cohort.open(apart).card["dropped"]["visits after a death"] == 1


def test_a_folder_of_parts_is_read_as_one_table(tmp_path: Path) -> None:
    """The parts of a CSV, and the same as Parquet; a patient may be in several."""
    rows = [("1", "2020-01-01", "A"), ("2", "2020-01-01", "B"), ("1", "2020-02-01", "C"), ("2", "2020-01-01", "A")]
    names = ("patient", "date", "code")
    for number in range(2):
        part = pa.table(dict(zip(names, zip(*rows[2 * number : 2 * number + 2], strict=True), strict=True)))
        (tmp_path / "csv").mkdir(exist_ok=True)
        (tmp_path / "parquet").mkdir(exist_ok=True)
        pyarrow.csv.write_csv(part, tmp_path / "csv" / f"part{number}.csv")
        pyarrow.parquet.write_table(part, tmp_path / "parquet" / f"part{number}.parquet")
    for kind in ("csv", "parquet"):
        assert list(read("table", tmp_path / kind).patients()) == [[["A"], ["C"]], [["A", "B"]]]
