"""What patients of a condition are compared with: others of the same model that were not asked to fulfil it."""

from __future__ import annotations

import numpy as np

from adapcla.data import Cohort, Prevalence
from adapcla.data.criteria import Criteria, clause_codes
from adapcla.generation.model import Model
from adapcla.generation.sampler import sample
from adapcla.generation.steering import steer
from adapcla.scaffold import Steering

#: Steered patients drawn for each one that is wanted, at most: not all have what the condition asks for.
_MOST_EACH = 20
#: Steered patients drawn at once.
_AT_ONCE = 1024
#: The largest share that is steered to: a code that every visit holds has no finite shift.
_LARGEST = 0.95


def comparators(model: Model, condition: Criteria, train: Cohort, n: int, seed: int) -> dict[str, Cohort]:
    """`random` patients of the model; where it can be steered, `raised` and `steered` ones who fulfil the condition.

    `raised`: the asked codes alone are as frequent as among the training patients who fulfil the condition.
    `steered`: all codes are, so that this row is told the company of the asked codes, which nobody tells the others. It
    is the best that a shift of log-odds for everybody can do. There may be fewer patients than `n` where a shift hardly
    makes any.
    """
    out = {"random": sample(model, n, seed)}
    target = condition.patients(train, known=False)
    if not model.traits.steerable or not target.n_patients:
        return out
    wanted = target.prevalence()
    share = np.minimum(wanted.share, _LARGEST)
    alone, asked = np.full(len(share), np.nan), clause_codes(target, condition)
    alone[asked] = share[asked]
    for name, goal in (("raised", alone), ("steered", share)):
        steering = steer(model, Prevalence(wanted.vocabulary, goal, wanted.n_visits))
        found = _fulfilling(model, condition, steering, n, seed)
        if found is not None:
            out[name] = found
    return out


def _fulfilling(model: Model, condition: Criteria, steering: Steering, n: int, seed: int) -> Cohort | None:
    """Up to `n` patients of the steered model who fulfil the condition; None where there is not one."""
    n_drawn, kept = 0, np.zeros(0, dtype=np.int64)
    drawn = None
    while len(kept) < n and n_drawn < _MOST_EACH * n:
        n_drawn = max(_AT_ONCE, n, 2 * n_drawn)  # the first patients of a seed are drawn again with the others
        drawn = sample(model, n_drawn, seed, steering)
        kept = np.flatnonzero(condition.matches(drawn))
    return drawn.subset(kept[:n]) if drawn is not None and len(kept) else None
