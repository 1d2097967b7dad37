"""Scores against held-out patients by many halves of them: one half to compare with, the other for real patients.

One half decides little: how many pairs of rare codes it holds is luck. So a score is the mean over several halves, and
its interval has two parts. The first is what resampling the scored patients gives, the test patients held fixed. The
second is the spread over the halves. With a score that is near to a mean over patients, a half differs from the mean of
all halves as much as that mean differs from its expectation: (1 − ½)/½ = 1 (half-samples; McCarthy, 1969). So the
standard deviation over halves is the standard error of the mean of the halves. Of real patients both parts are in the
spread, since both halves change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from adapcla.evaluation.contract import Comparison, Metric, Score
from adapcla.evaluation.intervals import spread, student_half

#: Halves of the test patients that a score is the mean of.
N_HALVES = 12

Found = dict[str, dict[str, Score]]


def over_halves(metrics: Sequence[Metric], own: Found, others: Iterable[Comparison], real: bool) -> Found:
    """The scores of some metrics as means over halves: `own` against the first half, and comparisons with the others.

    Args:
        metrics: What is scored.
        own: The scores against the first half by metric and stratum, with the intervals of the scored patients.
        others: Comparisons with the other halves; one is in memory at a time.
        real: Whether the other half of the test patients is what is scored.
    """
    values = {(metric.key, stratum): [score.value] for metric in metrics for stratum, score in own[metric.key].items()}
    for comparison in others:
        for metric in metrics:
            scores = metric.compute(comparison)
            for stratum in own[metric.key]:
                values[metric.key, stratum].append(scores[stratum].value if stratum in scores else None)
    return {
        metric.key: {
            stratum: mean_of_halves(score, values[metric.key, stratum], metric.bounds, real)
            for stratum, score in own[metric.key].items()
        }
        for metric in metrics
    }


def mean_of_halves(
    own: Score, values: Sequence[float | None], bounds: tuple[float, float] = (0.0, 1.0), real: bool = False
) -> Score:
    """The mean over halves with both errors; a score that some half cannot give is that of the first half.

    >>> score = mean_of_halves(Score(0.5, 10, 0.4, 0.6), [0.5, 0.6, 0.7])
    >>> round(score.value, 3), round(score.low, 3), round(score.high, 3), score.redrawn
    (0.6, 0.158, 1.0, (0.5, 0.6, 0.7))
    >>> mean_of_halves(Score(0.5, 10, 0.4, 0.6), [0.5, None])
    Score(value=0.5, n=10, low=0.4, high=0.6, reason='')
    """
    known = [value for value in values if value is not None]
    if own.value is None or len(known) < len(values) or len(known) < 2:
        return own
    value = float(np.mean(known))
    half = student_half(spread(known), len(known))
    if not real and own.low is not None and own.high is not None:
        half = math.hypot(half, (own.high - own.low) / 2)
    low, high = max(bounds[0], value - half), min(bounds[1], value + half)
    return Score(value, own.n, low, high, own.reason, tuple(round(each, 9) for each in known))
