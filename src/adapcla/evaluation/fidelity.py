"""How often codes and visits come: prevalence, rare codes, lengths, persistence; and whether a target was reached."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc
from scipy.stats import spearmanr

from adapcla.data import Cohort, Prevalence
from adapcla.disclosure import MIN_COUNT
from adapcla.evaluation.bootstrap import PatientSums
from adapcla.evaluation.comparison import ALL, RARE, Comparison, Ints, Mask, Missing, Score
from adapcla.evaluation.metric import INFINITE, R2, SIGNED, CountMetric, Metric, RatioMetric, Value
from adapcla.evaluation.statistics import CodeCounts, Floats, Sizes
from adapcla.seeds import random_stream


# ---- prevalence ---------------------------------------------------------------------------------------------
class PrevalenceMetric(CountMetric[CodeCounts]):
    """R² of the prevalence of codes with that of training, over all codes and for single strata."""

    suite, statistic = "fidelity", CodeCounts
    sized = by_domain = True
    measure: ClassVar[Literal["share", "log_share"]]

    def values(self, made: CodeCounts, comparison: Comparison) -> dict[str, Value]:
        """The number of each set of codes: those that occur, head, mid, tail, the rare ones and those of domains."""
        real, strata = comparison.counts(CodeCounts, self.real), comparison.strata
        occurs = (real.codes > 0) | (comparison.counts(CodeCounts).codes > 0)
        masks = {ALL: occurs, "head": strata.head, "mid": strata.mid, "tail": strata.tail}
        masks |= {name: mask for name, mask in comparison.training.tails.items() if name != RARE}
        masks |= {name: mask & occurs for name, mask in comparison.training.domains.items()}
        truth, guess = (getattr(counts, self.measure) for counts in (real, made))
        return {stratum: _r2(truth[mask], guess[mask]) for stratum, mask in masks.items()}


class UnigramR2(PrevalenceMetric):
    """R² of unigram probabilities with those of training visits."""

    key, goal, origin, bounds, unit, measure = "unigram_r2", "up", "HALO", R2, "R²", "share"


class PrevalenceLogR2(PrevalenceMetric):
    """R² of log prevalence against training visits."""

    key, goal, bounds, unit, measure = "prevalence_log_r2", "up", R2, "R²", "log_share"


def _r2(truth: Floats, guess: Floats) -> Value:
    """Coefficient of determination."""
    spread = ((truth - truth.mean()) ** 2).sum() if len(truth) else 0.0
    if len(truth) < 2 or spread <= 1e-12 * (truth**2).sum():
        return Value.missing(
            "prevalence does not vary here" if len(truth) > 1 else "fewer than two such codes", len(truth)
        )
    return Value(float(1 - ((truth - guess) ** 2).sum() / spread), len(truth))


class PrevalenceOff2x(CountMetric[CodeCounts]):
    """Share of the codes of 11 training patients or more that are off by more than a factor of two, beyond chance.

    A code counts where its prevalence is above twice or below half that of training, and sampling error does not
    explain it: a binomial test of the two counts, in patients and not in visits, since visits of a patient are alike.
    """

    key, suite, goal, statistic = "prevalence_off_2x", "fidelity", "down", CodeCounts

    def values(self, made: CodeCounts, comparison: Comparison) -> dict[str, Value]:
        """The share of the codes of each third by frequency."""
        train, real, strata = comparison.train, comparison.counts(CodeCounts, "train"), comparison.strata
        enough = train.patient_counts >= MIN_COUNT
        # Visits with the code for each patient who has it: so many visits count as one observation.
        repeats = np.maximum(real.codes, 1) / np.maximum(train.patient_counts, 1)
        off = _off_by_more_than(2.0, made.codes / repeats, made.visits, real.codes / repeats, real.visits)
        masks = {ALL: enough, "head": enough & strata.head, "mid": enough & strata.mid, "tail": enough & strata.tail}
        few = f"no code of {MIN_COUNT} training patients"
        return {
            stratum: Value(float(off[mask].mean()), int(mask.sum())) if mask.any() else Value.missing(few)
            for stratum, mask in masks.items()
        }


#: One-sided chance of calling a code off that is not.
OFF_CHANCE = 0.025


def _off_by_more_than(factor: float, made: Floats, n_made: int, real: Floats, n_real: int) -> NDArray[np.bool_]:
    """Whether the rates of two counts differ by more than a factor, beyond chance.

    Of both counts together, the share that falls on one side is binomial; counts need not be whole numbers.

    >>> made, real = np.array([25.0, 50.0, 4.0, 0.0]), np.array([10.0, 10.0, 10.0, 40.0])
    >>> _off_by_more_than(2.0, made, 100, real, 100).tolist()
    [False, True, False, True]
    """
    n_made, n_real = max(n_made, 1), max(n_real, 1)
    most, least = (scale * n_made / (scale * n_made + n_real) for scale in (factor, 1 / factor))
    # P(X >= made) at the largest share that is allowed, P(X <= made) at the smallest.
    above = np.where(made > 0, betainc(np.maximum(made, 1e-9), real + 1, most), 1.0)
    below = np.where(real > 0, betainc(np.maximum(real, 1e-9), made + 1, 1 - least), 1.0)
    return np.asarray(np.minimum(above, below) < OFF_CHANCE)


# ---- rare codes ---------------------------------------------------------------------------------------------
class TailMass(RatioMetric):
    """Share of the generated codes that are tail codes."""

    key, suite, goal, by_domain = "tail_mass", "fidelity", "match", True

    def sums(self, comparison: Comparison) -> dict[str, PatientSums | Missing]:
        """Rare codes and codes of each synthetic patient."""
        cohort = comparison.synthetic
        patient, n = cohort.patient_of_entry, cohort.n_patients
        everything = np.bincount(patient, minlength=n)
        return {
            stratum: PatientSums(np.bincount(patient[mask[cohort.codes]], minlength=n), everything, NOBODY)
            for stratum, mask in comparison.training.tail_strata.items()
        }


class TailCoverage(CountMetric[CodeCounts]):
    """Share of the tail codes that were generated at least once."""

    key, suite, goal, statistic = "tail_coverage", "fidelity", "up", CodeCounts
    sized = by_domain = True

    def values(self, made: CodeCounts, comparison: Comparison) -> dict[str, Value]:
        """The share of each set of rare codes."""
        return {
            stratum: Value(float((made.codes[mask] > 0).mean()), int(mask.sum()))
            if mask.any()
            else Value.missing("training has no such code")
            for stratum, mask in comparison.training.tail_strata.items()
        }


NOBODY = "there is no synthetic patient"


#: A length of records or of visits, as cohorts and `Sizes` call it.
Length = Literal["visits_per_patient", "codes_per_visit"]


# ---- lengths ------------------------------------------------------------------------------------------------
class LengthDifference(RatioMetric):
    """The mean length of records or visits less that of training."""

    suite, goal, bounds, by_domain = "fidelity", "match", INFINITE, True
    length: ClassVar[Length]

    def sums(self, comparison: Comparison) -> dict[str, PatientSums | Missing]:
        """The sum and the number of the lengths of each synthetic patient."""
        cohort = comparison.synthetic
        visits = cohort.visits_per_patient
        if self.length == "visits_per_patient":
            return {ALL: PatientSums(visits, np.ones_like(visits), NOBODY)}
        return {ALL: PatientSums(np.diff(cohort.entry_starts), visits, NOBODY)}

    def compute(self, comparison: Comparison) -> dict[str, Score]:
        """The mean length less that of training."""
        score, train = super().compute(comparison)[ALL], comparison.train
        per_patient = self.length == "visits_per_patient"
        target = train.n_visits / train.n_patients if per_patient else train.n_entries / train.n_visits
        value, low, high = (None if x is None else x - target for x in (score.value, score.low, score.high))
        return {ALL: Score(value, score.n, low, high, score.reason)}


class VisitsPerPatientDiff(LengthDifference):
    """Mean visits per patient less that of training."""

    key, unit, length = "visits_per_patient_diff", "visits", "visits_per_patient"


class CodesPerVisitDiff(LengthDifference):
    """Mean codes per visit less that of training."""

    key, unit, length = "codes_per_visit_diff", "codes", "codes_per_visit"


class LengthDistance(CountMetric[Sizes]):
    """Total variation between the distribution of a length and that of training."""

    suite, goal, statistic, sized = "fidelity", "down", Sizes, True
    length: ClassVar[Length]

    def values(self, made: Sizes, comparison: Comparison) -> dict[str, Value]:
        """Half the sum of all differences."""
        counts = [getattr(one, self.length) for one in (made, comparison.counts(Sizes, "train"))]
        if not all(one.sum() for one in counts):
            return {ALL: Value.missing(NOBODY)}
        ours, theirs = (one / one.sum() for one in counts)
        return {ALL: Value(float(np.abs(ours - theirs).sum() / 2), int(counts[0].sum()))}


class VisitsPerPatientDistance(LengthDistance):
    """Total variation between the distribution of visits per patient and that of training."""

    key, length = "visits_per_patient_tv", "visits_per_patient"


class CodesPerVisitDistance(LengthDistance):
    """Total variation between the distribution of codes per visit and that of training."""

    key, length = "codes_per_visit_tv", "codes_per_visit"


# ---- persistence --------------------------------------------------------------------------------------------
class NextVisitJaccard(RatioMetric):
    """Mean overlap of a visit's codes with the same patient's next visit."""

    key, suite, goal, by_domain = "next_visit_jaccard", "fidelity", "match", True

    def sums(self, comparison: Comparison) -> dict[str, PatientSums | Missing]:
        """The overlap of each synthetic patient, summed over the visits that another one follows."""
        cohort = comparison.synthetic
        first, n = cohort.visits_with_next, cohort.n_patients
        owner, shared = cohort.patient_of_visit[first], self.overlap(cohort, first, comparison.seed)
        top, bottom = np.bincount(owner, weights=shared, minlength=n), np.bincount(owner, minlength=n)
        return {ALL: PatientSums(top, bottom, "no synthetic patient has two visits")}

    def overlap(self, cohort: Cohort, first: Ints, seed: int) -> Floats:
        """What each visit shares with the next one."""
        return cohort.jaccard(first, first + 1)


class NextVisitGain(NextVisitJaccard):
    """Next-visit overlap less the overlap with a random visit of anybody: how much a record remembers."""

    key, suite, goal, bounds, by_domain = "next_visit_gain", "fidelity", "match", SIGNED, True

    def overlap(self, cohort: Cohort, first: Ints, seed: int) -> Floats:
        """What each visit shares with the next one, less what it shares with a random one."""
        anybody = random_stream(seed, "random visit").integers(0, max(cohort.n_visits, 1), size=len(first))
        return super().overlap(cohort, first, seed) - cohort.jaccard(first, anybody)


# ---- a requested prevalence ---------------------------------------------------------------------------------
#: Expected number of visits from which a single code's prevalence can be evaluated; the stratum `frequent`.
EVALUATED_FROM = 50
_NO_TARGET, _NO_REQUEST = "no prevalence was requested", "no such code has a requested prevalence"


def _requested_codes(comparison: Comparison, target: Prevalence) -> dict[str, Mask]:
    """The requested codes: all, those frequent enough to be evaluated alone, and those of head, mid and tail."""
    strata = comparison.strata
    frequent = np.nan_to_num(target.share) * comparison.synthetic.n_visits >= EVALUATED_FROM
    return {
        ALL: target.known,
        "frequent": target.known & frequent,
        "head": target.known & strata.head,
        "mid": target.known & strata.mid,
        "tail": target.known & strata.tail,
    }


class ControlMetric(CountMetric[CodeCounts]):
    """A comparison of the achieved prevalence with the requested one."""

    suite, statistic = "control", CodeCounts

    def values(self, made: CodeCounts, comparison: Comparison) -> dict[str, Value]:
        """The number of each set of requested codes."""
        target = comparison.target
        if target is None:
            return {ALL: Value.missing(_NO_TARGET)}
        requested = np.nan_to_num(target.share)
        return {
            stratum: Value(self.value_of(requested[mask], made.share[mask]), int(mask.sum()), _NO_VARIATION)
            if mask.any()
            else Value.missing(_NO_REQUEST)
            for stratum, mask in _requested_codes(comparison, target).items()
        }

    @abstractmethod
    def value_of(self, requested: Floats, achieved: Floats) -> float:
        """The number of some codes, NaN where there is none."""


_NO_VARIATION = "prevalence is zero or does not vary"


class ControlMAE(ControlMetric):
    """Mean absolute difference between requested and achieved prevalence."""

    key, goal = "control_mae", "down"

    def value_of(self, requested: Floats, achieved: Floats) -> float:
        """The mean difference."""
        return float(round(np.abs(requested - achieved).mean(), 15))


class ControlMaxGap(ControlMetric):
    """Largest absolute difference between requested and achieved prevalence."""

    key, goal, sized = "control_max_gap", "down", True

    def value_of(self, requested: Floats, achieved: Floats) -> float:
        """The largest difference."""
        return float(np.abs(requested - achieved).max())


class ControlSpearman(ControlMetric):
    """Rank correlation between requested and achieved prevalence."""

    key, goal, bounds, unit = "control_spearman", "up", SIGNED, "correlation"

    def value_of(self, requested: Floats, achieved: Floats) -> float:
        """Spearman's correlation, NaN where either does not vary."""
        if len(requested) < 2 or np.ptp(requested) == 0 or np.ptp(achieved) == 0:
            return float("nan")
        return float(spearmanr(requested, achieved).statistic)


class ControlFloor(Metric):
    """The mean difference that sampling alone would leave in as many visits of the requested prevalence."""

    key, suite, goal, sized = "control_floor", "control", "none", True

    def compute(self, comparison: Comparison) -> dict[str, Score]:
        """The sampling error of each set of requested codes."""
        target = comparison.target
        if target is None:
            return {ALL: Missing(_NO_TARGET).score}
        gaps = target.sampling_error(comparison.synthetic.n_visits)
        return {
            stratum: Score(float(gaps[mask].mean()), int(mask.sum())) if mask.any() else Missing(_NO_REQUEST).score
            for stratum, mask in _requested_codes(comparison, target).items()
        }
