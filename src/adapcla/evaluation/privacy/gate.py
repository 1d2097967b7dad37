"""The gate: which privacy limits a synthetic cohort keeps, line by line, and the refusal that names the failed ones.

A limit on an upper bound can only be held where the data are many enough for a bound that tight: among 3,000 records
without a single copy the bound is still 6 in 10,000. So a line is judged by its upper bound where an honest cohort
would pass by it, and otherwise fails when a leak is shown: the value above the limit and beyond chance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from scipy import stats

from adapcla.errors import GateError, UsageError, nearest
from adapcla.evaluation.bootstrap import normal_half
from adapcla.evaluation.comparison import ALL, Missing, Score
from adapcla.evaluation.privacy.attacks import DATA_ATTACKS
from adapcla.evaluation.privacy.strata import BEYOND_PREVALENCE, NOBODY, RARE, UNIQUE_PAIR

#: One-sided chance of calling a line beyond chance when nothing leaked; and where an earlier try on the same patients
#: exceeded it: a leak that was shown once is not let through because another try measures it a little lower.
CHANCE, DOUBTED_CHANCE = 0.001, 0.05


class Limit(NamedTuple):
    """One line of the gate: a score, the value it has when nothing leaks, and what it may not exceed."""

    key: str
    stratum: str
    no_leak: float
    limit: float
    #: Whether the upper bound must keep the limit (where the data allow), or the value.
    by_upper_bound: bool
    #: Scores that `key` is the highest of. Each is judged where it is known: the highest may be the least certain.
    each: tuple[str, ...] = ()
    #: The stratum that is judged in its place in scores from before there was this one.
    before: str = ""

    @property
    def name(self) -> str:
        """How the line is called: the score, and the stratum where it is not everybody."""
        return self.key if self.stratum == ALL else f"{self.key} [{self.stratum}]"

    @property
    def tries(self) -> int:
        """Scores that are judged; each is one more chance to look like a leak."""
        return max(1, len(self.each))


_ATTACKS = tuple(f"membership_{attack}_auc" for attack in DATA_ATTACKS)
#: The default limits.
LIMITS = (
    Limit("copy_excess", ALL, 0.0, 1e-4, True),
    Limit("rare_copy_excess", ALL, 0.0, 1e-4, True),
    Limit("near_copy_excess", ALL, 0.0, 0.01, False),
    # That codes of many patients come as often as in training is no secret, and brings a gap of its own.
    Limit("unique_pair_gap", BEYOND_PREVALENCE, 0.0, 0.01, False, before=ALL),
    Limit("membership_auc", ALL, 0.5, 0.58, True, _ATTACKS),
    Limit("membership_auc", RARE, 0.5, 0.58, True, _ATTACKS),
    Limit("membership_auc", UNIQUE_PAIR, 0.5, 0.58, True, _ATTACKS),
    Limit("attribute_residual", ALL, 0.0, 0.09, False),
)
#: The limits of a model that is given away: what somebody who holds its weights can tell of members.
MODEL_LIMITS = tuple(
    Limit(f"membership_{attack}_auc", stratum, 0.5, 0.58, True)
    for attack in ("likelihood", "reference", "lira")
    for stratum in (ALL, RARE, UNIQUE_PAIR)
)


@dataclass(frozen=True)
class GateLine:
    """The outcome of one line of the gate; `value` is None where it could not be assessed, and `note` says why.

    >>> print(GateLine("copy_excess", 0.02, 0.03, 1e-4, False, "by a leak beyond chance"))
    FAILED  copy_excess: 0.02 (upper bound 0.03), limit 0.0001; by a leak beyond chance
    """

    name: str
    value: float | None
    upper: float | None
    limit: float
    passed: bool
    note: str = ""
    #: Why somebody released with this line though it was not shown to be kept; empty where nobody had to.
    accepted: str = ""

    @property
    def verdict(self) -> str:
        """What a person reads: a value above its limit is never called kept, even where chance may explain it.

        >>> GateLine("unique_pair_gap", 0.09, 0.17, 0.01, True).verdict
        'not shown'
        """
        if self.accepted:
            return "not shown, accepted"
        if self.value is None:
            return "concerns nobody" if self.passed else "not assessed"
        if not self.passed:
            return "exceeded"
        return "kept" if self.value <= self.limit else "not shown"

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.verdict}  {self.name}: {self.note}" + (f"; {self.accepted}" if self.accepted else "")
        bound = "" if self.upper is None else f" (upper bound {self.upper:.3g})"
        verdict = "passed" if self.passed else "FAILED"
        return f"{verdict}  {self.name}: {self.value:.3g}{bound}, limit {self.limit:g}" + (
            f"; {self.note}" if self.note else ""
        )


def judge(score: Score, limit: Limit, chance: float = CHANCE) -> GateLine:
    """The gate's line for one score.

    >>> few = judge(Score(0.0, 3000, -6e-4, 6e-4), LIMITS[0])
    >>> many = judge(Score(2e-4, 90_000, 1.8e-4, 2.2e-4), LIMITS[0])
    >>> shown = judge(Score(0.02, 3000, 0.015, 0.025), LIMITS[0])
    >>> few.passed, many.passed, shown.passed
    (True, False, False)
    """
    name = limit.name
    if score.value is None:
        return GateLine(name, None, None, limit.limit, score.reason.startswith(NOBODY), score.reason)
    low = score.value if score.low is None else score.low
    high = score.value if score.high is None else score.high
    beyond = float(stats.norm.ppf(1 - chance / limit.tries)) / normal_half()
    # An honest value may lie `beyond` half-widths above its no-leak value, and its upper bound one more.
    if limit.by_upper_bound and (1 + beyond) * (high - score.value) <= limit.limit - limit.no_leak:
        passed, rule = high <= limit.limit, "by the upper bound"
    else:
        shown = score.value - beyond * (score.value - low) > limit.no_leak
        passed = score.value <= limit.limit or not shown
        rule = "too few for the upper bound: by the value" if limit.by_upper_bound else "by the value"
        if passed and score.value > limit.limit:
            rule += ", which chance may explain with so few patients"
    note = "; ".join(part for part in (rule, score.reason) if part)
    return GateLine(name, score.value, high, limit.limit, passed, note)


def gate(
    scores: Mapping[str, Mapping[str, Score]], limits: Sequence[Limit] = LIMITS, doubted: Collection[str] = ()
) -> list[GateLine]:
    """The lines of the gate from scores by metric and stratum; all limits, in order.

    A line that cannot be assessed does not pass, unless by construction it concerns nobody. Lines that are doubted, by
    name, are called beyond chance earlier.

    >>> limits = [limit for limit in LIMITS if limit.key == "attribute_residual"]
    >>> unclear = {"attribute_residual": {"all": Score(0.12, 90, 0.02, 0.22)}}
    >>> [gate(unclear, limits, doubted=seen)[0].passed for seen in ((), ("attribute_residual",))]
    [True, False]
    >>> [line.passed for line in gate({}, limits)]
    [False]
    """
    lines = []
    for limit in limits:
        chance = DOUBTED_CHANCE if limit.name in doubted else CHANCE
        of_metric = scores.get(limit.key, {})
        absent = of_metric.get(ALL, Missing("not among the scores").score)
        missing = Missing(absent.reason or "no score for this stratum").score
        stratum = limit.stratum if limit.stratum in of_metric else limit.before
        line = judge(of_metric.get(stratum, missing), limit, chance)
        shown = _shown_otherwise(scores, limit, chance) if line.passed else None
        lines.append(line if shown is None else shown)
    return lines


def _shown_otherwise(scores: Mapping[str, Mapping[str, Score]], limit: Limit, chance: float) -> GateLine | None:
    """The failed line of the first score below the highest that shows a leak; None where none does."""
    for key in limit.each:
        score = scores.get(key, {}).get(limit.stratum)
        line = None if score is None else judge(score, limit, chance)
        if line is not None and not line.passed:
            return replace(line, note=f"{line.note}; shown by {key}")
    return None


def accept(lines: Sequence[GateLine], names: Collection[str], reason: str) -> list[GateLine]:
    """The lines, of which the named ones pass where they could not be assessed; what is exceeded stays refused.

    >>> unclear, broken = GateLine("a", None, None, 0.1, False), GateLine("b", 0.2, 0.3, 0.1, False)
    >>> [line.verdict for line in accept([unclear, broken], ["a", "b"], "few patients, partners under agreement")]
    ['not shown, accepted', 'exceeded']
    """
    return [
        replace(line, passed=True, accepted=reason)
        if line.name in names and line.value is None and not line.passed
        else line
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
    """Raise, naming the failed lines, unless all lines passed.

    >>> require([GateLine("copy_excess", 0.0, 0.0, 1e-4, True)])
    """
    failed = [line for line in lines if not line.passed]
    if failed:
        raise GateError("\n".join([f"privacy gate: {len(failed)} of {len(lines)} lines failed", *map(str, failed)]))
