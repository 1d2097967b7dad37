"""How often codes are expected in other patients of the same law, which is not how often they were counted.

Codes that are rare in training are rare there partly by chance: other patients hold them more often where a vocabulary
has few rarer ones, and less often where it has many. What to expect of a code that r patients hold is said by how many
codes 1, 2, 3, … patients hold (Robbins' empirical Bayes, of which Good and Turing's estimate is the rough form).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from adapcla.data.cohort import Cohort
from adapcla.data.prevalence import Prevalence

#: Codes of more patients, or of a larger share of them, are expected as often as they were counted.
_RARE, _RARE_SHARE = 100, 0.05
#: Rates that a code may have, in patients, and rounds of the fit of how common each rate is.
_RATES = np.geomspace(0.05, 4.0 * _RARE, 160)
_ROUNDS = 100
#: Patients of a code at which its own visits for each patient weigh as much as those of all rare codes.
_OWN_HALF = 5.0


def expected_counts(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The expected number of as many other patients that hold each code, given how many hold it here.

    Counts are taken as Poisson with rates whose law is fitted to all of them (maximum likelihood on a grid, by
    expectation and maximisation, given that a code is there at all). What was never counted stays at zero.

    A hundred codes with one patient among a thousand with four or five: some of the hundred had bad luck.

    >>> expected_counts(np.repeat([0, 1, 4, 5, 900], [1, 100, 500, 500, 1]))[[0, 1, -1]].round().tolist()
    [0.0, 3.0, 900.0]
    """
    expected = counts.astype(np.float64)
    number_of_codes = np.bincount(counts)[: 2 * _RARE + 1]
    number_of_codes[:1] = 0
    seen = np.flatnonzero(number_of_codes)
    if not len(seen):
        return expected
    there = -np.expm1(-_RATES)
    chance = np.exp(seen[:, None] * np.log(_RATES) - _RATES - gammaln(seen + 1)[:, None]) / there  # (counts, rates)
    share = np.full(len(_RATES), 1 / len(_RATES))
    weight = number_of_codes[seen] / number_of_codes.sum()
    for _ in range(_ROUNDS):
        belief = chance * share
        belief /= belief.sum(axis=1, keepdims=True)
        share = weight @ belief
    mean = np.arange(len(number_of_codes), dtype=np.float64)
    mean[seen] = belief @ _RATES
    rare = counts <= min(_RARE, len(mean) - 1)
    expected[rare] = mean[counts[rare]]
    return expected


def expected_prevalence(cohort: Cohort) -> Prevalence:
    """The share of visits that hold each code, as it is expected in as many other patients of the same law.

    Patients are independent and visits of one patient are not, so that patients are what is counted. Each brings the
    code's visits for a patient that holds it: its own number, drawn towards that of all rare codes as far as few
    patients hold it.
    """
    patients, visits = cohort.patient_counts, cohort.visit_counts
    rare = (patients > 0) & (patients <= min(_RARE, _RARE_SHARE * cohort.n_patients))
    typical = visits[rare].sum() / max(patients[rare].sum(), 1)
    each = (visits + _OWN_HALF * typical) / (patients + _OWN_HALF)
    expected = np.where(rare, expected_counts(patients) * each, visits) / max(cohort.n_visits, 1)
    return Prevalence(cohort.vocabulary, np.minimum(expected, 1.0), cohort.n_visits)
