"""The structure of a simulated world: which codes persist, lead to one another and co-occur, drawn once from its seed.

*Events* are what a visit can draw by itself: every code (0 to V − 1) and every syndrome (V to V + S − 1). A syndrome is
hidden; its members are what is seen of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.io.simulator.codes import CodeLayout
from adapcla.seeds import random_stream

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
#: How much more of its rare diseases, in log, the youngest have than the middle, beside the effect of a family.
_EARLY = 1.5
#: Visits that follow another, as a share of all: what an effect of the previous visit is spread over.
_FOLLOWING = 0.45
#: The rarest part of the disorders, whose codes co-occur with partners.
_RARE = 0.6
#: Partners of a syndrome for each disorder of a mean visit: most codes beside a rare one are its partners.
_PARTNERS_A_DISORDER = 2.0
#: Fewer codes to choose partners from are too few, as in very small worlds.
_FEWEST_PARTNERS = 8
#: Families that have their rare diseases in common, and runs of rare codes that make one syndrome.
_KIN, _RUNS = 3, 4
#: The chance that a syndrome shows its diagnosis, and how much of a rare code its base rate may bring.
_SHOWN, _EXPLAINED = 0.9, 0.9

#: Visits of a record, at most.
MOST_VISITS = 20
#: Chance of another visit after the first, second, … for an average visit; the last value holds from there on.
_RETURN = np.array([0.33, 0.48, 0.58, 0.65, 0.70])
#: Rounds of balancing, and first visits that each follows.
_ROUNDS, _FOLLOWED = 12, 10
#: The part of its target that every code brings by itself, at least.
_LEAST = 0.05


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
    """What codes of a world do to one another, before its rates are balanced."""

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


def draw_structure(layout: CodeLayout, law_seed: int) -> Structure:
    """The structure of the world with this seed."""
    rng = random_stream(law_seed, "planted/structure", len(layout.vocabulary))
    traits = _traits(layout, rng)
    syndromes = _syndromes(layout, traits, rng)
    emissions, is_rare, rate, diagnosis = syndromes
    home = layout.category[diagnosis]
    early = traits.factor[:, home] * np.exp(-_EARLY * _AGE)[:, None]
    factor = np.concatenate([traits.factor[:, layout.category], early / (GROUP_SHARE @ early)], axis=1)
    factor[:, layout.reasons] = 0.0
    # A rare code comes again with its syndrome, not without its partners.
    persistence = traits.persistence.copy()
    persistence[emissions.target[is_rare]] = 0.0
    first, following = _reasons(len(layout.reasons), rng)
    return Structure(
        emissions=emissions,
        is_rare=is_rare,
        progressions=_progressions(layout, traits, syndromes, rng),
        persistence=persistence,
        group_factor=factor,
        syndrome_rate=rate,
        return_weight=traits.return_weight,
        first_reason=first,
        next_reason=following,
    )


class _Traits(NamedTuple):
    """What siblings share: by family the factor (groups × families), whether it is of one sex, and the chance that a
    syndrome comes again; by code persistence and return weight."""

    factor: NDArray[np.float64]
    exclusive: NDArray[np.bool_]
    relapse: NDArray[np.float64]
    persistence: NDArray[np.float64]
    return_weight: NDArray[np.float64]


def _traits(layout: CodeLayout, rng: np.random.Generator) -> _Traits:
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
    relapse = np.where(chronic, 0.3 * level, rng.uniform(0.05, 0.1, n_families))
    weight = np.where(persistence > 0, 0.05, 0.0) - np.where(ending[layout.category] & of_disorder, 1.2, 0.0)
    return _Traits(factor, exclusive, relapse, persistence, weight)


class _Syndromes(NamedTuple):
    """Emissions, which of them are rare members, and by syndrome the base rate and the diagnosis."""

    emissions: Links
    is_rare: NDArray[np.bool_]
    rate: NDArray[np.float64]
    diagnosis: NDArray[np.int64]


def _syndromes(layout: CodeLayout, traits: _Traits, rng: np.random.Generator) -> _Syndromes:
    """The syndromes of a world, each a rare disease: its diagnosis, other rare codes, and partners that are not rare.

    Half of the partners come from a pool that the syndromes of the same families share: that is what makes it right to
    borrow strength from siblings. The other half are the syndrome's own.
    """
    target, candidates = layout.target, _candidates(layout, traits)
    n_partners = min(round(_PARTNERS_A_DISORDER * target.sum()), len(candidates) // 2)
    source, members, chance, marks = [], [], [], []
    diagnosis: list[int] = []
    for syndromes in _rare_members(layout, traits, rng):
        pool = _draw_by_share(candidates, target, round(0.6 * n_partners), rng)
        for rare in syndromes:
            shared = rng.choice(pool, size=n_partners // 2, replace=False)
            own = _draw_by_share(np.setdiff1d(candidates, shared), target, n_partners - len(shared), rng)
            source.append(np.full(len(rare) + n_partners, len(diagnosis)))
            members.append(np.concatenate([rare, shared, own]))
            # The syndrome brings the same part of each rare member.
            shown = _SHOWN * target[rare] / target[rare[0]]
            chance.append(np.concatenate([shown, rng.uniform(0.88, 0.99, n_partners)]))
            marks.append((np.arange(len(rare) + n_partners) < len(rare)).astype(float))
            diagnosis.append(int(rare[0]))
    emissions, marked = Links.of(source, members, chance), Links.of(source, members, marks)
    first = np.array(diagnosis, dtype=np.int64)
    return _Syndromes(emissions, marked.chance > 0, _EXPLAINED / _SHOWN * target[first], first)


def _rare_members(layout: CodeLayout, traits: _Traits, rng: np.random.Generator) -> list[list[NDArray[np.int64]]]:
    """The rare codes of each syndrome, the most common first, which is its diagnosis; one list for each kin.

    Kin are three families, near in prevalence, that have their rare diseases in common, such as a diagnosis, its
    complications and its treatments; a family of one sex alone is its own kin. Every rare code is in one syndrome.
    """
    target, category, disorders = layout.target, layout.category, layout.disorders
    rare = disorders[target[disorders] <= np.quantile(target[disorders], _RARE)]
    rare = rare[np.lexsort((-target[rare], category[rare]))]
    families = np.split(rare, np.flatnonzero(np.diff(category[rare])) + 1)
    families.sort(key=lambda codes: -float(np.log(target[codes]).mean()))
    open_to = [codes for codes in families if not traits.exclusive[category[codes[0]]]]
    kin = [open_to[start : start + _KIN] for start in range(0, len(open_to), _KIN)]
    kin += [[codes] for codes in families if traits.exclusive[category[codes[0]]]]
    out = []
    for several in kin:
        runs = [run for codes in several for run in _runs(codes, target, rng)]
        runs.sort(key=lambda run: -target[run[0]])
        out.append([np.concatenate(runs[start : start + _RUNS]) for start in range(0, len(runs), _RUNS)])
    return out


def _runs(codes: NDArray[np.int64], target: NDArray[np.float64], rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """All codes, most common first, in runs of at most 2 to 5 neighbours, none three times as common as another."""
    out, start = [], 0
    while start < len(codes):
        near = int((target[codes[start:]] > target[codes[start]] / 3).sum())
        out.append(codes[start : start + min(near, int(rng.integers(2, 6)))])
        start += len(out[-1])
    return out


def _candidates(layout: CodeLayout, traits: _Traits) -> NDArray[np.int64]:
    """The codes that can be partners: neither common nor rare, of both sexes, not persistent where enough are not."""
    ordered = layout.disorders[np.argsort(-layout.target[layout.disorders], kind="stable")]
    middle = ordered[len(ordered) // 30 : len(ordered) // 3]
    middle = np.sort(middle[~traits.exclusive[layout.category[middle]]])
    passing = middle[traits.persistence[middle] == 0]
    return passing if len(passing) >= _FEWEST_PARTNERS else middle


def _draw_by_share(
    codes: NDArray[np.int64], target: NDArray[np.float64], size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Different codes drawn by how common they are, so that syndromes bring about the same part of every partner."""
    if size == 0:
        return codes[:0]
    return rng.choice(codes, size=size, replace=False, p=target[codes] / target[codes].sum())


