"""One model at every door: Python, the command line, an experiment and a release give the same weights, to the byte."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

import adapcla
from adapcla.cli.main import app
from adapcla.data.split import ControlledSplit
from adapcla.data.split_folder import open_splits, save_splits
from adapcla.generation import load
from adapcla.io.simulator import simulate

#: So small that it is trained in seconds; what is compared is left to be chosen: method, passes, batches, rate.
SMALL = {"width": 16, "layers": 1, "heads": 2}
FIT = [f"--set=fit.settings.{name}={value}" for name, value in SMALL.items()]
QUICK = ["--set=evaluate.quick=true", '--set=evaluate.suites=["tail"]', "--set=evaluate.leave_out=[]"]


def run(*words: object) -> None:
    """A command line; a release that the gate refuses has a model all the same."""
    result = CliRunner().invoke(app, ["--quiet", *(str(word) for word in words)])
    assert getattr(result.exception, "exit_code", result.exit_code) in (0, 5), result.output


def weights(place: Path) -> bytes:
    """The weights of the only model in a folder."""
    (found,) = place.rglob("weights.safetensors")
    return found.read_bytes()


def test_the_same_patients_and_settings_give_the_same_model(tmp_path: Path) -> None:
    """Every code is common, so that a release rolls nothing up and has the patients that the others have."""
    whole = simulate(800, 60, seed=1)
    parts = whole.split(control=0.15)
    whole = whole.keep_codes(parts.train.patient_counts >= 40)
    parts = whole.split(control=0.15)
    assert isinstance(parts, ControlledSplit)
    whole.save(tmp_path / "cohort")
    save_splits(parts._asdict(), tmp_path / "parts")
    adapcla.train(parts, **SMALL).save(tmp_path / "python")
    run("train", tmp_path / "parts", "--out", tmp_path / "train", *(f"--set={k}={v}" for k, v in SMALL.items()))
    (tmp_path / "one.toml").write_text(
        f'name = "one"\n[data]\nsource = "cohort"\npath = "{tmp_path / "cohort"}"\n[split]\ncontrol = 0.15\n'
    )
    run("run", tmp_path / "one.toml", "--out", tmp_path / "runs", *FIT, *QUICK)
    run("synthesize", tmp_path / "cohort", "--out", tmp_path / "release", "--minutes=60", *FIT, *QUICK)
    work = tmp_path / "release-work"
    (patients,) = {path.parent for path in work.rglob("patients/train")}
    # A release hides rare attributes and orders its codes anew.
    of_release = ControlledSplit(**open_splits(patients))
    assert of_release.train.n_entries == parts.train.n_entries
    adapcla.train(of_release, **SMALL).save(tmp_path / "python again")
    first = weights(tmp_path / "python")
    assert weights(tmp_path / "train") == first
    assert weights(tmp_path / "runs") == first
    assert weights(work) == weights(tmp_path / "python again")
    assert load(tmp_path / "python").method == "tailwise"
