"""What a foreign format cannot say about a cohort, in a small file beside an export, so that it reads back the same.

`adapcla.json` holds the vocabulary, the categories of the attributes, the names of the labels and whether the dates
mean anything. It speaks of codes only; the patients are in the format's own files.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Attribute, Code, Cohort, Kind, Origin, Vocabulary, code_systems
from adapcla.data.code_systems import ICD9, ICD10
from adapcla.errors import InputError
from adapcla.files import read_json, write_json
from adapcla.io.assembly import assemble
from adapcla.io.contract import Options
from adapcla.io.tables import open_table
from adapcla.io.workbench import Workbench

FILE = "adapcla.json"
FORMAT = 1
#: The tables of a CSV or Parquet export: one row per code, one row per visit, one row per patient.
LONG, WIDE, PATIENTS = "long", "visits", "patients"
_CARD_LINES = ("label_rule", "level", "icd", "origin")
#: What formats that name a dataset call patients of each kind; only those that are nobody are called synthetic.
NAMES = {
    Kind.SYNTHETIC: "SYNTHETIC patients",
    Kind.PLANTED: "SYNTHETIC patients",
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
    def beside(cls, path: Path) -> Codebook | None:
        """The codebook in a folder, or beside a file; None where there is none."""
        file = (path if path.is_dir() else path.parent) / FILE
        return cls.read(file) if file.is_file() else None

    @classmethod
    def of_table(cls, path: Path, options: Options) -> tuple[Codebook | None, Path, Options]:
        """For a table of a CSV export its codebook, and how to read it; for any other table, things as they are."""
        folder = path if path.is_dir() else path.parent
        ending = ".parquet" if (folder / f"{LONG}.parquet").is_file() else ".csv"
        file = folder / f"{LONG}{ending}" if path.is_dir() else path
        own = file.stem in (LONG, WIDE) and file.suffix == ending and (folder / f"{PATIENTS}{ending}").is_file()
        if not own or not (folder / FILE).is_file():
            return None, path, options
        book, plain = cls.read(folder / FILE), replace(options, domains=("dx",), attributes=())
        if file.stem == LONG:
            return book, file, replace(plain, separator="")
        # A table of one row per visit has no place for numbers.
        coded = replace(book, vocabulary=book.vocabulary.without_units())
        return coded, file, replace(plain, separator=" ", value=None)

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

    def fact_keys(self) -> list[tuple[str, str, str]]:
        """Every fact about a patient as (text used in the files, column of `people`, value there).

        >>> from adapcla.data import Attribute
        >>> sex = {"sex": Attribute(np.array([1], dtype=np.int16), ("F", "M"))}
        >>> Codebook.of(Cohort.of([[["A"]]], attributes=sex)).fact_keys()
        [('ATTRIBUTE//sex//F', 'attribute_0', 'F'), ('ATTRIBUTE//sex//M', 'attribute_0', 'M')]
        """
        attributes = [
            (f"ATTRIBUTE//{name}//{value}", f"attribute_{number}", value)
            for number, (name, values) in enumerate(self.attributes.items())
            for value in values
        ]
        return attributes + [(f"LABEL//{name}", f"label_{number}", "1") for number, name in enumerate(self.labels)]

    @property
    def columns(self) -> list[str]:
        """The columns of `people` in which `restored` looks for attributes and labels."""
        attributes = [f"attribute_{number}" for number in range(len(self.attributes))]
        return attributes + [f"label_{number}" for number in range(len(self.labels))]

    def make_people(self, bench: Workbench, facts: str) -> None:
        """Make the view `people` from a query of (patient, key)."""
        import pyarrow as pa

        listed = self.fact_keys()
        names = ("key", "name", "value")
        batch = pa.record_batch(
            {name: pa.array([row[i] for row in listed], pa.string()) for i, name in enumerate(names)}
        )
        bench.add("fact_keys", [batch], names)
        pivot = ", ".join(f"coalesce(max(k.value) FILTER (k.name = '{c}'), '') AS \"{c}\"" for c in self.columns)
        bench.run(
            f"""CREATE VIEW people AS SELECT f.patient, '' AS visit{", " if pivot else ""}{pivot}
                FROM ({facts}) f JOIN fact_keys k ON k.key = f.key GROUP BY f.patient"""
        )

    def load_people(self, bench: Workbench, path: Path) -> None:
        """Make `people` from the table of patients of a CSV export: id, attributes, labels, in this order."""
        table = open_table(path)
        if len(table.columns) != len(self.columns) + 1:
            raise InputError(
                f"{len(table.columns)} columns",
                path=path,
                row=1,
                expected=str(len(self.columns) + 1),
                remedy="export again",
            )
        bench.load("patient_rows", table, dict(zip(("patient", *self.columns), table.columns, strict=True)))
        # In CSV an apostrophe keeps spreadsheets from taking a word for a formula; it is no part of the word.
        mark = "^''" if path.suffix == ".csv" else "^$"
        words = "".join(f""", regexp_replace("{c}", '{mark}', '') AS "{c}" """ for c in self.columns)
        bench.run(f"CREATE VIEW people AS SELECT patient, '' AS visit{words} FROM patient_rows")

    def restored(self, cohort: Cohort, options: Options) -> Cohort:
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


def assembled(bench: Workbench, book: Codebook | None, *, options: Options, **rest: Any) -> Cohort:
    """The cohort in the workbench: as anybody's data, or completed by the codebook of an export."""
    if book is None:
        return assemble(bench, options=options, **rest)
    # Codes get their systems and domains from the book, so grouping and mapping have to wait for it.
    plain = replace(options, level="full", icd="apart")
    numbers = bool(book.vocabulary.numbers.any())
    return book.restored(
        assemble(bench, options=plain, **{**rest, "attributes": book.columns, "results": numbers, "courses": False}),
        options,
    )