def _progressions(layout: CodeLayout, traits: _Traits, syndromes: _Syndromes, rng: np.random.Generator) -> Links:
    """Links from a code to events of the next visit: family to family, two forerunners of each syndrome, relapses.

    What leads to a rare code leads to its syndrome. What an event owes to all its forerunners is a small part of it.
    Members of syndromes lead nowhere, but for the diagnosis, which may bring its syndrome again: one rare disease does
    not set off others.
    """
    category, n_codes = layout.category, len(layout.vocabulary)
    emissions, is_rare, rate, diagnosis = syndromes
    home, share = category[diagnosis], np.concatenate([layout.target, rate])
    event_of = np.arange(n_codes)
    event_of[emissions.target[is_rare]] = n_codes + emissions.source[is_rare]
    families = [np.flatnonzero(category == family) for family in range(int(category.max()) + 1)]
    families = [codes[np.argsort(-layout.target[codes], kind="stable")] for codes in families]
    open_to = np.flatnonzero(~traits.exclusive)
    free = np.setdiff1d(layout.disorders, emissions.target)
    source: list[NDArray] = []
    reached: list[NDArray] = []
    for family in np.flatnonzero(rng.random(len(families)) < 0.6):
        later = families[rng.choice(open_to)]
        codes = families[family][np.isin(families[family], free) & ~np.isin(families[family], later)]
        source.append(codes)
        reached.append(event_of[later[np.arange(len(codes)) % len(later)]])
    # Nothing leads to a syndrome of one sex, so that the other sex can never have it.
    both = np.flatnonzero(~traits.exclusive[home])
    # One forerunner is the family's, one the syndrome's own.
    for forerunners in (rng.choice(free, len(families))[home[both]], rng.choice(free, len(both))):
        source.append(forerunners)
        reached.append(n_codes + both)
    sources, events = np.concatenate(source), np.concatenate(reached)
    n_links = np.bincount(events, minlength=len(share))[events]
    part = np.where(events < n_codes, 0.3, 0.15)
    bound = part * share[events] / (_FOLLOWING * share[sources] * n_links)
    chance = np.minimum(0.35, bound) * rng.uniform(0.5, 1.0, len(sources))
    again = n_codes + np.arange(len(diagnosis))
    return Links.of([sources, diagnosis], [events, again], [chance, traits.relapse[home]])


