"""What judges are given: cohorts as flat tables, MEDS or OMOP folders, and a task that both cohorts can be asked."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adapcla.data import Cohort, storage
from adapcla.data.ragged import segment_sums
from adapcla.errors import InputError
from adapcla.evaluation.course import Watched
from adapcla.files import sha256_of, write_json
from adapcla.io import read
from adapcla.io import writers as export
from adapcla.io.options import WriteOptions
from adapcla.judges.table import Form

#: Codes that have a column of their own in flat tables.
N_CODES = 30
#: Year of birth of patients whose age is not known, which OMOP demands.
_BIRTH_YEAR = 1950
#: Exports of a release, and the source that reads each back.
_READ_BACK = {"meds": "meds", "omop": "omop", "csv": "table", "fhir": "fhir"}
#: The files that scripts read.
COLUMNS, TASK, SUBJECT = "columns.json", "task.json", "subject"


@dataclass(frozen=True, eq=False)
class Trial:
    """One question to a judge: the patients it is about, and the real ones it may compare them with."""

    subject: Cohort
    train: Cohort
    test: Cohort

    def write(self, folder: Path, form: Form, extras: Mapping[str, str]) -> None:
        """Write the files of one form; `extras` are what the user gave, such as a path."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / TASK, {**extras, **task_of(self.train)})
        if form in ("table", "croissant"):
            self._write_tables(folder)
        else:
            options = WriteOptions(visit_type="inpatient", birth_year=_BIRTH_YEAR if form == "omop" else None)
            export.write(self.subject, folder / SUBJECT, form, options=options)
        if form == "croissant":
            write_json(folder / "croissant.json", croissant(folder / f"{SUBJECT}.csv"))

    def _write_tables(self, folder: Path) -> None:
        """Three tables with the same columns, and what kind each column is of."""
        watched = np.argsort(-self.train.patient_counts, kind="stable")[:N_CODES]
        codes = [self.train.vocabulary.tokens[code] for code in watched if self.train.patient_counts[code] > 0]
        names = [name for name in self.train.attributes if name in self.subject.attributes]
        days = self.train.days is not None and self.subject.days is not None
        for name, cohort in ((SUBJECT, self.subject), ("train", self.train), ("test", self.test)):
            columns = flat(cohort, codes, names, days)
            with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(columns)
                writer.writerows(zip(*columns.values(), strict=True))
        kinds = {name: "number" if isinstance(values[0], int) else "category" for name, values in columns.items()}
        write_json(folder / COLUMNS, kinds)


def subject_in(folder: Path) -> Cohort:
    """The patients of a cohort folder, or of a release: the first of its exports that reads back to the same cohort."""
    if (folder / storage.CARD).is_file():
        return Cohort.open(folder)
    for name, source in _READ_BACK.items():
        if (folder / name).is_dir():
            return read(source, folder / name)
    raise InputError(
        "neither a cohort nor a release",
        path=folder,
        expected=f"{storage.CARD}, or one of the folders {', '.join(_READ_BACK)}",
        remedy="name the folder that `sample` or `synthesize` wrote",
    )


def flat(cohort: Cohort, codes: list[str], attributes: list[str], days: bool) -> dict[str, list[Any]]:
    """One value per patient and column: sizes, days, attributes, and whether the patient ever had each code.

    >>> flat(Cohort.of([[["A", "B"], ["A"]]]), ["B", "Z"], [], days=False)
    {'visits': [2], 'codes': [3], 'largest_visit': [2], 'first_visit': [2], 'different_codes': [2],
     'code_B': ['yes'], 'code_Z': ['no']}
    """
    starts, sizes = np.asarray(cohort.patient_starts), cohort.codes_per_visit
    held = cohort.patient_matrix() > 0
    columns = {
        "visits": cohort.visits_per_patient,
        "codes": segment_sums(sizes, starts),
        "largest_visit": np.maximum.reduceat(sizes, starts[:-1]),
        "first_visit": sizes[cohort.first_visits],
        "different_codes": np.asarray(held.sum(axis=1)).ravel(),
    }
    if days and cohort.days is not None:
        columns["days"] = np.asarray(cohort.days)[cohort.last_visits]
    out: dict[str, list[Any]] = {name: [int(value) for value in values] for name, values in columns.items()}
    for name in attributes:
        values, categories = cohort.attributes[name]
        out[name] = [categories[value] if value >= 0 else "unknown" for value in values]
    for code, place in zip(codes, cohort.vocabulary.positions(codes), strict=True):
        has = held[:, [place]].toarray().ravel() if place >= 0 else np.zeros(cohort.n_patients, dtype=bool)
        out[f"code_{code.replace('/', '_')}"] = ["yes" if one else "no" for one in has]
    return out


def task_of(train: Cohort) -> dict[str, str]:
    """The index code that most training patients hold, and the outcome that most of them get later.

    >>> task_of(Cohort.of([[["A"], ["B"]]]))
    {'index': 'A', 'outcome': 'B'}
    """
    watched, tokens = Watched.of(train), train.vocabulary.tokens
    pair = (*watched.index[:1], *watched.outcomes[:1])
    return dict(zip(("index", "outcome"), (tokens[code] for code in pair), strict=False))


def croissant(table: Path) -> dict[str, Any]:
    """The description of a CSV file in Croissant 1.0 (MLCommons), every column as text."""
    with table.open(encoding="utf-8", newline="") as file:
        names = next(csv.reader(file))
    own = (
        "citeAs column extract field fileObject fileProperty fileSet format includes isLiveDataset jsonPath key md5 "
        "parentField path recordSet references regex repeated replace separator source subField transform"
    )
    context: dict[str, Any] = {name: f"cr:{name}" for name in own.split()}
    context |= {"data": {"@id": "cr:data", "@type": "@json"}, "dataType": {"@id": "cr:dataType", "@type": "@vocab"}}
    context |= {"examples": {"@id": "cr:examples", "@type": "@json"}, "conformsTo": "dct:conformsTo", "@language": "en"}
    context |= {"@vocab": "https://schema.org/", "sc": "https://schema.org/", "dct": "http://purl.org/dc/terms/"}
    context |= {"cr": "http://mlcommons.org/croissant/", "rai": "http://mlcommons.org/croissant/RAI/"}
    fields = [
        {
            "@type": "cr:Field", "@id": f"patients/{name}", "name": name, "dataType": "sc:Text",
            "source": {"fileObject": {"@id": "table"}, "extract": {"column": name}},
        }
        for name in names
    ]  # fmt: skip
    return {
        "@context": context,
        "@type": "sc:Dataset",
        "name": "patients",
        "description": "One row per patient: sizes of the record, attributes, and codes that were ever held.",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "url": "https://example.org/patients",
        "license": "https://creativecommons.org/publicdomain/zero/1.0/",
        "datePublished": "2000-01-01",
        "version": "1.0.0",
        "citeAs": "none",
        "distribution": [
            {
                "@type": "cr:FileObject", "@id": "table", "name": "table", "contentUrl": table.name,
                "encodingFormat": "text/csv", "sha256": sha256_of(table),
            }
        ],
        "recordSet": [{"@type": "cr:RecordSet", "@id": "patients", "name": "patients", "field": fields}],
    }  # fmt: skip
