"""A prior over pairs of codes: what the codes that a visit holds so far say about the codes still to come.

Codes that are rare in training have seen too few visits for a network to learn which codes come with them. The counts
of pairs know it. For a code `a` that the visit holds and a code `t` that may follow, the prior adds to the logit of t

    Φ(log L) + T(x, e) − T(log L, e)        with   x = log((s + k·L) / (e + k))

where `s` is the number of training patients who hold both codes in one visit, `e` how many would by chance, `L` the
lift between the families of a and t (how much more often than by chance any of their codes occur together) and `k` the
strength of the shrinkage: a pair that is held by few patients is read as a pair of its families. Φ and T are piecewise
linear functions whose values at fixed nodes are learned; T has one row for each band of e. Pairs of the same visit are
added up, times a learned factor for the number of codes so far.

**Leave-one-out.** A training patient's own pairs are among the counts, so that a network could learn to trust them too
much. While training, the patient at hand is left out: s − 1 for every pair that the patient holds, and as many fewer in
the counts of the families. For everybody else, in validation, evaluation and sampling, the counts are as they are.

**Damping.** Whoever counts remembers: a trained network writes a pair of codes the more often the more patients hold
it, one patient included, with this prior or without it. After training, the logit of a pair that n patients hold is
lowered by γ · d(n). d rises from 0 at n = 0 to 1 at `DAMPED_MOST` patients, most of it at once, so that the first
holder changes little, and falls back to 0 at `DAMPED_TO`. Damping needs no training and takes no part in it;
validation, calibration, likelihoods and sampling have it.

Memory grows with the pairs that occur, not with the square of the vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from adapcla.data.ragged import expand_ranges, starts_from_sizes
from adapcla.disclosure import MIN_COUNT

#: Nodes of the piecewise linear functions: log lifts from −4 to 6.
LOWEST, SPACING, N_NODES = -4.0, 0.5, 21
#: Upper edges of the bands of the logarithm of the expected count.
EXPECTED_EDGES = (-6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.5)
#: Pairs that chance would give to so many patients are stored although nobody holds them.
EXPECTED_STORED = 0.5
#: Codes in a visit so far that the factor tells apart; more count as so many.
MOST_CODES = 15
#: Holders of a pair at which damping is strongest, and from which on there is none.
DAMPED_MOST, DAMPED_TO = 3, 30
#: Pairs of codes that are listed at a time when they are counted.
_PAIRS_AT_ONCE = 4_000_000


class PairCounts(NamedTuple):
    """Pairs of codes in sparse rows: the partners of code a are `partner[starts[a]:starts[a + 1]]`, all behind a."""

    starts: NDArray[np.int64]  # (codes + 1,)
    partner: NDArray[np.int64]  # (pairs,)
    patients: NDArray[np.int64]  # (pairs,) patients who hold both codes in one visit; 0 is possible

    @property
    def key(self) -> NDArray[np.int64]:
        """(pairs,) first code · number of codes + second code, ascending."""
        n = len(self.starts) - 1
        return np.repeat(np.arange(n), np.diff(self.starts)) * n + self.partner


def visit_pairs(codes: NDArray[np.int64], sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places (first, second) of all pairs of entries of one visit; `sizes` entries each, one visit after another.

    >>> [x.tolist() for x in visit_pairs(np.array([5, 7, 9, 5]), np.array([3, 1]))]
    [[0, 0, 1], [1, 2, 2]]
    """
    ends = np.repeat(np.cumsum(sizes), sizes)
    here = np.arange(len(codes))
    return np.repeat(here, ends - here - 1), expand_ranges(here + 1, ends)


