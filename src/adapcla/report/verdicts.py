"""The one judge: each claim with our number, the paper's number and a verdict that the interval decides."""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

from adapcla.metrics import Reference
from adapcla.metrics.intervals import mean_half
from adapcla.report.claims import CLAIMS, Claim
from adapcla.report.paper_numbers import told_difference
from adapcla.report.study import Measured, Study
from adapcla.report.tables import Line, Table, shown
from adapcla.tables import Cell

HELD, NOT_HELD, CANNOT_TELL = "held", "did not hold", "cannot tell"


class Verdict(NamedTuple):
    """What was found for a claim; positive differences speak for it."""

    claim: str
    whose: str
    ours: str
    paper: str
    verdict: str
    why: str


def difference(one: Measured, two: Measured, goal: str) -> Measured:
    """How much better `one` is, with an interval from both.

    >>> judged = difference(Measured(0.5, 0.4, 0.6, 1), Measured(0.2, 0.1, 0.3, 1), "up")
    >>> round(judged.value, 3), round(judged.low, 3), round(judged.high, 3)
    (0.3, 0.159, 0.441)
    """
    sign = -1.0 if goal == "down" else 1.0
    value = sign * (one.value - two.value)
    halves = [side.half for side in (one, two) if side.half is not None]
    if len(halves) < 2:
        return Measured(value, None, None, min(one.n, two.n))
    half = math.hypot(*halves)
    return Measured(value, value - half, value + half, min(one.n, two.n))


def paired(one: dict[int, float], two: dict[int, float], goal: str) -> Measured | None:
    """How much better `one` is, over the fit seeds that both have; None for fewer than two.

    The same seed gives the same patients in the same order, so that its luck is on both sides.

    >>> judged = paired({1: 0.5, 2: 0.7, 3: 0.6}, {1: 0.4, 2: 0.6, 3: 0.5}, "up")
    >>> round(judged.value, 3), round(judged.high - judged.low, 3), judged.n
    (0.1, 0.0, 3)
    """
    fits = sorted(one.keys() & two.keys())
    if len(fits) < 2:
        return None
    sign = -1.0 if goal == "down" else 1.0
    gains = [sign * (one[fit] - two[fit]) for fit in fits]
    value, half = statistics.mean(gains), mean_half(gains)
    return Measured(value, value - half, value + half, len(fits))


def decided(gain: Measured, margin: float = 0.0) -> str:
    """The verdict of a difference, by its interval: wholly below zero, wholly above minus the margin, or neither.

    >>> [decided(Measured(0.0, low, high, 1)) for low, high in ((0.1, 0.5), (-0.5, -0.1), (-0.1, 0.3))]
    ['held', 'did not hold', 'cannot tell']
    >>> decided(Measured(0.0, -0.1, 0.3, 1), margin=0.2)
    'held'
    """
    if gain.low is None or gain.high is None:
        return CANNOT_TELL
    return NOT_HELD if gain.high < 0 else HELD if gain.low > -margin else CANNOT_TELL


class Side(NamedTuple):
    """One side of a comparison: its number, and the number of each of its fits."""

    measured: Measured
    by_fit: dict[int, float]

    def distance(self, real: Measured) -> Side:
        """How far this side is from real patients, where it should match them.

        >>> round(Side(Measured(0.1, 0.08, 0.12, 1), {}).distance(Measured(0.15, None, None, 1)).measured.value, 3)
        0.05
        """
        value, half = abs(self.measured.value - real.value), self.measured.half
        low, high = (None, None) if half is None else (value - half, value + half)
        fits = {fit: abs(number - real.value) for fit, number in self.by_fit.items()}
        return Side(Measured(value, low, high, self.measured.n), fits)


def side(study: Study, row: str, metric: str, stratum: str = "all", **where: str) -> Side | None:
    """What a study measured of a row; None where it did not."""
    measured = study.measured(row, metric, stratum, **where)
    return None if measured is None else Side(measured, study.by_fit(row, metric, stratum, **where))


def gain(one: Side, two: Side, goal: str, real: Measured | None = None) -> Measured:
    """How much better `one` is: paired by fit seed where both have several, else with an interval from both."""
    if real is not None:
        one, two, goal = one.distance(real), two.distance(real), "down"
    return paired(one.by_fit, two.by_fit, goal) or difference(one.measured, two.measured, goal)


def to_match(study: Study, metric: str, stratum: str = "all") -> Measured | None:
    """The number of real patients, for a metric that should match it; None for others."""
    return study.measured(Reference.REAL_TEST, metric, stratum) if study.goal(metric) == "match" else None


