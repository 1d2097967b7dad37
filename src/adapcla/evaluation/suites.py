"""Every suite of metrics: the question it answers, and the references of its best and worst answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from adapcla.data import Vocabulary
from adapcla.data.vocabulary import STAY
from adapcla.evaluation.contract import Metric
from adapcla.evaluation.references import Reference


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
    #: Whether it compares with a prevalence that was asked for.
    needs_target: bool = False
    #: For a suite of whole records: whether a vocabulary has what it judges. It then comes along with `fidelity`.
    applies: Callable[[Vocabulary], bool] | None = None


#: A classifier trained on the test patients and judged on them says nothing: there the ceiling is the training patients
#: themselves. Patients drawn with repeats would be fewer different ones, and teach less.
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
        Suite("privacy", 90.0, floor=Reference.TRAIN_COPY),  # In privacy the worst is the photocopier.
    )
}
#: The suites that need no target and that every record has something for.
PLAIN_SUITES = tuple(name for name, suite in SUITES.items() if not suite.needs_target and suite.applies is None)


def default_suites(with_target: bool) -> list[str]:
    """The suites that are judged where none is named, in the order of the tables.

    >>> set(default_suites(True)) - set(default_suites(False))
    {'control'}
    """
    return [name for name, suite in SUITES.items() if name in PLAIN_SUITES or (with_target and suite.needs_target)]


def with_whole_record(names: Iterable[str], vocabulary: Vocabulary | None = None) -> list[str]:
    """The suites with those of whole records that come along: where fidelity is asked for and the codes call for them.

    Without a vocabulary it is all that may come along.

    >>> with_whole_record(["fidelity"], Vocabulary.of(["A"])), with_whole_record(["tail", "fidelity"])
    (['fidelity'], ['tail', 'fidelity', 'numbers', 'stays'])
    """
    asked = list(dict.fromkeys(names))
    if "fidelity" not in asked:
        return asked
    whole = {name: suite.applies for name, suite in SUITES.items() if suite.applies is not None and name not in asked}
    return asked + [name for name, applies in whole.items() if vocabulary is None or applies(vocabulary)]


def ceiling_of(metric: Metric) -> Reference:
    """The reference that stands for the best answer of a metric.

    >>> def metric(trained): return Metric("m", "tail", "up", lambda comparison: {}, "A metric.", trained=trained)
    >>> ceiling_of(metric(False)).label, ceiling_of(metric(True)).label
    ('real test', 'real train')
    """
    return Reference.REAL_TRAIN if metric.trained else SUITES[metric.suite].ceiling


def references_of(metric: Metric) -> tuple[Reference, ...]:
    """The references that are worth computing for a metric.

    >>> metric = Metric("m", "tail", "up", lambda comparison: {}, "A metric.", trained=True)
    >>> [reference.label for reference in references_of(metric)]
    ['real train', 'train copy', 'marginal']
    """
    suite = SUITES[metric.suite]
    if not metric.trained or Reference.REAL_TRAIN in suite.references:
        return suite.references
    return (Reference.REAL_TRAIN, *(one for one in suite.references if one is not Reference.REAL_TEST))
