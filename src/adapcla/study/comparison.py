"""Paired comparisons of methods, and what they say of each claim.

A method is compared with another over the fit seeds that both have. Each seed divides the patients anew, but training
parts of two seeds overlap, so that their results are correlated and the plain paired t test is too sure. Nadeau and
Bengio (Inference for the generalization error, Machine Learning 52, 2003) correct its variance by the share of the test
patients. Claims of the paper are confirmatory and held to 5 % together by Holm's procedure; the rest is exploratory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from adapcla.evaluation import Reference
from adapcla.evaluation.bootstrap import LEVEL
from adapcla.study.paper import CLAIMS, Claim, format_gains, paper_gains
from adapcla.study.results import Study, corrected_error
from adapcla.tables import Cell, Line, Table, format_number

HELD, NOT_HELD, INCONCLUSIVE, EXPLORATORY = "held", "did not hold", "inconclusive", "exploratory"
#: Fit seeds that both methods of a claim must have: a variance over fewer is too often small by luck.
FEWEST_FITS = 4
#: Chance of any wrong “held” or “did not hold” among the confirmatory claims of a page.
ERROR = 0.05


class PairedComparison(NamedTuple):
    """How much better one method is than another: mean over shared seeds, 95 % interval, two-sided p-value."""

    gain: float
    low: float | None
    high: float | None
    p_value: float | None
    n: int


def paired_comparison(
    a: Mapping[int, float], b: Mapping[int, float], test_share: float, goal: str = "up"
) -> PairedComparison:
    """The corrected resampled t test of two methods over the seeds that both have (Nadeau & Bengio 2003).

    Args:
        a: Number of the first method by seed.
        b: Number of the other method by seed.
        test_share: Test patients as a share of training and test patients.
        goal: `up` where larger is better, `down` where smaller is.

    >>> found = paired_comparison({1: 0.5, 2: 0.7, 3: 0.6, 9: 0.1}, {1: 0.4, 2: 0.5, 3: 0.3}, test_share=0.2)
    >>> round(found.gain, 3), found.n, round(found.p_value, 3)
    (0.2, 3, 0.12)
    """
    sign = -1.0 if goal == "down" else 1.0
    d = np.array([sign * (a[seed] - b[seed]) for seed in sorted(a.keys() & b.keys())])
    gain = float(d.mean()) if len(d) else 0.0
    error = corrected_error(d, test_share)
    if not error > 0:  # fewer than two seeds, or every seed gives the same number
        return PairedComparison(gain, None, None, None, len(d))
    freedom = len(d) - 1
    half = float(stats.t.ppf(0.5 + LEVEL / 2, freedom)) * error
    p_value = 2 * float(stats.t.sf(abs(gain) / error, freedom))
    return PairedComparison(gain, gain - half, gain + half, p_value, len(d))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for all of them by Holm's procedure (1979): those of at most 5 % hold at 5 % together.

    >>> [round(p, 4) for p in holm([0.04, 0.01, 0.03])]
    [0.06, 0.03, 0.06]
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, number in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[number]))
        adjusted[number] = largest
    return adjusted


class ClaimResult(NamedTuple):
    """A claim with what a study measured of it; positive gains support it."""

    claim: Claim
    comparison: PairedComparison
    #: The numbers of both methods, and what was missing.
    reason: str
    #: The gains that the paper reports.
    paper: str = "–"
    verdict: str = EXPLORATORY
    #: P-value adjusted for all confirmatory claims; None for exploratory ones.
    adjusted: float | None = None


def evaluate_claims(study: Study) -> list[ClaimResult]:
    """Everything that a study says of the claims, in order, with the verdicts of the confirmatory ones."""
    found = [one for one in (_evaluate(study, claim) for claim in CLAIMS) if one is not None]
    found += _steering_results(study)
    confirmed = [number for number, one in enumerate(found) if one.claim.confirmatory and _p_value(one) is not None]
    adjusted = dict(zip(confirmed, holm([_p_value(found[number]) or 0.0 for number in confirmed]), strict=True))
    return [_with_verdict(one, adjusted.get(number)) for number, one in enumerate(found)]


def _p_value(result: ClaimResult) -> float | None:
    """The p-value that takes part in Holm's procedure; None where there are too few fits."""
    return result.comparison.p_value if result.comparison.n >= FEWEST_FITS else None


def _with_verdict(result: ClaimResult, adjusted: float | None) -> ClaimResult:
    """The result with its verdict; one that is decided already stays."""
    if not result.claim.confirmatory or result.verdict != EXPLORATORY:
        return result
    verdict = INCONCLUSIVE
    if adjusted is not None and adjusted <= ERROR:
        verdict = HELD if result.comparison.gain > 0 else NOT_HELD
    return result._replace(verdict=verdict, adjusted=adjusted)


def _evaluate(study: Study, claim: Claim) -> ClaimResult | None:
    """What a study measured of a claim; None where it did not run the methods or the metric."""
    numbers = [study.by_fit(row, claim.metric, claim.stratum) for row in (claim.row, claim.other)]
    if not all(numbers):
        return _without_tail(study, claim, numbers)
    goal = study.goal(claim.metric)
    means = [format_number(float(np.mean(list(each.values())))) for each in numbers]
    reason = f"{means[0]} against {means[1]}"
    if goal == "match":
        real = study.estimate(Reference.REAL_TEST, claim.metric, claim.stratum)
        if real is None:
            return None
        reason += f" (real data {format_number(real.value)})"
        numbers = [{seed: abs(value - real.value) for seed, value in each.items()} for each in numbers]
        goal = "down"
    comparison = paired_comparison(numbers[0], numbers[1], study.test_share, goal)
    paper = format_gains(paper_gains(claim.row, claim.other, claim.metric, claim.stratum, goal))
    return ClaimResult(claim, comparison, f"{reason}; {_in_words(comparison)}", paper)


