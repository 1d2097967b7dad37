"""What a metric is given, a comparison of cohorts, and what it returns, a score for each stratum."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeVar, TypeVarTuple, cast

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort, Prevalence, Strata, Vocabulary
from adapcla.data.prevalence import COUNT_CUTS
from adapcla.errors import InputError
from adapcla.evaluation.references import SAMPLE, some_patients
from adapcla.seeds import random_stream

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
#: The headline stratum. Of a metric of rare codes it holds the rarest third (`RARE`), of any other all codes.
ALL = "all"
#: The one definition of rare: the rarest third of the codes of training; metrics of rare codes call its stratum `all`.
RARE = "third"
#: The cut of the paper's tables: the rarest fifth.
PAPER_CUT = "rare20"
#: Attributes that hold an age, the first that a cohort has.
AGES = ("age_band", "age", "birth_band")
#: The two real cohorts that a synthetic one is compared with.
Real = Literal["train", "test"]
Side = Literal["train", "test", "synthetic"]
#: Patient groups that the jackknife leaves out one by one; of a reference fewer, for a fraction of the cost.
GROUPS, COARSE_GROUPS = 20, 6
#: Patients that are counted at a time, so that memory does not grow with a cohort; a block of bootstrap weights.
PART = 32_768


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


class Statistic(Protocol):
    """Counts of a cohort that add up over its patients, so that it can be counted in parts.

    Every metric of the statistic reads the same counts; without a group of patients they are a subtraction.
    """

    #: Whether it needs the values of numbers, beside which codes were recorded.
    of_values: ClassVar[bool]
    #: Whether it grows with the patients, so that at most `SAMPLE` of them are counted.
    sampled: ClassVar[bool]

    @classmethod
    def count(cls, cohort: Cohort, training: TrainingSummary) -> Self:
        """The counts of a cohort."""
        ...

    def __add__(self, other: Self) -> Self: ...

    def __sub__(self, other: Self) -> Self: ...


S = TypeVar("S", bound=Statistic)


def count_in_parts(statistic: type[S], cohort: Cohort, training: TrainingSummary, patients: Ints | None = None) -> S:
    """A statistic of a cohort, or of its patients at some positions, added up over parts of `PART` patients."""
    if patients is None and cohort.n_patients <= PART:
        return statistic.count(cohort, training)
    chosen = np.arange(cohort.n_patients) if patients is None else patients
    begins = range(0, max(len(chosen), 1), PART)
    counts = (statistic.count(cohort.subset(chosen[begin : begin + PART]), training) for begin in begins)
    return reduce(add, counts)


class TrainingSummary:
    """What training decides for every cohort: which codes are rare, which are watched, how numbers are scaled.

    >>> TrainingSummary(Cohort.of([[["A", "B", "C"], ["B", "C"], ["C"]]])).tails["third"].tolist()
    [True, False, False]
    """

    def __init__(self, train: Cohort, whole: Cohort | None = None) -> None:
        #: The training patients with numbers as plain codes, and as they came.
        self.train, self.whole = train, train if whole is None else whole
        self._known: dict[Callable[[Cohort], Any], Any] = {}

    @cached_property
    def strata(self) -> Strata:
        """Head, mid and tail by training counts."""
        return self.train.strata()

    @property
    def age(self) -> str:
        """The attribute that holds the age of patients or when they were born; empty without one."""
        return next((name for name in AGES if name in self.train.attributes), "")

    @cached_property
    def tails(self) -> dict[str, Mask]:
        """The sets of rare codes that scores are given for: the rarest third, the paper's cut, and cuts by count."""
        return {name: self.strata.cut(name) for name in (RARE, PAPER_CUT, *COUNT_CUTS)}

    @cached_property
    def domains(self) -> dict[str, Mask]:
        """The codes of each domain as `domain:NAME`, where there are several domains."""
        vocabulary = self.train.vocabulary
        if len(vocabulary.domains) < 2:
            return {}
        return {f"domain:{name}": vocabulary.domain_mask(name) for name in vocabulary.domains}

    @cached_property
    def tail_strata(self) -> dict[str, Mask]:
        """The strata of a metric of rare codes: `all` is the rarest third, then the other cuts and tails of domains."""
        cuts = {ALL if name == RARE else name: mask for name, mask in self.tails.items()}
        return cuts | {name: self.strata.tail & mask for name, mask in self.domains.items()}

    def once(self, function: Callable[[Cohort], T]) -> T:
        """The result of a function of the training patients as they came, computed once.

        >>> TrainingSummary(Cohort.of([[["A"]]])).once(Cohort.prevalence).share.tolist()
        [1.0]
        """
        if function not in self._known:
            self._known[function] = function(self.whole)
        return cast(T, self._known[function])


