"""The gate: which privacy limits a synthetic cohort keeps, line by line, decided by interval. It fails closed.

A line is *met* where the upper bound keeps the limit, *exceeded* where the lower bound lies beyond it, and *not shown*
where the limit is inside the interval or nothing could be computed. Bounds are one-sided 95 % bounds, corrected for the
number of lines and of planned attempts. Released is only what meets every line; a line that is not shown may be
accepted by somebody who says why, one that is exceeded never. A line that by construction concerns nobody is met.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from scipy import stats

from adapcla.data import Cohort
from adapcla.errors import GateError, UsageError, nearest
from adapcla.evaluation.bootstrap import normal_half
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.metric import METRICS
from adapcla.evaluation.privacy.groups import EXPOSED, NOBODY, RARE, UNIQUE_PAIR
from adapcla.evaluation.privacy.membership import DATA_ATTACKS
from adapcla.evaluation.privacy.singletons import FEW
from adapcla.seeds import random_stream

#: The chance that somewhere in the gate a bound is wrong.
CHANCE = 0.05
#: A line whose upper bound stays below this distance from no leak is good; else it is fair.
GOOD = 0.03


class Outcome(StrEnum):
    """What is known of a line."""

    MET = "met"
    NOT_SHOWN = "not shown"
    EXCEEDED = "exceeded"


class Limit(NamedTuple):
    """One line of the gate: a score, the value it has when nothing leaks, and what it may not exceed."""

    key: str
    stratum: str
    no_leak: float
    limit: float
    #: Scores that `key` is the highest of: all of them must keep the limit.
    highest_of: tuple[str, ...] = ()
    #: Strata that are part of `stratum`: none of them may be shown above a limit of its own.
    parts: tuple[str, ...] = ()
    limit_of_parts: float = 0.0

    @property
    def name(self) -> str:
        """How the line is called: the score, and the stratum where it is not everybody."""
        return self.key if self.stratum == ALL else f"{self.key} [{self.stratum}]"


_ATTACKS = tuple(f"membership_{attack}_auc" for attack in DATA_ATTACKS)
_HOLDERS = tuple(str(c) for c in range(1, FEW + 1))
#: The limits of data. Copies have less than .01, which many controls show to be kept where one patient in a hundred is.
LIMITS = (
    Limit("copy_excess", ALL, 0.0, 0.0075),
    Limit("rare_copy_excess", ALL, 0.0, 0.0075),
    Limit("near_copy_excess", ALL, 0.0, 0.03),
    Limit("singleton_visit_gap", ALL, 0.0, 0.05),
    Limit("pair_holder_gap", ALL, 0.0, 0.05, parts=_HOLDERS, limit_of_parts=0.10),
    Limit("triple_holder_gap", ALL, 0.0, 0.05, parts=_HOLDERS, limit_of_parts=0.10),
    Limit("singleton_transition_gap", ALL, 0.0, 0.10),
    Limit("membership_auc", ALL, 0.5, 0.58, _ATTACKS),
    Limit("membership_auc", EXPOSED, 0.5, 0.58, _ATTACKS, (RARE, UNIQUE_PAIR), 0.58),
    Limit("attribute_residual", ALL, 0.0, 0.09),
    Limit("value_attack", ALL, 0.0, 0.09),
)
#: The limits of a model that is given away: what somebody who holds its weights can find out about members.
MODEL_LIMITS = tuple(
    Limit(f"membership_{attack}_auc", stratum, 0.5, 0.58)
    for attack in ("likelihood", "lira")
    for stratum in (ALL, EXPOSED)
)


@dataclass(frozen=True)
class GateLine:
    """What was found of one line; `value` is None where it could not be assessed, and `note` says why.

    >>> print(GateLine("copy_excess", "exceeded", 0.02, 0.015, 0.025, 0.01))
    exceeded  copy_excess: 0.02, between 0.015 and 0.025; limit 0.01
    """

    name: str
    outcome: str
    value: float | None
    low: float | None
    upper: float | None
    limit: float
    note: str = ""
    #: The value where nothing leaks.
    no_leak: float = 0.0
    #: What the value rests on, or how many people the line concerns.
    n: int = 0
    #: Every score that was looked at, with its value and its bounds.
    evidence: dict[str, list[float | None]] = field(default_factory=dict)
    #: Why somebody released with this line though it is not shown to be kept; empty where nobody had to.
    accepted: str = ""

    @property
    def passed(self) -> bool:
        """Whether it stands in the way of a release no more."""
        return self.outcome == Outcome.MET or bool(self.accepted)

    @property
    def verdict(self) -> str:
        """The outcome for people.

        >>> GateLine("copy_excess", "not shown", 0.002, -0.01, 0.02, 0.01, accepted="for partners").verdict
        'not shown, accepted'
        >>> GateLine("copy_excess", "met", 0.0, -0.01, 0.005, 0.01).verdict
        'met, good'
        """
        if self.accepted:
            return f"{self.outcome}, accepted"
        if self.outcome == Outcome.MET and self.upper is not None:
            return f"{self.outcome}, {'good' if self.upper - self.no_leak < GOOD else 'fair'}"
        return "concerns nobody" if self.outcome == Outcome.MET else self.outcome

    def __str__(self) -> str:
        rest = "".join(f"; {part}" for part in (self.note, self.accepted and f"accepted: {self.accepted}") if part)
        if self.value is None:
            return f"{self.verdict}  {self.name}{rest}"
        bounds = f", between {self.low:.3g} and {self.upper:.3g}"
        return f"{self.verdict}  {self.name}: {self.value:.3g}{bounds}; limit {self.limit:g}{rest}"


Scores = Mapping[str, Mapping[str, Score]]


def decide(scores: Scores, limit: Limit, chances: int = 1) -> GateLine:
    """The outcome of one line where so many lines and attempts share the chance of being wrong.

    >>> few, many = ({"copy_excess": {"all": Score(0.002, 900, 0.002 - w, 0.002 + w)}} for w in (0.02, 0.004))
    >>> decide(few, LIMITS[0]).outcome, decide(many, LIMITS[0]).outcome
    ('not shown', 'met')
    >>> decide({"copy_excess": {"all": Score(0.03, 900, 0.01, 0.05)}}, LIMITS[0]).outcome
    'exceeded'
    """
    headline = _headline(scores, limit)
    if headline.value is None:
        outcome = Outcome.MET if headline.reason.startswith(NOBODY) else Outcome.NOT_SHOWN
        unknown = (None, None, None)
        return GateLine(limit.name, outcome.value, *unknown, limit.limit, headline.reason, limit.no_leak, headline.n)
    others = [(key, limit.stratum, limit.limit) for key in limit.highest_of]
    others += [(limit.key, stratum, limit.limit_of_parts) for stratum in limit.parts]
    known = {(key, stratum): scores.get(key, {}).get(stratum) for key, stratum, _ in others}
    seen = [(known[key, stratum], most, key, stratum) for key, stratum, most in others]
    beyond = [(headline, limit.limit, limit.key, limit.stratum), *seen]
    # Every score that is looked at is one more chance to look like a leak.
    many = chances * max(len(beyond), 1)
    exceeded = [place for score, most, *place in beyond if score and _is_beyond(score, most, many)]
    must_keep = [headline, *(known[key, limit.stratum] for key in limit.highest_of)]
    highs = [float("inf") if score is None else _bounds(score, chances)[1] for score in must_keep]
    # The highest of several may be the most certain of them.
    low, high = _bounds(headline, chances)[0], max(float("inf") if each is None else each for each in highs)
    outcome = Outcome.EXCEEDED if exceeded else Outcome.MET if high <= limit.limit else Outcome.NOT_SHOWN
    shown = [f"shown by {key if key != limit.key else stratum}" for key, stratum in exceeded]
    elsewhere = "" if not exceeded or [limit.key, limit.stratum] in exceeded else shown[0]
    return GateLine(
        limit.name,
        outcome.value,
        headline.value,
        low,
        high,
        limit.limit,
        "; ".join(part for part in (elsewhere, headline.reason) if part),
        limit.no_leak,
        headline.n,
        {
            f"{key} [{stratum}]": [score.value, *_bounds(score, chances)]
            for score, _, key, stratum in beyond
            if score is not None and score.value is not None
        },
    )


def _headline(scores: Scores, limit: Limit) -> Score:
    """The score that a line is about, without a value and with the reason where there is none."""
    strata = scores.get(limit.key, {})
    if limit.stratum in strata:
        return strata[limit.stratum]
    absent = strata.get(ALL, Missing("not among the scores").score)
    return Missing(absent.reason or "no score for this stratum", absent.n).score


def error_of(score: Score) -> float:
    """The standard error of a score, from its 95 % interval; the longer half, where an end of the scale cuts one off.

    >>> round(error_of(Score(0.98, 9, 0.96, 1.0)), 4)
    0.0102
    """
    if score.value is None or score.low is None or score.high is None:
        return float("inf")
    return max(score.value - score.low, score.high - score.value) / normal_half()


def _bounds(score: Score, chances: int) -> tuple[float | None, float | None]:
    """One-sided bounds of a score; none where it has no value."""
    if score.value is None:
        return None, None
    half = reach(chances) * error_of(score)
    return score.value - half, score.value + half


def _is_beyond(score: Score, most: float, chances: int) -> bool:
    """Whether a score is shown to lie above a limit."""
    low, _ = _bounds(score, chances)
    return low is not None and low > most


def reach(chances: int) -> float:
    """Standard errors from a value to its one-sided bound, where so many bounds share the chance of being wrong.

    >>> round(reach(1), 3), round(reach(12), 3)
    (1.645, 2.638)
    """
    return float(stats.norm.ppf(1 - CHANCE / chances))


def gate(scores: Scores, limits: Sequence[Limit] = LIMITS, tries: int = 1) -> list[GateLine]:
    """The lines of the gate from scores by metric and stratum; all limits, in order.

    Args:
        scores: Scores by metric and stratum.
        limits: The lines.
        tries: Attempts that are planned on the same patients; each is one more chance to pass by luck.

    >>> [line.outcome for line in gate({}, LIMITS[:1])]
    ['not shown']
    """
    chances = _chances(scores, limits, tries)
    return [decide(scores, limit, chances) for limit in limits]


def _chances(scores: Scores, limits: Sequence[Limit], tries: int) -> int:
    """Bounds that share the chance of being wrong; a line that concerns nobody has none."""
    concerned = (not _headline(scores, limit).reason.startswith(NOBODY) for limit in limits)
    return max(sum(concerned), 1) * tries


def gate_keys(limits: Sequence[Limit] = LIMITS) -> list[str]:
    """The metrics that the gate needs."""
    return list(dict.fromkeys(key for limit in limits for key in (limit.key, *limit.highest_of)))


def accept(lines: Sequence[GateLine], names: Collection[str], reason: str) -> list[GateLine]:
    """The lines, of which the named ones pass where they are not shown; what is exceeded stays refused.

    >>> unclear = GateLine("a", "not shown", 0.1, 0.0, 0.2, 0.15)
    >>> broken = GateLine("b", "exceeded", 0.2, 0.18, 0.22, 0.15)
    >>> [line.verdict for line in accept([unclear, broken], ["a", "b"], "few patients, partners under agreement")]
    ['not shown, accepted', 'exceeded']
    """
    return [
        replace(line, accepted=reason) if line.name in names and line.outcome == Outcome.NOT_SHOWN else line
        for line in lines
    ]


def require_known(names: Collection[str], reason: str) -> None:
    """Raise where a name to be accepted is no line of the gate, or where nobody says why.

    >>> require_known(["copy_excess"], "partners under agreement")
    """
    known = [limit.name for limit in (*LIMITS, *MODEL_LIMITS)]
    for name in names:
        if name not in known:
            raise UsageError(f"--accept {name!r}\nexpected: {', '.join(known)}\nto do: {nearest(name, known)}")
    if names and not reason.strip():
        raise UsageError('--accept without a reason\nto do: say why with --reason "…"; it stands on page and card')


def require(lines: Sequence[GateLine]) -> None:
    """Raise, naming the lines, unless all lines passed.

    >>> require([GateLine("copy_excess", "met", 0.0, 0.0, 0.001, 0.01)])
    """
    failed = [line for line in lines if not line.passed]
    if failed:
        raise GateError("\n".join([f"privacy gate: {len(failed)} of {len(lines)} lines not met", *map(str, failed)]))


# ---- before training ----------------------------------------------------------------------------------------
#: Lines of what is written, or read off, more often the more synthetic patients there are, though nothing leaks.
WRITTEN_BY_CHANCE = (
    "singleton_visit_gap",
    "pair_holder_gap",
    "triple_holder_gap",
    "singleton_transition_gap",
    "attribute_residual",
    "value_attack",
)


class Detectable(NamedTuple):
    """What so many patients can show of a line: half of its interval, and whether data without a leak would meet it."""

    limit: float
    half_width: float | None
    shown: bool
    note: str = ""


def detectable(train: Cohort, control: Cohort, valid: Cohort, seed: int = 1, tries: int = 1) -> dict[str, Detectable]:
    """Which lines so many patients can show, before anything is trained: real patients in the place of synthetic ones.

    A line can be shown where at least 19 of 20 cohorts without a leak would meet it. Validation patients are fewer than
    those who will be released and write fewer sets, of which intervals would come out up to a half too narrow. For such
    lines half of the training patients stand in with them, and the other half are the members.

    Args:
        train: The training patients.
        control: The control patients.
        valid: The patients of validation.
        seed: Of the groups that are drawn.
        tries: Attempts that are planned.
    """
    order = random_stream(seed, "privacy/half stands in").permutation(train.n_patients)
    ones, others = (train.subset(np.sort(half)) for half in np.array_split(order, 2))
    small = Comparison.of(train, control, valid, control, seed)
    large = Comparison.of(ones, control, others.followed_by(valid), control, seed)
    scores = {key: METRICS[key].compute(large if key in WRITTEN_BY_CHANCE else small) for key in gate_keys()}
    return {limit.name: _detectable(scores, limit, _chances(scores, LIMITS, tries)) for limit in LIMITS}


def _detectable(scores: Scores, limit: Limit, chances: int) -> Detectable:
    """What can be shown of one line, from the scores of data that leak nothing."""
    line = decide(scores, limit, chances)
    if line.value is None:
        return Detectable(limit.limit, None, line.outcome == Outcome.MET, line.note)
    error = max(error_of(scores[key][limit.stratum]) for key in (limit.key, *limit.highest_of))
    enough = limit.no_leak + (reach(chances) + reach(1)) * error <= limit.limit
    return Detectable(limit.limit, reach(chances) * error, enough)
