"""Worlds by size, population and seed, and the patients drawn from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from adapcla.data import Attribute, Cohort, Kind, Origin
from adapcla.data.ragged import starts_from_sizes
from adapcla.errors import UsageError
from adapcla.io.simulator.balance import MOST_VISITS, balanced
from adapcla.io.simulator.draw import CHUNK, Drawn, Sampler
from adapcla.io.simulator.law import BIRTH_BAND, SEX, Law
from adapcla.io.simulator.names import layout
from adapcla.io.simulator.structure import BIRTH_BANDS, SEXES, moved_log_odds, rewired, structure
from adapcla.io.simulator.tripwires import marked_codes, with_tripwires
from adapcla.io.simulator.whole import with_everything

#: The populations of a world: as planted; some prevalences moved; prevalences and structure moved.
POPULATIONS = ("base", "shifted", "deep")
LAW_SEED = 7
#: Raised when the same seeds give other patients, so that nobody takes the law of one world for that of another.
WORLD = 2
MOST_PATIENTS = 100_000_000


@lru_cache(maxsize=16)
def law(codes: int = 3000, population: str = "base", law_seed: int = LAW_SEED) -> Law:
    """The law of a population; another `law_seed` is another world on the same codes.

    >>> world = law(codes=60)
    >>> shifted = law(codes=60, population="shifted")
    >>> world.vocabulary == shifted.vocabulary, bool(shifted.code_shift.any())
    (True, True)
    """
    if population not in POPULATIONS:
        raise UsageError(f"population {population!r}: expected one of {', '.join(POPULATIONS)}")
    code_layout = layout(codes)
    world = structure(code_layout, law_seed)
    # The rates are those of the base population: a shift moves prevalences, it is not balanced away.
    rates = balanced(world, code_layout)
    log_odds = moved_log_odds(world, code_layout, law_seed)
    if population == "base":
        log_odds = np.zeros_like(log_odds)
    if population == "deep":
        world = rewired(world, code_layout, law_seed)
    return Law(code_layout, world, rates, log_odds, population, law_seed)


def simulate(
    patients: int = 12_000,
    codes: int = 3000,
    seed: int = 1,
    population: str = "base",
    tripwires: int = 0,
    law_seed: int = LAW_SEED,
    chunk: int = CHUNK,
    advance: Callable[[int], None] | None = None,
    whole: bool = False,
) -> Cohort:
    """Patients drawn from a planted law; patient i of a seed is the same whatever `patients` and `chunk` are.

    `advance` is told after each chunk how many patients it had. With `whole`, visits have a kind, a length, an ending,
    drugs, a procedure and values too (`WholeLaw`), and nothing follows upon death.

    >>> cohort = simulate(patients=20, codes=60, seed=1)
    >>> cohort.n_patients, cohort.n_codes, cohort.card["source"]
    (20, 60, 'planted')
    """
    if not 1 <= patients <= MOST_PATIENTS:
        raise UsageError(f"{patients} patients: expected 1 to {MOST_PATIENTS:,}")
    if chunk < 1:
        raise UsageError(f"chunk={chunk}: expected at least 1 patient")
    world = law(codes, population, law_seed)
    lots = []
    for lot in Sampler(world, seed).chunks(patients, chunk):
        lots.append(lot)
        if advance is not None:
            advance(len(lot.visits))
    drawn = with_tripwires(_joined(lots), world.layout, tripwires)
    cohort = Cohort(
        world.vocabulary,
        drawn.codes,
        starts_from_sizes(drawn.visit_sizes),
        starts_from_sizes(drawn.visits),
        days=drawn.days,
        attributes={
            SEX: Attribute((drawn.group // len(BIRTH_BANDS)).astype(np.int16), SEXES),
            BIRTH_BAND: Attribute((drawn.group % len(BIRTH_BANDS)).astype(np.int16), BIRTH_BANDS),
        },
        card={
            "source": "planted",
            **Origin(Kind.PLANTED).as_card(),
            "arguments": {
                "patients": patients,
                "codes": codes,
                "seed": seed,
                "population": population,
                "tripwires": tripwires,
                "law_seed": law_seed,
                "world": WORLD,
            },
            "visit_rule": f"drawn from the planted law, at most {MOST_VISITS} a patient",
            "note": "Made up: nobody in this cohort is real.",
            "dropped": {},
        },
    )
    if not whole:
        return cohort
    cohort.card["arguments"]["whole"] = True
    return with_everything(cohort, world, seed)


def tripwire_codes(codes: int = 3000, n: int = 1) -> list[list[list[str]]]:
    """The marked codes of each tripwire patient, visit by visit, as `simulate(codes=…, tripwires=n)` plants them.

    >>> [[len(visit) for visit in patient] for patient in tripwire_codes(codes=60, n=1)]
    [[6, 6]]
    """
    code_layout = layout(codes)
    tokens = code_layout.vocabulary.tokens
    return [[[tokens[c] for c in visit] for visit in patient] for patient in marked_codes(code_layout, n).tolist()]


def _joined(parts: list[Drawn]) -> Drawn:
    """Several lots of patients as one."""
    return Drawn(*(np.concatenate(pieces) for pieces in zip(*parts, strict=True)))
