"""Every benchmark at toy size: it runs to its end and reports what its name says."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from adapcla.io.simulator import simulate

pytestmark = pytest.mark.behaviour


@pytest.fixture(scope="module")
def script(repository: Path) -> Callable[[str], ModuleType]:
    """A function from the name of a benchmark to its module."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"benchmark_{name}", repository / "benchmarks" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    return load


def json_of_main(
    module: ModuleType, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, float]:
    """The JSON object that a benchmark prints last."""
    monkeypatch.setattr(sys, "argv", [module.__name__, *words])
    module.main()
    found: dict[str, float] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def test_speed_trains_and_samples_both_sides(script: Callable[[str], ModuleType]) -> None:
    """The restatement and the methods give a rate each; an untrained generator can be sampled."""
    speed = script("speed")
    cohort = speed.zipf_cohort(60, n_codes=50)
    rates = speed.yardstick(cohort, 1, width=16, layers=1, heads=2)
    assert set(rates) == {"train_visits_s", "sample_patients_s"} and min(rates.values()) > 0
    small = {"width": 16, "layers": 1, "heads": 2, "batch_size": 30}
    generator, loop = speed.prepared("adapcla", cohort, **small)
    _, other = speed.prepared("tailwise", cohort, **small)
    actions = {"independent": partial(speed.update, loop), "other": partial(speed.update, other)}
    assert min(speed.interleaved_seconds(actions, 1).values()) > 0
    assert speed.flops_a_step(loop, generator) > 0 and speed.matmul_flops(32, 1) > 0
    assert speed.sampling_rate(generator, 20) > 0


def test_speed_stands_beside_gpt2(script: Callable[[str], ModuleType]) -> None:
    """Both sides learn from the same patients and end their records; without transformers a sentence says so."""
    speed = script("speed")
    if not speed.gpt2_is_there():
        pytest.skip("transformers is not installed")
    cohort = speed.zipf_cohort(60, n_codes=50)
    small = {"width": 16, "layers": 1, "heads": 2, "batch_size": 30}
    found = speed.beside_gpt2(cohort, 1, 16, at_once=8, **small)
    assert min(found.values()) > 0 and {"gpt_train_ratio_gpt2", "tailwise_sample_ratio_gpt2"} <= set(found)
    gpt2 = speed.Gpt2(cohort, 16, 1, 2, 1e-3)
    assert [sum(t < 50 for t in gpt2.tokens(p)) for p in (0, 1)] == np.diff(
        cohort.visit_starts[cohort.patient_starts[:3]]
    ).tolist()


