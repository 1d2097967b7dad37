"""MEDS events: what a visit is by each rule, both grammars of codes, and the same visits as the tables behind them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adapcla.data import Cohort
from adapcla.errors import InputError
from adapcla.io import read

Event = tuple[int, str | None, str]


def save(path: Path, events: list[Event], **columns: list[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    subjects, times, codes = ([event[i] for event in events] for i in range(3))
    time = pa.array(times, pa.string()).cast(pa.timestamp("us"))
    pq.write_table(pa.table({"subject_id": subjects, "time": time, "code": codes, **columns}), path)
    return path


def test_a_stay_goes_from_admission_to_discharge(tmp_path: Path) -> None:
    """Diagnoses carry the time of discharge; the next admission begins in that very minute. One code lies outside."""
    events: list[Event] = [
        (1, None, "GENDER//F"),
        (1, "1950-01-01 00:00:00", "MEDS_BIRTH"),
        (1, "2020-01-01 10:00:00", "HOSPITAL_ADMISSION//URGENT"),
        (1, "2020-01-03 12:00:00", "HOSPITAL_DISCHARGE//HOME"),
        (1, "2020-01-03 12:00:00", "DIAGNOSIS//ICD//9//0389"),
        (1, "2020-01-03 12:00:00", "HOSPITAL_ADMISSION//TRANSFER"),
        (1, "2020-01-09 12:00:00", "DIAGNOSIS//ICD//10//A41.9"),
        (1, "2020-01-09 12:00:00", "HOSPITAL_DISCHARGE//HOME"),
        (1, "2020-06-01 12:00:00", "DIAGNOSIS//ICD//10//I10"),
        (1, "2020-01-02 00:00:00", "LAB//50912//mg/dL"),
    ]
    cohort = read("meds", save(tmp_path / "data" / "0.parquet", events).parent.parent)
    assert list(cohort.patients()) == [[["ICD9CM/0389"], ["ICD10CM/A41.9"]]]
    assert cohort.days.tolist() == [0, 2]
    assert cohort.card["dropped"] == {"codes outside every admission": 1}
    assert "admission to discharge" in cohort.card["visit_rule"]
    assert cohort.attributes["sex"].categories == ("F",)
    assert cohort.attributes["age_band"].categories == ("70-79",)


def test_overlapping_and_unpaired_stays(tmp_path: Path) -> None:
    """Patient 1: stays overlap, n-th belongs to n-th. Patient 2: of two admissions the later has the discharge."""
    events: list[Event] = [
        (1, "2020-01-01 00:00:00", "HOSPITAL_ADMISSION"),
        (1, "2020-01-05 00:00:00", "HOSPITAL_ADMISSION"),
        (1, "2020-01-08 00:00:00", "HOSPITAL_DISCHARGE"),
        (1, "2020-01-10 00:00:00", "HOSPITAL_DISCHARGE"),
        (1, "2020-01-08 00:00:00", "ICD10CM/A"),
        (1, "2020-01-10 00:00:00", "ICD10CM/B"),
        (2, "2020-01-01 00:00:00", "HOSPITAL_ADMISSION"),
        (2, "2020-02-01 00:00:00", "HOSPITAL_ADMISSION"),
        (2, "2020-02-02 00:00:00", "HOSPITAL_DISCHARGE"),
        (2, "2020-02-02 00:00:00", "ICD10CM/C"),
        (2, "2020-01-02 00:00:00", "ICD10CM/D"),
    ]
    cohort = read("meds", save(tmp_path / "e.parquet", events))
    assert list(cohort.patients()) == [[["ICD10CM/A"], ["ICD10CM/B"]], [["ICD10CM/C"]]]
    assert cohort.days.tolist() == [0, 4, 0]


@pytest.mark.parametrize("name", ["visit_id", "hadm_id", "encounter_id", "visit_occurrence_id"])
def test_a_column_of_visit_ids_goes_before_everything(tmp_path: Path, name: str) -> None:
    """Two visits on one day stay two; a visit begins with its first event, which is not a diagnosis."""
    events: list[Event] = [
        (1, "2020-01-01 00:00:00", "HOSPITAL_ADMISSION"),
        (1, "2020-01-09 00:00:00", "ICD10CM/I10"),
        (1, "2020-01-09 00:00:00", "ICD10CM/E11"),
        (1, "2020-01-09 00:00:00", "HOSPITAL_DISCHARGE"),
        (1, "2020-01-10 00:00:00", "ICD10CM/J45"),
    ]
    path = save(tmp_path / "e.parquet", events, **{name: [7, 7, 9, 7, None]})
    cohort = read("meds", path)
    assert list(cohort.patients()) == [[["ICD10CM/I10"], ["ICD10CM/E11"]]]
    assert cohort.days.tolist() == [0, 8]
    assert cohort.card["dropped"] == {"codes without a patient or visit id": 1}
    assert name in cohort.card["visit_rule"]


def test_without_either_a_visit_is_a_calendar_day(tmp_path: Path) -> None:
    events: list[Event] = [
        (2, "2020-01-01 08:00:00", "ICD10CM/I10"),
        (2, "2020-01-01 22:00:00", "ICD10CM/E11"),
        (2, "2020-01-02 00:00:00", "SNOMED/44054006"),
    ]
    cohort = read("meds", save(tmp_path / "e.parquet", events))
    assert list(cohort.patients()) == [[["ICD10CM/E11", "ICD10CM/I10"], ["SNOMED/44054006"]]]
    assert "calendar day" in cohort.card["visit_rule"]


def test_domains_of_both_grammars(tmp_path: Path) -> None:
    codes = [
        "DIAGNOSIS//ICD//9//4019",
        "PROCEDURE//ICD//10//0016070",
        "PROCEDURE//START//224275",
        "MEDICATION//START//Sodium Chloride 0.9%",
        "MEDICATION//STOP//Heparin",
        "MEDICATION//Heparin//Not Given",
        "RxNorm/1191",
        "LOINC/2345-7",
        "CPT4/99213",
    ]
    events: list[Event] = [(1, "2020-01-01 00:00:00", code) for code in codes]
    cohort = read("meds", save(tmp_path / "e.parquet", events), domains=("dx", "px", "rx"))
    assert [(code.token, code.domain) for code in cohort.vocabulary.codes] == [
        ("CPT4/99213", "procedure"),
        ("DRUG/Sodium Chloride 0.9%", "drug"),
        ("ICD10PCS/0016070", "procedure"),
        ("ICD9CM/4019", "diagnosis"),
        ("RxNorm/1191", "drug"),
    ]
    assert list(read("meds", tmp_path / "e.parquet").patients()) == [[["ICD9CM/4019"]]]


def test_the_demo_gives_the_same_cohort_from_tables_and_from_events(open_data_at: Callable[[str], Path]) -> None:
    events = open_data_at("mimic4_demo/meds/mimic_iv_demo_meds_events.parquet")
    by_events, by_tables = read("meds", events), read("mimic4", open_data_at("mimic4_demo"))
    assert (by_events.n_patients, by_events.n_visits, by_events.n_codes) == (100, 275, 1474)
    assert list(by_events.patients()) == list(by_tables.patients())
    assert by_events.fingerprint == by_tables.fingerprint


@pytest.mark.parametrize("column", ["subject_id", "time", "code"])
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    path = save(tmp_path / "e.parquet", [(1, "2020-01-01 00:00:00", "ICD10CM/I10")])
    table = pq.read_table(path)
    pq.write_table(table.drop_columns([column]), path)
    with pytest.raises(InputError, match=column):
        read("meds", path)


@pytest.mark.parametrize("spoil", [lambda b: b[:-9], lambda b: b"", lambda b: b[:40] + b"\xff" * 60 + b[100:]])
def test_damage_absence_and_emptiness_are_named(tmp_path: Path, spoil) -> None:
    path = save(tmp_path / "e.parquet", [(1, "2020-01-01 00:00:00", "ICD10CM/I10")] * 50)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(InputError, match="Parquet"):
        read("meds", path)
    with pytest.raises(InputError, match="no such"):
        read("meds", tmp_path / "absent")
    with pytest.raises(InputError, match="no patient is left"):
        read("meds", save(tmp_path / "n.parquet", [(1, "2020-01-01 00:00:00", "LAB//1//x")]))


def test_codes_come_through_as_they_are(tmp_path: Path) -> None:
    """`0389`, `NA`, `None`, `1E10` and what looks like a formula are codes."""
    odd = ["0389", "NA", "None", "1E10", "=1+1"]
    events: list[Event] = [(1, "2020-01-01 00:00:00", f"DIAGNOSIS//ICD//9//{code}") for code in odd]
    cohort: Cohort = read("meds", save(tmp_path / "e.parquet", events))
    assert next(cohort.patients()) == [["ICD9CM/0389", "ICD9CM/1E10", "ICD9CM/=1+1", "ICD9CM/NA", "ICD9CM/None"]]
    assert cohort.card["dropped"] == {}
