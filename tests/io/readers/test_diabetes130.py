"""The public diabetes file on rows written by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.io.fixtures import write_csv

from adapcla.io import read
from adapcla.io.readers.diabetes130 import DRUGS

HEADER = (
    *("encounter_id", "patient_nbr", "race", "gender", "age", "admission_type_id", "discharge_disposition_id"),
    *("time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "diag_1", "diag_2", "diag_3"),
    *("max_glu_serum", "A1Cresult", *DRUGS, "readmitted"),
)


def row(
    stay: str, kind: str, end: str, diagnoses: tuple[str, str, str], readmitted: str, **drugs: str
) -> tuple[str, ...]:
    doses = tuple(drugs.get(name, "No") for name in DRUGS)
    first = (stay, "7", "?", "Female", "[70-80)", kind, end, "3", "41", "0", "18")
    return (*first, *diagnoses, "None", ">8", *doses, readmitted)


def test_a_stay_is_read_whole(tmp_path: Path) -> None:
    """Stay 100 comes before 99 as text and after it as a number; the patient dies in it, and 101 is left out."""
    rows = [
        row("100", "3", "11", ("38", "250.83", "?"), "NO"),
        row("99", "1", "6", ("V45", "8", "8"), ">30", insulin="Up", metformin="Steady"),
        row("101", "5", "18", ("401", "?", "?"), "NO"),
    ]
    path = write_csv(tmp_path / "diabetic_data.csv", HEADER, rows)
    cohort = read("diabetes130", tmp_path, domains=("dx", "rx", "lab", "stay"))
    always = ["LAB/A1Cresult.above-8", "LAB/num_lab_procedures", "LAB/num_medications", "LAB/num_procedures"]
    first = [*always, "DRUG/insulin.up", "DRUG/metformin.steady", "ICD9CM/008", "ICD9CM/V45", "END/home-care"]
    first += ["KIND/emergency-inpatient", "READMITTED/after-30", "STAY/days"]
    last = [*always, "ICD9CM/038", "ICD9CM/250.83", "END/died", "KIND/elective", "READMITTED/no", "STAY/days"]
    assert list(cohort.patients()) == [[sorted(first), sorted(last)]]
    assert cohort.card["dropped"] == {"repeated codes in a visit": 1, "visits after a death": 1}
    assert cohort.values is not None
    lengths = np.asarray(cohort.values)[cohort.codes == cohort.vocabulary.index["STAY/days"]]
    assert lengths.tolist() == [3, 3]
    assert cohort.attributes["age_band"].categories == ("70-79",) and cohort.attributes["race"].values.tolist() == [-1]
    drugs = [code for code in cohort.vocabulary.codes if code.domain == "drug"]
    assert [code.group for code in drugs] == ["DRUG/insulin", "DRUG/metformin"]
    plain = read("diabetes130", path)
    assert plain.n_visits == 3 and plain.vocabulary.domains == ("diagnosis",)
