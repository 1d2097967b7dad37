"""What is planted: which codes persist, lead to one another and come together, drawn once from the law's seed.

*Events* are what a visit can draw by itself: every code (0 to V − 1) and every syndrome (V to V + S − 1). A syndrome is
hidden; its members are what is seen of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.seeds import random_stream
from adapcla.sources.planted.names import Layout

SEXES = ("female", "male")
BIRTH_BANDS = ("1925-1939", "1940-1949", "1950-1959", "1960-1969", "1970-1984", "1985-2004")
N_GROUPS = len(SEXES) * len(BIRTH_BANDS)
#: Share of patients in each birth band; the sexes are equal.
_BAND_SHARE = np.array([0.20, 0.22, 0.22, 0.16, 0.12, 0.08])
GROUP_SHARE = np.tile(_BAND_SHARE, len(SEXES)) / len(SEXES)
#: From 1 (the oldest band) to −1 (the youngest), for each group.
_AGE = np.tile(np.linspace(1.0, -1.0, len(BIRTH_BANDS)), len(SEXES))
_SEX = np.repeat([1.0, -1.0], len(BIRTH_BANDS))
#: How much more, in log, the oldest have than the middle, of everything.
_BURDEN = 0.3
#: Visits that follow another, as a share of all: what an effect of the previous visit is spread over.
_FOLLOWING = 0.45


class Links(NamedTuple):
    """A sparse table in row order: row `source[i]` reaches `target[i]` with probability `chance[i]`."""

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    chance: NDArray[np.float64]

    @classmethod
    def of(cls, source: list[NDArray], target: list[NDArray], chance: list[NDArray]) -> Links:
        """Links from pieces, in order of row and target; of repeated links the first is kept."""
        if not source:
            return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
        rows, columns, values = (np.concatenate(pieces) for pieces in (source, target, chance))
        pairs, first = np.unique(np.stack([rows, columns]).astype(np.int64), axis=1, return_index=True)
        return cls(pairs[0], pairs[1], values[first].astype(float))

    def starts(self, n_rows: int) -> NDArray[np.int64]:
        """Where the links of each row begin, with the end as last element."""
        return np.searchsorted(self.source, np.arange(n_rows + 1)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Structure:
    """The planted facts of a world, before its rates are balanced."""

    #: Syndrome → member code, and the chance that an active syndrome shows it.
    emissions: Links
    #: The rare members of each syndrome are the emissions marked here; the others are their partners.
    is_rare: NDArray[np.bool_]
    #: Code of the previous visit → event of the next.
    progressions: Links
    #: Chance that a code seen in any earlier visit is noted again.
    persistence: NDArray[np.float64]
    #: How much more common each event is in each group (groups × events), relative to its mean.
    group_factor: NDArray[np.float64]
    #: Base rate of each syndrome aimed at.
    syndrome_rate: NDArray[np.float64]
    #: What each code of the last visit adds to the log-odds of another visit.
    return_weight: NDArray[np.float64]
    #: Reasons for a visit: by group at the first (groups × reasons) and by the last reason (reasons × reasons).
    first_reason: NDArray[np.float64]
    next_reason: NDArray[np.float64]

    @property
    def n_syndromes(self) -> int:
        """Number of syndromes."""
        return len(self.syndrome_rate)


def structure(layout: Layout, law_seed: int) -> Structure:
    """The planted facts of the world with this seed."""
    rng = random_stream(law_seed, "planted/structure", len(layout.vocabulary))
    traits = _traits(layout, rng)
    syndromes = _syndromes(layout, traits, rng)
    emissions, is_rare, rate, home = syndromes
    factor = np.concatenate([traits.factor[:, layout.category], traits.factor[:, home]], axis=1)
    factor[:, layout.reasons] = 0.0
    first, following = _reasons(len(layout.reasons), rng)
    return Structure(
        emissions=emissions,
        is_rare=is_rare,
        progressions=_progressions(layout, traits, syndromes, rng),
        persistence=traits.persistence,
        group_factor=factor,
        syndrome_rate=rate,
        return_weight=traits.return_weight,
        first_reason=first,
        next_reason=following,
    )


class _Traits(NamedTuple):
    """What siblings share: factor (groups × families), and by code persistence and return weight."""

    factor: NDArray[np.float64]
    exclusive: NDArray[np.bool_]
    persistence: NDArray[np.float64]
    return_weight: NDArray[np.float64]


def _traits(layout: Layout, rng: np.random.Generator) -> _Traits:
    """Sex and age effects, persistence and return weights, drawn by family with a little of each code's own."""
    n_families, n_codes = int(layout.category.max()) + 1, len(layout.vocabulary)
    log_factor = np.outer(_SEX, rng.normal(0, 0.2, n_families)) + np.outer(_AGE, rng.normal(_BURDEN, 0.45, n_families))
    factor = np.exp(log_factor)
    # A few families exist in one sex only: a pair of opposite ones in a record is impossible.
    kind = rng.random(n_families)
    exclusive = kind < 0.06
    factor[_SEX > 0] *= np.where(exclusive & (kind < 0.03), 0.0, 1.0)
    factor[_SEX < 0] *= np.where(exclusive & (kind >= 0.03), 0.0, 1.0)
    factor /= GROUP_SHARE @ factor
    chronic = rng.random(n_families) < 0.35
    level = rng.uniform(0.45, 0.85, n_families)
    own = np.clip(level[layout.category] + rng.normal(0, 0.05, n_codes), 0.3, 0.92)
    of_disorder = layout.category >= 0
    persistence = np.where(chronic[layout.category] & of_disorder, own, 0.0)
    ending = rng.random(n_families) < 0.03
    weight = np.where(persistence > 0, 0.05, 0.0) - np.where(ending[layout.category] & of_disorder, 1.2, 0.0)
    return _Traits(factor, exclusive, persistence, weight)


