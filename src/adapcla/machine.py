"""What this machine gives to this process: memory, processors, and its number among processes started together."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

GIGABYTE = 1e9


def process_index() -> int:
    """The number of this process among those that a launcher started together, from 0; 0 for a process alone.

    >>> process_index()
    0
    """
    return int(os.environ.get("RANK", "0")) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else 0


def usable_cores() -> int:
    """The number of processors that this process may use.

    >>> usable_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count(requested: int = 0) -> int:
    """The number of threads of this process: as requested, else what OMP_NUM_THREADS says, else one.

    One is never slower than several: threads that wait for each other beside another busy process take many times as
    long, and work is spread over processes instead.

    >>> thread_count(3)
    3
    """
    try:
        return requested or max(1, int(os.environ.get("OMP_NUM_THREADS", "1").split(",")[0]))
    except ValueError:
        return 1


def peak_memory_mb() -> int:
    """The largest memory that this process has held, in megabytes.

    >>> peak_memory_mb() > 1
    True
    """
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 1_000_000


def forget_peak_memory() -> None:
    """Let the system measure the peak memory anew, where it can; elsewhere the peak is that of the whole process."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def available_bytes() -> int | None:
    """Memory that this process may still take: what the machine, its container and its limit leave; None if unknown.

    >>> available_bytes() is None or available_bytes() >= 0
    True
    """
    found = [_of_machine(), _of_container(), _of_limit()]
    known = [n for n in found if n is not None]
    return max(0, min(known)) if known else None


def _field(path: str, name: str) -> int | None:
    """A number of kB from one of the kernel's tables, in bytes."""
    try:
        lines = Path(path).read_text(encoding="ascii", errors="replace").splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def _of_machine() -> int | None:
    return _field("/proc/meminfo", "MemAvailable:")


def _of_container() -> int | None:
    root = Path("/sys/fs/cgroup")
    try:
        return int((root / "memory.max").read_text()) - int((root / "memory.current").read_text())
    except (OSError, ValueError):
        return None


def _of_limit() -> int | None:
    limit, used = resource.getrlimit(resource.RLIMIT_AS)[0], _field("/proc/self/status", "VmSize:")
    return None if limit == resource.RLIM_INFINITY or used is None else limit - used
