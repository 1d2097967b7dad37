"""Writes CSV: a row per code (long), a row per visit (wide), patients with attributes and labels, and the codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from adapcla.data import Cohort
from adapcla.io.codebook import LONG, PATIENTS, WIDE
from adapcla.io.writers.options import ExportOptions
from adapcla.io.writers.rows import Block, blocks, numbers_of
from adapcla.io.writers.sheets import Sheets, text_cell

#: Patient ids of one width, where no hospital's are.
FIRST_PATIENT = 9_000_000_000_000


def write(cohort: Cohort, folder: Path, options: ExportOptions) -> None:
    """Write long.csv, visits.csv, patients.csv and vocabulary.csv."""
    with Sheets(folder) as sheets:
        for block in blocks(cohort):
            _add_visits(sheets, block)
            _add_patients(sheets, block)
        listed = cohort.vocabulary.codes
        columns = {
            "code": [text_cell(code.token) for code in listed],
            "system": [code.system for code in listed],
            "version": [text_cell(code.version) for code in listed],
            "code_in_system": [text_cell(code.bare) for code in listed],
            "domain": [code.domain for code in listed],
            "description": [text_cell(code.description) for code in listed],
        }
        if cohort.vocabulary.groups or cohort.values is not None:
            columns |= {name: [text_cell(getattr(code, name)) for code in listed] for name in ("group", "unit")}
        sheets.add("vocabulary", columns)


def _add_visits(sheets: Sheets, block: Block) -> None:
    """Append to the long and the wide table; columns for days and numbers only where there are any."""
    import pyarrow as pa
    import pyarrow.compute as pcompute

    cohort = block.cohort
    visits: dict[str, Any] = {
        "patient_id": block.patient_of_visit + FIRST_PATIENT,
        "visit_id": block.visits + 1,
        "visit_index": cohort.visit_number + 1,
    }
    if cohort.days is not None:
        visits["day"] = np.asarray(cohort.days)
    cells = [text_cell(token) for token in cohort.vocabulary.tokens]
    tokens = pa.array(cells, pa.string()).take(pa.array(np.asarray(cohort.codes)))
    domains = pa.array([code.domain for code in cohort.vocabulary.codes], pa.string())
    of_entry = block.cohort.visit_of_entry
    rows = {name: values[of_entry] for name, values in visits.items()}
    rows |= {"code": tokens, "domain": domains.take(pa.array(np.asarray(cohort.codes)))}
    if cohort.values is not None:
        value, unit = numbers_of(cohort, np.arange(cohort.n_entries))
        rows |= {"value": value, "unit": pa.array([None if u is None else text_cell(u) for u in unit.to_pylist()])}
    sheets.add(Path(LONG).stem, rows)
    lists = pa.LargeListArray.from_arrays(pa.array(np.asarray(cohort.visit_starts)), tokens)
    sheets.add(Path(WIDE).stem, visits | {"codes": pcompute.binary_join(lists, " ")})


def _add_patients(sheets: Sheets, block: Block) -> None:
    """Append to the table of patients: attributes as words, labels as 1 and 0."""
    import pyarrow as pa

    cohort = block.cohort
    columns: dict[str, Any] = {"patient_id": block.patients + FIRST_PATIENT}
    for name, attribute in sorted(cohort.attributes.items()):
        values = np.asarray(attribute.values)
        category = pa.array(values.astype(np.int64), mask=values < 0)
        columns[name] = pa.array([text_cell(word) for word in attribute.categories], pa.string()).take(category)
    for column, name in enumerate(cohort.label_names):
        columns[f"label: {name}"] = [] if cohort.labels is None else np.asarray(cohort.labels)[:, column]
    sheets.add(Path(PATIENTS).stem, columns)
