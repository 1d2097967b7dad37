"""What is known of a release: how similar its patients are to real ones, how useful and how private, and the advice.

The comparisons with real patients are a fixed list, always the same, each with a status of its own. A comparison is no
better than the worst of its measures, and the whole is no better than its worst comparison. What could not be computed
is grey and stays in the list; then the whole is fair at best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from adapcla.data import Cohort
from adapcla.disclosure import format_count
from adapcla.errors import UsageError
from adapcla.evaluation import Scores
from adapcla.evaluation.comparison import ALL
from adapcla.evaluation.metric import METRICS, has_numbers, has_stays
from adapcla.evaluation.privacy import GateLine
from adapcla.evaluation.scores import HALVES, MATCHED, Row
from adapcla.io.losses import MOST_DROPPED, Loss
from adapcla.report.gate_words import TO_DO, TO_SHOW, in_words, words_of
from adapcla.report.html import PERMITS, Status, StatusOutcome, tone_of
from adapcla.tables import format_number

Quality = Literal["good", "fair", "poor", "unknown"]
#: From best to worst, for what stands together: what is unknown is no better than fair, and no worse.
_ORDER = {"good": 0, "unknown": 1, "fair": 1, "poor": 2}
#: Raised when what is compared or a boundary changes, so that releases are decided again.
COMPARED = 1
#: What a release must not be poor in, by comparison and metric: it would misstate how large visits are or how frequent
#: codes are.
REQUIRED = {"prevalence": "prevalence_off_2x", "codes_per_visit": "codes_per_visit_diff"}

#: Share of codes that may be off by more than a factor of two.
OFF_GOOD, OFF_FAIR = 0.01, 0.05
#: How far a mean may be off, as a share of the real one: codes per visit, visits per patient, share of rare codes.
CODES_GOOD, CODES_FAIR = 0.03, 0.05
VISITS_GOOD, VISITS_FAIR = 0.05, 0.10
MASS_GOOD, MASS_FAIR = 0.15, 0.30
#: How much more a distribution may differ from training than that of other real patients, in total variation.
EXCESS_GOOD, EXCESS_FAIR = 0.05, 0.10
#: How much further than other real patients values may be shifted, in interquartile ranges.
SHIFT_GOOD, SHIFT_FAIR = 0.05, 0.15
#: Share of the gap from independent codes to real data that is closed.
GAP_GOOD, GAP_FAIR = 0.8, 0.5
#: Why a share of the gap is not given though both of its ends are known.
NOT_APART = "the gap between independent codes and real data is smaller than its uncertainty"


class Found(NamedTuple):
    """The result of one measure: its quality, and the sentence with its numbers."""

    quality: Quality
    text: str
    synthetic: float | None = None
    real: float | None = None
    #: What independent codes reach, and the share of the gap from there to real.
    independent: float | None = None
    copies: float | None = None
    share: float | None = None


#: How a number is read: from the scores, the training patients and the key of the metric.
Rule = Callable[[Scores, Cohort, str], Found]


class Measure(NamedTuple):
    """One number behind a comparison."""

    metric: str
    what: str
    rule: Rule


class Measured(NamedTuple):
    """A measure with its result."""

    metric: str
    what: str
    found: Found


class Compared(NamedTuple):
    """A comparison with its status."""

    key: str
    title: str
    quality: Quality
    #: The weakest measure in a sentence, or why there is none.
    sentence: str
    measures: tuple[Measured, ...] = ()
    #: Whether it is about something that these records have.
    applies: bool = True

    @property
    def permits(self) -> str:
        """What the status permits, as advice."""
        return PERMITS[tone_of(self.quality)]


# ---- measures -----------------------------------------------------------------------------------------------
def _graded(value: float, good: float, fair: float) -> Quality:
    """The quality of a deviation.

    >>> _graded(0.01, 0.03, 0.05), _graded(0.04, 0.03, 0.05), _graded(0.06, 0.03, 0.05)
    ('good', 'fair', 'poor')
    """
    return "good" if value <= good else "fair" if value <= fair else "poor"


def _missing(row: Row | None) -> Found:
    """What is said where there is no number."""
    return Found("unknown", plain_reason(row.reason) if row is not None and row.reason else "not evaluated")


def codes_off(of_codes: str) -> Rule:
    """The share of codes that are off by more than a factor of two beyond sampling error."""

    def found(scores: Scores, train: Cohort, metric: str) -> Found:
        row = find_row(scores, metric, of_codes)
        if row is None or row.value is None:
            return _missing(row)
        which = "rare codes" if of_codes == "tail" else "codes"
        number = "none" if row.value == 0 else _percent(row.value)
        text = f"{number} of {row.n:,} {which} more than twice too frequent or too rare, beyond sampling error"
        return Found(
            _graded(row.value, OFF_GOOD, OFF_FAIR), text, row.value, row.real_test, row.marginal, row.train_copy
        )

    return found


def mean_off(of_cohort: Callable[[Cohort], float], good: float, fair: float) -> Rule:
    """How far the mean of a length is from that of training patients."""

    def found(scores: Scores, train: Cohort, metric: str) -> Found:
        row = find_row(scores, metric, ALL)
        if row is None or row.value is None:
            return _missing(row)
        real = of_cohort(train)
        off = row.value / real
        text = f"mean {row.value + real:.3g} (real {real:.3g}, {_more_or_less(off)})"
        return Found(_graded(abs(off), good, fair), text, row.value + real, real)

    return found


def mass_off(scores: Scores, train: Cohort, metric: str) -> Found:
    """How far the share of rare codes among all codes is from that of training patients, beyond sampling error."""
    row = find_row(scores, metric, ALL)
    if row is None or row.value is None:
        return _missing(row)
    real = float(train.visit_counts[train.strata().tail].sum() / max(train.n_entries, 1))
    if real == 0:
        return Found("unknown", "real patients have none")
    off = row.value / real - 1
    by_chance = row.low is not None and row.high is not None and row.low <= real <= row.high
    quality = "good" if by_chance else _graded(abs(off), MASS_GOOD, MASS_FAIR)
    text = f"{_percent(row.value)} of all codes are rare codes (real {_percent(real)}, {_more_or_less(off)})"
    return Found(quality, text, row.value, real)


def _more_or_less(off: float) -> str:
    """A deviation in words.

    >>> _more_or_less(-0.0851), _more_or_less(0.0)
    ('8.5% less', 'equal')
    """
    return "equal" if round(abs(off), 3) == 0 else f"{_percent(abs(off))} {'more' if off > 0 else 'less'}"


def excess(what: str) -> Rule:
    """How much further a distribution is from training than that of other real patients, in total variation."""

    def found(scores: Scores, train: Cohort, metric: str) -> Found:
        row = find_row(scores, metric, MATCHED, ALL)
        if row is None or row.value is None or row.real_test is None:
            return _missing(row)
        beyond = max(row.value - row.real_test, 0.0)
        text = f"{_percent(row.value)} of {what} differ from training (other real patients {_percent(row.real_test)})"
        return Found(
            _graded(beyond, EXCESS_GOOD, EXCESS_FAIR), text, row.value, row.real_test, row.marginal, row.train_copy
        )

    return found


def value_distance(scores: Scores, train: Cohort, metric: str) -> Found:
    """How much further values are from those of training than the values of other real patients."""
    row = find_row(scores, metric, MATCHED, ALL)
    if row is None or row.value is None or row.real_test is None:
        return _missing(row)
    numbers = f"{format_number(row.value)} (other real patients {format_number(row.real_test)})"
    text = f"values are shifted by {numbers} interquartile ranges on average"
    quality = _graded(max(row.value - row.real_test, 0.0), SHIFT_GOOD, SHIFT_FAIR)
    return Found(quality, text, row.value, row.real_test, row.marginal, row.train_copy)


def gap_closed(scores: Scores, train: Cohort, metric: str) -> Found:
    """The share of the gap from independent codes to real data that is closed."""
    row = gap_row(scores, metric)
    if row is None or row.value is None:
        return _missing(row)
    trained = METRICS[metric].trained
    real = row.real_train if trained else row.real_test
    beside = (row.value, real, row.marginal, row.train_copy)
    if row.normalised is None or not _distinct(row, trained):
        return Found("unknown", plain_reason(row.normalised_reason or NOT_APART), *beside)
    share = row.normalised
    quality: Quality = "good" if share >= GAP_GOOD else "fair" if share >= GAP_FAIR else "poor"
    text = (
        f"{format_number(row.value)} (real data {format_number(real)}, independent codes {format_number(row.marginal)}"
    )
    return Found(quality, f"{text}: {share_text(share)} of that gap)", *beside, share)


def _distinct(row: Row, trained: bool) -> bool:
    """Whether the intervals of independent codes and of real patients do not overlap, where both are known."""
    real = (row.real_train_low, row.real_train_high) if trained else (row.real_test_low, row.real_test_high)
    ends = (row.marginal_low, row.marginal_high, *real)
    if any(end is None for end in ends):
        return True
    floor_low, floor_high, real_low, real_high = (float(end) for end in ends if end is not None)
    return floor_high < real_low or real_high < floor_low


def gap_row(scores: Scores, metric: str) -> Row | None:
    """The row of a metric at equal numbers of patients, or against halves of the test patients; else the plain one."""
    row, plain = find_row(scores, metric, MATCHED, HALVES, ALL), find_row(scores, metric, ALL)
    if row is not None and row.normalised is None and plain is not None and plain.normalised is not None:
        return plain
    return row


def find_row(scores: Scores, metric: str, *strata: str) -> Row | None:
    """The first row of a metric that there is among these strata."""
    rows = {row.stratum: row for row in scores.rows if row.metric == metric}
    return next((rows[stratum] for stratum in strata if stratum in rows), None)


def share_text(share: float | None) -> str:
    """A share in percent, nothing below 0.

    >>> share_text(0.374), share_text(-0.003), share_text(None)
    ('37%', '0%', '–')
    """
    return "–" if share is None else f"{max(share, 0.0):.0%}"


def _percent(share: float) -> str:
    """A share in percent with two digits that matter.

    >>> _percent(0.1234), _percent(0.00002)
    ('12%', '0.002%')
    """
    return f"{float(f'{100 * share:.2g}'):g}%"


#: Reasons of the scores in words that need no other page.
_PLAIN = {
    "ceiling and floor are equal": "independent codes do as well as real patients here",
    "the floor is better than the ceiling": "independent codes do better than real patients here",
    "ceiling and floor differ by less than the score's own interval": "too few patients to tell",
    NOT_APART: "too few patients to tell",
    "insufficient data": "too few patients",
}


def plain_reason(reason: str) -> str:
    """The beginning of a reason, which says what, in plain words.

    >>> plain_reason("insufficient data: 12 members")
    'too few patients'
    """
    beginning = reason.partition(":")[0].partition(";")[0]
    return _PLAIN.get(beginning, beginning)


def _mean_codes(train: Cohort) -> float:
    return float(train.codes_per_visit.mean())


def _mean_visits(train: Cohort) -> float:
    return float(train.visits_per_patient.mean())


# ---- the list -----------------------------------------------------------------------------------------------
#: Every comparison with its title and measures, in the order of the page.
COMPARISONS: tuple[tuple[str, str, tuple[Measure, ...]], ...] = (
    ("prevalence", "Code prevalence", (Measure("prevalence_off_2x", "Codes off by a factor of two", codes_off(ALL)),)),
    (
        "rare_prevalence",
        "Prevalence of rare codes",
        (
            Measure("prevalence_off_2x", "Rare codes off by a factor of two", codes_off("tail")),
            Measure("tail_mass", "Rare codes, share of all codes", mass_off),
        ),
    ),
    (
        "codes_per_visit",
        "Codes per visit",
        (
            Measure("codes_per_visit_diff", "Codes per visit, mean", mean_off(_mean_codes, CODES_GOOD, CODES_FAIR)),
            Measure("codes_per_visit_tv", "Codes per visit, distribution", excess("visits")),
        ),
    ),
    (
        "visits_per_patient",
        "Visits per patient",
        (
            Measure(
                "visits_per_patient_diff", "Visits per patient, mean", mean_off(_mean_visits, VISITS_GOOD, VISITS_FAIR)
            ),
            Measure("visits_per_patient_tv", "Visits per patient, distribution", excess("patients")),
        ),
    ),
    (
        "cooccurrence",
        "Code co-occurrence",
        (
            Measure("bigram_r2_heldout", "Agreement of pair frequencies (R²)", gap_closed),
            Measure("pair_seen_heldout", "Share of pairs that other real patients have", gap_closed),
        ),
    ),
    (
        "rare_cooccurrence",
        "Co-occurrence of rare codes",
        (
            Measure("tail_information", "What rare codes tell about the rest of the visit", gap_closed),
            Measure(
                "tail_pair_seen_heldout", "Share of pairs with a rare code that other real patients have", gap_closed
            ),
            Measure("tail_topk_jac_heldout", "Rare codes have the same frequent partners", gap_closed),
        ),
    ),
    (
        "order",
        "Order in time",
        (
            Measure(
                "sequential_bigram_r2_heldout",
                "Agreement of the frequencies of steps from visit to visit (R²)",
                gap_closed,
            ),
            Measure("next_visit_gain", "How much a visit resembles the patient's next, beyond chance", gap_closed),
            Measure("tail_information_previous", "What rare codes tell about the previous visit", gap_closed),
        ),
    ),
    (
        "values",
        "Values",
        (
            Measure("value_w1", "Distribution of values", value_distance),
            Measure("value_effect_corr", "Values are high and low with the same codes", gap_closed),
            Measure("value_autocorr_error", "A patient's values resemble each other from visit to visit", gap_closed),
        ),
    ),
    (
        "stays",
        "Stays and outcomes",
        (
            Measure("stay_kind_tv", "Kinds of visits", excess("visits")),
            Measure("stay_end_tv", "How visits end", excess("visits")),
            Measure("death_by_age", "As many die at each age", gap_closed),
        ),
    ),
)
#: What some records do not have: how it is recognised, and what is said.
_NEEDS: dict[str, tuple[Callable[[Cohort], bool], str]] = {
    "cooccurrence": (lambda train: int(train.codes_per_visit.max()) > 1, "no visit of these records has two codes"),
    "rare_cooccurrence": (lambda train: int(train.codes_per_visit.max()) > 1, "no visit has two codes"),
    "order": (lambda train: len(train.visits_with_next) > 0, "no patient of these records has two visits"),
    "values": (lambda train: has_numbers(train.vocabulary), "these records have no values"),
    "stays": (lambda train: has_stays(train.vocabulary), "these records have no stays"),
}


class Comparisons(NamedTuple):
    """All comparisons of a release."""

    each: tuple[Compared, ...]
    #: Why comparisons that must not be poor were accepted, by key.
    accepted: Mapping[str, str] = MappingProxyType({})

    @property
    def applicable(self) -> tuple[Compared, ...]:
        """Those that are about something that the records have."""
        return tuple(one for one in self.each if one.applies)

    @property
    def weakest(self) -> Compared:
        """The worst one; of equally bad ones the first."""
        return max(self.applicable, key=lambda one: _ORDER[one.quality])

    @property
    def quality(self) -> Quality:
        """The quality of the whole: no better than the worst; fair at best where something is unknown."""
        qualities = {one.quality for one in self.applicable}
        if qualities == {"unknown"}:
            return "unknown"
        return "poor" if "poor" in qualities else "good" if qualities == {"good"} else "fair"

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why these patients must not be shared; empty where nothing speaks against it, or it was accepted."""
        return tuple(sentence for key, sentence in self.misstated.items() if key not in self.accepted)

    @property
    def misstated(self) -> dict[str, str]:
        """What is stated wrongly by these patients, accepted or not."""
        return {
            one.key: f"{one.title}: {measured.found.text}."
            for one in self.each
            for measured in one.measures
            if measured.metric == REQUIRED.get(one.key) and measured.found.quality == "poor"
        }

    @property
    def releasable(self) -> bool:
        """Whether a release may be written: sizes and frequencies are not misstated."""
        return not self.reasons


