"""Who stands beside whom, learned from several patients and never from one: a prior over pairs in the logit.

The logit of a code gains, for each code that was drawn before it in the visit, how far the count of their meetings is
believed: g(n, e), where n is how many training visits hold both and e how many chance would give. g is a small learned
table that all pairs share. In training n leaves out the patient at hand, so that g learns how far a count of *others*
can be believed, and a pair that one patient alone holds teaches nothing. Elsewhere a pair counts only from a number of
patients on; the others are not even kept, and are taken as pairs that never met.

Most pairs never met. What that says depends on how frequent both codes are, band by band. It is a product
of few columns, and only pairs that met are listed, with how much more they say than that.

How much is said in all is weighed by how many codes speak: several of them may say the same thing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from adapcla.disclosure import SMALLEST_COUNT
from adapcla.metrics.pairs import visit_pairs
from adapcla.networks.batch import Records
from adapcla.networks.kernels.blocks import Added, Spoken
from adapcla.networks.layers import Settling
from adapcla.records import Cohort, Prevalence
from adapcla.records.offsets import ranges

#: Lower edges of the bands of counts; a band is a row of the table of belief.
COUNT_EDGES = (1, 2, 3, 4, 5, 7, 9, 11, 14, 20, 30, 50, 100, 300, 1000)
#: Powers of two that bound the bands of expected counts: a column each.
EXPECTED_POWERS = tuple(range(-8, 12))
#: Visits of each kind that a count is shrunken by at the beginning.
_SHRINKAGE = 1.0
#: Pairs listed at a time.
_PAIRS_AT_ONCE = 4_000_000
#: Bands of codes by frequency, a power of two each.
N_BANDS = 14
#: Speaking codes that are told apart by their number.
_MOST_SPEAKERS = 24
#: Steps of optimisers are small beside the log-odds that a partner brings; this many times larger they reach them.
_PACE = 4.0


def count_band(counts: Tensor) -> Tensor:
    """The row of the table of belief of each count.

    >>> count_band(torch.tensor([1, 2, 6, 5000])).tolist()
    [0, 1, 4, 14]
    """
    return torch.bucketize(counts, torch.tensor(COUNT_EDGES[1:]), right=True)


def expected_band(expected: Tensor) -> Tensor:
    """The column of the table of belief of each expected count.

    >>> expected_band(torch.tensor([1e-9, 1.0, 1.5, 1e9])).tolist()
    [0, 8, 9, 20]
    """
    return torch.bucketize(torch.log2(expected.clamp(min=1e-12)), torch.tensor(EXPECTED_POWERS, dtype=torch.float32))


class PairCounts(NamedTuple):
    """Same-visit pairs of codes in some cohort, smaller position first, by first and then second."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    visits: NDArray[np.int64]
    patients: NDArray[np.int64]


