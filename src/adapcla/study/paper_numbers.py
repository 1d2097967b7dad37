"""The numbers that the paper reports, to be shown beside ours; they are never targets to tune to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def told_gains(gains: Mapping[str, float]) -> str:
    """Gains of the paper as text; a dash where it has none.

    >>> told_gains({"MIMIC-III": 0.0594, "MIMIC-IV": 0.0324}), told_gains({})
    ('+0.059 (III), +0.032 (IV)', '–')
    """
    return ", ".join(f"{gain:+.3f} ({cohort.rpartition('-')[2]})" for cohort, gain in gains.items()) or "–"
