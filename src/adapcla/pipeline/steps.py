"""One chain of steps: each is done once for its key, resumes where it was stopped, and leaves a record in its folder.

A step's key follows from its inputs and from the keys of the steps before it, so nobody writes keys. A step is a
function of a folder: it reads the folders of the steps before it, writes its own, and shares no state with them. So it
may run in another process: on a cluster (`adapcla.engine`) each step is a task, and steps that do not wait for each
other run side by side.
"""

from __future__ import annotations

import hashlib
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from adapcla import engine
from adapcla.console import OverallProgress, kept_lines, say
from adapcla.errors import AdapclaError, InputError, InterruptedRun
from adapcla.files import crash_point, folder_lock, json_bytes, read_json, write_bytes, write_json

#: The record of a finished step; other programs find the folders of steps by this name.
RECORD = "stage.json"
#: What a record holds beside the facts that the step found.
_OF_THE_RUN = ("key", "revision", "seconds", "processor seconds")
#: Endings of files that a page is made by.
_SOURCE = (".py", ".html", ".css", ".js")
#: (method, seed) of a study → why it failed, in this process.
Failures = dict[tuple[str, int], str]


def key_of(*parts: Any) -> str:
    """A short hash of JSON-like parts.

    >>> key_of({"a": 1}) == key_of({"a": 1}), key_of(1) == key_of(2)
    (True, False)
    """
    return hashlib.sha256(json_bytes(list(parts))).hexdigest()[:16]


def record(folder: Path) -> dict[str, Any]:
    """What is known of a finished step; empty where it is not finished."""
    try:
        return read_json(folder / RECORD) if (folder / RECORD).is_file() else {}
    except InputError:
        # A torn record is no record: the step is done again.
        return {}


@dataclass(frozen=True, eq=False)
class Step:
    """One unit of work with a folder for its result; done once for its key."""

    #: What kind of work it is, and on what: progress, logs and plans show both.
    stage: str
    what: str
    folder: Path
    #: Writes the result to the folder and returns facts for the record.
    run: Callable[[Path], Mapping[str, Any]] = field(repr=False)
    #: Everything that changes the bytes and is not a result of a step before, as JSON.
    inputs: Mapping[str, Any] = field(repr=False)
    after: tuple[Step, ...] = field(default=(), repr=False)
    #: Raised when a change of the code changes the bytes.
    revision: int | str = 1
    #: Rough seconds on two cores; a function where they follow from what earlier steps find.
    seconds: float | Callable[[], float] = 1.0
    #: Steps of one stage and kind take about as long.
    kind: str = ""
    #: Method and seed that the step belongs to: where these fail, the others go on.
    row: tuple[str, int] | None = None
    #: Whether the step is still wanted when its turn has come: what another step found may have made it needless.
    wanted: Callable[[], bool] = field(default=lambda: True, repr=False)
    #: What comes after depends on the facts that the step found, and not on how it came to them.
    by_result: bool = False
    #: Steps that decide whether this one is wanted: it waits for them, but does not depend on what they wrote.
    waits: tuple[Step, ...] = field(default=(), repr=False)
    #: Reads patients in the memory of this process, so that no other can do it.
    in_memory: bool = False

    @property
    def name(self) -> str:
        """Stage and subject."""
        return f"{self.stage} {self.what}".strip()

    @cached_property
    def key(self) -> str:
        """A hash of everything that changes the result."""
        return key_of(self.stage, self.revision, dict(self.inputs), [step.signature for step in self.after])

    @property
    def signature(self) -> str:
        """What the keys of later steps hold of this one."""
        return key_of(self.facts) if self.by_result and self.done else self.key

    @property
    def record(self) -> dict[str, Any]:
        """The record in its folder, of whatever inputs."""
        return record(self.folder)

    @property
    def facts(self) -> dict[str, Any]:
        """What the step found, without key and times."""
        return {name: value for name, value in self.record.items() if name not in _OF_THE_RUN}

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self.record.get("key") == self.key

    @property
    def begun(self) -> Path:
        """A file beside the folder that holds the key of unfinished work in it."""
        return self.folder.with_name(f".{self.folder.name}.begun")

    def estimate(self) -> float:
        """Rough seconds, before anything like it was seen."""
        return float(self.seconds() if callable(self.seconds) else self.seconds)