def compare(scores: Scores, train: Cohort, accepted: Mapping[str, str] = MappingProxyType({})) -> Comparisons:
    """Every comparison, from the scores of the synthetic patients and the training patients."""
    each = tuple(_compared(key, title, measures, scores, train) for key, title, measures in COMPARISONS)
    return Comparisons(each, accepted)


def require_reason(names: Collection[str], reason: str) -> None:
    """Raise where a comparison is accepted and nobody says why.

    >>> require_reason(["codes_per_visit"], "software tests")
    """
    if any(name in REQUIRED for name in names) and not reason.strip():
        raise UsageError('--accept without a reason\nto do: say why with --reason "…"; it is written on page and card')


def _compared(key: str, title: str, measures: tuple[Measure, ...], scores: Scores, train: Cohort) -> Compared:
    """One comparison: the worst of its measures that are known."""
    has, why = _NEEDS.get(key, (None, ""))
    if has is not None and not has(train):
        return Compared(key, title, "unknown", why, (), applies=False)
    measured = tuple(Measured(one.metric, one.what, one.rule(scores, train, one.metric)) for one in measures)
    known = [one for one in measured if one.found.quality != "unknown"] or list(measured)
    worst = max(
        known, key=lambda one: (_ORDER[one.found.quality], one.found.synthetic is not None, -(one.found.share or 0.0))
    )
    sentence = worst.found.text
    if len(measures) > 1 and worst.found.share is not None:
        sentence = f"{worst.what[0].lower()}{worst.what[1:]}: {sentence}"
    return Compared(key, title, worst.found.quality, sentence, measured)


