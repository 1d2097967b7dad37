"""The one judge: each claim with our number, the paper's number and a verdict that the interval decides."""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adapcla.evaluation import Reference
from adapcla.evaluation.bootstrap import mean_half, spread
from adapcla.report.tables import Line, Table, shown
from adapcla.study.claims import CLAIMS, Claim
from adapcla.study.paper_numbers import paper_gains, told_gains
from adapcla.study.results import Measured, Study
from adapcla.study.ruling import (
    CANNOT_TELL,
    EXCLUDED,
    FEWEST_FITS,
    HELD,
    NOT_HELD,
    Assessed,
    Counts,
    over_fits,
    over_patients,
    rulings,
)
from adapcla.tables import Cell

#: Metrics that are shares of counted pairs.
_COUNTED = ("pair_seen", "tail_pair_seen", "pair_seen_heldout", "tail_pair_seen_heldout")


class Verdict(NamedTuple):
    """What was found for a claim; positive differences speak for it."""

    claim: str
    whose: str
    ours: str
    paper: str
    verdict: str
    why: str
    #: The claim in the words of `Claim.key`, or its text where it is not of the table.
    key: str = ""


class Examined(NamedTuple):
    """A claim with what a study measured of it, before the rule of the page decides."""

    claim: str
    whose: str
    paper: str
    numbers: str
    assessed: Assessed
    #: Whether one side has no number, because it wrote nothing of what is asked for.
    lost: bool = False
    #: The claim between rows that this is about; None where it is about steering or copies.
    of: Claim | None = None

    @property
    def key(self) -> str:
        """What tells the claim from all others."""
        return self.claim if self.of is None else self.of.key

    @property
    def ours(self) -> str:
        """The gain as text."""
        return "–" if self.lost else _signed(self.assessed.gain.value)

    @property
    def reason(self) -> str:
        """The numbers that the verdict rests on."""
        gain, p = self.assessed.gain, self.assessed.smallest
        parts = [self.numbers]
        if not self.lost:
            interval = "no interval" if gain.low is None else f"[{_signed(gain.low)}, {_signed(gain.high)}]"
            parts.append(f"gain {self.ours} {interval}, {gain.n} fit seed{'s' * (gain.n != 1)}")
        parts.append(self.assessed.lacking if p is None else f"p {shown(p)}")
        return "; ".join(parts)


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


def paired_gains(one: dict[int, float], two: dict[int, float], goal: str) -> list[float]:
    """How much better `one` is, for each fit seed that both have.

    The same seed gives the same patients in the same order, so that its luck is on both sides.

    >>> [round(gain, 3) for gain in paired_gains({1: 0.5, 2: 0.7, 3: 0.6}, {1: 0.4, 2: 0.9}, "up")]
    [0.1, -0.2]
    """
    sign = -1.0 if goal == "down" else 1.0
    return [sign * (one[fit] - two[fit]) for fit in sorted(one.keys() & two.keys())]


class Side(NamedTuple):
    """One side of a comparison: its number, the number of each of its fits, and under other draws of the judges."""

    measured: Measured
    by_fit: dict[int, float]
    redrawn: NDArray[np.float64] = np.zeros(0)

    def distance(self, real: Measured) -> Side:
        """How far this side is from real patients, where it should match them.

        >>> round(Side(Measured(0.1, 0.08, 0.12, 1), {}).distance(Measured(0.15, None, None, 1)).measured.value, 3)
        0.05
        """
        value, half = abs(self.measured.value - real.value), self.measured.half
        if half is not None and real.half is not None:
            half = math.hypot(half, real.half)
        low, high = (None, None) if half is None else (value - half, value + half)
        fits = {fit: abs(number - real.value) for fit, number in self.by_fit.items()}
        return Side(Measured(value, low, high, self.measured.n), fits)


def side(study: Study, row: str, metric: str, stratum: str = "all", **where: str) -> Side | None:
    """What a study measured of a row; None where it did not."""
    measured = study.measured(row, metric, stratum, **where)
    if measured is None:
        return None
    return Side(measured, study.by_fit(row, metric, stratum, **where), study.redrawn(row, metric, stratum, **where))


def shared_error(one: Side, two: Side) -> float:
    """The standard deviation of the difference of two sides over draws of the test patients that judge both.

    >>> number = Measured(0.5, None, None, 1)
    >>> shared_error(Side(number, {}, np.array([0.1, 0.3])), Side(number, {}, np.array([0.1, 0.3])))
    0.0
    """
    if len(one.redrawn) != len(two.redrawn):
        return math.hypot(spread(one.redrawn), spread(two.redrawn))
    return spread(one.redrawn - two.redrawn)


def gain(one: Side, two: Side, goal: str) -> Measured:
    """How much better `one` is: paired by fit seed where both have several, else with an interval from both."""
    gains = paired_gains(one.by_fit, two.by_fit, goal)
    if len(gains) < 2:
        return difference(one.measured, two.measured, goal)
    value, half = statistics.mean(gains), mean_half(gains, shared_error(one, two))
    return Measured(value, value - half, value + half, len(gains))


