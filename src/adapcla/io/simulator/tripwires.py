"""Marked patients for leak searches: each holds a combination of codes that nobody else has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adapcla.data.ragged import starts_from_sizes
from adapcla.errors import UsageError
from adapcla.io.simulator.draw import Drawn
from adapcla.io.simulator.names import Layout
from adapcla.seeds import random_stream

#: Marked codes of each of the two visits of a tripwire patient.
MARKS = 6
MOST_TRIPWIRES = 1000


def marked_codes(layout: Layout, n: int) -> NDArray[np.int64]:
    """The marked codes of `n` tripwire patients (n × 2 visits × MARKS), all from the rarest third, ascending.

    Rare codes meet inside a syndrome alone, and the marks are of many: by the law of a world of the default size they
    practically never stand in one visit, so a visit with the marks of a tripwire is a copy.
    """
    if not 0 <= n <= MOST_TRIPWIRES:
        raise UsageError(f"{n} tripwires: expected 0 to {MOST_TRIPWIRES}")
    disorders = layout.disorders
    rare = disorders[np.argsort(layout.target[disorders], kind="stable")][: max(2 * MARKS, len(disorders) // 3)]
    order = np.argsort(random_stream(0, "planted/tripwires").random((n, len(rare))), axis=1)[:, : 2 * MARKS]
    return np.sort(rare[order].reshape(n, 2, MARKS), axis=2)


def with_tripwires(drawn: Drawn, layout: Layout, n: int) -> Drawn:
    """The patients with the last `n` replaced by tripwires of two visits, thirty days apart."""
    if n == 0:
        return drawn
    if n > len(drawn.visits):
        raise UsageError(f"{n} tripwires among {len(drawn.visits)} patients")
    marks = marked_codes(layout, n)
    reason = np.full((n, 2, 1), layout.reasons[0])
    codes = np.concatenate([marks, reason], axis=2).ravel()  # reasons are the last codes of the vocabulary
    stay = len(drawn.visits) - n
    n_visits = int(drawn.visits[:stay].sum())
    n_entries = int(starts_from_sizes(drawn.visit_sizes)[n_visits])
    return Drawn(
        np.concatenate([drawn.codes[:n_entries], codes.astype(np.int32)]),
        np.concatenate([drawn.visit_sizes[:n_visits], np.full(2 * n, MARKS + 1)]),
        np.concatenate([drawn.visits[:stay], np.full(n, 2)]),
        np.concatenate([drawn.days[:n_visits], np.tile(np.array([0, 30], np.int32), n)]),
        drawn.group,
    )
