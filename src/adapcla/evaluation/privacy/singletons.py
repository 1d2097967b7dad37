"""What few real patients hold, and whether it is written more often because they were trained on.

A set is anything that a record holds: the whole record, a whole visit, two or three codes of one visit, a code followed
by a code in the next visit. A set that exactly one of all real patients holds (members and controls together) is
written by a generator that learned what is usual as often if that patient is a member as if it is a control. So

    gap = share written of the sets that one member alone holds − share written of those that one control alone holds

is 0 unless the generator knows its members. A generator that hides sets of fewer than k patients leaks none of these
and yet leaks sets of k patients; hence *one more holder*: sets that c members and no control hold against sets that
c − 1 members and one control hold, c = 1 … 6.

Sets are compared within strata of the share of sets like them that is written, whoever holds them: how often a pair
is written depends above all on how common its codes are, among real and among synthetic patients, and that must not
look like memory, nor make the gap less certain than it is.

The patient is the unit. Standard errors come from shuffling who is a member: many sets of one patient, and sets that
several patients share, are then as uncertain as they are. What strata are made of knows nobody's group, so that it may
be chosen freely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.data.cooccurrence import visit_pairs
from adapcla.data.fingerprints import leave_one_out_fingerprints, record_fingerprints, visit_fingerprints
from adapcla.data.ragged import expand_ranges, starts_from_sizes
from adapcla.evaluation.bootstrap import normal_score
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.metric import SIGNED
from adapcla.evaluation.privacy.groups import (
    EXPOSED,
    FEWEST,
    RARE,
    UNIQUE_PAIR,
    Groups,
    Mask,
    PrivacyMetric,
    RealPatients,
    Values,
    holds_any,
    too_few,
)
from adapcla.seeds import random_stream

Keys = NDArray[np.uint64]
#: Holders up to which sets are compared.
FEW = 6
#: Strata of sets by the share of sets like them that is written.
STRATA_OF_SETS = 12
#: Each thing that the share depends on is cut at so many quantiles at most, one for each `SETS_OF_BIN` sets, and what
#: is found of each is shrunk towards the mean as if by `PRIOR_SETS` sets: a set must not decide its own stratum.
MOST_BINS, SETS_OF_BIN, PRIOR_SETS = 12, 200, 10.0
#: How far sets of one patient are alike: a patient of n sets counts as n / (1 + .03 (n − 1)) of one, 33 at most.
ALIKE = 0.03
#: Sets that decide the regression; of more, every second, third, …
SETS_TO_FIT = 100_000
#: Shuffles of who is a member; a standard error from them is known to 4 %.
SHUFFLES = 300
#: Sets of one kind that are looked at among real patients; of more, a random share of all possible sets.
MOST_SETS = 3_000_000
#: Fewer members or controls than this who hold a set have no gap; the interval says how little more than these show.
FEWEST_HOLDERS = 20
#: A record, and a visit, of fewer codes is usual, unless somebody is recognised by the codes.
FEWEST_OF_RECORD, FEWEST_OF_VISIT, FEWEST_IF_RARE = 6, 3, 3
#: What a rate near 0 must not fall below when strata are weighted by how certain they are.
LEAST_VARIANCE = 0.01


# ---- sets and who holds them --------------------------------------------------------------------------------
class Items(NamedTuple):
    """Sets that patients hold: a key for each kind of set, and a patient that holds it, patients in order.

    `rarity` is minus the logarithm of how often the codes would be together by chance.
    """

    key: Keys
    patient: NDArray[np.int64]
    rarity: NDArray[np.float32]


ItemsOf = Callable[[Cohort, "Census"], Iterator[Items]]


class Census(NamedTuple):
    """What sets are named and ranked by: numbers of the codes, their rarity, and which share of the sets is kept."""

    keys: NDArray[np.uint64]
    rarity: NDArray[np.float32]
    share: float = 1.0

    def kept(self, key: Keys) -> Mask:
        """Which of these random numbers are in the share that is kept."""
        return key < np.uint64(min(self.share, 1.0) * 2.0**64) if self.share < 1 else np.ones(len(key), bool)


def records(cohort: Cohort, census: Census, fewest: int = FEWEST_OF_RECORD) -> Iterator[Items]:
    """Whole records of at least six codes.

    >>> cohort = Cohort.of([[list("ABC"), list("DEF")], [["A"]]])
    >>> [items.patient.tolist() for items in records(cohort, census_of(cohort))]
    [[0]]
    """
    chosen = np.flatnonzero(np.diff(cohort.entry_starts) >= fewest)
    rarity = np.add.reduceat(census.rarity[np.asarray(cohort.codes)], cohort.entry_starts[:-1])
    yield Items(_one_lane(record_fingerprints(cohort, census.keys))[chosen], chosen, rarity[chosen])


def visits(cohort: Cohort, census: Census) -> Iterator[Items]:
    """Whole visits of at least three codes.

    >>> cohort = Cohort.of([[list("ABC"), ["A"]]])
    >>> [items.patient.tolist() for items in visits(cohort, census_of(cohort))]
    [[0]]
    """
    chosen = np.flatnonzero(cohort.codes_per_visit >= FEWEST_OF_VISIT)
    rarity = np.add.reduceat(census.rarity[np.asarray(cohort.codes)], np.asarray(cohort.visit_starts)[:-1])
    key = _one_lane(visit_fingerprints(cohort, census.keys))
    yield Items(key[chosen], cohort.patient_of_visit[chosen], rarity[chosen])


def pairs(cohort: Cohort, census: Census) -> Iterator[Items]:
    """Two codes of one visit.

    >>> cohort = Cohort.of([[["A", "B"], ["A"]], [["B", "C"]]])
    >>> [(items.key.tolist(), items.patient.tolist()) for items in pairs(cohort, census_of(cohort))]
    [([1, 5], [0, 1])]
    """
    lane = census.keys[:, 0]
    for block in visit_pairs(cohort):
        first, second, patient = block
        kept = census.kept(lane[first] + lane[second])
        first, second, patient = first[kept], second[kept], patient[kept]
        key = first.astype(np.uint64) * np.uint64(cohort.n_codes) + second.astype(np.uint64)
        yield Items(key, patient, census.rarity[first] + census.rarity[second])


def triples(cohort: Cohort, census: Census) -> Iterator[Items]:
    """Three codes of one visit.

    >>> cohort = Cohort.of([[["A", "B", "C"], ["A", "B"]]])
    >>> [items.key.tolist() for items in triples(cohort, census_of(cohort))]
    [[5]]
    """
    lane, n = census.keys[:, 0], np.uint64(cohort.n_codes)
    codes, sizes = np.asarray(cohort.codes), cohort.codes_per_visit
    for visit in _blocks(sizes * (sizes - 1) * (sizes - 2) // 6 * min(census.share, 1.0) + sizes * sizes // 2):
        starts = np.asarray(cohort.visit_starts)[visit.start : visit.stop + 1]
        entry = np.arange(starts[0], starts[-1], dtype=np.int64)
        end = np.repeat(starts[1:], np.diff(starts))
        first = np.repeat(entry, end - entry - 1)
        second = expand_ranges(entry + 1, end)
        # The share is chosen by the first two codes, so that what is left out need not be listed.
        kept = census.kept(lane[codes[first]] + lane[codes[second]])
        first, second = first[kept], second[kept]
        end = end[second - starts[0]]
        third = codes[expand_ranges(second + 1, end)]
        a, b = (np.repeat(codes[each], end - second - 1) for each in (first, second))
        patient = np.repeat(cohort.patient_of_visit[cohort.visit_of_entry[first]], end - second - 1)
        key = (a.astype(np.uint64) * n + b.astype(np.uint64)) * n + third.astype(np.uint64)
        yield Items(key, patient, census.rarity[a] + census.rarity[b] + census.rarity[third])


def transitions(cohort: Cohort, census: Census) -> Iterator[Items]:
    """A code, and a code of the patient's next visit.

    >>> cohort = Cohort.of([[["A", "B"], ["B"]], [["A"]]])
    >>> [items.key.tolist() for items in transitions(cohort, census_of(cohort))]
    [[1, 3]]
    """
    lane, codes = census.keys, np.asarray(cohort.codes)
    starts, sizes, before = np.asarray(cohort.visit_starts), cohort.codes_per_visit, cohort.visits_with_next
    for part in _blocks(sizes[before] * sizes[before + 1]):
        visit = before[part]
        entry = expand_ranges(starts[visit], starts[visit + 1])
        here = np.repeat(visit, sizes[visit])
        times = sizes[here + 1]
        first = np.repeat(codes[entry], times)
        second = codes[expand_ranges(starts[here + 1], starts[here + 2])]
        patient = np.repeat(cohort.patient_of_visit[here], times)
        kept = census.kept(lane[first, 0] + lane[second, 1])
        first, second, patient = first[kept], second[kept], patient[kept]
        key = first.astype(np.uint64) * np.uint64(cohort.n_codes) + second.astype(np.uint64)
        yield Items(key, patient, census.rarity[first] + census.rarity[second])


#: Codes that a set of a kind has; what has no fixed number of them is named by a fingerprint.
SIZES: dict[ItemsOf, int] = {pairs: 2, triples: 3, transitions: 2}


def _one_lane(prints: NDArray[np.uint64]) -> Keys:
    """One 64-bit number for each 128-bit one."""
    return prints[:, 0] ^ (prints[:, 1] << np.uint64(1))


def _blocks(sizes: NDArray[np.integer | np.floating], most: int = 4_000_000) -> Iterator[slice]:
    """Runs of visits with at most so many sets each."""
    before = np.concatenate([[0], np.cumsum(sizes)])
    begin = 0
    while begin < len(sizes):
        end = max(int(np.searchsorted(before, before[begin] + most, side="right")) - 1, begin + 1)
        yield slice(begin, min(end, len(sizes)))
        begin = min(end, len(sizes))


def census_of(cohort: Cohort, keys: NDArray[np.uint64] | None = None, share: float = 1.0) -> Census:
    """The census of real patients; members and controls are counted together."""
    rarity = -np.log((cohort.patient_counts + 0.5) / max(cohort.n_patients, 1)).astype(np.float32)
    if keys is None:
        keys = np.arange(2 * cohort.n_codes, dtype=np.uint64).reshape(-1, 2)
    return Census(keys, rarity, share)


class Held(NamedTuple):
    """Sets that few patients hold; `patient` lists the holders of each, set by set."""

    key: Keys
    starts: NDArray[np.int64]
    patient: NDArray[np.int64]
    rarity: NDArray[np.float32]
    census: Census

    @property
    def holders(self) -> NDArray[np.int64]:
        """Number of holders of each set."""
        return np.diff(self.starts)

    def only(self, chosen: Mask) -> Held:
        """Some of the sets."""
        rows = expand_ranges(self.starts[:-1][chosen], self.starts[1:][chosen])
        starts = starts_from_sizes(self.holders[chosen])
        return Held(self.key[chosen], starts, self.patient[rows], self.rarity[chosen], self.census)


def held_by_few(items_of: ItemsOf, real: RealPatients, few: int = FEW) -> Held:
    """The sets that at most `few` of the real patients hold."""

    def count() -> Held:
        share = MOST_SETS / max(_n_sets(items_of, real.pool), MOST_SETS)
        census = census_of(real.pool, real.keys, share)
        return few_holders(items_of(real.pool, census), census, few)

    return real.once(("held", items_of, few), count)


def few_holders(blocks: Iterator[Items], census: Census, few: int) -> Held:
    """The sets of these that at most `few` patients hold.

    >>> cohort = Cohort.of([[["A", "B"], ["A", "B"]], [["A", "C"]], [["A", "C"]]])
    >>> held = few_holders(pairs(cohort, census_of(cohort)), census_of(cohort), few=1)
    >>> held.key.tolist(), held.patient.tolist()
    ([1], [0])
    """
    found = list(blocks)
    if not sum(len(block.key) for block in found):
        none = np.zeros(0, dtype=np.int64)
        return Held(none.astype(np.uint64), np.zeros(1, np.int64), none, none.astype(np.float32), census)
    key, patient, rarity = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.argsort(key, kind="stable")
    key, patient, rarity = key[order], patient[order], rarity[order]
    # Patients come in order, so that what a patient holds twice stands side by side.
    new = np.concatenate([[True], (key[1:] != key[:-1]) | (patient[1:] != patient[:-1])])
    key, patient, rarity = key[new], patient[new], rarity[new]
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    ends = np.append(starts[1:], len(key))
    chosen = ends - starts <= few
    starts, ends = starts[chosen], ends[chosen]
    return Held(
        key[starts], starts_from_sizes(ends - starts), patient[expand_ranges(starts, ends)], rarity[starts], census
    )


def _n_sets(items_of: ItemsOf, cohort: Cohort) -> int:
    """How many sets of a kind a cohort lists, repeats counted; 0 for kinds that are never many."""
    n = cohort.codes_per_visit
    before = cohort.visits_with_next
    sizes = {pairs: n * (n - 1) // 2, triples: n * (n - 1) * (n - 2) // 6, transitions: n[before] * n[before + 1]}
    return int(sizes[items_of].sum()) if items_of in sizes else 0


def is_written(held: Held, blocks: Iterator[Items]) -> Mask:
    """Which of the sets are among those that synthetic patients hold.

    >>> cohort = Cohort.of([[["A", "B"]], [["A", "C"]]])
    >>> census = census_of(cohort)
    >>> is_written(few_holders(pairs(cohort, census), census, 1), pairs(cohort.subset([1]), census)).tolist()
    [False, True]
    """
    out = np.zeros(len(held.key), dtype=bool)
    order = np.argsort(held.key)
    ordered = held.key[order]
    for block in blocks if len(ordered) else ():
        place = np.minimum(np.searchsorted(ordered, block.key), len(ordered) - 1)
        out[order[place[ordered[place] == block.key]]] = True
    return out


# ---- the gap ------------------------------------------------------------------------------------------------
class Gap(NamedTuple):
    """What one more holder among the members brings, its standard error, and the sets that it was found in."""

    value: float
    error: float
    n: int


def holder_features(held: Held, pool: Cohort) -> list[Values]:
    """Of the holders of each set in the mean: such sets that they hold, codes, visits, and codes of the largest visit.

    What somebody of few and small visits holds is more usual than what somebody of many and large ones does.
    """
    sets = np.bincount(held.patient, minlength=pool.n_patients)
    largest = np.maximum.reduceat(pool.codes_per_visit, np.asarray(pool.patient_starts)[:-1])
    about = (sets, np.diff(pool.entry_starts), pool.visits_per_patient, largest)
    return [np.add.reduceat(each[held.patient].astype(np.float64), held.starts[:-1]) / held.holders for each in about]


def partners(items_of: ItemsOf, cohort: Cohort) -> Values:
    """How many sets of a kind each code begins and ends; for codes of one visit both are its places beside others.

    >>> partners(transitions, Cohort.of([[["A", "B"], ["B"]]])).T.tolist()
    [[1.0, 1.0], [0.0, 2.0]]
    """
    sizes, visit, codes = cohort.codes_per_visit, cohort.visit_of_entry, np.asarray(cohort.codes)
    beside = [sizes - 1, sizes - 1]
    if items_of is transitions:
        before = cohort.visits_with_next
        beside = [np.zeros_like(sizes), np.zeros_like(sizes)]
        beside[0][before], beside[1][before + 1] = sizes[before + 1], sizes[before]
    return np.stack([np.bincount(codes, each[visit], cohort.n_codes) for each in beside], axis=1)


def set_features(items_of: ItemsOf, held: Held, real: RealPatients, synthetic: Cohort) -> list[Values]:
    """What decides how often two or three codes are written: how often each of them stands beside others.

    Visits and records are hardly ever written by chance; they have no such features.
    """
    if items_of not in SIZES:
        return []
    n, key = np.uint64(real.pool.n_codes), held.key
    codes: list[NDArray[np.int64]] = []
    for _ in range(SIZES[items_of]):
        key, last = np.divmod(key, n)
        codes.insert(0, last.astype(np.int64))
    among_real, among_synthetic = (np.log(partners(items_of, cohort) + 0.5) for cohort in (real.pool, synthetic))
    # That a code of few people is written at all tells of them, and must not be explained away.
    among_synthetic[real.rare_codes] = among_real[real.rare_codes]
    out = []
    for beside in (among_real, among_synthetic):
        places = np.stack([beside[code, int(k > 0)] for k, code in enumerate(codes)])
        # The codes of a visit have no order of their own; that of the vocabulary means nothing.
        places = places if items_of is transitions else np.sort(places, axis=0)
        out += [places.sum(axis=0), *places]
    return out


def expected_share(written: Mask, weight: Values, holders: NDArray[np.int64], features: Sequence[NDArray]) -> Values:
    """The share written of sets with as many holders and like features: an additive regression, shrunk to the mean.

    >>> number, one = np.arange(400), np.ones(400, dtype=int)
    >>> expected_share(number < 200, one, one, [number]).round(2)[[0, 399]].tolist()
    [0.98, 0.02]
    """
    few, bins = int(holders.max()), int(np.clip(len(written) // SETS_OF_BIN, 1, MOST_BINS))
    cuts = [np.unique(np.quantile(feature, np.arange(1, bins) / bins)) for feature in features]
    columns = [np.searchsorted(cut, feature, side="right") for cut, feature in zip(cuts, features, strict=True)]
    # One column for each number of holders and bin of each feature.
    column = np.stack([(k * bins + place) * few + holders - 1 for k, place in enumerate(columns)], axis=1)
    total = np.bincount(holders, weight, few + 1)
    mean = np.bincount(holders, weight * written, few + 1) / np.maximum(total, 1e-12)
    some = slice(None, None, 1 + len(column) // SETS_TO_FIT)
    n, m = column[some].shape
    x = sparse.csr_matrix((np.ones(n * m), column[some].ravel(), np.arange(n + 1) * m), (n, m * bins * few))
    gram = (x.T @ x.multiply(weight[some, None])).toarray() + PRIOR_SETS * np.eye(x.shape[1])
    found = np.linalg.solve(gram, x.T @ (weight * (written - mean[holders]))[some])
    # Rounded, so that in what order sets are added up decides nothing.
    return np.asarray((mean[holders] + found[column].sum(axis=1)).round(9))


@dataclass(frozen=True, eq=False)
class Rows:
    """Sets of the same cell and of the same holders taken together; a cell has one number of holders and one stratum.

    What is shuffled is who is a member, so sets of the same holders move together and need be counted once only.
    """

    starts: NDArray[np.int64]
    patient: NDArray[np.int64]
    holders: NDArray[np.int64]
    #: Where the rows of each cell begin.
    cells: NDArray[np.int64]
    #: The weights of the sets of each row, of all of them and of the written ones.
    weight: Values
    written: Values

    @classmethod
    def of(cls, held: Held, written: Mask, features: Sequence[Values], pool: Cohort, seed: int) -> Rows:
        """The rows of sets; strata are of the share of sets that is written of those with like features."""
        holders, about_holders = held.holders, holder_features(held, pool)
        weight = 1 / (1 + ALIKE * (about_holders[0] - 1))
        share = expected_share(written, weight, holders, [held.rarity, *about_holders, *features])
        by_share = np.lexsort((share, holders))
        new = (np.diff(holders[by_share]) > 0) | (np.diff(share[by_share]) > 0)
        # Equally likely sets share a place, so that no other order decides who is compared with whom.
        begins = np.concatenate([[0], 1 + np.flatnonzero(new)])
        place = np.empty(len(holders), dtype=np.int64)
        place[by_share] = np.repeat(begins, np.diff(np.append(begins, len(holders))))
        first = np.searchsorted(holders[by_share], holders)
        among = np.searchsorted(holders[by_share], holders, side="right") - first
        cell = holders * STRATA_OF_SETS + (place - first) * STRATA_OF_SETS // among
        # The holders of a set as one number: the sum of a random one for each.
        number = random_stream(seed, "privacy/holders").integers(0, 1 << 62, pool.n_patients).astype(np.uint64)
        who = np.add.reduceat(number[held.patient], held.starts[:-1])
        order = np.lexsort((who, cell))
        new = np.concatenate([[True], (np.diff(cell[order]) > 0) | (who[order][1:] != who[order][:-1])])
        row = np.empty(len(order), dtype=np.int64)
        row[order] = np.cumsum(new) - 1
        one = order[new]
        return cls(
            starts_from_sizes(holders[one]),
            held.patient[expand_ranges(held.starts[one], held.starts[one + 1])],
            holders[one],
            np.flatnonzero(np.concatenate([[True], np.diff(cell[one]) > 0])),
            np.bincount(row, weights=weight).astype(np.float64),
            np.bincount(row, weights=weight * written).astype(np.float64),
        )

    def rates(self, is_member: NDArray[np.int8], certain: Values | None) -> Values:
        """For each number of holders the gap; not a number where nothing is compared.

        A cell counts by its smaller side, and by how certain its rates are where that is given.
        """
        members = np.add.reduceat(is_member[self.patient], self.starts[:-1])
        sums = []
        for side in (members == self.holders, members == self.holders - 1):
            sums += [np.add.reduceat(np.where(side, values, 0.0), self.cells) for values in (self.weight, self.written)]
        all_members, seen, one_control, seen_control = sums
        with np.errstate(invalid="ignore", divide="ignore"):
            counts = all_members * one_control / (all_members + one_control)
            counts = np.where(np.isfinite(counts) & (counts > 0), counts, 0.0) * (1.0 if certain is None else certain)
            difference = np.where(counts > 0, seen / all_members - seen_control / one_control, 0.0)
            holders, few = self.holders[self.cells], int(self.holders.max())
            top = np.bincount(holders, weights=counts * difference, minlength=few + 1)[1:]
            bottom = np.bincount(holders, weights=counts, minlength=few + 1)[1:]
            return top / bottom


def holder_gaps(
    held: Held,
    written: Mask,
    real: RealPatients,
    seed: int,
    features: Sequence[Values] = (),
    by_certainty: bool = False,
) -> dict[str, Gap | Missing]:
    """The gap of each number of holders as "1", "2", …, and as "all" their mean, weighted by the number of sets.

    With `by_certainty` strata count by the inverse of the variance of their rate, which helps where some sets are
    written by chance and most never are.
    """
    n = real.pool.n_patients
    numbers = np.arange(1, int(held.holders.max(initial=0)) + 1)
    sides = [_sides(held, real, int(c)) for c in numbers]
    if not any(too_few(*each, fewest=FEWEST_HOLDERS) is None for each in sides):
        most = max(sides, key=min, default=(0, 0))
        return {ALL: too_few(*most, "who hold such a set", FEWEST_HOLDERS) or Missing("nothing to compare")}
    rows = Rows.of(held, written, features, real.pool, seed)
    certain = None
    if by_certainty:
        share = np.add.reduceat(rows.written, rows.cells) / np.add.reduceat(rows.weight, rows.cells)
        certain = 1 / (share * (1 - share) + LEAST_VARIANCE)
    is_member = real.is_member.astype(np.int8)
    values = rows.rates(is_member, certain)
    known = np.array([too_few(*each, fewest=FEWEST_HOLDERS) is None for each in sides]) & np.isfinite(values)
    # The share of the sets of c holders that are compared: those of c or of c − 1 members.
    p = real.n_members / n
    compared = p**numbers + numbers * p ** (numbers - 1) * (1 - p)
    n_sets = np.bincount(held.holders, minlength=len(values) + 1)[1:] * compared
    share_of = np.where(known, n_sets, 0.0) / n_sets[known].sum()
    random = random_stream(seed, "privacy/shuffled members")
    shuffled = np.nan_to_num([rows.rates(random.permutation(is_member), certain) for _ in range(SHUFFLES)])
    errors, error_of_mean = shuffled.std(axis=0), float((shuffled @ share_of).std())
    out: dict[str, Gap | Missing] = {}
    for c, side, ok in zip(numbers, sides, known, strict=True):
        gap = Gap(float(values[c - 1]), float(np.hypot(errors[c - 1], _least_error(side))), round(n_sets[c - 1]))
        few = too_few(*side, "who hold such a set", FEWEST_HOLDERS)
        out[str(c)] = gap if ok else few or Missing("nothing to compare", round(n_sets[c - 1]))
    mean = float(np.nan_to_num(values) @ share_of)
    people = max((side for side, ok in zip(sides, known, strict=True) if ok), key=min)
    error = float(np.hypot(error_of_mean, _least_error(people)))
    return {ALL: Gap(mean, error, round(n_sets[known].sum())), **out}


def _sides(held: Held, real: RealPatients, c: int) -> tuple[int, int]:
    """How many members and how many controls hold a set that c patients hold and that is compared."""
    holders = held.holders
    members = (
        np.add.reduceat(real.is_member[held.patient].astype(np.int64), held.starts[:-1]) if len(holders) else holders
    )
    out = []
    for wanted, side in ((c, real.is_member), (c - 1, ~real.is_member)):
        of_set = np.repeat((holders == c) & (members == wanted), holders)
        out.append(len(np.unique(held.patient[of_set & side[held.patient]])))
    return out[0], out[1]


def _least_error(sides: tuple[int, int]) -> float:
    """The error that is left where nothing is written at all: half a patient more or less."""
    members, controls = (max(side, 1) for side in sides)
    return float(np.sqrt((1 / members + 1 / controls) / (members + controls)))


def as_score(gap: Gap | Missing) -> Score:
    """A gap as a score.

    >>> as_score(Gap(0.5, 0.1, 9)).high > 0.69
    True
    """
    return gap.score if isinstance(gap, Missing) else normal_score(gap.value, gap.n, gap.error, SIGNED)


# ---- metrics ------------------------------------------------------------------------------------------------
def gaps_of(items_of: ItemsOf, groups: Groups, few: int = 1) -> dict[str, Score]:
    """The gaps of one kind of set as scores, computed once for a synthetic cohort."""

    def compute() -> dict[str, Score]:
        held = held_by_few(items_of, groups.real, few)
        written = is_written(held, items_of(groups.synthetic, held.census))
        features = set_features(items_of, held, groups.real, groups.synthetic)
        found = holder_gaps(held, written, groups.real, groups.seed, features)
        return {name: as_score(gap) for name, gap in found.items()}

    return groups.once(("gaps", items_of, few), compute)


def people_of(real: RealPatients) -> dict[str, Mask]:
    """Which real patients are in each stratum: everybody, the half that stands out most, and those with a rare code or
    with a pair of their own.

    How much somebody stands out is the sum of 1 / holders over pairs of few holders, and then the rarest code.
    """

    def find() -> dict[str, Mask]:
        held, n = held_by_few(pairs, real), real.pool.n_patients
        own = np.zeros(n, dtype=bool)
        own[held.only(held.holders == 1).patient] = True
        outstanding = np.bincount(held.patient, weights=1 / np.repeat(held.holders, held.holders), minlength=n)
        rarest = np.minimum.reduceat(real.holders[np.asarray(real.pool.codes)], real.pool.entry_starts[:-1])
        number = random_stream(0, "privacy/who stands out").permutation(n)
        exposed = np.zeros(n, dtype=bool)
        exposed[np.lexsort((number, rarest, -outstanding))[: (n + 1) // 2]] = True
        rare = holds_any(real.pool, real.rare_codes)
        return {ALL: np.ones(n, dtype=bool), EXPOSED: exposed, RARE: rare, UNIQUE_PAIR: own}

    return real.once("people", find)


def _record_gap(groups: Groups, fewest: int, people: Mask | None = None) -> dict[str, Score]:
    """The gap of whole records that one real patient alone holds, of everybody or of some people."""
    real = groups.real
    census = census_of(real.pool, real.keys)
    held = few_holders(records(real.pool, census, fewest), census, 1)
    if people is not None:
        held = held.only(people[held.patient])
    written = is_written(held, records(groups.synthetic, census, fewest))
    return {ALL: as_score(holder_gaps(held, written, real, groups.seed, by_certainty=True)[ALL])}


class CopyExcess(PrivacyMetric):
    """Share of whole records of six codes or more that one member alone holds and that are written, less controls'."""

    key, bounds, by_domain, version = "copy_excess", SIGNED, True, 3

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        return _record_gap(groups, FEWEST_OF_RECORD)


