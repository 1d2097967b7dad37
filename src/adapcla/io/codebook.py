"""What a foreign format cannot say about a cohort, in a small file beside an export, so that it reads back the same.

`adapcla.json` holds the vocabulary, the categories of the attributes, the names of the labels and whether the dates
mean anything. It speaks of codes only; the patients are in the format's own files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Attribute, Code, Cohort, Kind, Origin, Vocabulary, code_systems
from adapcla.data.code_systems import ICD9, ICD10
from adapcla.errors import InputError
from adapcla.files import read_json, write_json
from adapcla.io.assemble import SourceTables, assemble
from adapcla.io.database import Database, quoted
from adapcla.io.options import ReadOptions
from adapcla.io.tables import Table, open_table

FILE = "adapcla.json"
FORMAT = 1
#: The tables of a CSV or Parquet export: one row per code, one row per visit, one row per patient.
LONG, WIDE, PATIENTS, WORKBOOK = "long", "visits", "patients", "cohort.xlsx"
#: What may stand between the codes of a visit; the first that no code holds is taken.
_BETWEEN = (" ", ";", "|", "\t")
_CARD_LINES = ("label_rule", "level", "icd", "origin")
#: What formats that name a dataset call patients of each kind; only those that are nobody are called synthetic.
NAMES = {
    Kind.SYNTHETIC: "SYNTHETIC patients",
    Kind.SIMULATED: "SYNTHETIC patients",
    Kind.REAL: "Source data without ids and dates",
    Kind.UNKNOWN: "Patients of unknown origin",
}


@dataclass(frozen=True)
class Codebook:
    """The vocabulary, attributes, labels and calendar of an exported cohort."""

    vocabulary: Vocabulary
    attributes: dict[str, tuple[str, ...]]
    labels: tuple[str, ...]
    has_days: bool
    #: Lines of the cohort's card that stay true of the export.
    card: dict[str, Any]

    @classmethod
    def of(cls, cohort: Cohort) -> Codebook:
        """The codebook of a cohort.

        >>> Codebook.of(Cohort.of([[["A"]]])).has_days
        False
        """
        attributes = {name: attribute.categories for name, attribute in sorted(cohort.attributes.items())}
        kept = {key: value for key, value in cohort.card.items() if key in _CARD_LINES}
        return cls(cohort.vocabulary, attributes, cohort.label_names, cohort.days is not None, kept)

    @classmethod
    def read(cls, file: Path) -> Codebook:
        """The codebook in a file; one that is not as written is an `InputError`."""
        content = read_json(file)
        try:
            Origin.from_card(content["card"])
            if content["format"] != FORMAT:
                raise ValueError
            return cls(
                Vocabulary(tuple(Code(*(str(part) for part in row)) for row in content["vocabulary"])),
                {str(name): tuple(map(str, values)) for name, values in content["attributes"].items()},
                tuple(str(name) for name in content["labels"]),
                bool(content["days"]),
                dict(content["card"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(
                "not a codebook of this version",
                path=file,
                expected=f"format {FORMAT}",
                remedy="export the cohort again, or delete the file to read the data as anybody's",
            ) from None

    def write(self, folder: Path) -> None:
        """Put the codebook into a folder."""
        content = {
            "format": FORMAT,
            "vocabulary": [list(code.in_use) for code in self.vocabulary.codes],
            "attributes": {name: list(values) for name, values in self.attributes.items()},
            "labels": list(self.labels),
            "days": self.has_days,
            "card": self.card,
        }
        write_json(folder / FILE, content)

    @property
    def columns(self) -> list[str]:
        """The columns of `people` in which `restored` looks for attributes and labels."""
        attributes = [f"attribute_{number}" for number in range(len(self.attributes))]
        return attributes + [f"label_{number}" for number in range(len(self.labels))]

    def restored(self, cohort: Cohort, options: ReadOptions) -> Cohort:
        """What was exported, from what was read back with this book's `columns` as attributes."""
        strange = [code for code in cohort.vocabulary.codes if code.token not in self.vocabulary.index]
        vocabulary = Vocabulary.of([*self.vocabulary.codes, *strange]) if strange else self.vocabulary
        bare = tuple(code._replace(description="") for code in cohort.vocabulary.codes)
        placed = replace(cohort, vocabulary=Vocabulary(bare)).on(vocabulary)
        attributes = {
            name: Attribute(_numbers(cohort.attributes[f"attribute_{number}"], values), values)
            for number, (name, values) in enumerate(self.attributes.items())
        }
        labels = [_numbers(cohort.attributes[f"label_{number}"], ("1",)) for number in range(len(self.labels))]
        # What reads an export back is a source of records, so that only the book can still tell the origin.
        card = {**cohort.card, **Origin().as_card(), **self.card}
        whole = replace(
            placed,
            days=cohort.days if self.has_days else None,
            attributes=attributes,
            labels=(np.stack(labels, axis=1) == 0).astype(np.uint8) if labels else None,
            label_names=self.labels,
            card={**card, "read back": f"an export of this project, completed by its {FILE}"},
        )
        if options.icd != "apart":
            whole = code_systems.map_revision(whole, ICD9 if options.icd == "map9" else ICD10)
        return code_systems.group_codes(whole, options.level)


