"""Any table (text, Excel, Parquet): one row per code, or one per visit with its codes in one or several cells.

Columns that are not named are guessed by their names, in the words of several languages, and the guesses are said
before the work starts. What remains unclear is asked for in one message.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path

from adapcla.console import say
from adapcla.data.code_systems import PROCEDURES_OF
from adapcla.errors import InputError, UsageError
from adapcla.io.assemble import NO_EVENTS, SourceTables
from adapcla.io.database import Database, quoted
from adapcla.io.options import DOMAIN_OF, ReadOptions
from adapcla.io.tables import Table, open_table
from adapcla.io.visit_terms import TABLE_ENDS, TABLE_KINDS

# Names of columns, without case, blanks and marks; the first that a table has is taken.
_PATIENT = """patient_id patient subject_id person_id uniquepid desynpuf_id patient_nbr pid mrn patienten_id
    patientennummer patientennr patnr patid patientno patientnumber medicalrecordnumber mrnnumber patientpseudonym
    pseudonym subject person nhsno nhs_number hospital_number member_id beneficiary_id bene_id ipp nip idpatient
    idpaciente paciente"""
_VISIT = """visit_id visit hadm_id encounter_id encounter visit_occurrence_id clm_id admission_id case_id casenumber
    fallnummer fallnr fall_id fall aufnahmenummer aufenthalt stay_id stay episode_id episode spell_id spell csn
    encounternumber enc_id admissionnumber visitnr besuch numsejour sejour episodio claim_id"""
_DATE = """date visit_date admission_date admittime start_date start time admit_date dateofadmission admissiondatetime
    admdate admidate encounter_date service_date event_date aufnahmedatum aufnahme datum behandlungsdatum fallbeginn
    besuchsdatum diagnosis_date diagnosedatum date_entree dateadmission fecha fechaingreso fecha_de_ingreso"""
# A date of a visit under a name that is not listed.
_ANY_DATE = re.compile(
    r"(adm|admit|admission|visit|encounter|enc|aufnahme|fall|service|start|begin)\w*(date|datum|time|dt)\w*"
)
_DAY, _SEQUENCE = "day days visit_day tag", "visit_index visit_number visit_no visit_num"
_SYSTEM = "code_system system vocabulary vocabulary_id coding_system kodiersystem"
_CODES = {
    "dx": """dx codes code diagnoses diagnosis icd_code icd9_code icd10_code icd icd10 icd9 icd10cm icd9cm icd10gm diag
        diagnosis_code diagnosiscodes dxcode diagnose diagnosen diagnosekode diagnosecode diagnoseschluessel icdkode
        icdschluessel icdcodes diagnosecodes
        diagnostic diagnostico cim10 cie10""",
    "px": """px procedures procedure procedure_code proc pxcode ops opscode opskode prozedur prozeduren opcs cpt
        icd10pcs""",
    "rx": "rx drugs drug medication ndc atc medications drugname atccode rxnorm medikament medikamente wirkstoff",
    "lab": "lab labs item itemid labname loinc labtest analyt laborwert parameter",
}
#: Main and further diagnoses, which are read together.
_MAIN = "hauptdiagnose hd principaldiagnosis principaldx primarydiagnosis primarydx maindiagnosis pdx dp"
_FURTHER = "nebendiagnosen nebendiagnose nd secondarydiagnoses secondarydiagnosis secondarydx sdx otherdiagnoses das"
#: Columns of numbers and of stays, looked for where these domains are asked for.
_NUMBERS = {
    "value": "value valuenum numeric_value result wert messwert ergebnis labvalue",
    "unit": "unit units valueuom einheit",
    "time": "time charttime value_time messzeitpunkt abnahmezeit abnahmedatum resulttime",
}
_STAYS = {
    "kind": "kind visit_type admission_type encounter_class aufnahmeart fallart encountertype",
    "length": "length_of_stay los_days los verweildauer",
    "ending": "ending discharge_location discharge_disposition disposition entlassungsart entlassart entlassungsgrund",
    "end": "end_date discharge_date dischtime dateofdischarge entlassungsdatum entlassdatum entlassung datesortie",
}
#: What may separate codes in a cell. A blank or a comma may be part of the name of a drug.
_SEPARATORS = {"dx": (" ", ";", "|", ","), "px": (" ", ";", "|", ","), "rx": (";", "|")}
_SAMPLE_ROWS = 5_000
#: System of procedures and drugs in a table that names none, so that they are never taken for diagnoses.
_OTHER_SYSTEMS = {"px": "PX", "rx": "RX", "lab": "LAB"}
# What code systems write: no blank inside, and a digit, or three capitals at most.
_CODED = re.compile(r"(?=[^0-9]*[0-9])[A-Za-z0-9][A-Za-z0-9.+*!†/_:-]{0,15}|[A-Z]{1,3}|None")
_CAPITALS = re.compile(f"{_CODED.pattern}|[A-Z]{{4,8}}")
#: A code of ICD-10 with its text behind it in one cell.
_CODE_AND_TEXT = r"([A-Z][0-9][0-9A-Z](?:\.?[0-9A-Z]{1,4})?[+*!]?)(?: *[-–:|] *| +)([^ ].*)"
# The name of a drug in one word.
_NAME = re.compile(r"'?[A-Za-z0-9][^\s;|,]{0,63}")


def _key(name: str) -> str:
    """The name of a column without case, accents, blanks and marks.

    >>> _key("Patienten-ID"), _key("Diagnoseschlüssel"), _key("ICD 10 Code")
    ('patientenid', 'diagnoseschluessel', 'icd10code')
    """
    text = name.casefold().replace("ä", "ae").replace("ö", "oe").replace("ü", "ue")
    return re.sub("[^a-z0-9]", "", unicodedata.normalize("NFKD", text))


def _keys(names: str) -> tuple[str, ...]:
    return tuple(_key(name) for name in names.split())


#: Names by which columns are found; a table that has one of them has a header.
KNOWN_KEYS = frozenset(
    key
    for names in (_PATIENT, _VISIT, _DATE, _DAY, _SEQUENCE, _SYSTEM, _MAIN, _FURTHER, *_CODES.values())
    for key in _keys(names)
)


def is_known(name: str) -> bool:
    """Whether a column of this name would be found.

    >>> is_known("Patienten-ID"), is_known("Haarfarbe")
    (True, False)
    """
    return _key(name) in KNOWN_KEYS


def _listed(names: Sequence[str]) -> str:
    """Some columns in a few words.

    >>> _listed(["dx1", "dx2"]), _listed([f"dx{number}" for number in range(1, 26)])
    ('dx1+dx2', 'dx1+…+dx25 (25 columns)')
    """
    return "+".join(names) if len(names) <= 4 else f"{names[0]}+…+{names[-1]} ({len(names)} columns)"


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
    #: Domain → what separates codes in its cells; empty where a cell is one code.
    separators: dict[str, str]
    #: The columns of numbers and stays, by part.
    more: dict[str, str] = field(default_factory=dict)
    #: The column that names a number: one of its own, or that of the codes.
    lab: str = ""
    #: Domains whose cells hold a code and its text.
    with_text: tuple[str, ...] = ()
    #: What must be asked of the user, each with the option that settles it.
    unclear: tuple[str, ...] = ()

    def sentence(self) -> str:
        """What was understood, in one line."""
        said = [f"{part}={name}" for part, name in (("patient", self.patient), ("visit", self.visit)) if name]
        said += [f"{part}={name}" for part, name in (("date", self.date), ("day", self.day)) if name]
        said += [f"order={self.sequence}"] if self.sequence else []
        texts = {domain: " (code and text)" if domain in self.with_text else "" for domain in self.codes}
        said += [f"{domain}={_listed(names)}{texts[domain]}" for domain, names in self.codes.items()]
        said += [f"{part}={name}" for part, name in self.more.items()]
        said += [f"system={self.system}"] if self.system else []
        marks = {mark for mark in self.separators.values() if mark}
        ending = "; codes separated by " + " and ".join(map(repr, sorted(marks))) if marks else "; one code a cell"
        return ", ".join(said) + ending

    def parts(self) -> dict[str, str]:
        """Column → the part it plays."""
        single = {"patient": self.patient, "visit": self.visit, "date": self.date, "day": self.day}
        single |= {"order": self.sequence, "system": self.system, **self.more}
        out = {column: part for part, column in single.items() if column}
        return out | {column: f"codes ({domain})" for domain, columns in self.codes.items() for column in columns}


def read_table(db: Database, path: Path, options: ReadOptions) -> SourceTables:
    """What a table holds; columns that are not named are guessed, and the guesses are said before the work."""
    if not path.exists():
        raise InputError("no such file", path=path, remedy="check the path")
    table = open_table(path, options.encoding, options.sheet)
    return read_opened(db, table, guess_columns(db, table, options), options)


def read_opened(db: Database, table: Table, layout: Layout, options: ReadOptions) -> SourceTables:
    """What an opened table holds, its columns being known; all that is unclear is asked for at once."""
    attributes = _attribute_columns(table, options.attributes)
    # Where something is missing already, the beginning is enough to see what else is unclear.
    _load(db, table.head(_SAMPLE_ROWS * 20) if layout.unclear else table, layout, attributes)
    unclear = [*layout.unclear, *_settle(db, layout, options)]
    if unclear:
        raise InputError(
            f"{len(unclear)} things are unclear" if len(unclear) > 1 else "one thing is unclear",
            path=table.path,
            row=table.header_row,
            expected="".join(f"\n  - {each}" for each in unclear),
            remedy="add the options named above" + ("" if layout.patient else "; the first row must name the columns"),
        )
    say(f"reading {table.path.name}: {layout.sentence()}")
    visit = _visit_key(layout)
    column = {part: f"more_{part}" if part in layout.more else "''" for part in (*_NUMBERS, *_STAYS)}
    has = {part: part if getattr(layout, part) else "''" for part in ("date", "day", "sequence")}
    people = "".join(f', "attribute_{name}"' for name in attributes)
    return SourceTables(
        visits=f"""SELECT DISTINCT patient, {visit} AS visit, {has["date"]} AS start, {column["end"]} AS "end",
            {has["day"]} AS day, {has["sequence"]} AS sequence, {column["kind"]} AS kind,
            {column["ending"]} AS discharge, false AS died,
            CAST(number_of({column["length"]}) AS DOUBLE) AS length_days FROM raw""",
        events=_events(layout, options.system),
        visit_rule=_rule(layout),
        patients=f"""SELECT DISTINCT patient, {visit} AS visit, '' AS sex, '' AS birth, '' AS age, '' AS death{people}
            FROM raw""",
        attributes=tuple(attributes),
        names=_texts(layout, options.system),
        numbers="value" in layout.more,
        kind_terms=TABLE_KINDS,
        discharge_terms=TABLE_ENDS,
        card={"columns": layout.sentence()},
    )


# ---- which column is what ---------------------------------------------------------------------------------
def guess_columns(db: Database, table: Table, options: ReadOptions) -> Layout:
    """The columns that were named, guesses for the rest, and what remains unclear."""
    unclear: list[str] = []

    def column(part: str, names: str, needed: str = "") -> str:
        named = getattr(options, part, None)
        if named:
            return table.column(named)
        found = _first(table, names)
        if not found and needed:
            near = get_close_matches(_keys(names)[0], [_key(name) for name in table.columns], n=1, cutoff=0.7)
            spelled = [name for name in table.columns if near and _key(name) == near[0]]
            hint = f"; {spelled[0]!r} is near" if spelled else ""
            unclear.append(f"no column {needed!r} among {len(table.columns)}{hint}: --{part} COLUMN")
        return found

    patient = column("patient", _PATIENT, "patient_id")
    date, visit = column("date", _DATE), column("visit", _VISIT)
    date = date or next((name for name in table.columns if _ANY_DATE.fullmatch(_key(name))), "")
    day = "" if date and not options.day else column("day", _DAY)
    sequence = _first(table, _SEQUENCE)
    if not (visit or date or day or sequence):
        unclear.append("no column 'visit_id' and no date: --visit COLUMN, --date COLUMN or --read day=COLUMN")
    more: dict[str, str] = {}
    for domain, parts in (("lab", _NUMBERS), ("stay", _STAYS)):
        for part, names in parts.items():
            if found := column(part, names) if domain in options.domains else getattr(options, part, None) or "":
                more[part] = table.column(found)
    if "lab" in options.domains and "value" not in more:
        unclear.append("no column 'value' of the numbers of labs: --read value=COLUMN")
    if "stay" in options.domains and not set(_STAYS) & set(more):
        unclear.append(
            "no column of the kind, length or ending of visits, which --domains stay needs: --read kind=COLUMN, "
            "--read length=COLUMN or --read ending=COLUMN"
        )
    codes: dict[str, tuple[str, ...]] = {}
    for domain in options.domains:
        if found_codes := _code_columns(db, table, domain, options, unclear):
            codes[domain] = found_codes
    all_codes = [name for names in codes.values() for name in names]
    if len(set(all_codes)) < len(all_codes):
        raise UsageError("one column for two domains\nto do: name the column of diagnoses with --codes")
    keys = [name for name in (patient, visit, sequence, "" if visit else date or day) if name]
    separators = {
        domain: options.separator
        if options.separator is not None
        else ""
        if "value" in more or domain not in _SEPARATORS
        else _separator(db, table, keys, names, _SEPARATORS[domain])
        for domain, names in codes.items()
    }
    system = "" if options.system else _first(table, _SYSTEM)
    lab = "" if "value" not in more else codes["lab"][0] if "lab" in codes else all_codes[0] if all_codes else ""
    lab = lab or (_first(table, _CODES["dx"]) if "value" in more else "")
    if "value" in more and not lab:
        unclear.append("no column that names the labs: --codes COLUMN")
    with_text = tuple(
        domain
        for domain, names in codes.items()
        if domain == "dx" and not separators[domain] and _have_text(db, table, names)
    )
    return Layout(patient, visit, date, day, sequence, system, codes, separators, more, lab, with_text, tuple(unclear))


def _first(table: Table, names: str) -> str:
    """The first column of these names, or nothing."""
    columns = {_key(column): column for column in reversed(table.columns)}
    return next((columns[key] for key in _keys(names) if key in columns), "")


def _code_columns(db: Database, table: Table, domain: str, options: ReadOptions, unclear: list[str]) -> tuple[str, ...]:
    """The columns of one domain: `--codes` names those of the first domain asked for, with commas or with `*`."""
    if domain == "stay":
        return ()
    if options.codes and domain == options.domains[0]:
        return _named_columns(table, options.codes)
    stems = _keys(_CODES[domain])
    main, further = (_keys(_MAIN), _keys(_FURTHER)) if domain == "dx" else ((), ())
    numbered: dict[str, str] = {}
    for name in table.columns:
        found = re.fullmatch(r"([a-z0-9]*?[a-z](?:9|10)?)([0-9]{1,3})(code|kode)?", _key(name))
        if found and _key(name) not in stems and found[1] in (*stems, *main, *further):
            numbered[name] = found[1]
    exact = [name for stem in stems for name in table.columns if _key(name) == stem]
    beside = [name for name in table.columns if _key(name) in (*main, *further)]
    if numbered or beside:
        same = [name for name in exact if _key(name) in numbered.values()]
        chosen = {*beside, *numbered, *same}
        if others := [name for name in exact if name not in chosen and _looks_coded(db, table, name)]:
            unclear.append(f"codes are in {others[0]!r} and in {min(chosen)!r}: --codes COLUMN, or several with commas")
        return tuple(name for name in table.columns if name in chosen)
    if len(exact) > 1:
        coded = [name for name in exact if _looks_coded(db, table, name)]
        if len(coded) > 1:
            listed = " and ".join(repr(name) for name in coded)
            unclear.append(f"codes are in {listed}: --codes COLUMN, or several with commas")
        exact = coded or exact
    if exact:
        return (exact[0],)
    if domain != "lab":
        option = "--codes COLUMN" if domain == options.domains[0] else f"leave {domain} out of --domains"
        unclear.append(f"no column {stems[0]!r} or {stems[1]!r} of codes: {option}")
    return ()


def _named_columns(table: Table, codes: str) -> tuple[str, ...]:
    """The columns that `--codes` names."""
    if table.has(codes):
        return (table.column(codes),)
    columns: list[str] = []
    for name in codes.split(","):
        pattern = name.strip().lower()
        matching = [column for column in table.columns if "*" in pattern and fnmatch(column.lower(), pattern)]
        columns += matching or [table.column(name)]
    return tuple(dict.fromkeys(columns))


def _sample(db: Database, table: Table, columns: Sequence[str]) -> list[tuple[str, ...]]:
    """The cells of some columns in the first rows."""
    db.run("DROP TABLE IF EXISTS sample")
    db.load("sample", table.head(_SAMPLE_ROWS), {f"s{number}": name for number, name in enumerate(columns)})
    return db.query("SELECT * FROM sample")


def _looks_coded(db: Database, table: Table, column: str) -> bool:
    """Whether most cells of a column hold codes rather than words."""
    pieces = [piece for (cell,) in _sample(db, table, [column]) for piece in re.split(r"[\s;,|]+", cell) if piece]
    return bool(pieces) and sum(bool(_CODED.fullmatch(piece)) for piece in pieces) >= 0.8 * len(pieces)


def _have_text(db: Database, table: Table, columns: Sequence[str]) -> bool:
    """Whether nearly all cells of some columns hold a code and its text."""
    cells = [cell for row in _sample(db, table, columns) for cell in row if cell]
    return bool(cells) and sum(bool(re.fullmatch(_CODE_AND_TEXT, cell)) for cell in cells) >= 0.9 * len(cells)


def _separator(db: Database, table: Table, keys: Sequence[str], columns: Sequence[str], marks: Sequence[str]) -> str:
    """What separates codes in a cell, by the first rows; empty where a cell is one code.

    A mark is taken for a separator only where the pieces around it are codes, and where no visit has two rows (unless
    most cells hold the mark): `a b` in a table of one row per code is a name, not two codes.
    """
    rows = _sample(db, table, [*keys, *columns])
    cells = [cell for row in rows for cell in row[len(keys) :]]
    filled = [cell for cell in cells if cell]
    visits = [row[: len(keys)] for row in rows]
    # One word with a blank is a name; codes come in several cells.
    enough = 1 if len(set(visits)) == len(visits) else len(cells) / 2
    for mark in marks:
        split = [cell.split(mark) for cell in filled if mark in cell]
        good = [pieces for pieces in split if _are_codes(pieces, mark, names=" " not in marks)]
        if split and len(split) >= enough and len(good) >= 0.9 * len(split):
            return mark
    return ""


def _are_codes(pieces: Sequence[str], mark: str, names: bool) -> bool:
    """Whether every piece that is not empty could be a code, or (of drugs) a name in one word.

    >>> _are_codes(["0389", "", "HYPT"], ";", names=False), _are_codes(["Aspirin", "81", "mg"], " ", names=False)
    (True, False)
    >>> _are_codes(["Sturz", " häuslich"], ",", names=False), _are_codes(["insulin:Up", "aspirin"], ";", names=True)
    (False, True)
    """
    form = _NAME if names else _CODED if mark == " " else _CAPITALS
    return all(form.fullmatch(piece.strip()) for piece in pieces if piece.strip())


# ---- from rows to queries ---------------------------------------------------------------------------------
def _attribute_columns(table: Table, attributes: Sequence[str]) -> dict[str, str]:
    """Attribute name (usable as a file name) → column."""
    names = {
        "".join(c if c.isalnum() and c.isascii() else "_" for c in name.strip()): table.column(name)
        for name in attributes
    }
    for name in names:
        if name.lower() in ("patient", "visit") or len(name) > 64:
            raise UsageError(f"--attributes {name}\nexpected: another name\nto do: rename the column")
    return names


def _load(db: Database, table: Table, layout: Layout, attributes: dict[str, str]) -> None:
    """Make `raw`: the columns that are needed, under fixed names."""
    parts = {"patient": layout.patient, "visit": layout.visit, "date": layout.date, "day": layout.day}
    parts |= {"sequence": layout.sequence, "system": layout.system}
    for domain, columns in layout.codes.items():
        parts |= {f"codes_{domain}_{number}": column for number, column in enumerate(columns)}
    parts |= {f"attribute_{name}": column for name, column in attributes.items()}
    parts |= {f"more_{part}": column for part, column in layout.more.items()}
    parts |= {"number_code": layout.lab}
    if found := {part: column for part, column in parts.items() if column}:
        db.load("raw", table, found)


def _settle(db: Database, layout: Layout, options: ReadOptions) -> list[str]:
    """What is unclear about dates and numbers, by all cells."""
    dates = [
        name
        for name, there in (("date", layout.date), *((f"more_{p}", p in layout.more) for p in ("time", "end")))
        if there
    ]
    numbers = [f"more_{part}" for part in ("value", "length") if part in layout.more]
    unclear = []
    for name in [name for name in dates if name != "more_time"]:
        serial = rf"regexp_full_match({name}, '[1-7]\d{{4}}(\.\d+)?')"
        if db.number(f"SELECT count(*) FROM raw WHERE {serial}"):
            db.note("dates such as 43831", "days since 1900, as spreadsheets keep them")
            seconds = f"to_seconds(CAST(round(CAST({name} AS DOUBLE) * 86400) AS BIGINT))"
            db.run(f"UPDATE raw SET {name} = CAST(TIMESTAMP '1899-12-30' + {seconds} AS VARCHAR) WHERE {serial}")
    if dates:
        unclear.append(db.settle_dates(options, [f"SELECT {name} FROM raw" for name in dates]))
    if numbers:
        unclear.append(db.settle_decimals(options, " UNION ".join(f"SELECT {name} FROM raw" for name in numbers)))
    return [each for each in unclear if each]


def _events(layout: Layout, system: str) -> str:
    """SQL for the codes and numbers of all domains."""
    visit = _visit_key(layout)
    # Where the codes of numbers have no column of their own, a row with a value is one of a number.
    plain = " WHERE more_value = ''" if "value" in layout.more and "lab" not in layout.codes else ""
    selects = []
    for domain in [name for name in layout.codes if name != "lab"]:
        cells = ", ".join(f"codes_{domain}_{number}" for number in range(len(layout.codes[domain])))
        code, mark = "unnest([" + cells + "])", layout.separators.get(domain, "")
        if mark:
            code = f"trim(unnest(flatten(list_transform([{cells}], lambda c: string_split(c, {quoted(mark)})))))"
        if domain in layout.with_text:
            code = f"regexp_replace({code}, '^{_CODE_AND_TEXT}$', '\\1')"
        # Where a visit has room for several codes, room that is not used is no defect; an empty cell of one code is.
        roomy = bool(mark) or len(layout.codes[domain]) > 1 or len(layout.codes) > 1
        selects.append(
            f"""SELECT patient, visit, '' AS time, system, regexp_replace(code, '^''', '') AS code,
                {quoted(DOMAIN_OF[domain])} AS domain, false AS measured, '' AS value, '' AS unit FROM (
                SELECT patient, {visit} AS visit, {_system_of(domain, layout, system)} AS system, {code} AS code
                FROM raw{plain}){" WHERE code <> ''" if roomy else ""}"""
        )
    if "value" in layout.more:
        column = {part: f"more_{part}" if part in layout.more else "''" for part in _NUMBERS}
        otherwise = quoted(system or _OTHER_SYSTEMS["lab"])
        named = f"CASE system WHEN '' THEN {otherwise} ELSE system END" if layout.system else otherwise
        selects.append(
            f"""SELECT patient, {visit} AS visit, {column["time"]} AS time, {named} AS system,
                regexp_replace(number_code, '^''', '') AS code, 'lab' AS domain, true AS measured,
                {column["value"]} AS value, {column["unit"]} AS unit FROM raw
                WHERE {"number_code" if "lab" in layout.codes else column["value"]} <> ''"""
        )
    return " UNION ALL ".join(selects) or NO_EVENTS


def _texts(layout: Layout, system: str) -> str:
    """SQL for the texts that stand beside codes in their cells."""
    selects = []
    for domain in layout.with_text:
        cells = ", ".join(f"codes_{domain}_{number}" for number in range(len(layout.codes[domain])))
        selects.append(
            f"""SELECT system, regexp_extract(cell, '^{_CODE_AND_TEXT}$', 1) AS code,
                regexp_extract(cell, '^{_CODE_AND_TEXT}$', 2) AS description, '' AS choice_group
                FROM (SELECT {_system_of(domain, layout, system)} AS system, unnest([{cells}]) AS cell FROM raw)"""
        )
    return " UNION ALL ".join(selects)


def _visit_key(layout: Layout) -> str:
    """SQL for what tells a patient's visits apart; a visit number beside the id tells apart what the id does not."""
    if layout.visit and layout.sequence:
        return "CASE visit WHEN '' THEN '' ELSE visit || ' ' || sequence END"
    if layout.visit:
        return "visit"
    if layout.sequence:
        return "sequence"
    # One day is one visit, however its date is written.
    day = "coalesce(CAST(DATE '1970-01-01' + CAST(floor(days_of(date)) AS INTEGER) AS VARCHAR), date)"
    return day if layout.date else "day"


def _system_of(domain: str, layout: Layout, named: str) -> str:
    """SQL for the code system of a domain."""
    if domain == "dx":
        return "system" if layout.system else quoted(named)
    if domain == "px" and (layout.system or named in PROCEDURES_OF):
        cases = " ".join(f"WHEN {quoted(dx)} THEN {quoted(px)}" for dx, px in PROCEDURES_OF.items())
        return f"CASE {'system' if layout.system else quoted(named)} {cases} ELSE 'PX' END"
    return quoted(_OTHER_SYSTEMS[domain])


def _rule(layout: Layout) -> str:
    """What a visit is and how visits are ordered, in words."""
    unit = " and ".join(name for name in (layout.visit, layout.sequence) if name) or layout.date or layout.day
    order = [name for name in (layout.date, layout.day, layout.sequence, layout.visit) if name]
    return f"one value of {unit}; ordered by {', '.join(order)}"
