"""Jobs: verbs of the command line, each in a process of its own that lives on when the studio is closed.

The words of a job are made from the same settings as the options of its verb; the verb itself checks them.

A job is a folder: `job.json` (the command), `stdout.txt`, `stderr.txt`, `progress.json`, and `exit.json` when it has
ended. Whether a job runs is known by a lock that its process holds, so that no number of a dead process can deceive.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from adapcla.console import PROGRESS
from adapcla.errors import InputError
from adapcla.files import read_json, write_json
from adapcla.pipeline.options import Option, arguments_of

State = Literal["running", "done", "stopped", "failed", "lost"]
JOB, EXIT, OUT, ERR, WORD, LOCK = "job.json", "exit.json", "stdout.txt", "stderr.txt", "progress.json", "lock"
#: What `exit.json` holds after Ctrl-C, a signal to end, and a gate that was not met.
INTERRUPTED, GATE_CLOSED = (130, -signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGTERM), 5
#: Most bytes of what a command said that are looked at.
_MOST_TEXT = 200_000


def command_words(
    verb: str,
    *places: str,
    options: Mapping[str, Option] | None = None,
    given: Mapping[str, Any] | None = None,
    **more: Any,
) -> list[str]:
    """The words of a verb.

    Args:
        verb: Its name.
        places: What stands behind it: paths, which cannot be taken for options, and names.
        options: The options that its settings are given by.
        given: The settings; those that are as usual need no word.
        more: Options of the verb itself; True is a flag.

    >>> command_words("describe", "-a", figure="a.svg")
    ['describe', './-a', '--figure=a.svg', '--json']
    """
    out = [verb, *(f"./{place}" if place.startswith("-") else place for place in places)]
    for name, value in more.items():
        flag = "--" + name.replace("_", "-")
        out += [flag] if value is True else [] if value is False else [f"{flag}={value}"]
    return [*out, *arguments_of(options or {}, given or {}), "--json"]


@dataclass(frozen=True)
class Job:
    """One command line and what came of it."""

    folder: Path
    #: The words behind `adapcla`.
    command: tuple[str, ...]
    #: What it is for, in words, and by keys that pages find it by.
    title: str
    about: Mapping[str, str]
    #: Seconds since 1970.
    started: float
    #: The folder that the command was called in.
    where: Path

    @property
    def name(self) -> str:
        """What tells the job from all others."""
        return self.folder.name

    @property
    def line(self) -> str:
        """The command as somebody would type it."""
        return shlex.join(["adapcla", *self.command])

    # ---- what came of it ------------------------------------------------------------------------------------
    @property
    def code(self) -> int | None:
        """The exit code; None while it runs, or where nobody lived to write it."""
        with suppress(InputError):
            return int(read_json(self.folder / EXIT)["code"])
        return None

    @property
    def state(self) -> State:
        """How it stands; `lost` is a process that was killed from outside."""
        code = self.code
        if code is None and _is_held(self.folder / LOCK):
            return "running"
        code = self.code if code is None else code
        if code is None:
            return "lost"
        # A gate that was not met is an answer, with a page.
        return "done" if code in (0, GATE_CLOSED) else "stopped" if code in INTERRUPTED else "failed"

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        return self.state == "running"

    @property
    def seconds(self) -> float:
        """How long it has run."""
        with suppress(InputError):
            return float(read_json(self.folder / EXIT)["ended"]) - self.started
        return time.time() - self.started

    @property
    def said(self) -> str:
        """What it said to people."""
        return _end_of(self.folder / ERR)

    @property
    def message(self) -> str:
        """The message that it ended with: what was found, what was expected and what to do; empty where all is well."""
        lines = self.said.splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith("adapcla: ")]
        if starts:
            return "\n".join(lines[starts[-1] :]).removeprefix("adapcla: ").strip()
        return "\n".join(lines[-3:]) if self.state in ("failed", "lost") else ""

    @property
    def result(self) -> dict[str, Any]:
        """The JSON object that it printed last; empty where there is none."""
        for line in reversed(_end_of(self.folder / OUT, 50_000_000).splitlines()):
            with suppress(ValueError):
                content = json.loads(line)
                if isinstance(content, dict):
                    return content
        return {}

    @property
    def progress(self) -> dict[str, Any]:
        """How far it is: `share`, seconds `left` and `what`; empty before it has said so."""
        with suppress(InputError):
            return read_json(self.folder / WORD)
        return {}

    # ---- what can be done -----------------------------------------------------------------------------------
    def stop(self) -> None:
        """Ask it to stop, as Ctrl-C does: training ends with a checkpoint."""
        with suppress(InputError, ProcessLookupError, PermissionError):
            if self.running:
                os.killpg(int(read_json(self.folder / "pid.json")["pid"]), signal.SIGINT)

    def again(self) -> Job:
        """The same command once more; what it finished before is taken up by the command itself."""
        return start(self.folder.parent, self.command, self.title, self.about, self.where)


def start(jobs: Path, command: Sequence[str], title: str, about: Mapping[str, str], where: Path) -> Job:
    """A new job that runs by itself from now on."""
    folder = jobs / f"{time.time_ns() // 1_000_000:013d}-{secrets.token_hex(3)}"
    folder.mkdir(parents=True, mode=0o700)
    job = Job(folder, tuple(command), title, dict(about), time.time(), where)
    content = {"command": list(job.command), "title": title, "about": dict(about), "started": job.started}
    write_json(folder / JOB, {**content, "where": str(where)})
    environment = {**os.environ, PROGRESS: str(folder / WORD), "ADAPCLA_QUIET": "", "ADAPCLA_DEBUG": ""}
    call = [sys.executable, "-m", "adapcla.studio.jobs", str(folder), *job.command]
    with _held(folder / LOCK) as lock:
        process = subprocess.Popen(
            call,
            cwd=where,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[lock],
        )
        write_json(folder / "pid.json", {"pid": process.pid})
    _CHILDREN[process.pid] = process
    return job


#: Processes that this one started: looked at now and then, so that those that have ended are let go.
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}


def jobs_in(folder: Path, **about: str) -> list[Job]:
    """The jobs in a folder with these keys, the newest first."""
    for pid in [pid for pid, process in _CHILDREN.items() if process.poll() is not None]:
        del _CHILDREN[pid]
    return [
        job for job in map(job_at, sorted(folder.glob("*/"), reverse=True)) if job is not None and _is_of(job, about)
    ]


def newest(folder: Path, **about: str) -> Job | None:
    """The newest job with these keys."""
    return next(iter(jobs_in(folder, **about)), None)


def _is_of(job: Job, about: Mapping[str, str]) -> bool:
    return all(job.about.get(key) == value for key, value in about.items())


def job_at(folder: Path) -> Job | None:
    """The job in a folder; None where it is not whole."""
    try:
        content = read_json(folder / JOB)
        about = {str(key): str(value) for key, value in content["about"].items()}
        command = tuple(str(word) for word in content["command"])
        return Job(folder, command, str(content["title"]), about, float(content["started"]), Path(content["where"]))
    except (InputError, KeyError, TypeError, ValueError, AttributeError):
        return None


@contextmanager
def _held(path: Path) -> Iterator[int]:
    """A lock that lives as long as any process has it open."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _is_held(path: Path) -> bool:
    """Whether a process has the lock."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _end_of(path: Path, most: int = _MOST_TEXT) -> str:
    """The end of a text file; empty where there is none."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(path.stat().st_size - most, 0))
            return stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


# ---- the process of a job ---------------------------------------------------------------------------------------
def carry_out(folder: Path, command: Sequence[str]) -> int:
    """The exit code of the verb, after it was written to the job's folder.

    This is a process of its own, so that the code is there even if the studio that started it is gone. Signals to the
    group reach the verb; this process only waits.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A handler that does nothing: unlike a signal that is ignored, it is not handed down to the verb.
        signal.signal(number, lambda *_: None)
    with (folder / OUT).open("wb") as out, (folder / ERR).open("wb") as err:
        verb = subprocess.Popen(
            [sys.executable, "-m", "adapcla", *command], stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        code = verb.wait()
    write_json(folder / EXIT, {"code": code, "ended": time.time()})
    return code


if __name__ == "__main__":
    carry_out(Path(sys.argv[1]), sys.argv[2:])