class RareCopyExcess(PrivacyMetric):
    """The same of records of three codes or more of the half of the people who stand out most by rare codes."""

    key, bounds, version = "rare_copy_excess", SIGNED, 3

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        return _record_gap(groups, FEWEST_IF_RARE, people_of(groups.real)[EXPOSED])


class NearCopyExcess(PrivacyMetric):
    """Share of members, less of controls, whose record is written but for one code more, less or in another's place."""

    key, bounds, version = "near_copy_excess", SIGNED, 3

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        real = groups.real
        census = census_of(real.pool, real.keys)
        (items,) = records(real.pool, census)
        everybody = Held(items.key, np.arange(len(items.key) + 1), items.patient, items.rarity, census)
        of_real, of_synthetic = _variants(real.pool, real.keys), _variants(groups.synthetic, real.keys)
        near = np.zeros(real.pool.n_patients, dtype=bool)
        near[of_real.patient[np.isin(of_real.key, of_synthetic.key)]] = True
        gaps = holder_gaps(everybody, near[items.patient], real, groups.seed, by_certainty=True)
        return {ALL: as_score(gaps[ALL])}


def _variants(cohort: Cohort, keys: NDArray[np.uint64]) -> Items:
    """Each record of six codes or more as it is and without each of its codes.

    Two records that differ by a code more, less or in another's place have a variant in common.
    """
    patient = np.repeat(np.arange(cohort.n_patients), np.diff(cohort.entry_starts))
    key = np.concatenate(
        [_one_lane(record_fingerprints(cohort, keys)), _one_lane(leave_one_out_fingerprints(cohort, keys))]
    )
    patient = np.concatenate([np.arange(cohort.n_patients), patient])
    return Items(key, patient, np.zeros(0, dtype=np.float32))


