"""Several processes, started by `accelerate launch`, do what one does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adapcla.errors import InterruptedRun
from adapcla.generation import generator_for
from adapcla.generation.run_folder import train_run
from adapcla.io import simulator as planted
from adapcla.training.loop import Loop

pytestmark = pytest.mark.behaviour

#: 187 training patients in batches of 93: the last batch of a pass is one patient, and one process has none of it.
#: Dropout differs between processes, as it does between batches, so it is off where curves are compared.
SETTINGS = {
    "width": 16, "layers": 1, "heads": 2, "passes": 3, "batch_size": 93, "validations": 3, "dropout": 0.0,
    "rows_at_once": 64, "threads": 1,
}  # fmt: skip

TRAIN = f"""
import sys
from adapcla.generation import generator_for
from adapcla.generation.run_folder import train_run
from adapcla.io import simulator as planted
train, valid, _ = planted.simulate(patients=260, codes=60, seed=1).split(seed=4)
for folder in sys.argv[1:]:
    train_run(generator_for("adapcla", **{SETTINGS!r}), train, valid, folder, resume=True)
"""


def launched(script: str, folder: Path, n: int, *arguments: Path) -> subprocess.CompletedProcess[str]:
    """The script, run by n processes to its end."""
    path = folder / "script.py"
    path.write_text(script)
    flags = ["--multi_gpu", "--num_machines=1", "--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0"]
    launcher = [sys.executable, "-m", "accelerate.commands.launch", *flags, f"--num_processes={n}"]
    return subprocess.run(
        [*launcher, str(path), *map(str, arguments)],
        cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def curve(run: Path) -> list[tuple[str, int, float]]:
    """Losses of steps and validations, in order."""
    lines = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    return [(line["kind"], line["step"], line["loss"]) for line in lines]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole run of one process, and with one that was stopped after its second step."""
    folder = tmp_path_factory.mktemp("processes")
    train, valid, _ = planted.simulate(patients=260, codes=60, seed=1).split(seed=4)
    train_run(generator_for("adapcla", **SETTINGS), train, valid, folder / "one")
    original = Loop._one_step

    def step(self: Loop, bar: object) -> None:
        self.stop_asked = self.step == 1
        original(self, bar)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch, pytest.raises(InterruptedRun):
        patch.setattr(Loop, "_one_step", step)
        train_run(generator_for("adapcla", **SETTINGS), train, valid, folder / "stopped")
    return folder


def test_two_processes_train_as_one_does_and_take_over_its_checkpoint(runs: Path) -> None:
    ended = launched(TRAIN, runs, 2, runs / "two", runs / "stopped")
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "begun by 1 processes, goes on with 2" in ended.stderr
    alone = curve(runs / "one")
    assert len(alone) == 12
    for name in ("two", "stopped"):
        together = curve(runs / name)
        assert [line[:2] for line in together] == [line[:2] for line in alone]
        assert [line[2] for line in together] == pytest.approx([line[2] for line in alone], rel=1e-4)
        assert {path.name for path in (runs / name).iterdir()} == {path.name for path in (runs / "one").iterdir()}
