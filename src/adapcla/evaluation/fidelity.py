"""The fidelity suite: prevalence, n-grams, lengths, tail mass and coverage of a synthetic cohort."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import wasserstein_distance

from adapcla.data import Cohort
from adapcla.evaluation.contract import ALL, Comparison, Real, Score
from adapcla.evaluation.intervals import counts_without_groups, groups_of, jackknife_score, ratio_scores
from adapcla.evaluation.neighbours import Neighbours
from adapcla.evaluation.ngrams import KINDS, Agreement, agreement, places
from adapcla.evaluation.plausibility import domain_strata, tail_strata

INFINITE = (float("-inf"), float("inf"))
POSITIVE = (0.0, float("inf"))
R2 = (float("-inf"), 1.0)


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


def synthetic_counts(comparison: Comparison) -> list[Counts]:
    """Counts of the synthetic cohort, then without each jackknife group."""
    cohort = comparison.synthetic
    whole = Counts(cohort.visit_counts.astype(np.float64), cohort.n_visits)
    groups = groups_of(comparison)
    if groups is None:
        return [whole]
    n_groups, n_codes = int(groups.max()) + 1, cohort.n_codes
    of_visit = groups[cohort.patient_of_visit]
    of_entry = groups[cohort.patient_of_entry]
    parts = np.bincount(of_entry * n_codes + cohort.codes, minlength=n_groups * n_codes).reshape(n_groups, n_codes)
    visits = np.bincount(of_visit, minlength=n_groups)
    rest = zip(parts, visits, strict=True)
    return [whole, *(Counts(whole.codes - part, cohort.n_visits - int(n)) for part, n in rest)]


def prevalence_r2(real: Real, comparison: Comparison, *, log: bool = False) -> dict[str, Score]:
    """R² of prevalence, or of log prevalence, in every stratum."""
    return _prevalence_scores(comparison, real, _log_share if log else _share, _r2, R2)


def prevalence_mae(real: Real, comparison: Comparison, *, log: bool = False) -> dict[str, Score]:
    """Mean absolute error of prevalence, or of log prevalence, in every stratum."""
    return _prevalence_scores(comparison, real, _log_share if log else _share, _mae, POSITIVE)


def _prevalence_scores(
    comparison: Comparison,
    real: Real,
    scale: Callable[[Counts], NDArray[np.float64]],
    measure: Callable[[NDArray[np.float64], NDArray[np.float64]], float],
    bounds: tuple[float, float],
) -> dict[str, Score]:
    """One measure of prevalence on one scale in every stratum."""
    cohort = comparison.real(real)
    truth = scale(Counts(cohort.visit_counts.astype(np.float64), cohort.n_visits))
    guesses = [scale(counts) for counts in comparison.once(synthetic_counts)]
    out = {}
    for stratum, mask in code_strata(comparison, cohort).items():
        value, *without = (measure(truth[mask], guess[mask]) for guess in guesses)
        reason = "prevalence does not vary here" if mask.sum() > 1 else "fewer than two such codes"
        out[stratum] = jackknife_score(value, int(mask.sum()), without, bounds, reason)
    return out


# ---- n-grams ------------------------------------------------------------------------------------------------
def ngram_r2(kind: str, real: Real, comparison: Comparison) -> dict[str, Score]:
    """R² of the probabilities of one kind of n-gram."""
    return _ngram_score(kind, R2, [(one.r2, one.n) for one in comparison.once(_agreements, kind)[real]])


def ngram_corr(kind: str, real: Real, comparison: Comparison) -> dict[str, Score]:
    """Correlation of the probabilities of one kind of n-gram."""
    return _ngram_score(kind, (-1.0, 1.0), [(one.corr, one.n) for one in comparison.once(_agreements, kind)[real]])


def _ngram_score(kind: str, bounds: tuple[float, float], values: list[tuple[float, int]]) -> dict[str, Score]:
    """The score of values and numbers of n-grams, of the synthetic cohort and then without each jackknife group."""
    (value, n), *without = values
    return {ALL: jackknife_score(value, n, [one for one, _ in without], bounds, f"{kind} probabilities do not vary")}


def _agreements(comparison: Comparison, kind: str) -> dict[Real, list[Agreement]]:
    """Agreement with train and test of the synthetic cohort, then without each jackknife group."""
    cohort = comparison.synthetic
    counts = _ngram_counts(comparison, cohort, kind)
    real_cohorts: dict[Real, Cohort] = {"train": comparison.train, "test": comparison.test}
    truth = {real: (_ngram_counts(comparison, one, kind), places(one, kind)) for real, one in real_cohorts.items()}
    out = {real: [agreement(*pair, counts, places(cohort, kind))] for real, pair in truth.items()}
    groups = groups_of(comparison)
    for group, rest in enumerate(counts_without_groups(comparison, counts, KINDS[kind])):
        assert groups is not None
        left = places(cohort.subset(np.flatnonzero(groups != group)), kind)
        for real, pair in truth.items():
            out[real].append(agreement(*pair, rest, left))
    return out


def _ngram_counts(comparison: Comparison, cohort: Cohort, kind: str) -> sparse.csr_matrix:
    """Counts of one kind of n-gram; those of pairs are what the tail suite counts, too."""
    if kind == "bigram":
        return comparison.of_cohort(Neighbours.of, cohort).counts
    return comparison.of_cohort(KINDS[kind], cohort)


# ---- lengths ------------------------------------------------------------------------------------------------
def _lengths(cohort: Cohort, what: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The lengths of records (in visits) or visits (in codes), and the patient of each."""
    if what == "visits_per_patient":
        return cohort.visits_per_patient, np.arange(cohort.n_patients, dtype=np.int64)
    return cohort.codes_per_visit, cohort.patient_of_visit


