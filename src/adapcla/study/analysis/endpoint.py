"""How much of the scaffold a real network has taken into its own logits at the end of training."""

from __future__ import annotations

import numpy as np
import polars as pl

from adapcla.data import Strata
from adapcla.study.analysis.trajectories import Trajectory


def endpoint_table(trajectory: Trajectory, strata: Strata, seed: int | None = None) -> pl.DataFrame:
    """Root mean squares over contexts and codes of z_T − z_0 − b, z_T − z_0 and b, overall and by stratum.

    `share_internalised` is the slope of the drift z_T − z_0 on b through 0: 1 would be the ideal endpoint identity, 0
    is a network whose logits end where they began. A network that starts at logit π̂ and learns the prevalences has no
    reason to move by b, whatever the schedule: the identity needs a start at z̃* − b.
    """
    drift = trajectory.last_logits.astype(np.float64) - trajectory.first_logits
    rows = []
    for name, mask in {"all": strata.present, "head": strata.head, "mid": strata.mid, "tail": strata.tail}.items():
        moved, bias = drift[:, mask], np.broadcast_to(trajectory.bias[mask], (len(drift), int(mask.sum())))
        rows.append(
            {
                "schedule": trajectory.schedule,
                "seed": seed,
                "stratum": name,
                "codes": int(mask.sum()),
                "contexts": len(drift),
                "deviation": _root_mean_square(moved - bias),
                "logit_drift": _root_mean_square(moved),
                "bias": _root_mean_square(bias),
                "share_internalised": float((moved * bias).sum() / max(float((bias**2).sum()), 1e-300)),
            }
        )
    return pl.DataFrame(rows)


def _root_mean_square(values: np.ndarray) -> float:
    """√ of the mean square.

    >>> round(_root_mean_square(np.array([3.0, 4.0])) ** 2, 6)
    12.5
    """
    return float(np.sqrt((values**2).mean())) if values.size else float("nan")
