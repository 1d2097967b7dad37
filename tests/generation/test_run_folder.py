"""Run folders: resumed, refused, complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapcla.data.split import Split
from adapcla.errors import ExistsError, InterruptedRun
from adapcla.files import read_json
from adapcla.generation import generator_for, load
from adapcla.generation.run_folder import train_run
from adapcla.training.loop import Loop

_SMALL = {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 64, "validations": 3}


def test_a_finished_run_holds_its_model_and_what_it_cost(parts: Split, tmp_path: Path) -> None:
    train_run(generator_for("adapcla", **_SMALL), parts.train, parts.valid, tmp_path / "run")
    assert {p.name for p in (tmp_path / "run").iterdir()} == {
        ".lock", "asked.json", "outcome.json", "environment.json", "journal.jsonl", "model",
    }  # fmt: skip
    facts = read_json(tmp_path / "run" / "outcome.json")
    assert facts["patients"] == parts.train.n_patients and facts["seconds"] > 0 and facts["peak memory MB"] > 10
    assert load(tmp_path / "run").method == "adapcla"


def test_resume_after_a_stop_and_after_the_end(parts: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train_run(generator_for("adapcla", **_SMALL), parts.train, parts.valid, tmp_path / "whole")
    original = Loop._one_step

    def step(self: Loop, bar: object) -> None:
        self.stop_asked = self.step == 2
        original(self, bar)  # type: ignore[arg-type]

    monkeypatch.setattr(Loop, "_one_step", step)
    with pytest.raises(InterruptedRun):
        train_run(generator_for("adapcla", **_SMALL), parts.train, parts.valid, tmp_path / "run")
    monkeypatch.setattr(Loop, "_one_step", original)
    for _ in range(2):
        train_run(generator_for("adapcla", **_SMALL), parts.train, parts.valid, tmp_path / "run", resume=True)
    weights = (tmp_path / "run" / "model" / "weights.safetensors").read_bytes()
    assert weights == (tmp_path / "whole" / "model" / "weights.safetensors").read_bytes()
    assert whole.outcome_ is not None


def test_another_setting_or_other_data_is_refused(parts: Split, tmp_path: Path) -> None:
    train_run(generator_for("adapcla", **_SMALL), parts.train, parts.valid, tmp_path / "run")
    with pytest.raises(ExistsError, match="--overwrite"):
        train_run(generator_for("adapcla", **_SMALL), parts.train, parts.valid, tmp_path / "run")
    with pytest.raises(ExistsError, match="other settings"):
        train_run(
            generator_for("adapcla", **{**_SMALL, "width": 32}), parts.train, parts.valid, tmp_path / "run", resume=True
        )
    with pytest.raises(ExistsError, match="other training data"):
        train_run(generator_for("adapcla", **_SMALL), parts.test, parts.valid, tmp_path / "run", resume=True)


def test_a_run_that_was_killed_before_it_said_what_it_is_can_be_resumed(parts: Split, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").touch()
    (tmp_path / "run" / f".asked.json.{'0' * 32}.tmp").write_text("half")
    train_run(generator_for("adapcla", **_SMALL), parts.train, parts.valid, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "model").is_dir()
    assert not list((tmp_path / "run").glob("*.tmp"))


def test_an_overwriting_second_process_does_not_touch_a_run_in_use(parts: Split, tmp_path: Path) -> None:
    """The lock is another process's: nothing of its run may be gone when the second one is refused."""
    import fcntl
    import os

    train_run(generator_for("adapcla", **_SMALL), parts.train, parts.valid, tmp_path / "run")
    handle = os.open(tmp_path / "run" / ".lock", os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(ExistsError, match="in use"):
        train_run(generator_for("adapcla", **_SMALL), parts.train, parts.valid, tmp_path / "run", overwrite=True)
    os.close(handle)
    assert load(tmp_path / "run").method == "adapcla"
