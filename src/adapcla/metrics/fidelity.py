"""The fidelity suite: prevalence, n-grams, lengths, tail mass and coverage of a synthetic cohort."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance

from adapcla.metrics import sequence  # noqa: F401  (registers the metrics of whole records)
from adapcla.metrics.contract import ALL, Comparison, Goal, Score, metric
from adapcla.metrics.intervals import counts_without_groups, groups_of, jackknife_score, ratio_scores
from adapcla.metrics.ngrams import KINDS, Agreement, agreement, places
from adapcla.metrics.plausibility import domain_strata, tail_strata
from adapcla.records import Cohort

_INFINITE = (float("-inf"), float("inf"))
_POSITIVE = (0.0, float("inf"))
_R2_BOUNDS = (float("-inf"), 1.0)


def code_strata(comparison: Comparison, reference: Cohort) -> dict[str, NDArray[np.bool_]]:
    """The sets of codes that prevalence is scored on: those that occur, head, mid, tail, the cuts, bands and domains.

    >>> train = Cohort.of([[["A", "B", "C"]]])
    >>> list(code_strata(Comparison.of(train, train, train), train))[:4]
    ['all', 'head', 'mid', 'tail']
    """
    strata = comparison.strata
    occurs = (reference.visit_counts > 0) | (comparison.synthetic.visit_counts > 0)
    out = {ALL: occurs, "head": strata.head, "mid": strata.mid, "tail": strata.tail}
    out.update({name: mask for name, mask in tail_strata(comparison).items() if name != ALL and ":" not in name})
    out.update({name: mask & occurs for name, mask in domain_strata(comparison).items()})
    return out


# ---- prevalence ---------------------------------------------------------------------------------------------
class Counts(NamedTuple):
    """Visits that hold each code, and visits."""

    codes: NDArray[np.float64]
    visits: int


def _r2(truth: NDArray[np.float64], guess: NDArray[np.float64]) -> float:
    """Coefficient of determination, NaN where the truth does not vary."""
    spread = ((truth - truth.mean()) ** 2).sum() if len(truth) else 0.0
    if len(truth) < 2 or spread <= 1e-12 * (truth**2).sum():
        return float("nan")
    return float(1 - ((truth - guess) ** 2).sum() / spread)


def _mae(truth: NDArray[np.float64], guess: NDArray[np.float64]) -> float:
    """Mean absolute difference."""
    return float(np.abs(truth - guess).mean()) if len(truth) else float("nan")


def _share(counts: Counts) -> NDArray[np.float64]:
    """Prevalence."""
    return counts.codes / max(counts.visits, 1)


def _log_share(counts: Counts) -> NDArray[np.float64]:
    """Log prevalence with half a visit added, so that a code that is absent has a finite place."""
    return np.log((counts.codes + 0.5) / (counts.visits + 1.0))


_PREVALENCE: dict[str, tuple[Callable[..., float], Callable[[Counts], NDArray[np.float64]]]] = {
    "prevalence_r2": (_r2, _share),
    "prevalence_log_r2": (_r2, _log_share),
    "prevalence_mae": (_mae, _share),
    "prevalence_log_mae": (_mae, _log_share),
}


def synthetic_counts(comparison: Comparison) -> list[Counts]:
    """Counts of the synthetic cohort, then without each jackknife group."""
    cohort = comparison.synthetic
    whole = Counts(cohort.visit_counts.astype(np.float64), cohort.n_visits)
    groups = groups_of(comparison)
    if groups is None:
        return [whole]
    n_groups, n_codes = int(groups.max()) + 1, cohort.n_codes
    of_visit = groups[cohort.patient_of_visit]
    of_entry = np.repeat(of_visit, cohort.codes_per_visit)
    parts = np.bincount(of_entry * n_codes + cohort.codes, minlength=n_groups * n_codes).reshape(n_groups, n_codes)
    visits = np.bincount(of_visit, minlength=n_groups)
    rest = zip(parts, visits, strict=True)
    return [whole, *(Counts(whole.codes - part, cohort.n_visits - int(n)) for part, n in rest)]


def _prevalence_scores(comparison: Comparison, key: str, where: str) -> dict[str, Score]:
    """One prevalence metric in every stratum."""
    reference: Cohort = getattr(comparison, where)
    measure, scale = _PREVALENCE[key]
    truth = scale(Counts(reference.visit_counts.astype(np.float64), reference.n_visits))
    counts = comparison.shared("code counts by group", lambda: synthetic_counts(comparison))
    guesses = [scale(one) for one in counts]
    bounds = _R2_BOUNDS if key.endswith("r2") else _POSITIVE
    out = {}
    for stratum, mask in code_strata(comparison, reference).items():
        value, *without = (measure(truth[mask], guess[mask]) for guess in guesses)
        reason = "prevalence does not vary here" if mask.sum() > 1 else "fewer than two such codes"
        out[stratum] = jackknife_score(value, int(mask.sum()), without, bounds, reason)
    return out


# ---- n-grams ------------------------------------------------------------------------------------------------
def _ngram_agreements(comparison: Comparison, kind: str) -> dict[str, list[Agreement]]:
    """Agreement with train and test of the synthetic cohort, then without each jackknife group."""
    count, cohort = KINDS[kind], comparison.synthetic
    name = "co-occurrence" if kind == "bigram" else f"{kind} counts"
    real = {where: getattr(comparison, where) for where in ("train", "test")}
    truth = {w: (comparison.of_cohort(name, c, count), places(c, kind)) for w, c in real.items()}
    counts = comparison.of_cohort(name, cohort, count)
    out = {where: [agreement(*pair, counts, places(cohort, kind))] for where, pair in truth.items()}
    groups = groups_of(comparison)
    for group, rest in enumerate(counts_without_groups(comparison, counts, count)):
        assert groups is not None
        left = places(cohort.subset(np.flatnonzero(groups != group)), kind)
        for where, pair in truth.items():
            out[where].append(agreement(*pair, rest, left))
    return out


def _ngram_scores(comparison: Comparison, kind: str, measure: str, where: str) -> dict[str, Score]:
    """One n-gram metric."""
    agreements = comparison.shared(f"{kind} agreements", lambda: _ngram_agreements(comparison, kind))[where]
    value, *without = (getattr(one, measure) for one in agreements)
    bounds = _R2_BOUNDS if measure == "r2" else (-1.0, 1.0)
    return {ALL: jackknife_score(value, agreements[0].n, without, bounds, f"{kind} probabilities do not vary")}


# ---- lengths ------------------------------------------------------------------------------------------------
def _lengths(cohort: Cohort, what: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lengths of records (in visits) or visits (in codes), and the patient of each."""
    if what == "visits_per_patient":
        return cohort.visits_per_patient, np.arange(cohort.n_patients, dtype=np.int64)
    return cohort.codes_per_visit, cohort.patient_of_visit


