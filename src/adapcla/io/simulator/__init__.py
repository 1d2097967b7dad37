"""The planted world: made-up patients under a law whose every probability is known.

It is the ground truth of tests and analyses, and a world of another law seed is their counter-example: the same codes,
names and target prevalences with another structure.
"""

from __future__ import annotations

from adapcla.io.simulator.chances import History
from adapcla.io.simulator.law import Law, PlantedPair, Progression, TruePrevalence
from adapcla.io.simulator.references import family_only, ideal, law_of, whole_law_of
from adapcla.io.simulator.whole import WholeLaw
from adapcla.io.simulator.world import LAW_SEED, POPULATIONS, WORLD, law, simulate, tripwire_codes

__all__ = [
    "LAW_SEED",
    "POPULATIONS",
    "WORLD",
    "History",
    "Law",
    "PlantedPair",
    "Progression",
    "TruePrevalence",
    "WholeLaw",
    "family_only",
    "ideal",
    "law",
    "law_of",
    "simulate",
    "tripwire_codes",
    "whole_law_of",
]
