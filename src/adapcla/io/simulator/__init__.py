"""Simulated patients of a world whose every probability is known."""

from __future__ import annotations

from adapcla.io.simulator.patients import (
    WORLD,
    family_only,
    ideal,
    simulate,
    true_prevalence,
    whole_record_world_of,
    world_of,
)
from adapcla.io.simulator.whole_record import WholeRecordWorld
from adapcla.io.simulator.world import LAW_SEED, POPULATIONS, History, World, make_world

__all__ = [
    "LAW_SEED",
    "POPULATIONS",
    "WORLD",
    "History",
    "WholeRecordWorld",
    "World",
    "family_only",
    "ideal",
    "make_world",
    "simulate",
    "true_prevalence",
    "whole_record_world_of",
    "world_of",
]
