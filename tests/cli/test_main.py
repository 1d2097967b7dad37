"""The command line: verbs, exit codes, one to three lines for a failure, and what goes to which stream."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import adapcla.cli.main as cli
from adapcla import errors
from adapcla.version import __version__


def adapcla(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "adapcla", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, **environment},
    )


def ended(monkeypatch, capsys, failure: BaseException) -> tuple[int, str]:
    """The exit code and stderr of a command line whose verb fails in this way."""

    def fail() -> None:
        raise failure

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setenv("ADAPCLA_DEBUG", "")
    with pytest.raises(SystemExit) as end:
        cli.main()
    shown = capsys.readouterr()
    assert shown.out == ""
    return int(end.value.code or 0), shown.err


# ---- failures ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("failure", "code", "text"),
    [
        (errors.AdapclaError("x"), 1, "adapcla: x\n"),
        (errors.UsageError("x"), 2, "adapcla: x\n"),
        (errors.InputError("x", path="a.csv", row=2, remedy="y"), 3, "adapcla: a.csv, row 2: x\nto do: y\n"),
        (errors.ExistsError("x"), 4, "adapcla: x\n"),
        (errors.GateError("x"), 5, "adapcla: x\n"),
        (errors.InterruptedRun("x"), 130, "adapcla: x\n"),
        (KeyboardInterrupt(), 130, "adapcla: interrupted\n"),
        (PermissionError(13, "Permission denied", "out"), 1, "adapcla: out: Permission denied\n"),
    ],
)
def test_failures_are_lines_and_codes(monkeypatch, capsys, failure, code, text):
    assert ended(monkeypatch, capsys, failure) == (code, text)


class Panic(BaseException):
    """What a library written in another language may raise."""


@pytest.mark.parametrize("failure", [RuntimeError("patient 17"), Panic("patient 17"), OSError("patient 17")])
def test_the_unexpected_is_named_without_its_content(monkeypatch, capsys, failure):
    code, text = ended(monkeypatch, capsys, failure)
    assert code == 1
    assert text == f"adapcla: unexpected {type(failure).__name__}; run again with --debug to see where\n"


def test_debug_shows_where(monkeypatch):
    def fail() -> None:
        raise errors.InputError("x")

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setenv("ADAPCLA_DEBUG", "1")
    with pytest.raises(errors.InputError):
        cli.main()


def test_an_orderly_end_stays_orderly(monkeypatch):
    def end() -> None:
        raise SystemExit(7)

    monkeypatch.setattr(cli, "app", end)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 7


# ---- the real thing ---------------------------------------------------------------------------------------
def shown() -> list[str]:
    return [verb for verb in cli.VERBS if not cli.verb_of(verb).hidden]


def test_help_lists_every_verb_on_stdout():
    ran = adapcla("--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    for verb in shown():
        assert f"\n  {verb} " in ran.stdout
    assert "prior" not in ran.stdout and "judge" not in ran.stdout


@pytest.mark.parametrize("verb", list(cli.VERBS))
def test_every_verb_explains_itself(verb):
    ran = adapcla(verb, "-h")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Usage" in ran.stdout


def test_version_alone_is_enough():
    ran = adapcla("--version")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{__version__}\n", "")


@pytest.mark.parametrize("arguments", [("nonsense",), ("describe",), ("describe", "x", "--nonsense"), ("--nonsense",)])
def test_wrong_usage_is_two_and_says_what(arguments):
    ran = adapcla(*arguments)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr
    assert "rror" in ran.stderr


def test_missing_input_is_three_with_path_and_remedy(tmp_path):
    ran = adapcla("describe", str(tmp_path / "nothing"))
    assert ran.returncode == 3
    assert str(tmp_path / "nothing") in ran.stderr
    assert "to do: " in ran.stderr
    assert len(ran.stderr.splitlines()) <= 3


def test_debug_is_the_only_way_to_a_traceback(tmp_path):
    assert "Traceback" not in adapcla("describe", str(tmp_path / "nothing")).stderr
    assert "Traceback" in adapcla("--debug", "describe", str(tmp_path / "nothing")).stderr
    assert "Traceback" in adapcla("describe", str(tmp_path / "nothing"), ADAPCLA_DEBUG="1").stderr


def test_verbs_are_shown_in_their_order_with_their_whole_first_line():
    ran = adapcla("--help")
    places = [ran.stdout.index(f"\n  {verb} ") for verb in shown()]
    assert places == sorted(places) and places[5] > ran.stdout.index("Further commands") > places[4]
    for verb in shown():
        assert " ".join(cli.verb_of(verb).summary.split()) in " ".join(ran.stdout.split())


def test_there_are_few_verbs_and_few_options():
    """Counted at each verb; options that every verb has count once."""
    common = {"help", "seed", "quick", "overwrite", "as_json", "assigned", "assigned_reading"}
    commands = {verb: cli.commands_of(verb)[verb] for verb in shown()}
    options = [
        (verb, p.name) for verb, command in commands.items() for p in command.params if p.opts[0].startswith("-")
    ]
    assert len(commands) == 14
    assert len([name for _, name in options if name.removeprefix("set_") not in common]) <= 110


def test_a_misspelt_verb_gets_a_suggestion():
    assert "'describe'" in adapcla("descrbe").stderr


def test_calling_one_verb_loads_no_other():
    script = (
        "import sys; sys.argv = ['adapcla', 'describe', '-h']; from adapcla.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted(n for n in sys.modules if n.startswith('adapcla.cli.')))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert ran.stdout.splitlines()[-1] == "['adapcla.cli.data', 'adapcla.cli.main', 'adapcla.cli.options']"
