"""What is asked of single patients: codes that they have or lack, attributes, and how many visits.

One condition judges real and synthetic cohorts alike, so that "patients with the disease" means the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data.cohort import Cohort
from adapcla.data.ragged import segment_sums
from adapcla.data.vocabulary import Vocabulary
from adapcla.errors import UsageError, nearest

#: Where in the record an asked code may stand.
PLACES = ("any", "first", "last")
#: Codes that are named when one is unknown.
_NAMED = 4

Texts = str | Sequence[str]


@dataclass(frozen=True)
class Criteria:
    """A condition on patients; every part of it must hold.

    >>> cohort = Cohort.of([[["A", "B"]], [["A"], ["C"]], [["B"]]])
    >>> Criteria.of(having="A", without="B").matches(cohort).tolist()
    [False, True, False]
    """

    #: Of each clause at least one code must be there; a code may end in or hold `*`.
    having: tuple[tuple[str, ...], ...] = ()
    #: Codes that must be in no visit.
    without: tuple[str, ...] = ()
    #: Static attributes, such as ("sex", "F").
    where: tuple[tuple[str, str], ...] = ()
    fewest_visits: int = 1
    most_visits: int | None = None
    #: The visit in which a clause must be met: any, the first or the last.
    at: str = "any"
    #: The number of visits, from the beginning, among which a clause must be met.
    within: int | None = None

    @classmethod
    def of(
        cls,
        having: Texts = (),
        without: Texts = (),
        where: Sequence[tuple[str, str]] = (),
        visits: str | None = None,
        at: str = "any",
        within: int | None = None,
    ) -> Criteria:
        """The condition that texts ask for: `A|B` is any of them, `E84*` a family, `3..` and `2..5` numbers of visits.

        >>> criteria = Criteria.of(["A|B", "C*"], visits="2..5")
        >>> criteria.having, criteria.fewest_visits, criteria.most_visits
        ((('A', 'B'), ('C*',)), 2, 5)
        """
        if at not in PLACES:
            raise UsageError(f"at {at}: expected one of {', '.join(PLACES)}")
        if within is not None and within < 1:
            raise UsageError(f"within {within}: expected at least 1 visit")
        clauses = tuple(_alternatives(text, "--having") for text in _listed(having))
        lacking = tuple(code for text in _listed(without) for code in _alternatives(text, "--without"))
        if not clauses and (at != "any" or within is not None):
            raise UsageError("at and within say where a requested code must stand: expected --having with them")
        return cls(clauses, lacking, tuple(where), *_visits(visits), at, within)

    @property
    def text(self) -> str:
        """The condition as a person would ask for it.

        >>> Criteria.of("A|B", without="C", visits="3..").text
        'with A or B; without C; 3 visits or more'
        """
        place = {"any": "", "first": " in the first visit", "last": " in the last visit"}[self.at]
        place += f" within {self.within} visits" if self.within else ""
        parts = ["with " + " or ".join(clause) + place for clause in self.having]
        parts += [f"without {' or '.join(self.without)}"] if self.without else []
        parts += [f"{name} {value}" for name, value in self.where]
        if self.most_visits is not None:
            parts.append(f"{self.fewest_visits} to {self.most_visits} visits")
        elif self.fewest_visits > 1:
            parts.append(f"{self.fewest_visits} visits or more")
        return "; ".join(parts) or "anybody"

    def as_card(self) -> dict[str, Any]:
        """The condition for the card of a cohort."""
        return {
            "having": ["|".join(clause) for clause in self.having],
            "without": list(self.without),
            "where": [f"{name}={value}" for name, value in self.where],
            "visits": [self.fewest_visits, self.most_visits],
            "at": self.at,
            "within": self.within,
        }

    def clauses(self, vocabulary: Vocabulary, known: bool = True) -> tuple[NDArray[np.int64], ...]:
        """The positions of the codes of each clause; with `known`, a code that the vocabulary lacks is an error.

        >>> [c.tolist() for c in Criteria.of("E1*|A", without="B").clauses(Vocabulary.of(["A", "E10", "E11", "B"]))]
        [[0, 2, 3]]
        """
        return tuple(_positions(clause, vocabulary, known) for clause in self.having)

    def excluded_codes(self, vocabulary: Vocabulary, known: bool = True) -> NDArray[np.int64]:
        """The positions of the codes that nobody may have."""
        return _positions(self.without, vocabulary, known)

    def matches(self, cohort: Cohort, known: bool = True) -> NDArray[np.bool_]:
        """Which patients fulfil the condition; with `known`, codes and attributes must be ones that the cohort has."""
        met = self.clause_matches(cohort, known).all(axis=1)
        lacking = np.isin(np.asarray(cohort.codes), self.excluded_codes(cohort.vocabulary, known))
        met &= segment_sums(lacking.astype(np.int64), cohort.entry_starts) == 0
        n_visits = cohort.visits_per_patient
        met &= (n_visits >= self.fewest_visits) & (n_visits <= (self.most_visits or n_visits.max(initial=1)))
        for name, value in self.where:
            met &= _has_attribute(cohort, name, value, known)
        return met

    def clause_matches(self, cohort: Cohort, known: bool = True) -> NDArray[np.bool_]:
        """(patients, clauses): whether one of its codes stands where the condition asks for it.

        >>> Criteria.of(["A", "B"], at="last").clause_matches(Cohort.of([[["A"], ["B"]]])).tolist()
        [[False, True]]
        """
        number = cohort.visit_number
        there = np.ones(cohort.n_visits, dtype=bool) if self.within is None else number < self.within
        if self.at != "any":
            where = np.zeros(cohort.n_visits, dtype=bool)
            where[cohort.first_visits if self.at == "first" else cohort.last_visits] = True
            there &= where
        entry_there = there[cohort.visit_of_entry]
        columns = [
            segment_sums((np.isin(np.asarray(cohort.codes), codes) & entry_there).astype(np.int64), cohort.entry_starts)
            > 0
            for codes in self.clauses(cohort.vocabulary, known)
        ]
        return np.stack(columns, axis=1) if columns else np.ones((cohort.n_patients, 0), dtype=bool)

    def patients(self, cohort: Cohort, known: bool = True) -> Cohort:
        """The patients of a cohort who fulfil the condition.

        >>> Criteria.of("B").patients(Cohort.of([[["A"]], [["B"]]])).n_patients
        1
        """
        return cohort.subset(np.flatnonzero(self.matches(cohort, known)))


def clause_codes(cohort: Cohort, criteria: Criteria) -> NDArray[np.int64]:
    """The positions of all codes of all clauses.

    >>> clause_codes(Cohort.of([[["A", "B", "C"]]]), Criteria.of(["A", "C"])).tolist()
    [0, 2]
    """
    clauses = criteria.clauses(cohort.vocabulary, known=False)
    return np.unique(np.concatenate(clauses)) if clauses else np.zeros(0, dtype=np.int64)


def suggest_codes(text: str, vocabulary: Vocabulary) -> str:
    """The codes whose names or descriptions are most like a text, with their descriptions.

    >>> suggest_codes("I11", Vocabulary.of(["I10", "J45"]))
    'I10'
    """

    def likeness(position: int) -> float:
        code = vocabulary.codes[position]
        wanted = text.lower()
        names = (code.token.lower(), code.bare.lower())
        best = max(SequenceMatcher(None, wanted.rsplit("/")[-1], name.rsplit("/")[-1]).ratio() for name in names)
        described = code.description.lower()
        return max(best, 1.0 if len(wanted) > 3 and wanted in described else 0.0)

    scores = [likeness(position) for position in range(len(vocabulary))]
    order = sorted(range(len(scores)), key=lambda position: (-scores[position], position))[:_NAMED]
    near = [vocabulary.codes[position] for position in order if scores[position] >= 0.5]
    return ", ".join(f"{code.token} ({code.description})" if code.description else code.token for code in near)


def _listed(texts: Texts) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)


def _alternatives(text: str, option: str) -> tuple[str, ...]:
    """The codes of `A|B`."""
    parts = tuple(part.strip() for part in text.split("|"))
    if not all(parts):
        raise UsageError(f"{option} {text!r}: expected a code, or several with | between them")
    return parts


def _visits(text: str | None) -> tuple[int, int | None]:
    """Fewest and most visits of `3`, `3..`, `..5` or `3..5`."""
    if text is None:
        return 1, None
    low, dots, high = text.partition("..")
    try:
        fewest = int(low) if low.strip() else 1
        most = (int(high) if high.strip() else None) if dots else fewest
    except ValueError:
        fewest, most = 0, None
    if fewest < 1 or (most is not None and most < fewest):
        raise UsageError(f"--visits {text}: expected numbers of visits such as 3.., ..5 or 2..5")
    return fewest, most


def _positions(patterns: Sequence[str], vocabulary: Vocabulary, known: bool) -> NDArray[np.int64]:
    """The codes that any of the patterns means, ascending."""
    found: set[int] = set()
    for pattern in patterns:
        if "*" in pattern:
            here = [i for i, token in enumerate(vocabulary.tokens) if fnmatchcase(token, _only_stars(pattern))]
        else:
            here = [vocabulary.index[pattern]] if pattern in vocabulary.index else []
        if known and not here:
            near = suggest_codes(pattern.replace("*", ""), vocabulary)
            raise UsageError(
                f"{pattern}: no such code among the {len(vocabulary):,} of this vocabulary\n"
                + (f"nearest: {near}" if near else "no code has a name or description like it")
            )
        found.update(here)
    return np.array(sorted(found), dtype=np.int64)


def _only_stars(pattern: str) -> str:
    """The pattern with every sign but `*` taken as it stands."""
    return pattern.replace("[", "[[]").replace("?", "[?]")


def _has_attribute(cohort: Cohort, name: str, value: str, known: bool) -> NDArray[np.bool_]:
    """Which patients have this category of an attribute."""
    attribute = cohort.attributes.get(name)
    if attribute is None:
        if known:
            raise UsageError(f"no attribute {name!r} here; {nearest(name, cohort.attributes)}")
        return np.zeros(cohort.n_patients, dtype=bool)
    if value not in attribute.categories:
        if known:
            raise UsageError(f"{name}={value}: expected one of {', '.join(attribute.categories)}")
        return np.zeros(cohort.n_patients, dtype=bool)
    return np.asarray(attribute.values) == attribute.categories.index(value)
