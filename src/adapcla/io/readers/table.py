"""Reads any CSV, TSV or Parquet table: one row per code, or one per visit with its codes in one or several cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from adapcla.console import say
from adapcla.data import Cohort
from adapcla.data.code_systems import PROCEDURES_OF
from adapcla.data.vocabulary import CODE_PATTERN
from adapcla.errors import InputError, UsageError
from adapcla.io.codebook import LONG, PATIENTS, Codebook, assembled
from adapcla.io.contract import DOMAIN_OF, Options
from adapcla.io.courses import NO_DAY, make_courses
from adapcla.io.tables import Table, open_table
from adapcla.io.words import TABLE_ENDS, TABLE_KINDS
from adapcla.io.workbench import Workbench

_PATIENT = ("patient_id", "patient", "subject_id", "person_id", "uniquepid", "desynpuf_id", "patient_nbr", "pid")
_VISIT = ("visit_id", "visit", "hadm_id", "encounter_id", "encounter", "visit_occurrence_id", "clm_id", "admission_id")
_DATE = ("date", "visit_date", "admission_date", "admittime", "start_date", "start", "time")
_DAY = ("day", "days", "visit_day")
_SEQUENCE = ("visit_index", "visit_number", "visit_no", "visit_num")
_SYSTEM = ("code_system", "system", "vocabulary", "vocabulary_id")
_CODES = {
    "dx": ("dx", "codes", "code", "diagnoses", "diagnosis", "icd_code", "icd9_code", "icd10_code", "icd"),
    "px": ("px", "procedures", "procedure", "procedure_code"),
    "rx": ("rx", "drugs", "drug", "medication", "ndc", "atc"),
    "lab": ("lab", "labs", "item", "itemid", "labname", "loinc"),
}
#: Columns of numbers and of stays, looked for where these domains are asked for.
_NUMBERS = {
    "value": ("value", "valuenum", "numeric_value", "result"),
    "unit": ("unit", "units", "valueuom"),
    "time": ("time", "charttime", "value_time"),
}
_STAYS = {
    "kind": ("kind", "visit_type", "admission_type", "encounter_class"),
    "length": ("length_of_stay", "los_days", "los"),
    "ending": ("ending", "discharge_location", "discharge_disposition", "disposition"),
}
#: What may separate codes in a cell; none of it can be part of a code.
_SEPARATORS = (" ", ";", "|", ",")
_SAMPLE_ROWS = 5_000
#: System of procedures and drugs in a table that names none, so that they are never taken for diagnoses.
_OTHER_SYSTEMS = {"px": "PX", "rx": "RX", "lab": "LAB"}
#: Names by which columns are found; a table that has one of them has a header.
KNOWN_NAMES = frozenset().union(_PATIENT, _VISIT, _DATE, _DAY, _SEQUENCE, _SYSTEM, *_CODES.values())


@dataclass(frozen=True)
class Layout:
    """Which column plays which part; an empty name means there is none."""

    patient: str
    visit: str
    date: str
    day: str
    sequence: str
    system: str
    codes: dict[str, tuple[str, ...]]
    separator: str
    #: The columns of numbers and stays, by part.
    more: dict[str, str] = field(default_factory=dict)
    #: The column that names a number: one of its own, or that of the codes.
    lab: str = ""

    def sentence(self) -> str:
        """What was understood, in one line."""
        said = [f"{part}={name}" for part, name in (("patient", self.patient), ("visit", self.visit)) if name]
        said += [f"{part}={name}" for part, name in (("date", self.date), ("day", self.day)) if name]
        said += [f"order={self.sequence}"] if self.sequence else []
        said += [f"{domain}={'+'.join(names)}" for domain, names in self.codes.items()]
        said += [f"{part}={name}" for part, name in self.more.items()]
        said += [f"system={self.system}"] if self.system else []
        return ", ".join(said) + (f"; codes separated by {self.separator!r}" if self.separator else "; one code a cell")


def read(root: Path, options: Options) -> Cohort:
    """The cohort in a table; columns that are not named are guessed, and the guesses are said before the work."""
    if not root.exists():
        raise InputError("no such file", path=root, remedy="check the path")
    book, root, options = Codebook.of_table(root, options)
    return read_rows(open_table(root), book, options)


def read_rows(table: Table, book: Codebook | None, options: Options) -> Cohort:
    """The cohort in an opened table, with what its codebook knows where it is an export."""
    root = table.path
    if book is not None and root.stem == LONG and table.has("value"):
        options = replace(options, value="value")
    layout = layout_of(table, options)
    say(f"reading {root.name}: {layout.sentence()}")
    attributes = _attribute_names(table, options.attributes)
    card: dict[str, Any]
    with Workbench() as bench:
        _load(bench, table, layout, attributes)
        _shape(bench, layout, options.system, list(attributes))
        card = {"columns": layout.sentence(), **_renamed_drugs(bench, layout)}
        if "value" in layout.more:
            _shape_results(bench, layout, options.system, own=book is not None)
        told = book is None and "stay" in options.domains
        if told:
            card["stays"] = _shape_courses(bench, layout)
        if book is not None:
            book.load_people(bench, root.with_name(PATIENTS + root.suffix))
        return assembled(
            bench,
            book,
            source="table",
            visit_rule=_rule(layout),
            options=options,
            attributes=list(attributes),
            results="value" in layout.more,
            courses=told,
            card=card,
            path=root,
        )


def layout_of(table: Table, options: Options) -> Layout:
    """The columns that were named, and guesses for the rest."""

    def named_or_guessed(named: str | None, guesses: Sequence[str]) -> str:
        return table.column(named) if named else table.first_of(*guesses) or ""

    patient = table.column(options.patient) if options.patient else table.column(*_PATIENT)
    date = named_or_guessed(options.date, _DATE)
    visit = named_or_guessed(options.visit, _VISIT)
    day = "" if date and not options.day else named_or_guessed(options.day, _DAY)
    sequence = table.first_of(*_SEQUENCE) or ""
    if not visit and not (date or day or sequence):
        table.column(*_VISIT)
    more = _more_columns(table, options)
    codes: dict[str, tuple[str, ...]] = {
        domain: found for domain in options.domains if (found := _code_columns(table, domain, options))
    }
    all_codes = [column for columns in codes.values() for column in columns]
    if len(set(all_codes)) < len(all_codes):
        raise UsageError("one column for two domains\nto do: name the column of diagnoses with --codes")
    separator = options.separator
    if separator is None and "value" in more:
        separator = ""
    if separator is None:
        keys = [name for name in (patient, visit, sequence, "" if visit else date or day) if name]
        separator = _separator(table, keys, all_codes)
    system = "" if options.system else table.first_of(*_SYSTEM) or ""
    lab = "" if "value" not in more else all_codes[0] if all_codes else table.column(*_CODES["dx"])
    lab = codes["lab"][0] if lab and "lab" in codes else lab
    return Layout(patient, visit, date, day, sequence, system, codes, separator, more, lab)


def _more_columns(table: Table, options: Options) -> dict[str, str]:
    """The columns of numbers and of stays that were named, or that a domain asks for and a guess finds."""
    found: dict[str, str] = {}
    for domain, parts in (("lab", _NUMBERS), ("stay", _STAYS)):
        for part, guesses in parts.items():
            named = getattr(options, part)
            column = table.column(named) if named else table.first_of(*guesses) if domain in options.domains else None
            found |= {part: column} if column else {}
    if "lab" in options.domains:
        found["value"] = found.get("value") or table.column(*_NUMBERS["value"])
    if "stay" in options.domains and not set(_STAYS) & set(found):
        raise UsageError(
            "--domains stay\nexpected: a column of the kind, length or ending of visits\n"
            "to do: name it with --kind, --length or --ending, or leave stay out"
        )
    return found


def _code_columns(table: Table, domain: str, options: Options) -> tuple[str, ...]:
    """The columns of one domain: `--codes` names those of the first domain asked for, with commas or with `*`."""
    asked = options.codes and domain == options.domains[0]
    if domain == "stay" or (domain == "lab" and not asked and not table.first_of(*_CODES[domain])):
        return ()
    if not options.codes or not asked:
        return (table.column(*_CODES[domain]),)
    if table.has(options.codes):
        return (table.column(options.codes),)
    columns: list[str] = []
    for name in options.codes.split(","):
        pattern = name.strip().lower()
        matching = [column for column in table.columns if "*" in pattern and fnmatch(column.lower(), pattern)]
        columns += matching or [table.column(name)]
    return tuple(dict.fromkeys(columns))


def _separator(table: Table, keys: Sequence[str], columns: Sequence[str]) -> str:
    """What separates codes in a cell, judged by the first rows; empty where a cell is one code.

    A mark is taken for a separator only where the pieces around it are codes, and where no visit has two rows (unless
    most cells hold the mark): a stray `a b` in a table of one row per code is a bad cell, not two codes.
    """
    names = {f"k{i}": key for i, key in enumerate(keys)} | {f"c{i}": column for i, column in enumerate(columns)}
    first = next(table.batches(names), None)
    if first is None:
        return ""
    sample = first.slice(0, _SAMPLE_ROWS).to_pydict()
    cells = [cell.strip() for i in range(len(columns)) for cell in sample[f"c{i}"]]
    visits = list(zip(*(sample[f"k{i}"] for i in range(len(keys))), strict=True))
    enough = 1 if len(set(visits)) == len(visits) else len(cells) / 2
    for mark in _SEPARATORS:
        split = [cell.split(mark) for cell in cells if mark in cell]
        if split and len(split) >= enough and sum(map(_are_codes, split)) >= 0.9 * len(split):
            return mark
    return ""


def _are_codes(pieces: Sequence[str]) -> bool:
    """Whether every piece that is not empty could be a code or the name of a drug.

    >>> _are_codes(["0389", "", "insulin:Up"]), _are_codes(["=1+1", "x"])
    (True, False)
    """
    return all(
        CODE_PATTERN.fullmatch(piece.strip().removeprefix("'").replace(":", "_")) for piece in pieces if piece.strip()
    )


def _attribute_names(table: Table, attributes: Sequence[str]) -> dict[str, str]:
    """Attribute name (usable as a file name) → column."""
    names = {
        "".join(c if c.isalnum() and c.isascii() else "_" for c in name.strip()): table.column(name)
        for name in attributes
    }
    for name in names:
        if name.lower() in ("patient", "visit") or len(name) > 64:
            raise UsageError(f"--attributes {name}\nexpected: another name\nto do: rename the column")
    return names


def _load(bench: Workbench, table: Table, layout: Layout, attributes: dict[str, str]) -> None:
    """Make `raw`: the columns that are needed, under fixed names."""
    parts = {"patient": layout.patient, "visit": layout.visit, "date": layout.date, "day": layout.day}
    parts |= {"sequence": layout.sequence, "system": layout.system}
    for domain, columns in layout.codes.items():
        parts |= {f"codes_{domain}_{number}": column for number, column in enumerate(columns)}
    parts |= {f"attribute_{name}": column for name, column in attributes.items()}
    parts |= {f"more_{part}": column for part, column in layout.more.items()}
    parts |= {"number_code": layout.lab}
    bench.load("raw", table, {part: column for part, column in parts.items() if column})


def _shape(bench: Workbench, layout: Layout, system: str, attributes: Sequence[str]) -> None:
    """Make the views `visits`, `entries` and `people` over `raw`."""
    has = {part: part if getattr(layout, part) else "''" for part in ("date", "day", "sequence")}
    visit = _visit_key(layout)
    bench.run(
        f"""CREATE VIEW visits AS SELECT DISTINCT patient, {visit} AS visit, {has["date"]} AS date, {has["day"]} AS day,
            {has["sequence"]} AS sequence FROM raw"""
    )
    selects = []
    for domain in [name for name in layout.codes if name != "lab"]:
        for pieces in _pieces(domain, layout):
            code = pieces if domain != "rx" else f"name_token({pieces})"
            selects.append(
                f"""SELECT patient, {visit} AS visit, {code} AS code, {_system_of(domain, layout, system)} AS system,
                    {_quoted(DOMAIN_OF[domain])} AS domain FROM raw"""
            )
    # Where the codes of numbers have no column of their own, a row with a value is one of a number.
    plain = " WHERE more_value = ''" if "value" in layout.more and "lab" not in layout.codes else ""
    nothing = "SELECT '' AS patient, '' AS visit, '' AS code, '' AS system, '' AS domain WHERE false"
    body = " UNION ALL ".join(select + plain for select in selects) or nothing
    # Where a visit has room for several codes, room that is not used is no defect; an empty cell of one code is.
    roomy = bool(layout.separator) or len(selects) > 1
    bench.run(f"CREATE VIEW entries AS SELECT * FROM ({body})" + (" WHERE code <> ''" if roomy else ""))
    if attributes:
        columns = ", ".join(f'"attribute_{name}" AS "{name}"' for name in attributes)
        bench.run(f"CREATE VIEW people AS SELECT DISTINCT patient, {visit} AS visit, {columns} FROM raw")


def _shape_results(bench: Workbench, layout: Layout, system: str, own: bool) -> None:
    """Make `results` of the rows that have a value, or of all that name a lab in a column of its own."""
    column = {part: f"more_{part}" if part in layout.more else "''" for part in _NUMBERS}
    named = "system" if layout.system else _quoted("" if own else system or _OTHER_SYSTEMS["lab"])
    code = r"regexp_replace(number_code, '^\x27', '')"
    bench.run(
        f"""CREATE VIEW results AS SELECT patient, {_visit_key(layout)} AS visit,
            {code if own else f"path_token({code})"} AS code, {named} AS system,
            '{"diagnosis" if own else "lab"}' AS domain, number_of({column["value"]}) AS value,
            {column["unit"]} AS unit, coalesce(days_of({column["time"]}), number_of({column["time"]})) AS moment
            FROM raw WHERE {"number_code" if "lab" in layout.codes else column["value"]} <> ''"""
    )


def _shape_courses(bench: Workbench, layout: Layout) -> dict[str, int]:
    """Make `courses` of the columns of kind, length and ending; words that are not known."""
    column = {part: f"more_{part}" if part in layout.more else "''" for part in _STAYS}
    begins = "days_of(date)" if layout.date else "try_cast(day AS DOUBLE)" if layout.day else NO_DAY
    rows = f"""SELECT patient, {_visit_key(layout)} AS visit, {column["kind"]} AS kind, {column["ending"]} AS ending,
        false AS died, {begins} AS begins, number_of({column["length"]}) AS days FROM raw"""
    return make_courses(bench, rows, TABLE_KINDS, TABLE_ENDS)


def _renamed_drugs(bench: Workbench, layout: Layout) -> dict[str, dict[str, int]]:
    """How many names of drugs were written as a code, for the card."""
    if "rx" not in layout.codes:
        return {}
    names = " UNION ".join(f"SELECT DISTINCT {pieces} AS name FROM raw" for pieces in _pieces("rx", layout))
    n = bench.number(f"SELECT count(*) FROM ({names}) WHERE name_token(name) <> name")
    return {"drugs": {"names written as a code": n}}


def _pieces(domain: str, layout: Layout) -> list[str]:
    """SQL for the codes in each column of a domain, one per row."""
    cells = [f"codes_{domain}_{number}" for number in range(len(layout.codes[domain]))]
    if layout.separator:
        cells = [f"trim(unnest(string_split({cell}, {_quoted(layout.separator)})))" for cell in cells]
    # Spreadsheets and exports of this project mark text with an apostrophe, which no code begins with.
    return [f"regexp_replace({cell}, '^''', '')" for cell in cells]


def _visit_key(layout: Layout) -> str:
    """SQL for what tells a patient's visits apart; a visit number beside the id tells apart what the id does not."""
    if layout.visit and layout.sequence:
        return "CASE visit WHEN '' THEN '' ELSE visit || ' ' || sequence END"
    if layout.visit:
        return "visit"
    return "sequence" if layout.sequence else "left(date, 10)" if layout.date else "day"


def _system_of(domain: str, layout: Layout, named: str) -> str:
    """SQL for the code system of a domain."""
    if domain == "dx":
        return "system" if layout.system else _quoted(named)
    if domain == "px" and (layout.system or named in PROCEDURES_OF):
        cases = " ".join(f"WHEN {_quoted(dx)} THEN {_quoted(px)}" for dx, px in PROCEDURES_OF.items())
        return f"CASE {'system' if layout.system else _quoted(named)} {cases} ELSE 'PX' END"
    return _quoted(_OTHER_SYSTEMS[domain])


def _rule(layout: Layout) -> str:
    """What a visit is and how visits are ordered, in words."""
    unit = " and ".join(name for name in (layout.visit, layout.sequence) if name) or layout.date or layout.day
    order = [name for name in (layout.date, layout.day, layout.sequence, layout.visit) if name]
    return f"one value of {unit}; ordered by {', '.join(order)}"


def _quoted(text: str) -> str:
    """The text as an SQL string.

    >>> _quoted("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"
