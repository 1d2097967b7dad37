"""Flat tables as CSV, Parquet or one Excel workbook: codes (long), visits (wide), patients and the vocabulary.

| table | one row is |
|---|---|
| `long` | a code of a visit, with its number and unit where the cohort has numbers |
| `visits` | a visit, its codes with a mark between them: a blank, or `;` where a code holds blanks |
| `patients` | a patient, with attributes as words and labels as 1 and 0 |
| `vocabulary` | a code with its system, domain and description |

Of many patients, `long`, `visits` and `patients` are folders with a file for each part.

Codes are written as they are. In CSV an apostrophe goes before what a spreadsheet would take for a formula.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from adapcla.data import Cohort
from adapcla.errors import InputError
from adapcla.io.codebook import separator_of
from adapcla.io.database import Database, quoted
from adapcla.io.options import WriteOptions
from adapcla.io.writers.tables import FIRST_PATIENT, Part, cohort_tables, free_text

#: What Excel holds in a sheet, the header included.
_EXCEL_ROWS = 1_048_576
#: Codes that a spreadsheet would carry out, or that begin with the mark against it.
_FORMULA = "[=+@'-].*"
#: Codes that spreadsheets take for numbers, dates, truth values or formulas.
_CHANGED_BY_EXCEL = (
    "(?i)[=+@'-].*|[0-9.,][0-9e.,:/+-]*|(jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[0-9]+"
    "|[0-9]+-(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)|true|false"
)


def write_csv(db: Database, part: Part, folder: Path, options: WriteOptions) -> None:
    """Write long.csv, visits.csv, patients.csv and vocabulary.csv."""

    def code(column: str) -> str:
        marked = _CHANGED_BY_EXCEL if options.for_excel else _FORMULA
        return f"CASE WHEN regexp_full_match({column}, {quoted(marked)}) THEN '''' || {column} ELSE {column} END"

    _write(db, part, folder, _queries(part.cohort, free_text, code), ".csv")


def write_parquet(db: Database, part: Part, folder: Path, options: WriteOptions) -> None:
    """Write long.parquet, visits.parquet, patients.parquet and vocabulary.parquet."""
    _write(db, part, folder, _queries(part.cohort, str, str), ".parquet")


def _write(db: Database, part: Part, folder: Path, queries: dict[str, str], ending: str) -> None:
    """Write the tables of a part; the vocabulary, which all parts share, is written once."""
    cohort_tables(db, part.cohort, part.before)
    for name, query in queries.items():
        if name != "vocabulary":
            db.copy(query, part.file(folder, name, ending))
        elif part.number == 0:
            db.copy(query, folder / f"{name}{ending}")


def write_xlsx(db: Database, part: Part, folder: Path, options: WriteOptions) -> None:
    """Write cohort.xlsx with a sheet for each table; text stays text, whatever it looks like."""
    import xlsxwriter

    cohort_tables(db, part.cohort)
    as_text = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with xlsxwriter.Workbook(str(folder / "cohort.xlsx"), {"constant_memory": True, **as_text}) as book:
        for name, query in _queries(part.cohort, str, str).items():
            if (n := db.number(f"SELECT count(*) FROM ({query})")) >= _EXCEL_ROWS:
                raise InputError(
                    f"{n:,} rows in the table {name}",
                    expected=f"fewer than {_EXCEL_ROWS:,}, which a sheet of Excel holds",
                    remedy="export to parquet or csv, or export fewer patients",
                )
            sheet = book.add_worksheet(name)
            sheet.write_row(0, 0, [column for column, *_ in db.query(f"DESCRIBE {query}")])
            for row, cells in enumerate(db.rows(query), start=1):
                sheet.write_row(row, 0, cells)


def _queries(cohort: Cohort, text: Callable[[str], str], code: Callable[[str], str]) -> dict[str, str]:
    """SQL of each table; `text` and `code` wrap the columns whose cells a spreadsheet might misread."""
    visit = f"v.patient + {FIRST_PATIENT} AS patient_id, v.visit + 1 AS visit_id, v.number + 1 AS visit_index"
    if cohort.days is not None:
        visit += ", v.day"
    numbers = f", e.value, CASE WHEN e.value IS NOT NULL THEN {text('c.unit')} END AS unit"
    patients = [f"patient + {FIRST_PATIENT} AS patient_id"]
    patients += [
        f"{text(f'attribute_{place}')} AS {_name(name)}" for place, name in enumerate(sorted(cohort.attributes))
    ]
    patients += [f"label_{place} AS {_name(f'label: {name}')}" for place, name in enumerate(cohort.label_names)]
    between = quoted(separator_of(cohort.vocabulary.tokens))
    more = f', {text("choice_group")} AS "group", {text("unit")} AS unit'
    return {
        "long": f"""SELECT {visit}, {code("c.token")} AS code, c.domain{numbers if cohort.values is not None else ""}
            FROM events e JOIN visits v USING (visit) JOIN codes c USING (code) ORDER BY e.event""",
        "visits": f"""SELECT {visit}, {code("w.codes")} AS codes FROM visits v
            JOIN (SELECT visit, string_agg(token, {between} ORDER BY event) AS codes FROM events JOIN codes USING (code)
                GROUP BY visit) w USING (visit) ORDER BY v.visit""",
        "patients": f"SELECT {', '.join(patients)} FROM patients ORDER BY patient",
        "vocabulary": f"""SELECT {code("token")} AS code, system, {text("version")} AS version,
            {code("bare")} AS code_in_system, domain, {text("description")} AS description
            {more if cohort.vocabulary.groups or cohort.values is not None else ""} FROM codes ORDER BY codes.code""",
    }


def _name(column: str) -> str:
    """The name of a column in SQL."""
    return '"' + column.replace('"', '""') + '"'
