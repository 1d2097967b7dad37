"""Membership attacks on a model: likelihood per code, calibrated by reference models, and LiRA.

Metrics know no generator, so its maker hands the log-likelihoods over in `Comparison.evidence`, one row a patient of
the training cohort ("member_") and of the control cohort ("control_"), in the cohorts' order:

- `member_log_likelihood`, `control_log_likelihood`: under the model that made the synthetic patients; shape (n,)
- `member_references`, `control_references`: under the reference models, one column a model; shape (n, models)
- `member_included`, `control_included`: whether the reference model was trained on the patient; optional,
  shape (n, models)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from adapcla.errors import InputError
from adapcla.metrics.contract import ALL, Comparison, Score, metric
from adapcla.metrics.privacy.copies import entries_per_patient
from adapcla.metrics.privacy.membership import (
    FEWEST_REFERENCES,
    auc,
    calibrated,
    caught,
    likelihood_per_code,
    likelihood_ratio,
)
from adapcla.metrics.privacy.strata import STRATA, Groups, assessed, too_few

SIDES = ("member", "control")
NO_MODEL = "no likelihoods were given: this attack needs the model that made the synthetic patients"
NO_REFERENCES = "no reference models were given"


def model_scores(comparison: Comparison, attack: str) -> list[NDArray[np.float64]] | str:
    """The attack's scores of all training and of all control patients, or why there are none.

    >>> from adapcla.records import Cohort
    >>> cohort = Cohort.of([[["A", "B"]], [["A"]]])
    >>> given = {f"{side}_log_likelihood": np.array([-4.0, -1.0]) for side in SIDES}
    >>> pair = Comparison.of(cohort, cohort, cohort, evidence=given)
    >>> [scores.tolist() for scores in model_scores(pair, "likelihood")]
    [[-2.0, -1.0], [-2.0, -1.0]]
    >>> model_scores(pair, "lira")
    'no reference models were given'
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
    if any(f"{side}_references" not in given for side in SIDES):
        return NO_REFERENCES
    references = [
        _rows(given, f"{side}_references", len(size)) / np.maximum(size, 1)[:, None]
        for side, size in zip(SIDES, sizes, strict=True)
    ]
    if attack == "reference":
        return [calibrated(target, reference) for target, reference in zip(targets, references, strict=True)]
    if references[0].shape[1] < FEWEST_REFERENCES:
        return f"{references[0].shape[1]} reference models, {FEWEST_REFERENCES} needed"
    told = all(f"{side}_included" in given for side in SIDES)
    included = np.concatenate([np.asarray(given[f"{side}_included"], dtype=bool) for side in SIDES]) if told else None
    # Both groups share one variance: an attacker does not know who is who.
    ratios = likelihood_ratio(np.concatenate(targets), np.concatenate(references), included)
    return [ratios[: len(targets[0])], ratios[len(targets[0]) :]]


def _rows(given: dict[str, NDArray[np.float64]], name: str, n: int) -> NDArray[np.float64]:
    """The named array, checked to have one finite row a patient."""
    values = np.asarray(given[name], dtype=np.float64)
    if len(values) != n or not np.isfinite(values).all():
        raise InputError(
            f"evidence {name!r} with {len(values)} rows, {int((~np.isfinite(values)).sum())} values not finite",
            expected=f"{n} rows of finite numbers, one a patient in the cohort's order",
            remedy="compute the likelihoods again for exactly these patients",
        )
    return values


def _judged(
    attack: str, judge: Callable[[NDArray[np.float64], NDArray[np.float64]], Score]
) -> Callable[[Comparison, Groups], dict[str, Score]]:
    """A metric from a model attack: its scores judged in each stratum."""

    def compute(comparison: Comparison, made: Groups) -> dict[str, Score]:
        scores = model_scores(comparison, attack)
        if isinstance(scores, str):
            return {ALL: Score.missing(scores)}
        members, controls = scores[0][made.member_rows], scores[1][made.control_rows]
        masks, out = made.masks(), {}
        for stratum in STRATA:
            some, others = members[masks[stratum][0]], controls[masks[stratum][1]]
            reason = too_few(len(some), len(others))
            out[stratum] = Score.missing(reason, len(some) + len(others)) if reason else judge(some, others)
        return out

    return compute


def _register(attack: str, says: str, origin: str) -> None:
    """Register a model attack's area under the curve and what it catches at 1 % false alarms."""
    for suffix, unit, judge, what in (
        ("auc", "AUC", auc, "Area under the curve of"),
        ("caught", "share", caught, "Share of members caught at 1 % false alarms by"),
    ):
        compute = _judged(attack, judge)
        compute.__doc__ = f"{what} the membership attack by {says}."
        metric(f"membership_{attack}_{suffix}", suite="privacy", goal="down", unit=unit, origin=origin)(
            assessed(compute)
        )


_register("likelihood", "the model's likelihood per code", "own")
_register("reference", "the model's likelihood per code less that of reference models", "Watson et al., 2022")
_register("lira", "the likelihood ratio over reference models", "Carlini et al., 2022")
