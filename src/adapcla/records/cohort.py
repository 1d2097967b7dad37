"""Patients as sequences of visits, visits as sets of codes; real and synthetic are the same type."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.errors import InputError
from adapcla.records import store
from adapcla.records.invariants import (
    check_attributes,
    check_codes,
    check_days,
    check_labels,
    check_runs,
    require_form,
)
from adapcla.records.origin import Origin, Part
from adapcla.records.prevalence import Prevalence
from adapcla.records.split import SPLIT_SEED, ControlledSplit, Split, parts
from adapcla.records.strata import Strata
from adapcla.records.vocabulary import Code, Vocabulary


class Attribute(NamedTuple):
    """A static property of patients, such as sex: one small integer a patient (−1 unknown) and what it means."""

    values: NDArray[np.int16]
    categories: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Cohort:
    """Patients on a vocabulary, as flat arrays that may be memory-mapped.

    Visit v holds codes[visit_starts[v]:visit_starts[v+1]], ascending and without repeats; patient p holds the
    visits patient_starts[p]:patient_starts[p+1]. No visit is empty, no patient is without a visit.

    >>> cohort = Cohort.of([[["I10", "E11"], ["I10"]], [["J45"]]])
    >>> cohort.n_patients, cohort.n_visits, cohort.n_codes
    (2, 3, 3)
    >>> list(cohort.patients())
    [[['E11', 'I10'], ['I10']], [['J45']]]
    """

    vocabulary: Vocabulary
    codes: NDArray[np.int32]
    visit_starts: NDArray[np.int64]
    patient_starts: NDArray[np.int64]
    #: Days since the patient's first visit, one a visit, where the source has dates.
    days: NDArray[np.int32] | None = None
    #: Patient labels, one row a patient, one column a name.
    labels: NDArray[np.uint8] | None = None
    label_names: tuple[str, ...] = ()
    attributes: dict[str, Attribute] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_form("codes", self.codes, np.int32)
        check_runs("visit_starts", self.visit_starts, self.n_entries)
        check_runs("patient_starts", self.patient_starts, self.n_visits)
        check_codes(self.codes, self.visit_starts, self.n_codes)
        if self.days is not None:
            check_days(self.days, self.patient_starts, self.n_visits)
        check_labels(self.labels, self.n_patients, len(self.label_names))
        check_attributes(self.attributes, self.n_patients)

    # ---- making one -------------------------------------------------------------------------------------
    @classmethod
    def of(
        cls,
        patients: Iterable[Sequence[Iterable[str]]],
        vocabulary: Vocabulary | Iterable[Code | str] | None = None,
        **extras: Any,
    ) -> Cohort:
        """A cohort from nested lists of code strings; for examples and tests, not for large data."""
        rows = [[sorted(set(visit)) for visit in patient] for patient in patients]
        if vocabulary is None:
            vocabulary = Vocabulary.of(code for patient in rows for visit in patient for code in visit)
        elif not isinstance(vocabulary, Vocabulary):
            vocabulary = Vocabulary.of(vocabulary)
        flat = [code for patient in rows for visit in patient for code in visit]
        visit_sizes = [len(visit) for patient in rows for visit in patient]
        positions = vocabulary.positions(flat)
        if (positions < 0).any():
            raise InputError("a code outside the vocabulary", remedy="add it to the vocabulary or drop it")
        return cls(
            vocabulary,
            positions.astype(np.int32),
            starts_of(np.array(visit_sizes, dtype=np.int64)),
            starts_of(np.array([len(patient) for patient in rows], dtype=np.int64)),
            **extras,
        )

    @classmethod
    def open(cls, folder: str | Path) -> Cohort:
        """The cohort in a folder, memory-mapped; nothing in the folder is ever executed."""
        content = store.open_folder(Path(folder))
        label_names, categories = store.names_of(content, Path(folder))
        Origin.from_card(content.card)  # one that cannot be read is said now, not when it is asked for
        attributes = {name: Attribute(content.arrays[f"attribute_{name}"], names) for name, names in categories.items()}
        return cls(
            Vocabulary(content.codes),
            content.arrays["codes"],
            content.arrays["visit_starts"],
            content.arrays["patient_starts"],
            days=content.arrays.get("days"),
            labels=content.arrays.get("labels"),
            label_names=label_names,
            attributes=attributes,
            card=content.card,
        )

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write the cohort to a folder, whole or not at all."""
        arrays: dict[str, NDArray[Any]] = {
            "codes": self.codes,
            "visit_starts": self.visit_starts,
            "patient_starts": self.patient_starts,
        }
        if self.days is not None:
            arrays["days"] = self.days
        if self.labels is not None:
            arrays["labels"] = self.labels
        for name, attribute in self.attributes.items():
            arrays[f"attribute_{name}"] = attribute.values
        card = dict(self.card)
        card["patients"], card["visits"], card["codes"] = self.n_patients, self.n_visits, self.n_codes
        card["entries"] = self.n_entries
        card["labels"] = list(self.label_names)
        card["attributes"] = {name: list(a.categories) for name, a in sorted(self.attributes.items())}
        return store.save_folder(Path(folder), arrays, self.vocabulary.codes, card, overwrite=overwrite)

    @property
    def origin(self) -> Origin:
        """Where the patients came from, as the card says."""
        return Origin.from_card(self.card)

    # ---- size -------------------------------------------------------------------------------------------
    @property
    def n_patients(self) -> int:
        """Number of patients."""
        return len(self.patient_starts) - 1

    @property
    def n_visits(self) -> int:
        """Number of visits."""
        return len(self.visit_starts) - 1

    @property
    def n_codes(self) -> int:
        """Size of the vocabulary."""
        return len(self.vocabulary)

    @property
    def n_entries(self) -> int:
        """Number of codes in all visits together."""
        return len(self.codes)

    @cached_property
    def codes_per_visit(self) -> NDArray[np.int64]:
        """Number of codes of each visit."""
        return np.diff(self.visit_starts)

    @cached_property
    def visits_per_patient(self) -> NDArray[np.int64]:
        """Number of visits of each patient."""
        return np.diff(self.patient_starts)

    @cached_property
    def patient_of_visit(self) -> NDArray[np.int64]:
        """The patient that each visit belongs to."""
        return np.repeat(np.arange(self.n_patients, dtype=np.int64), self.visits_per_patient)

    # ---- what it says -----------------------------------------------------------------------------------
    def patients(self) -> Iterator[list[list[str]]]:
        """Patients one by one, as lists of visits of code strings."""
        tokens = self.vocabulary.tokens
        for p in range(self.n_patients):
            yield [
                [tokens[c] for c in self.codes[self.visit_starts[v] : self.visit_starts[v + 1]]]
                for v in range(self.patient_starts[p], self.patient_starts[p + 1])
            ]

    def matrix(self) -> sparse.csr_matrix:
        """Visits × codes, 1 where the visit holds the code."""
        return sparse.csr_matrix(
            (np.ones(self.n_entries, dtype=np.float32), np.asarray(self.codes), np.asarray(self.visit_starts)),
            shape=(self.n_visits, self.n_codes),
        )

    def patient_matrix(self) -> sparse.csr_matrix:
        """Patients × codes, the number of the patient's visits that hold the code."""
        starts = np.asarray(self.visit_starts)[np.asarray(self.patient_starts)]
        out = sparse.csr_matrix(
            (np.ones(self.n_entries, dtype=np.float32), np.array(self.codes), starts),
            shape=(self.n_patients, self.n_codes),
        )
        out.sum_duplicates()
        return out

    @cached_property
    def visit_counts(self) -> NDArray[np.int64]:
        """Number of visits that hold each code."""
        return np.bincount(self.codes, minlength=self.n_codes).astype(np.int64)

    @cached_property
    def patient_counts(self) -> NDArray[np.int64]:
        """Number of patients that hold each code."""
        return np.asarray((self.patient_matrix() > 0).sum(axis=0)).ravel().astype(np.int64)

    def prevalence(self) -> Prevalence:
        """The share of visits that hold each code (π̂)."""
        return Prevalence(self.vocabulary, self.visit_counts / max(self.n_visits, 1), self.n_visits)

    def strata(self) -> Strata:
        """Head, mid and tail by this cohort's counts."""
        return Strata.of(self.visit_counts, self.vocabulary)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything but the card: equal for equal patients."""
        digest = hashlib.sha256(self.vocabulary.fingerprint.encode())
        for array in (self.codes, self.visit_starts, self.patient_starts, self.days, self.labels):
            # The length keeps a number from moving over the border between two arrays unseen.
            digest.update(b"-" if array is None else str(array.shape).encode())
            if array is not None:
                digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        digest.update("\n".join(self.label_names).encode())
        for name, attribute in sorted(self.attributes.items()):
            digest.update("\n".join((name, *attribute.categories)).encode())
            digest.update(np.ascontiguousarray(attribute.values).tobytes())
        return digest.hexdigest()

    # ---- parts and other forms --------------------------------------------------------------------------
    def subset(self, positions: NDArray[np.int64] | Sequence[int]) -> Cohort:
        """The patients at these positions, in that order (repeats allowed).

        >>> Cohort.of([[["A"]], [["B"], ["A"]]]).subset([1, 1]).n_visits
        4
        """
        chosen = np.asarray(positions)
        if chosen.dtype == bool:
            raise TypeError("positions are wanted, not a mask: use np.flatnonzero(mask)")
        chosen = chosen.astype(np.int64)
        if chosen.size and not 0 <= chosen.min() <= chosen.max() < self.n_patients:
            raise IndexError(f"a position outside 0 … {self.n_patients - 1}")
        visits = ranges(self.patient_starts[chosen], self.patient_starts[chosen + 1])
        entries = ranges(self.visit_starts[visits], self.visit_starts[visits + 1])
        return replace(
            self,
            codes=np.asarray(self.codes[entries]),
            visit_starts=starts_of(self.codes_per_visit[visits]),
            patient_starts=starts_of(self.visits_per_patient[chosen]),
            days=None if self.days is None else np.asarray(self.days[visits]),
            labels=None if self.labels is None else np.asarray(self.labels[chosen]),
            attributes={
                name: Attribute(np.asarray(a.values[chosen]), a.categories) for name, a in self.attributes.items()
            },
        )

    def followed_by(self, other: Cohort) -> Cohort:
        """These patients and then the other's, on this vocabulary; days and attributes that both have, no labels.

        >>> Cohort.of([[["A", "B"]]]).followed_by(Cohort.of([[["B"], ["A"]]])).visits_per_patient.tolist()
        [1, 2]
        """
        other = other.on(self.vocabulary)
        same = {
            name: Attribute(np.concatenate([a.values, other.attributes[name].values]), a.categories)
            for name, a in self.attributes.items()
            if name in other.attributes and other.attributes[name].categories == a.categories
        }
        both_have_days = self.days is not None and other.days is not None
        return replace(
            self,
            codes=np.concatenate([self.codes, other.codes]),
            visit_starts=np.concatenate([self.visit_starts, other.visit_starts[1:] + self.n_entries]),
            patient_starts=np.concatenate([self.patient_starts, other.patient_starts[1:] + self.n_visits]),
            days=np.concatenate([self.days, other.days]) if both_have_days else None,
            labels=None,
            label_names=(),
            attributes=same,
            card={**self.card, **self.origin.together(other.origin).as_card()},
        )

    @overload
    def split(self, seed: int = SPLIT_SEED) -> Split[Cohort]: ...
    @overload
    def split(self, seed: int = SPLIT_SEED, *, control: float) -> ControlledSplit[Cohort]: ...
    def split(self, seed: int = SPLIT_SEED, *, control: float | None = None) -> Split[Cohort] | ControlledSplit[Cohort]:
        """Train, validation and test patients (and control patients, if a share is given); each knows its origin.

        >>> train, valid, test = Cohort.of([[["A"]]] * 50).split(seed=4)
        >>> train.n_patients, valid.n_patients, test.n_patients, test.origin.parts[0].name
        (36, 4, 10, 'test')
        """
        share, origin = control or 0.0, self.origin
        divided = []
        for name, positions in parts(self.n_patients, seed, share)._asdict().items():
            part = Part(self.fingerprint, self.n_patients, seed, share, name)
            card = {**self.card, **replace(origin, parts=(*origin.parts, part)).as_card()}
            divided.append(replace(self.subset(positions), card=card))
        return Split(*divided[:3]) if control is None else ControlledSplit(*divided)

    def on(self, vocabulary: Vocabulary) -> Cohort:
        """The same patients on another vocabulary; a code that it lacks is an error, never a silent drop."""
        if vocabulary == self.vocabulary:
            return self
        positions = vocabulary.positions(self.vocabulary.tokens)
        used = self.visit_counts > 0
        if (positions[used] < 0).any():
            raise InputError(
                f"{int((positions[used] < 0).sum())} codes of the cohort are not in the other vocabulary",
                expected="a vocabulary that holds every code of the cohort",
                remedy="use Cohort.keep_codes first, which drops and counts them",
            )
        # Every vocabulary is in string order, so codes that were ascending inside a visit still are.
        return replace(self, vocabulary=vocabulary, codes=positions.astype(np.int32)[self.codes])

    def keep_codes(self, keep: NDArray[np.bool_]) -> Cohort:
        """The patients with only these codes, on the smaller vocabulary; emptied visits and patients go, counted.

        >>> small = Cohort.of([[["A"], ["B"]], [["B"]]]).keep_codes(np.array([True, False]))
        >>> small.n_patients, small.n_visits, small.card["dropped"]
        (1, 1, {'entries of codes left out': 2, 'visits left empty': 2, 'patients left without visits': 1})
        """
        stay = np.asarray(keep, dtype=bool)
        entry_stays = stay[self.codes]
        sizes = np.add.reduceat(entry_stays, self.visit_starts[:-1]) if self.n_visits else np.zeros(0, int)
        visit_stays = sizes > 0
        visits = np.bincount(self.patient_of_visit[visit_stays], minlength=self.n_patients)
        patient_stays = visits > 0
        new_position = (np.cumsum(stay) - 1).astype(np.int32)
        dropped = dict(self.card.get("dropped", {}))
        for reason, n in (
            ("entries of codes left out", int((~entry_stays).sum())),
            ("visits left empty", int((~visit_stays).sum())),
            ("patients left without visits", int((~patient_stays).sum())),
        ):
            if n:
                dropped[reason] = dropped.get(reason, 0) + n
        days = None if self.days is None else _rebased(self.days[visit_stays], visits[patient_stays])
        return replace(
            self,
            vocabulary=self.vocabulary.subset(stay),
            codes=new_position[self.codes[entry_stays]],
            visit_starts=starts_of(sizes[visit_stays]),
            patient_starts=starts_of(visits[patient_stays]),
            days=days,
            labels=None if self.labels is None else self.labels[patient_stays],
            attributes={n: Attribute(a.values[patient_stays], a.categories) for n, a in self.attributes.items()},
            card={**self.card, "dropped": dropped},
        )


def starts_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each run begins, from the runs' sizes, with the end as last element.

    >>> starts_of(np.array([2, 3])).tolist()
    [0, 2, 5]
    """
    out = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=out[1:])
    return out


def ranges(starts: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[np.int64]:
    """All integers of several ranges, one after another.

    >>> ranges(np.array([5, 0]), np.array([7, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    sizes = np.asarray(stops) - np.asarray(starts)
    total = int(sizes.sum())
    if total == 0:
        return np.zeros(0, dtype=np.int64)
    begin = np.repeat(np.asarray(starts) - starts_of(sizes)[:-1], sizes)
    return begin + np.arange(total, dtype=np.int64)


def _rebased(days: NDArray[np.int32], visits: NDArray[np.int64]) -> NDArray[np.int32]:
    """Days counted from the first visit that is left."""
    first = np.repeat(days[starts_of(visits)[:-1]], visits) if len(visits) else days
    return (days - first).astype(np.int32)
