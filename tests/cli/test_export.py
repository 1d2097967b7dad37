"""The verb `export`, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Adapcla

from adapcla.data import Attribute, Cohort

#: Two formats by hand; all of them are held by the round trips.
FORMATS = {"csv": "table", "parquet": "table"}


@pytest.mark.parametrize("to", list(FORMATS))
def test_out_and_in_again_from_the_command_line(adapcla: Adapcla, tiny_full: Cohort, tmp_path: Path, to: str) -> None:
    tiny_full.save(tmp_path / "cohort")
    out = adapcla("--quiet", "export", tmp_path / "cohort", "--to", to, "--out", tmp_path / "files", "--json")
    assert out.returncode == 0, out.stderr
    said = json.loads(out.stdout)
    assert (said["patients"], said["visits"], said["to"]) == (3, 5, to)
    assert "adapcla.json" in said["files"]
    back = adapcla("--quiet", "import", FORMATS[to], tmp_path / "files", "--out", tmp_path / "again")
    assert back.returncode == 0, back.stderr
    assert Cohort.open(tmp_path / "again").fingerprint == tiny_full.fingerprint


def test_patients_without_an_age_are_left_out_of_omop_and_counted(adapcla: Adapcla, tmp_path: Path) -> None:
    age = {"age_band": Attribute(np.array([0, -1], dtype=np.int16), ("60-69",))}
    Cohort.of([[["4019"]], [["4019"]]], attributes=age).save(tmp_path / "cohort")
    words = ("export", tmp_path / "cohort", "--to", "omop", "--out", tmp_path / "files", "--json", "--overwrite")
    out = adapcla(*words)
    said = json.loads(out.stdout)
    assert (said["patients"], said["patients left out"], said["visits"]) == (1, 1, 1)
    assert "1 patients are left out" in out.stderr
    whole = json.loads(adapcla(*words, "--birth-year", "1950", "--set", "visit_type=inpatient").stdout)
    assert (whole["patients"], whole["patients left out"]) == (2, 0)
    assert adapcla(*words, "--birth-year", "0").returncode == 2
    assert adapcla(*words, "--vocabulary", tmp_path / "absent").returncode == 3


def test_wrong_format_populated_output_and_missing_cohort(adapcla: Adapcla, tiny: Cohort, tmp_path: Path) -> None:
    tiny.save(tmp_path / "cohort")
    wrong = adapcla("export", tmp_path / "cohort", "--to", "halo", "--out", tmp_path / "files")
    assert wrong.returncode == 2
    assert "meds, omop" in wrong.stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep")
    taken = adapcla("export", tmp_path / "cohort", "--to", "csv", "--out", tmp_path / "full")
    assert taken.returncode == 4
    assert (tmp_path / "full" / "mine.txt").read_text() == "keep"
    missing = adapcla("export", tmp_path / "absent", "--to", "csv", "--out", tmp_path / "files")
    assert missing.returncode == 3
    for run in (wrong, taken, missing):
        assert "Traceback" not in run.stderr
        assert run.stdout == ""


def test_a_dry_run_says_what_an_export_would_take_and_writes_nothing(adapcla: Adapcla, tiny: Cohort, tmp_path: Path):
    tiny.save(tmp_path / "cohort")
    found = adapcla("export", tmp_path / "cohort", "--to", "csv", "--out", tmp_path / "files", "--dry-run", "--json")
    need = json.loads(found.stdout)
    assert need["seconds"] > 0 and need["disk"] > 500 and need["memory"] > 1e7 and need["workers"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["cohort"]
