"""How much the synthetic patients tell about single real ones.

Lives here: copies, memorised pairs, membership, attribute and singling-out attacks, each against control patients
of the same law, in strata; and the gate that refuses a release.
May not: know a generator; likelihoods come as arrays in `Comparison.evidence`.
May import: the metric contract, pairs and intervals, data and the ground floor.
"""

from adapcla.evaluation.privacy.gate import LIMITS, MODEL_LIMITS, GateLine, Limit, accept, gate, require, require_known

__all__ = ["LIMITS", "MODEL_LIMITS", "GateLine", "Limit", "accept", "gate", "require", "require_known"]