def kind_named(names: Collection[str]) -> Kind:
    """The kind of patients that all names of a dataset say; whatever an export of ours does not say is real.

    >>> kind_named(["SYNTHETIC patients"]).value, kind_named(["SYNTHETIC patients", "ward 7"]).value
    ('synthetic', 'real')
    """
    kinds = {next((kind for kind, known in NAMES.items() if name == known), Kind.REAL) for name in names}
    return kinds.pop() if len(kinds) == 1 else Kind.REAL


def _numbers(attribute: Attribute, categories: Sequence[str]) -> NDArray[np.int16]:
    """The attribute's values as positions in `categories`."""
    number_of = {category.strip(): index for index, category in enumerate(categories)}
    position = np.array([*(number_of.get(name, -1) for name in attribute.categories), -1], dtype=np.int16)
    return position[attribute.values]


# ---- reading an export back -------------------------------------------------------------------------------
def separator_of(tokens: Iterable[str]) -> str:
    """What stands between the codes of a visit in a table of visits.

    >>> separator_of(["I10"]), separator_of(["Aspirin 81 mg"])
    (' ', ';')
    """
    held = "".join(tokens)
    return next((mark for mark in _BETWEEN if mark not in held), "\x1f")


def read_export(db: Database, path: Path, options: ReadOptions) -> Cohort | None:
    """The cohort in an export of this project as flat tables, completed by its codebook; None for any other table."""
    folder = path if path.is_dir() else path.parent
    found = _open_export(path, folder) if (folder / FILE).is_file() else None
    if found is None:
        return None
    rows, patients = found
    book = Codebook.read(folder / FILE)
    if rows.path.stem == WIDE:
        # A table of one row per visit has no place for numbers.
        book = replace(book, vocabulary=book.vocabulary.without_units())
    # Codes get their systems and domains from the book, so grouping and mapping have to wait for it.
    plain = replace(options, domains=("dx",), level="full", icd="apart", labels=None)
    return book.restored(assemble(db, _tables_of(db, book, rows, patients), plain, "table", path), options)


def _open_export(path: Path, folder: Path) -> tuple[Table, Table] | None:
    """The table of codes or visits and that of patients, where a path is an export or one of these tables."""
    if path.is_dir() and (path / LONG).is_dir() and (path / PATIENTS).is_dir():
        return open_table(path / LONG), open_table(path / PATIENTS)
    for ending in (".csv", ".parquet"):
        file = folder / f"{LONG}{ending}" if path.is_dir() else path
        patients = folder / f"{PATIENTS}{ending}"
        if file.is_file() and patients.is_file() and file.suffix == ending and file.stem in (LONG, WIDE):
            return open_table(file), open_table(patients)
    file = folder / WORKBOOK if path.is_dir() else path
    if file.is_file() and file.name == WORKBOOK:
        return open_table(file, sheet=LONG), open_table(file, sheet=PATIENTS)
    return None


def _tables_of(db: Database, book: Codebook, rows: Table, patients: Table) -> SourceTables:
    """What the tables of an export hold; attributes and labels as the columns of the book."""
    if len(patients.columns) != len(book.columns) + 1:
        raise InputError(
            f"{len(patients.columns)} columns",
            path=patients.path,
            row=1,
            expected=str(len(book.columns) + 1),
            remedy="export again",
        )
    wide = rows.path.stem == WIDE
    columns = {"patient": "patient_id", "visit": "visit_id", "sequence": "visit_index"}
    columns["code"] = "codes" if wide else "code"
    # A table of one row per visit has no place for numbers.
    optional = {"day": ("day",), "value": () if wide else ("value",), "unit": () if wide else ("unit",)}
    db.load("rows", rows, columns, optional=optional)
    db.load("patient_rows", patients, dict(zip(("patient", *book.columns), patients.columns, strict=True)))
    # In CSV an apostrophe keeps spreadsheets from taking a word for a formula; it is no part of the word.
    mark = "^''" if rows.files[0].suffix == ".csv" else "^$"

    def word(column: str) -> str:
        return f"regexp_replace(\"{column}\", '{mark}', '')"

    code = word("code")
    if wide:
        code = f"unnest(string_split({code}, {quoted(separator_of(book.vocabulary.tokens))}))"
    people = "".join(f', {word(column)} AS "attribute_{column}"' for column in book.columns)
    return SourceTables(
        visits="""SELECT DISTINCT patient, visit, '' AS start, '' AS "end", day, sequence, '' AS kind, '' AS discharge,
            false AS died, CAST(NULL AS DOUBLE) AS length_days FROM rows""",
        events=f"""SELECT patient, visit, '' AS time, '' AS system, {code} AS code, 'diagnosis' AS domain,
            value <> '' AS measured, value, unit FROM rows""",
        visit_rule="one value of visit_id; ordered by day, visit_index, visit_id",
        patients=f"""SELECT patient, '' AS visit, '' AS sex, '' AS birth, '' AS age, '' AS death{people}
            FROM patient_rows""",
        attributes=tuple(book.columns),
    )
