"""What a metric is: a function from a comparison of cohorts to scores, with its goal and bounds as data."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar, TypeVarTuple, cast

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort, Prevalence, Strata, Vocabulary
from adapcla.evaluation.natural import Natural

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
#: The stratum of a score that speaks of the whole cohort at the default tail cut.
ALL = "all"
Goal = Literal["up", "down", "match", "none"]
#: The mark of each goal beside the name of a metric.
ARROWS: dict[str, str] = {"up": "↑", "down": "↓", "match": "=", "none": ""}
#: The two real cohorts that a synthetic one is measured against.
Real = Literal["train", "test"]


@dataclass(frozen=True)
class Score:
    """A number with what it rests on; a number that cannot be computed is None with a reason.

    >>> Score(0.5, n=10, low=0.4, high=0.6).value
    0.5
    """

    value: float | None
    n: int
    low: float | None = None
    high: float | None = None
    reason: str = ""
    #: The value under other draws of the test patients, the same draws for every cohort that is judged by them.
    redrawn: tuple[float, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Missing:
    """Why something cannot be computed, and the number of cases that there were.

    >>> Missing("no tail code was generated").score
    Score(value=None, n=0, low=None, high=None, reason='no tail code was generated')
    """

    reason: str
    n: int = 0

    @property
    def score(self) -> Score:
        """The score without a value that says so."""
        return Score(None, self.n, reason=self.reason)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Train, test and synthetic patients on one vocabulary, with work that several metrics share done once.

    Here a number is a code like any other: that something was measured, not what came out. So a metric of codes may
    take codes away or put others in their place. What came out is in `whole`, in the same order of codes.

    >>> train = Cohort.of([[["A", "B"]], [["C"]]])
    >>> Comparison.of(train, train, train).vocabulary.tokens
    ('A', 'B', 'C')
    """

    train: Cohort
    test: Cohort
    synthetic: Cohort
    #: Real patients never used for training, tuning, vocabulary or prior; privacy tests need them.
    control: Cohort | None = None
    seed: int = 1
    #: Fewer bootstrap draws and smaller classifiers, for a look rather than a result.
    quick: bool = False
    #: What was asked of the synthetic population, where prevalence was controlled; the control suite needs it.
    target: Prevalence | None = None
    #: Arrays that only the maker of the synthetic cohort can give (likelihoods of members and controls, for one);
    #: the privacy suite says which names it reads.
    evidence: dict[str, Any] = field(default_factory=dict, repr=False)
    #: Whether scores carry intervals.
    intervals: bool = True
    #: Whether intervals may rest on few groups of patients, which saves most of the cost of references.
    coarse: bool = False
    #: The same patients with the values of their numbers; None where somebody has none.
    natural: Natural | None = None
    # Work on this comparison, by the function that did it and its arguments.
    _work: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    # Work on the real cohorts, kept for every comparison made with `instead`; holds the cohort so that no other
    # object can take over its identity.
    _real_work: dict[Hashable, tuple[Cohort, Any]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        train: Cohort,
        test: Cohort,
        synthetic: Cohort,
        control: Cohort | None = None,
        seed: int = 1,
        quick: bool = False,
        *,
        target: Prevalence | None = None,
        evidence: dict[str, Any] | None = None,
        intervals: bool = True,
    ) -> Comparison:
        """The comparison on the union of the vocabularies of the cohorts and the target, by code string."""
        given = [train, test, synthetic, *([control] if control is not None else [])]
        cohorts = [cohort.without_values() for cohort in given]
        vocabularies = [cohort.vocabulary for cohort in cohorts] + ([] if target is None else [target.vocabulary])
        train = cohorts[0]
        if all(vocabulary == train.vocabulary for vocabulary in vocabularies):
            union = train.vocabulary
        else:
            union = Vocabulary.of(code for vocabulary in vocabularies for code in vocabulary.codes)
        on_union = [cohort.on(union) for cohort in cohorts]
        return cls(
            on_union[0],
            on_union[1],
            on_union[2],
            on_union[3] if control is not None else None,
            seed,
            quick,
            None if target is None else target.on(union),
            evidence or {},
            intervals,
            natural=Natural.of(given[0], given[1], given[2], union),
        )

    @property
    def whole(self) -> Natural:
        """Train, test and synthetic patients as they came: with values where all of them have some."""
        return self.natural or Natural(self.train, self.test, self.synthetic)

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary all cohorts are on."""
        return self.train.vocabulary

    @cached_property
    def strata(self) -> Strata:
        """Head, mid and tail by training counts."""
        return self.train.strata()

    def real(self, which: Real) -> Cohort:
        """The training or the test cohort, by name."""
        return self.train if which == "train" else self.test

    def once(self, function: Callable[[Comparison, *Ts], T], *arguments: *Ts) -> T:
        """The result of `function(self, *arguments)`, computed once for this comparison.

        >>> train = Cohort.of([[["A", "B"]], [["C"]]])
        >>> Comparison.of(train, train, train).once(lambda comparison, n: comparison.test.n_patients + n, 1)
        3
        """
        key = (function, *arguments)
        if key not in self._work:
            self._work[key] = function(self, *arguments)
        return self._work[key]

    def of_cohort(self, function: Callable[[Cohort], T], cohort: Cohort) -> T:
        """The result of `function(cohort)`, computed once; for train and test, once for all `instead` comparisons too.

        >>> train = Cohort.of([[["A", "B"]], [["C"]]])
        >>> Comparison.of(train, train, train).of_cohort(lambda cohort: cohort.n_visits, train)
        2
        """
        if cohort is self.synthetic and cohort is not self.train and cohort is not self.test:
            return self.once(_of_synthetic, function)
        key = (function, id(cohort))
        if key not in self._real_work:
            self._real_work[key] = (cohort, function(cohort))
        return self._real_work[key][1]

    def instead(
        self, synthetic: Cohort, test: Cohort | None = None, intervals: bool = False, coarse: bool = False
    ) -> Comparison:
        """This comparison with another synthetic (and perhaps test) cohort on the same vocabulary; it has no evidence.

        Where there are values, both come with theirs; without them the comparison is one of codes alone.

        >>> train = Cohort.of([[["A", "B"]], [["C"]]])
        >>> Comparison.of(train, train, train).instead(train.subset([0])).synthetic.n_patients
        1
        """
        return replace(
            self,
            synthetic=self._plain(synthetic).on(self.vocabulary),
            test=self.test if test is None else self.of_cohort(_plain_form, test).on(self.vocabulary),
            intervals=intervals,
            coarse=coarse,
            natural=None if self.natural is None else self.natural.instead(synthetic, test),
            evidence={},
            _work={},
        )

    def within(self, domain: str) -> Comparison | Missing:
        """This comparison on the codes of one domain alone; or why there is nothing to compare.

        Visits without such a code go, and patients without such a visit.

        >>> from adapcla.data.vocabulary import Code
        >>> train = Cohort.of([[["A", "drug"]], [["A"]]], ["A", Code.of("drug", domain="drug")])
        >>> Comparison.of(train, train, train).within("drug").synthetic.n_patients
        1
        """
        mask = self.vocabulary.domain_mask(domain)
        cohorts = {"training": self.train, "test": self.test, "synthetic": self.synthetic, "control": self.control}
        parts: dict[str, Cohort | None] = {}
        for name, cohort in cohorts.items():
            if cohort is not None and not mask[cohort.codes].any():
                return Missing(f"no {name} patient has a code of the domain {domain}")
            parts[name] = None if cohort is None else self._of_domain(cohort, domain, mask)
        train, test, synthetic = parts["training"], parts["test"], parts["synthetic"]
        assert train is not None and test is not None and synthetic is not None
        return replace(
            self,
            train=train,
            test=test,
            synthetic=synthetic,
            control=parts["control"],
            target=None,
            evidence={},
            natural=None,
            _work={},
        )

    def _of_domain(self, cohort: Cohort, domain: str, mask: NDArray[np.bool_]) -> Cohort:
        """The cohort on the codes of a domain; of real cohorts, once for all `instead` comparisons."""
        if cohort is self.synthetic and cohort is not self.train and cohort is not self.test:
            return cohort.keep_codes(mask)
        key = ("domain", domain, id(cohort))
        if key not in self._real_work:
            self._real_work[key] = (cohort, cohort.keep_codes(mask))
        return cast(Cohort, self._real_work[key][1])

    def _plain(self, cohort: Cohort) -> Cohort:
        """The cohort with numbers as plain codes: the one that is known already, where there is one."""
        if self.natural is not None and cohort is self.natural.train:
            return self.train
        if self.natural is not None and cohort is self.natural.test:
            return self.test
        return cohort.without_values()

    def forgetful(self) -> Comparison:
        """This comparison with a memory of its own: what it works out of real patients goes with it.

        >>> train = Cohort.of([[["A", "B"]], [["C"]]])
        >>> Comparison.of(train, train, train).forgetful().test.n_patients
        2
        """
        return replace(self, _work={}, _real_work=dict(self._real_work))


def _plain_form(cohort: Cohort) -> Cohort:
    """The cohort with numbers as plain codes."""
    return cohort.without_values()


def _of_synthetic(comparison: Comparison, function: Callable[[Cohort], T]) -> T:
    """A function of the synthetic cohort."""
    return function(comparison.synthetic)


@dataclass(frozen=True)
class Metric:
    """A row of the table of metrics: what it is called, which way is better, and how it is computed.

    `compute` returns a score for each stratum; the stratum `"all"` is the headline (default tail cut).
    """

    key: str
    suite: str
    goal: Goal
    compute: Callable[[Comparison], dict[str, Score]]
    summary: str
    bounds: tuple[float, float] = (0.0, 1.0)
    unit: str = "share"
    #: The paper that defines it, or `own`.
    origin: str = "own"
    cost: Literal["cheap", "slow"] = "cheap"
    #: Moves with the number of synthetic patients alone, so that it is also scored at matched numbers.
    sized: bool = False
    #: Also scored after visits were thinned to as many codes and tail codes per visit as real ones have.
    thinned: bool = False
    #: Compares with the test patients, so that the test patients cannot be their own ceiling.
    heldout: bool = False
    #: Learns from the synthetic patients and is judged on the test patients, so the ceiling is the training patients.
    trained: bool = False
    #: Raised when the definition changes, so that nothing stale is read from a cache.
    version: int = 1
