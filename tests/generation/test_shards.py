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
from adapcla.generation.sample_folder import assemble, shards_beside, stream_sample, write_share
from adapcla.generation.sampler import BLOCK, SampleRule
from adapcla.training.distributed import Processes


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
    original, calls = shards._packed, []

    def dies(rolled: object) -> bytes:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(rolled)  # type: ignore[arg-type]

    monkeypatch.setattr(shards, "_packed", dies)
    with pytest.raises(KeyboardInterrupt):
        write_sample(plain.model, n, 5, tmp_path / "s")
    calls.clear()
    monkeypatch.setattr(shards, "_packed", lambda rolled: calls.append(1) or original(rolled))
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


# ---- independent jobs -------------------------------------------------------------------------------------
N = 4 * BLOCK + 30


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_shares_in_any_order_make_the_bytes_of_one_process(fitted: Generator, tmp_path: Path) -> None:
    """Five shards for three jobs: 1 and 4, 2 and 5, 3; a job that is started again draws nothing."""
    stream_sample(fitted.model, N, 5, tmp_path / "one")
    sizes = [write_share(fitted.model, N, 5, tmp_path / "s", Processes(index, 3)) for index in (2, 0, 1, 0)]
    assert sizes == [BLOCK, 2 * BLOCK, BLOCK + 30, 2 * BLOCK]
    assert not (tmp_path / "s").exists()
    card = assemble(fitted.model, N, 5, tmp_path / "s")
    assert card["asked for"] == N
    assert bytes_of(tmp_path / "s") == bytes_of(tmp_path / "one")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "s"]


def test_a_job_that_is_started_again_keeps_what_is_there(
    plain: Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_share(plain.model, N, 5, tmp_path / "s", Processes(0, 2))
    monkeypatch.setattr(shards, "_packed", lambda _: pytest.fail("drawn again"))
    assert write_share(plain.model, N, 5, tmp_path / "s", Processes(0, 2)) == 2 * BLOCK + 30


def test_a_job_more_than_there_are_shards_writes_nothing(plain: Generator, tmp_path: Path) -> None:
    assert write_share(plain.model, 5, 5, tmp_path / "s", Processes(1, 2)) == 0


def test_missing_shares_are_named_and_nothing_is_written(plain: Generator, tmp_path: Path) -> None:
    write_share(plain.model, N, 5, tmp_path / "s", Processes(1, 2))
    with pytest.raises(InputError, match=r"3 of 5 shards .*numbers 1, 3, 5\)"):
        assemble(plain.model, N, 5, tmp_path / "s")
    with pytest.raises(InputError, match="shards of another sample are"):
        assemble(plain.model, N, 6, tmp_path / "s")
    with pytest.raises(InputError, match="5 of 5 shards"):
        assemble(plain.model, N, 5, tmp_path / "elsewhere")
    assert [path.name for path in tmp_path.iterdir()] == ["s.shards"]
    assert len(list(shards_beside(tmp_path / "s").iterdir())) == 1


def test_a_damaged_share_is_named(plain: Generator, tmp_path: Path) -> None:
    write_share(plain.model, N, 5, tmp_path / "s", Processes(0, 1))
    path = sorted(shards_beside(tmp_path / "s").rglob("*.npz"))[1]
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match=path.name):
        assemble(plain.model, N, 5, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_process_whose_shards_did_not_arrive_makes_no_smaller_sample(
    plain: Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of two processes on machines that do not see the same folder."""
    monkeypatch.setattr(shards, "processes", lambda: Processes(0, 2))
    monkeypatch.setattr(Processes, "wait", lambda _: None)
    with pytest.raises(InputError, match="2 of 5 shards"):
        stream_sample(plain.model, N, 5, tmp_path / "s")
    assert not (tmp_path / "s").exists()
