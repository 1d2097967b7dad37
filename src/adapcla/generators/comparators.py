"""What patients of a condition are compared with: others of the same model that were not asked to fulfil it."""

from __future__ import annotations

import numpy as np

from adapcla.generators.model import Model
from adapcla.generators.sampling import sample
from adapcla.generators.steering import steer
from adapcla.records import Cohort
from adapcla.records.condition import Condition

#: Steered patients drawn for each one that is wanted, at most: not all have what the condition asks for.
_MOST_EACH = 20
#: Steered patients drawn at once.
_AT_ONCE = 1024


def comparators(model: Model, condition: Condition, train: Cohort, n: int, seed: int) -> dict[str, Cohort]:
    """`random` patients of the model, and where it can be steered, `steered` ones who fulfil the condition.

    Steering is towards the prevalence of all codes among the training patients who fulfil it: the best that a shift of
    log-odds for everybody can do. There may be fewer steered patients than `n` where it hardly makes any.
    """
    out = {"random": sample(model, n, seed)}
    target = condition.patients(train, known=False)
    if not model.traits.steerable or not target.n_patients:
        return out
    wanted = target.prevalence()
    # A code that every visit holds has no finite shift.
    steering = steer(model, type(wanted)(wanted.vocabulary, np.minimum(wanted.share, 0.95), wanted.n_visits))
    n_drawn, kept = 0, np.zeros(0, dtype=np.int64)
    drawn = None
    while len(kept) < n and n_drawn < _MOST_EACH * n:
        n_drawn += max(_AT_ONCE, n)
        drawn = sample(model, n_drawn, seed, steering)
        kept = np.flatnonzero(condition.fulfilled(drawn))
    if drawn is not None and len(kept):
        out["steered"] = drawn.subset(kept[:n])
    return out
