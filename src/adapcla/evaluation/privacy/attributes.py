"""Whether somebody who knows the rest of a record can read its rarest code off the synthetic patients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.evaluation.bootstrap import normal_score
from adapcla.evaluation.comparison import Comparison, Missing, Score
from adapcla.evaluation.privacy.distances import BLOCK, code_sets, overlaps
from adapcla.evaluation.privacy.strata import Groups, Values, assessed, by_stratum, first_patients


def rarest_code(x: sparse.csr_matrix, holders: NDArray[np.int64], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each patient the position of its code with the fewest holders; equals are ordered by their keys.

    >>> x = sparse.csr_matrix(np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]))
    >>> rarest_code(x, np.array([5, 2, 5]), np.array([1, 2, 0], dtype=np.uint64)).tolist()
    [1, 2]
    """
    rank = np.empty(len(holders), dtype=np.int64)
    rank[np.lexsort((keys, holders))] = np.arange(len(holders))
    back = np.empty_like(rank)
    back[rank] = np.arange(len(rank))
    return back[np.minimum.reduceat(rank[x.indices], x.indptr[:-1])]


def without(x: sparse.csr_matrix, hidden: NDArray[np.int64]) -> sparse.csr_matrix:
    """The patients without their hidden code.

    >>> without(sparse.csr_matrix(np.array([[1.0, 1.0]])), np.array([1])).toarray().tolist()
    [[1.0, 0.0]]
    """
    stay = x.indices != np.repeat(hidden, np.diff(x.indptr))
    starts = np.concatenate([[0], np.cumsum(stay)])[x.indptr]
    return sparse.csr_matrix((x.data[stay], x.indices[stay], starts), shape=x.shape)


def read_off(
    known: sparse.csr_matrix, hidden: NDArray[np.int64], synthetic: sparse.csr_matrix, *, block: int = BLOCK
) -> NDArray[np.float64]:
    """For each patient the share of the nearest synthetic patients, by the known codes, that hold the hidden code.

    A patient none of whose known codes is ever generated cannot be attacked and counts 0.

    >>> known = sparse.csr_matrix(np.array([[1, 1, 0]], dtype=np.float32))
    >>> synthetic = sparse.csr_matrix(np.array([[1, 1, 1], [0, 0, 1]], dtype=np.float32))
    >>> read_off(known, np.array([2]), synthetic).tolist()
    [1.0]
    """
    out = np.zeros(known.shape[0])
    for part in overlaps(known, synthetic, block=block):
        lengths = np.diff(part.indptr)
        filled = np.flatnonzero(lengths)
        if not len(filled):
            continue
        least = np.minimum.reduceat(part.beyond, part.indptr[filled])
        chosen = np.flatnonzero(part.beyond == np.repeat(least, lengths[filled]))
        row = np.repeat(np.arange(len(lengths)), lengths)[chosen]
        holds = np.asarray(synthetic[part.columns[chosen], hidden[part.rows][row]]).ravel()
        n_nearest = np.bincount(row, minlength=len(lengths))
        hits = np.bincount(row, weights=holds, minlength=len(lengths))
        out[part.rows] = hits / np.maximum(n_nearest, 1)
    return out


def residual(members: NDArray[np.float64], controls: NDArray[np.float64]) -> Score:
    """How much of what cannot be guessed about controls is known about members: (r_D − r_H)/(1 − r_H).

    >>> residual(np.array([1.0, 1.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0])).value
    0.3333333333333333
    """
    n = len(members) + len(controls)
    rate, base = float(members.mean()), float(controls.mean())
    if base >= 1:
        return Missing("the hidden code of every control was guessed: nothing is left to learn", n).score
    value = max(-1.0, (rate - base) / (1 - base))
    # First-order errors: the slope is 1/(1 − r_H) in r_D and (r_D − 1)/(1 − r_H)² in r_H.
    variance = members.var() / len(members) / (1 - base) ** 2
    variance += controls.var() / len(controls) * (rate - 1) ** 2 / (1 - base) ** 4
    return normal_score(value, n, float(np.sqrt(variance)), (-1.0, 1.0))


@assessed
def attribute_residual(comparison: Comparison, groups: Groups) -> dict[str, Score]:
    """Rarest codes read off the nearest synthetic patient, members beyond controls: (r_D − r_H)/(1 − r_H)."""
    n = min(groups.n_matched, groups.most)
    synthetic = code_sets(first_patients(groups.synthetic, 4 * groups.most))
    rates, several = [], []
    for cohort in (groups.members, groups.controls):
        x = code_sets(first_patients(cohort, n))
        hidden = rarest_code(x, groups.holders, groups.keys[:, 0])
        rates.append(read_off(without(x, hidden), hidden, synthetic))
        several.append(np.diff(x.indptr) >= 2)
    masks = groups.masks()

    def split(stratum: str) -> tuple[Values, Values]:
        members, controls = (
            rate[mask[:n] & enough] for rate, mask, enough in zip(rates, masks[stratum], several, strict=True)
        )
        return members, controls

    return by_stratum(split, lambda stratum: residual(*split(stratum)))
