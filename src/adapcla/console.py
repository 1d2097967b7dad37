"""Progress bars and log lines, on stderr and never on stdout; and how far the work is, in a file for programs."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

#: Names the file that says how far the work is, for a program that shows it; seconds between two writings.
PROGRESS, _SELDOM = "ADAPCLA_PROGRESS", 0.5
#: When the file was last written.
_WRITTEN = [0.0]


class Meter(Protocol):
    """Shows how far the work is."""

    def advance(self, n: int = 1, note: str = "") -> None:
        """Add `n` done steps and show `note` beside the bar."""


class _PlainMeter:
    """Log lines for logs and pipes: at most one every ten seconds."""

    def __init__(self, title: str, total: int) -> None:
        self.title, self.total, self.done = title, total, 0
        self.started = self.spoke = time.monotonic()

    def advance(self, n: int = 1, note: str = "") -> None:
        self.done += n
        now = time.monotonic()
        elapsed = now - self.started
        left = elapsed / self.done * (self.total - self.done) if self.done else 0.0
        write_progress(self.done / max(self.total, 1), left, f"{self.title} {note}".strip(), now)
        if now - self.spoke < 10 and self.done < self.total:
            return
        self.spoke = now
        say(f"{self.title} {self.done}/{self.total} {note} [{elapsed:.0f}s, {left:.0f}s left]")


class OverallProgress:
    """One bar over several steps of work; what a step's own meter counts moves it on inside the step."""

    def __init__(self, title: str, show: Callable[[float, float, str], None]) -> None:
        self.title, self._show = title, show
        self.started = self.spoke = time.monotonic()
        self.what, self.left, self._expected, self._before = "", 0.0, 1.0, 0.0
        self._begun, self._share = self.started, 0.0

    def begin(self, what: str, expected: float, rest: float) -> None:
        """Begin a step of about `expected` seconds, with `rest` seconds of others to follow."""
        self._before = time.monotonic() - self.started
        self._begun, self._share = time.monotonic(), 0.0
        self.what, self._expected, self.left = what, max(expected, 0.1), rest
        self.update(0.0)

    def update(self, share: float, note: str = "") -> None:
        """Show that this share of the step is done; it never goes back."""
        self._share = max(self._share, min(share, 1.0))
        taken = time.monotonic() - self._begun
        # The first moments of a step say little about its length: there the estimate counts.
        length = max(self._expected, taken) if self._share < 0.05 else taken / self._share
        left = max(length - taken, 0.0) + self.left
        done = self._before + taken
        whole, words = done / (done + left) if done + left else 0.0, f"{self.what} {note}".strip()
        write_progress(whole, left, words, self._begun + taken)
        self._show(whole, left, words)


#: The bar over everything, where there is one.
_OVERALL: list[OverallProgress] = []


class _InsideMeter:
    """A meter whose bar is the one over everything."""

    def __init__(self, whole: OverallProgress, total: int) -> None:
        self.whole, self.total, self.done = whole, max(total, 1), 0

    def advance(self, n: int = 1, note: str = "") -> None:
        self.done += n
        self.whole.update(self.done / self.total, note)


class _SilentMeter:
    def advance(self, n: int = 1, note: str = "") -> None:
        """Say nothing."""


class _BarMeter:
    def __init__(self, bar: object, task: int) -> None:
        self.bar, self.task = bar, task

    def advance(self, n: int = 1, note: str = "") -> None:
        self.bar.update(self.task, advance=n, note=note)  # type: ignore[attr-defined]


def quiet() -> bool:
    """Whether the user asked for silence (`--quiet` sets ADAPCLA_QUIET).

    >>> isinstance(quiet(), bool)
    True
    """
    return os.environ.get("ADAPCLA_QUIET", "") not in ("", "0")


#: Where lines for people are kept in place of being printed; the last is in force.
_KEPT: list[list[str]] = []


@contextmanager
def kept_lines() -> Iterator[list[str]]:
    """Keep the lines for people inside of the `with` block, for another process to print.

    >>> with kept_lines() as lines:
    ...     say("read 12 files")
    >>> lines
    ['read 12 files']
    """
    _KEPT.append([])
    try:
        yield _KEPT[-1]
    finally:
        _KEPT.pop()


def say(text: str) -> None:
    """Print one line for people on stderr, unless quiet."""
    if _KEPT:
        _KEPT[-1].append(text)
    elif not quiet():
        print(text, file=sys.stderr, flush=True)


def write_progress(share: float, left: float, what: str, now: float) -> None:
    """Write how far the work is to the file of ADAPCLA_PROGRESS, at most twice a second; nothing where none is named.

    The file is one JSON object: `share` of the work that is done, seconds `left`, and `what` is being done.
    """
    place = os.environ.get(PROGRESS, "")
    if not place or (now - _WRITTEN[0] < _SELDOM and share < 1):
        return
    _WRITTEN[0] = now
    content = {"share": round(min(max(share, 0.0), 1.0), 4), "left": round(max(left, 0.0), 1), "what": what}
    unfinished = Path(f"{place}.part")
    # Whoever only watches must not stop the work.
    with suppress(OSError):
        unfinished.write_text(json.dumps(content), encoding="utf-8")
        unfinished.replace(place)


@contextmanager
def meter(title: str, total: int) -> Iterator[Meter]:
    """A progress bar with time left on a terminal, sparse log lines elsewhere, nothing when quiet."""
    if _OVERALL:
        yield _InsideMeter(_OVERALL[-1], total)
        return
    if quiet():
        yield _SilentMeter()
        return
    if not sys.stderr.isatty():
        yield _PlainMeter(title, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=False) as bar:
        yield _BarMeter(bar, bar.add_task(title, total=total, note=""))


@contextmanager
def overall_progress(title: str) -> Iterator[OverallProgress]:
    """One bar with the time left for the whole, inside which every other meter only moves this one."""
    if quiet():
        whole = OverallProgress(title, lambda share, left, note: None)
        show = None
    elif sys.stderr.isatty():
        show, whole = _bar_of_all(title)
    else:
        show, whole = None, OverallProgress(title, lambda share, left, note: _line_of_all(whole, share, left, note))
    _OVERALL.append(whole)
    try:
        if show is None:
            yield whole
        else:
            with show:
                yield whole
    finally:
        _OVERALL.remove(whole)


def _line_of_all(whole: OverallProgress, share: float, left: float, note: str) -> None:
    """A log line of the whole: at most one every ten seconds, and one for each step."""
    now = time.monotonic()
    if now - whole.spoke >= 10 or note == whole.what:
        whole.spoke = now
        say(f"{whole.title} {share:4.0%} {note} [{now - whole.started:.0f}s, about {left:.0f}s left]")


def _bar_of_all(title: str) -> tuple[AbstractContextManager[Any], OverallProgress]:
    """A bar on the terminal and what moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    left_column = TextColumn("{task.fields[left]}")
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), left_column)
    bar = Progress(*columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True), redirect_stderr=True)
    task = bar.add_task(title, total=1.0, note="", left="")

    def show(share: float, left: float, note: str) -> None:
        minutes, seconds = divmod(round(left), 60)
        bar.update(task, completed=share, note=note, left=f"about {minutes}:{seconds:02d} left")

    return bar, OverallProgress(title, show)