def to_match(study: Study, metric: str, stratum: str = "all") -> Measured | None:
    """The number of real patients, for a metric that should match it; None for others."""
    return study.measured(Reference.REAL_TEST, metric, stratum) if study.goal(metric) == "match" else None


def examined(study: Study, claim: Claim) -> Examined | None:
    """What a study says of a claim; None where it did not run the rows or the metric."""
    one, two = (side(study, row, claim.metric, claim.stratum) for row in (claim.row, claim.other))
    if one is None or two is None:
        return _lost_tail(study, claim, one, two)
    goal, real = study.goal(claim.metric), to_match(study, claim.metric, claim.stratum)
    if goal == "match" and real is None:
        return None
    beside = "" if real is None else f" (real {shown(real.value)})"
    why = f"{shown(one.measured.value)} against {shown(two.measured.value)}{beside}"
    if real is not None:
        one, two, goal = one.distance(real), two.distance(real), "down"
    paper = paper_gains(claim.row, claim.other, claim.metric, claim.stratum, goal)
    least = _least(paper, study.cohort)
    counts = None
    if claim.metric in _COUNTED:
        counts = Counts(
            *(n for row in (claim.row, claim.other) for n in study.counted(row, claim.metric, claim.stratum))
        )
    gains = paired_gains(one.by_fit, two.by_fit, goal)
    assessed = over_fits(gains, least, counts, shared_error(one, two))
    if not gains:
        assessed = assessed._replace(gain=difference(one.measured, two.measured, goal), lacking="no fit seed in common")
    # The paper's gain is kept where fits are too few for a test, so that a plan of more of them can aim at it.
    return Examined(claim.text, claim.whose, told_gains(paper), why, assessed._replace(paper=least), of=claim)


def claim_gains(study: Study, claim: Claim) -> pl.DataFrame | None:
    """The gain of each fit and sample that both rows have, in columns `fit`, `draw` and `gain`; None without any."""
    if study.scores.is_empty():
        return None
    goal, real = study.goal(claim.metric), to_match(study, claim.metric, claim.stratum)
    numbers = []
    for row in (claim.row, claim.other):
        table = study.scores.filter(
            (pl.col("row") == row) & (pl.col("metric") == claim.metric) & (pl.col("stratum") == claim.stratum)
        ).drop_nulls("value")
        value = pl.col("value") if real is None else (pl.col("value") - real.value).abs()
        numbers.append(table.select("fit", "draw", value))
    both = numbers[0].join(numbers[1], on=["fit", "draw"], suffix=" of other", maintain_order="left")
    if both.is_empty() or (goal == "match" and real is None):
        return None
    sign = -1.0 if goal in ("down", "match") else 1.0
    return both.select("fit", "draw", gain=sign * (pl.col("value") - pl.col("value of other")))


def _least(paper: dict[str, float], cohort: str) -> float | None:
    """The gain that the paper reports on this cohort, or the smaller one of its own; None where it has no gain."""
    gains = [paper[cohort]] if cohort in paper else list(paper.values())
    return min(gains) if gains and min(gains) > 0 else None


def _lost_tail(study: Study, claim: Claim, one: Side | None, two: Side | None) -> Examined | None:
    """What is said where one of the rows wrote no tail pair in any fit, so that its tail cannot be measured.

    Tail pairs among all pairs are counted then.
    """
    missing, other = (claim.row, claim.other) if one is None else (claim.other, claim.row)
    if (one is None) == (two is None) or not claim.metric.startswith("tail_"):
        return None
    scored = study.scores.filter(
        (study.scores["row"] == missing)
        & (study.scores["metric"] == "tail_pair_seen")
        & (study.scores["stratum"] == claim.stratum)
    )
    if scored.is_empty() or scored["value"].null_count() < scored.height:
        return None
    n_fits = min(scored["fit"].n_unique(), len(study.by_fit(other, "tail_pair_seen", claim.stratum)))
    tails = [study.counted(row, "tail_pair_seen", claim.stratum)[1] for row in (claim.row, claim.other)]
    pairs = [study.counted(row, "pair_seen")[1] for row in (claim.row, claim.other)]
    counts = Counts(tails[0], max(pairs[0], tails[0]), tails[1], max(pairs[1], tails[1]))
    # Every fit gives the same: one side none, the other some. The counts decide.
    assessed = over_fits([1.0 if two is None else -1.0] * n_fits, counts=counts)
    why = f"{missing} wrote no tail pair in any fit"
    return Examined(claim.text, claim.whose, "–", why, assessed, lost=True, of=claim)


