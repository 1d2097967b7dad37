"""What a visit shares with the next, and how often visits repeat: the look of records beyond single codes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adapcla.metrics.contract import ALL, Comparison, Score
from adapcla.metrics.intervals import groups_of, jackknife_score, ratio_scores
from adapcla.records import Cohort
from adapcla.seeds import generator, keyed_uniform

_NO_STEP = "no synthetic patient has two visits"


def overlap(cohort: Cohort, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
    """Jaccard similarity of the code sets of visits `first[k]` and `second[k]`.

    >>> overlap(Cohort.of([[["A", "B"], ["B", "C"]]]), np.array([0]), np.array([1])).round(3).tolist()
    [0.333]
    """
    visits = cohort.matrix()
    shared = np.asarray(visits[first].multiply(visits[second]).sum(axis=1)).ravel()
    sizes = cohort.codes_per_visit
    return shared / (sizes[first] + sizes[second] - shared)


def steps(cohort: Cohort) -> NDArray[np.int64]:
    """The visits that the same patient has a next visit after.

    >>> steps(Cohort.of([[["A"], ["B"]], [["A"]]])).tolist()
    [0]
    """
    return np.flatnonzero(np.diff(cohort.patient_of_visit) == 0)


def visit_overlap(key: str, comparison: Comparison) -> dict[str, Score]:
    """The score of one metric of overlaps between visits."""
    return {ALL: comparison.once(_overlaps)[key]}


def _overlaps(comparison: Comparison) -> dict[str, Score]:
    """Next-visit and random-visit overlap and their difference, from the same first visits."""
    cohort = comparison.synthetic
    first = steps(cohort)
    anybody = generator(comparison.seed, "random visit").integers(0, max(cohort.n_visits, 1), size=len(first))
    near, far = overlap(cohort, first, first + 1), overlap(cohort, first, anybody)
    patient = cohort.patient_of_visit[first]
    tops = np.stack(
        [np.bincount(patient, weights=values, minlength=cohort.n_patients) for values in (near, far, near - far)],
        axis=1,
    )
    bottoms = np.repeat(np.bincount(patient, minlength=cohort.n_patients)[:, None].astype(float), 3, axis=1)
    names = ("next_visit_jaccard", "random_visit_jaccard", "next_visit_gain")
    return dict(zip(names, ratio_scores(comparison, tops, bottoms, [_NO_STEP] * 3), strict=True))


def visit_hashes(cohort: Cohort) -> NDArray[np.uint64]:
    """A 64-bit number for each visit, equal for equal code sets.

    >>> hashes = visit_hashes(Cohort.of([[["A", "B"], ["A"]], [["A", "B"]]]))
    >>> bool(hashes[0] == hashes[2]), bool(hashes[0] == hashes[1])
    (True, False)
    """
    index = np.arange(cohort.n_codes, dtype=np.int64)
    uniform = keyed_uniform(0x5EED, index, np.zeros_like(index), 2)
    codes = (uniform[:, 0] * 2**52).astype(np.uint64) << np.uint64(12) ^ (uniform[:, 1] * 2**52).astype(np.uint64)
    with np.errstate(over="ignore"):
        return np.add.reduceat(codes[cohort.codes], cohort.visit_starts[:-1]) if cohort.n_visits else codes[:0]


def unique_visits(comparison: Comparison) -> dict[str, Score]:
    """Share of different code sets among the visits: low where a generator repeats itself."""
    cohort = comparison.synthetic
    hashes = visit_hashes(cohort)
    groups = groups_of(comparison)
    without: list[float] = []
    if groups is not None:
        group = groups[cohort.patient_of_visit]
        without = [_distinct(hashes[group != g]) for g in range(int(groups.max()) + 1)]
    score = jackknife_score(_distinct(hashes), cohort.n_visits, without, (0.0, 1.0), "there is no synthetic visit")
    return {ALL: score}


def _distinct(hashes: NDArray[np.uint64]) -> float:
    """Share of different values."""
    return len(np.unique(hashes)) / len(hashes) if len(hashes) else float("nan")
