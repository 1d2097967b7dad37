"""The file beside an export: what it restores, and what happens when it is damaged or the data were edited."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adapcla.data import Attribute, Code, Cohort, Kind, Origin
from adapcla.errors import InputError
from adapcla.io import read
from adapcla.io import writers as export
from adapcla.io.codebook import FILE, Codebook
from adapcla.io.writers import WriteOptions

#: OMOP asks for a year of birth.
BORN = WriteOptions(birth_year=1950)


def test_it_speaks_of_codes_only(tiny_full: Cohort, tmp_path: Path) -> None:
    """Vocabulary, categories, names of labels, whether days mean anything: nothing of a patient."""
    Codebook.of(tiny_full).write(tmp_path)
    content = json.loads((tmp_path / FILE).read_text(encoding="utf-8"))
    assert sorted(content) == ["attributes", "card", "days", "format", "labels", "vocabulary"]
    assert content["attributes"] == {"sex": ["F", "M"]}
    assert content["labels"] == ["first", "second"]
    assert content["days"] is True
    assert Codebook.read(tmp_path / FILE).vocabulary == tiny_full.vocabulary


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"format": 2}', '{"format": 1, "vocabulary": [["a"]]}', '{"format": 1, "vocabulary": 7}'],
)
def test_a_damaged_book_is_an_error_with_a_way_out(tiny: Cohort, tmp_path: Path, content: str) -> None:
    export.write(tiny, tmp_path / "c", "csv")
    (tmp_path / "c" / FILE).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=FILE):
        read("table", tmp_path / "c")


def test_codes_and_words_that_the_book_does_not_know(tmp_path: Path) -> None:
    """A code added by hand joins the vocabulary; a word that is no category is unknown."""
    sex = {"sex": Attribute(np.array([0, 1], dtype=np.int16), ("F", "M"))}
    export.write(
        Cohort.of([[["B"]], [["B"]]], [Code.of("B", description="Beta")], attributes=sex), tmp_path / "c", "csv"
    )
    long, patients = tmp_path / "c" / "long.csv", tmp_path / "c" / "patients.csv"
    long.write_text(long.read_text().replace("2,1,B", "2,1,A"))
    patients.write_text(patients.read_text().replace(",M", ",X"))
    cohort = read("table", tmp_path / "c")
    assert list(cohort.patients()) == [[["B"]], [["A"]]]
    assert cohort.vocabulary.codes[1].description == "Beta"
    assert cohort.attributes["sex"].values.tolist() == [0, -1]


def test_a_table_of_patients_with_other_columns_is_an_error(tiny_full: Cohort, tmp_path: Path) -> None:
    export.write(tiny_full, tmp_path / "c", "csv")
    (tmp_path / "c" / "patients.csv").write_text("patient_id,sex\n1,F\n")
    with pytest.raises(InputError, match=r"patients\.csv"):
        read("table", tmp_path / "c")


def test_any_other_table_beside_a_book_is_read_as_asked(tiny: Cohort, tmp_path: Path) -> None:
    export.write(tiny, tmp_path / "c", "csv")
    (tmp_path / "c" / "mine.csv").write_text("patient_id,visit_id,code\n1,1,ZZ\n")
    assert read("table", tmp_path / "c" / "mine.csv").vocabulary.tokens == ("ZZ",)


@pytest.mark.parametrize("to", ["csv", "parquet"])
@pytest.mark.parametrize("kind", Kind)
def test_an_export_reads_back_with_the_origin_that_it_had(kind: Kind, to: str, tiny: Cohort, tmp_path: Path) -> None:
    """The source of the format would make them records; a part stays the part that it was."""
    known = replace(tiny, card=Origin(kind).as_card()).split()
    part = replace(tiny, card=known.test.card)
    found = read("table", export.write(part, tmp_path / "e", to))
    assert found.card["source"] == "table"
    assert found.origin == part.origin and found.origin.kind == kind


@pytest.mark.parametrize("to", ["omop", "fhir", "meds"])
@pytest.mark.parametrize("kind", Kind)
def test_a_format_that_tells_it_is_believed(kind: Kind, to: str, tmp_path: Path) -> None:
    coded = Cohort.of([[["ICD10CM/I10"]]], [Code.of("ICD10CM/I10")], card=Origin(kind).as_card())
    export.write(coded, tmp_path / "e", to, options=BORN)
    expected = Kind.SYNTHETIC if kind == Kind.SIMULATED else kind
    assert read(to, tmp_path / "e").origin == Origin(expected)


def test_a_book_without_an_origin_says_nothing(tiny: Cohort, tmp_path: Path) -> None:
    export.write(replace(tiny, card={"source": "omop", "synthetic": True}), tmp_path / "e", "csv")
    assert read("table", tmp_path / "e").origin == Origin(Kind.UNKNOWN)
