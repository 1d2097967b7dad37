"""What comes after what: time between visits, new codes by age, time until a new code, effects of codes, broken rules.

Ten index codes are those that most training patients hold; ten outcomes are the other codes that most training patients
get at a later visit. Both are chosen by training, so that they are the same for every cohort. In whole records neither
is a code of a stay or of what was measured: nearly everybody has these, and they are no turn in a patient's course.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import wasserstein_distance

from adapcla.data import Cohort
from adapcla.data.rules import RULE_KINDS, Rules
from adapcla.evaluation.bootstrap import PatientSums
from adapcla.evaluation.comparison import ALL, Comparison, Mask, Missing, TrainingSummary
from adapcla.evaluation.metric import POSITIVE, SIGNED, CountMetric, RatioMetric, Value
from adapcla.evaluation.statistics import Floats, Sums, weighted_correlation

#: Index codes, and outcomes.
N_INDEX, N_OUTCOMES = 10, 10
#: Domains of codes that say what a visit was and what was looked at, not what a patient has got.
NO_TURN = ("lab", "stay")
#: How far a curve of onsets is followed: in days, or in visits where there are no days.
HORIZON_DAYS, HORIZON_VISITS = 365, 5
#: Training patients behind an index code whose curve is compared.
FEWEST = 20


# ---- days from visit to visit -------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class GapCounts(Sums):
    """How often so many days lie between a visit and the same patient's next one; no count at all without days.

    >>> cohort = Cohort.of([[["A"], ["B"]], [["A"]]], days=np.array([0, 3, 0], dtype=np.int32))
    >>> GapCounts.count(cohort).counts[:5].tolist(), GapCounts.count(Cohort.of([[["A"]]])).with_days
    ([0, 0, 0, 1, 0], 0)
    """

    #: By days, longer gaps counted at the end.
    counts: NDArray[np.int64]
    #: Patients of whom days are known.
    with_days: int

    #: A century: nobody stays away longer.
    LONGEST: ClassVar[int] = 36_525

    @classmethod
    def count(cls, cohort: Cohort, training: TrainingSummary | None = None) -> GapCounts:
        """The gaps of a cohort."""
        counts = np.zeros(cls.LONGEST + 1, dtype=np.int64)
        if cohort.days is None:
            return cls(counts, 0)
        step, days = cohort.visits_with_next, np.asarray(cohort.days, dtype=np.int64)
        gaps = np.minimum(days[step + 1] - days[step], cls.LONGEST)
        return cls(counts + np.bincount(gaps, minlength=len(counts)), cohort.n_patients)


class GapDistance(CountMetric[GapCounts]):
    """Wasserstein distance between the days from visit to visit and those of training."""

    key, suite, goal, bounds, unit, sized = "gap_w1", "course", "down", POSITIVE, "days", True
    statistic = GapCounts

    def values(self, made: GapCounts, comparison: Comparison) -> dict[str, Value]:
        """The distance of the two histograms."""
        train = comparison.counts(GapCounts, "train")
        for name, gaps in (("training", train), ("synthetic", made)):
            if not gaps.with_days:
                return {ALL: Value.missing(f"the {name} patients have no days")}
            if not gaps.counts.any():
                return {ALL: Value.missing(f"no {name} patient has two visits")}
        last = int(np.flatnonzero(train.counts + made.counts)[-1]) + 1
        one, two = made.counts[:last], train.counts[:last]
        days = np.arange(last)
        return {ALL: Value(float(wasserstein_distance(days, days, one, two)), int(one.sum()))}


# ---- watched codes ------------------------------------------------------------------------------------------
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
        first = train.with_visits(train.first_visits, train.first_visits + 1)
        later = np.where(counts > 0, counts - first.visit_counts, 0)
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
    #: The first columns are index codes, the others outcomes.
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


# ---- effects ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class EffectCounts(Sums):
    """Index codes × outcomes × 4: next visits with and without the outcome, after the index code and without it.

    A visit counts for an outcome where its patient has not had it so far and comes back.
    """

    counts: Floats

    @classmethod
    def count(cls, cohort: Cohort, training: TrainingSummary) -> EffectCounts:
        """The counts of a cohort."""
        histories = Histories.of(cohort, training.once(Watched.of))
        step, k = cohort.visits_with_next, histories.n_index
        had = histories.ever[step, :k].astype(np.float64)
        risk = (~histories.ever[step, k:]).astype(np.float64)
        event = risk * histories.holds[step + 1, k:]
        after, exposed = had.T @ event, had.T @ risk
        events, risks = event.sum(axis=0), risk.sum(axis=0)
        return cls(np.stack([after, exposed - after, events - after, risks - events - exposed + after], axis=-1))


class EffectCorrelation(CountMetric[EffectCounts]):
    """Correlation of the log odds ratios of outcomes after index codes with those of training."""

    key, suite, goal, bounds, unit, sized = "effect_corr", "course", "up", SIGNED, "r", True
    statistic = EffectCounts

    def values(self, made: EffectCounts, comparison: Comparison) -> dict[str, Value]:
        """The correlation, weighted by how well training knows each effect."""
        known = comparison.counts(EffectCounts, "train").counts
        if known[..., [0, 2]].sum() == 0:
            return {ALL: Value.missing("no training patient gets an outcome at a later visit")}
        truth, weight = log_odds_ratio(known), 1 / (1 / (known + 0.5)).sum(axis=-1)
        value = weighted_correlation(truth, log_odds_ratio(made.counts), weight)
        return {ALL: Value(value, truth.size, "effects do not vary")}


def log_odds_ratio(counts: Floats) -> Floats:
    """The log odds ratio of each four-fold table, with half a case added to every cell.

    >>> log_odds_ratio(np.array([9.5, 0.5, 0.5, 9.5])).round(3)
    np.float64(4.605)
    """
    a, b, c, d = np.moveaxis(counts + 0.5, -1, 0)
    return np.log(a * d / (b * c))


# ---- incidence by age ---------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class IncidenceCounts(Sums):
    """Age bands of training (and unknown) × watched codes: first visits with the code, and visits at risk."""

    onsets: NDArray[np.int64]
    risks: NDArray[np.int64]
    #: Patients of whom the age is known to the source.
    with_age: int

    @classmethod
    def count(cls, cohort: Cohort, training: TrainingSummary) -> IncidenceCounts:
        """The counts of a cohort."""
        watched, name = training.once(Watched.of), training.age
        bands = training.train.attributes[name].categories if name else ()
        onsets, risks = (np.zeros((len(bands) + 1, len(watched.codes)), dtype=np.int64) for _ in range(2))
        if not name or name not in cohort.attributes:
            return cls(onsets, risks, 0)
        own = cohort.attributes[name]
        # Bands go by name; one that training lacks is as unknown.
        place = [bands.index(word) if word in bands else len(bands) for word in own.categories]
        band = np.array([*place, len(bands)])[np.asarray(own.values)][cohort.patient_of_visit]
        histories = Histories.of(cohort, watched)
        np.add.at(onsets, band, histories.onset)
        np.add.at(risks, band, histories.at_risk)
        return cls(onsets, risks, cohort.n_patients)


class IncidenceByAge(CountMetric[IncidenceCounts]):
    """Mean absolute difference of new cases per visit at risk from training, over codes and age bands."""

    key, suite, goal, sized, statistic = "incidence_by_age", "course", "down", True, IncidenceCounts

    def values(self, made: IncidenceCounts, comparison: Comparison) -> dict[str, Value]:
        """The mean difference, weighted by training visits; in a band without patients nobody falls ill."""
        name, train = comparison.training.age, comparison.counts(IncidenceCounts, "train")
        if not name:
            return {ALL: Value.missing("the training patients have no age")}
        if name not in comparison.synthetic.attributes:
            return {ALL: Value.missing(f"the synthetic patients have no attribute {name}")}
        if not train.risks.sum():
            return {ALL: Value.missing("training has no code to watch")}
        truth, guess = (one.onsets / np.maximum(one.risks, 1) for one in (train, made))
        value = float(np.average(np.abs(guess - truth), weights=train.risks))
        return {ALL: Value(value, int((train.risks > 0).sum()))}


# ---- time until a new code ----------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class OnsetCounts(Sums):
    """For each index code and outcome, when the outcome came or following ended after the index code, by time.

    Index codes × outcomes × times, the last for all later times; in visits and, where there are days, in days.
    """

    events_by_visit: NDArray[np.int64]
    ends_by_visit: NDArray[np.int64]
    events_by_day: NDArray[np.int64]
    ends_by_day: NDArray[np.int64]

    @classmethod
    def count(cls, cohort: Cohort, training: TrainingSummary) -> OnsetCounts:
        """The counts of a cohort."""
        watched = training.once(Watched.of)
        histories = Histories.of(cohort, watched)
        shape = (len(watched.index), len(watched.outcomes))
        # Days count only where training has them, too, so that both are followed by one clock.
        days = training.train.days is not None and cohort.days is not None
        clocks = [(np.arange(cohort.n_visits, dtype=np.int64), HORIZON_VISITS)]
        clocks += [(np.asarray(cohort.days, dtype=np.int64), HORIZON_DAYS)] if days else []
        counts = [np.zeros((2, *shape, horizon + 2), dtype=np.int64) for horizon in (HORIZON_VISITS, HORIZON_DAYS)]
        for i in range(shape[0]):
            for o in range(shape[1]):
                begin, end, came = _follow_up(histories, i, shape[0] + o)
                for (clock, horizon), out in zip(clocks, counts, strict=False):
                    times = np.minimum(clock[end] - clock[begin], horizon + 1)
                    out[0, i, o] = np.bincount(times[came], minlength=horizon + 2)
                    out[1, i, o] = np.bincount(times, minlength=horizon + 2)
        return cls(*counts[0], *counts[1])


def _follow_up(histories: Histories, index: int, outcome: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Mask]:
    """Each patient's first visit with the index code, the visit of the outcome or the last one, and whether it came."""
    cohort = histories.cohort
    begin = np.flatnonzero(histories.onset[:, index])
    begin = begin[~histories.ever[begin, outcome]]
    who = cohort.patient_of_visit[begin]
    onset = np.flatnonzero(histories.onset[:, outcome])
    when = np.full(cohort.n_patients, -1, dtype=np.int64)
    when[cohort.patient_of_visit[onset]] = onset
    came = when[who] > begin
    return begin, np.where(came, when[who], cohort.last_visits[who]), came


