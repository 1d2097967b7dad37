"""The stays suite: how long visits take, of which kind they are, how they end, who dies, and who comes back.

Training patients are the truth of every distance. Somebody is readmitted who begins another stay in hospital within
thirty days of the end of the last one; where a source has no dates, where it says so itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.data.vocabulary import ADMISSION_KINDS, DEATH, DISCHARGE, LENGTH_OF_STAY, READMITTED, visit_kind_code
from adapcla.evaluation.contract import ALL, Comparison, Missing, Score
from adapcla.evaluation.fidelity import POSITIVE
from adapcla.evaluation.intervals import groups_of, jackknife_score, ratio_scores
from adapcla.evaluation.measured import Floats, Mask, quantile_distance
from adapcla.evaluation.trajectories import AGES, weighted_difference

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
        return cls(cohort, length, died, _readmitted(cohort, length, died))

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


def _readmitted(cohort: Cohort, length: Floats, died: Mask) -> NDArray[np.int8]:
    """Whether another stay begins soon after each stay; −1 where it cannot be told."""
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


def both(comparison: Comparison) -> tuple[Stays, Stays]:
    """The stays of training and of synthetic patients."""
    return comparison.of_cohort(Stays.of, comparison.whole.train), comparison.once(synthetic_stays)


def synthetic_stays(comparison: Comparison) -> Stays:
    """The stays of synthetic patients."""
    return Stays.of(comparison.whole.synthetic)


def _rests(comparison: Comparison, patient: NDArray[np.int64]) -> list[Mask]:
    """Which cases of synthetic patients stay: all, then all but those of each jackknife group."""
    groups, everything = groups_of(comparison), np.ones(len(patient), dtype=bool)
    if groups is None:
        return [everything]
    return [everything, *(groups[patient] != g for g in range(int(groups.max()) + 1))]


# ---- length, kind and ending --------------------------------------------------------------------------------
def stay_length_distance(comparison: Comparison) -> dict[str, Score]:
    """Wasserstein distance between the lengths of stay and those of training."""
    train, synthetic = both(comparison)
    missing = _no_length(train, synthetic)
    if missing:
        return {ALL: missing.score}
    truth = np.sort(train.length[np.isfinite(train.length)])
    known = np.flatnonzero(np.isfinite(synthetic.length))
    known = known[np.argsort(synthetic.length[known], kind="stable")]
    patient = synthetic.cohort.patient_of_visit[known]
    rests = _rests(comparison, patient)
    value, *without = (quantile_distance(synthetic.length[known[stays]], truth) for stays in rests)
    return {ALL: jackknife_score(value, len(known), without, POSITIVE, "no synthetic visit has a length")}


def _no_length(train: Stays, synthetic: Stays) -> Missing | None:
    """Why lengths cannot be compared, or None."""
    for name, stays in (("training", train), ("synthetic", synthetic)):
        if not np.isfinite(stays.length).any():
            return Missing(f"no {name} visit has a length")
    return None


def choice_distance(group: str, comparison: Comparison) -> dict[str, Score]:
    """Total variation between the shares of visits with each code of a choice group, or none, and those of training."""
    train, synthetic = both(comparison)
    n = len(choices(train.cohort, group))
    if (train.choice(group) < 0).all():
        return {ALL: Missing(f"no training visit tells its {group}").score}
    truth, chosen = np.bincount(train.choice(group) + 1, minlength=n + 1), synthetic.choice(group) + 1

    def distance(stays: Mask) -> float:
        counts = np.bincount(chosen[stays], minlength=n + 1)
        return float(np.abs(counts / max(counts.sum(), 1) - truth / truth.sum()).sum() / 2)

    value, *without = (distance(stays) for stays in _rests(comparison, synthetic.cohort.patient_of_visit))
    return {ALL: jackknife_score(value, len(chosen), without, (0.0, 1.0), "there is no synthetic visit")}


def mean_length(comparison: Comparison) -> dict[str, Score]:
    """Mean length of stay; strata: by ending."""
    train, synthetic = both(comparison)
    missing = _no_length(train, synthetic)
    if missing:
        return {ALL: missing.score}
    masks = {ALL: np.isfinite(synthetic.length)}
    masks |= {name: masks[ALL] & mask for name, mask in _endings(train, synthetic).items()}
    tops, bottoms = _by_patient(synthetic.cohort, np.nan_to_num(synthetic.length), masks)
    scores = ratio_scores(comparison, tops, bottoms, ["no such visit was generated with a length"] * len(masks))
    return dict(zip(masks, scores, strict=True))


def _endings(train: Stays, synthetic: Stays) -> dict[str, Mask]:
    """The synthetic visits of each ending that enough training visits with a length have."""
    codes, known = choices(train.cohort, DISCHARGE), np.isfinite(train.length)
    truth, chosen = train.choice(DISCHARGE), synthetic.choice(DISCHARGE)
    names = [train.cohort.vocabulary.codes[code].bare for code in codes]
    return {f"end:{name}": chosen == k for k, name in enumerate(names) if (known & (truth == k)).sum() >= FEWEST}


def length_by_ending(comparison: Comparison) -> dict[str, Score]:
    """Mean absolute difference of the mean length by ending from that of training, weighted by training visits.

    An ending that no synthetic visit has counts with the mean length of all synthetic visits.
    """
    train, synthetic = both(comparison)
    missing = _no_length(train, synthetic)
    if missing:
        return {ALL: missing.score}
    n = len(choices(train.cohort, DISCHARGE)) + 1
    totals, weight = _sums(train, n, np.ones(train.cohort.n_visits, dtype=bool))
    judged = weight >= FEWEST
    judged[0] = False  # without an ending
    if not judged.any():
        return {ALL: Missing(f"no ending of {FEWEST} training visits with a length").score}

    def error(stays: Mask) -> float:
        total, count = _sums(synthetic, n, stays)
        anybody = total.sum() / max(count.sum(), 1)
        guess = np.where(count > 0, total / np.maximum(count, 1), anybody)
        return weighted_difference(totals[judged] / weight[judged], guess[judged], weight[judged])

    value, *without = (error(stays) for stays in _rests(comparison, synthetic.cohort.patient_of_visit))
    return {ALL: jackknife_score(value, int(judged.sum()), without, POSITIVE, "no synthetic visit has a length")}


def _sums(stays: Stays, n: int, keep: Mask) -> tuple[Floats, Floats]:
    """Days and visits with a length by ending, the first for visits without an ending."""
    here = keep & np.isfinite(stays.length)
    place = stays.choice(DISCHARGE)[here] + 1
    total, count = np.bincount(place, stays.length[here], minlength=n), np.bincount(place, minlength=n)
    return total.astype(np.float64), count.astype(np.float64)


def _by_patient(cohort: Cohort, values: Floats, masks: dict[str, Mask]) -> tuple[Floats, Floats]:
    """Patients × strata: the sum of values of visits in each stratum, and the number of these visits."""
    owner, n = cohort.patient_of_visit, cohort.n_patients
    tops = [np.bincount(owner[mask], values[mask], minlength=n) for mask in masks.values()]
    bottoms = [np.bincount(owner[mask], minlength=n) for mask in masks.values()]
    return np.stack(tops, axis=1), np.stack(bottoms, axis=1).astype(np.float64)


# ---- death and return ---------------------------------------------------------------------------------------
def death_rate(comparison: Comparison) -> dict[str, Score]:
    """Share of patients who die; strata: by age."""
    train, synthetic = both(comparison)
    if not train.died.any():
        return {ALL: Missing("no training patient dies").score}
    gone = synthetic.cohort.died()
    masks = {ALL: np.ones(len(gone), dtype=bool)}
    masks |= {f"age:{band}": mask for band, mask in _ages(train, synthetic).items()}
    bottoms = np.stack(list(masks.values()), axis=1).astype(np.float64)
    scores = ratio_scores(
        comparison, bottoms * gone[:, None], bottoms, ["no synthetic patient of this age"] * len(masks)
    )
    return dict(zip(masks, scores, strict=True))


def death_by_age(comparison: Comparison) -> dict[str, Score]:
    """Mean absolute difference of the share who die from training, over age bands, weighted by training patients.

    In a band without synthetic patients nobody dies.
    """
    train, synthetic = both(comparison)
    if not train.died.any():
        return {ALL: Missing("no training patient dies").score}
    here = _ages(train, train)
    if not here:
        return {ALL: Missing(f"no age of {FEWEST} training patients").score}
    made = _ages(train, synthetic)
    if not made:
        return {ALL: Missing("the synthetic patients have no age").score}
    real, gone = train.cohort.died(), synthetic.cohort.died()
    weight = np.array([mask.sum() for mask in here.values()], dtype=np.float64)
    truth = np.array([real[mask].mean() for mask in here.values()])

    def error(stays: Mask) -> float:
        counts = [(gone[mask & stays].sum(), max((mask & stays).sum(), 1)) for mask in made.values()]
        return weighted_difference(truth, np.array([top / bottom for top, bottom in counts]), weight)

    value, *without = (error(stays) for stays in _rests(comparison, np.arange(len(gone), dtype=np.int64)))
    return {ALL: jackknife_score(value, len(weight), without, (0.0, 1.0), "there is no synthetic patient")}


def _ages(train: Stays, of: Stays) -> dict[str, Mask]:
    """The patients of each age band that enough training patients have; nothing where ages are not known."""
    name = next((age for age in AGES if age in train.cohort.attributes), None)
    if name is None or name not in of.cohort.attributes:
        return {}
    real, own = train.cohort.attributes[name], of.cohort.attributes[name]
    counts = np.bincount(np.asarray(real.values) + 1, minlength=len(real.categories) + 1)[1:]
    # Bands go by name.
    words = [band for band, n in zip(real.categories, counts, strict=True) if n >= FEWEST]
    places = {word: own.categories.index(word) if word in own.categories else -2 for word in words}
    return {word: np.asarray(own.values) == place for word, place in places.items()}


def readmission_rate(comparison: Comparison) -> dict[str, Score]:
    """Share of stays in hospital that another one follows within thirty days."""
    train, synthetic = both(comparison)
    for name, stays in (("training", train), ("synthetic", synthetic)):
        if (stays.readmitted < 0).all():
            return {ALL: Missing(f"no {name} stay of which it is known whether another follows").score}
    masks = {ALL: synthetic.readmitted >= 0}
    tops, bottoms = _by_patient(synthetic.cohort, (synthetic.readmitted == 1).astype(np.float64), masks)
    (score,) = ratio_scores(comparison, tops, bottoms, ["no synthetic stay"])
    return {ALL: score}
