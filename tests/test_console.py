"""What people see: never on stdout, nothing when quiet, sparse lines in logs, a bar on a terminal."""

from __future__ import annotations

import io
import json
import sys

import pytest

from adapcla import console


@pytest.fixture(autouse=True)
def loud(monkeypatch):
    monkeypatch.delenv("ADAPCLA_QUIET", raising=False)


def test_lines_go_to_stderr(capsys):
    console.say("hello")
    assert capsys.readouterr() == ("", "hello\n")


@pytest.mark.parametrize(("value", "silent"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_quiet_is_asked_for_by_the_environment(monkeypatch, capsys, value, silent):
    monkeypatch.setenv("ADAPCLA_QUIET", value)
    assert console.quiet() == silent
    console.say("hello")
    with console.meter("work", 1) as bar:
        bar.advance()
    assert (capsys.readouterr().err == "") == silent


def test_a_log_gets_one_line_every_ten_seconds_and_one_at_the_end(monkeypatch, capsys):
    """Steps at 1 s, 11 s, 12 s and 20 s: the second is due, the third is not, the last ends the work."""
    clock = iter([0.0, 1.0, 11.0, 12.0, 20.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    with console.meter("training", 4) as bar:
        for _ in range(4):
            bar.advance(note="loss 1.0")
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["training 2/4 loss 1.0 [11s, 11s left]", "training 4/4 loss 1.0 [20s, 0s left]"]


def test_a_terminal_gets_a_bar_on_stderr(monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with console.meter("sampling", 3) as bar:
        bar.advance(3, note="done")
    assert "sampling" in screen.getvalue()
    assert "3/3" in screen.getvalue()
    assert capsys.readouterr().out == ""


def test_work_without_steps_is_no_division_by_zero(capsys):
    with console.meter("nothing", 0) as bar:
        bar.advance(0)
    assert "nothing 0/0" in capsys.readouterr().err


# ---- one bar over everything --------------------------------------------------------------------------------
def test_one_bar_follows_the_steps_and_what_is_counted_inside_them(monkeypatch, capsys):
    """Two steps of about 10 s: three quarters of the first take 11 s, so that 4 s of it and 10 s are left."""
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    with console.overall_progress("release") as whole:
        whole.begin("train", 10, 10)
        with console.meter("training", 4) as bar:
            now[0] = 5.0
            bar.advance(2, note="loss 1.0")
            now[0] = 11.0
            bar.advance(1, note="loss 0.9")
        whole.begin("write", 10, 0)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "release   0% train [0s, about 20s left]"
    assert lines[1].startswith("release") and "train loss 0.9 [11s, about 14s left]" in lines[1]
    assert "write [11s, about 10s left]" in lines[2] and len(lines) == 3


def test_the_bar_never_goes_back_when_a_step_counts_twice(monkeypatch):
    shown = []
    whole = console.OverallProgress("x", lambda share, left, note: shown.append(share))
    whole.begin("judge", 10, 0)
    whole.update(0.6)
    whole.update(0.1)
    assert whole._share == 0.6


def test_one_bar_is_silent_when_quiet_and_a_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("ADAPCLA_QUIET", "1")
    with console.overall_progress("release") as whole:
        whole.begin("train", 1, 1)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("ADAPCLA_QUIET", "")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with console.overall_progress("release") as whole:
        whole.begin("train", 1, 1)
        with console.meter("inside", 2) as bar:
            bar.advance(1)
    assert "release" in screen.getvalue() and "inside" not in screen.getvalue()


def test_an_error_inside_takes_the_bar_away():
    with pytest.raises(ValueError), console.overall_progress("release"):
        raise ValueError
    assert console._OVERALL == []


def test_a_program_that_watches_finds_how_far_the_work_is(monkeypatch, tmp_path, capsys):
    """Steps at 1 s, 1.2 s and 2 s: the second comes too soon after the first, the last is always written."""
    monkeypatch.setenv(console.PROGRESS, str(tmp_path / "progress.json"))
    monkeypatch.setattr(console, "_WRITTEN", [0.0])
    clock = iter([0.0, 1.0, 1.2, 2.0])
    monkeypatch.setattr(console.time, "monotonic", lambda: next(clock))
    seen = []
    with console.meter("training", 4) as bar:
        for n, note in ((1, "a"), (1, "b"), (2, "c")):
            bar.advance(n, note)
            seen.append(json.loads((tmp_path / "progress.json").read_text()))
    first = {"share": 0.25, "left": 3.0, "what": "training a"}
    assert seen == [first, first, {"share": 1.0, "left": 0.0, "what": "training c"}]
    assert [path.name for path in tmp_path.iterdir()] == ["progress.json"]


def test_the_one_bar_leaves_word_too_and_a_folder_that_is_gone_stops_nothing(monkeypatch, tmp_path):
    place = tmp_path / "progress.json"
    monkeypatch.setenv(console.PROGRESS, str(place))
    monkeypatch.setattr(console, "_WRITTEN", [-1e9])
    with console.overall_progress("release") as whole:
        whole.begin("train", 10.0, 5.0)
        word = json.loads(place.read_text())
        assert word["what"] == "train" and word["left"] == pytest.approx(15.0, abs=1.0) and 0 <= word["share"] < 0.5
        monkeypatch.setenv(console.PROGRESS, str(tmp_path / "gone" / "progress.json"))
        monkeypatch.setattr(console, "_WRITTEN", [-1e9])
        whole.update(1.0)


def test_without_a_name_nothing_is_written(monkeypatch, tmp_path):
    monkeypatch.delenv(console.PROGRESS, raising=False)
    monkeypatch.chdir(tmp_path)
    console.write_progress(0.5, 1.0, "x", 1e9)
    assert list(tmp_path.iterdir()) == []
