"""MIMIC-IV: hospital admissions with ICD-9 and ICD-10 codes side by side, drugs, labs and how stays ended."""

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
)
from adapcla.io.tables import Table, find_table, need_table
from adapcla.io.workbench import Workbench

#: Age from the anchor: the age in the anchor year, moved by the years to the first admission.
_AGE = """try_cast(anchor_age AS INTEGER) + year(DATE '1970-01-01' + CAST(floor(first_day) AS INTEGER))
          - try_cast(anchor_year AS INTEGER)"""
#: Table of codes → its systems by ICD version, and the domain.
_TABLES = {
    "dx": ("diagnoses_icd", "ICD9CM", "ICD10CM", "diagnosis"),
    "px": ("procedures_icd", "ICD9PROC", "ICD10PCS", "procedure"),
}


def read(root: Path, options: Options) -> Cohort:
    """The cohort in a folder with hosp/admissions, patients and diagnoses_icd, more by domain."""
    card: dict[str, Any] = {}
    descriptions: dict[tuple[str, str], str] = {}
    with Workbench() as bench:
        load_visits(bench, _table(root, "admissions"))
        anchors = {"anchor_age": "anchor_age", "anchor_year": "anchor_year"}
        attributes = load_people(bench, _table(root, "patients"), anchors, _AGE)
        for domain, (name, nine, ten, records_domain) in _TABLES.items():
            if domain in options.domains:
                system = f"CASE version WHEN '9' THEN '{nine}' WHEN '10' THEN '{ten}' ELSE '' END"
                extra = {"version": "icd_version"}
                load_codes(bench, _table(root, name), "icd_code", records_domain, system=system, extra=extra)
        bench.drop("codes of an unknown ICD version", bench.number("SELECT count(*) FROM entries WHERE system = ''"))
        bench.run("DELETE FROM entries WHERE system = ''")
        if "rx" in options.domains:
            card["drugs"], names = load_drugs(bench, _table(root, "prescriptions"))
            descriptions |= names
        if "lab" in options.domains:
            items = find_table(root, "hosp/d_labitems", "d_labitems")
            descriptions |= load_labs(bench, _table(root, "labevents"), items)
        if "stay" in options.domains:
            card["stays"] = load_stays(bench, _table(root, "admissions"))
        return assemble(
            bench,
            source="mimic4",
            visit_rule=VISIT_RULE,
            options=options,
            attributes=attributes,
            descriptions=descriptions,
            results="lab" in options.domains,
            courses="stay" in options.domains,
            card=card,
            path=root,
        )


def _table(root: Path, name: str) -> Table:
    """A table of the hosp module, whether the folder is the whole release or the module itself."""
    return need_table(root, f"hosp/{name}", name)
