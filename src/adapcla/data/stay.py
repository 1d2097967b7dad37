"""The codes that speak of a visit as a whole: its kind, how long it took, and how it ended.

They are codes like all others, of the domain `stay`. Kind and ending are choice groups; the length is a number of days.
A record ends with a visit that ends with death.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adapcla.data.cohort import Cohort
from adapcla.data.vocabulary import Code

DOMAIN = "stay"
KIND, END = "kind", "end"
#: What kinds of visit and endings are called in every source, and what each means.
KINDS = {
    "inpatient": "Inpatient stay",
    "emergency": "Emergency visit",
    "emergency-inpatient": "Inpatient stay that began in the emergency department",
    "elective": "Planned inpatient stay",
    "observation": "Observation stay",
    "outpatient": "Outpatient visit",
    "home": "Visit at home or by telephone",
    "other": "Visit of another kind",
}
ENDS = {
    "home": "Discharged home",
    "home-care": "Discharged home with care",
    "facility": "Discharged to another facility",
    "hospice": "Discharged to hospice",
    "against-advice": "Left against advice",
    "died": "Died",
    "other": "Ended in another way",
}


def kind_of_visit(name: str) -> Code:
    """The code of a kind of visit.

    >>> kind_of_visit("inpatient").token, kind_of_visit("inpatient").group
    ('KIND/inpatient', 'kind')
    """
    return Code.of(name, "KIND", description=KINDS.get(name, ""), domain=DOMAIN, group=KIND)


def ending(name: str) -> Code:
    """The code of an ending.

    >>> ending("died").token
    'END/died'
    """
    return Code.of(name, "END", description=ENDS.get(name, ""), domain=DOMAIN, group=END)


#: The days from the begin of a visit to its end.
LENGTH = Code.of("days", "STAY", description="Length of stay", domain=DOMAIN, unit="d")
#: After a visit with this code there is no other.
DIED = ending("died")
#: Where a source has no dates it may say itself that the patient came back within thirty days.
READMITTED = Code.of(
    "within-30", "READMITTED", description="Readmitted within 30 days", domain=DOMAIN, group="readmitted"
)
#: Kinds of visit that are stays in hospital.
ADMISSIONS = ("inpatient", "emergency-inpatient", "elective", "observation")


def died(cohort: Cohort) -> NDArray[np.bool_]:
    """Which patients' last visit ends with death.

    >>> died(Cohort.of([[["A", "END/died"]], [["A"]]], [DIED, "A"])).tolist()
    [True, False]
    """
    code, held = cohort.vocabulary.index.get(DIED.token), np.zeros(cohort.n_visits, dtype=bool)
    held[cohort.visit_of_entry[np.asarray(cohort.codes) == (-1 if code is None else code)]] = True
    return held[cohort.last_visits]
