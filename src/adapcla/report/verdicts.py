"""Each claim with our number, the paper's number and a verdict that the interval decides."""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

from adapcla.report.paper_numbers import told_difference
from adapcla.report.study import Measured, Study, student_half
from adapcla.report.tables import Line, Table, shown
from adapcla.tables import Cell

HELD, NOT_HELD, CANNOT_TELL = "held", "did not hold", "cannot tell"


class Claim(NamedTuple):
    """That one row is better than another on a metric."""

    text: str
    row: str
    other: str
    metric: str
    stratum: str = "all"
    #: Whose claim it is: the paper's, or a control or method of this project.
    whose: str = "paper"


class Verdict(NamedTuple):
    """What was found for a claim; positive differences speak for it."""

    claim: str
    whose: str
    ours: str
    paper: str
    verdict: str
    why: str


_TAIL_WORDS = (
    ("tail_pair_seen", "rare20", "puts more of its tail pairs where training has them"),
    ("tail_ctx_jsd", "rare20", "gives tail codes truer neighbours (TailCtxJSD)"),
    ("tail_topk_jac", "rare20", "finds more of the top neighbours of tail codes (TailTopKJac)"),
)
CLAIMS = (
    *(Claim(f"AdaPCLA {words} than HALO", "adapcla", "halo", key, cut) for key, cut, words in _TAIL_WORDS),
    Claim(
        "… also when both write as many codes and tail codes a visit",
        "adapcla",
        "halo",
        "tail_pair_seen",
        "matched_codes:rare20",
    ),
    Claim("AdaPCLA trains better classifiers than HALO (AUPRC)", "adapcla", "halo", "tstr_auprc"),
    Claim("AdaPCLA trains better classifiers than Static-PCLA (AUPRC)", "adapcla", "static-pcla", "tstr_auprc"),
    Claim(
        "Annealing beats a bias that stays (TailPairSeen)", "adapcla", "static-pcla", "tail_pair_seen", "rare20"
    ),
    Claim(
        "A bias taken away only after training loses the tail (TailTopKJac)",
        "static-pcla",
        "static-pcla-train-only",
        "tail_topk_jac",
        "rare20",
    ),
    Claim("AdaPCLA's probabilities are better calibrated than HALO's (ECE)", "adapcla", "halo", "ece"),
    Claim("… and on the rarest labels", "adapcla", "halo", "ece", "tail"),
    *(
        Claim(f"The scaffold is the cause: AdaPCLA {words} than the same network and budget without it",
              "adapcla", "adapcla-no-scaffold", key, cut, "control")
        for key, cut, words in _TAIL_WORDS
    ),
    Claim(
        "… also when both write as many codes and tail codes a visit",
        "adapcla",
        "adapcla-no-scaffold",
        "tail_pair_seen",
        "matched_codes:rare20",
        "control",
    ),
    Claim(
        "The scaffold improves classifiers (AUPRC), at equal budget",
        "adapcla",
        "adapcla-no-scaffold",
        "tstr_auprc",
        "all",
        "control",
    ),
    Claim(
        "The sign matters: a reversed scaffold does worse (TailPairSeen)",
        "adapcla",
        "adapcla-reversed",
        "tail_pair_seen",
        "rare20",
        "control",
    ),
    Claim(
        "Codes of a visit that know each other: Tailwise gives tail codes truer neighbours than AdaPCLA",
        "tailwise",
        "adapcla",
        "tail_ctx_jsd",
        "matched",
        "this project",
    ),
    Claim(
        "… and pairs that held-out patients have",
        "tailwise",
        "adapcla",
        "tail_pair_seen_heldout",
        "matched",
        "this project",
    ),
    Claim(
        "What patients had before: with recall, how like visits are to the next is nearer to real than without",
        "tailwise",
        "tailwise-no-recall",
        "next_visit_jaccard",
        "all",
        "this project",
    ),
    Claim(
        "… and classifiers of the next visit are better (AUPRC)",
        "tailwise",
        "tailwise-no-recall",
        "tstr_next_auprc",
        "all",
        "this project",
    ),
)  # fmt: skip


def difference(one: Measured, two: Measured, goal: str) -> Measured:
    """How much better `one` is, with an interval from both.

    >>> found = difference(Measured(0.5, 0.4, 0.6, 1), Measured(0.2, 0.1, 0.3, 1), "up")
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
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

    >>> found = paired({1: 0.5, 2: 0.7, 3: 0.6}, {1: 0.4, 2: 0.6, 3: 0.5}, "up")
    >>> round(found.value, 3), round(found.high - found.low, 3), found.n
    (0.1, 0.0, 3)
    """
    fits = sorted(one.keys() & two.keys())
    if len(fits) < 2:
        return None
    sign = -1.0 if goal == "down" else 1.0
    gains = [sign * (one[fit] - two[fit]) for fit in fits]
    value, half = statistics.mean(gains), student_half(gains)
    return Measured(value, value - half, value + half, len(fits))