# ---- a release ------------------------------------------------------------------------------------------------
#: What usefulness is measured by, and what each metric is called; the first that can be computed makes the status.
USEFULNESS = {
    "tstr_next_auroc": "next-visit codes",
    "tstr_masked_auroc": "codes of a visit, from its other codes",
    "mortality_auroc": "death, from the last visit and those before it",
    "readmission_auroc": "readmission within thirty days",
}
CHANCE = 0.5
#: How far above chance models trained on real patients must be before anything is said.
_LEARNED = 0.03


@dataclass(frozen=True, eq=False)
class Attempt:
    """One attempt: what was different, what it scored and what the gate said."""

    number: int
    what: str
    min_patients: int
    scores: Scores
    #: Scores of models that were trained on real patients, where they are not among the scores.
    real: Scores | None
    lines: tuple[GateLine, ...]
    model_lines: tuple[GateLine, ...]
    rollup: dict[str, Any]
    n_hidden_attributes: int
    costs: dict[str, Any]
    settings: dict[str, Any]
    wanted_passes: float
    seconds: dict[str, float]
    #: How similar its patients are to real ones.
    comparisons: Comparisons
    #: Synthetic patients that were drawn again because of a visit too large.
    n_drawn_again: int = 0

    @property
    def passed(self) -> bool:
        """Whether it may be released: every privacy check passed, and sizes and frequencies are not misstated."""
        return all(line.passed for line in self.lines) and self.comparisons.releasable

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it may not be released, one sentence each."""
        return (*(in_words(line) for line in self.lines if not line.passed), *self.comparisons.reasons)

    @property
    def quick(self) -> bool:
        """Whether it was evaluated with few draws and small classifiers."""
        return bool(self.scores.card.get("quick"))

    @property
    def converged(self) -> bool:
        """Whether training took nearly the epochs that data of this size need, or ended because it had learned."""
        if not self.costs.get("steps"):
            return True
        return bool(self.costs.get("stopped early")) or float(self.costs.get("passes") or 0) >= 0.9 * self.wanted_passes


class WhatWasRead(NamedTuple):
    """What the source held, and what of it was left out while it was read."""

    #: Visits, codes and patients of the source as it was; empty where its reader does not count them.
    in_source: Mapping[str, int] = MappingProxyType({})
    #: What could not be read or placed.
    lost: Sequence[Loss] = ()
    #: What was left out as it was meant to be, such as repeated codes of a visit, by reason.
    by_rule: Mapping[str, int] = MappingProxyType({})

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> WhatWasRead:
        """From the record of the step that read the source."""
        lost = [Loss(**each) for each in about.get("lost", ())]
        reasons = {reason for loss in lost for reason in loss.reasons}
        dropped = about["description"].get("dropped", {})
        by_rule = {reason: int(n) for reason, n in dropped.items() if n and reason not in reasons}
        return cls(about.get("in source", {}), lost, by_rule)

    @property
    def too_much(self) -> tuple[Loss, ...]:
        """Losses beyond what may be lost without anybody's word."""
        return tuple(loss for loss in self.lost if loss.share > MOST_DROPPED)

    def rows(self, k: int) -> list[tuple[str, str, str, str, str]]:
        """What, in the source, left out, share and why, with no count below k.

        >>> WhatWasRead({"codes": 200}, [Loss("codes", 2, 200, {"codes of no date": 2})]).rows(11)
        [('codes', '200', 'fewer than 11', 'under 5.5%', 'fewer than 11 codes of no date')]
        """
        out = []
        lost = {loss.what: loss for loss in self.lost}
        for what, n in {**self.in_source, **{loss.what: loss.in_source for loss in self.lost}}.items():
            loss = lost.get(what, Loss(what, 0, n, {}))
            small = 0 < loss.dropped < k
            share = f"under {ceil(1000 * k / max(n, 1)) / 1000:.1%}" if small else f"{loss.share:.1%}"
            why = ", ".join(f"{format_count(m, k)} {reason}" for reason, m in loss.reasons.items())
            out.append((what, format_count(n, k), format_count(loss.dropped, k), share, why))
        return out


