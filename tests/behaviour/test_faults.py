"""The short form of benchmarks/faults.py: real processes, really killed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.behaviour


def script(repository: Path, name: str) -> ModuleType:
    """A benchmark as a module."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", repository / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def faults(repository: Path) -> ModuleType:
    return script(repository, "faults")


@pytest.fixture(scope="module")
def bench(faults: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Cohorts, and a whole run to compare with."""
    found, _ = faults.prepare(tmp_path_factory.mktemp("faults"))
    yield found


@pytest.mark.parametrize(("point", "number"), [("pointer", 7), ("place", 1)])
def test_a_run_that_dies_in_a_save_ends_in_the_same_weights(
    faults: ModuleType, bench: object, point: str, number: int
) -> None:
    """Between a checkpoint and its pointer; before the model is in place."""
    assert faults.crash_training(bench, point, number), bench.failures  # type: ignore[attr-defined]


def test_a_sample_that_dies_between_two_shards_ends_in_the_same_bytes(
    faults: ModuleType, bench: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "PATIENTS", 18_000)
    bench.must(*faults.sampling("sample"))  # type: ignore[attr-defined]
    assert faults.kill_sampling(bench, "again", 0, "rename:2"), bench.failures  # type: ignore[attr-defined]


def test_a_second_process_is_refused_and_a_dead_one_is_not_in_the_way(faults: ModuleType, bench: object) -> None:
    assert all(faults.two_processes(bench).values()), bench.failures  # type: ignore[attr-defined]


def test_a_full_disk_is_named_and_nothing_is_lost(faults: ModuleType, bench: object) -> None:
    found = faults.disk_full(bench, 1)
    if "skipped" in found:
        pytest.skip(found["skipped"])
    assert found == {"points": 1, "named": 1, "resumed_identical": 1}, bench.failures  # type: ignore[attr-defined]


def test_damaged_models_are_refused_and_nothing_in_them_runs(repository: Path, tmp_path: Path) -> None:
    """Some of every kind of damage, the flips and the pickles among them."""
    fuzz = script(repository, "fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ADAPCLA_QUIET", "1")
        models = fuzz.Models(tmp_path)
        found = [fuzz.model_outcome(models, seed) for seed in range(60)]
    assert {kind for _, kind in found} == set(fuzz.DAMAGES)
    assert {result for result, _ in found} <= {"done", "error"}
    assert {result for result, kind in found if kind == "flip"} == {"error"}
    assert not models.trace.exists()