class _Syndromes(NamedTuple):
    """Emissions, which of them are rare members, and by syndrome the base rate and the home family."""

    emissions: Links
    is_rare: NDArray[np.bool_]
    rate: NDArray[np.float64]
    home: NDArray[np.int64]


def _syndromes(layout: Layout, traits: _Traits, rng: np.random.Generator) -> _Syndromes:
    """The syndromes of a world.

    The rare half of each family is cut into runs of 2 to 5 neighbours in prevalence; three runs of four become the
    rare members of a syndrome. Partners come from a pool that the family's syndromes share: that is what makes it
    right to borrow strength from siblings.
    """
    target, category = layout.target, layout.category
    disorders = layout.disorders
    rare = np.zeros(len(target), dtype=bool)
    rare[disorders] = target[disorders] <= np.median(target[disorders])
    ordered = disorders[np.argsort(-target[disorders], kind="stable")]
    middle = ordered[len(ordered) // 8 : max(len(ordered) // 2, len(ordered) // 8 + 8)]
    middle = middle[~traits.exclusive[category[middle]]]
    source, members, chance, marks, homes = [], [], [], [], []
    rates: list[float] = []
    for family in np.unique(category[rare]):
        codes = np.flatnonzero(rare & (category == family))
        codes = codes[np.argsort(-target[codes], kind="stable")]
        others = middle[category[middle] != family]
        pool = rng.choice(others, size=min(5, len(others)), replace=False)
        for run in _runs(codes, rng):
            partners = rng.choice(pool, size=min(3, len(pool)), replace=False)
            shown = np.concatenate([rng.uniform(0.5, 0.9, len(run)), rng.uniform(0.45, 0.85, len(partners))])
            source.append(np.full(len(shown), len(rates)))
            members.append(np.concatenate([run, partners]))
            chance.append(shown)
            marks.append(np.arange(len(shown)) < len(run))
            rates.append(0.7 * float(np.mean(target[run] / shown[: len(run)])))
            homes.append(family)
    emissions = Links.of(source, members, chance)
    marked = Links.of(source, members, [m.astype(float) for m in marks])
    return _Syndromes(emissions, marked.chance > 0, np.array(rates), np.array(homes, dtype=np.int64))


def _runs(codes: NDArray[np.int64], rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Three of four runs of 2 to 5 neighbouring codes; the rest stay out of every syndrome."""
    out, start = [], 0
    while len(codes) - start >= 2:
        stop = start + int(rng.integers(2, 6))
        if rng.random() < 0.75:
            out.append(codes[start:stop])
        start = stop
    return [run for run in out if len(run) >= 2]


def _progressions(
    layout: Layout,
    traits: _Traits,
    syndromes: _Syndromes,
    rng: np.random.Generator,
) -> Links:
    """Links from a code to events of the next visit: family to family, relapses, and a forerunner of each syndrome.

    A link into a rare code from a common one is weak, so that what a code owes to its forerunners stays a part of it.
    """
    target, category, n_codes = layout.target, layout.category, len(layout.vocabulary)
    emissions, is_rare, rate, home = syndromes
    source: list[NDArray] = []
    reached: list[NDArray] = []
    chance: list[NDArray] = []
    by_family = np.argsort(category, kind="stable")
    edges = np.searchsorted(category[by_family], np.arange(int(category.max()) + 2))
    families = [by_family[edges[f] : edges[f + 1]] for f in range(len(edges) - 1)]
    families = [codes[np.argsort(-target[codes], kind="stable")] for codes in families]
    open_to = np.flatnonzero(~traits.exclusive)
    for family in np.flatnonzero(rng.random(len(families)) < 0.6):
        later = families[rng.choice(open_to)]
        codes = families[family][~np.isin(families[family], later)]
        goal = later[np.arange(len(codes)) % len(later)]
        bound = 0.3 * target[goal] / (_FOLLOWING * target[codes])
        source.append(codes)
        reached.append(goal)
        chance.append(np.minimum(0.35, bound) * rng.uniform(0.5, 1.0, len(codes)))
    relapses = np.flatnonzero(is_rare)
    source.append(emissions.target[relapses])
    reached.append(n_codes + emissions.source[relapses])
    chance.append(rng.uniform(0.05, 0.15, len(relapses)))
    # Nothing leads to a syndrome of one sex, so that the other sex can never have it.
    both = np.flatnonzero(~traits.exclusive[home])
    forerunners = rng.choice(layout.disorders, size=len(both))
    source.append(forerunners)
    reached.append(n_codes + both)
    chance.append(np.minimum(0.3, 0.25 * rate[both] / (_FOLLOWING * target[forerunners])))
    return Links.of(source, reached, chance)


def _reasons(n: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shares of the reasons at the first visit (groups × reasons) and after each reason (reasons × reasons)."""
    log_share = -0.9 * np.log1p(rng.permutation(n))
    first = np.exp(log_share[None, :] + rng.normal(0, 0.3, (N_GROUPS, n)))
    first /= first.sum(axis=1, keepdims=True)
    own = rng.gamma(0.3, size=(n, n)) + 1e-9
    own /= own.sum(axis=1, keepdims=True)
    common = GROUP_SHARE @ first
    return first, 0.4 * common[None, :] + 0.35 * own + 0.25 * np.eye(n)


def rewired(world: Structure, layout: Layout, law_seed: int) -> Structure:
    """The structure of the deeply shifted population: a third of what is planted is other.

    A third of the syndromes have other partners, a third of the progressions lead elsewhere, and a third of the
    persistent codes persist half as much.
    """
    rng = random_stream(law_seed, "planted/deep", len(layout.vocabulary))
    moved = rng.random(world.n_syndromes) < 1 / 3
    members = world.emissions.target.copy()
    swap = np.flatnonzero(moved[world.emissions.source] & ~world.is_rare)
    others = np.unique(members[~world.is_rare])
    members[swap] = rng.choice(others, size=len(swap))
    emissions = Links.of([world.emissions.source], [members], [world.emissions.chance])
    marked = Links.of([world.emissions.source], [members], [world.is_rare.astype(float)])
    links = world.progressions
    # Relapses stay: a link that led to a syndrome of one sex must not be given to a code of both.
    chosen = np.flatnonzero((rng.random(len(links.source)) < 1 / 3) & (links.target < len(layout.vocabulary)))
    reached = links.target.copy()
    reached[chosen] = reached[rng.permutation(chosen)]
    weaker = np.where(rng.random(len(world.persistence)) < 1 / 3, 0.5, 1.0)
    return replace(
        world,
        emissions=emissions,
        is_rare=marked.chance > 0,
        progressions=Links.of([links.source], [reached], [links.chance]),
        persistence=world.persistence * weaker,
    )


def moved_log_odds(world: Structure, layout: Layout, law_seed: int) -> NDArray[np.float64]:
    """What the shifted population adds to the log-odds of each event, 0 where it moves nothing.

    Moved are a sixth of the codes that belong to no syndrome and a fifth of the syndromes, by 0.7 to 1.6 up or down.
    """
    rng = random_stream(law_seed, "planted/shifted", len(layout.vocabulary))
    n_codes = len(layout.vocabulary)
    free = np.zeros(n_codes, dtype=bool)
    free[layout.disorders] = True
    free[world.emissions.target] = False
    n_events = n_codes + world.n_syndromes
    size = rng.uniform(0.7, 1.6, n_events) * rng.choice([-1.0, 1.0], n_events)
    chosen = rng.random(n_events) < np.concatenate([np.where(free, 1 / 6, 0.0), np.full(world.n_syndromes, 0.2)])
    return np.where(chosen, size, 0.0)
