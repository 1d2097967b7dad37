"""Do generated codes, and rare ones above all, stand with the codes that they stand with in reality?

Each metric comes twice: against the training visits, as in the paper, where memorisation is perfect, and with
`_heldout` against the test visits, where it is not. For pairs, visits of two codes or more count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data.cooccurrence import PairSet, visit_pairs
from adapcla.evaluation.bootstrap import PatientSums
from adapcla.evaluation.comparison import ALL, Comparison, Mask, Missing, Real
from adapcla.evaluation.metric import NATS, R2, CountMetric, RatioMetric, Value
from adapcla.evaluation.statistics import Floats, PairCounts, SequentialCounts, r_squared

BOTH: tuple[Real, ...] = ("train", "test")
NO_SUCH_CODE = Missing("training has no such code")


# ---- pairs seen in reality ----------------------------------------------------------------------------------
class PairSeen(RatioMetric):
    """Share of generated same-visit pairs that training visits hold."""

    key, suite, goal, origin = "pair_seen", "tail", "up", "paper"
    against = BOTH
    thinned = by_domain = True

    def sums(self, comparison: Comparison) -> dict[str, PatientSums | Missing]:
        """Pairs, and those seen, of each synthetic patient: in all, and with a code of each domain."""
        tallies, reason = comparison.once(_tallies)["any"], "no visit of two codes was generated"
        return {stratum: PatientSums(seen[self.real], pairs, reason) for stratum, (pairs, seen) in tallies.items()}


class TailPairSeen(RatioMetric):
    """Share of generated same-visit pairs with at least one tail code that training visits hold."""

    key, suite, goal, origin = "tail_pair_seen", "tail", "up", "paper"
    against = BOTH
    thinned = by_domain = True

    def sums(self, comparison: Comparison) -> dict[str, PatientSums | Missing]:
        """Pairs with a code of each set of rare codes, and those seen, of each synthetic patient."""
        strata, reason = comparison.training.tail_strata, "no such code was generated with a neighbour"
        return {
            stratum: PatientSums(seen[self.real], pairs, reason) if strata[stratum].any() else NO_SUCH_CODE
            for stratum, (pairs, seen) in comparison.once(_tallies)["rare"].items()
        }


class _Tally(NamedTuple):
    """Pairs of each synthetic patient, and those of them that each real cohort holds."""

    pairs: Floats
    seen: dict[Real, Floats]


def _tallies(comparison: Comparison) -> dict[str, dict[str, _Tally]]:
    """The pairs of any code and those of rare codes by stratum, from one pass over the generated pairs."""
    everything = {ALL: np.ones(len(comparison.vocabulary), dtype=bool), **comparison.training.domains}
    rare = comparison.training.tail_strata
    masks = [*everything.values(), *rare.values()]
    rows = _tally(comparison, masks) if comparison.intervals else _pooled_tally(comparison, masks)
    n = len(everything)
    return {"any": dict(zip(everything, rows[:n], strict=True)), "rare": dict(zip(rare, rows[n:], strict=True))}


def _tally(comparison: Comparison, masks: list[Mask]) -> list[_Tally]:
    """For each mask the pairs with at least one of its codes."""
    n = comparison.synthetic.n_patients
    known: dict[Real, PairSet] = {real: comparison.counts(PairCounts, real).pairs for real in BOTH}
    out = [_Tally(np.zeros(n), {real: np.zeros(n) for real in BOTH}) for _ in masks]
    for first, second, patient in visit_pairs(comparison.synthetic):
        seen = {real: pairs.holds(first, second) for real, pairs in known.items()}
        for mask, tally in zip(masks, out, strict=True):
            inside = mask[first] | mask[second]
            tally.pairs[:] += np.bincount(patient[inside], minlength=n)
            for real, hit in seen.items():
                tally.seen[real][:] += np.bincount(patient[inside & hit], minlength=n)
    return out


def _pooled_tally(comparison: Comparison, masks: list[Mask]) -> list[_Tally]:
    """The same over all patients together, in one row: each different pair is looked up once."""
    counts = sparse.triu(comparison.counts(PairCounts).together, format="coo")
    seen: dict[Real, Mask] = {
        real: comparison.counts(PairCounts, real).pairs.holds(counts.row, counts.col) for real in BOTH
    }
    inside = [(mask[counts.row] | mask[counts.col]).astype(np.float64) for mask in masks]
    return [
        _Tally(np.array([here @ counts.data]), {real: np.array([here @ (counts.data * seen[real])]) for real in BOTH})
        for here in inside
    ]


# ---- contexts of single codes -------------------------------------------------------------------------------
class TailCtxJSD(CountMetric[PairCounts]):
    """Divergence of the neighbours of generated tail codes from those in training visits.

    The mean over codes generated with a neighbour, weighted by the real visits that hold them beside another code.
    """

    key, suite, goal, origin = "tail_ctx_jsd", "tail", "down", "paper"
    bounds, unit, statistic = NATS, "nats", PairCounts
    against = BOTH
    sized = thinned = by_domain = True

    def values(self, made: PairCounts, comparison: Comparison) -> dict[str, Value]:
        """The divergence for each set of rare codes."""
        real = comparison.counts(PairCounts, self.real)
        numbers, generated = real.contexts.divergence(made.contexts), (real.holders > 0) & made.contexts.exists
        reason = "no such code was generated with a neighbour"
        return _of_tails(comparison, lambda mask: _weighted_mean(numbers, real.holders, mask & generated, reason))


class TailCtxLeftOut(CountMetric[PairCounts]):
    """Share of tail codes that the divergence leaves out: no neighbour generated, or none in training visits."""

    key, suite, goal = "tail_ctx_left_out", "tail", "down"
    statistic, against = PairCounts, BOTH
    sized = thinned = by_domain = True

    def values(self, made: PairCounts, comparison: Comparison) -> dict[str, Value]:
        """The share of each set of rare codes."""
        known = (comparison.counts(PairCounts, self.real).holders > 0) & made.contexts.exists
        return _of_tails(comparison, lambda mask: Value(1 - float(known[mask].mean()), int(mask.sum())))


class TailTopKJac(CountMetric[PairCounts]):
    """Overlap of the top 20 neighbours of tail codes with those in training visits.

    The mean over codes with a neighbour in reality, weighted as for the divergence; a code never generated counts 0.
    """

    key, suite, goal, origin = "tail_topk_jac", "tail", "up", "paper"
    statistic, against = PairCounts, BOTH
    sized = thinned = by_domain = True

    def values(self, made: PairCounts, comparison: Comparison) -> dict[str, Value]:
        """The overlap for each set of rare codes."""
        real = comparison.counts(PairCounts, self.real)
        numbers, known = real.contexts.shared_top(made.contexts), real.holders > 0
        reason = "no such code has a neighbour"
        return _of_tails(comparison, lambda mask: _weighted_mean(numbers, real.holders, mask & known, reason))


def _of_tails(comparison: Comparison, value_of: Callable[[Mask], Value]) -> dict[str, Value]:
    """A number for each set of rare codes that training has."""
    return {
        stratum: value_of(mask) if mask.any() else Value.missing(NO_SUCH_CODE.reason)
        for stratum, mask in comparison.training.tail_strata.items()
    }


def _weighted_mean(values: Floats, weight: NDArray[np.int64], where: Mask, reason: str) -> Value:
    """The mean over some codes."""
    if not where.any():
        return Value.missing(reason)
    return Value(float(np.average(values[where], weights=weight[where].astype(np.float64))), int(where.sum()))


# ---- probabilities of pairs ---------------------------------------------------------------------------------
class BigramR2(CountMetric[Any]):
    """R² of bigram probabilities with those of training visits."""

    key, suite, goal, origin = "bigram_r2", "fidelity", "up", "HALO"
    bounds, unit = R2, "R²"
    statistic: type[Any] = PairCounts
    against = BOTH
    sized = by_domain = True

    def values(self, made: PairCounts | SequentialCounts, comparison: Comparison) -> dict[str, Value]:
        """R² over all pairs: of codes in a visit, or of a code and one of the patient's next visit."""
        real = comparison.counts(self.statistic, self.real)
        reason = "their probabilities do not vary"
        return {ALL: Value(*r_squared(real.together, real.places, made.together, made.places), reason)}


class SequentialBigramR2(BigramR2):
    """R² of sequential bigram probabilities with those of training visits."""

    key, statistic = "sequential_bigram_r2", SequentialCounts
