"""References that need the law to be known: fresh patients of the law, and the law without its single codes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort, Kind
from adapcla.data.ragged import expand_ranges, starts_from_sizes
from adapcla.errors import InputError
from adapcla.io.simulator.law import Law
from adapcla.io.simulator.whole import WholeLaw
from adapcla.io.simulator.world import WORLD, law, simulate
from adapcla.seeds import keyed_uniform, stream_key

#: Patients drawn to know how common the codes of a family are: the order of siblings is all that is needed.
_DRAWN = 2000


def law_of(cohort: Cohort, other_world: bool = False) -> Law | None:
    """The law that drew a cohort, or the whole that it is a part of; None unless the planted world made it.

    With `other_world` it is the law of the world with the next seed, on the same codes: a counter-example.

    >>> law_of(simulate(patients=5, codes=60)).n_codes
    60
    >>> law_of(Cohort.of([[["A"]]])) is None
    True
    """
    found = _law_named(cohort, other_world)
    return found if found is not None and found.vocabulary == cohort.vocabulary else None


def whole_law_of(cohort: Cohort) -> WholeLaw | None:
    """The law that drew a cohort of whole visits, or the whole that it is a part of; None for any other cohort.

    >>> whole_law_of(simulate(patients=5, codes=60, whole=True)).law.n_codes
    60
    >>> whole_law_of(simulate(patients=5, codes=60)) is None
    True
    """
    found = _law_named(cohort)
    whole = None if found is None else WholeLaw(found)
    return whole if whole is not None and whole.vocabulary == cohort.vocabulary else None


def _law_named(cohort: Cohort, other_world: bool = False) -> Law | None:
    """The law of disorders that the card of a cohort names."""
    asked = cohort.card.get("arguments", {})
    known = {"codes", "population", "law_seed"} <= set(asked) and asked.get("world") == WORLD
    if cohort.origin.kind != Kind.PLANTED or not known:
        return None
    return law(asked["codes"], asked["population"], asked["law_seed"] + other_world)


def ideal(like: Cohort, patients: int, seed: int) -> Cohort:
    """Fresh patients of the law that drew a cohort, nobody of them in it: what a perfect generator writes.

    >>> ideal(simulate(patients=20, codes=60, seed=1), patients=5, seed=1).n_patients
    5
    """
    whole = whole_law_of(like)
    known = law_of(like) if whole is None else whole.law
    if known is None:
        raise InputError(
            "a cohort that the planted world did not draw",
            expected="a cohort of `adapcla simulate`: only there the law is known",
        )
    # A stream of its own: no seed that a person would choose for `simulate` gives the same patients.
    fresh = stream_key(seed, "planted/ideal")
    return simulate(patients, known.n_codes, fresh, known.population, law_seed=known.law_seed, whole=whole is not None)


def family_only(like: Cohort, patients: int, seed: int) -> Cohort:
    """Fresh patients of the law whose every disorder became a sibling: what knowing families, but no code, can reach.

    The codes of a family in a visit are drawn again, as many as there were, by how common the siblings are. A patient
    keeps to the same siblings, so that what comes again is noted again. What else a whole visit holds stays.

    >>> cohort = simulate(patients=20, codes=60, seed=1)
    >>> exact, blurred = ideal(cohort, 5, seed=1), family_only(cohort, 5, seed=1)
    >>> blurred.codes_per_visit.tolist() == exact.codes_per_visit.tolist(), law_of(blurred) is None
    (True, True)
    """
    drawn = ideal(like, patients, seed)
    known = _law_named(drawn)
    assert known is not None  # the law of `like` drew it
    place = drawn.vocabulary.positions(known.vocabulary.tokens)
    category, share = np.full(drawn.n_codes, -1), np.zeros(drawn.n_codes)
    category[place], share[place] = known.layout.category, known.prevalence(_DRAWN).prevalence.share
    codes, values = _with_siblings(drawn, category, share, stream_key(seed, "planted/siblings"))
    card = {name: content for name, content in drawn.card.items() if name != "arguments"}
    card["visit_rule"] = "drawn from the planted law, codes by family alone"
    return replace(drawn, codes=codes, values=values, card=card)


def _with_siblings(
    cohort: Cohort, category: NDArray[np.int64], share: NDArray[np.float64], key: int
) -> tuple[NDArray[np.int32], NDArray[np.float32] | None]:
    """Codes and values of a cohort, every disorder drawn again inside its family; other codes have the category −1."""
    visit, codes = cohort.visit_of_entry, np.asarray(cohort.codes, dtype=np.int64)
    other = category[codes] < 0
    n_families = int(category.max()) + 1
    place, count = np.unique(visit[~other] * n_families + category[codes[~other]], return_counts=True)
    by_family = np.flatnonzero(category >= 0)
    by_family = by_family[np.argsort(category[by_family], kind="stable")]
    starts = starts_from_sizes(np.bincount(category[by_family], minlength=n_families))
    family = place % n_families
    size = starts[family + 1] - starts[family]
    sibling = by_family[expand_ranges(starts[family], starts[family + 1])]
    row = np.repeat(np.arange(len(place)), size)
    # The Gumbel trick: the largest of log share + noise are a draw without repeats by share.
    patient = cohort.patient_of_visit[place[row] // n_families]
    noise = -np.log(-np.log(keyed_uniform(key, patient, sibling, 1)[:, 0]))
    order = np.lexsort((-(np.log(np.maximum(share[sibling], 1e-12)) + noise), row))
    rank = np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size)
    chosen = order[rank < count[row]]
    visits = np.concatenate([place[row[chosen]] // n_families, visit[other]])
    drawn = np.concatenate([sibling[chosen], codes[other]])
    into_order = np.lexsort((drawn, visits))
    values = None
    if cohort.values is not None:
        kept = np.asarray(cohort.values)[other]
        values = np.concatenate([np.full(len(chosen), np.nan, np.float32), kept])[into_order]
    return drawn[into_order].astype(np.int32), values
