"""Codes of few patients rolled up to the nearest ancestor that has enough, and attributes that few share made unknown.

Whether a code has enough is counted among training patients alone. Other patients are recoded by what was found there,
so that nobody else can change the vocabulary: a code that only they have goes to an ancestor that training patients
gave the vocabulary, or is left out. What is rolled up together must have enough patients together, without those whose
codes kept their name: otherwise a category would be written for the few whose code was too rare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data.attributes import Attribute
from adapcla.data.code_systems import Ladder, ancestors
from adapcla.data.cohort import Cohort
from adapcla.data.vocabulary import Code, Vocabulary

#: The entry of a cohort's card that says how few training patients a code may have.
MIN_PATIENTS_KEY = "fewest patients of a code"


@dataclass(frozen=True, eq=False)
class RollUp:
    """What each code of a vocabulary becomes, and how far up it went.

    >>> aspirin = Code.of("aspirin", domain="drug")
    >>> patients = [[["4100", "4019"]], [["4101", "4019"]], [["aspirin", "4019"]]]
    >>> train = Cohort.of(patients, ["4019", "4100", "4101", aspirin])
    >>> found = roll_up(train, 2)
    >>> [code and code.token for code in found.codes], found.steps.tolist()
    (['4019', '410', '410', None], [0, 1, 1, -1])
    >>> list(found.applied(train).patients())
    [[['4019', '410']], [['4019', '410']], [['4019']]]
    """

    vocabulary: Vocabulary
    #: The code in the place of each code; None where no ancestor has enough patients.
    codes: tuple[Code | None, ...]
    #: How many ancestors up each code went: 0 for one that stayed, −1 for one that could not be placed.
    steps: NDArray[np.int64]
    smallest: int

    def applied(self, cohort: Cohort) -> Cohort:
        """The cohort with its codes rolled up; what could not be placed is left out and counted in the card."""
        placed = self.steps >= 0
        part = cohort.on(self.vocabulary)
        if not placed.all():
            part = part.keep_codes(placed)
        kept = [code for code in self.codes if code is not None]
        rolled = part.recode(kept)
        return replace(rolled, card={**rolled.card, MIN_PATIENTS_KEY: self.smallest})

    def facts(self, train: Cohort) -> dict[str, Any]:
        """How much of the vocabulary, of its tail and of what training patients hold kept its full code.

        >>> train = Cohort.of([[["4100", "4019"]], [["4101", "4019"]], [["J45", "4019"]]])
        >>> roll_up(train, 2).facts(train)["codes"]
        {'before': 4, 'after': 2, 'kept in full': 1, 'rolled up': 2, 'not placed': 1}
        """
        train = train.on(self.vocabulary)
        counts, seen = train.visit_counts, train.visit_counts > 0
        tail = train.strata().tail
        stayed, gone = self.steps == 0, self.steps < 0
        return {
            "smallest": self.smallest,
            "codes": {
                "before": int(seen.sum()),
                "after": len({code.token for code in self.codes if code is not None}),
                "kept in full": int((stayed & seen).sum()),
                "rolled up": int(((self.steps > 0) & seen).sum()),
                "not placed": int((gone & seen).sum()),
            },
            "entries": {
                "all": int(counts.sum()),
                "kept in full": int(counts[stayed].sum()),
                "rolled up": int(counts[self.steps > 0].sum()),
                "not placed": int(counts[gone].sum()),
            },
            "tail": {
                "codes": int(tail.sum()),
                "kept in full": int((tail & stayed).sum()),
                "entries": int(counts[tail].sum()),
                "entries kept in full": int(counts[tail & stayed].sum()),
            },
            "steps": np.bincount(self.steps[(self.steps > 0) & seen], minlength=1)[1:].tolist(),
        }


def roll_up(train: Cohort, smallest: int, ladder: Ladder = ancestors) -> RollUp:
    """What each code becomes so that every code is held by at least `smallest` training patients."""
    vocabulary = train.vocabulary
    # A number, or one of several choices, says nothing under the name of an ancestor: it has enough patients or goes.
    alone = [bool(code.unit or code.group) for code in vocabulary.codes]
    chains = [
        (code,) if stays else (code, *above)
        for code, above, stays in zip(vocabulary.codes, ladder(vocabulary), alone, strict=True)
    ]
    # Levels are counted from the top, so that a category that stands in the data meets those that come up to it.
    height = max(map(len, chains), default=0)
    kept = train.patient_counts >= smallest
    enough = {vocabulary.tokens[code] for code in np.flatnonzero(kept)}
    steps = np.where(kept, 0, -1).astype(np.int64)
    waiting = {int(code): 0 for code in np.flatnonzero(~kept)}
    for level in range(height):
        here = {code: chains[code][up] for code, up in waiting.items() if height - len(chains[code]) + up == level}
        enough |= _held_by_enough(train, {code: ancestor.token for code, ancestor in here.items()}, smallest)
        for code, ancestor in here.items():
            up = waiting.pop(code)
            if ancestor.token in enough:
                steps[code] = up
            elif up + 1 < len(chains[code]):
                waiting[code] = up + 1
    own = dict(zip(vocabulary.tokens, vocabulary.codes, strict=True))
    codes = (chain[step] if step >= 0 else None for chain, step in zip(chains, steps, strict=True))
    return RollUp(vocabulary, tuple(code and own.get(code.token, code) for code in codes), steps, smallest)


def _held_by_enough(train: Cohort, token_of: dict[int, str], smallest: int) -> set[str]:
    """The tokens that at least `smallest` patients have, when these codes are called by them."""
    tokens = sorted(set(token_of.values()))
    number = {token: position for position, token in enumerate(tokens)}
    group = np.full(train.n_codes, -1, dtype=np.int64)
    group[list(token_of)] = [number[token] for token in token_of.values()]
    of_entry = group[train.codes]
    there = of_entry >= 0
    # A patient counts once for a token, however many of its codes and visits there are.
    pairs = np.unique(train.patient_of_entry[there] * max(len(tokens), 1) + of_entry[there])
    n_patients = np.bincount(pairs % max(len(tokens), 1), minlength=len(tokens))
    return {token for token, n in zip(tokens, n_patients, strict=False) if n >= smallest}


@dataclass(frozen=True, eq=False)
class CommonAttributes:
    """The combinations of attributes that enough training patients share; in all others every attribute is unknown.

    >>> train = Cohort.of([[["A"]]] * 3, attributes={"sex": Attribute(np.array([0, 0, 1], np.int16), ("F", "M"))})
    >>> common = CommonAttributes.of(train, 2)
    >>> common.applied(train).attributes["sex"], common.n_hidden(train)
    (Attribute(values=array([ 0,  0, -1], dtype=int16), categories=('F',)), 1)
    """

    names: tuple[str, ...]
    #: The categories that are left of each attribute, and the combinations of them that are common.
    categories: tuple[tuple[str, ...], ...]
    combinations: frozenset[tuple[str, ...]]

    @classmethod
    def of(cls, train: Cohort, smallest: int) -> CommonAttributes:
        """The combinations that at least `smallest` training patients have."""
        names = tuple(sorted(train.attributes))
        rows, counts = np.unique(_rows(train, names), axis=0, return_counts=True)
        common = frozenset(tuple(map(str, row)) for row in rows[counts >= smallest].tolist()) if names else frozenset()
        categories = tuple(
            tuple(c for c in train.attributes[name].categories if any(row[place] == c for row in common))
            for place, name in enumerate(names)
        )
        # Nothing is known of somebody without any attribute, so nothing can be hidden.
        return cls(names, categories, common | {("",) * len(names)})

    def n_hidden(self, cohort: Cohort) -> int:
        """How many patients of a cohort have a combination that is not common."""
        return int((~self._common(cohort)).sum()) if self.names else 0

    def _common(self, cohort: Cohort) -> NDArray[np.bool_]:
        rows, which = np.unique(_rows(cohort, self.names), axis=0, return_inverse=True)
        known = np.array([tuple(map(str, row)) in self.combinations for row in rows.tolist()], dtype=bool)
        return known[which.ravel()]

    def applied(self, cohort: Cohort) -> Cohort:
        """The cohort with the attributes that it may keep."""
        if not self.names:
            return cohort
        keep, attributes = self._common(cohort), {}
        for name, categories in zip(self.names, self.categories, strict=True):
            old = cohort.attributes[name]
            place = {category: number for number, category in enumerate(categories)}
            number = np.array([*(place.get(category, -1) for category in old.categories), -1], dtype=np.int16)
            values = np.where(keep, number[np.asarray(old.values)], -1).astype(np.int16)
            attributes[name] = Attribute(values, categories)
        return replace(cohort, attributes=attributes)


def _rows(cohort: Cohort, names: Sequence[str]) -> NDArray[np.str_]:
    """The categories of each patient, one column for each attribute; nothing for an unknown one."""
    columns = [
        np.array([*cohort.attributes[name].categories, ""])[np.asarray(cohort.attributes[name].values)]
        for name in names
    ]
    return np.stack(columns, axis=1) if columns else np.zeros((cohort.n_patients, 0), dtype=np.str_)
