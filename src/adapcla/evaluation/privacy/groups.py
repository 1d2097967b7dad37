"""Who is compared: members (training patients), controls (patients of the same source who were used for nothing) and
synthetic patients; and the strata of people whom a leak would show in first.

All strata are drawn on members and controls together. A rule that counts members alone would treat the two groups
differently even if nothing had leaked; a rule on both is blind to who is a member.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.data.fingerprints import code_keys, random_order, record_fingerprints
from adapcla.disclosure import MIN_COUNT, format_count
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.metric import Metric

Values = NDArray[np.float64]
Mask = NDArray[np.bool_]
#: Fewer patients than this in a stratum say nothing reliable.
FEWEST = 50
#: Patients of each group in work that grows with the square of their number: an area under the curve is then known to
#: ±0.008. Four times as many synthetic patients are searched. What is counted by sorting uses everybody.
MOST = 10_000
#: The half of the people who stand out most; people with a code of few; people with a pair of their own.
EXPOSED, RARE, UNIQUE_PAIR = "exposed", "rare", "unique_pair"
STRATA = (ALL, EXPOSED, RARE, UNIQUE_PAIR)
#: How the reason begins why a score of nobody has no value: there is nobody whom it could be about.
NOBODY = "concerns nobody"
TEST_AS_CONTROL = "no control patients were given: the test patients serve as controls"


@dataclass(frozen=True, eq=False)
class RealPatients:
    """Members and then controls in one cohort, each in a random order that depends on what the records hold."""

    pool: Cohort
    n_members: int
    keys: NDArray[np.uint64]
    #: Positions of the members in the training cohort and of the controls in the control cohort.
    member_rows: NDArray[np.int64]
    control_rows: NDArray[np.int64]
    # What was worked out of real patients, kept for every synthetic cohort that is compared with them.
    _known: dict[Any, Any]

    @classmethod
    def of(cls, members: Cohort, controls: Cohort, seed: int) -> RealPatients:
        """The patients of both groups."""
        keys = code_keys(members.vocabulary)
        rows = [
            random_order(record_fingerprints(cohort, keys), seed, f"privacy/{name}")
            for name, cohort in (("member", members), ("control", controls))
        ]
        pool = members.subset(rows[0]).followed_by(controls.subset(rows[1]))
        return cls(pool, members.n_patients, keys, rows[0], rows[1], {})

    @property
    def n_controls(self) -> int:
        """Number of controls."""
        return self.pool.n_patients - self.n_members

    @cached_property
    def is_member(self) -> Mask:
        """Which patients of the pool are members."""
        return np.arange(self.pool.n_patients) < self.n_members

    @cached_property
    def holders(self) -> NDArray[np.int64]:
        """Members and controls together that hold each code."""
        return self.pool.patient_counts

    @property
    def rare_codes(self) -> Mask:
        """Codes that at least one and fewer than `MIN_COUNT` real patients hold."""
        return (self.holders > 0) & (self.holders < MIN_COUNT)

    def once(self, name: Any, make: Callable[[], Any]) -> Any:
        """What `make` returns, made once for these patients."""
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]

    def first(self, most: int) -> NDArray[np.int64]:
        """Positions in the pool of the first `most` members and of the first `most` controls."""
        members, controls = min(self.n_members, most), min(self.n_controls, most)
        return np.concatenate([np.arange(members), self.n_members + np.arange(controls)])


@dataclass(frozen=True, eq=False)
class Groups:
    """The real patients and the synthetic ones, in random order."""

    real: RealPatients
    synthetic: Cohort
    seed: int
    note: str
    _known: dict[Any, Any]

    @classmethod
    def of(cls, comparison: Comparison) -> Groups:
        """The groups of a comparison.

        >>> cohort = Cohort.of([[["A", "B"]], [["A"]]])
        >>> Groups.of(Comparison.of(cohort, cohort, cohort)).note
        'no control patients were given: the test patients serve as controls'
        """
        real = comparison.of_real(_real_patients)
        order = random_order(record_fingerprints(comparison.synthetic, real.keys), comparison.seed, "privacy/synthetic")
        note = TEST_AS_CONTROL if comparison.control is None else ""
        return cls(real, comparison.synthetic.subset(order), comparison.seed, note, {})

    def once(self, name: Any, make: Callable[[], Any]) -> Any:
        """What `make` returns, made once for this synthetic cohort."""
        if name not in self._known:
            self._known[name] = make()
        return self._known[name]


def _real_patients(comparison: Comparison) -> RealPatients:
    """Members and controls of a comparison."""
    controls = comparison.test if comparison.control is None else comparison.control
    return RealPatients.of(comparison.train, controls, comparison.seed)


def first_patients(cohort: Cohort, n: int) -> Cohort:
    """The first `n` patients of a cohort.

    >>> first_patients(Cohort.of([[["A"]], [["B"]]]), 1).n_patients
    1
    """
    return cohort if n >= cohort.n_patients else cohort.subset(np.arange(n, dtype=np.int64))


def holds_any(cohort: Cohort, codes: Mask) -> Mask:
    """Which patients hold at least one of the marked codes.

    >>> holds_any(Cohort.of([[["A"], ["B"]], [["B"]]]), np.array([True, False])).tolist()
    [True, False]
    """
    if cohort.n_patients == 0:
        return np.zeros(0, dtype=bool)
    return np.logical_or.reduceat(codes[np.asarray(cohort.codes)], cohort.entry_starts[:-1])


def too_few(n_members: int, n_controls: int, what: str = "", fewest: int = FEWEST) -> Missing | None:
    """Why a score of so many patients has no value, or None.

    >>> too_few(200, 30).reason
    'insufficient data: 200 members and 30 controls, 50 of each needed'
    >>> too_few(0, 0).reason
    'concerns nobody: no member and no control of this kind'
    """
    n = n_members + n_controls
    if min(n_members, n_controls) >= fewest:
        return None
    if n == 0:
        return Missing(f"{NOBODY}: no member and no control {what or 'of this kind'}")
    found = f"{format_count(n_members)} members and {format_count(n_controls)} controls{' ' if what else ''}{what}"
    return Missing(f"insufficient data: {found}, {fewest} of each needed", n)


class PrivacyMetric(Metric):
    """How much synthetic patients tell about single real ones: members of the training patients against controls."""

    suite, goal = "privacy", "down"

    @abstractmethod
    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        """The score of every stratum, where there is something to assess."""

    def compute(self, comparison: Comparison) -> dict[str, Score]:
        """The score of every stratum; no value and the reason where nothing can be assessed."""
        control = comparison.test if comparison.control is None else comparison.control
        if comparison.synthetic.n_patients == 0:
            return {ALL: Missing("no synthetic patients").score}
        if comparison.synthetic.fingerprint == control.fingerprint:
            return {ALL: Missing("the synthetic patients are the control patients themselves").score}
        groups = comparison.once(Groups.of)
        scores = self._scores(groups, comparison)
        return {stratum: _noted(score, groups.note) for stratum, score in scores.items()}


def _noted(score: Score, note: str) -> Score:
    """The score with the note at the end of its reason; a score without a value has its own reason."""
    if score.value is None:
        return score
    return replace(score, reason="; ".join(part for part in (score.reason, note) if part))
