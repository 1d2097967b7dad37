"""A marked cohort through every verb: no patient id, date or marked trajectory in any log, traceback or file.

Every patient id reads PZQ…X and every date is in the 1930s, so that one search finds any of them; three patients hold
codes TRIPWIRE… that nobody else has.
"""

from __future__ import annotations

import random
import re
import sys
import traceback
from datetime import date, timedelta
from pathlib import Path

import pytest

import adapcla.cli.main as cli

pytestmark = pytest.mark.behaviour

# A date stands by itself: among the digits of a score the same figures are chance.
PERSON = re.compile(rb"PZQ\d{5}X|(?<![\d.])193\d-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])(?!\d)", re.IGNORECASE)
MARK = re.compile(rb"TRIPWIRE\d", re.IGNORECASE)
TINY = ["--set", "width=16", "--set", "layers=1", "--set", "heads=2", "--set", "threads=1", "--epochs", "2"]


def rows(patients: int = 260) -> list[str]:
    """Lines of a long table, one per code."""
    draws = random.Random(1)
    codes = [f"C{number:02d}" for number in range(30)]
    lines = ["patient_id,date,code"]
    for number in range(patients):
        day = date(1931, 1, 1) + timedelta(days=draws.randrange(2_000))
        for _ in range(draws.choice((1, 2, 2, 3))):
            chosen = draws.sample(codes, draws.randint(2, 5))
            chosen += ["TRIPWIRE1", "TRIPWIRE2", "TRIPWIRE3"] if number < 3 else []
            lines += [f"PZQ{number:05d}X,{day.isoformat()},{code}" for code in chosen]
            day += timedelta(days=draws.randint(1, 300))
    return lines


class Shell:
    """Verbs run in this process; everything they print is kept."""

    def __init__(self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self.patch, self.capture, self.printed = patch, capture, ""

    def __call__(self, *arguments: str, code: int = 0) -> None:
        """Run a verb, which must end with this code; an error is shown with its traceback too."""
        self.patch.setattr(sys, "argv", ["adapcla", *arguments])
        ended: object = 0
        try:
            cli.main()
        except SystemExit as stop:
            ended = stop.code or 0
            told = stop.__context__
            if told is not None:
                self.printed += "".join(traceback.format_exception(told))
        printed = self.capture.readouterr()
        self.printed += printed.out + printed.err
        assert ended == code, printed.err


def texts(path: Path) -> bytes:
    """What a file says, Parquet unpacked."""
    if path.suffix != ".parquet":
        return path.read_bytes()
    import pyarrow.parquet as pq

    return repr(pq.read_table(path).to_pydict()).encode()


def files(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]


def test_nothing_of_a_single_person_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shell = Shell(monkeypatch, capsys)
    lines = rows()
    Path("raw.csv").write_text("\n".join(lines) + "\n")
    Path("torn.csv").write_text("\n".join([*lines[:40], lines[40] + ",surplus,TRIPWIRE1", *lines[41:]]) + "\n")
    Path("codes.csv").write_text("\n".join([*lines[:40], lines[40].replace(",C", ",=TRIPWIRE9+C"), *lines[41:]]) + "\n")
    shell("import", "table", "raw.csv", "--out", "cohort")
    shell("import", "table", "torn.csv", "--out", "torn", code=3)
    shell("import", "table", "codes.csv", "--out", "codes")
    shell("describe", "cohort")
    shell("split", "cohort", "--out", "parts")
    shell("train", "cohort", "--out", "run", *TINY)
    shell("train", "cohort", "--out", "shared", "--shareable", *TINY)
    shell("train", "cohort", "--out", "run", "--resume", *TINY, "--set", "width=32", code=4)
    shell("sample", "run", "--patients", "60", "--out", "sample")
    shell("prior", "export", "cohort", "--out", "prior.csv")
    cohorts = ["--train", "parts/train", "--test", "parts/test", "--synthetic", "sample", "--set", "cache=cache"]
    shell("evaluate", *cohorts, "--quick", "--suites", "tail,fidelity", "--out", "scores")

    assert MARK.search(Path("raw.csv").read_bytes()) and PERSON.search(Path("raw.csv").read_bytes())
    assert not PERSON.search(shell.printed.encode()), PERSON.search(shell.printed.encode())
    assert not MARK.search(shell.printed.encode()), MARK.search(shell.printed.encode())
    made = files(*(path for path in tmp_path.iterdir() if path.is_dir()))
    assert len(made) > 30
    assert [path for path in made if PERSON.search(texts(path))] == []
    shareable = [*files(Path("shared"), Path("scores"), Path("cache")), Path("run/journal.jsonl"), Path("prior.csv")]
    assert [path for path in shareable if MARK.search(texts(path))] == []


def test_what_is_searched_for_is_a_date_and_not_the_digits_of_a_score() -> None:
    assert PERSON.search(b"on 1931-10-03,") and PERSON.search(b'"19311003"') and PERSON.search(b"pzq00012x")
    assert not PERSON.search(b"0.5401919301200567") and not PERSON.search(b"0.19310101")