def _in_words(comparison: PairedComparison) -> str:
    """Number of seeds, interval and p-value, or why there is none."""
    n = comparison.n
    if n < FEWEST_FITS:
        return f"{n} fit seed{'s' * (n != 1)} in common, {FEWEST_FITS} needed"
    if comparison.p_value is None:
        return f"all {n} fit seeds give the same difference"
    interval = f"[{format_signed(comparison.low)}, {format_signed(comparison.high)}]"
    return f"{interval} over {n} fit seeds, p {format_number(comparison.p_value)}"


def _without_tail(study: Study, claim: Claim, numbers: Sequence[Mapping[int, float]]) -> ClaimResult | None:
    """The result where one method generated no tail pair in any fit, so that its tail cannot be measured at all.

    With as many fits as a test needs, no test is needed: one side is empty and the other is not.
    """
    missing, other = (claim.row, numbers[1]) if not numbers[0] else (claim.other, numbers[0])
    if not claim.metric.startswith("tail_") or not other or study.scores.is_empty():
        return None
    scores = study.scores
    of_claim = (
        (scores["metric"] == "tail_pair_seen") & (scores["stratum"] == claim.stratum) & (scores["row"] == missing)
    )
    scored = scores.filter(of_claim)
    if scored.is_empty() or scored["value"].null_count() < scored.height:
        return None
    n = min(scored["fit"].n_unique(), len(other))
    verdict = INCONCLUSIVE
    if n >= FEWEST_FITS:
        verdict = NOT_HELD if missing == claim.row else HELD
    verdict = verdict if claim.confirmatory else EXPLORATORY
    reason = f"{missing} generated no tail pair in any of {n} fits"
    return ClaimResult(claim, PairedComparison(math.nan, None, None, None, n), reason, "–", verdict)


#: Ways of steering, what each is compared with, and both in words.
_STEERING = (
    ("paper", "none", "Steering by the paper's rule", "no steering"),
    ("calibrated", "paper", "Calibrated steering", "the paper's rule"),
)


def _steering_results(study: Study) -> list[ClaimResult]:
    """Whether steering brought the prevalences closer to each target, by the paper's rule and calibrated."""
    out = []
    steered = {(way["target"], name) for name in study.rows for way in study.ways(name)}
    for target, row in sorted(steered):
        for mode, other, words, beside in _STEERING:
            one, two = (study.by_fit(row, "control_mae", target=target, mode=way) for way in (mode, other))
            if not one or not two:
                continue
            comparison = paired_comparison(one, two, study.test_share, "down")
            means = [format_number(float(np.mean(list(each.values())))) for each in (one, two)]
            text = f"{words} brings {row} closer to the population “{target}” than {beside}"
            reason = f"mean prevalence gap {means[0]} against {means[1]} with {beside}; {_in_words(comparison)}"
            claim = Claim(text, row, row, "control_mae", mode, "this project")
            out.append(ClaimResult(claim, comparison, reason))
    return out


def claims_not_evaluated(study: Study) -> list[str]:
    """The claims whose methods a study did not run, with the methods it would need."""
    out = []
    for claim in CLAIMS:
        missing = [row for row in (claim.row, claim.other) if row not in study.rows]
        if missing:
            out.append(f"{claim.text} (needs {', '.join(missing)})")
    return out


#: How lines of each verdict are styled.
_KINDS = {HELD: "held", NOT_HELD: "did-not-hold", INCONCLUSIVE: "cannot-tell", EXPLORATORY: "exploratory"}


def claims_table(study: Study, results: Sequence[ClaimResult]) -> Table | None:
    """The claims with their gains and verdicts, confirmatory ones first; None where there are none."""
    lines = []
    for one in sorted(results, key=lambda result: not result.claim.confirmatory):
        gain = Cell("–", None, one.reason)
        if not math.isnan(one.comparison.gain):
            gain = Cell(format_signed(one.comparison.gain), one.comparison.gain, one.reason)
        p_value = _p_value(one) if one.adjusted is None else one.adjusted
        cells = (
            Cell(one.claim.text),
            Cell(one.claim.whose),
            gain,
            Cell(one.paper),
            Cell(format_number(p_value), p_value),
            Cell(one.verdict),
        )
        lines.append(Line(cells, _KINDS[one.verdict]))
    caption = (
        f"Positive gains support the claim. Differences are paired by fit seed; every seed divides the patients anew. "
        f"95 % intervals and p-values by the corrected resampled t test (Nadeau & Bengio 2003; test patients are "
        f"{study.test_share:.0%} of test and training patients). The paper's claims are confirmatory: they need "
        f"{FEWEST_FITS} seeds, and their p-values are adjusted by Holm's procedure, so that all verdicts together are "
        "wrong in at most 5 % of studies. All other lines are exploratory, their p-values are not adjusted."
    )
    columns = ("claim", "whose", "our gain", "paper's gain", "p", "verdict")
    return Table(columns, lines, "claims", "Claims", caption, always_open=True) if lines else None


def format_signed(value: float | None) -> str:
    """A number with its sign; zero has that of a gain, whichever side it was rounded from.

    >>> format_signed(0.0123), format_signed(-0.0021), format_signed(-0.0), format_signed(None)
    ('+0.012', '-0.0021', '+0.0000', '–')
    """
    if value is None:
        return "–"
    return f"{round(value, 4) + 0.0:+.4f}" if abs(value) < 0.01 else f"{value:+.3f}"
