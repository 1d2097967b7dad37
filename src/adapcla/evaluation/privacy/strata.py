"""The groups that are compared (members D, controls H, synthetic patients S), and the strata where leaks show first.

All strata are drawn on members and controls together. A rule that counts members alone would treat the two groups
differently even if nothing had leaked; a rule on both is blind to who is a member.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.data.cooccurrence import PairSet
from adapcla.data.fingerprints import code_keys, drawing_order, record_fingerprints
from adapcla.disclosure import MIN_COUNT
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.privacy.owners import OwnedPairs, owned_pairs
from adapcla.evaluation.statistics import PairCounts

Values = NDArray[np.float64]
#: Fewer patients than this in a stratum say nothing reliable.
FEWEST = 50
#: Patients of each group in work that grows with the square of their number; an area under the curve is then known to
#: ±0.012. Four times as many synthetic patients are searched.
MOST, QUICK_MOST = 5_000, 1_000
RARE, UNIQUE_PAIR = "rare", "unique_pair"
STRATA = (ALL, RARE, UNIQUE_PAIR)
#: Not a stratum of patients: everybody, less what a table of prevalences alone would bring.
BEYOND_PREVALENCE = "beyond_prevalence"
#: How the reason begins why a score of nobody has no value: there is nobody in its stratum who could be told.
NOBODY = "concerns nobody"
TEST_AS_CONTROL = "no control patients were given: the test patients serve as controls"


@dataclass(frozen=True, eq=False)
class Groups:
    """Members, controls and synthetic patients, each in drawing order, and what is rare among the real ones.

    `members` are all training patients and `controls` all control patients; the first `n_matched` of each are
    the two groups of equal size.
    """

    members: Cohort
    controls: Cohort
    synthetic: Cohort
    keys: NDArray[np.uint64]
    #: Positions of `members` in the training cohort and of `controls` in the control cohort.
    member_rows: NDArray[np.int64]
    control_rows: NDArray[np.int64]
    #: Members and controls together that hold each code.
    holders: NDArray[np.int64]
    #: Pairs that one patient of members (first) and controls (after them) holds alone.
    owned: OwnedPairs
    #: Pairs that some synthetic patient holds.
    emitted: PairSet
    note: str
    quick: bool

    @classmethod
    def of(cls, comparison: Comparison) -> Groups:
        """The groups of a comparison.

        >>> cohort = Cohort.of([[["A", "B"]], [["A"]]])
        >>> Groups.of(Comparison.of(cohort, cohort, cohort)).note
        'no control patients were given: the test patients serve as controls'
        """
        given = comparison.control
        control = comparison.test if given is None else given
        keys = code_keys(comparison.vocabulary)
        rows = [
            drawing_order(record_fingerprints(cohort, keys), comparison.seed, f"privacy/{name}")
            for name, cohort in (
                ("member", comparison.train),
                ("control", control),
                ("synthetic", comparison.synthetic),
            )
        ]
        members, controls = comparison.train.subset(rows[0]), control.subset(rows[1])
        return cls(
            members,
            controls,
            comparison.synthetic.subset(rows[2]),
            keys,
            rows[0],
            rows[1],
            members.patient_counts + controls.patient_counts,
            owned_pairs([members, controls]),
            comparison.counts(PairCounts).pairs,
            TEST_AS_CONTROL if given is None else "",
            comparison.quick,
        )

    @property
    def n_matched(self) -> int:
        """Size of the two groups of equal size."""
        return min(self.members.n_patients, self.controls.n_patients)

    @property
    def most(self) -> int:
        """Patients of a group in work that grows with the square of their number."""
        return QUICK_MOST if self.quick else MOST

    @property
    def rare_codes(self) -> NDArray[np.bool_]:
        """Codes that at least one and fewer than `SMALLEST_COUNT` real patients hold."""
        return (self.holders > 0) & (self.holders < MIN_COUNT)

    def matched(self, limit: int | None = None) -> tuple[Cohort, Cohort]:
        """Members and controls, cut to the same number (and to `limit`)."""
        n = self.n_matched if limit is None else min(self.n_matched, limit)
        return first_patients(self.members, n), first_patients(self.controls, n)

    def masks(self) -> dict[str, tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        """For each stratum, which members and which controls are in it."""
        n = self.members.n_patients
        owners = np.bincount(self.owned.owner, minlength=n + self.controls.n_patients) > 0
        return {
            ALL: (np.ones(n, dtype=bool), np.ones(self.controls.n_patients, dtype=bool)),
            RARE: (holds_any(self.members, self.rare_codes), holds_any(self.controls, self.rare_codes)),
            UNIQUE_PAIR: (owners[:n], owners[n:]),
        }


def first_patients(cohort: Cohort, n: int) -> Cohort:
    """The first `n` patients of a cohort.

    >>> first_patients(Cohort.of([[["A"]], [["B"]]]), 1).n_patients
    1
    """
    return cohort if n >= cohort.n_patients else cohort.subset(np.arange(n, dtype=np.int64))


def holds_any(cohort: Cohort, codes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which patients hold at least one of the marked codes.

    >>> holds_any(Cohort.of([[["A"], ["B"]], [["B"]]]), np.array([True, False])).tolist()
    [True, False]
    """
    if cohort.n_patients == 0:
        return np.zeros(0, dtype=bool)
    return np.logical_or.reduceat(codes[np.asarray(cohort.codes)], cohort.entry_starts[:-1])