def test_speed_says_what_is_missing_for_gpt2(
    script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    speed = script("speed")
    monkeypatch.setattr(speed.importlib.util, "find_spec", lambda name: None)
    assert not speed.gpt2_is_there() and "adapcla[bench]" in capsys.readouterr().out


def test_halo_speed_gives_a_rate_for_each_side(script: Callable[[str], ModuleType]) -> None:
    halo_speed = script("halo_speed")
    drawn, distinct = halo_speed.sparse_sampling(60, 16, 8)
    rates = (halo_speed.sparse_training(60, 16, 8, steps=2), halo_speed.dense_training(60, 16, 4), drawn)
    assert min(rates) > 0 and halo_speed.dense_sampling(60, 16, 4, distinct) > 0


def test_startup_compares_two_commands(script: Callable[[str], ModuleType]) -> None:
    found = script("startup").measure(1)
    assert found["help_seconds"] > 0 and found["libraries_seconds"] > 0


def test_determinism_finds_one_result_in_all_surroundings(script: Callable[[str], ModuleType], tmp_path: Path) -> None:
    found = script("determinism").measure(tmp_path, repeats=2, workers=1)
    assert found["different"] == {"model": 1, "sample": 1, "scores": 1}


def test_scale_measures_every_step(script: Callable[[str], ModuleType], tmp_path: Path) -> None:
    scale = script("scale")
    steps = {name: found for name, found in scale.steps(tmp_path, 300) if name}
    assert set(steps) == {"simulate", *scale.STEPS}
    assert all(found["code"] == 0 and found["peak_mb"] > 0 for found in steps.values()), steps
    assert scale.with_a_long_history(20, 60, 50).visits_per_patient.max() == 50


def test_evaluate_scale_computes_what_a_plain_loop_computes(script: Callable[[str], ModuleType]) -> None:
    evaluate_scale = script("evaluate_scale")
    train, test, synthetic = (simulate(patients=n, codes=60, seed=seed) for seed, n in enumerate((120, 40, 80), 1))
    _, values = evaluate_scale.timed_suites(train, test, synthetic, False, evaluate_scale.SAME_WORK)
    plain = evaluate_scale.by_loop(train, synthetic)
    assert {key: values[key] for key in plain} == pytest.approx(plain, abs=1e-9)
    if sys.platform == "linux":
        (row,) = evaluate_scale.growth([120], 40, 60)
        assert row["patients"] == 120 and row["peak_mb"] >= 0 and row["cpu_seconds"] > 0


@pytest.mark.parametrize("words", [["--patients", "200"], ["--labs", "2000"]], ids=["codes", "labs"])
def test_import_scale_reads_what_it_wrote(
    script: Callable[[str], ModuleType],
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = json_of_main(script("import_scale"), words, monkeypatch, capsys)
    assert found["rows"] > 0 and found["entries"] > 0 and found["peak_mb"] > 0


def test_processes_measures_training_and_sampling(
    script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    processes = script("processes")
    monkeypatch.setattr(processes, "WARM", 1)
    words = ["--processes", "1", "--repeats", "1", "--patients", "300", "--sampled", "50"]
    found = json_of_main(processes, words, monkeypatch, capsys)
    assert found["train_speedup_1"] == found["sample_speedup_1"] == 1.0 and found["sample_patients_s_1"] > 0


def test_releases_makes_one_and_reads_it_back(script: Callable[[str], ModuleType], tmp_path: Path) -> None:
    """A method without training: how it ends depends on the gate, what is written must be read back."""
    small = ["--method", "marginal", "--set", "evaluate.quick=true", "--set", 'evaluate.suites=["tail","privacy"]']
    releases = script("releases")
    row = releases.run_release("simulated", tmp_path, 1.0, "csv", small)
    assert row["right"] and all(row.get("reads back", {}).values()), row
    assert "simulated" in releases.table([row], "command")


def test_gate_power_counts_what_is_released(script: Callable[[str], ModuleType], tmp_path: Path) -> None:
    """So few patients cannot show that nothing leaks; a leak is never released; what is known is not tried again."""
    power, out = script("gate_power"), tmp_path / "power.jsonl"
    rows = power.measure([(400, 150, 100)], 1, ["fresh", "members", "5 % copied visits"], out)
    assert [row["released"] for row in rows if row["case"] != "fresh"] == [False, False]
    assert rows[0]["found"]["membership_auc"][1] > 0
    again = power.measure([(400, 150, 100)], 2, ["members"], out)
    assert [row["seconds"] for row in again[:3]] == [row["seconds"] for row in rows] and len(again) == 4
    assert "0 of 2" in power.table(again)
    assert "| members | 0 of 1 (0–79 %), 1 exceeded | `copy_excess` |" in power.table(rows)


def test_dp_audit_bounds_epsilon_and_sees_less_noise(script: Callable[[str], ModuleType]) -> None:
    audit = script("dp_audit")
    assert audit.mechanism(60)["accounted"] > 0
    assert set(audit.way(40, 16, 1, patients=20)) >= {"plain", "by norms", "one by one"}
    world = simulate(patients=60, codes=60, seed=1)
    found = audit.audit(world.subset(range(40)), world.subset(range(40, 60)), 8.0, seed=1, passes=1)
    assert found["claimed"] == pytest.approx(8.0, rel=0.05) and found["lower bound"] <= found["claimed"]


def test_fuzz_tables_ends_without_a_traceback(repository: Path) -> None:
    from tests.io.fuzz import run

    assert "from tests.io.fuzz import main" in (repository / "benchmarks" / "fuzz_tables.py").read_text()
    counts = run(20, 60.0)
    assert set(counts) <= {"cohort", "error"}


def test_every_benchmark_is_run_by_make_without_arguments(repository: Path) -> None:
    scripts = {path.stem: path.read_text(encoding="utf-8") for path in (repository / "benchmarks").glob("*.py")}
    tests = "".join(
        path.read_text(encoding="utf-8") for path in (Path(__file__), *(repository / "tests").rglob("test_*.py"))
    )
    assert [name for name, text in scripts.items() if "required=True" in text] == []
    assert [name for name in scripts if f'"{name}"' not in tests and f"{name}.py" not in tests] == []


def test_frontier_measures_knowledge_and_memory_of_each_point(
    script: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """A second call with another point fits that point alone."""
    words = ["--toy", "--samples", "1", "--out", str(tmp_path / "lines.jsonl"), "--point", "prior_strength=5"]
    frontier = script("frontier")
    (first,) = json_of_main(frontier, words, monkeypatch, capsys)["lines"]  # type: ignore[misc]
    lines = json_of_main(frontier, [*words, "--point", "prior=false"], monkeypatch, capsys)["lines"]
    assert lines[0] == first and len(lines) == 2  # type: ignore[index,arg-type]
    assert first["2 codes, c = 1"] <= first["2 codes, largest"] + 1e-9 and first["share"] == first["share"]


def test_frontier_finds_a_copy_and_not_independent_codes(script: Callable[[str], ModuleType]) -> None:
    """Whoever writes the training patients down has gaps near 1; whoever knows prevalences alone has none."""
    frontier = script("frontier")
    train, _, controls = frontier.divide(simulate(patients=3_000, codes=60, seed=1), 1)
    rare = frontier.rarest_third(train)
    copied = frontier.memory(train, controls, [train], rare)
    chance = frontier.memory(train, controls, [frontier.marginal(train, train.n_patients, 1)], rare)
    assert copied["2 codes, c = 1"] == 1.0 and abs(chance["2 codes, c = 1"]) < 0.25
    real = frontier.knowledge(train, controls, [train], rare)
    assert all(real[name] == 1.0 for name in ("share", "rare share", "coverage", "overlap", "codes", "visits"))
