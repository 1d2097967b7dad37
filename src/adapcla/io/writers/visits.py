"""What visits say of themselves in formats that have a place for it: kind, ending and length."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort, Vocabulary
from adapcla.data.vocabulary import DEATH, DISCHARGE, LENGTH_OF_STAY, VISIT_KIND

#: How the tokens of kinds and endings begin.
KIND_PREFIX, END_PREFIX = "KIND/", "END/"


class StayCodes(NamedTuple):
    """Which codes are kinds and which are endings, and the position of the length of stay (−1: there is none)."""

    kinds: NDArray[np.bool_]
    ends: NDArray[np.bool_]
    length: int

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> StayCodes:
        """The codes of stays in a vocabulary.

        >>> from adapcla.data.vocabulary import discharge_code
        >>> StayCodes.of(Vocabulary.of(["A", discharge_code("home"), LENGTH_OF_STAY])).ends.tolist()
        [False, True, False]
        """
        kinds, ends = (
            np.array([c.group == group and c.token.startswith(prefix) for c in vocabulary.codes], dtype=bool)
            for group, prefix in ((VISIT_KIND, KIND_PREFIX), (DISCHARGE, END_PREFIX))
        )
        place = vocabulary.index.get(LENGTH_OF_STAY.token, -1)
        return cls(kinds, ends, place if place >= 0 and vocabulary.codes[place].unit else -1)

    @property
    def words(self) -> NDArray[np.bool_]:
        """The codes that stand with the visit, not among what was found in it."""
        return self.kinds | self.ends


def code_of_visit(cohort: Cohort, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The code of each visit that is one of these, of which a visit holds at most one; −1 where it holds none.

    >>> code_of_visit(Cohort.of([[["A", "B"], ["B"]]]), np.array([True, False])).tolist()
    [0, -1]
    """
    out = np.full(cohort.n_visits, -1, dtype=np.int64)
    if mask.any():
        chosen = np.flatnonzero(mask[np.asarray(cohort.codes)])
        out[cohort.visit_of_entry[chosen]] = np.asarray(cohort.codes)[chosen]
    return out


def lengths(cohort: Cohort) -> NDArray[np.float64]:
    """The length of each visit in days, NaN where it is not known.

    >>> stay = Cohort.of([[["STAY/days"]]], [LENGTH_OF_STAY], values=np.array([2.5], dtype=np.float32))
    >>> lengths(stay).tolist()
    [2.5]
    """
    out = np.full(cohort.n_visits, np.nan)
    place = StayCodes.of(cohort.vocabulary).length
    if cohort.values is not None and place >= 0:
        chosen = np.flatnonzero(np.asarray(cohort.codes) == place)
        out[cohort.visit_of_entry[chosen]] = np.asarray(cohort.values)[chosen]
    return out


def ended_in_death(cohort: Cohort) -> NDArray[np.bool_]:
    """Which patients have a visit that ended with their death.

    >>> ended_in_death(Cohort.of([[["A"]], [["END/died"]]], ["A", DEATH])).tolist()
    [False, True]
    """
    out = np.zeros(cohort.n_patients, dtype=bool)
    place = cohort.vocabulary.index.get(DEATH.token, -1)
    if place >= 0 and cohort.vocabulary.codes[place].group == DISCHARGE:
        out[cohort.patient_of_entry[np.asarray(cohort.codes) == place]] = True
    return out
