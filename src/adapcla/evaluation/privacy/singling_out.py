"""Singling out: does "holds this and that code in one visit", true of one synthetic patient, fit one real patient?"""

from __future__ import annotations

import numpy as np

from adapcla.evaluation.bootstrap import normal_score
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.privacy.owners import OwnedPairs, owned_pairs, pair_set, sum_error
from adapcla.evaluation.privacy.strata import FEWEST, Groups, assessed


def singled_out(predicates: OwnedPairs, real: OwnedPairs, n_patients: int, n_codes: int) -> tuple[float, float]:
    """The share of predicates that exactly one real patient fulfils, and its standard error, real patients as units.

    >>> predicates = OwnedPairs(np.array([0, 0]), np.array([1, 2]), np.array([0, 0]))
    >>> singled_out(predicates, OwnedPairs(np.array([0]), np.array([2]), np.array([0])), 1, 3)
    (0.5, 0.0)
    """
    holds = pair_set(predicates, n_codes).holds(real.first, real.second).astype(np.float64)
    return float(holds.sum()) / len(predicates), sum_error(real.owner, holds, n_patients) / len(predicates)


@assessed
def singling_out_excess(comparison: Comparison, groups: Groups) -> dict[str, Score]:
    """Share of pairs held by one synthetic patient that single out a member, less a control, of as many."""
    predicates = owned_pairs([groups.synthetic])
    n = len(predicates)
    if n < FEWEST:
        return {ALL: Missing(f"insufficient data: {n} predicates, {FEWEST} needed", n).score}
    members, controls = (
        singled_out(predicates, owned_pairs([cohort]), cohort.n_patients, cohort.n_codes) for cohort in groups.matched()
    )
    error = float(np.hypot(members[1], controls[1]))
    return {
        ALL: normal_score(members[0] - controls[0], n, error, (-1.0, 1.0)),
        "members": Score(members[0], n),
        "controls": Score(controls[0], n),
    }
