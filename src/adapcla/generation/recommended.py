"""How fast, how long and how large to train, from the numbers of patients, visits and codes alone.

The numbers are those with the best validation loss among the cells that were tried on open data sets.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from adapcla.training.settings import METHODS

#: Patients beyond which passes fall, so that steps do not grow: 2,344 of them, while the best cell of no cohort in the
#: table took more than 966. The largest has 57,000 patients.
_MOST_PATIENTS = 100_000


class Recommended(NamedTuple):
    """The settings of a fit that follow from the size of a cohort."""

    learning_rate: float
    passes: float
    batch_size: int
    width: int
    layers: int


def recommended(n_patients: int, n_visits: int, n_codes: int) -> Recommended:
    """The rate, passes, batches and size of a network for a training part of this size.

    Small cohorts get small batches, so that a pass has steps enough. Few passes at a low rate: 16 overfit wherever
    they were measured. How far a fit by this rule is from the best cell of its grid is in the table; it is
    furthest where visits say little of each other, which their number does not tell. Visits and codes are asked for
    because a better rule may need them; this one follows from patients alone. Beyond 100,000 patients nothing was
    measured: steps are held at more than twice those of any best cell, with one pass over everybody at least.

    >>> recommended(36_000, 51_000, 900)
    Recommended(learning_rate=0.001, passes=6, batch_size=256, width=128, layers=2)
    >>> recommended(1_500, 1_900, 1_500).batch_size
    64
    >>> [recommended(n, 2 * n, 3_000).passes for n in (100_000, 200_000, 5_000_000)]
    [6, 3.0, 1.0]
    """
    batch_size = 64 if n_patients < 4_000 else 128 if n_patients < 15_000 else 256
    passes: float = 8 if 2_000 <= n_patients < 20_000 else 6
    if n_patients > _MOST_PATIENTS:
        passes = max(round(passes * _MOST_PATIENTS / n_patients, 2), 1.0)
    return Recommended(1e-3, passes, batch_size, 128, 2)


def with_recommended(
    method: str, changes: dict[str, Any], n_patients: int, n_visits: int, n_codes: int
) -> dict[str, Any]:
    """The changes with what the rule says for a cohort of this size, where neither they nor the row say otherwise.

    Training goes through the whole cosine, because the passes of the rule were measured so; the weights are the best
    of those after the scaffold has gone.

    >>> with_recommended("lstm", {"passes": 3}, 36_000, 51_000, 900)
    {'learning_rate': 0.001, 'batch_size': 256, 'width': 128, 'patience': 20, 'passes': 3}
    """
    row = METHODS[method]
    known = {*type(row.settings.architecture).model_fields, *type(row.settings.budget).model_fields}
    said = {**row.row.settings, **changes, **changes.get("architecture", {}), **changes.get("budget", {})}
    rule = {**recommended(n_patients, n_visits, n_codes)._asdict(), "patience": row.settings.budget.validations}
    return {**{name: value for name, value in rule.items() if name in known and name not in said}, **changes}
