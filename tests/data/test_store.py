"""Folders on disk: the same bytes for the same patients, whole or absent, and every damage named."""

from __future__ import annotations

import errno
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapcla import files
from adapcla.data import Attribute, Cohort, storage
from adapcla.errors import ExistsError, InputError
from adapcla.seeds import random_stream

PINNED = {"codes.npy", "visit_starts.npy", "patient_starts.npy", "vocabulary.parquet", "card.json", "MANIFEST.json"}


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def drawn(seed: int, n_patients: int = 5) -> Cohort:
    """A small random cohort with everything a cohort can carry."""
    draw = random_stream(seed, "store test")
    patients = [
        [draw.choice(list("ABCDEFGH"), size=draw.integers(1, 5), replace=False) for _ in range(draw.integers(1, 4))]
        for _ in range(n_patients)
    ]
    days = np.concatenate([np.arange(len(patient)) * 7 for patient in patients])
    return Cohort.of(
        [[[str(code) for code in visit] for visit in patient] for patient in patients],
        "ABCDEFGH",
        days=days.astype(np.int32),
        labels=draw.integers(0, 2, size=(n_patients, 3)).astype(np.uint8),
        label_names=("x", "y", "z"),
        attributes={"sex": Attribute(draw.integers(-1, 2, size=n_patients).astype(np.int16), ("F", "M"))},
        card={"source": "drawn", "dropped": {}},
    )