@dataclass(frozen=True, eq=False)
class ReleaseSummary:
    """Everything that the page and the cards say of a release."""

    title: str
    #: `describe` of all real patients.
    description: dict[str, Any]
    source: str
    method: str
    minutes: float
    attempts: tuple[Attempt, ...]
    train: Cohort
    synthetic: Cohort
    read: WhatWasRead = field(default_factory=WhatWasRead)

    @property
    def chosen(self) -> Attempt:
        """The attempt that the release is made of: the one that passed, else the last."""
        return self.attempts[-1]

    @property
    def passed(self) -> bool:
        """Whether it may be released."""
        return self.chosen.passed

    @property
    def simulated(self) -> bool:
        """Whether the patients that stand for real ones are simulated, too."""
        return self.source == "planted"

    @property
    def model_passed(self) -> bool:
        """Whether the model may be given away too."""
        lines = self.chosen.model_lines
        return self.passed and bool(lines) and all(line.passed for line in lines)

    @property
    def min_patients(self) -> int:
        """Fewest training patients of a code."""
        return self.chosen.min_patients


def converged(release: ReleaseSummary) -> str:
    """Whether training had learned what it could, in a sentence."""
    attempt = release.chosen
    if not attempt.costs.get("steps"):
        return "The method counts and does not train, so there is nothing to converge."
    if attempt.converged:
        return "Training had converged: more time would change little."
    return (
        f"Training had not converged in the time: {release.minutes:g} minutes allowed "
        f"{format_number(attempt.costs.get('passes'))} of about {attempt.wanted_passes:.3g} epochs. More minutes help."
    )


