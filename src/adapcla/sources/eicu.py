"""eICU: hospital stays of several unit stays, ordered without dates, with ICD-9 and ICD-10 codes in one cell."""

from __future__ import annotations

from pathlib import Path

from adapcla.errors import UsageError
from adapcla.records import Cohort
from adapcla.records.icd import FORMS
from adapcla.sources.assembly import assemble
from adapcla.sources.contract import Options
from adapcla.sources.tables import need_table
from adapcla.sources.workbench import Workbench

VISIT_RULE = (
    "one hospital stay (patienthealthsystemstayid); the source has no dates: ordered by hospitaldischargeyear, then by "
    "hospitaladmitoffset of the first unit stay, then by the stay's id"
)
_PATIENT_COLUMNS = {
    "patient": "uniquepid",
    "visit": "patienthealthsystemstayid",
    "unit": "patientunitstayid",
    "discharge_year": "hospitaldischargeyear",
    "admit_offset": "hospitaladmitoffset",
    "unit_number": "unitvisitnumber",
    "gender": "gender",
    "age": "age",
}


def read(root: Path, options: Options) -> Cohort:
    """The cohort in a folder with the tables patient and diagnosis."""
    if options.domains != ("dx",):
        raise UsageError("this source has diagnoses only\nto do: leave --domains out")
    patient, diagnosis = need_table(root, "patient"), need_table(root, "diagnosis")
    # Sex and age are not in every extract.
    columns = {new: old for new, old in _PATIENT_COLUMNS.items() if old not in ("gender", "age") or patient.has(old)}
    with Workbench() as bench:
        bench.load("stays", patient, columns)
        bench.load("diagnoses", diagnosis, {"unit": "patientunitstayid", "cell": "icd9code"})
        _shape(bench)
        attributes = _people(bench, "gender" in columns, "age" in columns)
        return assemble(bench, source="eicu", visit_rule=VISIT_RULE, options=options, attributes=attributes, path=root)


def _shape(bench: Workbench) -> None:
    """Make `visits` and `entries`."""
    bench.run(
        """CREATE TABLE visits AS SELECT patient, visit, '' AS date, '' AS day,
           CAST(coalesce(min(try_cast(discharge_year AS BIGINT)), 9999) * 1000000000
                + coalesce(first(try_cast(admit_offset AS BIGINT) ORDER BY try_cast(unit_number AS INTEGER), unit), 0)
                AS VARCHAR) AS sequence FROM stays GROUP BY patient, visit"""
    )
    # Codes of both forms, such as V10.1, are taken for ICD-9, which comes first.
    cases = " ".join(
        f"WHEN regexp_full_match(upper(code), '{form.pattern}') THEN '{name}'" for name, form in FORMS.items()
    )
    bench.run(
        f"""CREATE TABLE entries AS SELECT coalesce(s.patient, '') AS patient, coalesce(s.visit, '') AS visit, d.code,
            CASE {cases} ELSE '' END AS system, 'diagnosis' AS domain
            FROM (SELECT unit, trim(unnest(string_split(cell, ','))) AS code FROM diagnoses) d
            LEFT JOIN (SELECT DISTINCT unit, patient, visit FROM stays) s ON s.unit = d.unit"""
    )
    bench.drop(
        "codes of neither ICD-9 nor ICD-10 form",
        bench.number("SELECT count(*) FROM entries WHERE system = '' AND code <> ''"),
    )
    bench.run("DELETE FROM entries WHERE system = '' AND code <> ''")


def _people(bench: Workbench, has_sex: bool, has_age: bool) -> list[str]:
    """Make `people` with sex and ten-year age band, where the table has them; their names."""
    age = "try_cast(CASE WHEN starts_with(age, '>') THEN '90' ELSE age END AS INTEGER)"
    columns = {"sex": "gender"} if has_sex else {}
    columns |= {"age_band": f"age_band({age})"} if has_age else {}
    selected = "".join(f", {sql} AS {name}" for name, sql in columns.items())
    bench.run(f"CREATE TABLE people AS SELECT DISTINCT patient, visit{selected} FROM stays")
    return list(columns)
