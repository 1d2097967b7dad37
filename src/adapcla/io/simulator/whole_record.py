"""Whole records of a simulated world: kind, length and ending of visits, a drug, a procedure and values.

Everything here is drawn given the disorders of a visit, which are those of the world without it. A few common disorders
are *marked*: by each of them one thing is more frequent, longer or shifted. Which they are, how far values are shifted
and in which direction depends on the law's seed, so that another world is a counter-example here, too.

- A visit's kind depends on its reason; only inpatient stays have a length.
- Days of a stay are 1 + ⌊an exponential number⌋, of a longer mean with the first marked disorder.
- A drug and a procedure follow the second and the third marked disorder.
- Each value is measured with a chance of its own, and is normal around a mean that one marked disorder shifts.
- Inpatient stays end in one of three ways, more often with death where the fourth marked disorder is; other visits end
  at home. Nothing follows upon death.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from adapcla.data import Code, Cohort, Vocabulary
from adapcla.data.ragged import starts_from_sizes
from adapcla.data.vocabulary import LENGTH_OF_STAY, discharge_code, visit_kind_code
from adapcla.io.simulator.structure import GROUP_SHARE
from adapcla.io.simulator.world import World
from adapcla.seeds import keyed_uniform, random_stream, stream_key

KINDS, ENDS = ("inpatient", "emergency", "outpatient"), ("home", "facility", "died")
#: Common disorders of which four are marked.
_MARKED_AMONG = 6
#: Mean of the exponential number of days, without and with the first marked disorder.
MEAN_DAYS = (2.0, 6.0)
#: Chance of the drug and of the procedure, without and with their disorder.
DRUG, PROCEDURE = (0.03, 0.7), (0.02, 0.5)
#: Chances of the endings of an inpatient stay, without and with the fourth marked disorder.
INPATIENT_ENDS = np.array([[0.86, 0.12, 0.02], [0.55, 0.25, 0.20]])
_KIND, _DAYS, _DRUG, _PROCEDURE, _END, _VALUES = 0, 1, 2, 3, 4, 8
_DRUG_CODE = Code.of("belovin", "RX", description="Belovin, made up", domain="drug")
_PROCEDURE_CODE = Code.of("corscopy", "PX", description="Corscopy, made up", domain="procedure")


class Measured(NamedTuple):
    """One value: how often it is measured, its mean, spread and decimals, and what shifts it by how much."""

    code: Code
    chance: float
    mean: float
    spread: float
    decimals: int
    #: The disorder that shifts the mean, by position among the disorders of the world.
    disorder: int
    shift: float

    @property
    def _noise(self) -> float:
        """Variance given the disorder, that of rounding among it."""
        return float(self.spread**2 + 10.0 ** (-2 * self.decimals) / 12)

    def mean_at(self, share: float) -> float:
        """The mean of the value where this share of the measured visits holds the disorder."""
        return self.mean + self.shift * share

    def correlation_at(self, share: float) -> float:
        """The correlation of value and disorder where this share of the measured visits holds the disorder.

        >>> Measured(Code.of("x", unit="1"), 0.5, 0.0, 1.0, 9, 0, 2.0).correlation_at(0.5)  # 1 / √2
        0.707...
        """
        variance = self.shift**2 * share * (1 - share)
        return float(np.sign(self.shift) * np.sqrt(variance / (variance + self._noise)))


@dataclass(frozen=True, eq=False)
class WholeRecordWorld:
    """The probabilities of everything in a visit that is no disorder, given its disorders."""

    world: World

    @property
    def _random(self) -> np.random.Generator:
        return random_stream(self.world.law_seed, "planted/whole", self.world.n_codes)

    @cached_property
    def marked(self) -> NDArray[np.int64]:
        """The four marked disorders."""
        common = np.argsort(-self.world.layout.target, kind="stable")[:_MARKED_AMONG]
        return np.asarray(self._random.permutation(common)[:4])

    @cached_property
    def kind_of_reason(self) -> NDArray[np.float64]:
        """(reasons, kinds) the chance of each kind of visit given its reason."""
        random = random_stream(self.world.law_seed, "planted/kinds", self.world.n_codes)
        return random.dirichlet((1.5, 1.0, 2.0), size=len(self.world.layout.reasons))

    @cached_property
    def measured(self) -> tuple[Measured, ...]:
        """The values that are measured."""
        random = random_stream(self.world.law_seed, "planted/values", self.world.n_codes)
        chosen, signs = random.permutation(self.marked)[:3], random.choice([-1.0, 1.0], 3)
        forms = (
            ("glucose", "mg/dL", 0.6, 110.0, 18.0, 0),
            ("sodium", "mmol/L", 0.5, 140.0, 3.0, 0),
            ("creatinine", "mg/dL", 0.4, 2.0, 0.3, 2),
        )
        return tuple(
            Measured(
                Code.of(name, "LAB", description=f"{name.capitalize()}, made up", domain="lab", unit=unit),
                chance, mean, spread, decimals, int(disorder), float(sign * 2.2 * spread),
            )
            for (name, unit, chance, mean, spread, decimals), disorder, sign in zip(forms, chosen, signs, strict=True)
        )  # fmt: skip

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The codes of the world with whole records."""
        stays = [*map(visit_kind_code, KINDS), *map(discharge_code, ENDS), LENGTH_OF_STAY, _DRUG_CODE, _PROCEDURE_CODE]
        return Vocabulary.of([*self.world.vocabulary.codes, *stays, *(value.code for value in self.measured)])

    @property
    def first_kinds(self) -> NDArray[np.float64]:
        """(kinds,) the chance of each kind at the first visit of an average patient."""
        return np.asarray(GROUP_SHARE @ self.world.reason_probabilities(self.world.newcomers) @ self.kind_of_reason)

    def mean_days(self, with_disorder: bool) -> float:
        """The mean length of an inpatient stay, with or without the first marked disorder."""
        return float(1 + 1 / np.expm1(1 / MEAN_DAYS[with_disorder]))

    def end_chances(self, kind: str, with_disorder: bool) -> dict[str, float]:
        """The chance of each ending given the kind of visit, with or without the fourth marked disorder."""
        chances = INPATIENT_ENDS[int(with_disorder)] if kind == KINDS[0] else np.array([1.0, 0.0, 0.0])
        return dict(zip(ENDS, chances.tolist(), strict=True))