def count_pairs(
    codes: NDArray[np.int64], sizes: NDArray[np.int64], lengths: NDArray[np.int64], n_codes: int
) -> PairCounts:
    """How many patients hold each pair of codes in one visit.

    Args:
        codes: Codes, ascending inside each visit.
        sizes: Codes of each visit.
        lengths: Visits of each patient.
        n_codes: Size of the vocabulary.

    >>> counts = count_pairs(np.array([0, 1, 0, 1, 0, 1, 2]), np.array([2, 2, 3]), np.array([2, 1]), 3)
    >>> counts.starts.tolist(), counts.partner.tolist(), counts.patients.tolist()
    ([0, 2, 3, 3], [1, 2, 2], [2, 1, 1])
    """
    entry, visit = starts_from_sizes(sizes), starts_from_sizes(lengths)
    pairs_of_visit = sizes * (sizes - 1) // 2
    pairs_so_far = np.cumsum(np.r_[0, pairs_of_visit])[visit]
    pieces = pairs_so_far[:-1] // _PAIRS_AT_ONCE
    keys, patients = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for piece in np.unique(pieces):
        members = np.flatnonzero(pieces == piece)
        visits = slice(visit[members[0]], visit[members[-1] + 1])
        some = codes[entry[visits.start] : entry[visits.stop]]
        owner = np.repeat(np.repeat(np.arange(len(members)), lengths[members]), sizes[visits])
        first, second = visit_pairs(some, sizes[visits])
        pair = np.unique((owner[first] * n_codes + some[first]) * n_codes + some[second]) % n_codes**2
        key, n = np.unique(pair, return_counts=True)
        keys.append(key)
        patients.append(n)
    key, place = np.unique(np.concatenate(keys), return_inverse=True)
    held = np.bincount(place, np.concatenate(patients), minlength=len(key)).astype(np.int64)
    return PairCounts(starts_from_sizes(np.bincount(key // n_codes, minlength=n_codes)), key % n_codes, held)


def with_expected(counts: PairCounts, code_visits: NDArray[np.float64], n_visits: float) -> PairCounts:
    """The counts with the pairs that nobody holds although chance would give them to somebody."""
    n = len(code_visits)
    order = np.argsort(-code_visits, kind="stable")
    falling = code_visits[order]
    least = EXPECTED_STORED * n_visits / np.maximum(code_visits, 1e-9)
    partners = np.searchsorted(-falling, -least, side="right")
    first = np.repeat(np.arange(n), partners)
    second = order[expand_ranges(np.zeros(n, dtype=np.int64), partners)]
    expected = (first * n + second)[first < second]
    key = np.union1d(counts.key, expected)
    patients = np.zeros(len(key), dtype=np.int64)
    patients[np.searchsorted(key, counts.key)] = counts.patients
    return PairCounts(starts_from_sizes(np.bincount(key // n, minlength=n)), key % n, patients)


def damping_share(patients: Tensor) -> Tensor:
    """d of pairs with these numbers of holders: the root of log(1 + n) up to `DAMPED_MOST`, then falling in log(n).

    >>> (100 * damping_share(torch.tensor([0, 1, 2, 3, 10, 30, 500]))).round().int().tolist()
    [0, 71, 89, 100, 48, 0, 0]
    """
    n = patients.double()
    rising = torch.sqrt(torch.log1p(n) / math.log1p(DAMPED_MOST))
    falling = torch.log(DAMPED_TO / n.clamp(min=1)) / math.log(DAMPED_TO / DAMPED_MOST)
    return torch.minimum(rising, falling).clamp(0, 1).float()


class Prefixes(NamedTuple):
    """For some questions ("which code comes next?"), the codes that the visit holds so far."""

    codes: Tensor  # (entries,) question by question
    offsets: Tensor  # (questions,) where each question begins in `codes`
    size: Tensor  # (questions,) number of codes so far


@dataclass(frozen=True)
class OwnPairs:
    """What a batch of training patients contributes to the counts themselves, and where that matters."""

    pair: Tensor  # (own pairs,) the stored pair of each pair that a patient of the batch holds
    question: Tensor  # (n,) for which question …
    code: Tensor  # (n,) … the logit of which code …
    own: Tensor  # (n,) … is to be corrected by which own pair
    family_cell: Tensor  # (own family pairs,) first family · number of families + second
    family_patients: Tensor  # (own family pairs,) pairs of the patient among the counts of the two families
    family_question: Tensor  # (m,)
    family_column: Tensor  # (m,) second family
    family_own: Tensor  # (m,)

    def part(self, low: int, high: int) -> OwnPairs:
        """The corrections of the questions `low` to `high` − 1, which come to be numbered from 0."""
        one, two = (
            slice(*torch.searchsorted(q, torch.tensor([low, high])).tolist())
            for q in (self.question, self.family_question)
        )
        return OwnPairs(
            self.pair, self.question[one] - low, self.code[one], self.own[one],
            self.family_cell, self.family_patients,
            self.family_question[two] - low, self.family_column[two], self.family_own[two],
        )  # fmt: skip


class Tables(NamedTuple):
    """What follows from the learned functions once in a step: values of pairs, of families, and of corrections."""

    pair: Tensor  # (pairs,)
    family: Tensor  # (families, families)
    own: Tensor  # (own pairs,)
    own_family: Tensor  # (own family pairs,)
    factor: Tensor  # (MOST_CODES + 1,)


class CooccurrencePrior(nn.Module):
    """Logits from counts of pairs; see the module's description.

    Args:
        n_pairs: Stored pairs; 0 before they are counted.
        family: (codes,) family of each code, in the order in which codes are drawn.
        code_visits: (codes,) training visits that hold each code; small counts that may not be shared must be alike.
        n_visits: Training visits.
        strength: k, in patients.
        learned: Whether counts add to the logits; if not, they are damped alone, and there is nothing to learn.
        damping: γ.
    """

    def __init__(
        self,
        n_pairs: int,
        family: Tensor,
        code_visits: Tensor,
        n_visits: float,
        strength: float,
        learned: bool = True,
        damping: float = 0.0,
    ) -> None:
        super().__init__()
        self.learned, self.damping = learned, damping
        self.n_codes, self.n_families = len(family), int(family.max()) + 1
        self.strength, self.n_visits = strength, max(n_visits, 1.0)
        self.family: Tensor
        self.code_visits: Tensor
        self.starts: Tensor
        self.partner: Tensor
        self.patients: Tensor
        self.family_patients: Tensor
        self.register_buffer("family", family.clone(), persistent=False)
        self.register_buffer("code_visits", code_visits.double(), persistent=False)
        self.register_buffer("starts", torch.zeros(self.n_codes + 1, dtype=torch.int64))
        self.register_buffer("partner", torch.zeros(n_pairs, dtype=torch.int32))
        self.register_buffer("patients", torch.zeros(n_pairs, dtype=torch.int32))
        self.register_buffer("family_patients", torch.zeros(self.n_families, self.n_families, dtype=torch.int64))
        if learned:
            nodes = LOWEST + SPACING * torch.arange(N_NODES)
            self.pair_nodes = nn.Parameter(nodes.repeat(len(EXPECTED_EDGES) + 1, 1))
            self.family_nodes = nn.Parameter(nodes.clone())
            self.log_factor = nn.Parameter(torch.full((MOST_CODES + 1,), -0.4))
        self.__dict__["_places"] = None

    # ---- counts -----------------------------------------------------------------------------------------
    def store(self, counts: PairCounts) -> None:
        """Keep these counts of pairs."""
        self.starts = torch.as_tensor(counts.starts)
        self.partner = torch.as_tensor(counts.partner.astype(np.int32))
        self.patients = torch.as_tensor(counts.patients.astype(np.int32))
        self.family_patients = torch.as_tensor(self._sums_by_family(counts))
        self.__dict__["_places"] = None

    def _sums_by_family(self, counts: PairCounts) -> NDArray[np.int64]:
        """(families, families) patients of all pairs of two families, in both directions; inside a family once."""
        n, f, family = self.n_codes, self.n_families, self.family.cpu().numpy()
        one = family[np.repeat(np.arange(n), np.diff(counts.starts))]
        sums = np.bincount(one * f + family[counts.partner], counts.patients, minlength=f * f).reshape(f, f)
        return np.asarray(sums + sums.T - np.diag(sums.diagonal()), dtype=np.int64)

    def without_small_counts(self) -> dict[str, Tensor]:
        """The counts for others: pairs of fewer patients than may be shared are left to their families.

        What the families know of such pairs is left out, too, where it is little.
        """
        counts = self.counts
        small = (counts.patients > 0) & (counts.patients < MIN_COUNT)
        rows = np.repeat(np.arange(self.n_codes), np.diff(counts.starts))[~small]
        starts = starts_from_sizes(np.bincount(rows, minlength=self.n_codes))
        kept = PairCounts(starts, counts.partner[~small], counts.patients[~small])
        shared = self._sums_by_family(kept)
        hidden = self.family_patients.cpu().numpy() - shared
        return {
            "starts": torch.as_tensor(kept.starts),
            "partner": torch.as_tensor(kept.partner.astype(np.int32)),
            "patients": torch.as_tensor(kept.patients.astype(np.int32)),
            "family_patients": torch.as_tensor(shared + np.where(hidden < MIN_COUNT, 0, hidden)),
        }

    def problem_with(self, counts: dict[str, Tensor]) -> str:
        """What is wrong with stored counts; empty where nothing is."""
        starts, partner = counts["starts"].cpu().numpy(), counts["partner"].cpu().numpy()
        if starts[0] != 0 or starts[-1] != len(partner) or (np.diff(starts) < 0).any():
            return "'prior.starts' does not cut the pairs into rows"
        row = np.repeat(np.arange(self.n_codes), np.diff(starts))
        if (partner <= row).any() or (partner >= self.n_codes).any():
            return "'prior.partner' names a code that cannot follow"
        for name in ("patients", "family_patients"):
            number = counts[name]
            if number.numel() and (int(number.min()) < 0 or int(number.max()) > self.n_visits * self.n_codes**2):
                return f"'prior.{name}' is no number of patients"
        return ""

    @property
    def counts(self) -> PairCounts:
        """The stored counts."""
        return PairCounts(
            self.starts.cpu().numpy(), self.partner.cpu().numpy().astype(np.int64), self.patients.cpu().numpy()
        )

    def _load_from_state_dict(self, *args: Any, **named: Any) -> None:
        self.__dict__["_places"] = None
        super()._load_from_state_dict(*args, **named)

    @property
    def places(self) -> _Places:
        """What follows from the counts and never changes."""
        if self.__dict__["_places"] is None:
            self.__dict__["_places"] = _Places.of(self)
        places: _Places = self.__dict__["_places"]
        return places

    def _apply(self, *args: Any, **named: Any) -> CooccurrencePrior:
        self.__dict__["_places"] = None
        super()._apply(*args, **named)
        return self

    # ---- values -----------------------------------------------------------------------------------------
    def tables(self, own: OwnPairs | None = None) -> Tables:
        """Values of all stored pairs and of all pairs of families; with gradients."""
        damped = 0.0 if self.training else -self.damping * damping_share(self.patients)
        if not self.learned:
            family, factor = torch.zeros(self.n_families, self.n_families), torch.ones(MOST_CODES + 1)
            return Tables(torch.zeros(len(self.patients)) + damped, family, torch.zeros(0), torch.zeros(0), factor)
        places = self.places
        pair = self._pair_values(places.pair, slice(None)) + damped
        family = _interpolate(self.family_nodes, places.family)
        nothing = pair.new_zeros(0)
        if own is None:
            return Tables(pair, family, nothing, nothing, torch.exp(self.log_factor))
        fewer = self._positions(places, own.pair, self.patients[own.pair].double() - 1)
        own_pair = self._pair_values(fewer, own.pair) - pair[own.pair]
        seen = places.family_seen.flatten()[own.family_cell] - own.family_patients
        lift = _log_lift(seen, places.family_expected.flatten()[own.family_cell], self.strength)
        own_family = _interpolate(self.family_nodes, _Position.of(lift)) - family.flatten()[own.family_cell]
        return Tables(pair, family, own_pair, own_family, torch.exp(self.log_factor))

    def _positions(self, places: _Places, pairs: Tensor, patients: Tensor) -> _Position:
        """Where pairs with these numbers of patients lie on the nodes of T."""
        lift = places.log_lift[pairs].exp()
        x = torch.log((patients + self.strength * lift) / (places.expected[pairs] + self.strength))
        return _Position.of(x, places.band[pairs])

    def _pair_values(self, position: _Position, pairs: Tensor | slice) -> Tensor:
        nodes = self.pair_nodes.flatten()
        return _interpolate(nodes, position) - _interpolate(nodes, self.places.reference.keep(pairs))

    def rows(self, tables: Tables, codes: Tensor) -> Tensor:
        """(some codes, codes) what each of some codes, once drawn, adds to every logit."""
        family = tables.family[self.family[codes]]  # (C, families)
        begin, end = self.starts[codes], self.starts[codes + 1]
        pairs = torch.as_tensor(expand_ranges(begin.cpu().numpy(), end.cpu().numpy()))
        row = torch.repeat_interleave(torch.arange(len(codes)), end - begin)
        return family[:, self.family].index_put((row, self.partner[pairs].long()), tables.pair[pairs], accumulate=True)

    def logits(self, tables: Tables, prefixes: Prefixes, own: OwnPairs | None = None) -> Tensor:
        """(questions, codes) what is added to the logits of each question."""
        codes, place = torch.unique(prefixes.codes, return_inverse=True)
        if not len(codes):
            return torch.zeros(len(prefixes.offsets), self.n_codes)
        total = F.embedding_bag(place, self.rows(tables, codes), prefixes.offsets, mode="sum")
        if own is not None:
            total = total.index_put((own.question, own.code), tables.own[own.own], accumulate=True)
            if len(own.family_question):
                small = torch.zeros(len(total), self.n_families)
                cells = (own.family_question, own.family_column)
                small = small.index_put(cells, tables.own_family[own.family_own], accumulate=True)
                total = total + small[:, self.family]
        return total * tables.factor[prefixes.size.clamp(max=MOST_CODES)][:, None]

    # ---- leave-one-out ----------------------------------------------------------------------------------
    def own_pairs(self, codes: Tensor, sizes: Tensor, patient_of_visit: Tensor, lowest: Tensor) -> OwnPairs:
        """The pairs of a batch of training patients.

        Question number entry + visit is what comes after that many codes of the visit, so that a visit of m codes has
        m + 1 questions.

        Args:
            codes: (entries,) ascending inside each visit.
            sizes: (visits,) codes of each visit.
            patient_of_visit: (visits,)
            lowest: (questions,) first code that may still come; others need no correction.
        """
        n, code, size = self.n_codes, codes.cpu().numpy(), sizes.cpu().numpy()
        visit = np.repeat(np.arange(len(size)), size)
        patient = patient_of_visit.cpu().numpy()[visit]
        first, second = visit_pairs(code, size)
        own = np.unique((patient[first] * n + code[first]) * n + code[second])
        stored = self.places.key
        pair = np.searchsorted(stored, own % n**2)
        if len(own) and (pair.max(initial=0) >= len(stored) or not np.array_equal(stored[pair], own % n**2)):
            raise ValueError("patients hold pairs that were never counted: they are no training patients")
        # Every question of a visit has the entries before it as its prefix.
        here = np.arange(len(code))
        ends = np.repeat(np.cumsum(size), size)
        entry = np.repeat(here, ends - here)
        question = expand_ranges(here + 1, ends + 1) + visit[entry]
        order = np.argsort(question, kind="stable")
        entry, question = entry[order], question[order]
        holder = patient * n + code
        who, which = _matches(own // n, holder[entry])
        target = own[which] % n
        needed = target >= lowest.cpu().numpy()[question[who]]
        who, which = who[needed], which[needed]
        # The same for families, whose counts hold each pair in both directions.
        f, family = self.n_families, self.family.cpu().numpy()
        one, other = family[own // n % n], family[own % n]
        both = np.r_[(own // n**2 * f + one) * f + other, ((own // n**2 * f + other) * f + one)[one != other]]
        cells, number = np.unique(both, return_counts=True)
        asks, cell = _matches(cells // f, (patient * f + family[code])[entry])
        return OwnPairs(
            torch.as_tensor(pair),
            torch.as_tensor(question[who]),
            torch.as_tensor(own[which] % n),
            torch.as_tensor(which),
            torch.as_tensor(cells % f**2),
            torch.as_tensor(number),
            torch.as_tensor(question[asks]),
            torch.as_tensor(cells[cell] % f),
            torch.as_tensor(cell),
        )


def _matches(keys: NDArray[np.int64], wanted: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(position in `wanted`, position in the ascending `keys`) of all equal pairs.

    >>> [x.tolist() for x in _matches(np.array([1, 4, 4]), np.array([4, 0, 1]))]
    [[0, 0, 2], [1, 2, 0]]
    """
    low, high = np.searchsorted(keys, wanted), np.searchsorted(keys, wanted, side="right")
    return np.repeat(np.arange(len(wanted)), high - low), expand_ranges(low, high)


class _Position(NamedTuple):
    """A place between two nodes: the node below it and the weight of the node above."""

    node: Tensor
    weight: Tensor

    @classmethod
    def of(cls, x: Tensor, row: Tensor | None = None) -> _Position:
        """The place of x, in a row of nodes."""
        scaled = ((x - LOWEST) / SPACING).clamp(0, N_NODES - 1.001)
        below = scaled.floor()
        node = below.long() if row is None else below.long() + N_NODES * row
        return cls(node, (scaled - below).float())

    def keep(self, which: Tensor | slice) -> _Position:
        """Some of the places."""
        return _Position(self.node[which], self.weight[which])


def _interpolate(nodes: Tensor, position: _Position) -> Tensor:
    """The values at these places."""
    below, above = nodes[position.node], nodes[position.node + 1]
    return below + position.weight * (above - below)


def _log_lift(seen: Tensor, expected: Tensor, strength: float) -> Tensor:
    """The logarithm of (seen + k) / (expected + k)."""
    return torch.log((seen.clamp(min=0) + strength) / (expected + strength))


class _Places(NamedTuple):
    """What follows from the counts of pairs: where pairs and families lie on the nodes."""

    key: NDArray[np.int64]  # (pairs,)
    expected: Tensor  # (pairs,) patients by chance
    band: Tensor  # (pairs,) band of the expected count
    log_lift: Tensor  # (pairs,) of the families, without the pair itself
    pair: _Position
    reference: _Position  # of the families' lift
    family_seen: Tensor  # (families, families)
    family_expected: Tensor
    family: _Position

    @classmethod
    def of(cls, prior: CooccurrencePrior) -> _Places:
        """The places of the prior's counts."""
        counts, visits = prior.counts, prior.code_visits
        n, f = prior.n_codes, prior.n_families
        first = torch.as_tensor(np.repeat(np.arange(n), np.diff(counts.starts)))
        second, seen = prior.partner.long(), prior.patients.double()
        of_family = torch.zeros(f, dtype=torch.float64).index_add(0, prior.family, visits)
        by_chance = torch.outer(of_family, of_family) / prior.n_visits
        same = torch.zeros(f, dtype=torch.float64).index_add(0, prior.family, visits**2 / prior.n_visits)
        # Inside a family each pair counts once; between two families it is counted in both directions.
        by_chance.diagonal().sub_(same).div_(2)
        total = (by_chance.sum() + by_chance.diagonal().sum()) / 2
        # A patient's later visits hold pairs again, so that patients are fewer than visits.
        seen_in_all = float(prior.family_patients.sum() + prior.family_patients.diagonal().sum()) / 2
        ratio = seen_in_all / max(float(total), 1e-9) if seen_in_all else 1.0
        expected = ratio * visits[first] * visits[second] / prior.n_visits
        one, other = prior.family[first], prior.family[second]
        family_seen = prior.family_patients.double()
        family_expected = ratio * by_chance
        alone = _log_lift(
            family_seen[one, other] - seen, (family_expected[one, other] - expected).clamp(min=0), prior.strength
        )
        band = torch.bucketize(torch.log(expected.clamp(min=1e-9)), torch.tensor(EXPECTED_EDGES, dtype=torch.float64))
        x = torch.log((seen + prior.strength * alone.exp()) / (expected + prior.strength))
        return cls(
            counts.key,
            expected,
            band,
            alone,
            _Position.of(x, band),
            _Position.of(alone, band),
            family_seen,
            family_expected,
            _Position.of(_log_lift(family_seen, family_expected, prior.strength)),
        )
