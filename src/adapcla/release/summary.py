"""What is known of a release when its page and card are written: the tries, the decision, and three lamps."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from adapcla.data import Cohort
from adapcla.evaluation import Scores
from adapcla.evaluation.comparison import ALL
from adapcla.evaluation.metric import METRICS
from adapcla.evaluation.privacy import GateLine, Outcome
from adapcla.evaluation.scores import HALVES, MATCHED, Row

#: What is asked of likeness, each against real patients that nothing was learned from, in words.
LIKENESS = {
    "tail_information": "Rare codes tell as much about the rest of the visit",
    "tail_information_previous": "Rare codes tell as much about the visit before",
    "tail_pair_seen_heldout": "Rare codes stand beside codes that they stand beside in other real patients",
    "tail_topk_jac_heldout": "Rare codes have the same closest partners",
    "pair_seen_heldout": "Codes of one visit are seen together in other real patients",
    "bigram_r2_heldout": "Pairs of codes are as frequent",
    "sequential_bigram_r2_heldout": "Codes follow each other from visit to visit as often",
    "discriminator_auc": "A model that tries to tell them from real patients must guess",
    "next_visit_gain": "A visit resembles the same patient's next one as much",
    "value_effect_corr": "Numbers are higher and lower where the same codes are",
    "value_autocorr_error": "Numbers of a patient stay as alike from visit to visit",
    "death_by_age": "As many die at each age",
}
#: What is asked of usefulness, what it means, and what guessing reaches; the first that can be told makes the lamp.
USEFULNESS = {
    "tstr_next_auroc": "Which groups of codes the next visit will hold",
    "tstr_masked_auroc": "Which groups of codes a visit holds, seen from its other codes",
    "mortality_auroc": "Who dies, seen from the last visit and those before it",
    "readmission_auroc": "Who comes back to hospital within thirty days",
}
#: What a model does that answers it, where it does not complete a record.
_DOES = {
    "tstr_next_auroc": "foresee the next visit",
    "mortality_auroc": "foresee death",
    "readmission_auroc": "foresee who comes back",
}
GUESSING = 0.5
#: Why a comparison does not count though its two ends differ.
NOT_APART = "ceiling and floor differ by less than their intervals"
#: How far above guessing models trained on real patients must be before anything is said.
_LEARNED = 0.03
#: Shares of the way from chance to real from which a lamp is green, and from which it is amber.
_GREEN, _AMBER = 0.8, 0.5
Light = Literal["green", "amber", "red", "off"]


@dataclass(frozen=True, eq=False)
class Attempt:
    """One try: what was different, what it scored and what the gate said."""

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
    #: Synthetic patients that were drawn again because of a visit too large.
    n_drawn_again: int = 0

    @property
    def passed(self) -> bool:
        """Whether the gate is met."""
        return all(line.passed for line in self.lines)

    @property
    def quick(self) -> bool:
        """Whether it was judged by few draws and small classifiers."""
        return bool(self.scores.card.get("quick"))

    @property
    def enough_passes(self) -> bool:
        """Whether training took nearly the passes that data of this size ask for, or ended because it had learned."""
        return bool(self.costs.get("stopped early")) or float(self.costs.get("passes") or 0) >= 0.9 * self.wanted_passes


@dataclass(frozen=True, eq=False)
class Release:
    """Everything that is told of a release."""

    title: str
    #: `describe` of all real patients.
    description: dict[str, Any]
    source: str
    method: str
    minutes: float
    attempts: tuple[Attempt, ...]
    train: Cohort
    synthetic: Cohort
    #: Written though the gate refused it.
    unsafe: bool = False

    @property
    def chosen(self) -> Attempt:
        """The try that the release is made of: the one that passed, else the last."""
        return self.attempts[-1]

    @property
    def passed(self) -> bool:
        """Whether the gate is met."""
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


class Lamp(NamedTuple):
    """One of the three things that everybody asks, with its number and a sentence."""

    key: str
    title: str
    light: Light
    value: str
    unit: str
    sentence: str


class Likeness(NamedTuple):
    """One thing in which synthetic patients may be like real ones."""

    metric: str
    what: str
    synthetic: float | None
    real: float | None
    chance: float | None
    copies: float | None
    #: Share of the way from chance to real; None where the two cannot be told apart.
    way: float | None
    why: str


def likeness(scores: Scores) -> list[Likeness]:
    """How like real patients the synthetic ones are, one line for each thing."""
    out = []
    for metric, what in LIKENESS.items():
        row = _best_row(scores, metric)
        if row is not None:
            why = row.reason if row.value is None else row.normalised_reason
            real = row.real_train if METRICS[metric].trained else row.real_test
            way = row.normalised
            if way is not None and not _told_apart(row, METRICS[metric].trained):
                way, why = None, NOT_APART
            out.append(Likeness(metric, what, row.value, real, row.marginal, row.train_copy, way, why))
    return out


def _told_apart(row: Row, trained: bool) -> bool:
    """Whether the intervals of chance and of real patients do not overlap, where both are known."""
    real = (row.real_train_low, row.real_train_high) if trained else (row.real_test_low, row.real_test_high)
    ends = (row.marginal_low, row.marginal_high, *real)
    if any(end is None for end in ends):
        return True
    floor_low, floor_high, real_low, real_high = (float(end) for end in ends if end is not None)
    return floor_high < real_low or real_high < floor_low


def _best_row(scores: Scores, metric: str) -> Row | None:
    """The row of a metric at equal numbers of patients, or against halves of the test patients; else the plain one."""
    rows = {row.stratum: row for row in scores.rows if row.metric == metric}
    matched, plain = rows.get(MATCHED, rows.get(HALVES)), rows.get(ALL)
    if matched is not None and (matched.normalised is not None or plain is None or plain.normalised is None):
        return matched
    return plain


def likeness_share(lines: list[Likeness]) -> float | None:
    """The mean share of the way from chance to real; nobody gains by being beyond real.

    >>> line = Likeness("m", "", 0.5, 0.6, 0.1, 1.0, 0.8, "")
    >>> likeness_share([line, line._replace(way=1.4), line._replace(way=None)])
    0.9
    """
    known = [min(max(line.way, 0.0), 1.0) for line in lines if line.way is not None]
    return round(statistics.fmean(known), 6) if known else None


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


def usefulness(attempt: Attempt) -> list[Useful]:
    """What models trained on synthetic patients reach beside those trained on real ones."""
    out = []
    for metric, what in USEFULNESS.items():
        row = _row(attempt.scores, metric)
        if row is None:
            continue
        beside, alone = row.real_train, None if attempt.real is None else _row(attempt.real, metric)
        if beside is None and alone is not None:
            beside = alone.value
        # What cannot be asked of the test patients has the same reason for both.
        out.append(Useful(metric, what, row.value, beside, row.reason, row.reason if alone is None else alone.reason))
    return out


def _row(scores: Scores, metric: str) -> Row | None:
    return next((row for row in scores.rows if (row.metric, row.stratum) == (metric, ALL)), None)


def lamps(release: Release) -> tuple[Lamp, Lamp, Lamp]:
    """Like real patients, useful, safe."""
    attempt = release.chosen
    return _like(attempt), _useful(attempt), _safe(attempt)


def light_of(share: float | None) -> Light:
    """The light of a share of the way from chance to real.

    >>> light_of(0.9), light_of(0.6), light_of(0.1), light_of(None)
    ('green', 'amber', 'red', 'off')
    """
    if share is None:
        return "off"
    return "green" if share >= _GREEN else "amber" if share >= _AMBER else "red"


def _like(attempt: Attempt) -> Lamp:
    lines = likeness(attempt.scores)
    share = likeness_share(lines)
    if share is None:
        sentence = "Real patients and chance cannot be told apart in data of this size, so nothing can be said."
        return Lamp("like", "Like real patients", "off", "–", "", sentence)
    known = [line for line in lines if line.way is not None]
    worst = min(known, key=lambda line: line.way or 0.0)
    sentence = (
        f"Codes thrown together by chance are at 0%, other real patients at 100%. Mean of {len(known)} comparisons"
    )
    sentence += f"; least: {worst.what[0].lower()}{worst.what[1:]} ({max(worst.way or 0.0, 0.0):.0%})."
    if light_of(share) != "green":
        more = "more real patients" if attempt.enough_passes else "more minutes: training had not converged"
        sentence += f" What helps: {more}."
    return Lamp("like", "Like real patients", light_of(share), f"{share:.0%}", "of the way", sentence)


def _useful(attempt: Attempt) -> Lamp:
    lines = usefulness(attempt)
    if not lines:
        return Lamp("useful", "Useful", "off", "–", "", "This was not judged.")
    for line in lines:
        # Where real patients teach no more than guessing, nothing can be said of synthetic ones.
        if line.synthetic is None or line.real is None or line.real < GUESSING + _LEARNED:
            continue
        way = (line.synthetic - GUESSING) / (line.real - GUESSING)
        does = _DOES.get(line.metric, "complete a record")
        sentence = (
            f"Models trained on synthetic patients {does} with an AUC of {line.synthetic:.2f}; trained on real ones "
            f"they reach {line.real:.2f}, by guessing {GUESSING:.2f}."
        )
        return Lamp("useful", "Useful", light_of(way), f"{line.synthetic:.2f}", f"beside {line.real:.2f}", sentence)
    sentence = "Models trained on as many real patients learn no more than guessing here, so nothing can be said."
    return Lamp("useful", "Useful", "off", "–", "", sentence)


def _safe(attempt: Attempt) -> Lamp:
    n, count = len(attempt.lines), Counter(line.outcome for line in attempt.lines)
    n_met, exceeded = count[Outcome.MET], count[Outcome.EXCEEDED]
    accepted = sum(bool(line.accepted) for line in attempt.lines)
    unclear = count[Outcome.NOT_SHOWN] - accepted
    row = _row(attempt.scores, "membership_auc")
    attack = "" if row is None or row.value is None else _attack(row.value)
    light: Light = "red"
    if exceeded:
        sentence = f"{exceeded} of {n} privacy limits {'is' if exceeded == 1 else 'are'} exceeded."
    elif unclear:
        sentence = f"{unclear} of {n} privacy limits {'is' if unclear == 1 else 'are'} not shown to be kept."
    elif accepted:
        are = "1 limit is" if accepted == 1 else f"{accepted} limits are"
        light, sentence = "amber", f"No leak is shown, but {are} not shown to be kept and somebody accepted that."
    else:
        light, sentence = "green", "Every privacy limit is shown to be kept."
    return Lamp("safe", "Safe", light, f"{n_met} of {n}", "limits kept", f"{sentence}{attack}")


def _attack(auc: float) -> str:
    """The strongest attack in words."""
    return f" The strongest attack picks the training patient out of a pair in {auc:.0%} of cases; a coin does in 50%."