def add_whole_record(cohort: Cohort, world: World, seed: int) -> Cohort:
    """The patients of a world with the rest of their visits, up to their death."""
    whole = WholeRecordWorld(world)
    drawn = _draw_entries(cohort, whole, seed)
    stays = _visits_until_death(cohort, drawn.died)
    entries = [np.flatnonzero(stays[cohort.visit_of_entry]), np.flatnonzero(stays[drawn.visit])]
    place = whole.vocabulary.positions(world.vocabulary.tokens)
    codes = np.concatenate([place[np.asarray(cohort.codes)[entries[0]]], drawn.codes[entries[1]]])
    visit = np.concatenate([cohort.visit_of_entry[entries[0]], drawn.visit[entries[1]]])
    values = np.concatenate([np.full(len(entries[0]), np.nan), drawn.values[entries[1]]])
    order = np.lexsort((codes, visit))
    lived = np.bincount(cohort.patient_of_visit[stays], minlength=cohort.n_patients)
    return replace(
        cohort,
        vocabulary=whole.vocabulary,
        codes=codes[order].astype(np.int32),
        values=values[order].astype(np.float32),
        visit_starts=starts_from_sizes(np.bincount(visit, minlength=cohort.n_visits)[stays]),
        patient_starts=starts_from_sizes(lived),
        days=None if cohort.days is None else np.asarray(cohort.days)[stays],
    )


class _Entries(NamedTuple):
    """What is added to visits, and which visits end with death."""

    visit: NDArray[np.int64]
    codes: NDArray[np.int64]
    values: NDArray[np.float64]
    died: NDArray[np.bool_]


def _visits_until_death(cohort: Cohort, died: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The visits before and with each patient's first that ends with death."""
    before: NDArray[np.int64] = np.cumsum(died) - died
    return np.asarray(before - before[cohort.first_visits][cohort.patient_of_visit] == 0)


def _draw_entries(cohort: Cohort, whole: WholeRecordWorld, seed: int) -> _Entries:
    """Everything that is added to all visits."""
    world, index = whole.world, whole.vocabulary.index
    key = stream_key(seed, "planted/whole", world.law_seed, world.n_codes)
    visits = np.arange(cohort.n_visits)

    def uniform(purpose: int) -> NDArray[np.float64]:
        return keyed_uniform(key, cohort.patient_of_visit, cohort.visit_number * 64 + purpose, 1)[:, 0]

    held = cohort.matrix()
    has = {int(code): np.asarray(held[:, [int(code)]].todense()).ravel() > 0 for code in whole.marked}
    long, drug, procedure, severe = (has[int(code)] for code in whole.marked)
    reason = np.asarray(cohort.codes)[np.asarray(cohort.visit_starts)[1:] - 1] - world.layout.reasons[0]
    kind = _categories(whole.kind_of_reason[reason], uniform(_KIND))
    inpatient = kind == 0
    ends = np.where(inpatient[:, None], INPATIENT_ENDS[severe.astype(int)], [1.0, 0.0, 0.0])
    end = _categories(ends, uniform(_END))
    days = 1 + np.floor(-np.log(uniform(_DAYS)) * np.where(long, MEAN_DAYS[1], MEAN_DAYS[0]))
    none = np.full(cohort.n_visits, np.nan)
    parts: list[tuple[Any, Any, Any]] = [
        (visits, np.array([index[visit_kind_code(name).token] for name in KINDS])[kind], none),
        (visits, np.array([index[discharge_code(name).token] for name in ENDS])[end], none),
        _entries_where(inpatient, index[LENGTH_OF_STAY.token], days),
        _entries_where(uniform(_DRUG) < np.where(drug, DRUG[1], DRUG[0]), index[_DRUG_CODE.token], none),
        _entries_where(uniform(_PROCEDURE) < np.where(procedure, *PROCEDURE[::-1]), index[_PROCEDURE_CODE.token], none),
    ]
    for number, value in enumerate(whole.measured):
        measured = uniform(_VALUES + 2 * number) < value.chance
        drawn = value.mean + value.shift * has[value.disorder] + value.spread * ndtri(uniform(_VALUES + 2 * number + 1))
        parts.append(_entries_where(measured, index[value.code.token], np.round(drawn, value.decimals)))
    visit, codes, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _Entries(visit, codes, values, end == ENDS.index("died"))


def _entries_where(
    happens: NDArray[np.bool_], code: int, values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Entries of one code in the visits where it happens."""
    visit = np.flatnonzero(happens)
    return visit, np.full(len(visit), code), values[visit]


def _categories(chances: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """The category of each row by its chances.

    >>> _categories(np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([0.6, 0.6])).tolist()
    [1, 0]
    """
    return np.minimum((uniform[:, None] > np.cumsum(chances, axis=1)).sum(axis=1), chances.shape[1] - 1)
