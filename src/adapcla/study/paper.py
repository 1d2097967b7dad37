"""What the paper reports and claims: its numbers, to be shown beside ours and never tuned to, and its claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

III, IV = "MIMIC-III", "MIMIC-IV"
TRANSFER = "MIMIC-IV to MIMIC-III"
#: The stratum of the tail numbers: the paper cuts its tables at the rarest 20 %.
TAIL_STRATUM = "rare20"
_TAIL = ("pair_seen", "tail_pair_seen", "tail_ctx_jsd", "tail_topk_jac")
_UTILITY = ("tstr_acc", "tstr_f1", "tstr_auprc")
#: The paper's classifiers are trained on sets in which half have the label.
_RELIABILITY = ("ece_balanced", "brier_balanced", "nll_balanced")

_Numbers = dict[str, dict[str, tuple[float | None, ...]]]
_TAIL_TABLE: _Numbers = {
    III: {
        "gpt": (0.7977, 0.0384, 0.6621, 0.01131),
        "lstm": (0.7272, 0.0297, 0.6414, 0.04905),
        "eva": (0.0260, 0.0023, 0.6905, 0.00083),
        "synteg": (0.0373, 0.0019, 0.6903, 0.00002),
        "halo": (0.8263, 0.0520, 0.6558, 0.01967),
        "adapcla": (0.7983, 0.1114, 0.5981, 0.0345),
        "static-pcla": (0.8526, 0.0755, 0.6392, 0.0256),
        "static-pcla-train-only": (0.9992, None, None, 0.0000),
    },
    IV: {
        "gpt": (0.8851, 0.0500, 0.6675, 0.00151),
        "lstm": (0.8339, 0.0355, 0.6464, 0.01729),
        "eva": (0.9042, 0.0482, 0.6691, 0.01159),
        "synteg": (0.2177, 0.0072, 0.6725, 0.00006),
        "halo": (0.8768, 0.0498, 0.6652, 0.01050),
        "adapcla": (0.9478, 0.0822, 0.6313, 0.0187),
    },
}
_UTILITY_TABLE: _Numbers = {
    III: {
        "gpt": (0.8256, 0.8304, 0.8902),
        "lstm": (0.5145, 0.5017, 0.5563),
        "eva": (0.5243, 0.5167, 0.5607),
        "synteg": (0.5095, 0.4016, 0.5721),
        "halo": (0.8761, 0.8779, 0.9295),
        "static-pcla": (0.9019, 0.9023, 0.9455),
        "adapcla": (0.9040, 0.9051, 0.9514),
    },
    IV: {
        "gpt": (0.8856, 0.8912, 0.9270),
        "lstm": (0.5441, 0.5518, 0.5967),
        "eva": (0.4829, 0.3969, 0.4896),
        "synteg": (0.5333, 0.5583, 0.6602),
        "halo": (0.8592, 0.8631, 0.8962),
        "static-pcla": (0.8914, 0.8912, 0.9309),
        "adapcla": (0.9130, 0.9104, 0.9449),
    },
    TRANSFER: {
        "lstm": (0.523, 0.557, 0.565),
        "eva": (0.489, 0.282, 0.445),
        "synteg": (0.517, 0.459, 0.603),
        "gpt": (0.822, 0.836, 0.895),
        "adapcla": (0.865, 0.865, 0.922),
    },
}
_RELIABILITY_TABLE: _Numbers = {
    "all": {"adapcla": (0.13, 0.06, 0.27), "gpt": (0.27, 0.14, 0.55), "halo": (0.37, 0.20, 0.65)},
    "tail": {"adapcla": (0.19, 0.08, 0.34), "gpt": (0.31, 0.16, 0.60), "halo": (0.44, 0.24, 0.73)},
}
#: Schedule → final gain of log p, AUC and normalised AUC on related rare codes.
SCHEDULES = {
    "slow": (1.04, 44.5, 0.195),
    "base": (0.99, 68.3, 0.290),
    "cosine": (1.02, 71.4, 0.289),
    "fast": (1.04, 101.4, 0.401),
}
#: (contexts, kind of probe) → mean AUC and mean final gain.
PROBES = {
    (30, "related_rare"): (5.28, 0.92),
    (30, "unrelated_rare"): (6.06, 1.12),
    (30, "wrong"): (5.85, 0.66),
    (100, "related_rare"): (5.80, 1.05),
    (100, "unrelated_rare"): (5.66, 0.98),
    (100, "wrong"): (4.32, 0.50),
}


def paper_number(cohort: str, row: str, metric: str, stratum: str = "all") -> float | None:
    """The paper's number of a row on one of its cohorts, or None where it has none.

    Tail metrics are the paper's at the rarest 20 %; PairSeen has no tail.

    >>> paper_number("MIMIC-III", "halo", "tail_pair_seen", "rare20")
    0.052
    >>> paper_number("MIMIC-III", "halo", "tail_pair_seen") is None
    True
    """
    if metric in _TAIL:
        own_stratum = "all" if metric == "pair_seen" else TAIL_STRATUM
        return _at(_TAIL_TABLE.get(cohort, {}), row, _TAIL, metric) if stratum == own_stratum else None
    if metric in _UTILITY:
        return _at(_UTILITY_TABLE.get(cohort, {}), row, _UTILITY, metric) if stratum == "all" else None
    if metric in _RELIABILITY and cohort == IV:
        return _at(_RELIABILITY_TABLE.get(stratum, {}), row, _RELIABILITY, metric)
    return None


def _at(
    table: Mapping[str, Sequence[float | None]],
    row: str,
    columns: tuple[str, ...],
    metric: str,
) -> float | None:
    """The cell of a row and a metric."""
    cells = table.get(row)
    return None if cells is None else cells[columns.index(metric)]


#: Rows of this project that are other readings of a row of the paper.
_READINGS = {"adapcla-halo": "adapcla", "adapcla-release": "adapcla"}


def paper_gains(row: str, other: str, metric: str, stratum: str, goal: str = "up") -> dict[str, float]:
    """How much better the paper has a row than another, by cohort; empty where it has no numbers of both.

    >>> paper_gains("adapcla", "halo", "tail_pair_seen", "rare20")
    {'MIMIC-III': 0.0594, 'MIMIC-IV': 0.0324}
    >>> paper_gains("adapcla-release", "halo", "tail_ctx_jsd", "rare20", goal="down")
    {'MIMIC-III': 0.0577, 'MIMIC-IV': 0.0339}
    """
    sign = -1.0 if goal == "down" else 1.0
    out = {}
    for cohort in (III, IV):
        one, two = (paper_number(cohort, _READINGS.get(name, name), metric, stratum) for name in (row, other))
        if one is not None and two is not None:
            out[cohort] = round(sign * (one - two), 9)
    return out


def format_gains(gains: Mapping[str, float]) -> str:
    """Gains of the paper as text; a dash where it has none.

    >>> format_gains({"MIMIC-III": 0.0594, "MIMIC-IV": 0.0324}), format_gains({})
    ('+0.059 (III), +0.032 (IV)', '–')
    """
    return ", ".join(f"{gain:+.3f} ({cohort.rpartition('-')[2]})" for cohort, gain in gains.items()) or "–"


class Claim(NamedTuple):
    """That one row is better than another on a metric."""

    text: str
    row: str
    other: str
    metric: str
    stratum: str = "all"
    #: Whose claim it is: the paper's, or a control or method of this project.
    whose: str = "paper"

    @property
    def confirmatory(self) -> bool:
        """Whether the claim was named before any fit, by the paper; everything else is exploratory."""
        return self.whose == "paper"

    @property
    def key(self) -> str:
        """The claim in few words, one for each claim.

        >>> Claim("AdaPCLA …", "adapcla", "halo", "ece", "tail").key
        'adapcla over halo: ece, tail'
        """
        return f"{self.row} over {self.other}: {self.metric}, {self.stratum}"


#: The paper's tail metrics, in the words of a claim and by name.
_TAIL_WORDS = (
    ("tail_pair_seen", "puts more of its tail pairs where training has them", "TailPairSeen"),
    ("tail_ctx_jsd", "gives tail codes more realistic neighbours (TailCtxJSD)", "TailCtxJSD"),
    ("tail_topk_jac", "finds more of the top neighbours of tail codes (TailTopKJac)", "TailTopKJac"),
)


def _four_claims(before: str, after: str, row: str, other: str, whose: str = "paper") -> tuple[Claim, ...]:
    """One claim for each metric of the tail, and one at equal numbers of codes and tail codes per visit."""
    equal = "… also when both write as many codes and tail codes per visit"
    return (
        *(Claim(f"{before} {words} {after}", row, other, key, TAIL_STRATUM, whose) for key, words, _ in _TAIL_WORDS),
        Claim(equal, row, other, "tail_pair_seen", f"matched_codes:{TAIL_STRATUM}", whose),
    )


def _tail_claims(text: str, row: str, other: str, whose: str = "control") -> tuple[Claim, ...]:
    """One claim for each metric of the tail, distinguished by the metric's name."""
    return tuple(Claim(f"{text} ({name})", row, other, key, TAIL_STRATUM, whose) for key, _, name in _TAIL_WORDS)


