"""Conditional generation."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data.split import Split
from adapcla.generation import Generator


def test_every_history_is_continued_as_often_as_asked(fitted: Generator, parts: Split) -> None:
    history = parts.test.subset(np.arange(12))
    found = fitted.continue_(history, visits=2, draws=20, seed=1)
    assert np.bincount(found.history_of).tolist() == [20] * 12
    assert found.drawn.n_patients == 240
    assert found.drawn.visits_per_patient.max() <= 2
    assert found.probabilities.shape == (12, history.n_codes)
    assert ((found.probabilities >= 0) & (found.probabilities <= 1)).all()


def test_draws_come_at_the_stated_probabilities(plain: Generator, parts: Split) -> None:
    """2,000 draws for three histories: frequencies within 5 standard errors of the exact probabilities."""
    history = parts.test.subset(np.flatnonzero(parts.test.visits_per_patient > 1)[:3])
    found = plain.continue_(history, visits=1, draws=2000, seed=1)
    first = np.asarray(found.drawn.patient_starts)[:-1]
    visits = found.drawn.matrix()[first].toarray()
    for row in range(3):
        frequency = visits[found.history_of == row].mean(axis=0)
        p = found.probabilities[row]
        assert (np.abs(frequency - p) <= 5 * np.sqrt(p * (1 - p) / 2000) + 2e-3).all()


def test_a_continuation_does_not_depend_on_company(plain: Generator, parts: Split) -> None:
    both = plain.continue_(parts.test.subset([3, 4]), draws=5, seed=1)
    again = plain.continue_(parts.test.subset([3, 4]), draws=5, seed=1)
    assert both.drawn.fingerprint == again.drawn.fingerprint
    assert both.probabilities == pytest.approx(again.probabilities)
