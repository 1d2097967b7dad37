"""Membership attacks on a model: likelihood per code, calibrated by attack models, and LiRA.

Metrics know no generator, so its maker hands the log-likelihoods over in `Comparison.evidence`, one row per patient of
the training cohort ("member_") and of the control cohort ("control_"), in the cohorts' order:

- `member_log_likelihood`, `control_log_likelihood`: under the model that made the synthetic patients; shape (n,)
- `member_attack_models`, `control_attack_models`: under the attack models, one column per model; shape (n, models)
- `member_included`, `control_included`: whether the attack model was trained on the patient; optional,
  shape (n, models)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from adapcla.errors import InputError
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.privacy.copies import entries_per_patient
from adapcla.evaluation.privacy.membership import (
    FEWEST_ATTACK_MODELS,
    calibrated,
    likelihood_per_code,
    likelihood_ratio,
)
from adapcla.evaluation.privacy.strata import Groups, Values, by_stratum

SIDES = ("member", "control")
NO_MODEL = Missing("no likelihoods were given: this attack needs the model that made the synthetic patients")
NO_ATTACK_MODELS = Missing("no attack models were given")


def model_scores(comparison: Comparison, attack: str) -> list[NDArray[np.float64]] | Missing:
    """The attack's scores of all training and of all control patients, or why there are none.

    >>> from adapcla.data import Cohort
    >>> cohort = Cohort.of([[["A", "B"]], [["A"]]])
    >>> given = {f"{side}_log_likelihood": np.array([-4.0, -1.0]) for side in SIDES}
    >>> pair = Comparison.of(cohort, cohort, cohort, evidence=given)
    >>> [scores.tolist() for scores in model_scores(pair, "likelihood")]
    [[-2.0, -1.0], [-2.0, -1.0]]
    >>> model_scores(pair, "lira").reason
    'no attack models were given'
    """
    given = comparison.evidence
    if any(f"{side}_log_likelihood" not in given for side in SIDES):
        return NO_MODEL
    cohorts = (comparison.train, comparison.test if comparison.control is None else comparison.control)
    sizes = [entries_per_patient(cohort) for cohort in cohorts]
    targets = [
        likelihood_per_code(_rows(given, f"{side}_log_likelihood", len(size)), size)
        for side, size in zip(SIDES, sizes, strict=True)
    ]
    if attack == "likelihood":
        return targets
    if any(f"{side}_attack_models" not in given for side in SIDES):
        return NO_ATTACK_MODELS
    by_attack_model = [
        _rows(given, f"{side}_attack_models", len(size)) / np.maximum(size, 1)[:, None]
        for side, size in zip(SIDES, sizes, strict=True)
    ]
    if attack == "reference":
        return [calibrated(target, models) for target, models in zip(targets, by_attack_model, strict=True)]
    if by_attack_model[0].shape[1] < FEWEST_ATTACK_MODELS:
        return Missing(f"{by_attack_model[0].shape[1]} attack models, {FEWEST_ATTACK_MODELS} needed")
    included = None
    if all(f"{side}_included" in given for side in SIDES):
        included = np.concatenate([np.asarray(given[f"{side}_included"], dtype=bool) for side in SIDES])
    # Both groups share one variance: an attacker does not know who is who.
    ratios = likelihood_ratio(np.concatenate(targets), np.concatenate(by_attack_model), included)
    return [ratios[: len(targets[0])], ratios[len(targets[0]) :]]


def _rows(given: dict[str, NDArray[np.float64]], name: str, n: int) -> NDArray[np.float64]:
    """The named array, checked to have one finite row per patient."""
    values = np.asarray(given[name], dtype=np.float64)
    if len(values) != n or not np.isfinite(values).all():
        raise InputError(
            f"evidence {name!r} with {len(values)} rows, {int((~np.isfinite(values)).sum())} values not finite",
            expected=f"{n} rows of finite numbers, one per patient in the cohort's order",
            remedy="compute the likelihoods again for exactly these patients",
        )
    return values


def model_attack(
    attack: str, judge: Callable[[Values, Values], Score], comparison: Comparison, groups: Groups
) -> dict[str, Score]:
    """A model attack's scores of members and controls as one score for each stratum."""
    scores = model_scores(comparison, attack)
    if isinstance(scores, Missing):
        return {ALL: scores.score}
    members, controls = scores[0][groups.member_rows], scores[1][groups.control_rows]
    masks = groups.masks()

    def split(stratum: str) -> tuple[Values, Values]:
        of_members, of_controls = masks[stratum]
        return members[of_members], controls[of_controls]

    return by_stratum(split, lambda stratum: judge(*split(stratum)))
