"""Planted pairs of a simulated world with their truth, and marked patients for leak searches."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.data.ragged import expand_ranges, starts_from_sizes
from adapcla.io.simulator import History, World
from adapcla.io.simulator.codes import CodeLayout
from adapcla.io.simulator.structure import GROUP_SHARE
from adapcla.seeds import random_stream

#: Marked codes of each of the two visits of a marked patient.
MARKS = 6


class PlantedPair(NamedTuple):
    """A rare code and a partner that its syndrome brings along, with the truth about them at first visits."""

    code: str
    partner: str
    #: Probability of both in one first visit.
    together: float
    #: That probability, divided by what it would be if they came independently.
    lift: float


def planted_pairs(world: World) -> list[PlantedPair]:
    """Every pair of a rare code and a partner, highest lift first."""
    shown, rare = world.structure.emissions, world.structure.is_rare
    starts = shown.starts(world.structure.n_syndromes)
    one = np.repeat(np.arange(len(rare)), starts[shown.source + 1] - starts[shown.source])
    two = expand_ranges(starts[shown.source], starts[shown.source + 1])
    chosen = rare[one] & ~rare[two]
    code, partner = shown.target[one[chosen]], shown.target[two[chosen]]
    both = GROUP_SHARE @ together(world, world.newcomers, code, partner)
    lift = both / (world.first_visit[code] * world.first_visit[partner])
    tokens, order = world.vocabulary.tokens, np.argsort(-lift, kind="stable")
    return [PlantedPair(tokens[code[i]], tokens[partner[i]], float(both[i]), float(lift[i])) for i in order]


def together(
    world: World, history: History, first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The probability that code first[i] and code second[i] share the next visit (rows × pairs)."""
    events, single, emissions = world.event_probabilities(history), world.next_visit(history), world.structure.emissions
    shows = sparse.csc_matrix(
        (emissions.chance, (emissions.source, emissions.target)), shape=(world.structure.n_syndromes, world.n_codes)
    )
    one, two = shows[:, first].toarray(), shows[:, second].toarray()
    missed = np.log1p(-events[:, world.n_codes :, None] * (one + two - one * two)).sum(axis=1)
    neither = (1 - events[:, first]) * (1 - events[:, second]) * np.exp(missed)
    joint = single[:, first] + single[:, second] - 1 + neither
    # Reasons are drawn apart from everything else, and only one of them.
    reason_one, reason_two = np.isin(first, world.layout.reasons), np.isin(second, world.layout.reasons)
    joint = np.where(reason_one ^ reason_two, single[:, first] * single[:, second], joint)
    return np.where(first == second, single[:, first], np.where(reason_one & reason_two, 0.0, joint))


def marked_codes(layout: CodeLayout, n: int) -> NDArray[np.int64]:
    """The marked codes of `n` patients (n × 2 visits × MARKS), all from the rarest third, ascending.

    Rare codes meet inside a syndrome alone, and the marks are of many: in a world of the default size they practically
    never stand in one visit, so a visit with all marks of a patient is a copy.
    """
    disorders = layout.disorders
    rare = disorders[np.argsort(layout.target[disorders], kind="stable")][: max(2 * MARKS, len(disorders) // 3)]
    order = np.argsort(random_stream(0, "planted/tripwires").random((n, len(rare))), axis=1)[:, : 2 * MARKS]
    return np.sort(rare[order].reshape(n, 2, MARKS), axis=2)


def with_marked_patients(cohort: Cohort, layout: CodeLayout, n: int) -> Cohort:
    """A simulated cohort with its last `n` patients replaced by marked ones of two visits, thirty days apart."""
    kept = cohort.subset(np.arange(cohort.n_patients - n))
    # Reasons are the last codes of the vocabulary.
    marks = np.concatenate([marked_codes(layout, n), np.full((n, 2, 1), layout.reasons[0])], axis=2)
    assert kept.days is not None
    return replace(
        cohort,
        codes=np.concatenate([kept.codes, marks.ravel().astype(np.int32)]),
        visit_starts=starts_from_sizes(np.concatenate([kept.codes_per_visit, np.full(2 * n, MARKS + 1)])),
        patient_starts=starts_from_sizes(np.concatenate([kept.visits_per_patient, np.full(n, 2)])),
        days=np.concatenate([kept.days, np.tile(np.array([0, 30], np.int32), n)]),
    )
