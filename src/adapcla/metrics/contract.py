"""What a metric is: a function from a comparison of cohorts to scores, with its goal and bounds as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np

from adapcla.records import Cohort, Prevalence, Strata, Vocabulary

T = TypeVar("T")
#: The stratum of a score that speaks of the whole cohort at the default tail cut.
ALL = "all"


@dataclass(frozen=True)
class Score:
    """A number with what it rests on; a number that cannot be had is None with a reason.

    >>> Score(0.5, n=10, low=0.4, high=0.6).value
    0.5
    >>> Score.missing("no tail code was generated").reason
    'no tail code was generated'
    """

    value: float | None
    n: int
    low: float | None = None
    high: float | None = None
    reason: str = ""

    @classmethod
    def missing(cls, reason: str, n: int = 0) -> Score:
        """A score that could not be computed, and why."""
        return cls(None, n, reason=reason)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Train, test and synthetic patients on one vocabulary, with work that several metrics share done once.

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
    #: Whether scores carry intervals; reference rows are values only, which saves most of their cost.
    intervals: bool = True
    _work: dict[str, Any] = field(default_factory=dict, repr=False)
    # Work on the real cohorts, kept for every comparison made with `instead`; holds the cohort so that no other
    # object can take over its identity.
    _real: dict[tuple[str, int], tuple[Cohort, Any]] = field(default_factory=dict, repr=False)

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
        cohorts = [train, test, synthetic, *([control] if control is not None else [])]
        vocabularies = [cohort.vocabulary for cohort in cohorts] + ([] if target is None else [target.vocabulary])
        if all(vocabulary == train.vocabulary for vocabulary in vocabularies):
            union = train.vocabulary
        else:
            union = Vocabulary.of(code for vocabulary in vocabularies for code in vocabulary.codes)
        placed = [cohort.on(union) for cohort in cohorts]
        return cls(
            placed[0],
            placed[1],
            placed[2],
            placed[3] if control is not None else None,
            seed,
            quick,
            None if target is None else target.on(union),
            evidence or {},
            intervals,
        )

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary all cohorts are on."""
        return self.train.vocabulary

    @cached_property
    def strata(self) -> Strata:
        """Head, mid and tail by training counts."""
        return self.train.strata()

    def shared(self, name: str, make: Callable[[], T]) -> T:
        """The result of `make`, computed once for this comparison and kept under `name`."""
        if name not in self._work:
            self._work[name] = make()
        return self._work[name]

    def of_cohort(self, name: str, cohort: Cohort, make: Callable[[Cohort], T]) -> T:
        """The result of `make(cohort)`, computed once; for train and test, once for all `instead` comparisons too."""
        if cohort is self.synthetic and cohort is not self.train and cohort is not self.test:
            return self.shared(f"{name} of the synthetic cohort", lambda: make(cohort))
        key = (name, id(cohort))
        if key not in self._real:
            self._real[key] = (cohort, make(cohort))
        return self._real[key][1]

    def instead(self, synthetic: Cohort, test: Cohort | None = None, intervals: bool = False) -> Comparison:
        """This comparison with another synthetic (and perhaps test) cohort on the same vocabulary; it has no evidence.

        >>> train = Cohort.of([[["A", "B"]], [["C"]]])
        >>> Comparison.of(train, train, train).instead(train.subset([0])).synthetic.n_patients
        1
        """
        return replace(
            self,
            synthetic=synthetic.on(self.vocabulary),
            test=self.test if test is None else test.on(self.vocabulary),
            intervals=intervals,
            evidence={},
            _work={},
        )


Goal = Literal["up", "down", "match", "none"]
#: The mark of each goal beside the name of a metric.
ARROWS: dict[str, str] = {"up": "↑", "down": "↓", "match": "=", "none": ""}


@dataclass(frozen=True)
class Metric:
    """A registered metric: what it is called, which way is better, and how to compute it.

    `compute` returns a score for each stratum; the stratum `"all"` is the headline (default tail cut).
    """

    key: str
    suite: str
    goal: Goal
    bounds: tuple[float, float]
    unit: str
    origin: str
    cost: Literal["cheap", "slow"]
    compute: Callable[[Comparison], dict[str, Score]]
    summary: str
    #: Moves with the number of synthetic patients alone, so that it is also scored at matched numbers.
    sized: bool = False
    #: Also scored after visits were thinned to the same codes and tail codes a visit as real ones.
    thinned: bool = False
    #: Compares with the test patients, so that the test patients cannot be their own ceiling.
    heldout: bool = False
    #: Raised when the definition changes, so that nothing stale is read from a cache.
    version: int = 1


#: Every metric by key, filled by the `metric` decorator when a suite's module is imported.
METRICS: dict[str, Metric] = {}


def metric(
    key: str,
    *,
    suite: str,
    goal: Goal,
    bounds: tuple[float, float] = (0.0, 1.0),
    unit: str = "share",
    origin: str = "own",
    cost: Literal["cheap", "slow"] = "cheap",
    sized: bool = False,
    thinned: bool = False,
    heldout: bool = False,
    version: int = 1,
) -> Callable[[Callable[[Comparison], dict[str, Score]]], Callable[[Comparison], dict[str, Score]]]:
    """Register a function as a metric; the first line of its docstring is its summary."""

    def register(compute: Callable[[Comparison], dict[str, Score]]) -> Callable[[Comparison], dict[str, Score]]:
        if key in METRICS:
            raise ValueError(f"two metrics are called {key!r}")
        summary = (compute.__doc__ or "").strip().split("\n")[0]
        METRICS[key] = Metric(
            key, suite, goal, bounds, unit, origin, cost, compute, summary, sized, thinned, heldout, version
        )
        return compute

    return register


def finite(value: float) -> float | None:
    """The value, or None where it is not a number.

    >>> finite(float("nan")) is None
    True
    """
    return float(value) if np.isfinite(value) else None
