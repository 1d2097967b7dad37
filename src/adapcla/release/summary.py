"""What is known of a release when its page and card are written: attempts, the decision, statuses and advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from adapcla.data import Cohort
from adapcla.disclosure import format_count
from adapcla.evaluation import Scores
from adapcla.evaluation.comparison import ALL
from adapcla.evaluation.privacy import GateLine
from adapcla.evaluation.scores import HALVES, MATCHED, Row
from adapcla.files import FORMAT_VERSION
from adapcla.io.losses import MOST_DROPPED, Loss
from adapcla.release.comparisons import GAP_FAIR, GAP_GOOD, Comparisons, find_row
from adapcla.report.gate_words import TO_DO, TO_SHOW, gain, in_words, words_of
from adapcla.report.html import PERMITS, Status, StatusOutcome, tone_of
from adapcla.version import __version__

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
            share = f"under {k / max(n, 1):.1%}" if small else f"{loss.share:.1%}"
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
    def model_passed(self) -> bool:
        """Whether the model may be given away too."""
        lines = self.chosen.model_lines
        return self.passed and bool(lines) and all(line.passed for line in lines)

    @property
    def min_patients(self) -> int:
        """Fewest training patients of a code."""
        return self.chosen.min_patients


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
    return Status("advice", "Recommended use", outcome, sentence=f"{permits[0].upper()}{permits[1:]} ({reason}).")


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
    return Status("similar", "Similar to real patients", quality, f"{n_good} of {n}", "comparisons good", sentence)


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
        return Status(
            "useful", "Useful", outcome, f"{line.synthetic:.2f}", f"(real data {line.real:.2f}, chance 0.50)", sentence
        )
    sentence = "Models trained on real patients do no better than chance here, so nothing can be said."
    return Status("useful", "Useful", "unknown", "–", "", sentence if lines else "This was not evaluated.")


def _private(attempt: Attempt) -> Status:
    lines = attempt.lines
    n, count = len(lines), Counter(line.outcome for line in lines)
    failed = [words_of(line).title for line in lines if line.outcome == "exceeded"]
    unclear = [words_of(line).title for line in lines if line.outcome == "not shown"]
    row = find_row(attempt.scores, "membership_auc", ALL)
    attack = "" if row is None or row.value is None else _attack(row.value)
    outcome: StatusOutcome = "exceeded" if failed else "not shown" if unclear else "met"
    if failed:
        sentence = f"Failed: {', '.join(failed)}.{attack}"
    elif unclear:
        sentence = f"No leak was detected, but there are too few patients to show that: {', '.join(unclear)}.{attack}"
    else:
        sentence = f"No leak was detected.{attack}"
    return Status("private", "Private", outcome, f"{count['met']} of {n}", "privacy checks passed", sentence)


def _attack(auc: float) -> str:
    """The strongest attack in words."""
    share = f"{auc:.0%} of pairs; guessing would be right 50% of the time"
    return f" The strongest attack recognises the training patient in {share}."


def badge(release: ReleaseSummary) -> tuple[str, StatusOutcome]:
    """What became of the data, in two words."""
    if release.passed:
        return "Released", advice(release).outcome
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


# ---- for machines -------------------------------------------------------------------------------------------
def as_json(release: ReleaseSummary) -> dict[str, Any]:
    """The statuses, comparisons, privacy checks and headline scores of a release; no count of patients."""
    attempt = release.chosen
    return {
        "format": FORMAT_VERSION,
        "made by": f"adapcla {__version__}",
        "title": release.title,
        "released": release.passed,
        "advice": _status_json(advice(release)),
        "status": {one.key: _status_json(one) for one in indicators(release)},
        "read": _read_json(release),
        "comparisons": [
            {
                "key": one.key,
                "title": one.title,
                "quality": one.quality,
                "applies": one.applies,
                "sentence": one.sentence,
                "permits": one.permits,
                "measures": [
                    {"metric": each.metric, "what": each.what, **each.found._asdict()} for each in one.measures
                ],
            }
            for one in attempt.comparisons.each
        ],
        "useful": [line._asdict() | {"share": line.share} for line in usefulness(attempt)],
        "gate": [_line_json(line) for line in attempt.lines],
        "model gate": [_line_json(line) for line in attempt.model_lines],
        "scores": _scores_json(attempt.scores.rows),
    }


def _read_json(release: ReleaseSummary) -> dict[str, Any]:
    """What the source held and what was left out, by reason, as the page says it."""
    k = release.min_patients
    names = ("what", "in source", "left out", "share", "why")
    by_rule = {reason: format_count(n, k) for reason, n in release.read.by_rule.items()}
    return {"lost": [dict(zip(names, row, strict=True)) for row in release.read.rows(k)], "by rule": by_rule}


def _status_json(status: Status) -> dict[str, str]:
    return {**status._asdict(), "tone": status.tone, "permits": status.permits}


def _line_json(line: GateLine) -> dict[str, Any]:
    return {**asdict(line), "title": words_of(line).title, "passed": line.passed, "gain": gain(line)}


def _scores_json(rows: Sequence[Row]) -> dict[str, dict[str, dict[str, float | None]]]:
    """The headline scores by metric and stratum, with their intervals and references."""
    names = ("value", "low", "high", "real_test", "real_train", "train_copy", "marginal", "normalised")
    out: dict[str, dict[str, dict[str, float | None]]] = {}
    for row in rows:
        if row.stratum in (ALL, MATCHED, HALVES):
            out.setdefault(row.metric, {})[row.stratum] = {name: getattr(row, name) for name in names}
    return out
