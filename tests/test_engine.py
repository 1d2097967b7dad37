"""Tasks give the same results in this process and on a Ray cluster, whatever becomes of its workers."""

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest
from tests.conftest import ACCEPTED, TINY_RELEASE

from adapcla import engine
from adapcla.console import say
from adapcla.engine import checked_address, cluster, n_workers, run_tasks
from adapcla.errors import AdapclaError, InputError, UsageError
from adapcla.evaluation import evaluate
from adapcla.generation import bundle, sample_folder
from adapcla.generation.generator import train
from adapcla.generation.sampler import BLOCK
from adapcla.io import writers
from adapcla.io.simulator import simulate
from adapcla.pipeline.steps import Step, run_steps
from adapcla.release.plan import ReleasePlan
from adapcla.release.settings import release_settings
from adapcla.release.synthesize import synthesize
from adapcla.study.runner import StudyPlan
from adapcla.study.spec import study_from


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


def test_a_cluster_that_cannot_be_reached_is_named() -> None:
    pytest.importorskip("ray", reason="the extra `cluster` is not installed")
    with pytest.raises(AdapclaError, match=r"127\.0\.0\.1:1: no connection"), cluster("127.0.0.1:1"):
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
    # One connection for all tests: a new one starts new workers, which load torch again.
    engine._connect(ray, nodes.address)
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


# ---- steps of a pipeline ------------------------------------------------------------------------------------
def join_texts(before: list[Path], name: str, folder: Path, killed: bool = False, fail: bool = False) -> dict[str, int]:
    """Write the texts of the folders before, and the name; the first worker is killed if it shall be."""
    mark = folder.with_name(f"{name}-killed")
    if killed and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if fail:
        raise AdapclaError("it exploded\nto do: nothing")
    say(f"{name} is written")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text").write_text("".join((each / "text").read_text() for each in before) + name)
    return {"process": os.getpid()}


def diamond(root: Path, **how: dict[str, bool]) -> list[Step]:
    """Steps a, then b and c, which do not wait for each other, then d; and e, which waits for d without reading it."""
    steps: dict[str, Step] = {}
    for name, after in (("a", ""), ("b", "a"), ("c", "a"), ("d", "bc"), ("e", "a")):
        before = [root / each for each in after]
        steps[name] = Step(
            "work",
            name,
            root / name,
            partial(join_texts, before, name, **how.get(name, {})),
            {},
            tuple(steps[each] for each in after),
            row=("b", 1) if name in "bd" else None,
            waits=(steps["d"],) if name == "e" else (),
            wanted=partial(is_absent, root / "d"),
        )
    return list(steps.values())


def is_absent(folder: Path) -> bool:
    """Whether a folder is not there."""
    return not folder.exists()


def texts(root: Path) -> dict[str, str]:
    """What the steps wrote."""
    return {path.parent.name: path.read_text() for path in root.glob("*/text")}


def test_steps_on_a_cluster_write_what_they_write_in_one_process_though_a_worker_is_killed(
    two_workers, tmp_path: Path, capsys
) -> None:
    run_steps(diamond(tmp_path / "one"), tmp_path / "one")
    with cluster(two_workers.address):
        assert run_steps(diamond(tmp_path / "two", b={"killed": True}), tmp_path / "two") == {}
    assert texts(tmp_path / "one") == texts(tmp_path / "two") == {"a": "a", "b": "ab", "c": "ac", "d": "abacd"}
    steps = diamond(tmp_path / "two")
    assert [step.done for step in steps] == [True, True, True, True, False]
    assert (tmp_path / "two" / "b-killed").exists()
    assert os.getpid() not in {step.record["process"] for step in steps[:4]}
    # What a step says on a worker is said here.
    assert "a is written" in capsys.readouterr().err


def test_a_method_that_fails_on_a_cluster_takes_its_own_steps_along_and_other_faults_end_the_run(
    two_workers, tmp_path: Path
) -> None:
    with cluster(two_workers.address):
        assert run_steps(diamond(tmp_path / "b", b={"fail": True}), tmp_path / "b") == {("b", 1): "it exploded"}
        with pytest.raises(AdapclaError, match="it exploded"):
            run_steps(diamond(tmp_path / "c", c={"fail": True}), tmp_path / "c")
    assert "d" not in texts(tmp_path / "c")


def test_a_study_on_a_cluster_has_the_page_and_the_numbers_of_one_process(two_workers, tmp_path: Path) -> None:
    small = {"data": {"planted": {"patients": 60, "codes": 60}}, "fit": {"methods": ["marginal"], "seeds": [1, 2]}}
    spec = study_from({"name": "small", **small, "evaluate": {"suites": ["tail"], "quick": True}}, {}, "test")
    one = StudyPlan(spec, tmp_path / "one").run()
    with cluster(two_workers.address):
        two = StudyPlan(spec, tmp_path / "two").run()
    arrays = sorted(path.relative_to(one.parent) for path in one.parent.rglob("*.npy"))
    assert len(arrays) > 10
    for path in (*arrays, Path("tables", "scores.csv")):
        assert (one.parent / path).read_bytes() == (two.parent / path).read_bytes(), path


def test_a_release_of_patients_in_memory_on_a_cluster_is_that_of_one_process(two_workers, tmp_path: Path) -> None:
    cohort = simulate(patients=520, codes=60, seed=1)
    given = {"method": "marginal", **ACCEPTED, "settings": TINY_RELEASE}
    one = synthesize(cohort, out=tmp_path / "one", **given)
    with cluster(two_workers.address):
        two = synthesize(cohort, out=tmp_path / "two", **given)
    assert one.passed and two.passed
    assert folder_bytes(one.folder) == folder_bytes(two.folder)


def folder_bytes(folder: Path | None) -> dict[str, bytes]:
    """Every file of a folder."""
    assert folder is not None
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_patients_travel_with_a_step() -> None:
    """In memory the cohort is much larger than all settings."""
    from ray.cloudpickle import dumps

    cohort = simulate(patients=2_000, codes=60, seed=1)
    plan = ReleasePlan(release_settings("cohort", "cohort"), "out", cohort=cohort)
    assert len(dumps(plan.steps[1])) < cohort.codes.nbytes / 4
    assert plan.steps[0].in_memory and not any(step.in_memory for step in plan.steps[1:])


def test_an_export_on_a_cluster_has_the_files_of_one_process(two_workers, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(writers, "PATIENTS_AT_ONCE", 100)
    cohort = simulate(patients=300, codes=60, seed=1)
    writers.write(cohort, tmp_path / "one", "csv")
    with cluster(two_workers.address):
        writers.write(cohort, tmp_path / "two", "csv")
    assert len(list((tmp_path / "one" / "long").iterdir())) == 3
    assert folder_bytes(tmp_path / "one") == folder_bytes(tmp_path / "two")
