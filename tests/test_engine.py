"""Tasks give the same results in this process and on a Ray cluster, whatever becomes of its workers."""

import os
import signal
import time
from pathlib import Path

import pytest

from adapcla.engine import checked_address, cluster, n_workers, run_tasks
from adapcla.errors import AdapclaError, InputError, UsageError
from adapcla.evaluation import evaluate
from adapcla.generation import bundle, sample_folder
from adapcla.generation.generator import train
from adapcla.generation.sampler import BLOCK
from adapcla.io.simulator import simulate


def write_square(folder: str, number: int) -> tuple[int, int]:
    """The square, and the process that computed it; a file with the square for every call."""
    Path(folder, f"{number}.txt").write_text(str(number**2))
    return number**2, os.getpid()


def square_after_a_kill(folder: str, number: int) -> int:
    """The square; the first worker that computes one is killed."""
    mark = Path(folder, f"killed {number}")
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


def always_killed() -> None:
    """Kill the worker."""
    os.kill(os.getpid(), signal.SIGKILL)


def slow_square(number: int) -> int:
    """The square, after a while."""
    time.sleep(0.3)
    return number**2


def refuse(number: int) -> int:
    """Raise an error with a message for people."""
    raise InputError(f"number {number} is refused", remedy="take another")


def test_local_tasks_run_in_this_process_in_order(tmp_path: Path) -> None:
    found = list(run_tasks(write_square, [(str(tmp_path), n) for n in (3, 1, 2)]))
    assert found == [(9, os.getpid()), (1, os.getpid()), (4, os.getpid())]
    assert n_workers() == 1


@pytest.mark.parametrize("address", ["lokal", "http://head:1", "ray:head", "head"])
def test_an_unknown_address_is_refused_before_anything_runs(address: str) -> None:
    with pytest.raises(UsageError, match="expected: local, auto"):
        checked_address(address)
    with pytest.raises(UsageError, match="expected: local, auto"), cluster(address):
        pass


@pytest.fixture(scope="module")
def two_workers():
    """A local Ray cluster of two workers for the tests of this module."""
    ray = pytest.importorskip("ray", reason="the extra `cluster` is not installed")
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    nodes = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80_000_000},
    )
    nodes.add_node(num_cpus=1, object_store_memory=80_000_000)
    yield nodes
    ray.shutdown()
    nodes.shutdown()


def test_a_cluster_gives_the_results_of_one_process_in_order(two_workers, tmp_path: Path) -> None:
    jobs = [(str(tmp_path), n) for n in range(40)]
    with cluster(two_workers.address):
        assert n_workers() == 2
        found = list(run_tasks(write_square, jobs))
    assert [square for square, _ in found] == [n**2 for n in range(40)]
    assert os.getpid() not in {process for _, process in found}
    assert {p.read_text() for p in tmp_path.iterdir()} == {str(n**2) for n in range(40)}


def test_a_task_whose_worker_is_killed_is_begun_again(two_workers, tmp_path: Path) -> None:
    with cluster(two_workers.address):
        assert list(run_tasks(square_after_a_kill, [(str(tmp_path), n) for n in range(2)])) == [0, 1]


def test_an_error_of_a_task_is_the_error_of_one_process(two_workers) -> None:
    with cluster(two_workers.address), pytest.raises(InputError, match="number 7 is refused"):
        list(run_tasks(refuse, [(7,)]))


def test_a_task_that_always_loses_its_worker_ends_with_a_clear_word(two_workers, monkeypatch) -> None:
    monkeypatch.setattr("adapcla.engine.RETRIES", 1)
    with cluster(two_workers.address), pytest.raises(AdapclaError, match="failed 2 times because its worker was gone"):
        list(run_tasks(always_killed, [()]))


def test_a_machine_that_goes_away_for_good_costs_its_tasks_and_not_the_run(two_workers) -> None:
    second = two_workers.add_node(num_cpus=1, object_store_memory=80_000_000)
    with cluster(two_workers.address):
        results = run_tasks(slow_square, [(n,) for n in range(12)])
        assert next(results) == 0
        two_workers.remove_node(second, allow_graceful=False)
        assert list(results) == [n**2 for n in range(1, 12)]


def test_a_cluster_that_cannot_be_reached_is_named() -> None:
    pytest.importorskip("ray", reason="the extra `cluster` is not installed")
    with pytest.raises(AdapclaError, match=r"127\.0\.0\.1:1: no connection"), cluster("127.0.0.1:1"):
        pass


def test_an_evaluation_on_a_cluster_is_that_of_one_process(two_workers, tmp_path: Path) -> None:
    parts = simulate(patients=400, codes=60, seed=1).split()
    cohorts = (parts.train, parts.test, parts.valid)
    here = evaluate(*cohorts, suites=["tail", "fidelity"], quick=True)
    with cluster(two_workers.address):
        there = evaluate(*cohorts, suites=["tail", "fidelity"], quick=True, cache=tmp_path)
    assert there.rows == here.rows
    # Nothing is left of the cohorts that the workers read, and the scores are kept as in one process.
    assert not list(tmp_path.glob("adapcla-evaluate-*"))
    assert evaluate(*cohorts, suites=["tail", "fidelity"], quick=True, cache=tmp_path).rows == here.rows


def test_a_sample_on_a_cluster_has_the_bytes_of_one_process_though_a_worker_is_killed(
    two_workers, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(sample_folder, "SHARD", BLOCK)
    parts = simulate(patients=200, codes=40, seed=1).split()
    model = train(parts, "marginal", seed=1).model
    n = 3 * BLOCK + 7
    sample_folder.stream_sample(model, n, 5, tmp_path / "one")
    monkeypatch.setattr(sample_folder, "_write_shard_on_worker", write_after_a_kill)
    with cluster(two_workers.address):
        sample_folder.stream_sample(model, n, 5, tmp_path / "two")
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two


def write_after_a_kill(saved: Path, n: int, seed: int, steering: None, rule: object, low: int) -> int:
    """Write a shard; the first worker that is asked for the second one is killed."""
    mark = saved.parent / "killed"
    if low and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    sample_folder.SHARD = BLOCK
    return sample_folder._write_shard(bundle.read(saved), n, seed, None, rule, saved.parent, low)
