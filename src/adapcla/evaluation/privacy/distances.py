"""Distances between patients as sets of codes: one sparse product |x| + |y| − 2⟨x, y⟩, in blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort

#: Entries of the product held at a time, about a quarter of a gigabyte with all that is made from them.
BLOCK = 8_000_000


class Overlaps(NamedTuple):
    """For some patients x, every patient y that shares a code: distance less |x|, and where each x's run begins."""

    rows: slice
    indptr: NDArray[np.int64]
    columns: NDArray[np.int32]
    beyond: NDArray[np.float32]


def code_sets(cohort: Cohort) -> sparse.csr_matrix:
    """Patients × codes, 1 where any visit of the patient holds the code.

    >>> code_sets(Cohort.of([[["A"], ["A", "B"]]])).toarray().tolist()
    [[1.0, 1.0]]
    """
    out = cohort.patient_matrix()
    out.data = np.ones_like(out.data)
    return out


def aligned_sets(cohorts: Sequence[Cohort]) -> list[sparse.csr_matrix]:
    """Patients × (number of the visit, code), on the columns that the cohorts use: the first visits are compared
    with first visits, the second with second ones.

    >>> one, other = aligned_sets([Cohort.of([[["A"], ["B"]]]), Cohort.of([[["B"], ["A"]]])])
    >>> one.multiply(other).sum()
    np.float32(0.0)
    """
    columns = []
    for cohort in cohorts:
        number = np.repeat(cohort.visit_number, cohort.codes_per_visit)
        columns.append(number * cohort.n_codes + np.asarray(cohort.codes))
    used, packed = np.unique(np.concatenate(columns), return_inverse=True)
    out = []
    for cohort, part in zip(cohorts, np.split(packed, np.cumsum([len(c) for c in columns])[:-1]), strict=True):
        ones, shape = np.ones(len(part), dtype=np.float32), (cohort.n_patients, len(used))
        out.append(sparse.csr_matrix((ones, part, cohort.entry_starts), shape=shape))
    return out


def overlaps(
    x: sparse.csr_matrix, y: sparse.csr_matrix, *, same: bool = False, block: int = BLOCK
) -> Iterator[Overlaps]:
    """The pairs of rows of x and y that share a column, block by block; with `same`, no row meets itself.

    >>> x = sparse.csr_matrix(np.array([[1, 1, 0]], dtype=np.float32))
    >>> y = sparse.csr_matrix(np.array([[1, 0, 1], [0, 0, 1]], dtype=np.float32))
    >>> [(o.columns.tolist(), o.beyond.tolist()) for o in overlaps(x, y)]
    [([0], [0.0])]
    """
    sizes = np.diff(y.indptr).astype(np.float32)
    turned = y.T.tocsr()
    step = max(1, block // max(y.shape[0], 1))
    for begin in range(0, x.shape[0], step):
        product = x[begin : begin + step] @ turned
        beyond = sizes[product.indices]
        beyond -= 2 * product.data
        if same:
            row = np.repeat(np.arange(begin, begin + product.shape[0]), np.diff(product.indptr))
            beyond[product.indices == row] = np.inf
        yield Overlaps(slice(begin, begin + product.shape[0]), product.indptr, product.indices, beyond)


class Nearest(NamedTuple):
    """The distance to the nearest patient and that patient's position, the first of equally near ones."""

    distance: NDArray[np.float32]
    row: NDArray[np.int64]


def nearest(x: sparse.csr_matrix, y: sparse.csr_matrix, *, same: bool = False, block: int = BLOCK) -> Nearest:
    """For each row of x the Hamming distance to the nearest row of y (another row, with `same`), and which it is.

    >>> x = sparse.csr_matrix(np.array([[1, 1, 0], [0, 0, 1]], dtype=np.float32))
    >>> y = sparse.csr_matrix(np.array([[1, 0, 0], [1, 1, 1]], dtype=np.float32))
    >>> nearest(x, y).distance.tolist(), nearest(x, x, same=True).distance.tolist()
    ([1.0, 2.0], [3.0, 3.0])
    """
    distance, row = _apart(y, x.shape[0], same)
    for part in overlaps(x, y, same=same, block=block):
        lengths = np.diff(part.indptr)
        filled = np.flatnonzero(lengths)
        if not len(filled):
            continue
        least = np.minimum.reduceat(part.beyond, part.indptr[filled])
        ties = part.beyond == np.repeat(least, lengths[filled])
        first = np.minimum.reduceat(np.where(ties, part.columns, y.shape[0]), part.indptr[filled])
        rows = part.rows.start + filled
        better = least < distance[rows]
        distance[rows[better]], row[rows[better]] = least[better], first[better]
    return Nearest(distance + np.diff(x.indptr).astype(np.float32), row)


def _apart(y: sparse.csr_matrix, n_rows: int, same: bool) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The size and position of the smallest row (of the smallest other row): the nearest where nothing is shared."""
    sizes = np.diff(y.indptr).astype(np.float32)
    if len(sizes) < 1 + same:
        return np.full(n_rows, np.inf, dtype=np.float32), np.full(n_rows, -1, dtype=np.int64)
    least = int(np.argmin(sizes))
    size, row = np.full(n_rows, sizes[least], dtype=np.float32), np.full(n_rows, least, dtype=np.int64)
    if same:
        sizes[least] = np.inf
        size[least], row[least] = sizes.min(), int(np.argmin(sizes))
    return size, row


def neighbours_within(
    x: sparse.csr_matrix,
    y: sparse.csr_matrix,
    radius: NDArray[np.float32],
    *,
    same: bool = False,
    block: int = BLOCK,
) -> NDArray[np.int64]:
    """For each row of x the number of rows of y that share a column with it and lie within the row's radius.

    >>> x = sparse.csr_matrix(np.array([[1, 1, 0]], dtype=np.float32))
    >>> y = sparse.csr_matrix(np.array([[1, 0, 0], [1, 1, 1], [1, 0, 1]], dtype=np.float32))
    >>> neighbours_within(x, y, np.array([1.0], dtype=np.float32)).tolist()
    [2]
    """
    room = radius - np.diff(x.indptr).astype(np.float32)
    out = np.zeros(x.shape[0], dtype=np.int64)
    for part in overlaps(x, y, same=same, block=block):
        filled = np.flatnonzero(np.diff(part.indptr))
        if len(filled):
            inside = part.beyond <= np.repeat(room[part.rows], np.diff(part.indptr))
            out[part.rows.start + filled] = np.add.reduceat(inside, part.indptr[filled], dtype=np.int64)
    return out