def _pairs_claim(text: str, row: str, other: str) -> Claim:
    """A control on the share of tail pairs that training has."""
    return Claim(f"{text} (TailPairSeen)", row, other, "tail_pair_seen", TAIL_STRATUM, "control")


_OURS = "this project"
#: Rows that are no methods are variants of `experiments/ablation.toml`.
CLAIMS = (
    *_four_claims("AdaPCLA", "than HALO", "adapcla", "halo"),
    *_tail_claims(
        "The paper's ablation: a scaffold annealed on HALO's head beats HALO",
        "adapcla-halo",
        "halo",
        "paper",
    ),
    *_tail_claims("The public release is better than HALO", "adapcla-release", "halo", "paper"),
    Claim(
        "… already by its two stages (TailPairSeen)",
        "release-stages",
        "halo",
        "tail_pair_seen",
        TAIL_STRATUM,
        "control",
    ),
    _pairs_claim("… then by the weight of present codes", "release-weight", "release-stages"),
    _pairs_claim("… then by its scaffold", "adapcla-release", "release-weight"),
    Claim("AdaPCLA trains better classifiers than HALO (AUPRC)", "adapcla", "halo", "tstr_auprc"),
    Claim("AdaPCLA trains better classifiers than Static-PCLA (AUPRC)", "adapcla", "static-pcla", "tstr_auprc"),
    *_tail_claims("Annealing beats a bias that stays", "adapcla", "static-pcla", "paper"),
    *_tail_claims(
        "A bias taken away only after training loses the tail", "static-pcla", "static-pcla-train-only", "paper"
    ),
    *_tail_claims("… of which annealing keeps more", "adapcla", "static-pcla-train-only", "paper"),
    Claim("AdaPCLA's probabilities are better calibrated than HALO's (ECE)", "adapcla", "halo", "ece_balanced"),
    Claim("… and on the rarest labels", "adapcla", "halo", "ece_balanced", "tail"),
    *_four_claims(
        "The scaffold is the cause: AdaPCLA",
        "than the same network and epochs without it",
        "adapcla",
        "adapcla-no-scaffold",
        "control",
    ),
    Claim(
        "The scaffold improves classifiers (AUPRC), at equal epochs",
        "adapcla",
        "adapcla-no-scaffold",
        "tstr_auprc",
        whose="control",
    ),
    *_tail_claims("The sign matters: a reversed scaffold does worse", "adapcla", "adapcla-reversed"),
    *_tail_claims("Each code needs its own rarity: the bias of other codes does worse", "adapcla", "adapcla-permuted"),
    *_tail_claims("The full scaffold is better than half of it", "adapcla", "adapcla-tempered-0.5"),
    *_tail_claims("The full scaffold is better than the fifth that the release ran", "adapcla", "adapcla-tempered-0.2"),
    Claim(
        "Dependence within a visit: Tailwise gives tail codes more realistic neighbours than AdaPCLA",
        "tailwise",
        "adapcla",
        "tail_ctx_jsd",
        "matched",
        _OURS,
    ),
    Claim("… and pairs that held-out patients have", "tailwise", "adapcla", "tail_pair_seen_heldout", "halves", _OURS),
)
