"""The tail suite: do generated codes, and rare ones above all, stand with the codes they stand with in reality?

Each metric comes twice: against the training visits, as in the paper, where a photocopier is perfect, and with
`_heldout` against the test visits, where it is not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from adapcla.metrics.contexts import Contexts
from adapcla.metrics.contract import ALL, Comparison, Score, finite, metric
from adapcla.metrics.intervals import counts_without_groups, jackknife_interval, ratio_scores
from adapcla.metrics.pairs import PairSet, cooccurrence, visit_pairs, visits_with_neighbours
from adapcla.records import Cohort
from adapcla.records.strata import BANDS, TAIL_CUTS

Mask = NDArray[np.bool_]
#: The measures of contexts, with their bounds.
_CONTEXT_BOUNDS = {
    "tail_ctx_jsd": (0.0, float(np.log(2.0))),
    "tail_ctx_left_out": (0.0, 1.0),
    "tail_topk_jac": (0.0, 1.0),
}
_REFERENCES = ("train", "test")


def tail_strata(comparison: Comparison) -> dict[str, Mask]:
    """The sets of codes that tail scores are given for: three cuts, four count bands, and the tail of each domain.

    >>> train = Cohort.of([[["A", "B", "C"], ["B", "C"], ["C"]]])
    >>> sorted(tail_strata(Comparison.of(train, train, train)))
    ['1', '2-5', '21+', '6-20', 'all', 'rare20', 'singletons']
    """
    strata = comparison.strata
    out = {ALL if cut == TAIL_CUTS[0] else cut: strata.cut(cut) for cut in TAIL_CUTS}
    out.update({band: strata.band(band) for band in BANDS})
    out.update({name: strata.tail & mask for name, mask in domain_strata(comparison).items()})
    return out


def domain_strata(comparison: Comparison) -> dict[str, Mask]:
    """The codes of each domain as `domain:NAME`, where there are several domains.

    >>> train = Cohort.of([[["A"]]])
    >>> domain_strata(Comparison.of(train, train, train))
    {}
    """
    domains = comparison.vocabulary.domains
    if len(domains) < 2:
        return {}
    return {f"domain:{name}": comparison.vocabulary.domain_mask(name) for name in domains}


# ---- pairs seen in reality ----------------------------------------------------------------------------------
def _pair_tallies(comparison: Comparison, masks: list[Mask]) -> dict[str, NDArray[np.float64]]:
    """Patients × strata: pairs with at least one code of the stratum, and those seen in train and in test."""
    seen = {
        name: comparison.of_cohort("pair set", getattr(comparison, name), _pair_set_of(comparison))
        for name in _REFERENCES
    }
    n = comparison.synthetic.n_patients
    out = {name: np.zeros((n, len(masks))) for name in ("pairs", *_REFERENCES)}
    for first, second, patient in visit_pairs(comparison.synthetic):
        found = {name: pair_set.holds(first, second) for name, pair_set in seen.items()}
        for k, mask in enumerate(masks):
            inside = mask[first] | mask[second]
            out["pairs"][:, k] += np.bincount(patient[inside], minlength=n)
            for name, hit in found.items():
                out[name][:, k] += np.bincount(patient[inside & hit], minlength=n)
    return out


def _pair_set_of(comparison: Comparison) -> Callable[[Cohort], PairSet]:
    """A function from a cohort to its pairs, which reuses the comparison's counts."""
    return lambda cohort: PairSet.of(comparison.of_cohort("co-occurrence", cohort, cooccurrence))


def _pair_scores(comparison: Comparison) -> dict[str, dict[str, Score]]:
    """All scores of pairs seen, by metric key and stratum, from one pass over the generated pairs."""
    everything = {ALL: np.ones(len(comparison.vocabulary), dtype=bool), **domain_strata(comparison)}
    tails = tail_strata(comparison)
    tallies = _pair_tallies(comparison, [*everything.values(), *tails.values()])
    reasons = ["no visit of two codes was generated"] * len(everything)
    reasons += [
        "training has no such code" if not mask.any() else "no such code was generated with a neighbour"
        for mask in tails.values()
    ]
    out: dict[str, dict[str, Score]] = {}
    for name, suffix in zip(_REFERENCES, ("", "_heldout"), strict=True):
        scores = ratio_scores(comparison, tallies[name], tallies["pairs"], reasons)
        out["pair_seen" + suffix] = dict(zip(everything, scores, strict=False))
        out["tail_pair_seen" + suffix] = dict(zip(tails, scores[len(everything) :], strict=True))
    return out


