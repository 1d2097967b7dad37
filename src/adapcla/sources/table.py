"""Reads any CSV, TSV or Parquet table: one row per code, or one per visit with its codes in one or several cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from adapcla.console import say
from adapcla.errors import InputError, UsageError
from adapcla.records import Cohort
from adapcla.records.icd import PROCEDURES_OF
from adapcla.records.vocabulary import CODE_PATTERN
from adapcla.sources.codebook import PATIENTS, Codebook, assembled
from adapcla.sources.contract import DOMAIN_OF, Options
from adapcla.sources.tables import Table, open_table
from adapcla.sources.workbench import Workbench

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
}
#: What may separate codes in a cell; none of it can be part of a code.
_SEPARATORS = (" ", ";", "|", ",")
_SAMPLE_ROWS = 5_000
#: System of procedures and drugs in a table that names none, so that they are never taken for diagnoses.
_OTHER_SYSTEMS = {"px": "PX", "rx": "RX"}
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

    def sentence(self) -> str:
        """What was understood, in one line."""
        said = [f"{part}={name}" for part, name in (("patient", self.patient), ("visit", self.visit)) if name]
        said += [f"{part}={name}" for part, name in (("date", self.date), ("day", self.day)) if name]
        said += [f"order={self.sequence}"] if self.sequence else []
        said += [f"{domain}={'+'.join(names)}" for domain, names in self.codes.items()]
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
    layout, root = layout_of(table, options), table.path
    say(f"reading {root.name}: {layout.sentence()}")
    attributes = _attribute_names(table, options.attributes)
    with Workbench() as bench:
        _load(bench, table, layout, attributes)
        _shape(bench, layout, options.system, list(attributes))
        if book is not None:
            book.load_people(bench, root.parent / PATIENTS)
        return assembled(
            bench,
            book,
            source="table",
            visit_rule=_rule(layout),
            options=options,
            attributes=list(attributes),
            card={"columns": layout.sentence(), **_renamed_drugs(bench, layout)},
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
    codes: dict[str, tuple[str, ...]] = {domain: _code_columns(table, domain, options) for domain in options.domains}
    all_codes = [column for columns in codes.values() for column in columns]
    if len(set(all_codes)) < len(all_codes):
        raise UsageError("one column for two domains\nto do: name the column of diagnoses with --codes")
    separator = options.separator
    if separator is None:
        keys = [name for name in (patient, visit, sequence, "" if visit else date or day) if name]
        separator = _separator(table, keys, all_codes)
    system = "" if options.system else table.first_of(*_SYSTEM) or ""
    return Layout(patient, visit, date, day, sequence, system, codes, separator)


def _code_columns(table: Table, domain: str, options: Options) -> tuple[str, ...]:
    """The columns of one domain: `--codes` names those of the first domain asked for, with commas or with `*`."""
    if not options.codes or domain != options.domains[0]:
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
    for domain in layout.codes:
        for pieces in _pieces(domain, layout):
            code = pieces if domain != "rx" else f"name_token({pieces})"
            selects.append(
                f"""SELECT patient, {visit} AS visit, {code} AS code, {_system_of(domain, layout, system)} AS system,
                    {_quoted(DOMAIN_OF[domain])} AS domain FROM raw"""
            )
    body = " UNION ALL ".join(selects)
    # Where a visit has room for several codes, room that is not used is no defect; an empty cell of one code is.
    roomy = bool(layout.separator) or len(selects) > 1
    bench.run(f"CREATE VIEW entries AS SELECT * FROM ({body})" + (" WHERE code <> ''" if roomy else ""))
    if attributes:
        columns = ", ".join(f'"attribute_{name}" AS "{name}"' for name in attributes)
        bench.run(f"CREATE VIEW people AS SELECT DISTINCT patient, {visit} AS visit, {columns} FROM raw")


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
