"""The rows that every export writes: blocks of patients, a calendar, and facts about patients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.errors import InputError
from adapcla.records import Cohort
from adapcla.records.vocabulary import Vocabulary

#: Every patient's first visit is on this day: real dates were forgotten when the cohort was read.
FIRST_DAY = np.datetime64("2000-01-01", "D")
#: The calendar of every format ends with the year 9999.
LAST_DAY = 2_900_000
#: Patients that are turned into rows at once; bounds memory.
BLOCK = 20_000


class Block(NamedTuple):
    """Some patients, and how many patients and visits come before them."""

    cohort: Cohort
    first_patient: int
    first_visit: int

    @property
    def patients(self) -> NDArray[np.int64]:
        """The number of each patient in the whole cohort."""
        return np.arange(self.cohort.n_patients, dtype=np.int64) + self.first_patient

    @property
    def patient_of_visit(self) -> NDArray[np.int64]:
        """The number of each visit's patient in the whole cohort."""
        return self.cohort.patient_of_visit + self.first_patient

    @property
    def visits(self) -> NDArray[np.int64]:
        """The number of each visit in the whole cohort."""
        return np.arange(self.cohort.n_visits, dtype=np.int64) + self.first_visit

    @property
    def dates(self) -> NDArray[np.datetime64]:
        """The date of each visit."""
        return dates(self.cohort)


def blocks(cohort: Cohort, size: int = BLOCK) -> Iterator[Block]:
    """The cohort in blocks of at most `size` patients.

    >>> [block.first_visit for block in blocks(Cohort.of([[["A"], ["B"]], [["A"]]]), size=1)]
    [0, 2]
    """
    for first in range(0, cohort.n_patients, size):
        chosen = np.arange(first, min(first + size, cohort.n_patients), dtype=np.int64)
        yield Block(cohort.subset(chosen), first, int(cohort.patient_starts[first]))


def dates(cohort: Cohort) -> NDArray[np.datetime64]:
    """A date for each visit: from its day, or one visit a day where the cohort has no days.

    >>> dates(Cohort.of([[["A"], ["B"]]])).tolist()
    [datetime.date(2000, 1, 1), datetime.date(2000, 1, 2)]
    """
    days = cohort.visit_number if cohort.days is None else np.asarray(cohort.days, dtype=np.int64)
    if len(days) and int(days.max()) > LAST_DAY:
        raise InputError(
            f"a visit {int(days.max()):,} days after the first",
            expected=f"at most {LAST_DAY:,}, where calendars end",
            remedy="export to csv or halo, which keep days as numbers",
        )
    return FIRST_DAY + days.astype("timedelta64[D]")


def facts(cohort: Cohort) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(patient, number of the key in `Codebook.fact_keys`) of every known attribute and every label, by patient.

    >>> from adapcla.records import Attribute
    >>> sex = {"sex": Attribute(np.array([1, -1, 0], dtype=np.int16), ("F", "M"))}
    >>> [found.tolist() for found in facts(Cohort.of([[["A"]], [["A"]], [["A"]]], attributes=sex))]
    [[0, 2], [1, 0]]
    """
    patients, keys = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    before = 0
    for _, attribute in sorted(cohort.attributes.items()):
        known = np.flatnonzero(np.asarray(attribute.values) >= 0)
        patients.append(known)
        keys.append(np.asarray(attribute.values)[known].astype(np.int64) + before)
        before += len(attribute.categories)
    if cohort.labels is not None:
        patient, label = np.nonzero(np.asarray(cohort.labels))
        patients.append(patient)
        keys.append(label + before)
    patient, key = np.concatenate(patients), np.concatenate(keys)
    order = np.lexsort((key, patient))
    return patient[order], key[order]


def domain_of_code(vocabulary: Vocabulary) -> NDArray[np.str_]:
    """The domain of each code.

    >>> domain_of_code(Vocabulary.of(["A"])).tolist()
    ['diagnosis']
    """
    return np.array([code.domain for code in vocabulary.codes], dtype=str)
