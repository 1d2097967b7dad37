"""`python -m adapcla`."""

from __future__ import annotations

import subprocess
import sys

from adapcla.version import __version__


def test_the_package_is_a_command():
    ran = subprocess.run([sys.executable, "-m", "adapcla", "--version"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{__version__}\n", "")


def test_a_failure_is_a_line_and_a_code_here_too():
    ran = subprocess.run(
        [sys.executable, "-m", "adapcla", "run", "no.toml"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2 and ran.stderr.startswith("adapcla: no.toml") and "Traceback" not in ran.stderr