def verdict(study: Study, claim: Claim) -> Verdict | None:
    """What a study says of a claim; None where it did not run the rows or the metric."""
    one, two = (side(study, row, claim.metric, claim.stratum) for row in (claim.row, claim.other))
    if one is None or two is None:
        return _lost_tail(study, claim, one, two)
    goal, real = study.goal(claim.metric), to_match(study, claim.metric, claim.stratum)
    if goal == "match" and real is None:
        return None
    better = gain(one, two, goal, real)
    interval = "no interval" if better.low is None else f"[{_signed(better.low)}, {_signed(better.high)}]"
    beside = "" if real is None else f" (real {shown(real.value)})"
    why = f"{shown(one.measured.value)} against {shown(two.measured.value)}{beside}"
    why += f"; gain {_signed(better.value)} {interval}"
    why += f", {better.n} fit seeds, paired" if better.n > 1 else ", one fit: the interval is over patients"
    paper = told_difference(claim.row, claim.other, claim.metric, claim.stratum, "down" if real else goal)
    return Verdict(claim.text, claim.whose, _signed(better.value), paper, decided(better), why)


def _lost_tail(study: Study, claim: Claim, one: Side | None, two: Side | None) -> Verdict | None:
    """The verdict where one of the rows wrote no tail pair in any fit, so that its tail cannot be measured."""
    missing = claim.row if one is None else claim.other
    if (one is None) == (two is None) or not claim.metric.startswith("tail_"):
        return None
    scored = study.scores.filter(
        (study.scores["row"] == missing)
        & (study.scores["metric"] == "tail_pair_seen")
        & (study.scores["stratum"] == claim.stratum)
    )
    if scored.is_empty() or scored["value"].null_count() < scored.height:
        return None
    ruling = NOT_HELD if one is None else HELD
    return Verdict(claim.text, claim.whose, "–", "–", ruling, f"{missing} wrote no tail pair in any fit")


def steering_verdicts(study: Study) -> list[Verdict]:
    """Whether steering brought the population nearer to each target, by the paper's rule and by the closed loop."""
    out = []
    names = {(way["target"], row) for row in study.rows for way in study.ways(row)}
    for target, row in sorted(names):
        for mode, words in (("paper", "Steering by the paper's rule"), ("calibrated", "The closed loop")):
            rival = "none" if mode == "paper" else "paper"
            one, two = (side(study, row, "control_mae", target=target, mode=way) for way in (mode, rival))
            if one is None or two is None:
                continue
            better = gain(one, two, "down")
            beside = "not steering" if rival == "none" else "the paper's rule"
            numbers = f"{shown(one.measured.value)} against {shown(two.measured.value)}"
            why = f"mean gap of prevalence {numbers} of {beside}"
            paper = "–" if mode == "calibrated" else "AUPRC .922 on the target (IV to III)"
            text = f"{words} brings {row} nearer to the population “{target}” than {beside}"
            whose = "paper" if mode == "paper" else "this project"
            out.append(Verdict(text, whose, _signed(better.value), paper, decided(better), why))
    return out


#: Share of copies beyond chance that is as good as none.
COPIES = 0.001
#: Rows that stand for a reference.
_NO_METHODS = ("marginal",)


def privacy_verdicts(study: Study) -> list[Verdict]:
    """Whether each row copies training patients more than chance would."""
    out = []
    for row in study.rows:
        excess = study.measured(row, "rare_copy_excess") or study.measured(row, "copy_excess")
        attack = study.measured(row, "membership_auc")
        if excess is None or excess.low is None or excess.high is None or row in _NO_METHODS:
            continue
        why = f"excess of copies {shown(excess.value)} [{shown(excess.low)}, {shown(excess.high)}]"
        why += "" if attack is None else f"; strongest attack {shown(attack.value)} (0.5 guesses)"
        ruling = decided(Measured(-excess.value, -excess.high, -excess.low, excess.n), COPIES)
        text = f"{row} does not copy rare training patients"
        out.append(Verdict(text, "this project", shown(excess.value), "–", ruling, why))
    return out


def verdicts(study: Study) -> list[Verdict]:
    """Everything that a study can say of the claims, in order."""
    judged = [verdict(study, claim) for claim in CLAIMS]
    return [*(one for one in judged if one is not None), *steering_verdicts(study), *privacy_verdicts(study)]


def not_assessed(study: Study) -> list[str]:
    """The claims that a study did not look at, with the rows it would need."""
    out = []
    for claim in CLAIMS:
        missing = [row for row in (claim.row, claim.other) if row not in study.rows]
        if missing:
            out.append(f"{claim.text} (needs {', '.join(missing)})")
    return out


def verdict_table(study: Study) -> Table | None:
    """The verdicts as a table; None where there are none."""
    lines = []
    for one in verdicts(study):
        texts = (one.claim, one.whose, one.ours, one.paper, one.verdict)
        cells = [Cell(text) for text in texts]
        cells[2] = Cell(one.ours, None, one.why)
        lines.append(Line(tuple(cells), one.verdict.replace(" ", "-")))
    if not lines:
        return None
    caption = (
        "Positive numbers speak for the claim. Held and did not hold need a 95 % interval that leaves out zero; "
        "otherwise the run cannot tell. Several fits are paired by seed. With one fit the interval is over patients "
        "and knows nothing of training luck."
    )
    columns = ("claim", "whose", "our gain", "paper's gain", "verdict")
    return Table("verdicts", "What held here", caption, columns, tuple(lines), always_open=True)


def _signed(value: float | None) -> str:
    """A number with its sign."""
    if value is None:
        return "–"
    return f"{value:+.4f}" if abs(value) < 0.01 else f"{value:+.3f}"