def run_steps(steps: Sequence[Step], root: Path, progress: OverallProgress | None = None) -> Failures:
    """Do every step that is wanted and not done yet; which methods failed, and why.

    In this process one after another; on a cluster side by side, each as a task, with the same bytes. A second process
    is refused meanwhile. A failing method takes its own steps along; all other faults end the run: wrong settings,
    unreadable data and full disks have other exit codes and are no method's fault.
    """
    failures: Failures = {}
    with folder_lock(root):
        # Another process may have finished something since the keys were computed.
        forget_keys(steps)
        if any(step.record and "revision" not in step.record for step in steps):
            say(f"{root} was made by an earlier version: what its steps made is done again")
        if engine.n_workers() > 1:
            _run_on_cluster(steps, failures, progress)
        else:
            _run_in_order(steps, failures, progress)
    return {step.row: failures[step.row] for step in steps if step.row in failures}


def _run_in_order(steps: Sequence[Step], failures: Failures, progress: OverallProgress | None) -> None:
    """One step after another in this process."""
    for step in steps:
        if _is_left(step, failures):
            _announce(step, steps, progress)
            with _failures_of(step, failures):
                _do(step)
            if step.by_result:
                forget_keys(steps)


def _run_on_cluster(steps: Sequence[Step], failures: Failures, progress: OverallProgress | None) -> None:
    """Steps whose predecessors are finished, side by side as tasks of a cluster.

    A step that has the workers to itself spreads its own work over them.
    """
    waiting = list(steps)
    running: dict[Any, Step] = {}
    try:
        while waiting or running:
            unfinished = {id(step) for step in (*waiting, *running.values())}
            ready = [s for s in waiting if not any(id(before) in unfinished for before in (*s.after, *s.waits))]
            left = [step for step in ready if _is_left(step, failures)]
            started = left[: max(engine.n_workers() - len(running), 0)]
            spread = len(left) + len(running) == 1
            for step in started:
                _announce(step, steps, progress)
                if not step.in_memory:
                    running[engine.start_task(_do_on_worker, step, spread)] = step
                    continue
                with _failures_of(step, failures):
                    _do(step)
            waiting = [step for step in waiting if step in left[len(started) :] or step not in ready]
            if running:
                handle = engine.first_finished(list(running))
                step = running.pop(handle)
                with _failures_of(step, failures):
                    for line in engine.result_of(handle):
                        say(line)
                if step.by_result:
                    forget_keys(steps)
    finally:
        engine.cancel_tasks(running)


def _is_left(step: Step, failures: Failures) -> bool:
    """Whether a step whose turn has come must be done."""
    if step.done:
        step.begun.unlink(missing_ok=True)
    return not (step.done or step.row in failures or not step.wanted())


def _announce(step: Step, steps: Sequence[Step], progress: OverallProgress | None) -> None:
    """Say which step begins, and how much is left."""
    number = next(place for place, each in enumerate(steps) if each is step)
    if progress is None:
        say(f"[{number + 1}/{len(steps)}] {step.name}")
        return
    seconds = expected_seconds(steps)
    rest = [seconds[i] for i, s in enumerate(steps[number + 1 :], number + 1) if not s.done and s.wanted()]
    progress.begin(step.name, seconds[number], sum(rest))


@contextmanager
def _failures_of(step: Step, failures: Failures) -> Iterator[None]:
    """Note that a method failed in one of its steps; what is no method's fault is raised."""
    try:
        yield
    except InterruptedRun:
        raise
    except AdapclaError as error:
        if step.row is None or error.exit_code != 1:
            raise
        failures[step.row] = str(error).partition("\n")[0]
        say(f"{step.what} failed: {failures[step.row]}")


