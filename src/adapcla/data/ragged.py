"""Flat arrays cut into runs, such as the codes of visits and the visits of patients."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Elements of a long array that are looked at together.
PIECE = 1 << 21


def starts_from_sizes(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each run begins, from the runs' sizes, with the end as last element.

    >>> starts_from_sizes(np.array([2, 3])).tolist()
    [0, 2, 5]
    """
    out = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=out[1:])
    return out


def chunks(n: int, *arrays: NDArray[Any]) -> Iterator[slice]:
    """Slices that make the whole of n elements: what is computed from one of them is forgotten before the next.

    Pages of `arrays` that are memory-mapped are given back after each slice, so that memory follows the slice.

    >>> [(part.start, part.stop) for part in chunks(3)]
    [(0, 3)]
    """
    for low in range(0, n, PIECE):
        yield slice(low, min(low + PIECE, n))
        for array in arrays:
            release_pages(array)


def release_pages(array: NDArray[Any]) -> None:
    """Give back the memory that a memory-mapped array holds; it is read again when it is needed."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and not array.flags.writeable and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def count_values(values: NDArray[Any], n: int) -> NDArray[np.int64]:
    """How often each of 0 … n − 1 occurs, in pieces: counting makes a copy of twice the size of what it counts.

    >>> count_values(np.array([2, 0, 2], dtype=np.int32), 4).tolist()
    [1, 0, 2, 0]
    """
    out = np.zeros(n, dtype=np.int64)
    for part in chunks(len(values), values):
        out += np.bincount(values[part], minlength=n)
    return out


def expand_ranges(starts: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[np.int64]:
    """All integers of several ranges, one after another.

    >>> expand_ranges(np.array([5, 0]), np.array([7, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    sizes = np.asarray(stops) - np.asarray(starts)
    total = int(sizes.sum())
    if total == 0:
        return np.zeros(0, dtype=np.int64)
    begin = np.repeat(np.asarray(starts) - starts_from_sizes(sizes)[:-1], sizes)
    return begin + np.arange(total, dtype=np.int64)


def segment_sums(values: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[Any]:
    """The sum of each run of rows; no run is empty.

    >>> segment_sums(np.array([1, 2, 3]), np.array([0, 2, 3])).tolist()
    [3, 3]
    """
    # `reduceat` refuses to add up nothing at all.
    return np.add.reduceat(values, starts[:-1], axis=0) if len(starts) > 1 else values[:0]


def since_segment_start(values: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[Any]:
    """Each value less the first of its run; no run is empty.

    >>> since_segment_start(np.array([5, 7, 30]), np.array([0, 2, 3])).tolist()
    [0, 2, 0]
    """
    return np.asarray(values) - np.repeat(values[starts[:-1]], np.diff(starts))


def jaccard(
    values: NDArray[Any], starts: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.float64]:
    """What run first[i] and run second[i] share, divided by what they hold together; a run holds no value twice.

    Only the runs that are asked for are read.

    >>> jaccard(np.array([1, 4, 4]), np.array([0, 2, 3]), np.array([0]), np.array([1])).tolist()
    [0.5]
    """
    starts, pair, width = np.asarray(starts), np.arange(len(first)), int(values.max(initial=0)) + 1
    sizes = [starts[runs + 1] - starts[runs] for runs in (first, second)]
    one, other = (
        np.repeat(pair, size) * width + values[expand_ranges(starts[runs], starts[runs + 1])]
        for runs, size in zip((first, second), sizes, strict=True)
    )
    shared = np.bincount(np.intersect1d(one, other, assume_unique=True) // width, minlength=len(first))
    return shared / (sizes[0] + sizes[1] - shared)


class KeptSegments(NamedTuple):
    """Which visits and patients are left when some entries go, and where those begin that are left."""

    visits: NDArray[np.bool_]
    patients: NDArray[np.bool_]
    visit_starts: NDArray[np.int64]
    patient_starts: NDArray[np.int64]


def kept_segments(
    keep: NDArray[np.bool_], visit_starts: NDArray[np.int64], patient_starts: NDArray[np.int64]
) -> KeptSegments:
    """The runs of entries (visits) and of visits (patients) that are not empty once only the entries `keep` are left.

    >>> kept = kept_segments(np.array([True, False, False]), np.array([0, 2, 3]), np.array([0, 1, 2]))
    >>> kept.visits.tolist(), kept.patient_starts.tolist()
    ([True, False], [0, 1])
    """
    sizes = segment_sums(keep.astype(np.int64), visit_starts)
    visits = segment_sums((sizes > 0).astype(np.int64), patient_starts)
    return KeptSegments(
        sizes > 0, visits > 0, starts_from_sizes(sizes[sizes > 0]), starts_from_sizes(visits[visits > 0])
    )