# ---- round trip -------------------------------------------------------------------------------------------
@settings(max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_what_is_saved_is_what_is_opened(tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("trip")
    cohort = drawn(seed)
    opened = Cohort.open(cohort.save(folder / "one"))
    assert opened.fingerprint == cohort.fingerprint
    assert opened.vocabulary == cohort.vocabulary
    assert opened.attributes["sex"].categories == ("F", "M")
    assert opened.label_names == cohort.label_names
    again = opened.save(folder / "two")
    assert content(folder / "one") == content(again)


def test_a_bare_cohort_writes_the_pinned_files_and_no_more(tiny, tmp_path):
    assert {path.name for path in tiny.save(tmp_path / "c").iterdir()} == PINNED


def test_descriptions_systems_and_domains_survive(tiny_full, tmp_path):
    assert Cohort.open(tiny_full.save(tmp_path / "c")).vocabulary.codes == tiny_full.vocabulary.codes


def test_same_patients_same_bytes_whatever_the_order_of_codes(tmp_path):
    one = Cohort.of([[["B", "A"], ["C"]]]).save(tmp_path / "one")
    two = Cohort.of([[["A", "B", "A"], ["C"]]]).save(tmp_path / "two")
    assert content(one) == content(two)


def test_the_card_counts_what_is_there(tiny_full, tmp_path):
    card = json.loads((tiny_full.subset([0, 2]).save(tmp_path / "c") / "card.json").read_text())
    assert (card["patients"], card["visits"], card["codes"], card["entries"]) == (2, 4, 4, 7)
    assert card["format"] == files.FORMAT_VERSION
    assert card["dropped"] == {"empty visits": 2}


def test_a_cohort_without_patients_survives(tmp_path):
    assert Cohort.open(Cohort.of([], ["A"]).save(tmp_path / "c")).n_patients == 0


def test_large_arrays_are_mapped_not_read(tmp_path):
    opened = Cohort.open(Cohort.of([[["A", "B"]] * 2] * 1000).save(tmp_path / "c"))
    assert isinstance(opened.codes, np.memmap)
    assert not opened.codes.flags.writeable


# ---- damage -----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return drawn(3).save(tmp_path_factory.mktemp("damage") / "cohort")


@pytest.mark.parametrize("name", sorted(PINNED | {"days.npy", "labels.npy", "attribute_sex.npy"}))
def test_any_flipped_bit_is_found(folder, name):
    """One bit of every byte of the manifest, and 200 bits spread over each other file, one at a time."""
    path = folder / name
    whole = path.read_bytes()
    spread = sorted({i * 8 * len(whole) // 200 for i in range(200)})
    bits = [8 * place + place % 8 for place in range(len(whole))] if name == "MANIFEST.json" else spread
    try:
        for bit in bits:
            broken = bytearray(whole)
            broken[bit // 8] ^= 1 << (bit % 8)
            path.write_bytes(broken)
            with pytest.raises(InputError) as caught:
                storage.open_folder(folder)
            assert str(folder) in str(caught.value)
    finally:
        path.write_bytes(whole)
    assert Cohort.open(folder).n_patients == 5


@pytest.mark.parametrize("name", sorted(PINNED))
@pytest.mark.parametrize("damage", ["missing", "truncated", "empty", "longer", "a folder"])
def test_a_damaged_file_is_named(tiny, tmp_path, name, damage):
    path = tiny.save(tmp_path / "c") / name
    whole = path.read_bytes()
    if damage in ("missing", "a folder"):
        path.unlink()
        if damage == "a folder":
            path.mkdir()
    else:
        path.write_bytes({"truncated": whole[:-1], "empty": b"", "longer": whole + b"}"}[damage])
    if name == "MANIFEST.json" and damage == "truncated":
        # Only the last line feed is gone, which says nothing less.
        assert Cohort.open(tmp_path / "c").fingerprint == tiny.fingerprint
        return
    with pytest.raises(InputError, match=name):
        Cohort.open(tmp_path / "c")


def test_no_folder_and_a_file_instead_of_a_folder_are_named(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        Cohort.open(tmp_path / "nothing")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="no such folder"):
        Cohort.open(tmp_path / "file")


def resealed(folder: Path) -> Path:
    """The folder with a manifest that agrees with its files, as somebody who means harm would leave it."""
    files.write_manifest(folder)
    return folder


class Tripwire:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def test_opening_never_executes(tiny, tmp_path):
    folder, trace = tiny.save(tmp_path / "c"), tmp_path / "trace"
    np.save(folder / "codes.npy", np.array([Tripwire(trace)] * 8, dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"codes\.npy"):
        Cohort.open(resealed(folder))
    assert not trace.exists()


def test_an_archive_named_like_an_array_is_refused(tiny, tmp_path):
    folder = tiny.save(tmp_path / "c")
    stream = io.BytesIO()
    np.savez(stream, codes=tiny.codes)
    (folder / "codes.npy").write_bytes(stream.getvalue())
    with pytest.raises(InputError, match=r"codes\.npy"):
        Cohort.open(resealed(folder))


def test_a_header_that_promises_more_than_the_file_holds_is_refused(tiny, tmp_path):
    """A header of 10^15 numbers in a file of a few bytes must not be believed: neither allocated nor read."""
    folder = tiny.save(tmp_path / "c")
    header = b"{'descr': '<i4', 'fortran_order': False, 'shape': (1000000000000000,), }"
    (folder / "codes.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"1234")
    with pytest.raises(InputError, match=r"codes\.npy"):
        Cohort.open(resealed(folder))


def test_numbers_of_another_type_are_refused(tiny, tmp_path):
    folder = tiny.save(tmp_path / "c")
    np.save(folder / "visit_starts.npy", tiny.visit_starts.astype(np.float64))
    with pytest.raises(InputError, match=r"visit_starts\.npy.*float64"):
        Cohort.open(resealed(folder))


@pytest.mark.parametrize(
    "card",
    [
        {"attributes": ["sex"]},
        {"attributes": {"sex": ["F"]}},
        {"attributes": {"sex": 3}},
        {"labels": 3},
        {"labels": ["x"]},
        {"labels": [1]},
    ],
)
def test_a_card_that_does_not_fit_its_arrays_is_an_input_error(tiny, tmp_path, card):
    folder = tiny.save(tmp_path / "c")
    (folder / "card.json").write_bytes(files.json_bytes(card))
    with pytest.raises(InputError):
        Cohort.open(resealed(folder))


@pytest.mark.parametrize("name", ["card.json", "vocabulary.parquet", "codes.npy"])
def test_a_file_that_the_manifest_does_not_list_is_not_trusted(tiny, tmp_path, name):
    folder = tiny.save(tmp_path / "c")
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    del manifest["files"][name]
    (folder / "MANIFEST.json").write_bytes(files.json_bytes(manifest))
    with pytest.raises(InputError, match="not listed"):
        Cohort.open(folder)


@pytest.mark.parametrize("name", ["../outside.npy", "/etc/hostname", "a/../../b.npy"])
def test_a_manifest_cannot_point_outside_its_folder(tiny, tmp_path, name):
    folder = tiny.save(tmp_path / "c")
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    manifest["files"][name] = {"bytes": 1, "sha256": ""}
    (folder / "MANIFEST.json").write_bytes(files.json_bytes(manifest))
    with pytest.raises(InputError, match="not allowed"):
        Cohort.open(folder)


def test_another_format_version_is_named(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FORMAT_VERSION", 99)
    folder = tiny.save(tmp_path / "c")
    monkeypatch.undo()
    with pytest.raises(InputError, match="format 99"):
        Cohort.open(folder)


def parquet(path: Path, **columns) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("token", [None, "", "=SUM(1)", "B"])
def test_a_vocabulary_with_bad_codes_is_refused(tiny, tmp_path, token):
    """Four rows A, B, C and the bad one: a null, an empty, a formula, one out of order."""
    folder = tiny.save(tmp_path / "c")
    tokens = ["A", "B", "C", token]
    columns = {name: tokens if name in ("token", "code") else [""] * 4 for name in storage.Code._fields}
    parquet(folder / "vocabulary.parquet", **columns)
    with pytest.raises(InputError):
        Cohort.open(resealed(folder))


def test_a_vocabulary_without_a_column_says_which(tmp_path):
    with pytest.raises(InputError, match="'domain'"):
        storage.read_vocabulary(
            parquet(tmp_path / "v.parquet", **{n: ["A"] for n in storage.Code._fields if n != "domain"})
        )


def test_a_vocabulary_that_is_no_parquet_is_named(tmp_path):
    (tmp_path / "v.parquet").write_bytes(b"PAR1 but no more PAR1")
    with pytest.raises(InputError, match=r"v\.parquet.*Parquet"):
        storage.read_vocabulary(tmp_path / "v.parquet")


# ---- whole or absent --------------------------------------------------------------------------------------
def test_a_populated_folder_is_refused_unless_told(tiny, tiny_full, tmp_path):
    folder = tiny.save(tmp_path / "c")
    with pytest.raises(ExistsError, match="--overwrite"):
        tiny_full.save(folder)
    assert Cohort.open(folder).fingerprint == tiny.fingerprint
    assert Cohort.open(tiny_full.save(folder, overwrite=True)).fingerprint == tiny_full.fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_an_empty_folder_is_filled_and_parents_are_made(tiny, tmp_path):
    (tmp_path / "c").mkdir()
    assert Cohort.open(tiny.save(tmp_path / "c")).n_patients == 3
    assert Cohort.open(tiny.save(tmp_path / "a" / "b" / "c")).n_patients == 3


def test_a_file_in_the_way_is_replaced_only_when_told(tiny, tmp_path):
    (tmp_path / "c").write_text("precious")
    with pytest.raises(ExistsError):
        tiny.save(tmp_path / "c")
    assert (tmp_path / "c").read_text() == "precious"
    assert Cohort.open(tiny.save(tmp_path / "c", overwrite=True)).n_patients == 3
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


class Crash(BaseException):
    """Stands for anything that ends a process in the middle."""


STEPS = [(storage, name) for name in ("write_vocabulary", "write_manifest", "finish_folder", "json_bytes")] + [
    (files, "sync")
]


@pytest.mark.parametrize("step", STEPS, ids=[name for _, name in STEPS])
@pytest.mark.parametrize("failure", [Crash, KeyboardInterrupt, RuntimeError])
def test_a_crash_while_saving_leaves_the_old_folder_and_no_junk(tiny, tiny_full, tmp_path, monkeypatch, step, failure):
    folder = tiny.save(tmp_path / "c")
    before = content(folder)

    def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(*step, fail)
    with pytest.raises(failure):
        tiny_full.save(folder, overwrite=True)
    with pytest.raises(failure):
        tiny_full.save(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert content(folder) == before


@pytest.mark.parametrize("nth", [1, 2])
def test_a_failing_rename_leaves_the_old_folder(tiny, tiny_full, tmp_path, monkeypatch, nth):
    """Replacing takes two renames, old away and new in; whichever fails, the old folder must be there again."""
    folder = tiny.save(tmp_path / "c")
    before, calls, rename = content(folder), [], Path.rename

    def failing(self: Path, target: Path) -> Path:
        calls.append(self)
        if len(calls) == nth:
            raise OSError(errno.EIO, "input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError):
        tiny_full.save(folder, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert content(folder) == before


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_how_many_bytes_are_needed(tiny, tmp_path, monkeypatch, code):
    """8 codes of 4 bytes, 6 visit starts and 4 patient starts of 8 bytes: 32 + 48 + 32 = 112 bytes."""
    folder = tiny.save(tmp_path / "c")
    before = content(folder)

    def full(*_: object, **__: object) -> None:
        raise OSError(code, "no space")

    monkeypatch.setattr(storage, "write_array", full)
    with pytest.raises(ExistsError, match="112 bytes"):
        tiny.save(folder, overwrite=True)
    monkeypatch.undo()
    assert content(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_mapped_cohort_can_be_saved_over_itself(tmp_path):
    """The old files are still mapped while the new ones are written."""
    cohort = Cohort.open(Cohort.of([[["A", "B"]] * 2] * 1000).save(tmp_path / "c"))
    print_before = cohort.fingerprint
    replace(cohort, card={"source": "again"}).save(tmp_path / "c", overwrite=True)
    assert Cohort.open(tmp_path / "c").fingerprint == print_before
    assert list(cohort.subset([999]).patients()) == [[["A", "B"], ["A", "B"]]]


def test_an_array_whose_header_never_closes_a_bracket_is_named_and_not_a_traceback(tmp_path: Path) -> None:
    """Such headers are read again in the old way, by a tokeniser with errors of its own."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (3,                      \n"
    path = tmp_path / "prior.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(24))
    with pytest.raises(InputError, match="not a readable array"):
        storage.read_array(path)
