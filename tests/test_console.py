"""What people see: never on stdout, nothing when quiet, sparse lines in logs, a bar on a terminal."""

from __future__ import annotations

import io
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