class Whole(NamedTuple):
    """Train, test and synthetic patients as they came: with the values of their numbers, on one vocabulary."""

    train: Cohort
    test: Cohort
    synthetic: Cohort


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
    #: The prevalence requested of the synthetic population, where it was controlled; the control suite needs it.
    target: Prevalence | None = None
    #: Arrays that only the maker of the synthetic cohort can give (likelihoods of members and controls, for one);
    #: the privacy suite says which names it reads.
    evidence: dict[str, Any] = field(default_factory=dict, repr=False)
    #: Whether scores carry intervals.
    intervals: bool = True
    #: Whether intervals may rest on few groups of patients, which saves most of the cost of references.
    coarse: bool = False
    #: Whether training patients hold numbers, whoever else lacks them.
    learned_numbers: bool = False
    #: The same patients with the values of their numbers; None where somebody has none.
    with_values: Whole | None = None
    #: People among whom an attacker looks for the training patients; 0 where nobody says.
    population: int = 0
    #: The control patients with the values of their numbers; None where they have none.
    control_with_values: Cohort | None = None
    # Work on this comparison, by the function that did it and its arguments.
    _work: dict[tuple[Hashable, ...], Any] = field(default_factory=dict, repr=False)
    # Work on the real cohorts, kept for every comparison made by `with_synthetic`; holds the cohort so that no other
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
        population: int = 0,
    ) -> Comparison:
        """The comparison on the union of the vocabularies of the cohorts and the target, by code string."""
        given = [train, test, synthetic, *([control] if control is not None else [])]
        cohorts = [cohort.without_values() for cohort in given]
        vocabularies = [cohort.vocabulary for cohort in cohorts] + ([] if target is None else [target.vocabulary])
        first = cohorts[0].vocabulary
        if all(vocabulary == first for vocabulary in vocabularies):
            union = first
        else:
            union = Vocabulary.of(code for vocabulary in vocabularies for code in vocabulary.codes)
        on_union = [cohort.on(union) for cohort in cohorts]
        whole, reserved = _with_values(train, test, synthetic, union), None
        if whole is not None and control is not None:
            # The same patients with their values; None where they have none.
            units = {code.token: code.unit for code in whole.train.vocabulary.codes if code.unit}
            reserved = control.on(whole.train.vocabulary) if has_values(control, units) else None
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
            learned_numbers=train.values is not None,
            with_values=whole,
            control_with_values=reserved,
            population=population,
        )

    # ---- cohorts ------------------------------------------------------------------------------------------------
    @property
    def whole(self) -> Whole:
        """Train, test and synthetic patients as they came: with values where all of them have some."""
        return self.with_values or Whole(self.train, self.test, self.synthetic)

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary all cohorts are on."""
        return self.train.vocabulary

    @property
    def training(self) -> TrainingSummary:
        """What training decides for every cohort."""
        key = ("training", id(self.train))
        if key not in self._real_work:
            self._real_work[key] = (self.train, TrainingSummary(self.train, self.whole.train))
        return cast(TrainingSummary, self._real_work[key][1])

    @property
    def strata(self) -> Strata:
        """Head, mid and tail by training counts."""
        return self.training.strata

    def real(self, which: Real) -> Cohort:
        """The training or the test cohort, by name."""
        return self.train if which == "train" else self.test

    # ---- shared work --------------------------------------------------------------------------------------------
    def once(self, function: Callable[[Comparison, *Ts], T], *arguments: *Ts) -> T:
        """The result of `function(self, *arguments)`, computed once for this comparison.

        >>> train = Cohort.of([[["A", "B"]], [["C"]]])
        >>> Comparison.of(train, train, train).once(lambda comparison, n: comparison.test.n_patients + n, 1)
        3
        """
        key = (function, *arguments)
        if key not in self._work:
            self._work[key] = function(self, *arguments)
        return cast(T, self._work[key])

    def of_cohort(self, function: Callable[[Cohort], T], cohort: Cohort) -> T:
        """The result of `function(cohort)`, computed once; for real cohorts, once whatever synthetic one is compared.

        >>> train = Cohort.of([[["A", "B"]], [["C"]]])
        >>> Comparison.of(train, train, train).of_cohort(lambda cohort: cohort.n_visits, train)
        2
        """
        return self._memoise(("cohort", function), cohort, function)

    def of_real(self, function: Callable[[Comparison], T]) -> T:
        """The result of a function of this comparison's real patients: once, whatever synthetic ones are compared.

        >>> train = Cohort.of([[["A", "B"]], [["C"]]])
        >>> Comparison.of(train, train, train).of_real(lambda comparison: comparison.train.n_visits)
        2
        """
        real = tuple(id(cohort) for cohort in (self.train, self.test, self.control))
        key = ("real", function, *real)
        if key not in self._real_work:
            # Everything that the key names by its place in memory is kept in memory.
            self._real_work[key] = (self.train, (function(self), self.test, self.control))
        return cast(T, self._real_work[key][1][0])

    def _memoise(self, key: tuple[Hashable, ...], cohort: Cohort, function: Callable[[Cohort], T]) -> T:
        """The result of a function of a cohort: of real ones kept for other comparisons, too."""
        real = any(cohort is one for one in (self.train, self.test, self.whole.train, self.whole.test))
        synthetic = not real and any(cohort is one for one in (self.synthetic, self.whole.synthetic))
        memory = self._work if synthetic else self._real_work
        key = (*key, id(cohort))
        if key not in memory:
            memory[key] = (cohort, function(cohort))
        return cast(T, memory[key][1])

    # ---- statistics ---------------------------------------------------------------------------------------------
    def counts(self, statistic: type[S], side: Side = "synthetic") -> S:
        """A statistic of one of the cohorts, counted once."""
        cohort = self._cohort_of(statistic, side)
        return self._memoise(("counts", statistic), cohort, lambda one: count_in_parts(statistic, one, self.training))

    def _cohort_of(self, statistic: type[Statistic], side: Side) -> Cohort:
        """The patients that a statistic counts."""
        cohort: Cohort = getattr(self.whole if statistic.of_values else self, side)
        if not statistic.sampled or cohort.n_patients <= SAMPLE:
            return cohort
        return self._memoise(("sample",), cohort, lambda one: some_patients(one, SAMPLE, self.seed))

    @cached_property
    def can_leave_out(self) -> bool:
        """Whether an interval is wanted and possible."""
        return self.intervals and self.synthetic.n_patients > 1

    def counts_without_groups(self, statistic: type[S]) -> Iterator[S]:
        """A statistic of the synthetic cohort without each group of patients; nothing where no interval is wanted."""
        if not self.can_leave_out:
            return
        cohort, everything = self._cohort_of(statistic, "synthetic"), self.counts(statistic)
        groups = patient_groups(cohort.n_patients, self.seed, COARSE_GROUPS if self.coarse else GROUPS)
        for group in range(int(groups.max()) + 1):
            yield everything - count_in_parts(statistic, cohort, self.training, np.flatnonzero(groups == group))

    def parts(self) -> Iterator[Comparison]:
        """This comparison with one part of the synthetic patients after another, for what adds up over patients.

        >>> train = Cohort.of([[["A", "B"]], [["C"]]])
        >>> [part.synthetic.n_patients for part in Comparison.of(train, train, train).parts()]
        [2]
        """
        n, whole = self.synthetic.n_patients, self.with_values
        if n <= PART or not self.intervals:
            yield self
            return
        for begin in range(0, n, PART):
            rows = np.arange(begin, min(begin + PART, n))
            both = None if whole is None else whole._replace(synthetic=whole.synthetic.subset(rows))
            yield replace(self, synthetic=self.synthetic.subset(rows), with_values=both, _work={})

    @cached_property
    def sample(self) -> Comparison:
        """This comparison with at most `SAMPLE` synthetic and test patients, for what is learned from all at once.

        >>> train = Cohort.of([[["A", "B"]], [["C"]]])
        >>> comparison = Comparison.of(train, train, train)
        >>> comparison.sample is comparison
        True
        """
        if max(self.synthetic.n_patients, self.test.n_patients) <= SAMPLE:
            return self
        synthetic, test = (some_patients(one, SAMPLE, self.seed) for one in (self.whole.synthetic, self.whole.test))
        return self.with_synthetic(synthetic, test, self.intervals, self.coarse)

    # ---- other comparisons --------------------------------------------------------------------------------------
    def with_synthetic(
        self, synthetic: Cohort, test: Cohort | None = None, intervals: bool = False, coarse: bool = False
    ) -> Comparison:
        """This comparison with another synthetic (and perhaps test) cohort on the same vocabulary; it has no evidence.

        Where there are values, both come with theirs; without them the comparison is one of codes alone.

        >>> train = Cohort.of([[["A", "B"]], [["C"]]])
        >>> Comparison.of(train, train, train).with_synthetic(train.subset([0])).synthetic.n_patients
        1
        """
        whole = None
        if self.with_values is not None:
            others = Whole(self.with_values.train, self.with_values.test if test is None else test, synthetic)
            whole = _on_numbers(others, self.with_values.train.vocabulary)
        return replace(
            self,
            synthetic=self._plain(synthetic).on(self.vocabulary),
            test=self.test if test is None else self.of_cohort(_plain_form, test).on(self.vocabulary),
            intervals=intervals,
            coarse=coarse,
            with_values=whole,
            evidence={},
            _work=self._counts_kept() if synthetic is self.whole.synthetic else {},
        )

    def _counts_kept(self) -> dict[tuple[Hashable, ...], Any]:
        """What was counted of the synthetic patients, which holds against other test patients, too."""
        return {key: value for key, value in self._work.items() if key[0] == "counts"}

    def within(self, domain: str) -> Comparison | Missing:
        """This comparison on the codes of one domain alone; or why there is nothing to compare.

        Visits without such a code go, and patients without such a visit.

        >>> from adapcla.data.vocabulary import Code
        >>> train = Cohort.of([[["A", "drug"]], [["A"]]], ["A", Code.of("drug", domain="drug")])
        >>> Comparison.of(train, train, train).within("drug").synthetic.n_patients
        1
        """
        mask = self.vocabulary.domain_mask(domain)
        parts: dict[str, Cohort] = {}
        for name in ("train", "test", "synthetic", "control"):
            cohort: Cohort | None = getattr(self, name)
            if cohort is None:
                continue
            if not mask[cohort.codes].any():
                who = "training" if name == "train" else name
                return Missing(f"no {who} patient has a code of the domain {domain}")
            parts[name] = self._memoise(("domain", domain), cohort, lambda one: one.keep_codes(mask))
        kept: dict[str, Any] = dict(parts)
        return replace(self, **kept, target=None, evidence={}, with_values=None, control_with_values=None, _work={})

    def _plain(self, cohort: Cohort) -> Cohort:
        """The cohort with numbers as plain codes: the one that is known already, where there is one."""
        if self.with_values is not None and cohort is self.with_values.train:
            return self.train
        if self.with_values is not None and cohort is self.with_values.test:
            return self.test
        return cohort.without_values()

    def with_own_memory(self) -> Comparison:
        """This comparison with a memory of its own: what it works out of real patients goes with it.

        >>> train = Cohort.of([[["A", "B"]], [["C"]]])
        >>> Comparison.of(train, train, train).with_own_memory().test.n_patients
        2
        """
        return replace(self, _work={}, _real_work=dict(self._real_work))


def _plain_form(cohort: Cohort) -> Cohort:
    """The cohort with numbers as plain codes."""
    return cohort.without_values()


def patient_groups(n_patients: int, seed: int, n_groups: int = GROUPS) -> NDArray[np.int64]:
    """The jackknife group of each patient: equal sizes up to one, in seeded random order.

    >>> np.bincount(patient_groups(10, seed=1, n_groups=5)).tolist()
    [2, 2, 2, 2, 2]
    """
    n_groups = min(n_groups, n_patients)
    groups = np.arange(n_patients, dtype=np.int64) % max(n_groups, 1)
    return random_stream(seed, "jackknife groups").permutation(groups)


# ---- values of numbers --------------------------------------------------------------------------------------
def _with_values(train: Cohort, test: Cohort, synthetic: Cohort, union: Vocabulary) -> Whole | None:
    """The patients with the values of their numbers; None where training has none or somebody lacks them."""
    if train.values is None:
        return None
    units = units_of(train, test, synthetic)
    vocabulary = Vocabulary(tuple(code._replace(unit=units.get(code.token, "")) for code in union.codes))
    return _on_numbers(Whole(train, test, synthetic), vocabulary)


def _on_numbers(cohorts: Whole, vocabulary: Vocabulary) -> Whole | None:
    """The cohorts on a vocabulary with numbers; None where one of them holds a number without its value."""
    units = {code.token: code.unit for code in vocabulary.codes if code.unit}
    if not all(has_values(cohort, units) for cohort in cohorts):
        return None
    return Whole(*(cohort.on(vocabulary) for cohort in cohorts))


def has_values(cohort: Cohort, units: dict[str, str]) -> bool:
    """Whether every number that the cohort holds carries its value.

    >>> has_values(Cohort.of([[["A"]]]), {"A": "mg/dL"}), has_values(Cohort.of([[["B"]]]), {"A": "mg/dL"})
    (False, True)
    """
    held = np.flatnonzero(cohort.visit_counts)
    codes = cohort.vocabulary.codes
    return all(codes[c].unit or codes[c].token not in units for c in held)


def units_of(*cohorts: Cohort) -> dict[str, str]:
    """The unit of each number; two units of one number are an error, since their values cannot be compared.

    >>> units_of(Cohort.of([[["A"]]]))
    {}
    """
    out: dict[str, str] = {}
    for cohort in cohorts:
        for code in cohort.vocabulary.codes:
            if code.unit and out.setdefault(code.token, code.unit) != code.unit:
                raise InputError(
                    f"{code.token}: in {out[code.token]} in one cohort and in {code.unit} in another",
                    expected="one unit for each number",
                    remedy="convert one of the two before they are compared",
                )
    return out