def unassessable(comparison: Comparison) -> Missing | None:
    """Why no privacy score can be computed from this comparison, or None.

    >>> cohort = Cohort.of([[["A", "B"]], [["A"]]])
    >>> unassessable(Comparison.of(cohort, cohort, cohort)).reason
    'the synthetic patients are the control patients themselves'
    """
    control = comparison.test if comparison.control is None else comparison.control
    if comparison.synthetic.n_patients == 0:
        return Missing("no synthetic patients")
    if comparison.synthetic.fingerprint == control.fingerprint:
        return Missing("the synthetic patients are the control patients themselves")
    return None


def too_few(n_members: int, n_controls: int, n: int = 0) -> Missing | None:
    """Why a stratum with `n` cases is too small, or None.

    >>> too_few(200, 30).reason
    'insufficient data: 200 members and 30 controls, 50 of each needed'
    """
    if min(n_members, n_controls) >= FEWEST:
        return None
    if n_members + n_controls == 0:
        return Missing(f"{NOBODY}: no member and no control is of this kind", n)
    return Missing(f"insufficient data: {n_members} members and {n_controls} controls, {FEWEST} of each needed", n)


def by_stratum(split: Callable[[str], tuple[Values, Values]], judge: Callable[[str], Score]) -> dict[str, Score]:
    """One score for each stratum, without a value where `split` gives too few members or controls.

    >>> few = by_stratum(lambda stratum: (np.ones(9), np.ones(9)), lambda stratum: Score(1.0, 18))
    >>> few["rare"].n, few["rare"].reason
    (18, 'insufficient data: 9 members and 9 controls, 50 of each needed')
    """
    out = {}
    for stratum in STRATA:
        n_members, n_controls = map(len, split(stratum))
        missing = too_few(n_members, n_controls, n_members + n_controls)
        out[stratum] = missing.score if missing else judge(stratum)
    return out


def assessed(
    compute: Callable[[Comparison, Groups], dict[str, Score]],
) -> Callable[[Comparison], dict[str, Score]]:
    """A metric on the groups as a metric on the comparison: no value and the reason where nothing can be assessed."""

    def on_comparison(comparison: Comparison) -> dict[str, Score]:
        if missing := unassessable(comparison):
            return {ALL: missing.score}
        groups = comparison.once(Groups.of)
        return {stratum: _noted(score, groups.note) for stratum, score in compute(comparison, groups).items()}

    return on_comparison


def _noted(score: Score, note: str) -> Score:
    """The score with the note at the end of its reason; a score without a value has its own reason."""
    if score.value is None:
        return score
    return replace(score, reason="; ".join(part for part in (score.reason, note) if part))