def pair_counts(cohort: Cohort) -> PairCounts:
    """How many visits and how many patients hold each pair.

    >>> pair_counts(Cohort.of([[["A", "B"], ["A", "B"]], [["A", "B", "C"]]])).visits.tolist()
    [3, 1, 1]
    >>> pair_counts(Cohort.of([[["A", "B"], ["A", "B"]], [["A", "B", "C"]]])).patients.tolist()
    [2, 1, 1]
    """
    n, parts = cohort.n_codes, []
    for some in _patients_at_once(cohort):
        for block in visit_pairs(cohort.subset(some), block=1 << 62):
            key = block.first.astype(np.int64) * n + block.second
            order = np.lexsort((block.patient, key))
            key, patient = key[order], block.patient[order]
            fresh = np.r_[True, key[1:] != key[:-1]]
            other_patient = fresh | np.r_[True, patient[1:] != patient[:-1]]
            number = np.cumsum(fresh) - 1
            parts.append((key[fresh], np.bincount(number), np.bincount(number, other_patient)))
    keys = np.concatenate([np.zeros(0, dtype=np.int64), *(part[0] for part in parts)])
    key, place = np.unique(keys, return_inverse=True)
    visits, patients = (
        np.bincount(place, np.concatenate([np.zeros(0), *(part[i] for part in parts)]), minlength=len(key))
        for i in (1, 2)
    )
    return PairCounts(key // n, key % n, visits.astype(np.int64), patients.astype(np.int64))


def _patients_at_once(cohort: Cohort) -> Iterator[NDArray[np.int64]]:
    """Positions of patients, some at a time, so that the pairs of their visits fit into memory."""
    sizes = cohort.codes_per_visit
    pairs = np.add.reduceat(sizes * (sizes - 1) // 2, cohort.first_visits) if cohort.n_patients else sizes
    number = np.cumsum(pairs) // _PAIRS_AT_ONCE
    for each in np.unique(number):
        yield np.flatnonzero(number == each)


def frequency_band(prevalence: Prevalence) -> Tensor:
    """The band of each code by its number of training visits, a power of two each; small counts are alike.

    >>> frequency_band(Prevalence.of({"A": 0.5, "B": 0.001}, n_visits=1000)).tolist()
    [8, 3]
    """
    visits = np.nan_to_num(prevalence.floored().share) * (prevalence.n_visits or 1)
    return torch.from_numpy(np.clip(np.log2(np.maximum(visits, 1.0)), 0, N_BANDS - 1).astype(np.int64))


class Company(nn.Module, Settling):
    """What the codes of a visit that are drawn already say of those to come."""

    def __init__(self, n_pairs: int, least_patients: int, band_of_rank: Tensor, n_visits: int) -> None:
        super().__init__()
        self.least_patients = least_patients
        low = torch.tensor(COUNT_EDGES, dtype=torch.float32)
        count = torch.cat([(low[:-1] + low[1:] - 1) / 2, low[-1:] * 2])
        expected = 2.0 ** (torch.tensor([EXPECTED_POWERS[0] - 1, *EXPECTED_POWERS], dtype=torch.float32) + 0.5)
        lift = torch.log((count[:, None] + _SHRINKAGE) / (expected[None] + _SHRINKAGE))
        self.belief = nn.Parameter(lift / _PACE)
        typical = 2.0 ** (torch.arange(N_BANDS) + 0.5)
        by_chance = typical[:, None] * typical[None] / max(n_visits, 1)
        self.strangers = nn.Parameter(torch.log(_SHRINKAGE / (by_chance + _SHRINKAGE)) / _PACE)
        self.strength = nn.Parameter(torch.arange(1, _MOST_SPEAKERS + 1).float().rsqrt())
        # What is kept of the training patients: pairs of several of them, and no count but its band.
        self.first: Tensor
        self.second: Tensor
        self.cell: Tensor
        for name in ("first", "second", "cell"):
            self.register_buffer(name, torch.zeros(n_pairs, dtype=torch.int32))
        self.band: Tensor
        self.register_buffer("band", band_of_rank.int())
        # While training: all pairs that lead from an earlier block to a later one, ascending by the later code and then
        # the earlier; never saved.
        self.known_first: Tensor
        self.known_second: Tensor
        self.known_visits: Tensor
        self.known_column: Tensor
        for name in ("first", "second", "visits", "column"):
            self.register_buffer(f"known_{name}", torch.zeros(0, dtype=torch.int64), persistent=False)

    @property
    def n_pairs(self) -> int:
        """Pairs that are kept."""
        return len(self.first)

    def observe(self, records: Records, rank_of_code: Tensor, block_of_rank: Tensor) -> None:
        """Count the pairs of all training patients; those of too few patients are known while training alone."""
        cohort, n = records.seen, len(rank_of_code)
        counts = pair_counts(cohort)
        one, two = (rank_of_code[torch.from_numpy(side)] for side in (counts.first, counts.second))
        first, second = _directed(one, two, block_of_rank)
        key = second * n + first
        order = torch.argsort(torch.where(block_of_rank[first] < block_of_rank[second], key, -1))
        # Codes of one block are drawn together and do not hear of each other.
        order = order[int((block_of_rank[first] == block_of_rank[second]).sum()) :]
        first, second = first[order], second[order]
        visits, patients = (torch.from_numpy(count)[order] for count in (counts.visits, counts.patients))
        of_rank = torch.from_numpy(cohort.visit_counts)[torch.argsort(rank_of_code)].double()
        column = expected_band((of_rank[first] * of_rank[second] / max(cohort.n_visits, 1)).float())
        self.known_first, self.known_second, self.known_visits, self.known_column = first, second, visits, column
        kept = (patients >= self.least_patients).nonzero()[:, 0]
        self.first, self.second = first[kept].int(), second[kept].int()
        self.cell = (count_band(visits[kept]) * self.belief.shape[1] + column[kept]).int()

    def _more(self, first: Tensor, second: Tensor, cell: Tensor) -> Tensor:
        """How much more pairs that met say than pairs that never met."""
        met = torch.gather(_PACE * self.belief.reshape(-1), 0, cell.long())
        between = self.band[first] * N_BANDS + self.band[second]
        return met - torch.gather(_PACE * self.strangers.reshape(-1), 0, between.long())

    def _value(self, first: Tensor, second: Tensor, visits: Tensor, column: Tensor) -> Tensor:
        """The same by numbers of visits, of which there may be none."""
        more = self._more(first, second, count_band(visits) * self.belief.shape[1] + column)
        return torch.where(visits > 0, more, 0.0)

    def values(self) -> Tensor:
        """(pairs,) what each pair that is kept says beyond what strangers say."""
        return self._more(self.first.long(), self.second.long(), self.cell)

    def of_strangers(self) -> Tensor:
        """(codes, bands) what a code of each band says of each code that it never met."""
        return F.embedding(self.band, _PACE * self.strangers.t())

    def speakers_before(self, visit_of_entry: Tensor, codes: Tensor, block_of_rank: Tensor, n_visits: int) -> Tensor:
        """(visits, blocks, bands) how many codes of each band were drawn before each block, weighed."""
        n_blocks = int(block_of_rank[-1]) + 1
        cell = (visit_of_entry * n_blocks + block_of_rank[codes]) * N_BANDS + self.band[codes]
        drawn = torch.bincount(cell, minlength=n_visits * n_blocks * N_BANDS).view(n_visits, n_blocks, N_BANDS)
        before = torch.cumsum(drawn, 1) - drawn
        return before * self.weight(before.sum(2))[..., None]

    @torch.no_grad()
    def settled(self) -> dict[str, Tensor]:
        """The bands of pairs, in which all counts too small to be told are one: that of the middle one of them."""
        row, column = self.cell // self.belief.shape[1], self.cell % self.belief.shape[1]
        first_told = int(count_band(torch.tensor([SMALLEST_COUNT - 1]))) + 1
        row = torch.where(row < first_told, first_told // 2, row)
        return {"cell": (row * self.belief.shape[1] + column).int()}

    @property
    def silent(self) -> bool:
        """Whether no pair is kept: where nobody is known to have met, nothing follows from not having met."""
        return not self.n_pairs and not self.training

    def weight(self, n_speakers: Tensor) -> Tensor:
        """How much is made of what so many codes say together."""
        return F.embedding((n_speakers - 1).clamp(0, _MOST_SPEAKERS - 1), self.strength[:, None])[..., 0]

    def spoken(
        self,
        visit_of_entry: Tensor,
        codes: Tensor,
        block_of_rank: Tensor,
        n_visits: int,
        patient_of_visit: Tensor | None = None,
    ) -> Spoken:
        """What is said in some visits; with their patients, by all others than the patient at hand."""
        order = torch.argsort(visit_of_entry, stable=True)
        visit_of_entry, codes = visit_of_entry[order], codes[order]
        n_codes, n_blocks = len(block_of_rank), int(block_of_rank[-1]) + 1
        speakers, speaker_of_entry = torch.unique(codes, return_inverse=True)
        number = torch.full((n_codes,), -1)
        number[speakers] = torch.arange(len(speakers))
        corrections = Added.nothing()
        if patient_of_visit is None:
            first, second = self.first.long(), self.second.long()
            speaks = number[first] >= 0
            values = self._more(first[speaks], second[speaks], self.cell[speaks])
        else:
            first, second = self.known_first, self.known_second
            speaks = number[first] >= 0
            visits, column = self.known_visits[speaks], self.known_column[speaks]
            values = self._value(first[speaks], second[speaks], visits, column)
            corrections = self._without_own(visit_of_entry, codes, patient_of_visit, block_of_rank)
        cell = visit_of_entry * n_blocks + block_of_rank[codes]
        drawn = torch.bincount(cell, minlength=n_visits * n_blocks).view(n_visits, n_blocks)
        before = torch.cumsum(drawn, 1) - drawn
        return Spoken(
            number[first[speaks]], second[speaks], values, self.weight(before), corrections,
            visit_of_entry, speaker_of_entry, len(speakers),
        )  # fmt: skip

    def _without_own(
        self, visit_of_entry: Tensor, codes: Tensor, patient_of_visit: Tensor, block_of_rank: Tensor
    ) -> Added:
        """What must be added so that no patient hears of their own visits."""
        n = len(block_of_rank)
        first, second, visit = _visit_pairs(visit_of_entry, codes, block_of_rank)
        own, times = torch.unique((patient_of_visit[visit] * n + first) * n + second, return_counts=True)
        a, t = own // n % n, own % n
        at = torch.searchsorted(self.known_second * n + self.known_first, t * n + a)
        visits, column = self.known_visits[at], self.known_column[at]
        change = self._value(a, t, visits - times, column) - self._value(a, t, visits, column)
        # Every visit in which the patient has the first code hears of all its partners.
        asked = patient_of_visit[visit_of_entry] * n + codes
        low, high = (torch.searchsorted(own // n, asked, right=right) for right in (False, True))
        line = torch.repeat_interleave(torch.arange(len(asked)), high - low)
        which = low[line] + torch.arange(len(line)) - (torch.cumsum(high - low, 0) - (high - low))[line]
        return Added(visit_of_entry[line], t[which], change[which]).by_code()


class Listener:
    """What patients that are being drawn have heard so far in their visit."""

    def __init__(self, company: Company, n_patients: int, n_codes: int) -> None:
        self.company = company
        first = company.first.long()
        order = torch.argsort(first, stable=True)
        self.starts = torch.searchsorted(first[order], torch.arange(n_codes + 1)).numpy()
        self.second, self.values = company.second.long()[order], company.values()[order]
        self.sums = torch.zeros(n_patients, n_codes)
        self.speakers = torch.zeros(n_patients, N_BANDS)
        self.strangers = company.of_strangers()

    def heard(self, codes: slice) -> Tensor:
        """What is added to the logits (patients, codes) of a block."""
        said = torch.addmm(self.sums[:, codes], self.speakers, self.strangers[codes].t())
        return said * self.company.weight(self.speakers.sum(1).long())[:, None]

    def listen(self, who: NDArray[np.int64], codes: NDArray[np.int64]) -> None:
        """Hear what newly drawn codes of patients say."""
        line = torch.from_numpy(ranges(self.starts[codes], self.starts[codes + 1]))
        listens = torch.from_numpy(np.repeat(who, self.starts[codes + 1] - self.starts[codes]))
        self.sums.view(-1).scatter_add_(0, listens * self.sums.shape[1] + self.second[line], self.values[line])
        at = torch.from_numpy(who), self.company.band[torch.from_numpy(codes)].long()
        self.speakers.index_put_(at, torch.ones(len(who)), accumulate=True)


def _directed(one: Tensor, two: Tensor, block_of_rank: Tensor) -> tuple[Tensor, Tensor]:
    """Both codes of each pair, that of the earlier block first."""
    turned = block_of_rank[one] > block_of_rank[two]
    return torch.where(turned, two, one), torch.where(turned, one, two)


def _visit_pairs(visit_of_entry: Tensor, codes: Tensor, block_of_rank: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All pairs of a visit that lead from an earlier block to a later one, and their visit; entries visit by visit."""
    sizes = torch.bincount(visit_of_entry)
    begin = (torch.cumsum(sizes, 0) - sizes)[visit_of_entry]
    partners = sizes[visit_of_entry]
    line = torch.repeat_interleave(torch.arange(len(codes)), partners)
    other = begin[line] + torch.arange(len(line)) - (torch.cumsum(partners, 0) - partners)[line]
    first, second = codes[line], codes[other]
    later = block_of_rank[first] < block_of_rank[second]
    return first[later], second[later], visit_of_entry[line][later]