def steering_claims(study: Study) -> list[Examined]:
    """Whether steering brought the population nearer to each target, by the paper's rule and by the closed loop."""
    out = []
    names = {(way["target"], row) for row in study.rows for way in study.ways(row)}
    for target, row in sorted(names):
        for mode, words in (("paper", "Steering by the paper's rule"), ("calibrated", "The closed loop")):
            rival = "none" if mode == "paper" else "paper"
            one, two = (study.over_patients(row, "control_mae", target=target, mode=way) for way in (mode, rival))
            if one is None or two is None:
                continue
            beside = "not steering" if rival == "none" else "the paper's rule"
            why = f"mean gap of prevalence {shown(one.value)} against {shown(two.value)} of {beside}"
            paper = "–" if mode == "calibrated" else "AUPRC .922 on the target (IV to III)"
            text = f"{words} brings {row} nearer to the population “{target}” than {beside}"
            whose = "paper" if mode == "paper" else "this project"
            out.append(Examined(text, whose, paper, why, over_patients(difference(one, two, "down"))))
    return out


#: Share of copies beyond chance that is as good as none.
COPIES = 0.001
#: Rows that stand for a reference.
_NO_METHODS = ("marginal",)


def privacy_claims(study: Study) -> list[Examined]:
    """Whether each row copies training patients more than chance would."""
    out = []
    for row in study.rows:
        excess = study.over_patients(row, "rare_copy_excess") or study.over_patients(row, "copy_excess")
        attack = study.measured(row, "membership_auc")
        if excess is None or excess.low is None or excess.high is None or row in _NO_METHODS:
            continue
        why = f"excess of copies {shown(excess.value)} [{shown(excess.low)}, {shown(excess.high)}]"
        why += "" if attack is None else f"; strongest attack {shown(attack.value)} (0.5 guesses)"
        assessed = over_patients(Measured(-excess.value, -excess.high, -excess.low, excess.n), COPIES)
        out.append(Examined(f"{row} does not copy rare training patients", "this project", "–", why, assessed))
    return out


def all_examined(study: Study) -> list[Examined]:
    """Everything that a study measured of claims, in order."""
    claims = [one for one in (examined(study, claim) for claim in CLAIMS) if one is not None]
    return [*claims, *steering_claims(study), *privacy_claims(study)]


def verdicts(study: Study) -> list[Verdict]:
    """Everything that a study can say of the claims, in order; where fits were added, what the looks decided stands."""
    claims, looks = all_examined(study), study.about.get("looks")
    if looks:
        decided = {key: word for look in reversed(looks) for key, word in look["decided"].items()}
        words = [decided.get(one.key, CANNOT_TELL) for one in claims]
    else:
        words = rulings([one.assessed for one in claims])
    ruled = zip(claims, words, strict=True)
    return [Verdict(one.claim, one.whose, one.ours, one.paper, word, one.reason, one.key) for one, word in ruled]


def not_assessed(study: Study) -> list[str]:
    """The claims that a study did not look at, with the rows it would need."""
    out = []
    for claim in CLAIMS:
        missing = [row for row in (claim.row, claim.other) if row not in study.rows]
        if missing:
            out.append(f"{claim.text} (needs {', '.join(missing)})")
    return out


#: How lines of each verdict are styled.
_KINDS = {HELD: "held", NOT_HELD: "did-not-hold", EXCLUDED: "excluded", CANNOT_TELL: "cannot-tell"}


def verdict_table(study: Study) -> Table | None:
    """The verdicts as a table; None where there are none."""
    lines = []
    for one in verdicts(study):
        texts = (one.claim, one.whose, one.ours, one.paper, one.verdict)
        cells = [Cell(text) for text in texts]
        cells[2] = Cell(one.ours, None, one.why)
        lines.append(Line(tuple(cells), _KINDS[one.verdict]))
    if not lines:
        return None
    caption = (
        "Positive numbers speak for the claim; intervals are 95 %, over fits paired by seed and, where test patients "
        "judge, over draws of them that both rows share; or over patients where a claim is about steering or copies. "
        f"A claim between rows needs {FEWEST_FITS} fits of each that differ among themselves, and a share of counted "
        "pairs also Fisher's exact test. P-values of the page are held against Holm's levels at 5 %. Where that does "
        "not decide but rules out a gain as large as the paper's, the paper's gain is excluded; otherwise the run "
        "cannot tell."
    ) + _told_looks(study)
    columns = ("claim", "whose", "our gain", "paper's gain", "verdict")
    return Table("verdicts", "What held here", caption, columns, tuple(lines), always_open=True)


def _told_looks(study: Study) -> str:
    """How often the claims were looked at, and what that cost."""
    looks = study.about.get("looks")
    if not looks:
        return ""
    spent = "; ".join(f"{look['fits']} fits, {100 * look['error']:.2f} %" for look in looks)
    return (
        f" Fits were added until claims were decided, and looking often is paid for: each look has its own part of the "
        f"5 % ({spent}), and a verdict is that of the first look that decided."
    )


def _signed(value: float | None) -> str:
    """A number with its sign; zero has that of a gain, whichever side it was rounded from.

    >>> _signed(0.0123), _signed(-0.0021), _signed(-0.0), _signed(None)
    ('+0.012', '-0.0021', '+0.0000', '–')
    """
    if value is None:
        return "–"
    return f"{round(value, 4) + 0.0:+.4f}" if abs(value) < 0.01 else f"{value:+.3f}"
