"""How much the synthetic patients tell about single real ones.

Lives here: who is compared (`groups`), what few patients hold (`singletons`), what can be read off the synthetic
patient nearest to a real one (`nearest`), membership attacks (`membership`), each against controls; and the gate.
May not: know a generator; likelihoods come as arrays in `Comparison.evidence`.
May import: the metric contract, pairs and intervals, data and the root modules.
"""

from adapcla.evaluation.privacy.gate import (
    LIMITS,
    MODEL_LIMITS,
    Detectable,
    GateLine,
    Limit,
    Outcome,
    accept,
    detectable,
    gate,
    require,
    require_known,
)

__all__ = [
    "LIMITS",
    "MODEL_LIMITS",
    "Detectable",
    "GateLine",
    "Limit",
    "Outcome",
    "accept",
    "detectable",
    "gate",
    "require",
    "require_known",
]
