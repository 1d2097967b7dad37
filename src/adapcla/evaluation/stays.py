"""How long visits take, of which kind they are, how they end, who dies, and who comes back.

Training patients are the truth of every distance. Somebody is readmitted who begins another stay in hospital within
thirty days of the end of the last one; where a source has no dates, where it says so itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.data.vocabulary import (
    ADMISSION_KINDS,
    DEATH,
    DISCHARGE,
    LENGTH_OF_STAY,
    READMITTED,
    VISIT_KIND,
    visit_kind_code,
)
from adapcla.evaluation.bootstrap import PatientSums
from adapcla.evaluation.comparison import ALL, Comparison, Mask, Missing, TrainingSummary
from adapcla.evaluation.metric import POSITIVE, CountMetric, RatioMetric, Value
from adapcla.evaluation.statistics import Floats, SortedValues, Sums, quantile_distance

#: Days after the end of a stay within which another one is a readmission.
WITHIN = 30
#: Training visits or patients below which a kind, an ending or an age says nothing.
FEWEST = 20


@dataclass(frozen=True, eq=False)
class Stays:
    """What is known of each visit as a whole.

    >>> from adapcla.data.vocabulary import discharge_code
    >>> days = np.array([0, 9], dtype=np.int32)
    >>> cohort = Cohort.of([[["A"], ["A", "END/died"]]], ["A", discharge_code("died")], days=days)
    >>> stays = Stays.of(cohort)
    >>> stays.choice("end").tolist(), stays.died.tolist(), stays.readmitted.tolist()
    ([-1, 0], [False, True], [1, -1])
    """

    cohort: Cohort
    #: Days from begin to end, NaN where it is not known.
    length: Floats
    died: Mask
    #: 1 for a stay with another one soon after it, 0 without, −1 for what is no stay in hospital or ended with death.
    readmitted: NDArray[np.int8]

    @classmethod
    def of(cls, cohort: Cohort) -> Stays:
        """The stays of a cohort."""
        length, died = _length(cohort), holds(cohort, DEATH.token)
        return cls(cohort, length, died, _readmissions(cohort, length, died))

    def choice(self, group: str) -> NDArray[np.int64]:
        """For each visit the position of its code among the codes of a choice group, −1 without one."""
        codes = choices(self.cohort, group)
        place = np.full(self.cohort.n_codes, -1, dtype=np.int64)
        place[codes] = np.arange(len(codes))
        out = np.full(self.cohort.n_visits, -1, dtype=np.int64)
        here = place[self.cohort.codes] >= 0
        out[self.cohort.visit_of_entry[here]] = place[self.cohort.codes][here]
        return out


def choices(cohort: Cohort, group: str) -> NDArray[np.int64]:
    """The codes of a choice group, by position in the vocabulary.

    >>> choices(Cohort.of([[["A"]]]), "end").tolist()
    []
    """
    return np.flatnonzero(np.array([code.group == group for code in cohort.vocabulary.codes], dtype=bool))


def holds(cohort: Cohort, token: str) -> Mask:
    """Which visits hold a code; none where the vocabulary lacks it.

    >>> holds(Cohort.of([[["A"], ["B"]]]), "B").tolist()
    [False, True]
    """
    out = np.zeros(cohort.n_visits, dtype=bool)
    position = cohort.vocabulary.index.get(token)
    if position is not None:
        out[cohort.visit_of_entry[np.asarray(cohort.codes) == position]] = True
    return out


def _length(cohort: Cohort) -> Floats:
    """The length of each visit in days, NaN where it is not known."""
    out = np.full(cohort.n_visits, np.nan)
    position = cohort.vocabulary.index.get(LENGTH_OF_STAY.token)
    if position is not None and cohort.values is not None:
        here = np.asarray(cohort.codes) == position
        out[cohort.visit_of_entry[here]] = np.asarray(cohort.values)[here]
    return out


def _readmissions(cohort: Cohort, length: Floats, died: Mask) -> NDArray[np.int8]:
    """Whether another stay begins soon after each stay; −1 where it is not known."""
    known = [
        visit_kind_code(name).token
        for name in ADMISSION_KINDS
        if visit_kind_code(name).token in cohort.vocabulary.index
    ]
    admitted = np.any([holds(cohort, token) for token in known], axis=0) if known else np.ones(cohort.n_visits, bool)
    out = np.full(cohort.n_visits, -1, dtype=np.int8)
    at_risk = np.flatnonzero(admitted & ~died)
    if READMITTED.token in cohort.vocabulary.index:
        out[at_risk] = holds(cohort, READMITTED.token)[at_risk]
        return out
    if cohort.days is None:
        return out
    stays = np.flatnonzero(admitted)
    following = np.append(stays[1:], -1)
    same = np.append(cohort.patient_of_visit[stays[1:]] == cohort.patient_of_visit[stays[:-1]], False)
    day = np.asarray(cohort.days, dtype=np.float64)
    end = day[stays] + np.nan_to_num(length[stays])
    soon = same & (day[following] - end <= WITHIN)
    out[stays] = soon
    out[died] = -1
    return out


def training_stays(comparison: Comparison) -> Stays:
    """The stays of training patients."""
    return comparison.training.once(Stays.of)


def synthetic_stays(comparison: Comparison) -> Stays:
    """The stays of synthetic patients."""
    return comparison.of_cohort(Stays.of, comparison.whole.synthetic)


# ---- length, kind and ending --------------------------------------------------------------------------------
class LengthsOfStay(SortedValues):
    """The lengths of stay that are known, in ascending order."""

    @classmethod
    def count(cls, cohort: Cohort, training: TrainingSummary) -> LengthsOfStay:
        """The lengths of a cohort."""
        length = _length(cohort)
        return cls.of(length[np.isfinite(length)])


class StayLengthDistance(CountMetric[LengthsOfStay]):
    """Wasserstein distance between the lengths of stay and those of training."""

    key, suite, goal, bounds, unit, sized = "stay_length_w1", "stays", "down", POSITIVE, "days", True
    statistic = LengthsOfStay

    def values(self, made: LengthsOfStay, comparison: Comparison) -> dict[str, Value]:
        """The distance between equal quantiles."""
        train = comparison.counts(LengthsOfStay, "train").values
        for name, lengths in (("training", train), ("synthetic", made.values)):
            if not len(lengths):
                return {ALL: Value.missing(f"no {name} visit has a length")}
        return {ALL: Value(quantile_distance(made.values, train), len(made.values))}


@dataclass(frozen=True, eq=False)
class ChoiceCounts(Sums):
    """Visits without a code of a choice group, and with each of its codes; of kinds and of endings."""

    of_values: ClassVar[bool] = True
    kind: NDArray[np.int64]
    end: NDArray[np.int64]

    @classmethod
    def count(cls, cohort: Cohort, training: TrainingSummary) -> ChoiceCounts:
        """The counts of a cohort."""
        stays = Stays.of(cohort)
        return cls(
            *(np.bincount(stays.choice(g) + 1, minlength=len(choices(cohort, g)) + 1) for g in (VISIT_KIND, DISCHARGE))
        )


class ChoiceDistance(CountMetric[ChoiceCounts]):
    """Total variation between the shares of visits with each code of a choice group, or none, and those of training."""

    suite, goal, sized, statistic = "stays", "down", True, ChoiceCounts
    group: ClassVar[str]

    def values(self, made: ChoiceCounts, comparison: Comparison) -> dict[str, Value]:
        """The total variation."""
        real = comparison.counts(ChoiceCounts, "train")
        truth, counts = (one.kind if self.group == VISIT_KIND else one.end for one in (real, made))
        if not truth[1:].any():
            return {ALL: Value.missing(f"no training visit tells its {self.group}")}
        n = int(counts.sum())
        return {ALL: Value(float(np.abs(counts / max(n, 1) - truth / truth.sum()).sum() / 2), n)}


class StayKindDistance(ChoiceDistance):
    """Total variation between the kinds of visits and those of training."""

    key, group = "stay_kind_tv", VISIT_KIND


class StayEndDistance(ChoiceDistance):
    """Total variation between the endings of visits and those of training."""

    key, group = "stay_end_tv", DISCHARGE


# ---- death and return ---------------------------------------------------------------------------------------
class DeathRate(RatioMetric):
    """Share of patients who die, in all and by age."""

    key, suite, goal = "death_rate", "stays", "match"

    def sums(self, comparison: Comparison) -> dict[str, PatientSums | Missing]:
        """Whether each synthetic patient dies."""
        synthetic = comparison.whole.synthetic
        if not training_stays(comparison).died.any():
            return {ALL: Missing("no training patient dies")}
        gone = synthetic.died()
        masks = {ALL: np.ones(len(gone), dtype=bool)}
        masks |= {f"age:{band}": mask for band, mask in _ages(comparison.training, synthetic).items()}
        reason = "no synthetic patient of this age"
        return {name: PatientSums((mask & gone).astype(np.float64), mask, reason) for name, mask in masks.items()}


@dataclass(frozen=True, eq=False)
class DeathCounts(Sums):
    """Patients who die and patients, by age band that enough training patients have."""

    of_values: ClassVar[bool] = True
    dead: NDArray[np.int64]
    everybody: NDArray[np.int64]
    #: Patients of whom the age is known to the source.
    with_age: int

    @classmethod
    def count(cls, cohort: Cohort, training: TrainingSummary) -> DeathCounts:
        """The counts of a cohort."""
        ages, gone = _ages(training, cohort), cohort.died()
        dead, everybody = ([int((mask & who).sum()) for mask in ages.values()] for who in (gone, np.ones_like(gone)))
        return cls(np.array(dead), np.array(everybody), cohort.n_patients if ages else 0)


class DeathByAge(CountMetric[DeathCounts]):
    """Mean absolute difference of the share who die from training, over age bands."""

    key, suite, goal, sized, statistic = "death_by_age", "stays", "down", True, DeathCounts

    def values(self, made: DeathCounts, comparison: Comparison) -> dict[str, Value]:
        """The mean difference, weighted by training patients; in a band without patients nobody dies."""
        if not training_stays(comparison).died.any():
            return {ALL: Value.missing("no training patient dies")}
        real = comparison.counts(DeathCounts, "train")
        if not real.with_age:
            return {ALL: Value.missing(f"no age of {FEWEST} training patients")}
        if not comparison.counts(DeathCounts).with_age:
            return {ALL: Value.missing("the synthetic patients have no age")}
        truth, guess = (one.dead / np.maximum(one.everybody, 1) for one in (real, made))
        return {ALL: Value(float(np.average(np.abs(guess - truth), weights=real.everybody)), len(truth))}


def _ages(training: TrainingSummary, of: Cohort) -> dict[str, Mask]:
    """The patients of each age band that enough training patients have; nothing where ages are not known."""
    name = training.age
    if not name or name not in of.attributes:
        return {}
    real, own = training.train.attributes[name], of.attributes[name]
    counts = np.bincount(np.asarray(real.values) + 1, minlength=len(real.categories) + 1)[1:]
    # Bands go by name.
    words = [band for band, n in zip(real.categories, counts, strict=True) if n >= FEWEST]
    places = {word: own.categories.index(word) if word in own.categories else -2 for word in words}
    return {word: np.asarray(own.values) == place for word, place in places.items()}


class Readmission30(RatioMetric):
    """Share of stays in hospital that another one follows within thirty days."""

    key, suite, goal = "readmission_30", "stays", "match"

    def sums(self, comparison: Comparison) -> dict[str, PatientSums | Missing]:
        """Stays with another one soon after, and stays of which it is known, of each synthetic patient."""
        train, synthetic = training_stays(comparison), synthetic_stays(comparison)
        for name, stays in (("training", train), ("synthetic", synthetic)):
            if (stays.readmitted < 0).all():
                return {ALL: Missing(f"no {name} stay of which it is known whether another follows")}
        owner, n = synthetic.cohort.patient_of_visit, synthetic.cohort.n_patients
        soon, known = (np.bincount(owner[synthetic.readmitted >= least], minlength=n) for least in (1, 0))
        return {ALL: PatientSums(soon, known, "no synthetic stay")}
