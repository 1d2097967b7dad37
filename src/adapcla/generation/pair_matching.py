"""Pairs with a rare code come out of a model as often as training visits hold them: what pilots set after training.

A pair that several patients hold is to come as often as they hold it, by how many they are and by how frequent both
codes are. All other pairs with a rare code are to be like those that training patients hold with too few other
patients, by how near the families of both codes are and by how frequent the partner is. No pair has a number of its
own, and which pairs single patients hold plays no part: only how many there are of a kind.

Each round draws a pilot, and moves the tables of `models/company.py` and `models/emphasis.py` by how much too
rarely pairs of a kind came, given how often the pilot holds their codes: that codes come too rarely themselves is
corrected elsewhere (`generation/calibration.py`).

Pairs of frequent codes are left alone. When they were corrected too, visits of drawn patients ran away: their size is
the work of frequent codes. With biases lowered in turn visits kept their size, but likelihood fell more than it was
worth (`results/company/tried.md`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adapcla.data import Cohort
from adapcla.generation.model import Model
from adapcla.models.company import N_BANDS, Company
from adapcla.models.emphasis import N_NEAR, N_RARE
from adapcla.models.heads import BlockwiseHead
from adapcla.models.pair_counts import pair_counts
from adapcla.models.visits import VisitNetwork

Numbers = NDArray[np.float64]
Positions = NDArray[np.int64]

#: Pairs of a kind that a pilot must be expected to hold; below, the kind is as it is.
_ENOUGH = 10.0
#: The largest correction of a kind in log-odds.
_MOST = 2.5
#: A code that comes this many times too rarely or too often is another correction's.
_FAR = 2.5
#: Occurrences that the ratio of a code is shrunken by.
_SHRINKAGE = 5.0


def company_of(model: Model) -> Company | None:
    """The prior over pairs of a model that has one and keeps a pair."""
    head = model.network.head if isinstance(model.network, VisitNetwork) else None
    company = head.company if isinstance(head, BlockwiseHead) else None
    return company if company is not None and company.n_pairs else None


class _Pairs(NamedTuple):
    """Pairs of a cohort whose later code is rare, by rank."""

    first: Positions
    second: Positions
    visits: Numbers
    patients: Positions
    n_visits: int
    codes: Numbers  # visits of each code, by rank

    def of_visits(self, n_visits: int, ratio: Numbers) -> Numbers:
        """How often so many visits should hold each pair, if each code came so many times as often."""
        return self.visits * (n_visits / max(self.n_visits, 1)) * ratio[self.first] * ratio[self.second]


class _Kinds(NamedTuple):
    """How many pairs there are of each kind: kept ones by count and rarity and by partner, others by nearness too."""

    kept: Numbers
    partner: Numbers
    near: Numbers
    speaker: Numbers


class PairMatching:
    """Corrections of what rare codes hear, round by round."""

    def __init__(self, model: Model, company: Company, train: Cohort) -> None:
        network = model.network
        assert isinstance(network, VisitNetwork) and isinstance(network.head, BlockwiseHead)
        self.company, self.head = company, network.head
        self.rank_of_code = network.rank_of_code.numpy()
        kept = company.second.long().numpy() * len(self.rank_of_code) + company.first.long().numpy()
        self._order = np.argsort(kept)
        self._kept = kept[self._order]
        self._kind = company.kind_of_kept().numpy()[self._order]
        self.counted = self._pairs(train)
        self.loudness = self._loudness(train)
        by_band = (N_RARE + 1) * N_BANDS
        sizes = company.rarity.numel(), by_band, (N_RARE + 1) * N_NEAR, by_band
        self.moved = _Kinds(*(np.zeros(size) for size in sizes))

    @classmethod
    def of(cls, model: Model, train: Cohort) -> PairMatching | None:
        """For a model that knows pairs; None for others."""
        company = company_of(model)
        return None if company is None else cls(model, company, train)

    def _loudness(self, cohort: Cohort) -> float:
        """How many times over the last code of a visit hears a correction, once for each speaker: a mean over pairs."""
        size = torch.from_numpy(cohort.codes_per_visit)
        speakers, pairs = (size - 1).clamp(min=1), (size * (size - 1)).double()
        with torch.no_grad():
            times = speakers * self.company.weight(speakers)
        return max(float((times * pairs).sum() / pairs.sum().clamp(min=1)), 1.0)

    def _pairs(self, cohort: Cohort) -> _Pairs:
        counts, block = pair_counts(cohort), self.head.block_of_code.numpy()
        one, two = self.rank_of_code[counts.first], self.rank_of_code[counts.second]
        turned = block[one] > block[two]
        first, second = np.where(turned, two, one), np.where(turned, one, two)
        alone, rare = self.head.alone.numpy(), self.company.emphasis.rareness.numpy() < N_RARE
        heard = (block[first] < block[second]) & alone[first] & alone[second] & rare[second]
        codes = np.zeros(len(self.rank_of_code))
        codes[self.rank_of_code] = cohort.visit_counts
        visits, patients = counts.visits[heard].astype(np.float64), counts.patients[heard]
        return _Pairs(first[heard], second[heard], visits, patients, cohort.n_visits, codes)

    def _by_kind(self, pairs: _Pairs, times: Numbers, counted: bool) -> _Kinds:
        """Pairs that come so many times, by kind: those of training patients, who were counted, or of drawn ones.

        Unknown pairs are those that too few *other* patients hold. To a drawn patient all holders are others. A
        training patient is one of the holders, so that a pair of exactly as many patients as it takes has one too few.
        """
        key = pairs.second * len(self.rank_of_code) + pairs.first
        place = np.minimum(np.searchsorted(self._kept, key), len(self._kept) - 1)
        kept = self._kept[place] == key
        unknown = pairs.patients <= self.company.least_patients if counted else ~kept
        emphasis, band = self.company.emphasis, self.company.band.long().numpy()
        degree = emphasis.rareness.long().numpy()[pairs.second]
        by_speaker, near = degree * N_BANDS + band[pairs.first], degree * N_NEAR
        if emphasis.family is not None:
            family = emphasis.family.numpy()
            near = near + emphasis.nearness.numpy()[family[pairs.first], family[pairs.second]]
        return _Kinds(
            _summed(self._kind[place[kept]], times[kept], self.moved.kept),
            _summed(by_speaker[kept], times[kept], self.moved.partner),
            _summed(near[unknown], times[unknown], self.moved.near),
            _summed(by_speaker[unknown], times[unknown], self.moved.speaker),
        )

    def correct(self, drawn: Cohort, step: float = 1.0) -> float:
        """Let rare codes hear more or less by what a pilot holds; kept pairs in it, beside how many there should be.

        With a step below 1 they go that share of the way.
        """
        found = self._pairs(drawn)
        expected_codes = self.counted.codes * found.n_visits / max(self.counted.n_visits, 1)
        ratio = np.clip((found.codes + _SHRINKAGE) / (expected_codes + _SHRINKAGE), 1 / _FAR, _FAR)
        expected = self._by_kind(self.counted, self.counted.of_visits(found.n_visits, ratio), counted=True)
        came = self._by_kind(found, found.visits, counted=False)
        before = self.moved
        kept, *shapes = (_log_ratio(*of_kind) for of_kind in zip(expected, came, strict=True))
        partner, near, speaker = (_shape(*of_kind) for of_kind in zip(shapes, expected[1:], strict=True))
        # All speakers are corrected at once, but few of those that are heard are kept partners.
        of_kept, of_all = step / self.loudness**0.5, step / self.loudness
        moves = (of_kept * kept, of_kept * partner, of_all * near, of_all * speaker)
        self.moved = _Kinds(*(np.clip(there + move, -_MOST, _MOST) for there, move in zip(before, moves, strict=True)))
        emphasis = self.company.emphasis
        for table, moved in zip(
            (emphasis.by_partner, emphasis.by_nearness, emphasis.by_speaker), self.moved[1:], strict=True
        ):
            table.copy_(_tensor(moved).view(N_RARE + 1, -1))
        self.company.believe(_tensor(self.moved.kept - before.kept))
        return float(came.kept.sum() / max(expected.kept.sum(), 1e-12))


def _log_ratio(expected: Numbers, found: Numbers) -> Numbers:
    """By how much pairs of each kind came too rarely, in log-odds; 0 for kinds of which little is expected.

    >>> _log_ratio(np.array([90.0, 5.0]), np.array([40.0, 0.0])).round(3).tolist()
    [0.693, 0.0]
    """
    return np.where(expected >= _ENOUGH, np.log((expected + _ENOUGH) / (found + _ENOUGH)), 0.0)


def _shape(moves: Numbers, expected: Numbers) -> Numbers:
    """Moves whose mean over the pairs of codes of one rareness is 0: how often these codes come is not to change.

    >>> degrees = N_RARE + 1
    >>> _shape(np.array([1.0, 0.0] * degrees), np.array([30.0, 90.0] * degrees))[:4].tolist()
    [0.75, -0.25, 0.75, -0.25]
    """
    moves, weight = moves.reshape(N_RARE + 1, -1), np.where(expected >= _ENOUGH, expected, 0.0).reshape(N_RARE + 1, -1)
    mean = (moves * weight).sum(axis=1) / np.maximum(weight.sum(axis=1), 1e-12)
    return np.asarray(np.where(weight > 0, moves - mean[:, None], 0.0).reshape(-1))


def _summed(kind: Positions, times: Numbers, like: Numbers) -> Numbers:
    return np.bincount(kind, times, minlength=len(like)).astype(np.float64)


def _tensor(numbers: Numbers) -> Tensor:
    return torch.from_numpy(numbers).float()
