"""The rows that every export writes: blocks of patients, a calendar, births, deaths, and facts about patients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.errors import InputError
from adapcla.io.writers.visits import ended_in_death, lengths

if TYPE_CHECKING:
    import pyarrow as pa

#: Every patient's first visit is on this day: real dates were forgotten when the cohort was read.
FIRST_DAY = np.datetime64("2000-01-01", "D")
#: The calendar of every format ends with the year 9999.
LAST_DAY = 2_900_000
#: Patients that are turned into rows at once; bounds memory.
BLOCK = 20_000
#: Attributes that hold an age at the first visit, or whether a patient died, and the words that say so.
_AGES, _DEATHS, _YES = ("age_band", "age"), ("died", "death", "deceased"), ("1", "yes", "y", "true", "t")
_OLDEST = 120
_DAY = np.timedelta64(1, "D").astype("timedelta64[us]")


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

    @property
    def last_visit(self) -> NDArray[np.int64]:
        """The position of each patient's last visit in the block."""
        return np.asarray(self.cohort.patient_starts[1:], dtype=np.int64) - 1


def blocks(cohort: Cohort, size: int = BLOCK) -> Iterator[Block]:
    """The cohort in blocks of at most `size` patients.

    >>> [block.first_visit for block in blocks(Cohort.of([[["A"], ["B"]], [["A"]]]), size=1)]
    [0, 2]
    """
    for first in range(0, cohort.n_patients, size):
        chosen = np.arange(first, min(first + size, cohort.n_patients), dtype=np.int64)
        yield Block(cohort.subset(chosen), first, int(cohort.patient_starts[first]))


def dates(cohort: Cohort) -> NDArray[np.datetime64]:
    """A date for each visit: from its day, or one visit per day where the cohort has no days.

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


def times(cohort: Cohort) -> tuple[NDArray[np.datetime64], NDArray[np.datetime64]]:
    """When each visit begins and ends: at midnight and at noon of its day; visits of one day share it in their order.

    A visit whose length is known ends so much later.

    >>> begin, end = times(Cohort.of([[["A"], ["B"]]], days=np.array([0, 0], dtype=np.int32)))
    >>> [str(time)[11:16] for pair in zip(begin, end) for time in pair]
    ['00:00', '06:00', '12:00', '18:00']
    """
    day = dates(cohort)
    first = np.ones(len(day), dtype=bool)
    first[1:] = (np.diff(day) != np.timedelta64(0, "D")) | (np.diff(cohort.patient_of_visit) != 0)
    starts = np.flatnonzero(first)
    sizes = np.diff(np.append(starts, len(day)))
    rank, n = np.arange(len(day)) - np.repeat(starts, sizes), np.repeat(sizes, sizes)
    midnight = day.astype("datetime64[us]")
    begin, end = midnight + _DAY * (2 * rank) // (2 * n), midnight + _DAY * (2 * rank + 1) // (2 * n)
    days = lengths(cohort)
    longest = (np.datetime64("9999-12-31", "us") - begin) / _DAY
    known = np.isfinite(days)
    took = (np.clip(np.where(known, days, 0), 0, longest) * _DAY.astype(np.int64)).astype(np.int64)
    return begin, np.where(known, begin + took.astype("timedelta64[us]"), end)


def age_in(words: str) -> int | None:
    """The age that a category speaks of, in years: the middle of a band, the bound of an open one, None if it has none.

    >>> [age_in(words) for words in ("60-69", "[60-70)", "90+", "<18", "47", "unclear")]
    [65, 65, 90, 9, 47, None]
    """
    numbers = [int(number) for number in re.findall(r"(?<![0-9])[0-9]{1,3}(?![0-9])", words)]
    if not 1 <= len(numbers) <= 2 or max(numbers) > _OLDEST:
        return None
    if len(numbers) == 1:
        return numbers[0] // 2 if words.startswith("<") else numbers[0]
    low, high = numbers
    return low + (high - low + 1) // 2 if low <= high else None


def birth_years(cohort: Cohort) -> NDArray[np.int64]:
    """The year of birth of each patient, from the age at the first visit and the calendar; 0 where it is unknown.

    >>> from adapcla.data import Attribute
    >>> age = {"age_band": Attribute(np.array([0, -1], dtype=np.int16), ("60-69",))}
    >>> birth_years(Cohort.of([[["A"]], [["A"]]], attributes=age)).tolist()
    [1935, 0]
    """
    name = next((name for name in _AGES if name in cohort.attributes), None)
    if name is None:
        return np.zeros(cohort.n_patients, dtype=np.int64)
    first_year = int(FIRST_DAY.astype("datetime64[Y]").astype(int)) + 1970
    ages = [age_in(words) for words in cohort.attributes[name].categories]
    years = np.array([*(0 if age is None else first_year - age for age in ages), 0], dtype=np.int64)
    return years[cohort.attributes[name].values]


def deaths(cohort: Cohort) -> NDArray[np.bool_]:
    """Which patients a visit or an attribute says to have died; nobody where there is none.

    >>> from adapcla.data import Attribute
    >>> died = {"died": Attribute(np.array([1, 0], dtype=np.int16), ("no", "yes"))}
    >>> deaths(Cohort.of([[["A"]], [["A"]]], attributes=died)).tolist()
    [True, False]
    """
    name = next((name for name in _DEATHS if name in cohort.attributes), None)
    ended = ended_in_death(cohort)
    if name is None:
        return ended
    said = np.array([*(words.strip().lower() in _YES for words in cohort.attributes[name].categories), False])
    found: NDArray[np.bool_] = said[cohort.attributes[name].values] | ended
    return found


def facts(cohort: Cohort) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(patient, number of the key in `Codebook.fact_keys`) of every known attribute and every label, by patient.

    >>> from adapcla.data import Attribute
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


def numbers_of(cohort: Cohort, entry: NDArray[np.int64]) -> tuple[pa.Array, pa.Array]:
    """The number and the unit of these entries, empty where an entry has none.

    >>> from adapcla.data import Code
    >>> cohort = Cohort.of([[["A", "B"]]], ["A", Code.of("B", unit="g")], values=np.array([np.nan, 2], np.float32))
    >>> [column.to_pylist() for column in numbers_of(cohort, np.arange(2))]
    [[None, 2.0], [None, 'g']]
    """
    import pyarrow as pa

    values = np.full(len(entry), np.nan, np.float32) if cohort.values is None else np.asarray(cohort.values)[entry]
    units = pa.array([code.unit or None for code in cohort.vocabulary.codes], pa.string())
    return pa.array(values, pa.float32(), mask=np.isnan(values)), units.take(pa.array(np.asarray(cohort.codes)[entry]))