def decided(gain: Measured) -> str:
    """The verdict of a difference: the interval must leave out zero to say anything.

    >>> [decided(Measured(0.0, low, high, 1)) for low, high in ((0.1, 0.5), (-0.5, -0.1), (-0.1, 0.3))]
    ['held', 'did not hold', 'cannot tell']
    """
    if gain.low is None or gain.high is None:
        return CANNOT_TELL
    return HELD if gain.low > 0 else NOT_HELD if gain.high < 0 else CANNOT_TELL


def verdict(study: Study, claim: Claim) -> Verdict | None:
    """What a study says of a claim; None where it did not run the rows or the metric."""
    one, two = (study.measured(row, claim.metric, claim.stratum) for row in (claim.row, claim.other))
    if one is None or two is None:
        return None
    goal = study.goal(claim.metric)
    ours, theirs = (study.by_fit(row, claim.metric, claim.stratum) for row in (claim.row, claim.other))
    beside, real = "", None
    if goal == "match":
        real = study.measured("real test", claim.metric, claim.stratum)
        if real is None:
            return None
        beside, goal = f" (real {shown(real.value)})", "down"
        ours, theirs = ({fit: abs(value - real.value) for fit, value in side.items()} for side in (ours, theirs))
    gain = paired(ours, theirs, goal) or difference(_away(one, real), _away(two, real), goal)
    interval = "no interval" if gain.low is None else f"[{_signed(gain.low)}, {_signed(gain.high)}]"
    why = f"{shown(one.value)} against {shown(two.value)}{beside}; gain {_signed(gain.value)} {interval}"
    why += f", {gain.n} fit seeds, paired" if gain.n > 1 else ", one fit: the interval is over patients"
    paper = told_difference(claim.row, claim.other, claim.metric, claim.stratum, goal)
    return Verdict(claim.text, claim.whose, _signed(gain.value), paper, decided(gain), why)


def _away(found: Measured, real: Measured | None) -> Measured:
    """How far a number is from that of real patients, where it should match; else the number.

    >>> round(_away(Measured(0.1, 0.08, 0.12, 1), Measured(0.15, None, None, 1)).value, 3)
    0.05
    """
    if real is None:
        return found
    value, half = abs(found.value - real.value), found.half
    return Measured(value, None if half is None else value - half, None if half is None else value + half, found.n)


def steering_verdicts(study: Study) -> list[Verdict]:
    """Whether steering brought the population nearer to each target, by the paper's rule and by the closed loop."""
    out = []
    names = {(way["target"], row) for row in study.rows for way in study.ways(row)}
    for target, row in sorted(names):
        for mode, words in (("paper", "Steering by the paper's rule"), ("calibrated", "The closed loop")):
            rival = "none" if mode == "paper" else "paper"
            pair = [study.measured(row, "control_mae", target=target, mode=way) for way in (mode, rival)]
            if pair[0] is None or pair[1] is None:
                continue
            ours, theirs = (study.by_fit(row, "control_mae", target=target, mode=way) for way in (mode, rival))
            gain = paired(ours, theirs, "down") or difference(pair[0], pair[1], "down")
            beside = "not steering" if rival == "none" else "the paper's rule"
            why = f"mean gap of prevalence {shown(pair[0].value)} against {shown(pair[1].value)} of {beside}"
            told = "–" if mode == "calibrated" else "AUPRC .922 on the target (IV to III)"
            text = f"{words} brings {row} nearer to the population “{target}” than {beside}"
            whose = "paper" if mode == "paper" else "this project"
            out.append(Verdict(text, whose, _signed(gain.value), told, decided(gain), why))
    return out


def privacy_verdicts(study: Study) -> list[Verdict]:
    """Whether each row copies training patients more than chance would."""
    out = []
    for row in study.rows:
        found = study.measured(row, "rare_copy_excess") or study.measured(row, "copy_excess")
        attack = study.measured(row, "membership_auc")
        if found is None or found.high is None or row in ("train-copy", "real-test", "marginal"):
            continue
        why = f"excess of copies {shown(found.value)} [{shown(found.low)}, {shown(found.high)}]"
        why += "" if attack is None else f"; strongest attack {shown(attack.value)} (0.5 guesses)"
        ruling = NOT_HELD if (found.low or 0) > 0 else HELD if found.high < 0.001 else CANNOT_TELL
        out.append(
            Verdict(f"{row} does not copy rare training patients", "this project", shown(found.value), "–", ruling, why)
        )
    return out


def verdicts(study: Study) -> list[Verdict]:
    """Everything that a study can say of the claims, in order."""
    found = [verdict(study, claim) for claim in CLAIMS]
    return [*(one for one in found if one is not None), *steering_verdicts(study), *privacy_verdicts(study)]


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
