"""How well the scores of an attack distinguish members of the training set from controls.

Pure functions on arrays: the area under the curve, what is caught at few false alarms, and the attacks that need a
model, on log-likelihoods that its maker hands over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from adapcla.errors import InputError
from adapcla.evaluation.bootstrap import normal_score, wilson
from adapcla.evaluation.comparison import Score

#: False alarms among controls at which the share of caught members is reported.
FALSE_ALARMS = 0.01
#: Attack models below which per-patient means are too rough.
FEWEST_ATTACK_MODELS = 4


def auc(members: NDArray[np.float64], controls: NDArray[np.float64], halves: bool = False) -> Score:
    """The chance that a member scores above a control (ties count half), with DeLong's interval.

    With `halves` the scores come from two models, each trained on the half that the other judges. What looks like a
    leak by chance in one half then looks so in both, so the variance is taken twice.

    >>> auc(np.array([3.0, 2.0]), np.array([1.0, 2.0])).value
    0.875
    """
    n, m = len(members), len(controls)
    ranks = stats.rankdata(np.concatenate([members, controls]))
    # The share of the other group below each patient: DeLong's placements.
    above = (ranks[:n] - stats.rankdata(members)) / m
    below = 1 - (ranks[n:] - stats.rankdata(controls)) / n
    value = float(above.mean())
    variance = (float(above.var(ddof=1)) / n if n > 1 else 0.0) + (float(below.var(ddof=1)) / m if m > 1 else 0.0)
    # Where every member beats every control the placements do not vary; half a comparison's doubt is left.
    variance = max(variance * (2 if halves else 1), 1 / (4.0 * n * m))
    return normal_score(value, n + m, float(np.sqrt(variance)), (0.0, 1.0))


def caught(members: NDArray[np.float64], controls: NDArray[np.float64], false_alarms: float = FALSE_ALARMS) -> Score:
    """The share of members above the highest scores of controls, at most `false_alarms` of which lie above too.

    >>> caught(np.array([9.0, 8.0, 1.0, 0.0]), np.arange(8.0), 0.01).value
    0.5
    """
    highest = np.sort(controls)[::-1]
    threshold = highest[min(int(false_alarms * len(controls)), len(controls) - 1)]
    hits = int((members > threshold).sum())
    low, high = wilson(hits, len(members))
    return Score(hits / len(members), len(members) + len(controls), low, high)


def likelihood_per_code(log_likelihoods: NDArray[np.float64], n_codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Attack B: each patient's log-likelihood under the model, over the number of codes, so that length says nothing.

    >>> likelihood_per_code(np.array([-4.0, -4.0]), np.array([2, 4])).tolist()
    [-2.0, -1.0]
    """
    return np.asarray(log_likelihoods, dtype=np.float64) / np.maximum(n_codes, 1)


def calibrated(target: NDArray[np.float64], attack_models: NDArray[np.float64]) -> NDArray[np.float64]:
    """Attack C: the model's likelihood per code less the mean of the attack models', which know the law only.

    >>> calibrated(np.array([-1.0]), np.array([[-2.0, -4.0]])).tolist()
    [2.0]
    """
    return np.asarray(target) - np.asarray(attack_models).mean(axis=1)


def likelihood_ratio(
    target: NDArray[np.float64], attack_models: NDArray[np.float64], included: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Attack D (LiRA, Carlini et al., 2022): is the target's likelihood like that of models with or without x?

    `attack_models` holds one column per attack model; `included` says which of them were trained on the patient.
    Normal laws with each patient's own means and one pooled variance for all. Without models that were trained on
    the patient, the distance from the models without, in standard deviations.

    >>> attack_models = np.array([[-3.0, -1.0, 1.0, 3.0], [1.0, 3.0, -3.0, -1.0]])
    >>> included = np.array([[False, False, True, True], [True, True, False, False]])
    >>> likelihood_ratio(np.array([2.0, -2.0]), attack_models, included).round(6).tolist()
    [4.0, -4.0]
    >>> likelihood_ratio(np.array([1.0]), np.array([[-1.0, -1.0, 1.0, 1.0]])).round(3).tolist()
    [0.866]
    """
    attack_models = np.asarray(attack_models, dtype=np.float64)
    if attack_models.shape[1] < FEWEST_ATTACK_MODELS:
        raise InputError(
            f"{attack_models.shape[1]} attack models",
            expected=f"at least {FEWEST_ATTACK_MODELS}",
            remedy="train more attack models, or use the calibrated attack",
        )
    inside = np.zeros(attack_models.shape, dtype=bool) if included is None else np.asarray(included, dtype=bool)
    mean_out, out_spread = _means(attack_models, ~inside)
    if not inside.any():
        return (target - mean_out) / out_spread
    mean_in, in_spread = _means(attack_models, inside)
    return stats.norm.logpdf(target, mean_in, in_spread) - stats.norm.logpdf(target, mean_out, out_spread)


def _means(values: NDArray[np.float64], chosen: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
    """Each row's mean over the chosen columns (the mean of all rows where none is), and the pooled deviation."""
    n = chosen.sum(axis=1)
    sums = np.where(chosen, values, 0.0).sum(axis=1)
    mean = np.where(n > 0, sums / np.maximum(n, 1), sums.sum() / max(int(n.sum()), 1))
    squares = np.where(chosen, (values - mean[:, None]) ** 2, 0.0).sum()
    freedom = max(int(np.maximum(n - 1, 0).sum()), 1)
    return mean, max(float(np.sqrt(squares / freedom)), 1e-12)
