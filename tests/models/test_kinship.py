"""Kinship: what families of codes say, and nothing from a single patient."""

from __future__ import annotations

import torch

from adapcla.data import Cohort
from adapcla.models.batch import Records
from adapcla.models.kinship import Kinship, met_band
from adapcla.models.pair_counts import EXPECTED_POWERS

N_COLUMNS = len(EXPECTED_POWERS) + 1
#: A and B are one family, C and D another, E is alone.
FAMILY = torch.tensor([0, 0, 1, 1, 2])


def observed(patients: list[list[list[str]]], least_patients: int = 2) -> Kinship:
    kinship = Kinship(FAMILY, least_patients)
    kinship.observe(Records(Cohort.of(patients, ["A", "B", "C", "D", "E"]), 48), torch.arange(5))
    return kinship


def test_meetings_of_families_are_those_of_their_codes() -> None:
    kinship = observed([[["A", "C"]], [["B", "C", "D"]], [["E"]]])
    assert kinship.known_meetings.tolist() == [[0, 3, 0], [3, 1, 0], [0, 0, 0]]
    rows = (kinship.known_cell // N_COLUMNS).tolist()
    assert rows[0] == met_band(torch.tensor([0, 3, 0])).tolist()


def test_families_of_one_patient_say_what_strangers_say_to_the_bit() -> None:
    """Two cohorts that differ in whom E meets in one patient: the first family or the second."""
    others = [[["A", "C"]], [["B", "D"]], [["E"]]]
    apart, together = observed([*others, [["C"], ["B", "E"]]]), observed([*others, [["C", "E"], ["B"]]])
    for kinship in (apart, together):
        with torch.no_grad():
            torch.manual_seed(1)
            kinship.belief.normal_()
    assert torch.equal(apart.values(learning=False), together.values(learning=False))
    assert not torch.equal(apart.values(learning=True), together.values(learning=True))


def test_a_model_for_others_tells_no_small_number_of_meetings() -> None:
    patients = [[["A", "C"]]] * 3 + [[["A", "E"]]] * 7 + [[["C", "E"]]] * 40
    kinship = observed(patients)
    rows, told = (
        (cell // N_COLUMNS)[(0, 0, 1), (1, 2, 2)].tolist() for cell in (kinship.cell, kinship.settled()["cell"])
    )
    assert rows[0] != rows[1] and told[0] == told[1] and rows[2] == told[2]
    assert int(kinship.settled()["cell"][2, 2]) // N_COLUMNS == 0
