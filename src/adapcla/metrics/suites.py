"""Every suite of metrics: the question it answers, and the references of its best and worst answer."""

from __future__ import annotations

from dataclasses import dataclass

from adapcla.metrics.contract import Metric
from adapcla.metrics.references import Reference


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
        Suite("discriminator", 120.0),
        Suite("control", 5.0, needs_target=True),
        Suite("utility", 240.0, ceiling=Reference.REAL_TRAIN, references=_TRAINED),
        Suite("reliability", 60.0, ceiling=Reference.REAL_TRAIN, references=_TRAINED),
        Suite("privacy", 90.0, floor=Reference.TRAIN_COPY),  # In privacy the worst is the photocopier.
    )
}
#: The suites that need no target.
PLAIN_SUITES = tuple(name for name, suite in SUITES.items() if not suite.needs_target)


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
