"""Every format reads back to the same cohort: codes with system and domain, visits, days, attributes, labels."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from tests.io.cohorts import cohorts, whole_cohorts

from adapcla.data import Cohort, Vocabulary
from adapcla.errors import ExistsError, InputError, UsageError
from adapcla.io import read
from adapcla.io import writers as export

#: What to read back: the source, and the file in the folder.
READERS = {"meds": ("meds", ""), "omop": ("omop", ""), "fhir": ("fhir", ""), "csv": ("table", ""), "halo": ("halo", "")}
#: OMOP asks for a year of birth; a cohort without ages then comes back whole.
BORN = export.ExportOptions(birth_year=1950)
WIDE = {**READERS, "wide": ("table", "visits.csv")}


def again(cohort: Cohort, how: str, folder: Path, **options: str) -> Cohort:
    """The cohort, written and read back."""
    export.write(cohort, folder, "csv" if how == "wide" else how, options=BORN)
    source, file = WIDE[how]
    return read(source, folder / file if file else folder, **options)


def assert_same(found: Cohort, wanted: Cohort) -> None:
    assert found.vocabulary == wanted.vocabulary
    assert list(found.patients()) == list(wanted.patients())
    assert found.label_names == wanted.label_names
    assert found.fingerprint == wanted.fingerprint


@pytest.mark.parametrize("how", list(WIDE))
def test_the_full_cohort_comes_back(tiny_full: Cohort, how: str, tmp_path: Path) -> None:
    assert_same(again(tiny_full, how, tmp_path / "out"), tiny_full)


@pytest.mark.parametrize("how", list(WIDE))
@settings(max_examples=8)
@given(cohort=cohorts())
def test_any_cohort_comes_back(how: str, cohort: Cohort) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_same(again(cohort, how, Path(folder) / "out"), cohort)


def as_held(cohort: Cohort, how: str) -> Cohort:
    """What a format can hold: pickles and the table of one row per visit have no place for numbers."""
    return cohort.without_values() if how in ("halo", "wide") else cohort


@pytest.mark.parametrize("how", list(WIDE))
def test_the_whole_record_comes_back(whole: Cohort, how: str, tmp_path: Path) -> None:
    assert_same(again(whole, how, tmp_path / "out"), as_held(whole, how))


@pytest.mark.parametrize("how", list(WIDE))
@settings(max_examples=5)
@given(cohort=whole_cohorts())
def test_any_whole_record_comes_back(how: str, cohort: Cohort) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_same(again(cohort, how, Path(folder) / "out"), as_held(cohort, how))


@pytest.mark.parametrize("how", ["meds", "omop", "fhir"])
def test_without_its_codebook_the_whole_record_is_read_as_anybodys(whole: Cohort, how: str, tmp_path: Path) -> None:
    """Kinds, endings, lengths, labs with their units and the death are there; choice groups of drugs are not known."""
    folder = export.write(whole, tmp_path / "out", how, options=BORN)
    (folder / "adapcla.json").unlink()
    found = read(how, folder, domains=("dx", "px", "rx", "lab", "stay"))
    assert found.vocabulary.groups == ("end", "kind") and found.n_visits == whole.n_visits
    for token in ("LAB/50931", "STAY/days"):
        assert found.vocabulary.codes[found.vocabulary.index[token]].unit == ("d" if token == "STAY/days" else "mg/dL")
    held = [
        {token for token in visit if token.startswith(("KIND", "END", "LAB"))} for p in found.patients() for visit in p
    ]
    first, second, third, last = held
    assert first == {"KIND/elective", "END/home", "LAB/50931"}
    assert (second, third) == ({"KIND/home"}, {"END/died"})
    assert last == {"KIND/inpatient", "END/facility"}
    place = np.flatnonzero(found.codes == found.vocabulary.index["STAY/days"])[0]
    assert found.values is not None and found.values[place] == 3.25


@pytest.mark.parametrize("how", list(READERS))
def test_blocks_of_patients_give_the_same_whole_record(
    how: str, whole: Cohort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of one patient: the first has a number in every table, the last has none."""
    monkeypatch.setattr("adapcla.io.writers.rows.blocks.__defaults__", (1,))
    several = whole.subset([1, 0, 1])
    assert_same(again(several, how, tmp_path / "out"), as_held(several, how))


@pytest.mark.parametrize("how", list(READERS))
def test_blocks_of_patients_give_the_same_as_one(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of three patients: ids, row numbers and dates must go on from block to block."""
    monkeypatch.setattr("adapcla.io.writers.rows.blocks.__defaults__", (3,))
    rng = np.random.default_rng(5)
    codes = np.array(["A", "B", "C", "D", "E"])
    patients = [[codes[rng.random(5) < 0.5].tolist() or ["A"] for _ in range(int(n))] for n in rng.integers(1, 14, 20)]
    cohort = Cohort.of(patients)
    assert_same(again(cohort, how, tmp_path / "out"), cohort)


@pytest.mark.parametrize("how", list(READERS))
def test_an_export_is_whole_or_absent_and_never_overwrites_unasked(how: str, tiny: Cohort, tmp_path: Path) -> None:
    export.write(tiny, tmp_path / "out", how, options=BORN)
    with pytest.raises(ExistsError):
        export.write(tiny, tmp_path / "out", how, options=BORN)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    export.write(tiny, tmp_path / "out", how, overwrite=True, options=BORN)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("how", ["meds", "omop", "fhir"])
def test_days_beyond_the_calendar_are_refused_and_nothing_is_left(how: str, tmp_path: Path) -> None:
    cohort = Cohort.of([[["A"], ["B"]]], days=np.array([0, 4_000_000], dtype=np.int32))
    with pytest.raises(InputError, match="4,000,000 days"):
        export.write(cohort, tmp_path / "out", how, options=BORN)
    assert list(tmp_path.iterdir()) == []
    assert_same(again(cohort, "csv", tmp_path / "csv"), cohort)


def test_levels_and_labels_are_asked_for_at_reading_back(tmp_path: Path) -> None:
    """The systems come from the codebook, so 250.00 and 250.01 of ICD9CM fall together only after it was read."""
    from adapcla.data import Code

    listed = [Code.of("25000", "ICD9CM"), Code.of("25001", "ICD9CM"), Code.of("X", "LOCAL")]
    cohort = Cohort.of([[["ICD9CM/25000", "ICD9CM/25001", "LOCAL/X"]], [["LOCAL/X"]]], listed)
    for how in READERS:
        found = again(cohort, how, tmp_path / how, level="category", labels="phenotypes")
        assert list(found.patients()) == [[["ICD9CM/250", "LOCAL/X"]], [["LOCAL/X"]]]
        assert len(found.label_names) == 25


def test_an_unknown_format_and_an_empty_cohort_are_refused(tiny: Cohort, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="meds, omop"):
        export.write(tiny, tmp_path / "out", "xlsx")
    empty = Cohort(Vocabulary.of(["A"]), np.zeros(0, np.int32), np.zeros(1, np.int64), np.zeros(1, np.int64))
    with pytest.raises(InputError, match="without patients"):
        export.write(empty, tmp_path / "out", "csv")
    assert not (tmp_path / "out").exists()


def test_an_export_holds_no_word_anonymous(tiny_full: Cohort, tmp_path: Path) -> None:
    for how in READERS:
        export.write(tiny_full, tmp_path / how, how, options=BORN)
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"anonymous" not in path.read_bytes().lower()
