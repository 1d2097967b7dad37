"""Environments of judges, with one that needs nothing installed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from adapcla.files import read_json
from adapcla.judges import environments
from adapcla.judges.environments import READY, CannotInstall, Environments, clean_environment, default_folder, python_of
from adapcla.judges.table import JUDGES

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
BARE = replace(JUDGES["sdmetrics"], name="bare", requirements=(), python=HERE)


def test_an_environment_is_made_once_and_sees_no_package_of_ours(tmp_path, monkeypatch):
    python = Environments(tmp_path).interpreter(BARE)
    ask = [python, "-I", "-c", "import sys, importlib.util; print(sys.prefix, importlib.util.find_spec('adapcla'))"]
    prefix, found = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()
    assert Path(prefix) == tmp_path / BARE.folder / "venv"
    assert found == "None"
    monkeypatch.setattr(environments, "_run", lambda *_: pytest.fail("made again"))
    assert Environments(tmp_path).interpreter(BARE) == python


def test_one_that_was_left_unfinished_is_made_again(tmp_path):
    python = Environments(tmp_path).interpreter(BARE)
    (tmp_path / BARE.folder / READY).unlink()
    python.unlink()
    assert Environments(tmp_path).interpreter(BARE).exists()
    assert read_json(tmp_path / BARE.folder / READY)["python"] == HERE


def test_a_failed_installation_says_why_and_leaves_nothing_that_looks_ready(tmp_path, monkeypatch):
    def run(command, seconds):
        if "pip" in command:
            raise CannotInstall("could not be installed: ERROR: No matching distribution")

    monkeypatch.setattr(environments, "_run", run)
    with pytest.raises(CannotInstall, match="No matching"):
        Environments(tmp_path).interpreter(replace(BARE, requirements=("nothing==1",)))
    assert not (tmp_path / f"nothing==1-py{HERE}" / READY).exists()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import sys; print('noise\\nERROR: no such thing\\nmore', file=sys.stderr); sys.exit(1)", "no such thing"),
        ("import time; time.sleep(30)", "in 1 s"),
    ],
)
def test_the_reason_of_a_failure_is_the_line_that_names_it(script, reason):
    with pytest.raises(CannotInstall, match=reason):
        environments._run([sys.executable, "-c", script], 1 if "sleep" in script else 60)


def test_a_program_that_is_not_there_is_a_reason_too():
    with pytest.raises(CannotInstall, match="No such file"):
        environments._run(["/nowhere/python"], 5)


def test_a_python_that_is_not_there_is_named():
    with pytest.raises(CannotInstall, match=r"needs Python 2\.0"):
        python_of("2.0")


def test_a_launcher_without_that_version_is_not_taken(tmp_path, monkeypatch):
    """Version managers put a pythonX.Y on PATH that only says that it is not installed."""
    shim = tmp_path / "python9.9"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotInstall):
        python_of("9.9")
    shim.write_text("#!/bin/sh\necho 9.9\n")
    assert python_of("9.9") == shim


def test_the_given_interpreter_comes_first_where_it_is_of_the_version():
    assert python_of(HERE, Path(sys.executable)) == Path(sys.executable)
    assert python_of(HERE, Path("/nowhere")) == Path(sys.executable)


def test_the_folder_is_the_users_choice(monkeypatch, tmp_path):
    monkeypatch.setenv("ADAPCLA_JUDGES", str(tmp_path))
    assert default_folder() == tmp_path
    monkeypatch.delenv("ADAPCLA_JUDGES")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "adapcla" / "judges"


def test_other_interpreters_are_not_led_to_our_packages(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    cleaned = clean_environment(HOME="elsewhere")
    assert "PYTHONPATH" not in cleaned
    assert cleaned["HOME"] == "elsewhere"
