"""What comes after what: new codes by age, time until a new code, and how much one code raises the chance of another.

Ten index codes are those that most training patients hold; ten outcomes are the other codes that most training patients
get at a later visit. Both are chosen by training, so that every cohort is asked the same. In whole records neither is a
code of a stay or of what was measured: nearly everybody has these, and they are no turn in a patient's course.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.evaluation.contract import ALL, Comparison, Missing, Score
from adapcla.evaluation.fidelity import POSITIVE
from adapcla.evaluation.intervals import groups_of, jackknife_score

Floats = NDArray[np.float64]
#: Truth, guess and weights → one number.
Measure = Callable[[Floats, Floats, Floats], float]
Mask = NDArray[np.bool_]
#: Index codes, and outcomes.
N_INDEX, N_OUTCOMES = 10, 10
#: Domains of codes that say what a visit was and what was looked at, not what a patient has got.
NO_TURN = ("lab", "stay")
#: How far a curve of onsets is followed: in days, or in visits where there are no days.
HORIZON_DAYS, HORIZON_VISITS = 365, 5
#: Training patients behind an index code whose curve is compared.
FEWEST = 20
#: Attributes that hold an age or when somebody was born, the first that a cohort has.
AGES = ("age_band", "age", "birth_band")


@dataclass(frozen=True, eq=False)
class Watched:
    """The index codes and the outcomes, by position in the vocabulary.

    >>> cohort = Cohort.of([[["A", "B"], ["C"]], [["A"], ["B"]], [["A"]]])
    >>> [cohort.vocabulary.tokens[code] for code in Watched.of(cohort, n_index=1).index]
    ['A']
    """

    index: NDArray[np.int64]
    outcomes: NDArray[np.int64]

    @classmethod
    def of(cls, train: Cohort, n_index: int = N_INDEX, n_outcomes: int = N_OUTCOMES) -> Watched:
        """The codes that training calls for; ties go to the smaller code string."""
        # Of a small vocabulary at most every second code is an index code, so that there are outcomes.
        counts = np.where(np.isin([code.domain for code in train.vocabulary.codes], NO_TURN), 0, train.patient_counts)
        counts = counts if counts.any() else train.patient_counts
        index = _most(counts, min(n_index, int((counts > 0).sum()) // 2))
        at_first = np.asarray(train.codes)[train.visit_number[train.visit_of_entry] == 0]
        later = np.where(counts > 0, counts - np.bincount(at_first, minlength=train.n_codes), 0)
        later[index] = 0
        return cls(index, _most(later, n_outcomes))

    @property
    def codes(self) -> NDArray[np.int64]:
        """Both, index codes first."""
        return np.concatenate([self.index, self.outcomes])


def _most(counts: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """The positions of the n largest counts above 0."""
    order = np.argsort(-counts, kind="stable")[:n]
    return order[counts[order] > 0]


@dataclass(frozen=True, eq=False)
class Histories:
    """Visits × watched codes: what a visit holds, and what its patient has held up to and with it."""

    holds: Mask
    ever: Mask
    cohort: Cohort
    n_index: int

    @classmethod
    def of(cls, cohort: Cohort, watched: Watched) -> Histories:
        """The histories of a cohort."""
        holds = cohort.matrix()[:, watched.codes].toarray() > 0
        so_far = np.cumsum(holds, axis=0)
        before = np.vstack([np.zeros_like(so_far[:1]), so_far])[np.asarray(cohort.patient_starts)[:-1]]
        return cls(holds, so_far > before[cohort.patient_of_visit], cohort, len(watched.index))

    @property
    def at_risk(self) -> Mask:
        """Whether a visit could be the first that holds a code."""
        return ~self.ever | self.onset

    @property
    def onset(self) -> Mask:
        """Whether a visit is the first that holds a code."""
        first = self.cohort.visit_number == 0
        return self.holds & ~np.where(first[:, None], False, np.roll(self.ever, 1, axis=0))


def _histories(comparison: Comparison, synthetic: bool) -> Histories:
    """The histories of training or of synthetic patients."""
    watched = comparison.of_cohort(Watched.of, comparison.train)
    return Histories.of(comparison.synthetic if synthetic else comparison.train, watched)


def _parts(comparison: Comparison) -> list[NDArray[np.int64]]:
    """The jackknife groups of synthetic patients as positions; one group of all where no interval is wanted."""
    groups = groups_of(comparison)
    if groups is None:
        return [np.arange(comparison.synthetic.n_patients, dtype=np.int64)]
    return [np.flatnonzero(groups == g) for g in range(int(groups.max()) + 1)]


def _jackknifed(comparison: Comparison, parts: list[Floats]) -> list[Floats]:
    """Sums over all groups, then over all but each of them, where there is an interval to give."""
    whole = np.sum(parts, axis=0)
    return [whole, *((whole - part for part in parts) if len(parts) > 1 else ())]


# ---- effects ------------------------------------------------------------------------------------------------
def effect_error(comparison: Comparison) -> dict[str, Score]:
    """Mean absolute difference of the effects of index codes on outcomes from those of training."""
    return {ALL: _effect_score(comparison, weighted_difference, POSITIVE)}


def effect_correlation(comparison: Comparison) -> dict[str, Score]:
    """Correlation of the effects of index codes on outcomes with those of training."""
    return {ALL: _effect_score(comparison, weighted_correlation, (-1.0, 1.0))}


def effect_counts(histories: Histories, patients: NDArray[np.int64]) -> Floats:
    """Index codes × outcomes × 4: next visits with and without the outcome, after the index code and without it.

    A visit counts for an outcome where its patient has not had it so far and comes back.
    """
    chosen = np.zeros(histories.cohort.n_patients, dtype=bool)
    chosen[patients] = True
    step = histories.cohort.visits_with_next
    step = step[chosen[histories.cohort.patient_of_visit[step]]]
    k = histories.n_index
    had = histories.ever[step, :k].astype(np.float64)
    risk = (~histories.ever[step, k:]).astype(np.float64)
    event = risk * histories.holds[step + 1, k:]
    after, exposed = had.T @ event, had.T @ risk
    events, risks = event.sum(axis=0), risk.sum(axis=0)
    return np.stack([after, exposed - after, events - after, risks - events - exposed + after], axis=-1)


def log_odds_ratio(counts: Floats) -> Floats:
    """The log odds ratio of each four-fold table, with half a case added to every cell.

    >>> log_odds_ratio(np.array([9.5, 0.5, 0.5, 9.5])).round(3)
    np.float64(4.605)
    """
    a, b, c, d = np.moveaxis(counts + 0.5, -1, 0)
    return np.log(a * d / (b * c))


def _effect_score(comparison: Comparison, measure: Measure, bounds: tuple[float, float]) -> Score:
    """A measure of effects against those of training, weighted by how well training knows them."""
    train, synthetic = comparison.once(_histories, False), comparison.once(_histories, True)
    known = effect_counts(train, np.arange(comparison.train.n_patients, dtype=np.int64))
    if known[..., [0, 2]].sum() == 0:
        return Missing("no training patient gets an outcome at a later visit").score
    truth, weight = log_odds_ratio(known), 1 / (1 / (known + 0.5)).sum(axis=-1)
    parts = [effect_counts(synthetic, patients) for patients in _parts(comparison)]
    value, *without = (measure(truth, log_odds_ratio(one), weight) for one in _jackknifed(comparison, parts))
    return jackknife_score(value, truth.size, without, bounds, "effects do not vary")


def weighted_difference(truth: Floats, guess: Floats, weight: Floats) -> float:
    """Weighted mean absolute difference.

    >>> weighted_difference(np.array([1.0, 2.0]), np.array([1.0, 4.0]), np.array([3.0, 1.0]))
    0.5
    """
    return float(np.average(np.abs(guess - truth), weights=weight))


def weighted_correlation(truth: Floats, guess: Floats, weight: Floats) -> float:
    """Weighted correlation, NaN where one side does not vary.

    >>> weighted_correlation(np.array([0.0, 1.0]), np.array([3.0, 7.0]), np.array([1.0, 1.0]))
    1.0
    """
    one, two = (values - np.average(values, weights=weight) for values in (truth, guess))
    spread = np.average(one**2, weights=weight) * np.average(two**2, weights=weight)
    return float(np.clip(np.average(one * two, weights=weight) / np.sqrt(spread), -1, 1)) if spread > 1e-12 else np.nan


# ---- incidence by age ---------------------------------------------------------------------------------------
def incidence_by_age(comparison: Comparison) -> dict[str, Score]:
    """Mean absolute difference of new cases per visit at risk from training, by age, weighted by training visits."""
    name = next((age for age in AGES if age in comparison.train.attributes), None)
    if name is None:
        return {ALL: Missing("the training patients have no age").score}
    if name not in comparison.synthetic.attributes:
        return {ALL: Missing(f"the synthetic patients have no attribute {name}").score}
    counted = partial(_incidence_counts, comparison, name)
    onsets, risks = counted(comparison.once(_histories, False), np.arange(comparison.train.n_patients, dtype=np.int64))
    if not risks.sum():
        return {ALL: Missing("training has no code to watch").score}
    synthetic = comparison.once(_histories, True)
    parts = [counted(synthetic, patients) for patients in _parts(comparison)]
    truth = onsets / np.maximum(risks, 1)
    # A band without synthetic patients counts as one in which nobody falls ill.
    value, *without = (
        float(np.average(np.abs(one[0] / np.maximum(one[1], 1) - truth), weights=risks))
        for one in _jackknifed(comparison, parts)
    )
    return {ALL: jackknife_score(value, int((risks > 0).sum()), without, (0.0, 1.0), "no visit at risk")}


def _incidence_counts(comparison: Comparison, name: str, histories: Histories, patients: NDArray[np.int64]) -> Floats:
    """2 × age bands of training (and unknown) × watched codes: first visits with the code, and visits at risk."""
    bands = comparison.train.attributes[name].categories
    own = histories.cohort.attributes[name]
    # Bands go by name; one that training lacks is as unknown.
    place = np.array([bands.index(word) if word in bands else len(bands) for word in own.categories] + [len(bands)])
    chosen = np.zeros(histories.cohort.n_patients, dtype=bool)
    chosen[patients] = True
    here = chosen[histories.cohort.patient_of_visit]
    band = place[np.asarray(own.values)][histories.cohort.patient_of_visit[here]]
    out = np.zeros((2, len(bands) + 1, histories.holds.shape[1]))
    np.add.at(out[0], band, histories.onset[here])
    np.add.at(out[1], band, histories.at_risk[here])
    return out


# ---- time until a new code ----------------------------------------------------------------------------------
def onset_curves(comparison: Comparison) -> dict[str, Score]:
    """Mean distance between the Kaplan–Meier curves of outcomes after index codes and those of training."""
    train, synthetic = comparison.once(_histories, False), comparison.once(_histories, True)
    in_days = train.cohort.days is not None and synthetic.cohort.days is not None
    horizon = HORIZON_DAYS if in_days else HORIZON_VISITS
    groups = groups_of(comparison)
    n_groups = 0 if groups is None else int(groups.max()) + 1
    errors, weights = [], []
    for i in range(train.n_index):
        for o in range(train.n_index, train.holds.shape[1]):
            real, made = (_waits(one, i, o, in_days) for one in (train, synthetic))
            if len(real[0]) < FEWEST:
                continue
            truth = survival(real[0], real[1], horizon)
            rests = [np.ones(len(made[0]), dtype=bool)]
            rests += [] if groups is None else [groups[made[2]] != g for g in range(n_groups)]
            curves = (survival(made[0][stays], made[1][stays], horizon) for stays in rests)
            errors.append([float(np.abs(curve - truth).mean()) for curve in curves])
            weights.append(len(real[0]))
    if not errors:
        return {ALL: Missing(f"no index code is followed in {FEWEST} training patients").score}
    value, *without = np.average(np.array(errors), axis=0, weights=weights).tolist()
    return {ALL: jackknife_score(value, len(errors), without, (0.0, 1.0), "nobody is followed")}


def _waits(
    histories: Histories, index: int, outcome: int, in_days: bool
) -> tuple[NDArray[np.int64], Mask, NDArray[np.int64]]:
    """Time from a patient's first visit with the index code to the outcome or the end, whether it came, and who."""
    cohort = histories.cohort
    begin = np.flatnonzero(histories.onset[:, index])
    begin = begin[~histories.ever[begin, outcome]]
    who = cohort.patient_of_visit[begin]
    last = cohort.last_visits[who]
    onset = np.flatnonzero(histories.onset[:, outcome])
    when = np.full(cohort.n_patients, -1, dtype=np.int64)
    when[cohort.patient_of_visit[onset]] = onset
    came = when[who] > begin
    end = np.where(came, when[who], last)
    clock = np.asarray(cohort.days, dtype=np.int64) if in_days else np.arange(cohort.n_visits, dtype=np.int64)
    return clock[end] - clock[begin], came, who


def survival(times: NDArray[np.int64], came: Mask, horizon: int) -> Floats:
    """The Kaplan–Meier share without the event at the end of each unit of time from 0 to the horizon.

    >>> survival(np.array([1, 2, 2, 3]), np.array([True, True, False, True]), 3).tolist()
    [1.0, 0.75, 0.5, 0.0]
    """
    events = np.bincount(np.minimum(times[came], horizon + 1), minlength=horizon + 2)[: horizon + 1]
    ends = np.bincount(np.minimum(times, horizon + 1), minlength=horizon + 2)
    at_risk = len(times) - np.concatenate([[0], np.cumsum(ends)])[: horizon + 1]
    return np.cumprod(1 - events / np.maximum(at_risk, 1))