def _length_difference(comparison: Comparison, what: str) -> dict[str, Score]:
    """Mean length less that of training."""
    lengths, patient = _lengths(comparison.synthetic, what)
    n = comparison.synthetic.n_patients
    tops = np.bincount(patient, weights=lengths, minlength=n)[:, None]
    bottoms = np.bincount(patient, minlength=n).astype(np.float64)[:, None]
    (score,) = ratio_scores(comparison, tops, bottoms, ["there is no synthetic patient"])
    target = float(_lengths(comparison.train, what)[0].mean())
    moved = (None if x is None else x - target for x in (score.value, score.low, score.high))
    value, low, high = moved
    return {ALL: Score(value, score.n, low, high, score.reason)}


def _length_distance(comparison: Comparison, what: str) -> dict[str, Score]:
    """Wasserstein distance between the lengths and those of training."""
    lengths, patient = _lengths(comparison.synthetic, what)
    target = _histogram(_lengths(comparison.train, what)[0])
    groups = groups_of(comparison)
    parts = [lengths]
    if groups is not None:
        group = groups[patient]
        parts += [lengths[group != g] for g in range(int(groups.max()) + 1)]
    value, *without = (_distance(_histogram(part), target) for part in parts)
    reason = "there is no synthetic patient"
    return {ALL: jackknife_score(value, len(lengths), without, _POSITIVE, reason)}


