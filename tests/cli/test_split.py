"""`adapcla split` writes the very parts that training uses."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from adapcla.cli.main import app
from adapcla.data import Cohort


def test_parts_are_those_of_the_cohort(tmp_path: Path) -> None:
    cohort = Cohort.of([[[f"C{i}"]] for i in range(50)])
    cohort.save(tmp_path / "c")
    words = ["--quiet", "split", str(tmp_path / "c"), "--out", str(tmp_path / "parts"), "--control", "0.1", "--json"]
    result = CliRunner().invoke(app, words)
    assert json.loads(result.stdout) == {
        "out": str(tmp_path / "parts"), "train": 31, "valid": 4, "test": 10, "control": 5,
    }  # fmt: skip
    for name, part in cohort.split(seed=4, control=0.1)._asdict().items():
        assert Cohort.open(tmp_path / "parts" / name).fingerprint == part.fingerprint
