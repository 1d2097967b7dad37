"""What was written is read back: flat tables to the same cohort, the formats of others to the same patients."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from tests.io.cohorts import cohorts, plain_cohorts, whole_cohorts

from adapcla.data import Code, Cohort, Vocabulary
from adapcla.errors import ExistsError, InputError, UsageError
from adapcla.io import read
from adapcla.io import writers as export

#: OMOP asks for a year of birth; a cohort without ages then comes back whole.
BORN = export.WriteOptions(birth_year=1950)
#: Name of a case → format, and the file to read in the folder.
FLAT = {
    "csv": ("csv", ""),
    "csv, wide": ("csv", "visits.csv"),
    "parquet": ("parquet", ""),
    "parquet, wide": ("parquet", "visits.parquet"),
}
OTHERS = ("meds", "omop", "fhir")


def read_flat(cohort: Cohort, how: str, folder: Path, **options: str) -> Cohort:
    to, file = FLAT[how]
    export.write(cohort, folder, to)
    return read("table", folder / file if file else folder, **options)


def as_held(cohort: Cohort, how: str) -> Cohort:
    """The table of one row per visit has no place for numbers."""
    return cohort.without_values() if "wide" in how else cohort


def assert_same(found: Cohort, wanted: Cohort) -> None:
    assert found.vocabulary == wanted.vocabulary
    assert list(found.patients()) == list(wanted.patients())
    assert found.label_names == wanted.label_names
    assert found.fingerprint == wanted.fingerprint


@pytest.mark.parametrize("how", FLAT)
def test_the_full_cohort_and_the_whole_record_come_back(
    tiny_full: Cohort, whole: Cohort, how: str, tmp_path: Path
) -> None:
    assert_same(read_flat(tiny_full, how, tmp_path / "full"), tiny_full)
    assert_same(read_flat(whole, how, tmp_path / "whole"), as_held(whole, how))


def test_a_workbook_comes_back(tiny_full: Cohort, whole: Cohort, tmp_path: Path) -> None:
    for name, cohort in (("full", tiny_full), ("whole", whole)):
        folder = export.write(cohort, tmp_path / name, "xlsx")
        assert_same(read("table", folder), cohort)
        assert_same(read("table", folder / "cohort.xlsx"), cohort)


@pytest.mark.parametrize("how", FLAT)
@settings(max_examples=8)
@given(cohort=cohorts())
def test_any_cohort_comes_back(how: str, cohort: Cohort) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_same(read_flat(cohort, how, Path(folder) / "out"), cohort)


@pytest.mark.parametrize("how", ["csv", "parquet"])
@settings(max_examples=5)
@given(cohort=whole_cohorts())
def test_any_whole_record_comes_back(how: str, cohort: Cohort) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_same(read_flat(cohort, how, Path(folder) / "out"), cohort)


def contents(cohort: Cohort) -> tuple[object, ...]:
    """Patients, days, domains, units and what is known of people, whatever else a format adds."""
    held = [[[token.replace(".", "") for token in visit] for visit in patient] for patient in cohort.patients()]
    words = {}
    for name in ("sex", "age_band"):
        values, categories = cohort.attributes[name]
        words[name] = [categories[value] if value >= 0 else "" for value in values]
    used = [cohort.vocabulary.codes[code] for code in np.unique(cohort.codes)]
    domains = {code.token.replace(".", ""): (code.domain, code.unit) for code in used}
    return held, None if cohort.days is None else cohort.days.tolist(), domains, words


@pytest.mark.parametrize("to", OTHERS)
@settings(max_examples=5)
@given(cohort=plain_cohorts())
def test_formats_of_others_hold_codes_days_values_stays_sex_and_age(to: str, cohort: Cohort) -> None:
    with tempfile.TemporaryDirectory() as folder:
        export.write(cohort, Path(folder) / "out", to)
        found = read(to, Path(folder) / "out", domains=("dx", "px", "rx", "lab", "stay"))
    assert contents(found) == contents(cohort)
    assert found.values is not None and cohort.values is not None
    np.testing.assert_allclose(found.values, cohort.values, rtol=1e-6)


@pytest.mark.parametrize("to", export.FORMATS)
def test_an_export_is_whole_or_absent_and_never_overwrites_unasked(to: str, tiny: Cohort, tmp_path: Path) -> None:
    export.write(tiny, tmp_path / "out", to, options=BORN)
    with pytest.raises(ExistsError):
        export.write(tiny, tmp_path / "out", to, options=BORN)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    export.write(tiny, tmp_path / "out", to, overwrite=True, options=BORN)
    after = {path.name: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    # A workbook holds the time at which it was made.
    assert after.keys() == before.keys() and (to == "xlsx" or after == before)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("to", OTHERS)
def test_days_beyond_the_calendar_are_refused_and_nothing_is_left(to: str, tmp_path: Path) -> None:
    cohort = Cohort.of([[["A"], ["B"]]], days=np.array([0, 4_000_000], dtype=np.int32))
    with pytest.raises(InputError, match="4,000,000 days"):
        export.write(cohort, tmp_path / "out", to, options=BORN)
    assert list(tmp_path.iterdir()) == []
    assert_same(read_flat(cohort, "csv", tmp_path / "csv"), cohort)


@pytest.mark.parametrize("to", OTHERS)
def test_labels_that_a_format_cannot_hold_are_said(
    to: str, tiny_full: Cohort, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export.write(tiny_full, tmp_path / "out", to, options=BORN)
    assert f"{to} has no place for labels" in capsys.readouterr().err


def test_levels_and_labels_are_asked_for_at_reading_back(tmp_path: Path) -> None:
    """250.00 and 250.01 of ICD9CM fall together once the systems of the codes are known."""
    listed = [Code.of("25000", "ICD9CM"), Code.of("25001", "ICD9CM"), Code.of("X", "LOCAL")]
    cohort = Cohort.of([[["ICD9CM/25000", "ICD9CM/25001", "LOCAL/X"]], [["LOCAL/X"]]], listed)
    for how in FLAT:
        found = read_flat(cohort, how, tmp_path / how.replace(", ", "-"), level="category", labels="phenotypes")
        assert list(found.patients()) == [[["ICD9CM/250", "LOCAL/X"]], [["LOCAL/X"]]]
        assert len(found.label_names) == 25


def test_an_unknown_format_and_an_empty_cohort_are_refused(tiny: Cohort, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="meds, omop"):
        export.write(tiny, tmp_path / "out", "halo")
    empty = Cohort(Vocabulary.of(["A"]), np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(1, np.int64))
    with pytest.raises(InputError, match="without patients"):
        export.write(empty, tmp_path / "out", "csv")
    assert not (tmp_path / "out").exists()


def test_an_export_holds_no_word_anonymous(tiny_full: Cohort, tmp_path: Path) -> None:
    for to in export.FORMATS:
        export.write(tiny_full, tmp_path / to, to, options=BORN)
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"anonymous" not in path.read_bytes().lower()