def _histogram(lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """How often each length occurs, from 0 up."""
    return np.bincount(lengths).astype(np.float64)


def _distance(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """Wasserstein-1 distance between two histograms of lengths."""
    if one.sum() == 0 or two.sum() == 0:
        return float("nan")
    return float(wasserstein_distance(np.arange(len(one)), np.arange(len(two)), one, two))


# ---- mass and coverage --------------------------------------------------------------------------------------
@metric("tail_mass", suite="fidelity", goal="match")
def tail_mass(comparison: Comparison) -> dict[str, Score]:
    """Share of the generated codes that are tail codes."""
    return _mass(comparison, tail_strata(comparison))


@metric("unseen_mass", suite="fidelity", goal="match")
def unseen_mass(comparison: Comparison) -> dict[str, Score]:
    """Share of the generated codes that no training visit holds."""
    return _mass(comparison, {ALL: ~comparison.strata.present})


def _mass(comparison: Comparison, masks: dict[str, NDArray[np.bool_]]) -> dict[str, Score]:
    """Share of the generated codes in each set."""
    cohort = comparison.synthetic
    patient = np.repeat(cohort.patient_of_visit, cohort.codes_per_visit)
    n = cohort.n_patients
    tops = np.stack([np.bincount(patient[mask[cohort.codes]], minlength=n) for mask in masks.values()], axis=1)
    bottoms = np.repeat(np.bincount(patient, minlength=n)[:, None], len(masks), axis=1)
    reasons = ["there is no synthetic patient"] * len(masks)
    scores = ratio_scores(comparison, tops.astype(np.float64), bottoms.astype(np.float64), reasons)
    return dict(zip(masks, scores, strict=True))


@metric("tail_coverage", suite="fidelity", goal="up", sized=True)
def tail_coverage(comparison: Comparison) -> dict[str, Score]:
    """Share of the tail codes that were generated at least once."""
    return _coverage(comparison, tail_strata(comparison))


@metric("code_coverage", suite="fidelity", goal="up", sized=True)
def code_coverage(comparison: Comparison) -> dict[str, Score]:
    """Share of the codes of training that were generated at least once."""
    present = comparison.strata.present
    masks = {ALL: present, **{name: mask & present for name, mask in domain_strata(comparison).items()}}
    return _coverage(comparison, masks)


def _coverage(comparison: Comparison, masks: dict[str, NDArray[np.bool_]]) -> dict[str, Score]:
    """Share of each set of codes that was generated."""
    counts = comparison.shared("code counts by group", lambda: synthetic_counts(comparison))
    out = {}
    for stratum, mask in masks.items():
        n = int(mask.sum())
        value, *without = ((one.codes[mask] > 0).sum() / n if n else float("nan") for one in counts)
        out[stratum] = jackknife_score(value, n, without, (0.0, 1.0), "training has no such code")
    return out


# ---- registration -------------------------------------------------------------------------------------------
def _register(
    key: str,
    summary: str,
    scores: Callable[..., dict[str, Score]],
    about: tuple[str, ...],
    goal: Goal,
    bounds: tuple[float, float],
    unit: str,
    origin: str = "own",
) -> None:
    """Register a metric that is a function above with some of its arguments fixed."""

    def compute(comparison: Comparison) -> dict[str, Score]:
        return scores(comparison, *about)

    compute.__doc__ = summary
    metric(
        key,
        suite="fidelity",
        goal=goal,
        bounds=bounds,
        unit=unit,
        origin=origin,
        sized=goal != "match",
        heldout=key.endswith("_heldout"),
    )(compute)


for _where, _suffix, _whose in (("train", "", "training"), ("test", "_heldout", "test")):
    for _key, _name, _goal, _bounds, _unit in (
        ("prevalence_r2", "R² of prevalence", "up", _R2_BOUNDS, "R²"),
        ("prevalence_log_r2", "R² of log prevalence", "up", _R2_BOUNDS, "R²"),
        ("prevalence_mae", "Mean absolute error of prevalence", "down", (0.0, 1.0), "share"),
        ("prevalence_log_mae", "Mean absolute error of log prevalence", "down", _POSITIVE, "nats"),
    ):
        _summary = f"{_name} against {_whose} visits."
        _register(_key + _suffix, _summary, _prevalence_scores, (_key, _where), _goal, _bounds, _unit)  # type: ignore[arg-type]
    for _kind in KINDS:
        _about = f"of {_kind.replace('_', ' ')} probabilities with those of {_whose} visits."
        _key = f"{_kind}_r2{_suffix}"
        _register(_key, f"R² {_about}", _ngram_scores, (_kind, "r2", _where), "up", _R2_BOUNDS, "R²", "HALO")
        _key = f"{_kind}_corr{_suffix}"
        _register(_key, f"Correlation {_about}", _ngram_scores, (_kind, "corr", _where), "up", (-1.0, 1.0), "r", "HALO")
for _what, _name in (("visits_per_patient", "visits a patient"), ("codes_per_visit", "codes a visit")):
    _unit = _what.split("_")[0]
    _summary = f"Mean {_name} less that of training."
    _register(f"{_what}_diff", _summary, _length_difference, (_what,), "match", _INFINITE, _unit)
    _summary = f"Wasserstein distance between {_name} and those of training."
    _register(f"{_what}_w1", _summary, _length_distance, (_what,), "down", _POSITIVE, _unit)
