from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Prevalence
from adapcla.io import simulator as planted
from adapcla.study.analysis.identities import bayes_shift_gap, centring, prior_shift_gap, sensitivity

shares = st.floats(1e-5, 0.999)


@given(st.lists(shares, min_size=1, max_size=20), st.floats(0.01, 3))
def test_only_the_scaffold_centres(values, apart):
    prevalence = Prevalence.of({f"C{i:02d}": share for i, share in enumerate(values)})
    found = centring(prevalence, apart)
    assert found.off_centre < 1e-12
    assert found.sensitivity == pytest.approx(0.25)
    assert found.sensitivity_elsewhere < 0.25
    assert found.n_codes == len(values)


def test_the_sigmoid_is_steepest_at_zero():
    line = np.linspace(-5, 5, 101)
    assert line[np.argmax(sensitivity(line))] == pytest.approx(0)


@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)), min_size=2, max_size=6),
    st.floats(1e-4, 0.9),
    st.floats(1e-4, 0.9),
)
def test_the_shift_is_bayes_rule(likelihoods, source, target):
    present, absent = (np.array(side) / sum(side) for side in zip(*likelihoods, strict=True))
    assert bayes_shift_gap(present, absent, source, target) < 1e-9


def test_the_shift_is_exact_in_the_planted_world_at_every_history():
    law, shifted = planted.law(120), planted.law(120, population="shifted")
    cohort = planted.simulate(patients=40, codes=120, seed=1)
    assert prior_shift_gap(law, shifted, law.after_visits(cohort)) < 1e-9
    assert (shifted.code_shift != 0).any()


def test_another_structure_does_not_pass():
    law, deep = planted.law(120), planted.law(120, population="deep")
    cohort = planted.simulate(patients=200, codes=120, seed=1)
    assert prior_shift_gap(law, deep, law.after_visits(cohort)) > 0.01
