"""In which order the codes of a visit are drawn, chosen on validation patients.

Where rare codes come by themselves, they are best drawn last, given what is frequent. Where they come together, as the
signs of a rare disease do, they are best drawn first: one brings the others, and what is frequent follows. Which of
the two holds for a cohort shows after two passes over a few thousand patients; one pass over fewer chose wrongly.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from adapcla.console import say
from adapcla.data import Cohort
from adapcla.generation import bundle
from adapcla.generation.settings import Settings, settings_from
from adapcla.seeds import random_stream
from adapcla.training.processes import processes

#: The setting that asks for a choice, and the orders to choose from, the first where nothing is tried.
TRIED = "tried"
ORDERS = ("frequent", "mixed")
#: Training patients, and validation patients, of a trial at most; and its passes and patients of a step.
_PATIENTS, _VALID, _PASSES, _BATCH = 8_000, 4_000, 2.0, 128
#: Share of its validation loss by which another order must be better than the first: less is luck, as on claims whose
#: codes say little of each other.
_CLEARLY = 0.005


def is_asked_for(settings: Settings) -> bool:
    """Whether these settings leave the order open.

    >>> from adapcla.generation.methods import generator_for
    >>> is_asked_for(generator_for("adapcla").settings), is_asked_for(generator_for("tailwise").settings)
    (False, True)
    """
    return getattr(settings.architecture, "order", None) == TRIED


def trial_passes(settings: Settings, n_patients: int) -> float:
    """The passes over all training patients that the trials of these settings amount to.

    >>> from adapcla.generation.methods import generator_for
    >>> trial_passes(generator_for("tailwise").settings, 32_000)
    1.0
    """
    return len(ORDERS) * _PASSES * min(_PATIENTS / max(n_patients, 1), 1.0) if is_asked_for(settings) else 0.0


def with_order(
    settings: Settings, train: Cohort, valid: Cohort, loss_of: Callable[[Settings, Cohort, Cohort], float]
) -> tuple[Settings, dict[str, float]]:
    """The settings with the order of the clearly smaller validation loss, and the loss of each order that was tried.

    Nothing is tried where patients are protected, because a look at validation patients is not paid for by ε, nor by
    several processes at once; a warm start keeps the order of the weights that it begins with.

    Args:
        settings: Settings that may leave the order open.
        train: Training patients.
        valid: Validation patients.
        loss_of: The validation loss of a fit with some settings.
    """
    if not is_asked_for(settings):
        return settings, {}
    if settings.starts_from:
        before = bundle.read(Path(settings.starts_from)).settings.architecture
        return settings_from(settings, {"order": getattr(before, "order", ORDERS[0])}), {}
    if settings.privacy is not None or processes().count > 1:
        return settings_from(settings, {"order": ORDERS[0]}), {}
    small: dict[str, Any] = {"passes": _PASSES, "batch_size": _BATCH, "validations": 1, "calibration_rounds": 0}
    small |= {"first_stage": "", "last_weights": True}
    some, judges = _some(train, _PATIENTS, settings.seed), _some(valid, _VALID, settings.seed)
    losses = {order: loss_of(settings_from(settings, {**small, "order": order}), some, judges) for order in ORDERS}
    best = min(ORDERS, key=lambda order: losses[order] * (1 - _CLEARLY * (order == ORDERS[0])))
    tried = ", ".join(f"{order} first {loss:.3f}" for order, loss in losses.items())
    say(f"order of the codes of a visit, by validation loss after short fits: {tried}; taken: {best}")
    return settings_from(settings, {"order": best}), {order: round(loss, 4) for order, loss in losses.items()}


def _some(cohort: Cohort, most: int, seed: int) -> Cohort:
    """As many patients of a cohort, chosen by the seed and in their order."""
    if cohort.n_patients <= most:
        return cohort
    chosen = random_stream(seed, "order of codes").permutation(cohort.n_patients)[:most]
    return cohort.subset(np.sort(chosen))