# ---- usefulness ---------------------------------------------------------------------------------------------
class Useful(NamedTuple):
    """What models reach on real patients that nobody trained on."""

    metric: str
    what: str
    synthetic: float | None
    #: The same models trained on real patients.
    real: float | None
    #: Why a number is missing.
    why: str
    why_real: str

    @property
    def share(self) -> float | None:
        """The share of the gap from chance to models of real patients; None where these learned nothing."""
        if self.synthetic is None or self.real is None or self.real < CHANCE + _LEARNED:
            return None
        return (self.synthetic - CHANCE) / (self.real - CHANCE)


def usefulness(attempt: Attempt) -> list[Useful]:
    """What models trained on synthetic patients reach, with what those trained on real patients reach."""
    out = []
    for metric, what in USEFULNESS.items():
        row = find_row(attempt.scores, metric, ALL)
        if row is None:
            continue
        beside, alone = row.real_train, None if attempt.real is None else find_row(attempt.real, metric, ALL)
        if beside is None and alone is not None:
            beside = alone.value
        # What the test patients cannot answer has the same reason for both.
        out.append(Useful(metric, what, row.value, beside, row.reason, row.reason if alone is None else alone.reason))
    return out


# ---- statuses -----------------------------------------------------------------------------------------------
def indicators(release: ReleaseSummary) -> tuple[Status, Status, Status]:
    """Similar to real patients, useful, private."""
    attempt = release.chosen
    return _similar(attempt), _useful(attempt), _private(attempt)


