"""The weight of a proposed patient against the product of its probabilities, by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from adapcla.data.criteria import Criteria
from adapcla.generation.model import Model
from adapcla.generation.proposals import OpenClauses, Raised, log_weights
from adapcla.generation.sampler import Rolled
from adapcla.models.base import DrawRule


@pytest.fixture
def marginal(small_model: Callable[..., Model]) -> Model:
    """Independent codes of known log-odds."""
    model = small_model("marginal")
    logits = model.network.logits
    assert isinstance(logits, torch.Tensor)
    logits.copy_(torch.linspace(-2, 1, 8))
    return model


def course_of(model: Model, condition: Criteria, shift: float, n: int) -> OpenClauses:
    clauses = condition.clauses(model.vocabulary)
    return OpenClauses(Raised(condition, clauses, (shift,) * len(clauses), DrawRule(), 8), n, 3)


def test_the_weight_is_the_product_of_the_steps(marginal: Model) -> None:
    """C0 is raised by 2 in the first two visits, where it comes in the second; the third is drawn as it is."""
    course = course_of(marginal, Criteria.of("C0"), 2.0, 1)
    alive = np.array([0])
    for number, codes in enumerate(([1], [0, 1], [0, 2])):
        [(rows, rule)] = course.rules(alive, number)
        assert rows.tolist() == [0]
        assert (rule.bias is not None) == (number < 2)
        course.saw(alive, number, (np.zeros(len(codes), dtype=np.int64), np.array(codes)))
    assert course.at_visit.tolist() == [[1, 1, 0]]
    attributes, sizes = np.array([[1]]), np.array([1, 2, 2])
    rolled = Rolled(np.array([1, 0, 1, 0, 2], dtype=np.int32), sizes, np.array([3]), np.zeros(3, np.int64), attributes)
    logits = np.linspace(-2, 1, 8)
    p, q = 1 / (1 + np.exp(-logits)), 1 / (1 + np.exp(-logits - np.r_[2.0, np.zeros(7)]))
    some = (1 - np.prod(1 - q)) / (1 - np.prod(1 - p))
    expected = np.log((1 - p[0]) / (1 - q[0]) * p[0] / q[0] * some)
    assert np.isclose(log_weights(marginal, course, rolled, np.array([0]))[0], expected, atol=1e-5)


def test_an_empty_visit_that_ended_the_record_counts(marginal: Model) -> None:
    """C0 must be in the last visit, so that it is raised in the empty visit too."""
    course = course_of(marginal, Criteria.of("C0", at="last"), 2.0, 1)
    alive = np.array([0])
    course.rules(alive, 0)
    course.saw(alive, 0, (np.array([0]), np.array([0])))
    course.rules(alive, 1)
    rolled = Rolled(np.array([0], dtype=np.int32), np.array([1]), np.array([1]), np.array([0]), np.array([[1]]))
    logits = np.linspace(-2, 1, 8)
    p, q = 1 / (1 + np.exp(-logits)), 1 / (1 + np.exp(-logits - np.r_[2.0, np.zeros(7)]))
    some = (1 - np.prod(1 - q)) / (1 - np.prod(1 - p))
    expected = np.log(p[0] / q[0] * (1 - p[0]) / (1 - q[0]) * some)
    assert np.isclose(log_weights(marginal, course, rolled, np.array([0]))[0], expected, atol=1e-5)


def test_clauses_are_raised_only_where_they_can_be_met(marginal: Model) -> None:
    first = course_of(marginal, Criteria.of("C0", at="first"), 2.0, 2)
    early = course_of(marginal, Criteria.of("C0", within=2), 2.0, 2)
    alive = np.arange(2)
    for number, (in_first, in_early) in enumerate([(1, 1), (0, 1), (0, 0)]):
        for course, raised in ((first, in_first), (early, in_early)):
            course.rules(alive, number)
            course.saw(alive, number, (alive, np.array([3, 3])))
            assert course.at_visit[:, number].tolist() == [raised, raised]


def test_patients_are_drawn_by_what_is_open_for_them(marginal: Model) -> None:
    course = course_of(marginal, Criteria.of(["C0", "C1"]), 2.0, 2)
    alive = np.arange(2)
    course.rules(alive, 0)
    course.saw(alive, 0, (np.array([0]), np.array([0])))
    groups = course.rules(alive, 1)
    assert [(rows.tolist(), rule.bias.tolist()[:2]) for rows, rule in groups if rule.bias is not None] == [
        ([0], [0.0, 2.0]),
        ([1], [2.0, 2.0]),
    ]
