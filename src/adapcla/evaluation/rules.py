"""The share of patients who break a rule that no training patient breaks."""

from __future__ import annotations

import numpy as np

from adapcla.data.rules import RULE_KINDS, Rules
from adapcla.evaluation.contract import ALL, Comparison, Missing, Score
from adapcla.evaluation.intervals import ratio_scores


def rule_breaks(comparison: Comparison) -> dict[str, Score]:
    """Share of patients who break at least one rule, in all and by kind of rule."""
    rules = comparison.of_cohort(Rules.of, comparison.train)
    counts = rules.counts
    if not sum(counts.values()):
        return {ALL: Missing("training patients teach no rule").score}
    broken = comparison.of_cohort(rules.broken, comparison.synthetic)
    kinds = {ALL: np.any(list(broken.values()), axis=0), **{kind: broken[kind] for kind in RULE_KINDS if counts[kind]}}
    tops = np.stack(list(kinds.values()), axis=1).astype(np.float64)
    scores = ratio_scores(comparison, tops, np.ones_like(tops), ["there is no synthetic patient"] * len(kinds))
    return dict(zip(kinds, scores, strict=True))
