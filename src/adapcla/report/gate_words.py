"""The lines of the privacy gate in words that need no paper: what each asks, and what to do where it fails."""

from __future__ import annotations

from typing import NamedTuple

from adapcla.evaluation.privacy import GateLine


class Words(NamedTuple):
    """A line of the gate for people."""

    title: str
    #: What it asks, as a sentence.
    asks: str
    #: What is true where the limit is exceeded.
    exceeded: str


_COPIES = "Records of training patients come back word for word, more often than by chance."
_MEMBERS = "Somebody who knows a person's record can tell whether that person was trained on."
WORDS = {
    "copy_excess": Words("Copies", "Are whole records of training patients written again?", _COPIES),
    "rare_copy_excess": Words("Copies with rare codes", "Are records with rare codes written again?", _COPIES),
    "near_copy_excess": Words(
        "Near copies",
        "Are records nearer to training patients than other real patients are?",
        "Synthetic patients are nearer to training patients than other real patients are.",
    ),
    "unique_pair_gap [beyond_prevalence]": Words(
        "One-patient pairs",
        "Are pairs of codes written that a single training patient holds?",
        "Pairs of codes that a single training patient holds are written more often than those of others, "
        "beyond what prevalences bring.",
    ),
    "membership_auc": Words("Membership", "Can an attacker tell who was trained on?", _MEMBERS),
    "membership_auc [rare]": Words(
        "Membership of people with rare codes", "Can an attacker tell it of people with rare codes?", _MEMBERS
    ),
    "membership_auc [unique_pair]": Words(
        "Membership of people with a pair of their own",
        "Can an attacker tell it of people with unique pairs?",
        _MEMBERS,
    ),
    "attribute_residual": Words(
        "Unknown codes",
        "Can a rare code be read off the nearest synthetic patient?",
        "Rare codes of training patients can be read off the synthetic patient nearest to them.",
    ),
    "membership_likelihood_auc": Words(
        "Model: likelihood", "Does the model find training patients likelier?", _MEMBERS
    ),
    "membership_reference_auc": Words("Model: beside others", "Does it, beside models of other patients?", _MEMBERS),
    "membership_lira_auc": Words("Model: likelihood ratio", "Does it, by the strongest attack known?", _MEMBERS),
}
#: What helps, in the order in which `--repair` does it.
TO_DO = (
    "larger --min-patients, so that rarer codes are rolled up",
    "shorter training (fewer --minutes) or stricter limits on what few patients teach",
    "more patients, or training with differential privacy",
)


def words_of(line: GateLine) -> Words:
    """The words of a line; those of its metric where its stratum has none of its own.

    >>> words_of(GateLine("membership_lira_auc [rare]", 0.6, 0.7, 0.58, False)).title
    'Model: likelihood ratio, people with rare codes'
    """
    if line.name in WORDS:
        return WORDS[line.name]
    metric, _, stratum = line.name.partition(" [")
    known = WORDS.get(metric, Words(metric, "", "The limit is exceeded."))
    who = {"rare]": ", people with rare codes", "unique_pair]": ", people with a pair of their own"}.get(stratum, "")
    return known._replace(title=f"{known.title}{who}")


def in_words(line: GateLine) -> str:
    """Why a line failed, in one sentence with its numbers.

    >>> in_words(GateLine("copy_excess", 0.02, 0.03, 1e-4, False))
    'Copies: Records of training patients come back word for word, more often than by chance. Found 0.02, limit 0.0001.'
    """
    words = words_of(line)
    if line.value is None:
        return f"{words.title}: this could not be assessed ({line.note})."
    return f"{words.title}: {words.exceeded} Found {line.value:.3g}, limit {line.limit:g}."
