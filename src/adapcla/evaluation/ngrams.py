"""Probabilities of codes, of pairs in a visit and of pairs across consecutive visits, as HALO reports them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from adapcla.data import Cohort
from adapcla.data.cooccurrence import cooccurrence_counts


class Agreement(NamedTuple):
    """How well one set of probabilities repeats another; NaN where they do not vary."""

    #: Coefficient of determination, the reference being the truth: 1 is perfect, it may be far below 0.
    r2: float
    #: Pearson's correlation.
    corr: float
    #: Number of different n-grams that occur in either cohort.
    n: int


def code_counts(cohort: Cohort) -> sparse.csr_matrix:
    """1 × codes, the number of visits that hold each code.

    >>> code_counts(Cohort.of([[["A", "B"], ["A"]]])).toarray().tolist()
    [[2, 1]]
    """
    return sparse.csr_matrix(cohort.visit_counts[None, :])


def sequential_counts(cohort: Cohort) -> sparse.csr_matrix:
    """Codes × codes, how often the first stands in a visit and the second in the patient's next visit.

    >>> sequential_counts(Cohort.of([[["A"], ["B"]], [["A"]]])).toarray().tolist()
    [[0, 1], [0, 0]]
    """
    visits = cohort.matrix().astype(np.int64)
    first = cohort.visits_with_next
    counts = (visits[first].T @ visits[first + 1]).tocsr()
    counts.sort_indices()
    return counts


#: How each kind of n-gram is counted.
KINDS = {"unigram": code_counts, "bigram": cooccurrence_counts, "sequential_bigram": sequential_counts}


def places(cohort: Cohort, kind: str) -> int:
    """How many places an n-gram could have stood in: visits, or steps from a visit to the next.

    >>> places(Cohort.of([[["A"], ["B"]], [["A"]]]), "sequential_bigram")
    1
    """
    return cohort.n_visits - cohort.n_patients if kind == "sequential_bigram" else cohort.n_visits


def agreement(
    reference: sparse.csr_matrix, reference_places: int, synthetic: sparse.csr_matrix, synthetic_places: int
) -> Agreement:
    """Agreement of two probabilities over the n-grams that occur in either, from counts and numbers of places.

    >>> one, two = sparse.csr_matrix([[1, 2, 3]]), sparse.csr_matrix([[2, 4, 6]])
    >>> same = agreement(one, 10, two, 20)
    >>> round(same.r2, 9), round(same.corr, 9), same.n
    (1.0, 1.0, 3)
    """
    both = reference.multiply(synthetic)
    n = int(reference.nnz + synthetic.nnz - both.nnz)
    if n < 2 or reference_places == 0 or synthetic_places == 0:
        return Agreement(float("nan"), float("nan"), n)
    truth, guess = (matrix.data.astype(np.float64) for matrix in (reference, synthetic))
    truth, guess = truth / reference_places, guess / synthetic_places
    cross = both.sum() / reference_places / synthetic_places
    truth_squares, guess_squares = (truth**2).sum(), (guess**2).sum()
    spread = truth_squares - truth.sum() ** 2 / n
    guess_spread = guess_squares - guess.sum() ** 2 / n
    # Differences of large sums: what is left below rounding is no variation at all.
    if spread <= 1e-12 * truth_squares:
        return Agreement(float("nan"), float("nan"), n)
    r2 = 1 - (truth_squares + guess_squares - 2 * cross) / spread
    if guess_spread <= 1e-12 * guess_squares:
        return Agreement(float(r2), float("nan"), n)
    corr = (cross - truth.sum() * guess.sum() / n) / np.sqrt(spread * guess_spread)
    return Agreement(float(min(r2, 1.0)), float(np.clip(corr, -1.0, 1.0)), n)
