"""Patients as sequences of visits, visits as sets of codes; real and synthetic are the same type."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import frames, storage
from adapcla.data.attributes import Attribute
from adapcla.data.prevalence import OWN_HALF, RARE_PATIENTS, RARE_SHARE, Prevalence, Strata, expected_counts
from adapcla.data.provenance import Origin, Part, cohort_fingerprint
from adapcla.data.ragged import (
    chunks,
    count_values,
    expand_ranges,
    jaccard,
    kept_segments,
    since_segment_start,
    starts_from_sizes,
)
from adapcla.data.split import SPLIT_SEED, ControlledSplit, Split, split_positions
from adapcla.data.vocabulary import DEATH, Code, Vocabulary
from adapcla.errors import InputError, UsageError
from adapcla.tables import facts_as_html

#: Patients that are counted at a time.
_AT_ONCE = 1 << 16


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
    #: Days since the patient's first visit, one per visit, where the source has dates.
    days: NDArray[np.int32] | None = None
    #: The number of each entry, NaN at codes without one; None where the vocabulary has no numbers.
    values: NDArray[np.float32] | None = None
    #: Patient labels, one row per patient, one column per name.
    labels: NDArray[np.uint8] | None = None
    label_names: tuple[str, ...] = ()
    attributes: dict[str, Attribute] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_visits(self.codes, self.visit_starts, self.patient_starts, self.n_codes)
        check_groups(self.codes, self.visit_starts, self.vocabulary.group_of_code)
        check_values(self.values, self.codes, self.vocabulary.numbers)
        check_days(self.days, self.patient_starts)
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
        visits = [visit for patient in rows for visit in patient]
        flat = [code for visit in visits for code in visit]
        if not isinstance(vocabulary, Vocabulary):
            vocabulary = Vocabulary.of(flat if vocabulary is None else vocabulary)
        return cls(
            vocabulary,
            vocabulary.positions(flat, complete=True).astype(np.int32),
            starts_from_sizes(np.array([len(visit) for visit in visits], dtype=np.int64)),
            starts_from_sizes(np.array([len(patient) for patient in rows], dtype=np.int64)),
            **extras,
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        patient: str,
        codes: str | Sequence[str],
        visit: str = "",
        date: str = "",
        day: str = "",
        attributes: Sequence[str] = (),
        system: str = "",
        domain: str = "diagnosis",
        separator: str = "",
        value: str = "",
        unit: str = "",
        card: Mapping[str, Any] | None = None,
    ) -> Cohort:
        """The patients of a data frame of pandas, polars or pyarrow; what is dropped is counted in the card.

        >>> import polars
        >>> rows = {"pid": [7, 7, 7, 8], "date": ["2024-01-01", "2024-01-01", "2024-03-01", "2024-02-02"]}
        >>> frame = polars.DataFrame({**rows, "dx": ["I10", "E11", "I10", "J45"]})
        >>> cohort = Cohort.from_frame(frame, patient="pid", date="date", codes="dx")
        >>> list(cohort.patients()), cohort.days.tolist()
        ([[['E11', 'I10'], ['I10']], [['J45']]], [0, 60, 0])

        Args:
            frame: One row for each code, or for each visit.
            patient: Column of patient ids; patients stand in the order of these as text.
            codes: Column of codes, or several; a cell may be a list, or a text with a `separator`.
            visit: Column of visit ids; without it a visit is a day.
            date: Column of dates or times, or of text such as 2024-05-31.
            day: Column of day numbers, in the place of dates.
            attributes: Columns of static properties; the first known value of a patient counts.
            system: Column of code systems, or the name of the system of all codes.
            domain: Column of domains (diagnosis, procedure, drug, lab, stay), or that of all codes.
            separator: What separates codes in one cell.
            value: Column of numbers; a code with one is a measurement. The last of a visit counts.
            unit: Column of their units; the commonest of a code is kept.
            card: Entries for the card, such as an origin.
        """
        read = frames.read_frame(
            frame,
            patient=patient,
            codes=codes,
            visit=visit,
            date=date,
            day=day,
            attributes=attributes,
            system=system,
            domain=domain,
            separator=separator,
            value=value,
            unit=unit,
        )
        facts = {"source": "data frame", "dropped": read.dropped, "in source": read.in_source}
        return cls(
            read.vocabulary,
            read.codes,
            read.visit_starts,
            read.patient_starts,
            days=read.days,
            values=read.values,
            attributes=read.attributes,
            card={**facts, **(card or {})},
        )

    def to_frame(self, form: frames.Form = "long", backend: frames.Backend = "polars") -> Any:
        """A data frame: a row for each code (`long`), visit (`visits`), or patient with counts of visits (`wide`).

        >>> Cohort.of([[["A", "B"], ["A"]]]).to_frame("visits")["codes"].to_list()
        [['A', 'B'], ['A']]
        >>> Cohort.of([[["A", "B"], ["A"]]]).to_frame("wide").row(0, named=True)
        {'patient': 0, 'visits': 2, 'A': 2, 'B': 1}
        """
        columns: dict[str, Any]
        if form == "long":
            visit, codes = self.visit_of_entry, np.asarray(self.codes)
            columns = {"patient": self.patient_of_entry, "visit": self.visit_number[visit]}
            if self.days is not None:
                columns["day"] = np.asarray(self.days)[visit]
            listed = self.vocabulary.codes
            parts = {"code": [code.bare for code in listed], "system": [code.system for code in listed]}
            parts["domain"] = [code.domain for code in listed]
            if self.values is not None:
                columns["value"] = np.asarray(self.values)
                parts["unit"] = [code.unit for code in listed]
            columns |= {name: np.array(texts, dtype=object)[codes].tolist() for name, texts in parts.items()}
        elif form == "visits":
            tokens = np.array(self.vocabulary.tokens, dtype=object)[np.asarray(self.codes)].tolist()
            starts = np.asarray(self.visit_starts).tolist()
            columns = {"patient": self.patient_of_visit, "visit": self.visit_number}
            if self.days is not None:
                columns["day"] = np.asarray(self.days)
            columns["codes"] = [tokens[a:b] for a, b in itertools.pairwise(starts)]
        elif form == "wide":
            if self.n_patients * self.n_codes > frames.MOST_CELLS:
                raise UsageError(
                    f"a wide frame of {self.n_patients:,} patients and {self.n_codes:,} codes is too large\n"
                    'to do: to_frame("long"), or keep fewer codes first'
                )
            counts = self.patient_matrix().toarray().astype(np.int32)
            columns = {"patient": np.arange(self.n_patients), "visits": self.visits_per_patient}
            columns |= {name: a.texts() for name, a in self.attributes.items()}
            columns |= {token: counts[:, i] for i, token in enumerate(self.vocabulary.tokens)}
            columns |= {f"label {name}": np.asarray(self.labels)[:, i] for i, name in enumerate(self.label_names)}
        else:
            raise UsageError(f"form {form!r}\nexpected: long, visits or wide")
        if form != "wide":
            owner = columns["patient"]
            columns |= {name: np.array(a.texts(), dtype=object)[owner].tolist() for name, a in self.attributes.items()}
        return frames.build_frame(columns, backend)

    @classmethod
    def open(cls, folder: str | Path) -> Cohort:
        """The cohort in a folder, memory-mapped; nothing in the folder is ever executed."""
        content = storage.open_folder(Path(folder))
        Origin.from_card(content.card)  # one that cannot be read is said now, not when it is asked for
        return cls(
            Vocabulary(content.codes),
            **content.arrays,
            label_names=content.label_names,
            attributes=content.attributes,
            card=content.card,
        )

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write the cohort to a folder, whole or not at all."""
        arrays = {name: array for name in storage.ARRAY_TYPES if (array := getattr(self, name)) is not None}
        content = storage.FolderContent(arrays, self.vocabulary.codes, self.label_names, self.attributes, self.card)
        return storage.save_folder(Path(folder), content, overwrite)

    @property
    def origin(self) -> Origin:
        """Where the patients came from, as the card says."""
        return Origin.from_card(self.card)

    def __repr__(self) -> str:
        """One line: what the patients are, and how many.

        >>> Cohort.of([[["A", "B"], ["A"]]])
        Cohort(1 patient, 2 visits, 2 codes, 3 entries; origin unknown)
        """
        also = ["with days"] if self.days is not None else []
        also += ["with values"] if self.values is not None else []
        also += [f"attributes {', '.join(self.attributes)}"] if self.attributes else []
        also += [f"{len(self.label_names)} labels"] if self.label_names else []
        return f"Cohort({self._sizes()}; {'; '.join([f'origin {self.origin.kind.value}', *also])})"

    def _sizes(self) -> str:
        sizes = {"patient": self.n_patients, "visit": self.n_visits, "code": self.n_codes, "entry": self.n_entries}
        plural = {"entry": "entries"}
        return ", ".join(f"{n:,} {name if n == 1 else plural.get(name, name + 's')}" for name, n in sizes.items())

    def _repr_html_(self) -> str:
        """The same as a small table, for notebooks."""
        rows = {
            "patients": f"{self.n_patients:,}",
            "visits": f"{self.n_visits:,} ({self.n_visits / max(self.n_patients, 1):.1f} per patient)",
            "codes": f"{self.n_codes:,} ({self.n_entries / max(self.n_visits, 1):.1f} per visit)",
            "domains": ", ".join(self.vocabulary.domains),
            "attributes": ", ".join(self.attributes) or "none",
            "origin": self.origin.kind.value,
            "source": str(self.card.get("source", "unknown")),
        }
        return facts_as_html("Cohort", rows)

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

    @cached_property
    def visit_number(self) -> NDArray[np.int64]:
        """The number of each visit in its patient's record, from 0."""
        return np.arange(self.n_visits, dtype=np.int64) - np.asarray(self.patient_starts)[self.patient_of_visit]

    @property
    def visit_of_entry(self) -> NDArray[np.int64]:
        """The visit that each entry belongs to."""
        return np.repeat(np.arange(self.n_visits, dtype=np.int64), self.codes_per_visit)

    def codes_of(self, visit: int) -> NDArray[np.int32]:
        """The codes of one visit, by position in the vocabulary."""
        return np.asarray(self.codes[self.visit_starts[visit] : self.visit_starts[visit + 1]])

    @property
    def patient_of_entry(self) -> NDArray[np.int64]:
        """The patient that each entry belongs to."""
        return np.repeat(self.patient_of_visit, self.codes_per_visit)

    @property
    def entry_starts(self) -> NDArray[np.int64]:
        """Where the entries of each patient begin, with the end as last element."""
        return np.asarray(self.visit_starts)[np.asarray(self.patient_starts)]

    @property
    def first_visits(self) -> NDArray[np.int64]:
        """The first visit of each patient."""
        return np.asarray(self.patient_starts)[:-1]

    @property
    def last_visits(self) -> NDArray[np.int64]:
        """The last visit of each patient."""
        return np.asarray(self.patient_starts)[1:] - 1

    @property
    def visits_with_next(self) -> NDArray[np.int64]:
        """The visits that another visit of the same patient comes after; that one is the next in the arrays."""
        has_next = np.ones(self.n_visits, dtype=bool)
        has_next[self.last_visits] = False
        return np.flatnonzero(has_next)

    # ---- what it says -----------------------------------------------------------------------------------
    def patients(self) -> Iterator[list[list[str]]]:
        """Patients one by one, as lists of visits of code strings."""
        tokens = self.vocabulary.tokens
        for first, last in zip(self.first_visits, self.last_visits, strict=True):
            yield [[tokens[code] for code in self.codes_of(visit)] for visit in range(first, last + 1)]

    def matrix(self) -> sparse.csr_matrix:
        """Visits × codes, 1 where the visit holds the code."""
        return sparse.csr_matrix(
            (np.ones(self.n_entries, dtype=np.float32), np.asarray(self.codes), np.asarray(self.visit_starts)),
            shape=(self.n_visits, self.n_codes),
        )

    def patient_matrix(self) -> sparse.csr_matrix:
        """Patients × codes, the number of the patient's visits that hold the code."""
        out = sparse.csr_matrix(
            (np.ones(self.n_entries, dtype=np.float32), np.array(self.codes), self.entry_starts),
            shape=(self.n_patients, self.n_codes),
        )
        out.sum_duplicates()
        return out

    def jaccard(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
        """What the codes of visit first[i] and visit second[i] share, divided by what they hold together."""
        return jaccard(self.codes, self.visit_starts, first, second)

    @cached_property
    def visit_counts(self) -> NDArray[np.int64]:
        """Number of visits that hold each code."""
        return count_values(self.codes, self.n_codes)

    @cached_property
    def patient_counts(self) -> NDArray[np.int64]:
        """Number of patients that hold each code, counted part by part so that memory does not grow with the cohort."""
        out, n = np.zeros(self.n_codes, dtype=np.int64), self.n_patients
        for low in range(0, n, _AT_ONCE):
            part = self if n <= _AT_ONCE else self.subset(np.arange(low, min(low + _AT_ONCE, n)))
            out += np.asarray((part.patient_matrix() > 0).sum(axis=0)).ravel()
        return out

    def prevalence(self) -> Prevalence:
        """The share of visits that hold each code (π̂)."""
        return Prevalence(self.vocabulary, self.visit_counts / max(self.n_visits, 1), self.n_visits)

    def strata(self) -> Strata:
        """Head, mid and tail by this cohort's counts."""
        return Strata.of(self.visit_counts, self.vocabulary)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything but the card: equal for equal patients."""
        arrays = (self.codes, self.visit_starts, self.patient_starts, self.days, self.labels)
        return cohort_fingerprint(self.vocabulary.fingerprint, arrays, self.label_names, self.attributes, self.values)

    def expected_prevalence(self) -> Prevalence:
        """The share of visits that hold each code, as it is expected in as many other patients of the same law.

        Patients are independent and visits of one patient are not, so that patients are what is counted. Each brings
        the code's visits for a patient that holds it: its own number, drawn towards that of all rare codes as far as
        few patients hold it.
        """
        patients, visits = self.patient_counts, self.visit_counts
        rare = (patients > 0) & (patients <= min(RARE_PATIENTS, RARE_SHARE * self.n_patients))
        typical = visits[rare].sum() / max(patients[rare].sum(), 1)
        each = (visits + OWN_HALF * typical) / (patients + OWN_HALF)
        expected = np.where(rare, expected_counts(patients) * each, visits) / max(self.n_visits, 1)
        return Prevalence(self.vocabulary, np.minimum(expected, 1.0), self.n_visits)

    def died(self) -> NDArray[np.bool_]:
        """Which patients' last visit ends with death.

        >>> Cohort.of([[["A", "END/died"]], [["A"]]], [DEATH, "A"]).died().tolist()
        [True, False]
        """
        code, held = self.vocabulary.index.get(DEATH.token), np.zeros(self.n_visits, dtype=bool)
        held[self.visit_of_entry[np.asarray(self.codes) == (-1 if code is None else code)]] = True
        return held[self.last_visits]

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
        return replace(
            self,
            **self._arrays(self.patient_starts[chosen], self.patient_starts[chosen + 1]),
            labels=None if self.labels is None else np.asarray(self.labels[chosen]),
            attributes={name: a.of_patients(chosen) for name, a in self.attributes.items()},
        )

    def between(self, first: int, stop: int) -> Cohort:
        """The patients from `first` up to `stop`, of whom alone the arrays are read.

        >>> list(Cohort.of([[["A"]], [["B"], ["A"]], [["C"]]]).between(1, 3).patients())
        [[['B'], ['A']], [['C']]]
        """
        visits = slice(int(self.patient_starts[first]), int(self.patient_starts[stop]))
        entries = slice(int(self.visit_starts[visits.start]), int(self.visit_starts[visits.stop]))
        return replace(
            self,
            codes=np.array(self.codes[entries]),
            visit_starts=np.asarray(self.visit_starts[visits.start : visits.stop + 1]) - entries.start,
            patient_starts=np.asarray(self.patient_starts[first : stop + 1]) - visits.start,
            days=None if self.days is None else np.array(self.days[visits]),
            values=None if self.values is None else np.array(self.values[entries]),
            labels=None if self.labels is None else np.array(self.labels[first:stop]),
            attributes={name: a.of_patients(np.arange(first, stop)) for name, a in self.attributes.items()},
        )

    def with_visits(self, first: NDArray[np.int64], stop: NDArray[np.int64]) -> Cohort:
        """Each patient with the visits from `first` up to `stop` alone; labels, which speak of all visits, go.

        >>> list(Cohort.of([[["A"], ["B"], ["C"]]]).with_visits(np.array([1]), np.array([3])).patients())
        [[['B'], ['C']]]
        """
        return replace(self, **self._arrays(first, stop), labels=None, label_names=())

    def without_last_visits(self) -> Cohort:
        """The patients of two or more visits, without their last visit.

        >>> list(Cohort.of([[["A"], ["B"]], [["C"]]]).without_last_visits().patients())
        [[['A']]]
        """
        several = self.subset(np.flatnonzero(self.visits_per_patient >= 2))
        return several.with_visits(several.first_visits, several.last_visits)

    def _arrays(self, first: NDArray[np.int64], stop: NDArray[np.int64]) -> dict[str, Any]:
        """The arrays of patients who have the visits from first[i] up to stop[i]."""
        visits = expand_ranges(first, stop)
        entries = expand_ranges(self.visit_starts[visits], self.visit_starts[visits + 1])
        patient_starts = starts_from_sizes(np.asarray(stop - first))
        return {
            "codes": np.asarray(self.codes[entries]),
            "values": None if self.values is None else np.asarray(self.values[entries]),
            "visit_starts": starts_from_sizes(self.visit_starts[visits + 1] - self.visit_starts[visits]),
            "patient_starts": patient_starts,
            "days": None if self.days is None else since_segment_start(self.days[visits], patient_starts),
        }

    def without_values(self) -> Cohort:
        """The same patients with numbers as plain codes: that something was measured, not what came out.

        >>> lab = Code.of("glucose", "LAB", domain="lab", unit="mg/dL")
        >>> cohort = Cohort.of([[["LAB/glucose"]]], [lab], values=np.array([99], dtype=np.float32))
        >>> cohort.without_values().values is None
        True
        """
        plain = self.values is None
        return self if plain else replace(self, vocabulary=self.vocabulary.without_units(), values=None)

    def followed_by(self, other: Cohort) -> Cohort:
        """These patients and then the other's, on this vocabulary; days and attributes that both have, no labels.

        >>> Cohort.of([[["A", "B"]]]).followed_by(Cohort.of([[["B"], ["A"]]])).visits_per_patient.tolist()
        [1, 2]
        """
        other = other.on(self.vocabulary)
        same = {
            name: a.followed_by(other.attributes[name])
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
            values=None if self.values is None or other.values is None else np.append(self.values, other.values),
            labels=None,
            label_names=(),
            attributes=same,
            card={**self.card, **self.origin.combine(other.origin).as_card()},
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
        for name, positions in split_positions(self.n_patients, seed, share)._asdict().items():
            part = Part(self.fingerprint, self.n_patients, seed, share, name)
            card = {**self.card, **replace(origin, parts=(*origin.parts, part)).as_card()}
            divided.append(replace(self.subset(positions), card=card))
        return Split(*divided[:3]) if control is None else ControlledSplit(*divided)

    def on(self, vocabulary: Vocabulary) -> Cohort:
        """The same patients on another vocabulary; a code that it lacks is an error, never a silent drop."""
        if vocabulary == self.vocabulary:
            return self
        positions = vocabulary.positions(self.vocabulary.tokens)
        n_lost = int((positions[self.visit_counts > 0] < 0).sum())
        if n_lost:
            raise InputError(
                f"{n_lost} codes of the cohort are not in the other vocabulary",
                expected="a vocabulary that holds every code of the cohort",
                remedy="use Cohort.keep_codes first, which drops and counts them",
            )
        # Every vocabulary is in string order, so codes that were ascending inside a visit still are.
        codes, values = (
            positions.astype(np.int32)[self.codes],
            values_on(vocabulary.numbers, self.values, self.n_entries),
        )
        return replace(self, vocabulary=vocabulary, codes=codes, values=values)

    def keep_codes(self, keep: NDArray[np.bool_]) -> Cohort:
        """The patients with only these codes, on the smaller vocabulary; emptied visits and patients go, counted.

        >>> small = Cohort.of([[["A"], ["B"]], [["B"]]]).keep_codes(np.array([True, False]))
        >>> small.n_patients, small.n_visits, small.card["dropped"]
        (1, 1, {'entries of codes left out': 2, 'visits left empty': 2, 'patients left without visits': 1})
        """
        stay = np.asarray(keep, dtype=bool)
        part = self.keep_entries(stay[self.codes], "entries of codes left out")
        new_position = (np.cumsum(stay) - 1).astype(np.int32)
        vocabulary = self.vocabulary.subset(stay)
        values = values_on(vocabulary.numbers, part.values, part.n_entries)
        return replace(part, vocabulary=vocabulary, codes=new_position[part.codes], values=values)

    def keep_entries(self, keep: NDArray[np.bool_], reason: str = "entries left out") -> Cohort:
        """The patients with only these entries; emptied visits and patients go, counted in the card.

        Labels, which speak of all entries, go too: a rule in the card labels what is left (`LabelRule.from_card`).

        >>> Cohort.of([[["A", "B"], ["C"]]]).keep_entries(np.array([True, False, False])).n_visits
        1
        """
        whole = bool(np.asarray(keep).all())
        kept = kept_segments(keep, self.visit_starts, self.patient_starts)
        stays = {reason: keep, "visits left empty": kept.visits, "patients left without visits": kept.patients}
        dropped = dict(self.card.get("dropped", {}))
        dropped |= {what: dropped.get(what, 0) + n for what, mask in stays.items() if (n := int((~mask).sum()))}
        return replace(
            self,
            codes=np.asarray(self.codes)[keep],
            values=None if self.values is None else np.asarray(self.values)[keep],
            visit_starts=kept.visit_starts,
            patient_starts=kept.patient_starts,
            days=None if self.days is None else since_segment_start(self.days[kept.visits], kept.patient_starts),
            labels=self.labels if whole else None,
            label_names=self.label_names if whole else (),
            attributes={name: a.of_patients(kept.patients) for name, a in self.attributes.items()},
            card={**self.card, "dropped": dropped},
        )

    def recode(self, codes: Sequence[Code]) -> Cohort:
        """The cohort with its i-th code replaced by `codes[i]`; codes that become one are one in a visit.

        Numbers keep their values. A number may get another name, but neither another unit nor a code in common with
        others: two values in one place have no meaning.

        >>> list(Cohort.of([[["A", "B"], ["C"]]]).recode([Code.of("X"), Code.of("X"), Code.of("C")]).patients())
        [[['X'], ['C']]]
        """
        vocabulary = Vocabulary.of(codes)
        position = vocabulary.positions([code.token for code in codes])
        _refuse_merged_numbers(self.vocabulary, codes, position)
        keys, first = np.unique(self.visit_of_entry * max(len(vocabulary), 1) + position[self.codes], return_index=True)
        visit_of, code_of = np.divmod(keys, max(len(vocabulary), 1))
        sizes = np.bincount(visit_of, minlength=self.n_visits).astype(np.int64)
        return replace(
            self,
            vocabulary=vocabulary,
            codes=code_of.astype(np.int32),
            values=None if self.values is None else np.asarray(self.values)[first],
            visit_starts=starts_from_sizes(sizes),
        )


def _refuse_merged_numbers(vocabulary: Vocabulary, codes: Sequence[Code], position: NDArray[np.int64]) -> None:
    """Raise where a number would lose or change its unit, or share its new code with another code."""
    shared = np.bincount(position, minlength=1)[position] > 1
    for old, new, together in zip(vocabulary.codes, codes, shared, strict=True):
        if old.unit != new.unit or (old.unit and together):
            raise InputError(
                f"the number {old.token} would become {new.token}, together with other codes or in another unit",
                expected="numbers that keep their unit and stay apart",
                remedy="leave numbers out of the recoding, or drop their values first (Cohort.without_values)",
            )


# ---- what must hold in the arrays ------------------------------------------------------------------------
def require(good: bool, found: str, expected: str) -> None:
    """Raise with what was found and expected, unless `good`."""
    if not good:
        raise InputError(found, expected=expected, remedy="read the source again; the arrays do not fit together")


def require_form(name: str, array: NDArray[Any], dtype: type[np.generic]) -> None:
    """Raise unless the array is flat and of this type: other types would give the same patients other bytes."""
    require(array.ndim == 1, f"{name} of shape {array.shape}", "a flat array")
    require(array.dtype == dtype, f"{name} of type {array.dtype}", str(np.dtype(dtype)))


def check_runs(name: str, starts: NDArray[np.int64], end: int) -> None:
    """Raise unless `starts` cuts 0 … `end` into runs, none of them empty."""
    require_form(name, starts, np.int64)
    spans = len(starts) >= 1 and starts[0] == 0 and starts[-1] == end
    require(bool(spans), f"{name} does not span its array", f"0 … {end}")
    for part in chunks(len(starts) - 1, starts):
        rising = np.diff(starts[part.start : part.stop + 1]) > 0
        require(bool(rising.all()), f"{name} holds an empty run", "no empty visit, no patient without visits")


def check_visits(
    codes: NDArray[np.int32], visit_starts: NDArray[np.int64], patient_starts: NDArray[np.int64], n_codes: int
) -> None:
    """Raise unless patients have visits, and visits have known codes, each once, ascending."""
    require_form("codes", codes, np.int32)
    check_runs("visit_starts", visit_starts, len(codes))
    check_runs("patient_starts", patient_starts, len(visit_starts) - 1)
    check_codes(codes, visit_starts, n_codes)


def check_codes(codes: NDArray[np.int32], visit_starts: NDArray[np.int64], n_codes: int) -> None:
    """Raise unless every visit holds known codes, each once, ascending."""
    if len(codes) == 0:
        return
    for part in chunks(len(codes), codes):
        inside = int(codes[part].min()) >= 0 and int(codes[part].max()) < n_codes
        require(inside, "a code index out of range", "0 ≤ index < size of the vocabulary")
    for part in chunks(len(codes) - 1, codes, visit_starts):
        rising = np.diff(codes[part.start : part.stop + 1]) > 0
        # The last code of a visit says nothing about the first of the next.
        low, high = np.searchsorted(visit_starts, (part.start + 1, part.stop + 1))
        rising[visit_starts[low:high] - 1 - part.start] = True
        require(bool(rising.all()), "a visit with repeated or unordered codes", "each code once, ascending")


def check_days(days: NDArray[np.int32] | None, patient_starts: NDArray[np.int64]) -> None:
    """Raise unless days, where there are any, count from each patient's first visit and never fall."""
    if days is None:
        return
    require_form("days", days, np.int32)
    require(len(days) == patient_starts[-1], "days do not match the visits", "one day per visit")
    if len(days) == 0:
        return
    for part in chunks(len(patient_starts) - 1, patient_starts, days):
        zero = bool((days[patient_starts[part]] == 0).all())
        require(zero, "days that do not begin at 0", "days since the first visit")
    for part in chunks(len(days) - 1, patient_starts, days):
        going_on = np.diff(days[part.start : part.stop + 1]) >= 0
        # The last visit of a patient says nothing about the first of the next.
        low, high = np.searchsorted(patient_starts, (part.start + 1, part.stop + 1))
        going_on[patient_starts[low:high] - 1 - part.start] = True
        require(bool(going_on.all()), "days that go back in time", "visits in time order")


def check_labels(labels: NDArray[np.uint8] | None, n_patients: int, n_labels: int) -> None:
    """Raise unless there is one row of zeros and ones per patient, or neither labels nor names."""
    if labels is None:
        require(n_labels == 0, f"{n_labels} label names without labels", "names with labels, or neither")
        return
    shape = (n_patients, n_labels)
    require(labels.shape == shape, f"labels of shape {labels.shape}", f"shape {shape}")
    require(labels.dtype == np.uint8, f"labels of type {labels.dtype}", "uint8")
    require(labels.size == 0 or int(labels.max()) <= 1, "a label that is neither 0 nor 1", "0 or 1")


def check_attributes(attributes: Mapping[str, tuple[NDArray[np.int16], tuple[str, ...]]], n_patients: int) -> None:
    """Raise unless every attribute has one known category, or −1, per patient."""
    for name, (values, categories) in attributes.items():
        require(name.isidentifier(), "an attribute whose name is no word", "letters, digits and underscores")
        require_form(f"attribute {name}", values, np.int16)
        require(len(values) == n_patients, f"attribute {name} does not match the patients", "one value per patient")
        inside = n_patients == 0 or (int(values.min()) >= -1 and int(values.max()) < len(categories))
        require(inside, f"attribute {name} outside its categories", f"−1 (unknown) to {len(categories) - 1}")


def check_groups(codes: NDArray[np.int32], visit_starts: NDArray[np.int64], group_of_code: NDArray[np.int32]) -> None:
    """Raise unless every visit holds at most one code of each choice group."""
    if not len(group_of_code) or int(group_of_code.max()) < 0:
        return
    n_groups = int(group_of_code.max()) + 1
    for part in chunks(len(visit_starts) - 1, visit_starts, codes):
        first = int(visit_starts[part.start])
        some = codes[first : int(visit_starts[part.stop])]
        grouped = np.flatnonzero(group_of_code[some] >= 0)
        visit = np.searchsorted(visit_starts[part], grouped + first, side="right")
        choices = visit * n_groups + group_of_code[some[grouped]]
        once = len(np.unique(choices)) == len(choices)
        require(once, "two codes of one choice group in a visit", "at most one of them")


def check_values(values: NDArray[np.float32] | None, codes: NDArray[np.int32], is_number: NDArray[np.bool_]) -> None:
    """Raise unless entries of numbers carry a finite value each, and no other entry does."""
    if values is None:
        require(not is_number.any(), "a vocabulary with numbers, and no values", "one value for each entry")
        return
    require(bool(is_number.any()), "values, and a vocabulary without numbers", "no values")
    require_form("values", values, np.float32)
    require(len(values) == len(codes), "values do not match the codes", "one value for each entry, NaN for no number")
    for part in chunks(len(codes), codes, values):
        fits = np.isfinite(values[part]) == is_number[codes[part]]
        require(bool(fits.all()), "a value at a code that is no number, or a number without one", "values for numbers")


def values_on(
    is_number: NDArray[np.bool_], values: NDArray[np.float32] | None, n_entries: int
) -> NDArray[np.float32] | None:
    """The values of the same entries on a vocabulary with these numbers: none without numbers, NaN without values.

    >>> values_on(np.array([True]), None, 2)
    array([nan, nan], dtype=float32)
    >>> values_on(np.array([False]), np.array([1, 2], dtype=np.float32), 2) is None
    True
    """
    if not is_number.any():
        return None
    return np.full(n_entries, np.nan, dtype=np.float32) if values is None else values
