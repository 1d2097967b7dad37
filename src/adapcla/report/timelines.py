"""Synthetic patients as timelines: visits in time, their codes with names, rare ones first and marked.

No matplotlib here: pages draw timelines themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Code, Cohort
from adapcla.data.code_systems import add_dot, chapters, describe_codes
from adapcla.data.vocabulary import DISCHARGE, LENGTH_OF_STAY, STAY, VISIT_KIND

#: Patients that the page of a release shows, visits of each, and codes of a visit.
SHOWN_PATIENTS, SHOWN_VISITS, SHOWN_CODES = 5, 6, 8
_HUES = (210, 25, 150, 285, 50, 330, 180, 0, 245, 95, 310, 120)


class ShownVisit(NamedTuple):
    """A visit of a shown patient: its day, its place on the line, and its codes with their names."""

    day: int | None
    place: float
    codes: list[dict[str, Any]]
    n_more: int


class Timeline(NamedTuple):
    """A synthetic patient: who, how long, and the first visits."""

    who: str
    span: str
    visits: list[ShownVisit]
    n_more: int


@dataclass(frozen=True, eq=False)
class Album:
    """Everything that it takes to show patients of a cohort."""

    cohort: Cohort
    #: Codes that are marked as rare.
    rare: NDArray[np.bool_]
    most_visits: int = SHOWN_VISITS
    most_codes: int = SHOWN_CODES

    @cached_property
    def names(self) -> list[str]:
        """The name of each code."""
        return code_names(self.cohort)

    @cached_property
    def chapters(self) -> list[str]:
        """The chapter of each code."""
        return chapters(self.cohort.vocabulary)

    @cached_property
    def hues(self) -> dict[str, int]:
        """The hue of each chapter, far apart for neighbours."""
        return {name: _HUES[i % len(_HUES)] for i, name in enumerate(sorted(set(self.chapters)))}

    def timeline(self, patient: int) -> Timeline:
        """One patient."""
        cohort = self.cohort
        first, n = int(cohort.first_visits[patient]), int(cohort.visits_per_patient[patient])
        days = None if cohort.days is None else np.asarray(cohort.days[first : first + n], dtype=np.int64)
        span = int(days[-1]) if days is not None else 0
        visits = []
        for number in range(min(n, self.most_visits)):
            codes = cohort.codes_of(first + number).tolist()
            shown = self._shown_codes(first + number, codes)
            place = (int(days[number]) / span if span else 0.0) if days is not None else number / max(n - 1, 1)
            more = len(codes) - len(shown)
            visits.append(ShownVisit(None if days is None else int(days[number]), round(place, 4), shown, more))
        who = [
            f"{name.replace('_', ' ')} {a.categories[a.values[patient]]}"
            for name, a in sorted(cohort.attributes.items())
            if a.values[patient] >= 0
        ]
        length = f"{n} visit{'s' if n > 1 else ''}" + (f" over {span:,} day{'s' if span != 1 else ''}" if span else "")
        return Timeline(", ".join(who), length, visits, max(n - self.most_visits, 0))

    def _shown_codes(self, visit: int, codes: Sequence[int]) -> list[dict[str, Any]]:
        """The codes of a visit: what it was and how it ended, then the others, rare ones first."""
        vocabulary = self.cohort.vocabulary.codes
        stay = sorted((c for c in codes if vocabulary[c].domain == STAY), key=lambda c: _stay_order(vocabulary[c]))
        others = sorted((c for c in codes if vocabulary[c].domain != STAY), key=lambda c: (not self.rare[c], c))
        return [
            {
                "code": add_dot(vocabulary[c].bare, vocabulary[c].system),
                "name": self.names[c] + self._value(visit, c),
                "rare": bool(self.rare[c]),
                "stay": vocabulary[c].domain == STAY,
                "chapter": self.chapters[c],
                "hue": self.hues[self.chapters[c]],
            }
            for c in (*stay, *others[: self.most_codes])
        ]

    def _value(self, visit: int, code: int) -> str:
        """The value of a number in a visit with its unit, nothing for a plain code."""
        cohort, unit = self.cohort, self.cohort.vocabulary.codes[code].unit
        if cohort.values is None or not unit:
            return ""
        entry = int(cohort.visit_starts[visit]) + int(np.searchsorted(cohort.codes_of(visit), code))
        return f" {float(cohort.values[entry]):g}" + ("" if unit == "1" else f" {unit}")


def _stay_order(code: Code) -> tuple[int, str]:
    """The place of a code that describes a visit as a whole: its kind, its length, its ending, then all else."""
    places = {VISIT_KIND: 0, DISCHARGE: 2}
    return (1 if code.token == LENGTH_OF_STAY.token else places.get(code.group, 3)), code.token


def timelines(synthetic: Cohort, train: Cohort) -> list[Timeline]:
    """The first synthetic patients of several visits, or the first ones where there are none."""
    several = np.flatnonzero(synthetic.visits_per_patient >= 2)
    chosen = (several if len(several) >= SHOWN_PATIENTS else np.arange(synthetic.n_patients))[:SHOWN_PATIENTS]
    rare = train.strata().tail if synthetic.vocabulary == train.vocabulary else np.zeros(synthetic.n_codes, dtype=bool)
    album = Album(synthetic, rare)
    return [album.timeline(int(patient)) for patient in chosen]


def code_names(cohort: Cohort) -> list[str]:
    """The name of each code, or the code itself where it has none.

    >>> code_names(Cohort.of([[["4019", "x.y"]]]))[0]
    '4019'
    """
    known = describe_codes(cohort.vocabulary)
    return [known.get(code.token, code.bare) for code in cohort.vocabulary.codes]


def matching(cohort: Cohort, text: str, most: int = 200) -> list[int]:
    """The codes whose code or name holds every word of a text, those that begin with it first.

    >>> cohort = Cohort.of([[["4019", "4280", "42800"]]])
    >>> [cohort.vocabulary.tokens[code] for code in matching(cohort, "428")], matching(cohort, "")
    (['4280', '42800'], [])
    """
    words = text.lower().split()
    if not words:
        return []
    found = []
    for number, (code, name) in enumerate(zip(cohort.vocabulary.codes, code_names(cohort), strict=True)):
        written = (code.token.lower(), code.bare.lower(), add_dot(code.bare, code.system).lower())
        described = " ".join((*written, name.lower()))
        if all(word in described for word in words):
            found.append((not any(form.startswith(words[0]) for form in written), number))
    return [number for _, number in sorted(found)][:most]