def advice(release: ReleaseSummary) -> Status:
    """What the release may be used for, by the worst of its statuses, and why.

    That usefulness is unknown forbids nothing: some records predict nothing.
    """
    similar, useful, private = indicators(release)
    statuses = [similar, private, *([useful] if useful.outcome != "unknown" else [])]
    tones = [one.tone for one in statuses]
    outcome: StatusOutcome = "good"
    if not release.passed or "red" in tones:
        outcome = "poor"
    elif "amber" in tones or "grey" in tones:
        outcome = "fair"
    worst = [one for one in statuses if one.tone != "green"]
    reason = "all comparisons are good and every privacy check passed"
    if worst:
        reason = "; ".join(f"{one.title.lower()}: {one.outcome}" for one in worst)
    permits = PERMITS[tone_of(outcome)]
    return Status(
        "advice", "Recommended use", outcome, sentence=f"{permits[0].upper()}{permits[1:]} ({reason}).", why=reason
    )


def _similar(attempt: Attempt) -> Status:
    comparisons = attempt.comparisons
    n, quality, weakest = len(comparisons.applicable), comparisons.quality, comparisons.weakest
    n_good = sum(one.quality == "good" for one in comparisons.applicable)
    each = "comparison" if n == 1 else "comparisons"
    sentence = f"Based on {n} {each}; weakest: {weakest.title[0].lower()}{weakest.title[1:]}, {weakest.sentence}."
    if quality == "good":
        sentence = f"Based on {n} {each}; all are good."
    elif quality in ("fair", "poor"):
        more = "more real patients" if attempt.converged else "more minutes: training had not converged"
        sentence += f" What helps: {more}."
    below = [one for one in comparisons.applicable if one.quality != "good"]
    of = [one for one in below if one.quality == quality] or below
    *first, last = [f"{one.title[0].lower()}{one.title[1:]}" for one in of] or [""]
    titles = f"{', '.join(first)} and {last}" if first else last
    why = f"{titles} {'is' if len(of) == 1 else 'are'} {of[0].quality}" if of else "every comparison is good"
    return Status("similar", "Similar to real patients", quality, f"{n_good} of {n}", "comparisons good", sentence, why)


