"""The rarity bias: its value by hand, its sign, and the point from which training starts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Code, Cohort, Prevalence, Vocabulary
from adapcla.scaffold import Scaffold

shares = st.lists(st.floats(1e-5, 1 - 1e-5), min_size=1, max_size=9)


def prevalence(values: list[float]) -> Prevalence:
    return Prevalence.of({f"C{i}": value for i, value in enumerate(values)})


def test_bias_by_hand():
    """A code in 1 of 4 visits: log((1 − 1/4)/(1/4)) = log 3, up to ε."""
    assert Scaffold(prevalence([0.25])).bias[0] == pytest.approx(math.log(3), abs=1e-5)


def test_epsilon_enters_both_sides():
    """With ε = 1/4 and a share of 1/4: log((3/4 + 1/4)/(1/4 + 1/4)) = log 2."""
    assert Scaffold(prevalence([0.25]), epsilon=0.25).bias[0] == pytest.approx(math.log(2), abs=1e-12)


@given(shares)
def test_rarer_codes_are_lifted_more(values):
    bias = Scaffold(prevalence(sorted(values))).bias
    assert (np.diff(bias) <= 0).all()


@given(shares, st.floats(0, 2))
def test_tempering_only_scales(values, tempering):
    full, tempered = Scaffold(prevalence(values)), Scaffold(prevalence(values), tempering=tempering)
    assert np.allclose(tempered.bias, tempering * full.bias)


@given(shares)
def test_the_untempered_scaffold_centres_an_untrained_network(values):
    """z0 = logit π̂ and z̃ = z0 + b = 0: every code starts training at probability one half."""
    scaffold = Scaffold(prevalence(values))
    assert np.allclose(scaffold.initial_logits + scaffold.bias, 0, atol=1e-12)


@given(shares)
def test_an_untrained_network_without_scaffold_gives_the_prevalence(values):
    start = 1 / (1 + np.exp(-Scaffold(prevalence(values)).initial_logits))
    assert np.allclose(start, np.array(values), atol=2e-6)


def test_codes_never_seen_or_unknown_get_no_bias():
    shown = Scaffold(Prevalence(Vocabulary.of("ABC"), np.array([0.0, np.nan, 0.1])))
    assert shown.bias[:2].tolist() == [0.0, 0.0]
    assert shown.bias[2] > 0
    assert np.isfinite(shown.initial_logits).all()


def test_a_code_in_every_visit_stays_finite():
    assert Scaffold(prevalence([1.0])).bias[0] == pytest.approx(math.log(1e-6), abs=1e-5)


def test_counts_to_bias_through_a_cohort(tiny):
    """A is in 3 of 5 visits, so log(0.4/0.6); C in 1 of 5, so log(0.8/0.2)."""
    assert isinstance(tiny, Cohort)
    bias = Scaffold(tiny.prevalence()).bias
    assert bias[[0, 2]] == pytest.approx([math.log(2 / 3), math.log(4)], abs=1e-4)


def choices(shares: dict[str, float], group: str = "end") -> Prevalence:
    """Prevalences of the codes of one choice group."""
    vocabulary = Vocabulary.of(Code.of(name, group=group) for name in shares)
    return Prevalence(vocabulary, np.array([shares[token] for token in vocabulary.tokens]))


def test_a_choice_starts_at_its_odds_against_none():
    """Shares 1/2 and 1/4 leave 1/4: odds of 2 and 1."""
    assert np.exp(Scaffold(choices({"a": 0.5, "b": 0.25})).initial_logits) == pytest.approx([2.0, 1.0], rel=1e-4)


def test_a_rare_choice_is_lifted_to_none_or_to_the_most_frequent():
    """Mostly none: to none. In every visit: to the most frequent, which stays where it is."""
    assert Scaffold(choices({"a": 0.2, "b": 0.1})).bias == pytest.approx(np.log([3.5, 7.0]), abs=1e-4)
    assert Scaffold(choices({"a": 0.8, "b": 0.2})).bias == pytest.approx([0.0, math.log(4)], abs=1e-4)
