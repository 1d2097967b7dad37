"""What can be read off the synthetic patient nearest to a real one: a rare code, a lab value; and the distance tests of
the field, which the gate ignores: they miss copied patients.

Distances are between patients as sets of codes: one sparse product |x| + |y| − 2⟨x, y⟩, in blocks of bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.evaluation.bootstrap import normal_score, wilson
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.metric import SIGNED
from adapcla.evaluation.privacy.groups import (
    MOST,
    NOBODY,
    Groups,
    PrivacyMetric,
    Values,
    first_patients,
    too_few,
)

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


# ---- a code that the attacker does not know -----------------------------------------------------------------
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


class AttributeResidual(PrivacyMetric):
    """Rarest codes read off the nearest synthetic patient, members beyond controls: (r_D − r_H)/(1 − r_H)."""

    key, bounds, cost, version = "attribute_residual", SIGNED, "slow", 2

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        real, rows = groups.real, groups.real.first(MOST)
        x = code_sets(real.pool.subset(rows))
        hidden = rarest_code(x, real.holders, real.keys[:, 0])
        rates = read_off(without(x, hidden), hidden, code_sets(first_patients(groups.synthetic, 4 * MOST)))
        several, members = np.diff(x.indptr) >= 2, real.is_member[rows]
        missing = too_few(int((several & members).sum()), int((several & ~members).sum()), "with two codes")
        return {ALL: missing.score if missing else residual(rates[several & members], rates[several & ~members])}


# ---- a value that the attacker does not know ----------------------------------------------------------------
#: A value is guessed where the guess is within so many of a hundred real values of it.
VALUE_MARGIN = 0.02


class ValueAttack(PrivacyMetric):
    """Numbers read off the nearest synthetic patient, members beyond controls: (r_D − r_H)/(1 − r_H)."""

    key, bounds, cost = "value_attack", SIGNED, "slow"

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        whole = comparison.with_values
        if whole is None and comparison.learned_numbers:
            return {ALL: Missing("not all cohorts hold the values of their numbers").score}
        if whole is None:
            return {ALL: Missing(f"{NOBODY}: no record holds a number").score}
        real, rows = groups.real, groups.real.first(MOST)
        controls = whole.test if comparison.control is None else comparison.control_with_values
        if controls is None:
            return {ALL: Missing("the control patients have no values").score}
        member = real.is_member[rows]
        sides = (
            whole.train.subset(real.member_rows[rows[member]]),
            controls.subset(real.control_rows[rows[~member] - real.n_members]),
        )
        synthetic = first_patients(whole.synthetic, 4 * MOST)
        scales = _scales(sides)
        guessed = [guessed_values(side, synthetic, scales) for side in sides]
        known = [rate[np.isfinite(rate)] for rate in guessed]
        missing = too_few(len(known[0]), len(known[1]), "with a number")
        return {ALL: missing.score if missing else residual(known[0], known[1])}


def _scales(cohorts: Sequence[Cohort]) -> dict[int, Values]:
    """The sorted values of each number among members and controls together."""
    codes = np.concatenate([np.asarray(cohort.codes) for cohort in cohorts])
    values = np.concatenate([np.asarray(cohort.values, dtype=np.float64) for cohort in cohorts])
    has = np.isfinite(values)
    return {int(code): np.sort(values[has & (codes == code)]) for code in np.unique(codes[has])}


def first_values(cohort: Cohort) -> sparse.csr_matrix:
    """Patients × numbers: the first value of each number, by place among the finite entries, plus one."""
    values, codes = np.asarray(cohort.values, dtype=np.float64), np.asarray(cohort.codes)
    entries = np.flatnonzero(np.isfinite(values))
    patient = cohort.patient_of_entry[entries]
    _, first = np.unique(patient * cohort.n_codes + codes[entries], return_index=True)
    chosen = entries[first]
    return sparse.csr_matrix(
        (chosen + 1, (cohort.patient_of_entry[chosen], codes[chosen])), shape=(cohort.n_patients, cohort.n_codes)
    )


def guessed_values(real: Cohort, synthetic: Cohort, scales: dict[int, Values]) -> Values:
    """For each real patient the share of its numbers that the nearest synthetic patient with that number has, too.

    Nearest is by the codes, without the values; the same means within `VALUE_MARGIN` of the ranks of real values. A
    patient without a number that some synthetic patient holds has no share.
    """
    held, made = first_values(real), first_values(synthetic)
    x, y = code_sets(real), code_sets(synthetic)
    hits, tries = np.zeros(real.n_patients), np.zeros(real.n_patients)
    for code, scale in scales.items():
        mine, theirs = held[:, [code]].tocoo(), made[:, [code]].tocoo()
        if not len(theirs.row):
            continue
        row = nearest(x[mine.row], y[theirs.row]).row
        pair = (np.asarray(real.values)[mine.data - 1], np.asarray(synthetic.values)[theirs.data[row] - 1])
        # The middle of equal values, so that a value that many have is one rank.
        ranks = [(np.searchsorted(scale, v) + np.searchsorted(scale, v, side="right")) / (2 * len(scale)) for v in pair]
        np.add.at(hits, mine.row, np.abs(ranks[0] - ranks[1]) <= VALUE_MARGIN)
        np.add.at(tries, mine.row, 1.0)
    return np.where(tries > 0, hits / np.maximum(tries, 1), np.nan)


# ---- distance tests of the field ----------------------------------------------------------------------------
#: Patients of each group; HALO's own test draws about as many.
_TESTED = 2_000


def median_accuracy(members: NDArray[np.float32], controls: NDArray[np.float32]) -> float:
    """How often "nearer to the synthetic patients than the median" is right about membership (HALO's test).

    Whether the median itself is near is left to the attacker: the better of both readings counts.

    >>> median_accuracy(np.array([0.0, 1.0]), np.array([2.0, 3.0]))
    1.0
    >>> median_accuracy(np.array([0.0, 0.0, 0.0]), np.array([0.0, 2.0, 3.0]))
    0.8333333333333334
    """
    middle = np.median(np.concatenate([members, controls]))
    n = len(members) + len(controls)
    below = int((members < middle).sum()) + int((controls >= middle).sum())
    up_to = int((members <= middle).sum()) + int((controls > middle).sum())
    return max(below, up_to) / n


def adversarial_accuracy(one: sparse.csr_matrix, other: sparse.csr_matrix) -> float:
    """Nearest-neighbour adversarial accuracy of two sets: ½ where they mix, 0 where they are copies, 1 where apart.

    >>> apart = sparse.csr_matrix(np.array([[1, 0, 0], [1, 1, 0]], dtype=np.float32))
    >>> adversarial_accuracy(apart, apart)
    0.0
    """
    shares = [
        (nearest(a, b).distance > nearest(a, a, same=True).distance).mean() for a, b in ((one, other), (other, one))
    ]
    return float(np.mean(shares))


class HaloMembershipAccuracy(PrivacyMetric):
    """HALO's membership test: accuracy of 'nearer than the median', ½ by chance; beside the gate, never in it."""

    key, unit, origin, cost = "halo_membership_accuracy", "accuracy", "HALO", "slow"

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        members, controls = _matched(groups, _TESTED)
        if missing := too_few(members.n_patients, controls.n_patients):
            return {ALL: missing.score}
        d, h, s = aligned_sets([members, controls, first_patients(groups.synthetic, 4 * MOST)])
        n = 2 * members.n_patients
        value = median_accuracy(nearest(d, s).distance, nearest(h, s).distance)
        return {ALL: Score(value, n, *wilson(value * n, n))}


class NNAAPrivacyLoss(PrivacyMetric):
    """Adversarial accuracy against controls less against members: 0 without a leak; beside the gate, never in it."""

    key, bounds, origin, cost = "nnaa_privacy_loss", SIGNED, "Yale et al., 2020", "slow"

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        members, controls = _matched(groups, min(_TESTED, groups.synthetic.n_patients))
        n = members.n_patients
        if missing := too_few(n, n):
            return {ALL: missing.score}
        d, h, s = aligned_sets([members, controls, first_patients(groups.synthetic, n)])
        return {ALL: Score(adversarial_accuracy(h, s) - adversarial_accuracy(d, s), n)}


def _matched(groups: Groups, most: int) -> tuple[Cohort, Cohort]:
    """As many members as controls."""
    real = groups.real
    n = np.arange(min(real.n_members, real.n_controls, most))
    return real.pool.subset(n), real.pool.subset(real.n_members + n)
