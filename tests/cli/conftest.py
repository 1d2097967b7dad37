"""The command line inside of the test's own process: starting another one takes seconds, mostly to load torch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest

from adapcla.cli.main import main

Adapcla = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def adapcla(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Adapcla:
    """Run `adapcla WORDS`; what comes back has the exit code and what went to which stream."""
    before = dict(os.environ)

    def run(*words: object) -> CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["adapcla", *map(str, words)])
        # Options that every verb knows are passed on in the environment.
        for name in ("ADAPCLA_QUIET", "ADAPCLA_DEBUG", "OMP_NUM_THREADS"):
            monkeypatch.setenv(name, before.get(name, ""))
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        shown = capsys.readouterr()
        return CompletedProcess(list(map(str, words)), code, shown.out, shown.err)

    return run