def length_difference(what: str, comparison: Comparison) -> dict[str, Score]:
    """Mean length less that of training."""
    lengths, patient = _lengths(comparison.synthetic, what)
    n = comparison.synthetic.n_patients
    tops = np.bincount(patient, weights=lengths, minlength=n)[:, None]
    bottoms = np.bincount(patient, minlength=n).astype(np.float64)[:, None]
    (score,) = ratio_scores(comparison, tops, bottoms, ["there is no synthetic patient"])
    target = float(_lengths(comparison.train, what)[0].mean())
    value, low, high = (None if x is None else x - target for x in (score.value, score.low, score.high))
    return {ALL: Score(value, score.n, low, high, score.reason)}


def length_distance(what: str, comparison: Comparison) -> dict[str, Score]:
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
    return {ALL: jackknife_score(value, len(lengths), without, POSITIVE, reason)}


def _histogram(lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """How often each length occurs, from 0 up."""
    return np.bincount(lengths).astype(np.float64)


def _distance(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """Wasserstein-1 distance between two histograms of lengths."""
    if one.sum() == 0 or two.sum() == 0:
        return float("nan")
    return float(wasserstein_distance(np.arange(len(one)), np.arange(len(two)), one, two))


# ---- mass and coverage --------------------------------------------------------------------------------------
def tail_mass(comparison: Comparison) -> dict[str, Score]:
    """Share of the generated codes that are tail codes."""
    return _mass(comparison, tail_strata(comparison))


def unseen_mass(comparison: Comparison) -> dict[str, Score]:
    """Share of the generated codes that no training visit holds."""
    return _mass(comparison, {ALL: ~comparison.strata.present})


def _mass(comparison: Comparison, masks: dict[str, NDArray[np.bool_]]) -> dict[str, Score]:
    """Share of the generated codes in each set."""
    cohort = comparison.synthetic
    patient = cohort.patient_of_entry
    n = cohort.n_patients
    tops = np.stack([np.bincount(patient[mask[cohort.codes]], minlength=n) for mask in masks.values()], axis=1)
    bottoms = np.repeat(np.bincount(patient, minlength=n)[:, None], len(masks), axis=1)
    reasons = ["there is no synthetic patient"] * len(masks)
    scores = ratio_scores(comparison, tops.astype(np.float64), bottoms.astype(np.float64), reasons)
    return dict(zip(masks, scores, strict=True))


def tail_coverage(comparison: Comparison) -> dict[str, Score]:
    """Share of the tail codes that were generated at least once."""
    return _coverage(comparison, tail_strata(comparison))


def code_coverage(comparison: Comparison) -> dict[str, Score]:
    """Share of the codes of training that were generated at least once."""
    present = comparison.strata.present
    masks = {ALL: present, **{name: mask & present for name, mask in domain_strata(comparison).items()}}
    return _coverage(comparison, masks)


def _coverage(comparison: Comparison, masks: dict[str, NDArray[np.bool_]]) -> dict[str, Score]:
    """Share of each set of codes that was generated."""
    counts = comparison.once(synthetic_counts)
    out = {}
    for stratum, mask in masks.items():
        n = int(mask.sum())
        value, *without = ((one.codes[mask] > 0).sum() / n if n else float("nan") for one in counts)
        out[stratum] = jackknife_score(value, n, without, (0.0, 1.0), "training has no such code")
    return out
