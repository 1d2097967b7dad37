"""Cohorts that say what a score means: real patients, memorised ones, and codes drawn independently.

Also cohorts made alike in codes and rare codes per visit (`Profile`), so that a score cannot be won by writing less.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort, Vocabulary
from adapcla.data.ragged import since_segment_start, starts_from_sizes
from adapcla.seeds import random_stream

#: Times that empty visits are drawn again before they are given one code each.
_REDRAWS = 50
#: The halves of the test patients are the same for every method and seed.
_HALVES_SEED = 0
#: The most patients of a reference, of a half of the test patients, and of what cannot be scored part by part.
SAMPLE = 100_000


class Beside(StrEnum):
    """The name of a cohort that is scored in place of the synthetic one; the value is its name in files."""

    @property
    def label(self) -> str:
        """The name for people."""
        return self.value.replace("_", " ")


class LawReference(Beside):
    """A reference that only a known law can give; whoever knows the law makes its patients.

    >>> [reference.label for reference in LawReference]
    ['law itself', 'family only']
    """

    #: Fresh patients of the law: what a perfect generator writes.
    LAW_ITSELF = "law_itself"
    #: The same with every code drawn again inside its family: what knowing families, but no code, can reach.
    FAMILY_ONLY = "family_only"


class Reference(Beside):
    """A reference that every cohort has.

    >>> Reference.REAL_TEST.value, Reference.REAL_TEST.label
    ('real_test', 'real test')
    """

    #: Real patients that the generator did not see: what a perfect generator scores.
    REAL_TEST = "real_test"
    #: Training patients drawn with repeats: what perfect memory scores.
    TRAIN_COPY = "train_copy"
    #: Independent codes with training prevalence: what chance scores.
    MARGINAL = "marginal"
    #: As many training patients, each once: what real patients teach, where test patients show what was learned.
    REAL_TRAIN = "real_train"

    def cohort(self, train: Cohort, test: Cohort, n_patients: int, seed: int) -> Cohort:
        """The patients of this reference: `n_patients`, or all test or training patients where there are fewer.

        >>> cohort = Cohort.of([[["A"]], [["B"]]])
        >>> [reference.cohort(cohort, cohort, 5, seed=1).n_patients for reference in Reference]
        [2, 5, 5, 2]
        """
        if self in (Reference.REAL_TEST, Reference.REAL_TRAIN):
            return some_patients(test if self is Reference.REAL_TEST else train, n_patients, seed)
        return (train_copy if self is Reference.TRAIN_COPY else marginal)(train, n_patients, seed)


class Halves(NamedTuple):
    """Two disjoint halves of a cohort: one to compare with, one to stand for a perfect generator."""

    reference: Cohort
    ceiling: Cohort


def halves(cohort: Cohort, number: int = 0) -> Halves:
    """Fixed halves of a cohort's patients, others for each number; an odd patient goes to the reference.

    Of more than twice `SAMPLE` patients, halves of a sample of so many.

    >>> [half.n_patients for half in halves(Cohort.of([[["A"]], [["B"]], [["C"]]]))]
    [2, 1]
    """
    which = (number,) if number else ()
    order = random_stream(_HALVES_SEED, "halves of the test patients", *which).permutation(cohort.n_patients)
    order = order[: 2 * SAMPLE]
    middle = (len(order) + 1) // 2
    return Halves(cohort.subset(np.sort(order[:middle])), cohort.subset(np.sort(order[middle:])))


def some_patients(cohort: Cohort, n_patients: int, seed: int) -> Cohort:
    """Random patients without repeats, in their order; the cohort itself where it has no more than that.

    >>> some_patients(Cohort.of([[["A"]], [["B"]], [["C"]]]), 2, seed=1).n_patients
    2
    """
    if n_patients >= cohort.n_patients:
        return cohort
    chosen = random_stream(seed, "some patients").choice(cohort.n_patients, n_patients, replace=False)
    return cohort.subset(np.sort(chosen))


def train_copy(train: Cohort, n_patients: int, seed: int) -> Cohort:
    """Training patients resampled with repeats: what perfect memory scores.

    >>> train_copy(Cohort.of([[["A"]], [["B"]]]), 5, seed=1).n_patients
    5
    """
    if train.n_patients == 0:
        return train
    return train.subset(random_stream(seed, "train copy").integers(0, train.n_patients, size=n_patients))


def marginal(train: Cohort, n_patients: int, seed: int) -> Cohort:
    """Patients with lengths drawn from training and visits of independent codes with training prevalence.

    An empty visit is drawn again, since no record holds one. Of a choice group a visit gets one code or none, by their
    shares. Days from visit to visit, attributes and the values of numbers are those of training patients, too, drawn
    apart from the codes: what a value says of a code, or of the value before it, is lost.

    >>> chance = marginal(Cohort.of([[["A", "B"]], [["B"], ["C"]]]), 100, seed=1)
    >>> chance.n_patients, chance.n_codes
    (100, 3)
    """
    draw = random_stream(seed, "marginal patients")
    if train.n_patients == 0:
        return train
    visits = train.visits_per_patient[draw.integers(0, train.n_patients, size=n_patients)]
    share = train.visit_counts / train.n_visits
    empty = np.arange(int(visits.sum()), dtype=np.int64)
    visit_parts, code_parts = [], []
    for _ in range(_REDRAWS):
        if len(empty) == 0:
            break
        visit, code = _of_visits(train.vocabulary, share, empty, draw)
        visit_parts.append(visit)
        code_parts.append(code)
        empty = np.setdiff1d(empty, visit)
    visit_parts.append(empty)
    code_parts.append(draw.choice(len(share), size=len(empty), p=share / share.sum()))
    visit, code = np.concatenate(visit_parts), np.concatenate(code_parts)
    order = np.lexsort((code, visit))
    codes = code[order].astype(np.int32)
    sizes = np.bincount(visit, minlength=int(visits.sum()))
    starts = starts_from_sizes(visits)
    somebody = random_stream(seed, "marginal attributes").integers(0, train.n_patients, size=n_patients)
    return Cohort(
        train.vocabulary,
        codes,
        starts_from_sizes(sizes),
        starts,
        days=_days_of_anybody(train, starts, seed),
        values=_values_of_anybody(train, codes, seed),
        attributes={name: attribute.of_patients(somebody) for name, attribute in train.attributes.items()},
    )


def _days_of_anybody(train: Cohort, starts: NDArray[np.int64], seed: int) -> NDArray[np.int32] | None:
    """Days of visits with gaps drawn from all gaps of training; 0 without any gap, None where training has no days."""
    step = train.visits_with_next
    if train.days is None or not len(step):
        return None if train.days is None else np.zeros(int(starts[-1]), dtype=np.int32)
    gaps = np.asarray(train.days)[step + 1] - np.asarray(train.days)[step]
    drawn = random_stream(seed, "marginal gaps").choice(gaps, size=int(starts[-1]))
    return since_segment_start(np.cumsum(drawn, dtype=np.int64), starts).astype(np.int32)


def _values_of_anybody(train: Cohort, codes: NDArray[np.int32], seed: int) -> NDArray[np.float32] | None:
    """A value of training for every entry of a number, whoever had it; None where training has no values."""
    if train.values is None:
        return None
    draw = random_stream(seed, "marginal values")
    values = np.full(len(codes), np.nan, dtype=np.float32)
    for number in np.flatnonzero(train.vocabulary.numbers & (train.visit_counts > 0)):
        here = codes == number
        values[here] = draw.choice(np.asarray(train.values)[np.asarray(train.codes) == number], size=int(here.sum()))
    return values


def _of_visits(
    vocabulary: Vocabulary, share: NDArray[np.float64], visits: NDArray[np.int64], draw: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(visit, code) entries of some visits: codes of their own independently, of each choice group one or none."""
    group = vocabulary.group_of_code
    visit, code = _independent(np.where(group < 0, share, 0.0), visits, draw)
    visit_parts, code_parts = [visit], [code]
    for number in range(len(vocabulary.groups)):
        members = np.flatnonzero(group == number)
        ends = np.cumsum(share[members])
        chosen = np.searchsorted(ends, draw.random(len(visits)), side="right")
        there = chosen < len(members)
        visit_parts.append(visits[there])
        code_parts.append(members[chosen[there]])
    return np.concatenate(visit_parts), np.concatenate(code_parts)


