"""The one rule of verdicts: what a claim needs before it is decided.

- A claim about training needs `FEWEST_FITS` fit seeds of both rows: a spread over three fits has two degrees of freedom
  and is too often small by luck. Fits that all give one number have no spread, and decide nothing by themselves.
- A share of counted things, such as pairs seen, must also pass Fisher's exact test on the counts of all fits together;
  where fits do not differ, that test decides alone.
- Where test patients judge, their luck is shared by all fits: it stands beside the spread over fits (`both_errors`),
  from draws of the test patients that are the same for both rows, so that what both rows owe to them cancels.
- The p-values of a page are held against Holm's levels, so that one claim in twenty is not won by chance.
- What is not decided may still rule out the gain that the paper reports: a verdict of its own, by the same rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from adapcla.evaluation.bootstrap import both_errors, mean_half, normal_half
from adapcla.study.results import Measured

HELD, NOT_HELD, EXCLUDED, CANNOT_TELL = "held", "did not hold", "the paper's gain is excluded", "cannot tell"
#: Fit seeds that both rows of a claim about training must have.
FEWEST_FITS = 4
#: Chance of any wrong “held” or “did not hold” on a page; exclusions of the paper's gain have as much of their own.
ERROR = 0.05


class Counts(NamedTuple):
    """How many of the things that each side of a claim wrote have what is counted."""

    one: int
    of_one: int
    two: int
    of_two: int


class Assessed(NamedTuple):
    """A gain with its interval and two-sided p-values; positive gains speak for the claim."""

    gain: Measured
    #: That there is no gain, or none above minus the margin.
    none: float | None = None
    #: That there is no loss.
    no_loss: float | None = None
    #: The gain that the paper reports, and that ours is as large.
    paper: float | None = None
    as_paper: float | None = None
    #: Why there are no p-values.
    lacking: str = ""

    @property
    def smallest(self) -> float | None:
        """The p-value that Holm's rule ranks the claim by."""
        return None if self.none is None or self.no_loss is None else min(self.none, self.no_loss)


def over_fits(
    gains: Sequence[float], paper: float | None = None, counts: Counts | None = None, inside: float = 0.0
) -> Assessed:
    """The test of gains paired by fit seed: Student's, and Fisher's where things were counted.

    `inside` is the standard deviation of the gain over draws of the test patients, which all fits share.

    >>> over_fits([0.1, 0.2, 0.1]).lacking
    '3 fit seeds, 4 needed'
    >>> over_fits([0.0] * 5).lacking
    'every fit gives the same number'
    >>> round(over_fits([0.1, 0.2, 0.1, 0.2]).none, 4)
    0.0138
    >>> round(over_fits([0.1, 0.2, 0.1, 0.2], inside=0.1).none, 4)
    0.1502
    """
    n = len(gains)
    value, half = float(np.mean(gains)) if n else 0.0, mean_half(gains, inside)
    equal = n > 1 and float(np.ptp(gains)) <= 1e-9 * float(np.abs(gains).max())
    gain = Measured(value, None, None, n) if n < 2 or equal else Measured(value, value - half, value + half, n)
    if n < FEWEST_FITS:
        return Assessed(gain, lacking=f"{n} fit seed{'s' * (n != 1)}, {FEWEST_FITS} needed")
    exact = None if counts is None else fisher(counts)
    if equal:
        return Assessed(gain, lacking="every fit gives the same number") if exact is None else Assessed(gain, *exact)
    error, freedom = both_errors(gains, inside)
    none, no_loss = (_doubled(float(stats.t.sf(side * value / error, freedom))) for side in (1, -1))
    if exact is not None:
        none, no_loss = max(none, exact[0]), max(no_loss, exact[1])
    as_paper = None if paper is None else _doubled(float(stats.t.cdf((value - paper) / error, freedom)))
    return Assessed(gain, none, no_loss, paper, as_paper)


def over_patients(gain: Measured, margin: float = 0.0) -> Assessed:
    """The test of a gain whose interval is over patients, for claims about models that are there, not about training.

    >>> judged = over_patients(Measured(0.3, 0.104, 0.496, 1))
    >>> round(judged.none, 4), judged.no_loss
    (0.0027, 1.0)
    """
    if gain.half is None or gain.half == 0:
        return Assessed(gain, lacking="no interval over patients")
    error = gain.half / normal_half()
    return Assessed(
        gain,
        _doubled(float(stats.norm.sf((gain.value + margin) / error))),
        _doubled(float(stats.norm.cdf(gain.value / error))),
    )


def fisher(counts: Counts) -> tuple[float, float]:
    """Fisher's exact p-values: that the first share is no larger, and that it is no smaller.

    Five of five against none of five has one table in 252 at either end.

    >>> [round(p, 5) for p in fisher(Counts(5, 5, 0, 5))]
    [0.00794, 1.0]
    """
    table = [[counts.one, counts.of_one - counts.one], [counts.two, counts.of_two - counts.two]]
    more, less = (float(stats.fisher_exact(table, alternative=side).pvalue) for side in ("greater", "less"))
    return _doubled(more), _doubled(less)


def holm(p_values: Sequence[float | None], error: float = ERROR) -> list[float]:
    """The level that each p-value is held against (Holm, 1979): the smallest has to pass error / m, the next
    error / (m − 1) and so on; those behind one that failed have none.

    >>> [round(level, 4) for level in holm([0.04, 0.01, None, 0.03], error=0.06)]
    [0.06, 0.02, 0.0, 0.03]
    >>> holm([0.6, 0.5])
    [0.0, 0.025]
    """
    ranked = sorted((p, number) for number, p in enumerate(p_values) if p is not None)
    levels = [0.0] * len(p_values)
    for rank, (p, number) in enumerate(ranked):
        levels[number] = error / (len(ranked) - rank)
        if p > levels[number]:
            break
    return levels


def rulings(claims: Sequence[Assessed], error: float = ERROR) -> list[str]:
    """The verdict of each claim of a page, or of one look at it, which may spend a part of the error.

    >>> gains = ([0.11, 0.10, 0.12, 0.11], [-0.11, -0.10, -0.12, -0.11], [0.01, -0.01, 0.02, -0.02])
    >>> rulings([over_fits(gain, paper=0.06) for gain in gains])
    ['held', 'did not hold', "the paper's gain is excluded"]
    """
    decides = holm([claim.smallest for claim in claims], error)
    excludes = holm([claim.as_paper for claim in claims], error)
    return [_ruled(*one) for one in zip(claims, decides, excludes, strict=True)]


def _ruled(claim: Assessed, decides: float, excludes: float) -> str:
    if claim.no_loss is not None and claim.no_loss <= decides:
        return NOT_HELD
    if claim.none is not None and claim.none <= decides:
        return HELD
    if claim.as_paper is not None and claim.as_paper <= excludes:
        return EXCLUDED
    return CANNOT_TELL


def _doubled(p: float) -> float:
    """A one-sided p-value as a two-sided one."""
    return min(1.0, 2 * p)
