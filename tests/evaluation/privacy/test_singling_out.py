"""Singling out, by hand."""

from __future__ import annotations

import numpy as np

from adapcla.data import Cohort, Vocabulary
from adapcla.evaluation.comparison import ALL, Comparison
from adapcla.evaluation.privacy.owners import OwnedPairs
from adapcla.evaluation.privacy.singling_out import singled_out, singling_out_excess

VOCABULARY = Vocabulary.of([f"C{number:03d}" for number in range(240)])


def _pairs(first: int, n: int) -> list[list[list[str]]]:
    return [[[VOCABULARY.tokens[k], VOCABULARY.tokens[k + 1]]] for k in range(first, first + 2 * n, 2)]


def test_share_and_error_with_real_patients_as_units() -> None:
    """Four predicates; patient 0 of 2 alone fulfils two of them: ½. Per patient 2 and 0: error √(2·1)/4."""
    made = OwnedPairs(np.zeros(4, int), np.arange(1, 5), np.arange(4))
    real = OwnedPairs(np.zeros(3, int), np.array([1, 2, 7]), np.array([0, 0, 1]))
    share, error = singled_out(made, real, 2, 8)
    assert share == 0.5
    assert np.isclose(error, np.sqrt(2.0) / 4)


def test_a_pair_of_two_synthetic_or_two_real_patients_singles_nobody_out() -> None:
    """60 synthetic pairs: 20 of members, each once; 10 more twice, so no predicate; 40 of nobody real."""
    members, controls = Cohort.of(_pairs(0, 40), VOCABULARY), Cohort.of(_pairs(80, 40), VOCABULARY)
    made = Cohort.of(_pairs(0, 20) + _pairs(60, 5) * 2 + _pairs(160, 40), VOCABULARY)
    scores = singling_out_excess(Comparison.of(members, controls, made, control=controls))
    assert scores[ALL].n == 60
    assert scores["members"].value == 20 / 60
    assert scores["controls"].value == 0.0
    assert scores[ALL].value == 20 / 60


def test_few_predicates_say_nothing() -> None:
    members, controls = Cohort.of(_pairs(0, 40), VOCABULARY), Cohort.of(_pairs(80, 40), VOCABULARY)
    made = Cohort.of(_pairs(0, 5), VOCABULARY)
    assert singling_out_excess(Comparison.of(members, controls, made, control=controls))[ALL].value is None