class OnsetCurves(CountMetric[OnsetCounts]):
    """Mean distance between the Kaplan–Meier curves of outcomes after index codes and those of training."""

    key, suite, goal, sized, statistic = "onset_curves", "course", "down", True, OnsetCounts

    def values(self, made: OnsetCounts, comparison: Comparison) -> dict[str, Value]:
        """The mean distance over curves of enough training patients, weighted by these."""
        train = comparison.counts(OnsetCounts, "train")
        in_days = comparison.train.days is not None and comparison.synthetic.days is not None
        real, own = (
            (one.events_by_day, one.ends_by_day) if in_days else (one.events_by_visit, one.ends_by_visit)
            for one in (train, made)
        )
        followed = real[1].sum(axis=-1)
        chosen = [tuple(place) for place in np.argwhere(followed >= FEWEST)]
        if not chosen:
            return {ALL: Value.missing(f"no index code is followed in {FEWEST} training patients")}
        errors = [
            float(np.abs(survival(own[0][at], own[1][at]) - survival(real[0][at], real[1][at])).mean()) for at in chosen
        ]
        return {ALL: Value(float(np.average(errors, weights=[followed[at] for at in chosen])), len(errors))}


def survival(events: NDArray[np.int64], ends: NDArray[np.int64]) -> Floats:
    """The Kaplan–Meier share without the event at the end of each unit of time but the last, which is "later".

    Args:
        events: How often the event came, by time.
        ends: How often following ended, with the event or without.

    >>> survival(np.array([0, 1, 1, 1, 0]), np.array([0, 1, 2, 1, 0])).tolist()
    [1.0, 0.75, 0.5, 0.0]
    """
    at_risk = ends.sum() - np.concatenate([[0], np.cumsum(ends)])[: len(events) - 1]
    return np.cumprod(1 - events[:-1] / np.maximum(at_risk, 1))


# ---- rules --------------------------------------------------------------------------------------------------
class RuleBreaks(RatioMetric):
    """Share of patients who break a rule that no training patient breaks."""

    key, suite, goal = "rule_breaks", "course", "down"

    def sums(self, comparison: Comparison) -> dict[str, PatientSums | Missing]:
        """Whether each synthetic patient breaks a rule, of any kind and of each kind."""
        rules = comparison.of_cohort(Rules.of, comparison.train)
        counts = rules.counts
        if not sum(counts.values()):
            return {ALL: Missing("training patients teach no rule")}
        broken = rules.broken(comparison.synthetic)
        kinds = {
            ALL: np.any(list(broken.values()), axis=0),
            **{kind: broken[kind] for kind in RULE_KINDS if counts[kind]},
        }
        ones = np.ones(comparison.synthetic.n_patients)
        return {
            kind: PatientSums(mask.astype(np.float64), ones, "there is no synthetic patient")
            for kind, mask in kinds.items()
        }
