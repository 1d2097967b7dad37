"""How much a visit shares with the next, and how often visits repeat."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adapcla.data.fingerprints import code_keys, identities, visit_fingerprints
from adapcla.evaluation.contract import ALL, Comparison, Score
from adapcla.evaluation.intervals import groups_of, jackknife_score, ratio_scores
from adapcla.seeds import random_stream

_NO_STEP = "no synthetic patient has two visits"


def visit_overlap(key: str, comparison: Comparison) -> dict[str, Score]:
    """The score of one metric of overlaps between visits."""
    return {ALL: comparison.once(_overlaps)[key]}


def _overlaps(comparison: Comparison) -> dict[str, Score]:
    """Next-visit and random-visit overlap and their difference, from the same first visits."""
    cohort = comparison.synthetic
    first = cohort.visits_with_next
    anybody = random_stream(comparison.seed, "random visit").integers(0, max(cohort.n_visits, 1), size=len(first))
    near, far = cohort.jaccard(first, first + 1), cohort.jaccard(first, anybody)
    patient = cohort.patient_of_visit[first]
    tops = np.stack(
        [np.bincount(patient, weights=values, minlength=cohort.n_patients) for values in (near, far, near - far)],
        axis=1,
    )
    bottoms = np.repeat(np.bincount(patient, minlength=cohort.n_patients)[:, None].astype(float), 3, axis=1)
    names = ("next_visit_jaccard", "random_visit_jaccard", "next_visit_gain")
    return dict(zip(names, ratio_scores(comparison, tops, bottoms, [_NO_STEP] * 3), strict=True))


def unique_visits(comparison: Comparison) -> dict[str, Score]:
    """Share of different code sets among the visits: low where a generator repeats itself."""
    cohort = comparison.synthetic
    (sets,) = identities(visit_fingerprints(cohort, code_keys(cohort.vocabulary)))
    groups = groups_of(comparison)
    without: list[float] = []
    if groups is not None:
        group = groups[cohort.patient_of_visit]
        without = [_distinct(sets[group != g]) for g in range(int(groups.max()) + 1)]
    score = jackknife_score(_distinct(sets), cohort.n_visits, without, (0.0, 1.0), "there is no synthetic visit")
    return {ALL: score}


def _distinct(values: NDArray[np.int64]) -> float:
    """Share of different values."""
    return len(np.unique(values)) / len(values) if len(values) else float("nan")
