"""The lines of the privacy gate in words that need no paper, and the one table of them for page, card and terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import NamedTuple

from adapcla.disclosure import format_count
from adapcla.evaluation.comparison import ALL, Score
from adapcla.evaluation.privacy import Detectable, GateLine, Outcome
from adapcla.evaluation.privacy.gate import GOOD
from adapcla.tables import Cell, Line, Table, format_number


class Words(NamedTuple):
    """A line of the gate for people."""

    title: str
    #: What it asks, as a question.
    asks: str
    #: What is true where the limit is exceeded.
    exceeded: str


_COPIES = "Records of training patients are written again, more often than by chance."
_MEMBERS = "Somebody who knows a person's record can find out whether that person was trained on."
_FEW = "are written more often where one more of the people who hold them was trained on."
WORDS = {
    "copy_excess": Words("Copies", "Are whole records of training patients written again?", _COPIES),
    "rare_copy_excess": Words("Copies of rare records", "Are records of people who stand out written again?", _COPIES),
    "near_copy_excess": Words(
        "Near copies",
        "Are records of training patients written with one code changed?",
        "Records of training patients are written again but for one code.",
    ),
    "singleton_visit_gap": Words(
        "Whole visits of one patient",
        "Are visits written that one training patient alone had?",
        "Visits that one training patient alone had are written more often than those of others.",
    ),
    "pair_holder_gap": Words(
        "Pairs of few patients",
        "Are pairs of codes written that one to six training patients hold?",
        f"Pairs of codes of few patients {_FEW}",
    ),
    "triple_holder_gap": Words(
        "Three codes of few patients",
        "Are three codes of a visit written that one to six training patients hold?",
        f"Three codes of one visit of few patients {_FEW}",
    ),
    "singleton_transition_gap": Words(
        "Steps of one patient",
        "Are a code and a code of the next visit written that one training patient alone has?",
        "Codes that follow each other in one training patient alone are written more often than those of others.",
    ),
    "membership_auc": Words("Membership", "Can an attacker find out who was trained on?", _MEMBERS),
    "attribute_residual": Words(
        "Unknown codes",
        "Can a rare code be read off the nearest synthetic patient?",
        "Rare codes of training patients can be read off the synthetic patient nearest to them.",
    ),
    "value_attack": Words(
        "Unknown values",
        "Can a lab value or a length of stay be read off the nearest synthetic patient?",
        "Numbers of training patients can be read off the synthetic patient nearest to them.",
    ),
    "membership_likelihood_auc": Words(
        "Model: likelihood", "Does the model find training patients likelier?", _MEMBERS
    ),
    "membership_lira_auc": Words("Model: likelihood ratio", "Does it, by the strongest attack known?", _MEMBERS),
}
_WHO = {"exposed]": ", people who stand out"}
#: What helps, in the order in which `--repair` does it.
TO_DO = (
    "larger --min-patients, so that rarer codes are rolled up",
    "more damping of pairs that few patients hold (--set fit.settings.damping=0.6), or shorter training",
    "more patients, or training with differential privacy",
)
#: What helps where a line cannot be shown.
TO_SHOW = "more control patients, coarser codes (a larger --min-patients), or training with differential privacy"
#: Lines of what can be read off a synthetic patient.
READ_OFF = ("attribute_residual", "value_attack")
#: Marks of the excess of singling out that boards use.
SINGLING_OUT_MARKS = (0.05, 0.09)


def words_of(line: GateLine) -> Words:
    """The words of a line; those of its metric where its stratum has none of its own.

    >>> words_of(GateLine("membership_lira_auc [exposed]", "not shown", None, None, None, 0.58)).title
    'Model: likelihood ratio, people who stand out'
    """
    metric, _, stratum = line.name.partition(" [")
    known = WORDS.get(metric, Words(metric, "", "The limit is exceeded."))
    return known._replace(title=f"{known.title}{_WHO.get(stratum, '')}")


def gain(line: GateLine) -> str:
    """How many guesses of somebody who looks for training patients are right, at most; empty where nothing was found.

    A gap g between members and controls lets somebody who sees such a set guess right in 50 + 50 g of 100 cases. What
    can be read off is compared with what is read off of people who were used for nothing.

    >>> gain(GateLine("pair_holder_gap", "met", 0.01, -0.01, 0.04, 0.05))
    'at most 52 of 100 guesses are right (chance 50)'
    >>> gain(GateLine("attribute_residual", "met", 0.01, -0.01, 0.03, 0.09))
    'at most 3 of 100 that cannot be read off of others'
    """
    if line.upper is None:
        return ""
    gap = min(max(line.upper if line.no_leak == 0 else 2 * (line.upper - line.no_leak), 0.0), 1.0)
    # Rounded up, since it is said to be the most; the inner rounding takes away what binary fractions add.
    if line.name in READ_OFF:
        return f"at most {ceil(round(100 * gap, 6))} of 100 that cannot be read off of others"
    return f"at most {ceil(round(50 + 50 * gap, 6))} of 100 guesses are right (chance 50)"


def in_words(line: GateLine) -> str:
    """Why a line is not met, in one sentence with its numbers.

    >>> in_words(GateLine("copy_excess", "exceeded", 0.02, 0.015, 0.025, 0.01))
    'Copies: Records of training patients are written again, more often than by chance. Found 0.02, limit 0.01.'
    >>> in_words(GateLine("copy_excess", "not shown", 0.002, -0.01, 0.014, 0.01))
    'Copies: found 0.002, but so few patients show no more than that it is below 0.014; limit 0.01.'
    """
    title, _, exceeded = words_of(line)
    if line.value is None or line.upper is None:
        return f"{title}: this could not be assessed ({line.note})."
    if line.outcome == Outcome.EXCEEDED:
        return f"{title}: {exceeded} Found {line.value:.3g}, limit {line.limit:g}."
    bound = f"so few patients show no more than that it is below {line.upper:.3g}"
    return f"{title}: found {line.value:.3g}, but {bound}; limit {line.limit:g}."


def gate_table(lines: Sequence[GateLine], of_model: bool = False) -> Table:
    """The lines of the gate as they stand on page, card and terminal."""
    rows = []
    for line in lines:
        words = words_of(line)
        note = f"accepted: {line.accepted}" if line.accepted else ""
        if line.value is None and line.outcome == Outcome.MET:
            note = f"{format_count(line.n)} people" if line.n else "not in these data"
        elif line.value is None:
            note = note or line.note
        cells = (
            Cell(words.title, None, words.asks),
            Cell(format_number(line.value), line.value),
            Cell(format_number(line.upper), line.upper),
            Cell(f"{line.limit:g}", line.limit),
            Cell(gain(line) or "–"),
            Cell(line.verdict, None, note),
        )
        rows.append(Line(cells, line.outcome))
    columns = ("check", "value", "upper bound", "limit", "what an attacker gains", "outcome")
    caption = (
        "What the records reveal about training patients, compared with control patients (real, never used to make "
        "them). Met: the upper bound keeps the limit; all bounds together hold in 95 of 100 cases. Exceeded: the lower "
        f"bound lies above the limit. Not shown: too few patients to say. Good: within {GOOD:g} of no leak."
    )
    good = (
        "Every line met; only then is the model written with the data."
        if of_model
        else "Every check met. Where nothing leaks, copies and gaps are 0 and membership is 0.5. This is evidence, "
        "not a guarantee."
    )
    key, title = ("model", "Attacks on the model") if of_model else ("gate", "Privacy checks")
    return Table(columns, tuple(rows), key, title, caption, good=good, always_open=True)


def beside_gate(scores: Mapping[str, Mapping[str, Score]]) -> list[str]:
    """Sentences about what boards ask for beside the gate: singling out, and membership among a whole population.

    >>> beside_gate({"singling_out_excess": {"all": Score(0.01, 90, -0.01, 0.03)}})
    ['Singling out, beyond chance: 0.01 (95 % interval -0.01 to 0.03; ethics boards use 0.05 and 0.09 as marks).']
    """
    found = {key: scores.get(key, {}).get(ALL) for key in ("singling_out_excess", "membership_f1")}
    out = []
    single, f1 = found["singling_out_excess"], found["membership_f1"]
    if single is not None and single.value is not None and single.low is not None and single.high is not None:
        marks = " and ".join(f"{mark:g}" for mark in SINGLING_OUT_MARKS)
        interval = f"95 % interval {single.low:.2g} to {single.high:.2g}"
        out.append(f"Singling out, beyond chance: {single.value:.2g} ({interval}; ethics boards use {marks} as marks).")
    advantage = scores.get("membership_advantage", {}).get(ALL)
    if f1 is not None and f1.value is not None and advantage is not None and advantage.value is not None:
        out.append(f"Membership: F1 {f1.value:.3g} {f1.reason}; advantage {advantage.value:.2g} (usual limit 0.2).")
    return out


def detectable_words(found: Mapping[str, Detectable]) -> str:
    """What so many patients can show, in a sentence; said before training.

    >>> detectable_words({"copy_excess": Detectable(0.01, 0.004, True)})
    'so many patients can show every line of the privacy gate'
    >>> detectable_words({"copy_excess": Detectable(0.01, 0.02, False)}).partition(";")[0]
    'so many patients cannot show 1 of 1 lines of the privacy gate even where nothing leaks: Copies (±0.02, limit 0.01)'
    """
    missing = {name: each for name, each in found.items() if not each.shown}
    if not missing:
        return "so many patients can show every line of the privacy gate"
    each = []
    for name, one in missing.items():
        title = words_of(GateLine(name, Outcome.NOT_SHOWN, None, None, None, one.limit)).title
        each.append(
            f"{title} ({one.note if one.half_width is None else f'±{one.half_width:.2g}, limit {one.limit:g}'})"
        )
    start = f"so many patients cannot show {len(missing)} of {len(found)} lines of the privacy gate even where nothing"
    return f"{start} leaks: {', '.join(each)}; what helps: {TO_SHOW}"