def _reasons(n: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shares of the reasons at the first visit (groups × reasons) and after each reason (reasons × reasons)."""
    log_share = -0.9 * np.log1p(rng.permutation(n))
    first = np.exp(log_share[None, :] + rng.normal(0, 0.3, (N_GROUPS, n)))
    first /= first.sum(axis=1, keepdims=True)
    own = rng.gamma(0.3, size=(n, n)) + 1e-9
    own /= own.sum(axis=1, keepdims=True)
    common = GROUP_SHARE @ first
    return first, 0.4 * common[None, :] + 0.35 * own + 0.25 * np.eye(n)


def rewire(world: Structure, layout: CodeLayout, law_seed: int) -> Structure:
    """The structure of the deeply shifted population: a third of it is other.

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


def moved_log_odds(world: Structure, layout: CodeLayout, law_seed: int) -> NDArray[np.float64]:
    """What the shifted population adds to the log-odds of each event, 0 where it moves nothing.

    Moved are a third of the codes that belong to no syndrome and a fifth of the syndromes, by 0.7 to 1.6 up or down.
    """
    rng = random_stream(law_seed, "planted/shifted", len(layout.vocabulary))
    n_codes = len(layout.vocabulary)
    free = np.zeros(n_codes, dtype=bool)
    free[layout.disorders] = True
    free[world.emissions.target] = False
    n_events = n_codes + world.n_syndromes
    size = rng.uniform(0.7, 1.6, n_events) * rng.choice([-1.0, 1.0], n_events)
    chosen = rng.random(n_events) < np.concatenate([np.where(free, 1 / 3, 0.0), np.full(world.n_syndromes, 0.2)])
    return np.where(chosen, size, 0.0)


# ---- rates -----------------------------------------------------------------------------------------------------
class Balance(NamedTuple):
    """Mean base hazard of each event, and the log-odds of another visit after visit 1, 2, … for no code."""

    hazard: NDArray[np.float64]
    return_log_odds: NDArray[np.float64]


def balance_rates(world: Structure, layout: CodeLayout) -> Balance:
    """Base and return rates that bring a structure near its target prevalences and number of visits.

    Mean-field: codes are followed as averages from visit to visit. The probabilities of the world are exact whatever
    the rates; only how near its prevalences come to their targets rests on the approximation.
    """
    n_codes = len(layout.vocabulary)
    target = layout.target
    own = np.full(n_codes, 0.8)
    own[world.emissions.target] = 0.4
    own[world.emissions.target[world.is_rare]] = _LEAST
    hazard = np.concatenate([target * own, world.syndrome_rate])
    rates = np.append(_RETURN, np.full(MOST_VISITS - 1 - len(_RETURN), _RETURN[-1]))
    alive = np.cumprod(np.append(1.0, rates[: _FOLLOWED - 1]))
    weight = alive / alive.sum()
    rare = np.flatnonzero(world.is_rare)
    home, member = world.emissions.source[rare], world.emissions.target[rare]
    members = np.bincount(home, minlength=world.n_syndromes)
    mean = _mean_visits(world, hazard, n_codes)
    for _ in range(_ROUNDS):
        share = np.tensordot(weight, mean, 1)
        ratio = np.divide(target, share, out=np.ones(n_codes), where=share > 0)
        # A code that its syndromes and forerunners give too often keeps a small rate of its own.
        moved = hazard[:n_codes] * np.clip(ratio, 0.5, 2.0) ** 1.2
        hazard[:n_codes] = np.maximum(moved, _LEAST * target)
        # A syndrome gives at most the planned part of its rare members, and less where they persist or relapse.
        usual = np.bincount(home, np.log(ratio[member]), minlength=world.n_syndromes) / members
        hazard[n_codes:] = np.minimum(hazard[n_codes:] * np.exp(np.clip(usual, -0.7, 0.7)), world.syndrome_rate)
        mean = _mean_visits(world, hazard, n_codes)
    usual = mean @ world.return_weight
    usual = np.append(usual, np.full(MOST_VISITS - 1 - len(usual), usual[-1]))
    return Balance(hazard, np.log(rates / (1 - rates)) - usual)


def _mean_visits(world: Structure, hazard: NDArray[np.float64], n_codes: int) -> NDArray[np.float64]:
    """Mean share of each code at the first visits, one row per visit."""
    base = hazard[None, :] * world.group_factor  # (G, V + S)
    links, shown = world.progressions, world.emissions
    n_events = base.shape[1]
    onward = sparse.csr_matrix((links.chance, (links.target, links.source)), shape=(n_events, n_codes))
    gather = sparse.csr_matrix((np.ones(len(shown.target)), (shown.target, np.arange(len(shown.target)))),
                               shape=(n_codes, len(shown.target)))  # fmt: skip
    share = np.zeros((len(base), n_codes))
    ever = np.zeros_like(share)
    out = []
    for _ in range(_FOLLOWED):
        total = base + (onward @ share.T).T
        active = -np.expm1(-total[:, n_codes:])
        missed = np.log1p(-active[:, shown.source] * shown.chance)
        absent = np.exp(-total[:, :n_codes] + (gather @ missed.T).T)
        share = 1 - absent * (1 - world.persistence * ever)
        ever = 1 - (1 - ever) * absent
        out.append(GROUP_SHARE @ share)
    return np.stack(out)
