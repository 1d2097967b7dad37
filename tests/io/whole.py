"""The same two patients in the form of every source that tells more than codes, with what must come out.

Patient 1 has a stay of 3.5 days with two readable glucose values (100, then 140), one word instead of a value and one
value in another unit; a planned stay of one day in which they die; and a stay after that. Patient 2 has one stay
without an end, of a kind and an ending that nobody knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.io.fixtures import write_csv

#: patient, visit, begin, end
STAYS = (
    ("1", "11", "2020-01-01 08:00:00", "2020-01-04 20:00:00"),
    ("1", "12", "2020-03-01 08:00:00", "2020-03-02 08:00:00"),
    ("1", "13", "2020-05-01 08:00:00", "2020-05-02 08:00:00"),
    ("2", "21", "2021-05-05 08:00:00", ""),
)
CODES = (("1", "11", "4019"), ("1", "12", "25000"), ("1", "13", "4019"), ("2", "21", "4019"))
#: patient, visit, time, value, unit
VALUES = (
    ("1", "11", "2020-01-02 18:00:00", "140", "mg/dL"),
    ("1", "11", "2020-01-01 09:00:00", "100", "mg/dL"),
    ("1", "11", "2020-01-03 09:00:00", "high", "mg/dL"),
    ("1", "11", "2020-01-03 10:00:00", "7.2", "mmol/L"),
    ("2", "21", "2021-05-05 09:00:00", "90", "mg/dL"),
)


@dataclass(frozen=True)
class Whole:
    """A data set on disk, and the tokens of what is in it."""

    root: Path
    lab: str = "LAB/50931"
    emergency: str = "emergency-inpatient"
    elective: str = "elective"
    dx: tuple[str, str] = ("ICD9CM/25000", "ICD9CM/4019")
    px: str = "ICD9PROC/9671"
    rx: str = "DRUG/Aspirin"
    #: More options of the reading.
    options: dict[str, object] = field(default_factory=dict)

    @property
    def visits(self) -> list[list[dict[str, float | None]]]:
        """Patients as visits of tokens with their numbers."""
        diabetes, hypertension = self.dx
        kind = "KIND/"
        return [
            [
                {hypertension: None, self.px: None, self.rx: None, self.lab: 140.0}
                | {kind + self.emergency: None, "END/home": None, "STAY/days": 3.5},
                {diabetes: None, kind + self.elective: None, "END/died": None, "STAY/days": 1.0},
            ],
            [{hypertension: None, self.lab: 90.0, "KIND/other": None, "END/other": None}],
        ]


def mimic(folder: Path, four: bool) -> Whole:
    """MIMIC-III or MIMIC-IV."""
    root = folder
    folder = folder / "hosp" if four else folder
    kinds = ("EW EMER." if four else "EMERGENCY", "ELECTIVE", "ELECTIVE", "SPACE")
    places = ("HOME", "DIED" if four else "DEAD/EXPIRED", "HOME", "MOON")
    dead = ("", "2020-03-02 07:00:00", "", "")
    write_csv(
        folder / "admissions.csv",
        ("subject_id", "hadm_id", "admittime", "dischtime", "admission_type", "discharge_location", "deathtime"),
        [(*stay, kind, end, died) for stay, kind, end, died in zip(STAYS, kinds, places, dead, strict=True)],
    )
    born = ("anchor_age", "anchor_year") if four else ("dob",)
    people = [(p, "F", *(("65", "2020") if four else ("1950-01-01",))) for p in ("1", "2")]
    write_csv(folder / "patients.csv", ("subject_id", "gender", *born), people)
    code, version = (("icd_code", "icd_version"), ("9",)) if four else (("icd9_code",), ())
    write_csv(folder / "diagnoses_icd.csv", ("subject_id", "hadm_id", *code), [(*row, *version) for row in CODES])
    write_csv(folder / "procedures_icd.csv", ("subject_id", "hadm_id", *code), [("1", "11", "9671", *version)])
    write_csv(folder / "prescriptions.csv", ("subject_id", "hadm_id", "ndc", "drug"), [("1", "11", "0", "Aspirin")])
    write_csv(
        folder / "labevents.csv",
        ("subject_id", "hadm_id", "itemid", "charttime", "valuenum", "valueuom"),
        [(p, v, "50931", time, value, unit) for p, v, time, value, unit in VALUES],
    )
    write_csv(folder / "d_labitems.csv", ("itemid", "label", "fluid"), [("50931", "Glucose", "Blood")])
    return Whole(root)


def eicu(folder: Path) -> Whole:
    """eICU: minutes instead of times; the second unit stay of stay 11 begins two days after the first."""
    write_csv(
        folder / "patient.csv",
        (
            *("patientunitstayid", "patienthealthsystemstayid", "uniquepid", "hospitaldischargeyear"),
            *("hospitaladmitoffset", "unitvisitnumber", "hospitaladmitsource", "hospitaldischargelocation"),
            *("hospitaldischargestatus", "hospitaldischargeoffset"),
        ),
        [
            ("111", "11", "1", "2014", "-60", "1", "Emergency Department", "Home", "Alive", "4980"),
            ("112", "11", "1", "2014", "-2940", "2", "Emergency Department", "Home", "Alive", "2100"),
            ("121", "12", "1", "2015", "-60", "1", "Floor", "Death", "Expired", "1380"),
            ("131", "13", "1", "2016", "-60", "1", "Floor", "Home", "Alive", "1380"),
            ("211", "21", "2", "2014", "-60", "1", "Space", "Moon", "Alive", ""),
        ],
    )
    unit = {"11": "111", "12": "121", "13": "131", "21": "211"}
    codes = {"4019": "401.9", "25000": "250.00"}
    write_csv(folder / "diagnosis.csv", ("patientunitstayid", "icd9code"), [(unit[v], codes[c]) for _, v, c in CODES])
    write_csv(folder / "treatment.csv", ("patientunitstayid", "treatmentstring"), [("112", "pulmonary|ventilation")])
    write_csv(
        folder / "medication.csv",
        ("patientunitstayid", "drugname", "drughiclseqno", "drugordercancelled"),
        [("111", "Aspirin", "", "No"), ("121", "Aspirin", "", "Yes")],
    )
    # 140 is the earlier on its own clock and the later in the stay: 10 minutes after 48 hours.
    rows = [("111", "60", "100", "mg/dL"), ("112", "10", "140", "mg/dL"), ("111", "61", "high", "mg/dL")]
    rows += [("111", "62", "7.2", "mmol/L"), ("211", "1", "90", "mg/dL")]
    write_csv(
        folder / "lab.csv",
        ("patientunitstayid", "labname", "labresultoffset", "labresult", "labmeasurenamesystem"),
        [(stay, "glucose", offset, value, unit) for stay, offset, value, unit in rows],
    )
    dx = ("ICD9CM/250.00", "ICD9CM/401.9")
    return Whole(folder, "LAB/glucose", elective="inpatient", dx=dx, px="TREATMENT/pulmonary|ventilation")


def omop(folder: Path) -> Whole:
    """OMOP with a concept table; patient 1 died by the table of deaths, not by a disposition."""
    write_csv(folder / "person.csv", ("person_id",), [("1",), ("2",)])
    kinds, ends = ("262", "9201", "9201", "77"), ("8536", "0", "8536", "78")
    write_csv(
        folder / "visit_occurrence.csv",
        (
            *("person_id", "visit_occurrence_id", "visit_start_datetime", "visit_end_datetime"),
            *("visit_concept_id", "discharged_to_concept_id"),
        ),
        [(*stay, kind, end) for stay, kind, end in zip(STAYS, kinds, ends, strict=True)],
    )
    write_csv(folder / "death.csv", ("person_id", "death_date"), [("1", "2020-03-02")])
    concepts = {"4019": ("1", "ICD9CM"), "25000": ("2", "ICD9CM"), "9671": ("3", "ICD9Proc"), "1191": ("4", "RxNorm")}
    concepts |= {"2345-7": ("5", "LOINC"), "mg/dL": ("8840", "UCUM"), "mmol/L": ("8753", "UCUM")}
    write_csv(
        folder / "concept.csv",
        ("concept_id", "vocabulary_id", "concept_code", "concept_name"),
        [(number, system, code, "") for code, (number, system) in concepts.items()],
    )
    for table, stem, rows in (
        ("condition_occurrence", "condition", [(p, v, concepts[c][0]) for p, v, c in CODES]),
        ("procedure_occurrence", "procedure", [("1", "11", "3")]),
        ("drug_exposure", "drug", [("1", "11", "4")]),
    ):
        write_csv(folder / f"{table}.csv", ("person_id", "visit_occurrence_id", f"{stem}_concept_id"), rows)
    write_csv(
        folder / "measurement.csv",
        (
            *("person_id", "visit_occurrence_id", "measurement_concept_id", "measurement_datetime"),
            *("value_as_number", "unit_concept_id"),
        ),
        [(p, v, "5", time, value, concepts[unit][0]) for p, v, time, value, unit in VALUES],
    )
    return Whole(folder, "LOINC/2345-7", elective="inpatient", px="ICD9Proc/9671", rx="RxNorm/1191")


def meds(folder: Path) -> Whole:
    """MEDS without visit ids: admissions and discharges, and a death; patient 2 leaves at once."""
    kinds, ends = ("EW EMER.", "ELECTIVE", "ELECTIVE", "SPACE"), ("HOME", "HOME", "HOME", "MOON")
    rows = [("1", "2020-03-02 07:00:00", "MEDS_DEATH", "")]
    ends_at = {visit: end or "2021-05-05 20:00:00" for _, visit, _, end in STAYS}
    for (patient, visit, begin, _), kind, end in zip(STAYS, kinds, ends, strict=True):
        rows.append((patient, begin, f"HOSPITAL_ADMISSION//{kind}//ER", ""))
        rows.append((patient, ends_at[visit], f"HOSPITAL_DISCHARGE//{end}", ""))
    rows += [(patient, ends_at[visit], f"DIAGNOSIS//ICD//9//{code}", "") for patient, visit, code in CODES]
    rows.append(("1", ends_at["11"], "PROCEDURE//ICD//9//9671", ""))
    rows.append(("1", ends_at["11"], "MEDICATION//START//Aspirin", ""))
    rows += [(p, time, f"LAB//50931//{unit}", value if value != "high" else "") for p, _, time, value, unit in VALUES]
    write_csv(folder / "data" / "0.csv", ("subject_id", "time", "code", "numeric_value"), rows)
    return Whole(folder)


def fhir(folder: Path) -> Whole:
    """FHIR: classes of encounters, dispositions, quantities, and a date of death."""
    folder.mkdir(parents=True)

    def save(name: str, resources: list[dict[str, object]]) -> None:
        lines = [json.dumps({"resourceType": name, **resource}) + "\n" for resource in resources]
        (folder / f"{name}.ndjson").write_text("".join(lines), encoding="utf-8")

    def of(patient: str, visit: str, **more: object) -> dict[str, object]:
        to = {"subject": {"reference": f"Patient/{patient}"}, "encounter": {"reference": f"Encounter/{visit}"}}
        return {**to, **more}

    def coded(system: str, code: str) -> dict[str, object]:
        return {"coding": [{"system": system, "code": code}]}

    nine = "http://hl7.org/fhir/sid/icd-9-cm"
    save("Patient", [{"id": "1", "deceasedDateTime": "2020-03-02"}, {"id": "2"}])
    kinds, ends = ("EMER", "IMP", "IMP", "SPACE"), ("home", "", "home", "moon")
    save(
        "Encounter",
        [
            {
                "id": visit,
                "subject": {"reference": f"Patient/{patient}"},
                "class": {"code": kind},
                "period": {"start": begin.replace(" ", "T"), **({"end": end.replace(" ", "T")} if end else {})},
                "hospitalization": {"dischargeDisposition": coded("", left)},
            }
            for (patient, visit, begin, end), kind, left in zip(STAYS, kinds, ends, strict=True)
        ],
    )
    save("Condition", [of(p, v, code=coded(nine, c)) for p, v, c in CODES])
    save("Procedure", [of("1", "11", code=coded("http://hl7.org/fhir/sid/icd-9-cm-procedure", "9671"))])
    save("MedicationRequest", [of("1", "11", medicationCodeableConcept=coded("urn:x:DRUG", "Aspirin"))])
    observations = []
    for patient, visit, time, value, unit in VALUES:
        quantity = {"value": float(value), "unit": unit} if value != "high" else {"unit": unit}
        more = {"effectiveDateTime": time.replace(" ", "T"), "valueQuantity": quantity}
        observations.append(of(patient, visit, code=coded("http://loinc.org", "2345-7"), **more))
    save("Observation", observations)
    return Whole(folder, "LOINC/2345-7", emergency="emergency", elective="inpatient")


def table(folder: Path) -> Whole:
    """One table of rows of codes and rows of numbers, with what is known of the visit in every row."""
    words = {"11": ("EW EMER.", "3.5", "HOME"), "12": ("ELECTIVE", "1", "DIED"), "13": ("ELECTIVE", "1", "HOME")}
    words["21"] = ("SPACE", "", "MOON")
    begin = {visit: time[:10] for _, visit, time, _ in STAYS}
    header = ("patient", "visit", "date", "system", "code", "drug", "procedure", "value", "unit", "at", "how")
    rows = [(p, v, begin[v], "ICD9CM", c, "", "", "", "", "", *words[v]) for p, v, c in CODES]
    rows.append(("1", "11", begin["11"], "ICD9CM", "4019", "aspirin", "9671", "", "", "", *words["11"]))
    rows += [(p, v, begin[v], "LAB", "50931", "", "", x, unit, t, *words[v]) for p, v, t, x, unit in VALUES]
    path = write_csv(folder / "all.csv", (*header, "los", "left"), rows)
    options = {"date": "date", "time": "at", "kind": "how", "length": "los", "ending": "left"}
    return Whole(path, rx="RX/aspirin", options=options)


#: Source → what writes the patients in its form.
WHOLES: dict[str, Callable[[Path], Whole]] = {
    "mimic3": lambda folder: mimic(folder, four=False),
    "mimic4": lambda folder: mimic(folder, four=True),
    "eicu": eicu,
    "omop": omop,
    "meds": meds,
    "fhir": fhir,
    "table": table,
}
