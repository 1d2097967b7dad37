"""Samples on disk are the samples in memory, whatever happened on the way."""

from __future__ import annotations

import fcntl
from pathlib import Path

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.data.rules import Rules
from adapcla.errors import ExistsError, InputError
from adapcla.generation import Generator
from adapcla.generation import sample_folder as shards
from adapcla.generation.model import Model
from adapcla.generation.sample_folder import stream_sample
from adapcla.generation.sampler import BLOCK, SampleRule


def write_sample(model: Model, n: int, seed: int, folder: Path, *, resume: bool = False) -> Cohort:
    """The cohort that `stream_sample` wrote."""
    stream_sample(model, n, seed, folder, resume=resume)
    return Cohort.open(folder)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD", BLOCK)


def test_disk_and_memory_agree(fitted: Generator, tmp_path: Path) -> None:
    written = write_sample(fitted.model, 2 * BLOCK + 30, 5, tmp_path / "s")
    assert written.fingerprint == fitted.sample(2 * BLOCK + 30, seed=5).fingerprint
    assert Cohort.open(tmp_path / "s").card["seed"] == 5
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_a_streamed_sample_is_the_saved_one_byte_by_byte_and_is_never_mapped(
    fitted: Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 2 * BLOCK + 30
    fitted.sample(n, seed=5).save(tmp_path / "saved")

    def maps(*_: object, **__: object) -> None:
        raise AssertionError("a map, whose pages count as memory")

    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format, "open_memmap", maps)
        patch.setattr(Cohort, "open", maps)
        card = stream_sample(fitted.model, n, 5, tmp_path / "s")
    saved = Cohort.open(tmp_path / "saved")
    assert (card["patients"], card["visits"], card["entries"]) == (saved.n_patients, saved.n_visits, saved.n_entries)
    arrays = sorted((tmp_path / "saved").glob("*.npy"))
    assert len(arrays) >= 3
    for path in arrays:
        assert (tmp_path / "s" / path.name).read_bytes() == path.read_bytes(), path.name


def test_a_finished_sample_that_was_damaged_is_not_taken_for_good(plain: Generator, tmp_path: Path) -> None:
    stream_sample(plain.model, BLOCK, 5, tmp_path / "s")
    path = tmp_path / "s" / "codes.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(InputError, match="SHA-256"):
        stream_sample(plain.model, BLOCK, 5, tmp_path / "s", resume=True)


def test_a_killed_sample_goes_on_where_it_stopped(
    plain: Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 3 * BLOCK
    original, calls = shards._pack, []

    def dies(rolled: object) -> bytes:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(rolled)  # type: ignore[arg-type]

    monkeypatch.setattr(shards, "_pack", dies)
    with pytest.raises(KeyboardInterrupt):
        write_sample(plain.model, n, 5, tmp_path / "s")
    calls.clear()
    monkeypatch.setattr(shards, "_pack", lambda rolled: calls.append(1) or original(rolled))
    resumed = write_sample(plain.model, n, 5, tmp_path / "s", resume=True)
    assert len(calls) == 2
    assert resumed.fingerprint == plain.sample(n, seed=5).fingerprint
    assert write_sample(plain.model, n, 5, tmp_path / "s", resume=True).fingerprint == resumed.fingerprint


def test_a_populated_folder_is_refused(plain: Generator, tmp_path: Path) -> None:
    write_sample(plain.model, 5, 1, tmp_path / "s")
    with pytest.raises(ExistsError):
        write_sample(plain.model, 6, 1, tmp_path / "s")


def test_a_sample_that_another_process_writes_is_left_alone(plain: Generator, tmp_path: Path) -> None:
    (tmp_path / ".s.unfinished").mkdir()
    with (tmp_path / ".s.unfinished" / ".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ExistsError, match="in use"):
            write_sample(plain.model, 5, 1, tmp_path / "s")
    assert write_sample(plain.model, 5, 1, tmp_path / "s").n_patients <= 5
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_shards_of_another_sample_are_not_mixed_in(
    plain: Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample of seed 5 is stopped before its assembly; seed 6 goes to the same folder with --resume."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shards, "_assemble", stop)
        write_sample(plain.model, 2 * BLOCK, 5, tmp_path / "s")
    made = write_sample(plain.model, BLOCK, 6, tmp_path / "s", resume=True)
    assert made.fingerprint == plain.sample(BLOCK, seed=6).fingerprint


def test_patients_drawn_again_are_the_same_on_disk_and_counted(plain: Generator, tmp_path: Path) -> None:
    codes = np.sort(np.argsort(-plain.model.prevalence.share)[:3])
    rules = Rules(plain.model.vocabulary, {"sex": {"female": codes}}, np.zeros((0, 2), dtype=np.int64))
    card = stream_sample(plain.model, BLOCK + 30, 5, tmp_path / "s", rule=SampleRule(rules=rules))
    memory = plain.sample(BLOCK + 30, seed=5, rules=rules)
    assert Cohort.open(tmp_path / "s").fingerprint == memory.fingerprint
    assert card["rules"] == memory.card["rules"]
    assert card["rules"]["drawn again"] > 0


def test_what_is_there_already_is_not_drawn_again(
    plain: Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 2 * BLOCK

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shards, "_assemble", stop)
        write_sample(plain.model, n, 5, tmp_path / "s")
    monkeypatch.setattr(shards, "_pack", lambda _: pytest.fail("drawn again"))
    assert write_sample(plain.model, n, 5, tmp_path / "s", resume=True).n_patients <= n


def test_a_damaged_shard_is_named_and_nothing_is_written(
    plain: Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shards._pack
    monkeypatch.setattr(shards, "_pack", lambda rolled: whole(rolled)[:-40])
    with pytest.raises(InputError, match=r"000000000000\.npz"):
        write_sample(plain.model, 2 * BLOCK, 5, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_shards_that_workers_wrote_elsewhere_make_no_smaller_sample(
    plain: Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker on a machine that does not see the folder."""
    monkeypatch.setattr(shards, "_write_shard", lambda *given: given[-1])
    with pytest.raises(InputError, match=r"3 of 3 shards .*are not there"):
        write_sample(plain.model, 3 * BLOCK, 5, tmp_path / "s")
    assert not (tmp_path / "s").exists()
