"""The made-up codes: their tree, their names and how common they are meant to be."""

from __future__ import annotations

import re

import numpy as np
import pytest

from adapcla.data import Hierarchy
from adapcla.errors import UsageError
from adapcla.io.simulator.codes import FEWEST_CODES, MOST_CODES, code_layout, long_tail


@pytest.mark.parametrize("codes", [FEWEST_CODES, 41, 299, 3000])
def test_a_world_has_the_number_of_codes_asked_for(codes):
    plan = code_layout(codes)
    assert len(plan.vocabulary) == codes
    assert len(plan.disorders) + len(plan.reasons) == codes
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,63}", token) for token in plan.vocabulary.tokens)


def test_the_family_numbers_are_the_hierarchy_that_records_reads_off_the_codes():
    plan = code_layout(600)
    tree = Hierarchy.of(plan.vocabulary)
    assert tree is not None
    disorders = plan.disorders
    for family in range(int(plan.category.max()) + 1):
        read = {tree.categories[tree.category[c]] for c in disorders[plan.category[disorders] == family]}
        assert len(read) == 1
    assert len({tree.categories[c] for c in tree.category[disorders]}) == plan.category.max() + 1
    assert {tree.chapters[tree.chapter[c]] for c in plan.reasons} == {"Z"}


def test_descriptions_are_readable_and_unique():
    texts = [code.description for code in code_layout(3000).vocabulary.codes]
    assert len(set(texts)) == 3000
    assert all(re.fullmatch(r"[A-Z][a-z]+( [a-z-]+)*, [a-z -]+", text) for text in texts)


def test_siblings_are_alike_in_how_common_they_are():
    """Half of the variance of the score is the family's: by ranks, families explain far more than chance would."""
    plan = code_layout(3000)
    category = plan.category[plan.disorders]
    rank = np.argsort(np.argsort(plan.target[plan.disorders])).astype(float)
    means = np.bincount(category, rank) / np.bincount(category)
    assert np.var(means[category]) / np.var(rank) > 0.4
    shuffled = np.random.default_rng(0).permutation(rank)
    means = np.bincount(category, shuffled) / np.bincount(category)
    assert np.var(means[category]) / np.var(rank) < 0.2


@pytest.mark.parametrize("n", [34, 54, 290, 2960, 20_000])
def test_the_long_tail_falls_and_stays_a_share(n):
    shares = long_tail(n)
    assert shares.shape == (n,)
    assert (np.diff(shares) < 0).all()
    assert shares[0] <= 0.35
    assert shares[-1] > 0


def test_half_of_the_codes_are_aimed_below_ten_of_the_default_visits():
    assert (long_tail(2960) * 21_600 < 10).mean() == pytest.approx(0.53, abs=0.03)


@pytest.mark.parametrize("codes", [FEWEST_CODES - 1, MOST_CODES + 1, 0, -5])
def test_too_few_or_too_many_codes_are_refused(codes):
    with pytest.raises(UsageError, match="codes"):
        code_layout(codes)
