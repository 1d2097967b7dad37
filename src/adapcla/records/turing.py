"""How often codes are expected in other patients of the same law, which is not how often they were counted.

Codes that are rare in training are rare there partly by chance. Good and Turing's estimate says what to expect of a
code that r patients hold, from how many codes r + 1 patients hold.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adapcla.records.cohort import Cohort
from adapcla.records.prevalence import Prevalence

#: Standard errors by which Turing's estimate must differ from the count itself (Gale and Sampson, 1995).
_CLEARLY = 1.65


def turing_counts(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The expected count of each code in as many other patients: (r + 1) N[r + 1] / N[r] for a code counted r times.

    N[r] is how many codes were counted r times. From the first r on at which that is not clearly another number than r,
    codes are expected as often as they were counted. What was never counted stays at zero.

    Forty codes of one patient and sixty of two: 2 · 60 / 40 = 3 is expected of the first.

    >>> turing_counts(np.repeat([0, 1, 2, 50], [10, 40, 60, 1])).tolist()[::25]
    [0.0, 3.0, 2.0, 2.0, 2.0]
    """
    expected = counts.astype(np.float64)
    with_count = np.bincount(counts, minlength=2)
    for r in range(1, len(with_count) - 1):
        here, above = float(with_count[r]), float(with_count[r + 1])
        if not here or not above:
            break
        estimate = (r + 1) * above / here
        error = (r + 1) / here * np.sqrt(above * (1 + above / here))
        if abs(estimate - r) <= _CLEARLY * error:
            break
        expected[counts == r] = estimate
    return expected


def expected_prevalence(cohort: Cohort) -> Prevalence:
    """The share of visits that hold each code, as it is expected in other patients of the same law.

    Patients are independent and visits of one patient are not, so that patients are what is counted; a code keeps its
    number of visits for each patient that holds it.

    >>> expected_prevalence(Cohort.of([[["A"], ["A", "B"]]])).share.tolist()
    [1.0, 0.5]
    """
    patients, counted = cohort.patient_counts, cohort.prevalence()
    factor = turing_counts(patients) / np.maximum(patients, 1)
    # A code that is in nearly every visit is no rare one: its factor is 1.
    return Prevalence(cohort.vocabulary, np.minimum(counted.share * factor, 1.0), cohort.n_visits)