class UniquePairGap(PrivacyMetric):
    """Share of the pairs that one member alone holds which are written, less that of the pairs of one control."""

    key, bounds, by_domain, version = "unique_pair_gap", SIGNED, True, 3

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        return _first(gaps_of(pairs, groups, FEW))


class SingletonTripleGap(PrivacyMetric):
    """Share of the three codes of a visit that one member alone holds which are written, less that of one control."""

    key, bounds, version = "singleton_triple_gap", SIGNED, 2

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        return _first(gaps_of(triples, groups, FEW))


class PairHolderGap(PrivacyMetric):
    """What one more holder among members brings to pairs of 1 to 6 holders; strata by their number, `all` the mean."""

    key, bounds, version = "pair_holder_gap", SIGNED, 2

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        return gaps_of(pairs, groups, FEW)


class TripleHolderGap(PrivacyMetric):
    """What one more holder among members brings to three codes of a visit of 1 to 6 holders; strata as for pairs."""

    key, bounds, version = "triple_holder_gap", SIGNED, 2

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        return gaps_of(triples, groups, FEW)


class SingletonVisitGap(PrivacyMetric):
    """Share of whole visits of three codes or more that one member alone holds which are written, less controls'."""

    key, bounds, version = "singleton_visit_gap", SIGNED, 2

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        return {ALL: gaps_of(visits, groups)[ALL]}