def _useful(attempt: Attempt) -> Status:
    lines = usefulness(attempt)
    for line in lines:
        # Where real patients teach no more than chance, nothing can be said of synthetic ones.
        if line.share is None:
            continue
        outcome: StatusOutcome = "good" if line.share >= GAP_GOOD else "fair" if line.share >= GAP_FAIR else "poor"
        sentence = (
            f"AUROC for {line.what}: {line.synthetic:.2f} trained on synthetic patients, {line.real:.2f} trained on "
            f"real patients, {CHANCE:.2f} chance."
        )
        unit = f"(real data {line.real:.2f}, chance 0.50)"
        why = f"models trained on it close {min(max(line.share, 0.0), 1.0):.0%} of the gap from chance to real data"
        return Status("useful", "Useful", outcome, f"{line.synthetic:.2f}", unit, sentence, why)
    sentence = "Models trained on real patients do no better than chance here, so nothing can be said."
    why = "nothing here can be predicted from real patients" if lines else "it was not evaluated"
    sentence = sentence if lines else "This was not evaluated."
    return Status("useful", "Useful", "unknown", "–", "", sentence, why, "decided by the other two")


def _private(attempt: Attempt) -> Status:
    lines = attempt.lines
    n, count = len(lines), Counter(line.outcome for line in lines)
    failed = [words_of(line).title for line in lines if line.outcome == "exceeded"]
    unclear = [words_of(line).title for line in lines if line.outcome == "not shown"]
    row = find_row(attempt.scores, "membership_auc", ALL)
    attack = "" if row is None or row.value is None else _attack(row.value)
    outcome: StatusOutcome = "exceeded" if failed else "not shown" if unclear else "met"
    if failed:
        sentence, why = f"Failed: {', '.join(failed)}.{attack}", "a leak was detected"
    elif unclear:
        sentence = f"No leak was detected, but there are too few patients to show that: {', '.join(unclear)}.{attack}"
        why = "for some checks it is not shown that nothing leaks"
    else:
        sentence, why = f"No leak was detected by these checks.{attack}", "every privacy check passed"
    use = "" if all(line.passed for line in lines) else PERMITS["red"]
    return Status("private", "Private", outcome, f"{count['met']} of {n}", "privacy checks passed", sentence, why, use)


def _attack(auc: float) -> str:
    """The strongest attack in words."""
    share = f"{auc:.0%} of cases; guessing would be right in 50%"
    return f" Shown a training patient and another one, the strongest attack picks the training patient in {share}."


def badge(release: ReleaseSummary) -> tuple[str, StatusOutcome]:
    """What became of the data, in two words."""
    if release.passed:
        outcome = advice(release).outcome
        return ("Written, not recommended for use" if outcome == "poor" else "Released"), outcome
    return "Not released", "exceeded"


def refusal(release: ReleaseSummary) -> str:
    """Why it was refused and what to do; empty where it was not."""
    if release.passed:
        return ""
    reasons = " ".join(release.chosen.reasons)
    return f"These data were not released. {reasons} What helps: {'; '.join(what_helps(release.chosen))}."


def what_helps(attempt: Attempt) -> list[str]:
    """What to change so that a release that was refused may pass."""
    helps = list(TO_DO) if any(line.outcome == "exceeded" for line in attempt.lines) else []
    helps += [TO_SHOW] if any(line.outcome == "not shown" and not line.passed for line in attempt.lines) else []
    if not attempt.comparisons.releasable:
        helps.append("more real patients or another method" if attempt.converged else "more --minutes")
    return helps