# ---- contexts of single codes -------------------------------------------------------------------------------
class _Judge:
    """Scores synthetic contexts against the contexts of one real cohort, for all strata at once."""

    def __init__(self, comparison: Comparison, cohort: Cohort, masks: dict[str, Mask]) -> None:
        counts = comparison.of_cohort("co-occurrence", cohort, cooccurrence)
        self.contexts = comparison.of_cohort("contexts", cohort, lambda _: Contexts.of(counts))
        self.weight = visits_with_neighbours(cohort).astype(np.float64)
        self.masks = masks

    def measures(self, synthetic: Contexts) -> dict[tuple[str, str], tuple[float, int]]:
        """(value, codes behind it) by (metric, stratum); NaN where there is nothing to score."""
        divergence = self.contexts.divergence(synthetic)
        shared = self.contexts.shared_top(synthetic)
        out = {}
        for stratum, mask in self.masks.items():
            known = mask & (self.weight > 0)
            made = known & synthetic.exists
            left_out = 1 - made.sum() / mask.sum() if mask.any() else np.nan
            out["tail_ctx_jsd", stratum] = (_mean(divergence, self.weight, made), int(made.sum()))
            out["tail_ctx_left_out", stratum] = (float(left_out), int(mask.sum()))
            out["tail_topk_jac", stratum] = (_mean(shared, self.weight, known), int(known.sum()))
        return out


def _mean(values: NDArray[np.float64], weight: NDArray[np.float64], where: Mask) -> float:
    """The weighted mean over some codes, NaN over none."""
    return float(np.average(values[where], weights=weight[where])) if where.any() else np.nan


def _context_scores(comparison: Comparison) -> dict[str, dict[str, Score]]:
    """All scores of contexts, by metric key and stratum, with jackknife intervals from one pass over the groups."""
    masks = tail_strata(comparison)
    judges = {name: _Judge(comparison, getattr(comparison, name), masks) for name in _REFERENCES}
    counts = comparison.of_cohort("co-occurrence", comparison.synthetic, cooccurrence)
    whole = Contexts.of(counts)
    values = {name: judge.measures(whole) for name, judge in judges.items()}
    without: dict[str, list[dict[tuple[str, str], tuple[float, int]]]] = {name: [] for name in _REFERENCES}
    for rest in counts_without_groups(comparison, counts, cooccurrence):
        contexts = Contexts.of(rest)
        for name, judge in judges.items():
            without[name].append(judge.measures(contexts))
    out: dict[str, dict[str, Score]] = {}
    for name, suffix in zip(_REFERENCES, ("", "_heldout"), strict=True):
        for (key, stratum), (value, n) in values[name].items():
            drawn = np.array([one[key, stratum][0] for one in without[name]])
            out.setdefault(key + suffix, {})[stratum] = _context_score(key, value, n, drawn, masks[stratum])
    return out


def _context_score(key: str, value: float, n: int, without: NDArray[np.float64], mask: Mask) -> Score:
    """A score, or why there is none."""
    if finite(value) is None:
        known = (
            "no such code was generated with a neighbour" if key == "tail_ctx_jsd" else "no such code has a neighbour"
        )
        return Score.missing(known if mask.any() else "training has no such code")
    low, high = jackknife_interval(value, without, _CONTEXT_BOUNDS[key]) if len(without) else (None, None)
    return Score(value, n, low, high)


# ---- registration -------------------------------------------------------------------------------------------
def _pair_metric(key: str, heldout: bool, summary: str) -> None:
    """Register one metric of pairs."""

    def compute(comparison: Comparison) -> dict[str, Score]:
        return comparison.shared("pair scores", lambda: _pair_scores(comparison))[key]

    compute.__doc__ = summary
    origin = "own" if heldout else "paper"
    metric(key, suite="tail", goal="up", origin=origin, thinned=True, heldout=heldout)(compute)


def _context_metric(key: str, heldout: bool, summary: str) -> None:
    """Register one metric of contexts."""

    def compute(comparison: Comparison) -> dict[str, Score]:
        return comparison.shared("context scores", lambda: _context_scores(comparison))[key]

    compute.__doc__ = summary
    base = key.removesuffix("_heldout")
    metric(
        key,
        suite="tail",
        goal="up" if base == "tail_topk_jac" else "down",
        bounds=_CONTEXT_BOUNDS[base],
        unit="nats" if base == "tail_ctx_jsd" else "share",
        origin="own" if heldout or base == "tail_ctx_left_out" else "paper",
        sized=True,
        thinned=True,
        heldout=heldout,
    )(compute)


for _suffix, _where in (("", "training"), ("_heldout", "test")):
    _pair_metric(
        "pair_seen" + _suffix, bool(_suffix), f"Share of generated same-visit pairs that {_where} visits hold."
    )
    _pair_metric(
        "tail_pair_seen" + _suffix, bool(_suffix), f"The same over pairs with at least one tail code ({_where} visits)."
    )
    _context_metric(
        "tail_ctx_jsd" + _suffix,
        bool(_suffix),
        f"Divergence of the neighbours of generated tail codes from those in {_where} visits.",
    )
    _context_metric(
        "tail_ctx_left_out" + _suffix,
        bool(_suffix),
        f"Share of tail codes that the divergence leaves out: no neighbour generated, or none in {_where} visits.",
    )
    _context_metric(
        "tail_topk_jac" + _suffix,
        bool(_suffix),
        f"Overlap of the top 20 neighbours of tail codes with those in {_where} visits.",
    )
