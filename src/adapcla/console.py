"""Progress bars and log lines, on stderr and never on stdout."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


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
        if now - self.spoke < 10 and self.done < self.total:
            return
        self.spoke = now
        elapsed = now - self.started
        left = elapsed / self.done * (self.total - self.done) if self.done else 0.0
        say(f"{self.title} {self.done}/{self.total} {note} [{elapsed:.0f}s, {left:.0f}s left]")


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


def say(text: str) -> None:
    """Print one line for people on stderr, unless quiet."""
    if not quiet():
        print(text, file=sys.stderr, flush=True)


@contextmanager
def meter(title: str, total: int) -> Iterator[Meter]:
    """A progress bar with time left on a terminal, sparse log lines elsewhere, nothing when quiet."""
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