class SingletonTransitionGap(PrivacyMetric):
    """Share written of a code followed by a code in the next visit that one member alone holds, less controls'."""

    key, bounds, version = "singleton_transition_gap", SIGNED, 2

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        return {ALL: gaps_of(transitions, groups)[ALL]}


def _first(gaps: dict[str, Score]) -> dict[str, Score]:
    """The gap of sets of one holder."""
    return {ALL: gaps.get("1", gaps[ALL])}


class SinglingOutExcess(PrivacyMetric):
    """Share of pairs held by one synthetic patient that single out a member, less a control, of as many."""

    key, bounds = "singling_out_excess", SIGNED

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        real = groups.real
        census = held_by_few(pairs, real).census
        predicates = few_holders(pairs(groups.synthetic, census), census, 1)
        n, most = len(predicates.key), min(real.n_members, real.n_controls)
        if n < FEWEST:
            return {ALL: Missing(f"insufficient data: {n} pairs of one synthetic patient, {FEWEST} needed", n).score}
        shares, errors = [], []
        for first in (0, real.n_members):
            cohort = real.pool.subset(np.arange(first, first + most))
            alone = few_holders(pairs(cohort, census), census, 1)
            hits = np.bincount(alone.patient, weights=np.isin(alone.key, predicates.key), minlength=most)
            shares.append(float(hits.sum()) / n)
            errors.append(float(np.sqrt(most * hits.var())) / n)
        score = normal_score(shares[0] - shares[1], n, float(np.linalg.norm(errors)), SIGNED)
        return {ALL: score, "members": Score(shares[0], n), "controls": Score(shares[1], n)}
