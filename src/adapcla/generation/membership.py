"""Log-likelihoods of patients under a model and under attack models, for the strongest membership attacks.

The attacks themselves are metrics and know no generator; here are the numbers that they need: how likely each member
and each control patient is under the model, and under attack models that saw a random half of both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adapcla.console import meter
from adapcla.data import Cohort
from adapcla.data.provenance import require_apart
from adapcla.errors import UsageError
from adapcla.generation.fitting import fit
from adapcla.generation.model import Model
from adapcla.seeds import random_stream
from adapcla.training.settings import settings_from

#: Share of an attack model's patients that watch its training.
_WATCHING = 0.1


def evidence(
    model: Model, train: Cohort, control: Cohort, attack_models: int = 4, seed: int = 1
) -> dict[str, NDArray[np.float64] | NDArray[np.bool_]]:
    """Log-likelihoods of members and controls under the model and under `attack_models` models of its kind.

    Attack models have the settings of the model, other seeds, and a random half of members and controls together.
    """
    if attack_models < 0 or attack_models == 1:
        raise UsageError(
            f"{attack_models} attack models: expected 0, or at least 2 (4 or more for the likelihood ratio)"
        )
    require_apart(model.origin.ancestors(), {"control": control})
    members, controls = model.quantize(train), model.quantize(control)
    evidence_arrays: dict[str, NDArray[np.float64] | NDArray[np.bool_]] = {
        "member_log_likelihood": model.log_likelihood(members),
        "control_log_likelihood": model.log_likelihood(controls),
    }
    if not attack_models:
        return evidence_arrays
    pool = members.followed_by(controls)
    scores = np.empty((pool.n_patients, attack_models))
    included = np.zeros((pool.n_patients, attack_models), dtype=bool)
    with meter("attack models", attack_models) as bar:
        for number in range(attack_models):
            order = random_stream(seed, "reference", number).permutation(pool.n_patients)
            half = order[: pool.n_patients // 2]
            watching = max(1, round(_WATCHING * len(half)))
            settings = settings_from(model.settings, {"seed": model.settings.seed + 1000 + number})
            attack_model, _ = fit(settings, pool.subset(half[watching:]), pool.subset(half[:watching]))
            scores[:, number] = attack_model.log_likelihood(pool)
            included[half[watching:], number] = True
            bar.advance(1)
    n = members.n_patients
    evidence_arrays |= {"member_attack_models": scores[:n], "control_attack_models": scores[n:]}
    return evidence_arrays | {"member_included": included[:n], "control_included": included[n:]}