def _independent(
    share: NDArray[np.float64], visits: NDArray[np.int64], draw: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(visit, code) entries in which each code is in each visit with its own probability, independently."""
    times = draw.binomial(len(visits), share)
    # How many visits hold a code is binomial, and given that number, which ones they are is a plain draw.
    where = [draw.choice(len(visits), size=times[c], replace=False, shuffle=False) for c in np.flatnonzero(times)]
    code = np.repeat(np.arange(len(share), dtype=np.int64), times)
    return visits[np.concatenate(where)] if where else visits[:0], code


# ---- as many codes and rare codes per visit -----------------------------------------------------------------
def tail_per_visit(cohort: Cohort, tail: NDArray[np.bool_]) -> float:
    """Mean number of tail codes per visit.

    >>> tail_per_visit(Cohort.of([[["A", "B"], ["B"]]]), np.array([True, False]))
    0.5
    """
    return float(tail[cohort.codes].sum() / max(cohort.n_visits, 1))


def with_fewer_tail_codes(cohort: Cohort, tail: NDArray[np.bool_], rate: float, seed: int) -> Cohort:
    """The cohort after tail codes were dropped at random so that `rate` per visit are left, if it has more.

    >>> cohort = Cohort.of([[["A", "B"]]] * 10)
    >>> tail_per_visit(with_fewer_tail_codes(cohort, np.array([True, False]), 0.3, seed=1), np.array([True, False]))
    0.3
    """
    entries = np.flatnonzero(tail[cohort.codes])
    surplus = len(entries) - round(rate * cohort.n_visits)
    if surplus <= 0:
        return cohort
    keep = np.ones(cohort.n_entries, dtype=bool)
    keep[random_stream(seed, "fewer tail codes").choice(entries, surplus, replace=False)] = False
    return cohort.keep_entries(keep)


@dataclass(frozen=True, eq=False)
class Profile:
    """What two cohorts have in common: tail codes per visit, and the smaller visit size at each rank.

    A generator that writes few and common codes gets a high share of seen pairs. So both sides, real and synthetic, are
    thinned to what both have: first tail codes are dropped at random, from the side with more, until both have the same
    number per visit; then visits are ranked by size on each side and cut to the smaller of the two sizes at that rank,
    other codes first, tail codes last. Nothing is ever added, and a visit that loses all its codes is dropped.

    >>> wide, narrow = Cohort.of([[["A", "B", "C"]]] * 4), Cohort.of([[["A", "B"]]] * 4, ["A", "B", "C"])
    >>> profile = Profile.of(wide, narrow, np.array([False, False, True]), seed=1)
    >>> profile.thin(wide).codes_per_visit.tolist(), profile.tail_per_visit
    ([2, 2, 2, 2], 0.0)
    """

    tail: NDArray[np.bool_]
    tail_per_visit: float
    #: Visit sizes of the two cohorts, ascending, after tail codes were matched.
    sizes: tuple[NDArray[np.int64], NDArray[np.int64]]
    seed: int

    @classmethod
    def of(cls, one: Cohort, two: Cohort, tail: NDArray[np.bool_], seed: int) -> Profile:
        """The profile that both cohorts can be thinned to."""
        rate = min(tail_per_visit(one, tail), tail_per_visit(two, tail))
        thinned = (with_fewer_tail_codes(cohort, tail, rate, seed) for cohort in (one, two))
        first, second = (np.sort(cohort.codes_per_visit) for cohort in thinned)
        return cls(tail, rate, (first, second), seed)

    def thin(self, cohort: Cohort) -> Cohort:
        """The cohort thinned to this profile."""
        cohort = with_fewer_tail_codes(cohort, self.tail, self.tail_per_visit, self.seed)
        n = cohort.n_visits
        if n == 0 or not all(len(sizes) for sizes in self.sizes):
            return cohort
        draw = random_stream(self.seed, "thinned visits")
        by_size = np.lexsort((draw.random(n), cohort.codes_per_visit))
        rank = (np.arange(n) + 0.5) / n
        sizes_by_rank = np.minimum(*(sizes[(rank * len(sizes)).astype(np.int64)] for sizes in self.sizes))
        target = np.empty(n, dtype=np.int64)
        target[by_size] = sizes_by_rank
        # Tail codes come first in each visit, in random order, then the others: the first `target` stay.
        order = np.lexsort((draw.random(cohort.n_entries), ~self.tail[cohort.codes], cohort.visit_of_entry))
        position = np.arange(cohort.n_entries) - np.repeat(cohort.visit_starts[:-1], cohort.codes_per_visit)
        keep = np.zeros(cohort.n_entries, dtype=bool)
        keep[order[position < np.repeat(target, cohort.codes_per_visit)]] = True
        return cohort.keep_entries(keep)
