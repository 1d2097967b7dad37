"""What a metric is: one class with its key, its goal, its bounds and how it is computed; and the suites of metrics.

A class with a key registers itself in `METRICS`; its docstring is the sentence that pages and tables show. Most metrics
are of one of two kinds and write only what is their own:

- `CountMetric`: a number from counts that add up over patients. The jackknife leaves out groups of patients.
- `RatioMetric`: a ratio of sums over patients. The bootstrap resamples patients.

Any other writes `compute` itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar, cast

import numpy as np

from adapcla.data import Vocabulary
from adapcla.data.vocabulary import STAY
from adapcla.errors import UsageError
from adapcla.evaluation.bootstrap import PatientSums, jackknife_score, ratio_scores
from adapcla.evaluation.comparison import Comparison, Missing, Real, Score, Statistic
from adapcla.evaluation.references import Reference

#: Which way is better; `match` is as near as possible to what real patients have.
Goal = Literal["up", "down", "match", "none"]
#: The mark of each goal beside the name of a metric.
ARROWS: dict[str, str] = {"up": "↑", "down": "↓", "match": "=", "none": ""}
#: The ending of the key of a metric that compares with the test patients in the place of the training patients.
HELDOUT = "_heldout"
SHARE, SIGNED, R2 = (0.0, 1.0), (-1.0, 1.0), (float("-inf"), 1.0)
POSITIVE, INFINITE = (0.0, float("inf")), (float("-inf"), float("inf"))
#: The largest divergence of two distributions, in nats.
LOG2 = float(np.log(2.0))
NATS = (0.0, LOG2)
S = TypeVar("S", bound=Statistic)
M = TypeVar("M", bound="Metric")

#: Every metric by its key; importing `adapcla.evaluation` fills it.
METRICS: dict[str, Metric] = {}


class Metric(ABC):
    """A number that says how alike, how useful or how private synthetic patients are.

    `compute` returns a score for each stratum; the stratum `"all"` is the headline.
    """

    key: str
    suite: str
    goal: Goal
    bounds: tuple[float, float] = SHARE
    unit: str = "share"
    #: The paper that defines it, or `own`.
    origin: str = "own"
    cost: Literal["cheap", "slow"] = "cheap"
    #: Moves with the number of synthetic patients alone, so that it is also scored at matched numbers.
    sized: bool = False
    #: Also scored after visits were thinned to as many codes and tail codes per visit as real ones have.
    thinned: bool = False
    #: Learns from the synthetic patients and is evaluated on the test patients: the ceiling is the training patients.
    trained: bool = False
    #: Whether the codes of single domains are scored, too.
    by_domain: bool = False
    #: The real patients that it compares with. Of both it makes two metrics: `key`, and `key_heldout` for test ones.
    against: ClassVar[tuple[Real, ...]] = ("train",)
    #: Raised when the definition changes, so that nothing stale is read from a cache.
    version: int = 1

    def __init__(self, real: Real = "train") -> None:
        self.real = real
        self.summary = cleandoc(type(self).__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        if real == "test" and len(self.against) == 2:
            self.key += HELDOUT
            self.summary = self.summary.replace("training", "test")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "key" in cls.__dict__:
            for real in cls.against:
                metric = cls(real)
                METRICS[metric.key] = metric

    @property
    def heldout(self) -> bool:
        """Whether it compares with the test patients, so that these cannot be their own ceiling."""
        return self.real == "test"

    @property
    def name(self) -> str:
        """The key with the version of the definition: what scores are kept under."""
        return f"{self.key}@{self.version}"

    @abstractmethod
    def compute(self, comparison: Comparison) -> dict[str, Score]:
        """The score of every stratum."""

    def __repr__(self) -> str:
        return f"<metric {self.key} of suite {self.suite}: {self.summary}>"


class Value(NamedTuple):
    """A number, what it rests on, and why it is none where it is not a number."""

    value: float
    n: int = 0
    reason: str = ""

    @classmethod
    def missing(cls, reason: str, n: int = 0) -> Value:
        """No number, and why."""
        return cls(float("nan"), n, reason)


class CountMetric(Metric, Generic[S]):
    """A metric of counts that add up over patients; its interval leaves out one group of patients after another."""

    statistic: type[S]

    @abstractmethod
    def values(self, made: S, comparison: Comparison) -> dict[str, Value]:
        """The number of every stratum, from the counts of the synthetic patients or of some of them."""

    def compute(self, comparison: Comparison) -> dict[str, Score]:
        """The score of every stratum."""
        return comparison.once(_count_scores, _peers(self))[self.key]


def _count_scores(comparison: Comparison, metrics: tuple[CountMetric[Any], ...]) -> dict[str, dict[str, Score]]:
    """The scores of metrics of one statistic, from one pass over the groups: one group is in memory at a time."""
    statistic = metrics[0].statistic
    whole = {metric.key: metric.values(comparison.counts(statistic), comparison) for metric in metrics}
    known = [m for m in metrics if any(np.isfinite(each.value) for each in whole[m.key].values())]
    rests: list[dict[str, dict[str, Value]]] = []
    if known:
        for counts in comparison.counts_without_groups(statistic):
            rests.append({metric.key: metric.values(counts, comparison) for metric in known})
    out = {}
    for metric in metrics:
        out[metric.key] = {
            stratum: jackknife_score(
                value,
                n,
                [rest[metric.key][stratum].value for rest in rests] if metric in known else [],
                metric.bounds,
                reason,
            )
            for stratum, (value, n, reason) in whole[metric.key].items()
        }
    return out


class RatioMetric(Metric):
    """A ratio of sums over patients; its interval resamples the synthetic or (`of_test`) the test patients."""

    of_test: bool = False

    @abstractmethod
    def sums(self, comparison: Comparison) -> dict[str, PatientSums | Missing]:
        """The sums of every stratum, or why there are none; of the synthetic patients this sees one part at a time."""

    def compute(self, comparison: Comparison) -> dict[str, Score]:
        """The score of every stratum."""
        if self.of_test:
            return ratio_scores(comparison.sample, [self.sums(comparison.sample)])
        return comparison.once(_ratio_scores, _peers(self))[self.key]


def _ratio_scores(comparison: Comparison, metrics: tuple[RatioMetric, ...]) -> dict[str, dict[str, Score]]:
    """The scores of ratio metrics of one suite, from one pass over the synthetic patients, part by part."""
    sums = (
        {(m.key, name): each for m in metrics for name, each in m.sums(part).items()} for part in comparison.parts()
    )
    out: dict[str, dict[str, Score]] = {metric.key: {} for metric in metrics}
    for (key, stratum), score in ratio_scores(comparison, sums).items():
        out[key][stratum] = score
    return out


def _peers(metric: M) -> tuple[M, ...]:
    """The metrics that are computed together with this one: of its kind, its suite and its statistic."""

    def group(one: Any) -> tuple[Any, ...]:
        return one.suite, getattr(one, "statistic", None), getattr(one, "of_test", None)

    kind = CountMetric if isinstance(metric, CountMetric) else RatioMetric
    peers = tuple(one for one in METRICS.values() if isinstance(one, kind) and group(one) == group(metric))
    return cast(tuple[M, ...], peers if metric in peers else (metric,))


# ---- suites -------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Suite:
    """Metrics that answer one question, and the references that stand for the best and the worst answer."""

    name: str
    #: What one evaluation of 160,000 training patients takes, about.
    seconds: float
    ceiling: Reference = Reference.REAL_TEST
    floor: Reference = Reference.MARGINAL
    #: The references that are worth computing.
    references: tuple[Reference, ...] = (Reference.REAL_TEST, Reference.TRAIN_COPY, Reference.MARGINAL)
    #: Whether it compares with a requested prevalence.
    needs_target: bool = False
    #: For a suite of whole records: whether a vocabulary has what it is about. It then comes along with `fidelity`.
    applies: Callable[[Vocabulary], bool] | None = None


def has_numbers(vocabulary: Vocabulary) -> bool:
    """Whether entries of some code carry a number.

    >>> has_numbers(Vocabulary.of(["A"]))
    False
    """
    return bool(vocabulary.numbers.any())


def has_stays(vocabulary: Vocabulary) -> bool:
    """Whether some code speaks of a visit as a whole.

    >>> from adapcla.data.vocabulary import DEATH
    >>> has_stays(Vocabulary.of(["A"])), has_stays(Vocabulary.of([DEATH]))
    (False, True)
    """
    return bool(vocabulary.domain_mask(STAY).any())


#: A classifier trained on the test patients and evaluated on them says nothing: there the ceiling is the training
#: patients themselves. Patients drawn with repeats would be fewer different ones, and teach less.
_TRAINED = (Reference.REAL_TRAIN, Reference.MARGINAL)
#: Every suite by name, in the order of the tables.
SUITES = {
    suite.name: suite
    for suite in (
        Suite("tail", 20.0),
        Suite("fidelity", 15.0),
        Suite("course", 20.0),
        Suite("numbers", 10.0, applies=has_numbers),
        Suite("stays", 30.0, applies=has_stays),
        Suite("discriminator", 120.0),
        Suite("control", 5.0, needs_target=True),
        Suite("utility", 240.0, ceiling=Reference.REAL_TRAIN, references=_TRAINED),
        Suite("reliability", 60.0, ceiling=Reference.REAL_TRAIN, references=_TRAINED),
        Suite("privacy", 90.0, floor=Reference.TRAIN_COPY),  # In privacy memorisation is the worst.
    )
}
#: The suites that need no target and that every record has something for.
PLAIN_SUITES = tuple(name for name, suite in SUITES.items() if not suite.needs_target and suite.applies is None)


def default_suites(with_target: bool) -> list[str]:
    """The suites that are computed where none is named, in the order of the tables.

    >>> set(default_suites(True)) - set(default_suites(False))
    {'control'}
    """
    return [name for name, suite in SUITES.items() if name in PLAIN_SUITES or (with_target and suite.needs_target)]


def with_whole_record(names: Iterable[str], vocabulary: Vocabulary | None = None) -> list[str]:
    """The suites with those of whole records that come along: where fidelity is among them and the codes call for them.

    Without a vocabulary it is all that may come along.

    >>> with_whole_record(["fidelity"], Vocabulary.of(["A"])), with_whole_record(["tail", "fidelity"])
    (['fidelity'], ['tail', 'fidelity', 'numbers', 'stays'])
    """
    named = list(dict.fromkeys(names))
    if "fidelity" not in named:
        return named
    whole = {name: suite.applies for name, suite in SUITES.items() if suite.applies is not None and name not in named}
    return named + [name for name, applies in whole.items() if vocabulary is None or applies(vocabulary)]


def ceiling_of(metric: Metric) -> Reference:
    """The reference that stands for the best answer of a metric: test patients, or training patients as a teacher."""
    return Reference.REAL_TRAIN if metric.trained else SUITES[metric.suite].ceiling


def references_of(metric: Metric) -> tuple[Reference, ...]:
    """The references that are worth computing for a metric."""
    suite = SUITES[metric.suite]
    if not metric.trained or Reference.REAL_TRAIN in suite.references:
        return suite.references
    return (Reference.REAL_TRAIN, *(one for one in suite.references if one is not Reference.REAL_TEST))


def metrics_of(suites: Iterable[str]) -> list[Metric]:
    """The metrics of these suites, suite by suite.

    >>> {"pair_seen", "tail_pair_seen"} <= {metric.key for metric in metrics_of(["tail"])}
    True
    """
    names = list(dict.fromkeys(suites))
    for name in names:
        if name not in SUITES:
            raise UsageError(f"suite {name!r}: expected one of {', '.join(SUITES)}")
    return [metric for name in names for metric in METRICS.values() if metric.suite == name]


def metrics_for(suites: Iterable[str], vocabulary: Vocabulary | None = None) -> list[Metric]:
    """The metrics of these suites with those of whole records that come along; without a vocabulary, all that may.

    The suites of whole records come along with `fidelity`. What models learn from stays (death, return) comes along
    with `utility`, too, so that models of real patients are trained on the same.

    >>> [metric.key for metric in metrics_for(["utility"]) if metric.suite != "utility"]
    ['mortality_auroc', 'readmission_auroc']
    >>> metrics_for(["utility"], Vocabulary.of(["A"])) == metrics_of(["utility"])
    True
    """
    names = with_whole_record(suites, vocabulary)
    learned = set(with_whole_record(["fidelity"], vocabulary)) - set(names) if "utility" in names else set()
    return metrics_of(names) + [metric for metric in METRICS.values() if metric.trained and metric.suite in learned]
