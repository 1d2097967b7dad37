"""MIMIC-III: hospital admissions with ICD-9 diagnoses, procedures, prescriptions, labs and how stays ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapcla.data import Cohort
from adapcla.io.assembly import assemble
from adapcla.io.contract import Options
from adapcla.io.readers.admissions import (
    VISIT_RULE,
    load_codes,
    load_drugs,
    load_labs,
    load_people,
    load_stays,
    load_visits,
    titles,
)
from adapcla.io.tables import find_table, need_table
from adapcla.io.workbench import Workbench

#: Age from the date of birth; patients over 89 have one 300 years before their first admission.
_AGE = "(first_day - days_of(born)) / 365.25"


def read(root: Path, options: Options) -> Cohort:
    """The cohort in a folder with ADMISSIONS, PATIENTS and DIAGNOSES_ICD, more by domain."""
    card: dict[str, Any] = {}
    descriptions: dict[tuple[str, str], str] = {}
    with Workbench() as bench:
        load_visits(bench, need_table(root, "admissions"))
        attributes = load_people(bench, need_table(root, "patients"), {"born": "dob"}, _AGE)
        if "dx" in options.domains:
            load_codes(bench, need_table(root, "diagnoses_icd"), "icd9_code", "diagnosis", system="'ICD9CM'")
            descriptions |= titles(root, "d_icd_diagnoses", "ICD9CM")
        if "px" in options.domains:
            load_codes(bench, need_table(root, "procedures_icd"), "icd9_code", "procedure", system="'ICD9PROC'")
            descriptions |= titles(root, "d_icd_procedures", "ICD9PROC")
        if "rx" in options.domains:
            card["drugs"], names = load_drugs(bench, need_table(root, "prescriptions"))
            descriptions |= names
        if "lab" in options.domains:
            descriptions |= load_labs(bench, need_table(root, "labevents"), find_table(root, "d_labitems"))
        if "stay" in options.domains:
            card["stays"] = load_stays(bench, need_table(root, "admissions"))
        return assemble(
            bench,
            source="mimic3",
            visit_rule=VISIT_RULE,
            options=options,
            attributes=attributes,
            descriptions=descriptions,
            results="lab" in options.domains,
            courses="stay" in options.domains,
            card=card,
            path=root,
        )
