"""What scores do not hold: reliability diagrams, the strongest attack, scores by label, discriminator features."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.evaluation import Comparison, Missing

#: Points of a ROC curve that are kept.
_ROC_POINTS = 200


def curves_of(comparison: Comparison, suites: Sequence[str], leave_out: Collection[str] = ()) -> dict[str, Any]:
    """The curves of these suites, ready for JSON; the work behind them is the comparison's own, done once.

    Curves need the classifiers of their protocol, which are slow to train, and go where its scores are left out.
    """
    out: dict[str, Any] = {}
    if "reliability" in suites and "ece" not in leave_out:
        out["reliability"] = _reliability(comparison)
    if "reliability" in suites and "ece_balanced" not in leave_out:
        out["reliability_balanced"] = _reliability(comparison, balanced=True)
    if "utility" in suites and "tstr_acc" not in leave_out:
        out["labels"] = _labels(comparison)
    if "privacy" in suites:
        out["roc"] = _roc(comparison)
    if "discriminator" in suites:
        out["feature_importance"] = _feature_importance(comparison)
    return out


def _reliability(comparison: Comparison, balanced: bool = False) -> dict[str, Any]:
    """The bins of the reliability diagram over all labels and over the tail labels."""
    from adapcla.evaluation.reliability import pairs_of, reliability_bins
    from adapcla.evaluation.utility import balanced_predictions, natural_predictions

    pairs = comparison.sample.once(pairs_of, balanced_predictions if balanced else natural_predictions)
    if isinstance(pairs, Missing):
        return {}
    return {
        name: {key: _plain(values) for key, values in reliability_bins(each.probability, each.truth).items()}
        for name, each in pairs.items()
        if each.probability.size
    }


def _labels(comparison: Comparison) -> list[dict[str, object]]:
    """The scores of each label in the balanced protocol."""
    from adapcla.evaluation.utility import balanced_predictions, label_table, rule_of

    predictions = comparison.sample.once(balanced_predictions)
    return [] if isinstance(predictions, Missing) else label_table(predictions, rule_of(comparison.sample).names)


def _roc(comparison: Comparison) -> dict[str, Any]:
    """The curve of the strongest membership attack on data alone."""
    from adapcla.evaluation.privacy.membership import Attacked, strongest_attack

    attacked = comparison.once(Attacked.of)
    if attacked.n_members == 0:
        return {}
    name, score = strongest_attack(attacked, "all")
    alarms, caught = roc(*attacked.split(name, "all"))
    return {"attack": name, "auc": score.value, "alarms": _plain(alarms), "caught": _plain(caught)}


def _feature_importance(comparison: Comparison) -> list[dict[str, Any]]:
    """What tells synthetic from real patients, feature by feature; means over patients, rounded."""
    from adapcla.evaluation.discriminator import feature_importance

    rows = feature_importance(comparison)
    return [{key: value if isinstance(value, str) else round(value, 4) for key, value in row.items()} for row in rows]


def roc(members: NDArray[np.float64], controls: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shares of controls and of members above each threshold, thinned to a few hundred points.

    >>> [side.tolist() for side in roc(np.array([3.0, 2.0]), np.array([1.0, 2.0]))]
    [[0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0]]
    """
    thresholds = np.unique(np.concatenate([members, controls]))[::-1]
    above = [1 - np.searchsorted(np.sort(side), thresholds, side="left") / len(side) for side in (controls, members)]
    alarms, caught = (np.concatenate([[0.0], side]) for side in above)
    keep = np.unique(np.linspace(0, len(alarms) - 1, min(_ROC_POINTS, len(alarms))).round().astype(int))
    return alarms[keep], caught[keep]


def _plain(values: NDArray[np.float64]) -> list[float | None]:
    """Numbers for JSON, which knows no NaN."""
    return [round(float(value), 6) if np.isfinite(value) else None for value in values]
