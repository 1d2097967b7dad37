"""A virtual environment for each judge: made on first use, used offline after that."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from adapcla.console import say
from adapcla.errors import AdapclaError
from adapcla.files import folder_lock, read_json, write_bytes, write_json
from adapcla.judges.table import Judge

#: Written last: an environment without it is unfinished and is made again.
READY = "ready.json"
#: Seconds that an installation may take.
INSTALL_SECONDS = 1800
#: What must not reach a program in another environment.
_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


class CannotInstall(AdapclaError):
    """A judge whose environment cannot be made; the text says why."""


def default_folder() -> Path:
    """Where environments are kept: below ADAPCLA_JUDGES, else in the user's cache."""
    given = os.environ.get("ADAPCLA_JUDGES")
    return (
        Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "adapcla" / "judges"
    )


def python_of(version: str, given: Path | None = None) -> Path:
    """The interpreter of a version such as 3.11: the given one if it is that, this one, or the first on PATH.

    >>> python_of(f"{sys.version_info.major}.{sys.version_info.minor}") == Path(sys.executable)
    True
    """
    candidates = [given, Path(sys.executable), *_on_path(version)]
    for candidate in candidates:
        if candidate is not None and _version_of(candidate) == version:
            return candidate
    raise CannotInstall(f"needs Python {version}, which was not found (python{version} on PATH, or --python PATH)")


def _on_path(version: str) -> list[Path]:
    """Programs called pythonX.Y in the folders of PATH."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    return [path for folder in folders if (path := Path(folder) / f"python{version}").is_file()]


def _version_of(python: Path) -> str:
    """The version that an interpreter says it is; nothing where it does not run, as launchers without a version do."""
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        ran = subprocess.run([python, "-I", "-c", ask], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""


@dataclass(frozen=True)
class Environments:
    """The environments below one folder."""

    folder: Path
    #: An interpreter that the user named, for judges of its version.
    python: Path | None = None
    seconds: int = INSTALL_SECONDS

    def interpreter(self, judge: Judge) -> Path:
        """The interpreter of a judge's environment, which is made if it is not there."""
        home = self.folder / judge.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        with folder_lock(home):
            if not self._ready(home, judge):
                self._make(home, judge)
        return home / "venv" / "bin" / "python"

    @staticmethod
    def _ready(home: Path, judge: Judge) -> bool:
        """Whether the environment is complete and of these requirements."""
        if not (home / READY).is_file():
            return False
        known = read_json(home / READY)
        return known.get("requirements") == list(judge.requirements) and known.get("constraints") == list(
            judge.constraints
        )

    def _make(self, home: Path, judge: Judge) -> None:
        """Make the environment and install the judge, whole or not at all."""
        python = python_of(judge.python, self.python)
        say(f"{judge.name}: making its environment with Python {judge.python}, once")
        shutil.rmtree(home / "venv", ignore_errors=True)
        pins = home / "constraints.txt"
        write_bytes(pins, "".join(f"{pin}\n" for pin in judge.constraints).encode())
        try:
            bare = [] if judge.requirements else ["--without-pip"]
            _run([str(python), "-m", "venv", *bare, str(home / "venv")], self.seconds)
            if judge.requirements:
                pip = [str(home / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "-c", str(pins)]
                _run([*pip, *judge.requirements], self.seconds)
        except CannotInstall:
            shutil.rmtree(home / "venv", ignore_errors=True)
            raise
        asked = {"requirements": list(judge.requirements), "constraints": list(judge.constraints)}
        write_json(home / READY, {**asked, "python": judge.python})


def clean_environment(**more: str) -> dict[str, str]:
    """The variables of this process without those that would lead another interpreter to our packages."""
    return {**{name: value for name, value in os.environ.items() if name not in _OURS}, **more}


def _run(command: list[str], seconds: int) -> None:
    """Run a step of an installation; a failure says the last line that names an error."""
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False, env=clean_environment()
        )
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"could not be installed in {seconds:,} s") from None
    except OSError as error:
        raise CannotInstall(f"could not be installed: {error.strerror}") from None
    if ran.returncode != 0:
        lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no reason given"]
        raise CannotInstall(f"could not be installed: {errors[-1][:200]}")
