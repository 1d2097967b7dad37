"""HALO pickles: what HALO writes is read, and a planted payload never runs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.errors import InputError
from adapcla.io import Options
from adapcla.io.readers import halo


def save(path: Path, content: Any, protocol: int = 4) -> None:
    path.write_bytes(pickle.dumps(content, protocol=protocol))


def write_dataset(folder: Path, protocol: int = 4) -> None:
    """Two patients in train, one in test; labels as HALO writes them; code 3 is in no visit."""
    train = [
        {"visits": [[0, 2], [1]], "labels": np.array([1.0, 0.0])},
        {"visits": [[np.int64(1)]], "labels": np.array([0.0, 0.0])},
    ]
    save(folder / "trainDataset.pkl", train, protocol)
    save(folder / "testDataset.pkl", [{"visits": [[2, 2]], "labels": np.array([0.0, 1.0])}], protocol)
    save(folder / "indexToCode.pkl", {0: "4019", 1: "0389", 2: "25000", 3: "V270"}, protocol)
    save(folder / "idToLabel.pkl", ["heart", "sugar"], protocol)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_reads_what_halo_writes(tmp_path: Path, protocol: int) -> None:
    write_dataset(tmp_path, protocol)
    cohort = halo.read(tmp_path, Options())
    assert list(cohort.patients()) == [[["25000", "4019"], ["0389"]], [["0389"]], [["25000"]]]
    assert cohort.vocabulary.tokens == ("0389", "25000", "4019", "V270")
    assert cohort.label_names == ("heart", "sugar")
    assert cohort.labels.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert cohort.days is None
    assert cohort.card["dropped"] == {"repeated codes in a visit": 1}


def test_one_file_code_to_index_and_system(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    (tmp_path / "indexToCode.pkl").unlink()
    (tmp_path / "idToLabel.pkl").unlink()
    save(tmp_path / "codeToIndex.pkl", {"4019": 0, "0389": 1, "25000": 2})
    cohort = halo.read(tmp_path / "testDataset.pkl", Options(system="ICD9CM"))
    assert list(cohort.patients()) == [[["ICD9CM/25000"]]]
    assert cohort.vocabulary.codes[1].code == "25000"
    assert cohort.label_names == ("label 1", "label 2")


def test_patients_without_visits_are_dropped_and_labels_stay_aligned(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    save(tmp_path / "trainDataset.pkl", [{"visits": [], "labels": [1, 1]}, {"visits": [[], [0]], "labels": [0, 1]}])
    cohort = halo.read(tmp_path / "trainDataset.pkl", Options())
    assert list(cohort.patients()) == [[["4019"]]]
    assert cohort.labels.tolist() == [[0, 1]]
    assert cohort.card["dropped"]["visits without a code"] == 1


class Payload:
    """Runs a command when unpickled by an unrestricted reader."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.marker,))


class EvalPayload(Payload):
    def __reduce__(self) -> tuple[Any, ...]:
        return (eval, (f"open({str(self.marker)!r}, 'w').close()",))


@pytest.mark.parametrize("payload", [Payload, EvalPayload])
@pytest.mark.parametrize("where", ["trainDataset.pkl", "indexToCode.pkl", "idToLabel.pkl"])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_planted_payload_never_runs(tmp_path: Path, payload: type[Payload], where: str, protocol: int) -> None:
    """The payload works: an ordinary unpickler runs it; ours refuses the file with exit code 3."""
    marker = tmp_path / "ran"
    write_dataset(tmp_path)
    save(tmp_path / where, [payload(marker)], protocol)
    with pytest.raises(InputError, match="asks for more") as refused:
        halo.read(tmp_path, Options())
    assert refused.value.exit_code == 3
    assert not marker.exists()
    pickle.loads((tmp_path / where).read_bytes())
    assert marker.exists()


@pytest.mark.parametrize(
    "raw",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"cbuiltins\ngetattr\n(cbuiltins\nlist\nS'__class__'\ntR.",
        b"cnumpy\nload\n.",
        b"cadapcla.io.readers.halo\nload\n.",
        b"\x80\x04\x8c\x08builtins\x8c\x04exec\x93.",
        b"Ppersistent\n.",
        b"\x82\x01.",
        b"cnumpy\ndtype\n(S'O8'\nI00\nI01\ntR.",
    ],
)
def test_names_outside_the_stand_ins_are_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "x.pkl").write_bytes(raw)
    with pytest.raises(InputError):
        halo.load(tmp_path / "x.pkl")


def test_arrays_of_objects_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "x.pkl", np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="asks for more"):
        halo.load(tmp_path / "x.pkl")


def test_a_file_leaves_nothing_behind_in_the_reader(tmp_path: Path) -> None:
    """A pickle sets an attribute of a stand-in, which the language allows; the next file gets a fresh one."""
    (tmp_path / "x.pkl").write_bytes(b"c_codecs\nencode\n(N(dS'planted'\nI1\nstb.")
    assert halo.load(tmp_path / "x.pkl").planted == 1
    assert not hasattr(halo._stand_ins()[("_codecs", "encode")], "planted")


def test_every_prefix_of_a_good_file_is_a_named_error(tmp_path: Path) -> None:
    write_dataset(tmp_path)
    whole = (tmp_path / "trainDataset.pkl").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "trainDataset.pkl").write_bytes(whole[:length])
        with pytest.raises(InputError):
            halo.load(tmp_path / "trainDataset.pkl")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"visits": [[0]]}, "not a list"),
        ([7], "row 1: not a record"),
        ([{"visits": [[0]], "labels": []}, {"labels": []}], "row 2: a record without 'visits'"),
        ([{"visits": [[99]]}], "indexToCode"),
        ([{"visits": [[0.5]]}], "indexToCode"),
        ([{"visits": [["0"]]}], "indexToCode"),
        ([{"visits": [3]}], "indexToCode"),
        ([{"visits": {0: 1}}], "'visits' of type dict"),
        ([{"visits": [[0]], "labels": [1]}, {"visits": [[0]], "labels": [1, 0]}], "1 and with 2 labels"),
        ([], "no patient"),
    ],
)
def test_records_of_another_shape_are_named(tmp_path: Path, content: Any, message: str) -> None:
    write_dataset(tmp_path)
    save(tmp_path / "trainDataset.pkl", content)
    with pytest.raises(InputError, match=message):
        halo.read(tmp_path / "trainDataset.pkl", Options())


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="trainDataset"):
        halo.read(tmp_path, Options())
    save(tmp_path / "trainDataset.pkl", [])
    with pytest.raises(InputError, match="codeToIndex"):
        halo.read(tmp_path, Options())
    save(tmp_path / "indexToCode.pkl", {"a": 1})
    with pytest.raises(InputError, match="no list of codes"):
        halo.read(tmp_path, Options())


def test_writes_the_fields_that_halo_reads(tmp_path: Path) -> None:
    """Twenty patients: 15 in train, 1 in validation, 4 in test; the records index the code list."""
    cohort = Cohort.of([[["A", "B"], ["A"]]] * 20)
    halo.write_pickles(cohort, tmp_path, lambda patient: [])
    sets = [pickle.loads((tmp_path / name).read_bytes()) for name in halo._DATASETS]
    assert sum(map(len, sets)) == 20
    assert sets[0][0]["visits"] == [[0, 1], [0]]
    assert sets[0][0]["labels"].shape == (0,)
    assert pickle.loads((tmp_path / "indexToCode.pkl").read_bytes()) == {0: "A", 1: "B"}
    assert pickle.loads((tmp_path / "codeToIndex.pkl").read_bytes()) == {"A": 0, "B": 1}