def _do_on_worker(step: Step, spread: bool) -> list[str]:
    """Do one step as a task of a cluster; what it has to say to people."""
    with engine.cluster(engine.AUTO if spread else engine.LOCAL), kept_lines() as lines:
        _do(step)
    return lines


def _do(step: Step) -> None:
    """Do one step: the old record goes before the work, the new one comes last."""
    (step.folder / RECORD).unlink(missing_ok=True)
    if not step.begun.is_file() or step.begun.read_text(encoding="utf-8") != step.key:
        # What is there was made from something else, and nothing of it can be gone on with.
        shutil.rmtree(step.folder, ignore_errors=True)
        step.begun.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(step.begun, step.key.encode())
    began, processor = time.monotonic(), time.process_time()
    facts = dict(step.run(step.folder))
    took = {"seconds": time.monotonic() - began, "processor seconds": time.process_time() - processor}
    step.folder.mkdir(parents=True, exist_ok=True)
    crash_point("record")
    of_the_run = {"key": step.key, "revision": step.revision, **{name: round(x, 2) for name, x in took.items()}}
    write_json(step.folder / RECORD, {**of_the_run, **facts})
    step.begun.unlink(missing_ok=True)


def forget_keys(steps: Iterable[Step]) -> None:
    """Let keys be computed anew, because the result of a step that others depend on may be another one now."""
    for step in steps:
        if step.__dict__.pop("key", None) is not None:
            forget_keys(step.after)


def forget_records(steps: Iterable[Step]) -> None:
    """Take away the records, so that every step is done again."""
    for step in steps:
        (step.folder / RECORD).unlink(missing_ok=True)
        step.begun.unlink(missing_ok=True)
    forget_keys(steps)


def expected_seconds(steps: Sequence[Step]) -> list[float]:
    """Seconds of each step: the time of like steps that are done, else the estimate, corrected by earlier errors."""
    took = [step.record.get("seconds") if step.done else None for step in steps]
    out: list[float] = []
    for step, own in zip(steps, took, strict=True):
        done = [(s, float(t)) for s, t in zip(steps, took, strict=True) if t is not None and s.stage == step.stage]
        same = [seconds for other, seconds in done if (other.kind or other.what) == (step.kind or step.what)]
        if own is not None:
            out.append(float(own))
        elif same:
            out.append(statistics.median(same))
        else:
            wrong = [seconds / max(other.estimate(), 1e-9) for other, seconds in done]
            out.append(step.estimate() * (statistics.median(wrong) if wrong else 1.0))
    return out


def seconds_on(steps: Sequence[Step], workers: int) -> float:
    """Rough seconds of what is left on so many workers: its longest chain, or its share for each, whichever is longer.

    Sampling and evaluation that have the workers to themselves spread over them; a fit does not.
    """
    longest: dict[int, float] = {}
    expected = expected_seconds(steps)
    left = [0.0 if step.done else seconds for step, seconds in zip(steps, expected, strict=True)]
    for step, seconds in zip(steps, left, strict=True):
        before = max((longest.get(id(other), 0.0) for other in (*step.after, *step.waits)), default=0.0)
        longest[id(step)] = before + (seconds / workers if step.stage in ("sample", "evaluate") else seconds)
    return max(max(longest.values(), default=0.0), sum(left) / workers)


def code_of(*packages: str) -> str:
    """A hash of the source of these packages: the revision of a page, which takes seconds to make again.

    >>> code_of("report") == code_of("report"), code_of("report") == code_of("release")
    (True, False)
    """
    home = Path(__file__).resolve().parent.parent
    source = [path for name in packages for path in sorted((home / name).rglob("*")) if path.suffix in _SOURCE]
    return key_of([[path.relative_to(home).as_posix(), path.read_text(encoding="utf-8")] for path in source])
