"""Appointed visits: their weights by hand, and that the weights of all branches sum to the condition's probability."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from adapcla.data.criteria import Criteria
from adapcla.generation.appointments import FORBIDDEN, AppointedProposer, Appointments, Branches
from adapcla.generation.conditional import Pool
from adapcla.generation.model import Model
from adapcla.generation.proposals import Proposer, Raised
from adapcla.generation.sampler import BLOCK, Rolled, SampleRule, cohort_of
from adapcla.models.base import DrawRule

LOGITS = np.linspace(-2, 1, 8)


@pytest.fixture
def marginal(small_model: Callable[..., Model]) -> Model:
    """Independent codes of known log-odds."""
    model = small_model("marginal")
    logits = model.network.logits
    assert isinstance(logits, torch.Tensor)
    logits.copy_(torch.from_numpy(LOGITS))
    return model


def proposer(model: Model, condition: Criteria, tilt: float = 0.0, certain: float = 5.0) -> AppointedProposer:
    """Appointments of all codes of a clause alike, where all other codes are raised by `tilt`."""
    clauses, n = condition.clauses(model.vocabulary), len(model.vocabulary)
    plain = Proposer(model, condition, SampleRule(), Raised(condition, clauses, (0.0,) * len(clauses), DrawRule(), n))
    [codes] = clauses
    shifts = np.full((len(codes), n), tilt)
    shifts[:, codes] = 0.0
    shifts[np.arange(len(codes)), codes] = certain
    chances = np.full(len(codes), 1 / len(codes))
    return AppointedProposer(plain, Appointments(condition, codes, DrawRule(), chances, shifts), {})


def chance(shift: np.ndarray | float = 0.0) -> np.ndarray:
    return 1 / (1 + np.exp(-LOGITS - shift))


def test_the_weight_is_the_product_of_the_steps(marginal: Model) -> None:
    """C0 is forbidden in the first visit and appointed in the second, where all others are raised by a half."""
    one = proposer(marginal, Criteria.of("C0"), tilt=0.5)
    rolled = Rolled(
        np.array([1, 0, 2], dtype=np.int32), np.array([1, 2]), np.array([2]), np.zeros(2, np.int64), np.array([[1]])
    )
    own = np.r_[1.0, np.zeros(7)]
    p, before, q = chance(), chance(FORBIDDEN * own), chance(5.0 * own + 0.5 * (1 - own))
    held = np.isin(np.arange(8), [0, 2])
    some = (1 - np.prod(1 - before)) / (1 - np.prod(1 - p))
    first = (1 - p[0]) / (1 - before[0]) * some
    second = np.prod(np.where(held, p / q, (1 - p) / (1 - q)))
    found = Branches(rolled, np.array([0]), np.array([0])).log_weight(one)
    assert np.isclose(found[0], np.log(first * second), atol=1e-5)


@pytest.mark.parametrize("tilt", [0.0, -1.0, 0.7])
def test_weights_sum_to_the_probability_that_can_be_counted(marginal: Model, tilt: float) -> None:
    """C0 or C1 in a first visit, which is drawn again until it holds a code."""
    part = proposer(marginal, Criteria.of("C0|C1", at="first"), tilt).block(3, 0)
    p = chance()
    exact = (1 - (1 - p[0]) * (1 - p[1])) / (1 - np.prod(1 - p))
    assert part.totals is not None
    error = np.sqrt((part.totals**2).sum()) / part.n
    assert abs(part.totals.sum() / part.n - exact) < 4 * error


@pytest.mark.parametrize("method", ["adapcla", "tailwise", "gpt", "halo"])
@pytest.mark.parametrize(
    "condition",
    [
        Criteria.of("C6"),
        Criteria.of("C6|C5|C4", within=2),
        Criteria.of("C5", at="last"),
        Criteria.of("C6", without="C1", visits="2..3"),
    ],
    ids=["any", "family", "last", "rest"],
)
def test_weights_sum_to_the_probability_by_plain_patients(
    small_model: Callable[..., Model], method: str, condition: Criteria
) -> None:
    model = small_model(method)
    one = proposer(model, condition, tilt=-0.4, certain=0.5 if method == "gpt" else 4.0)
    blocks = [one.plain.block(5, low) for low in range(0, 8 * BLOCK, BLOCK)]
    share = sum(len(part.weight) for part in blocks) / (8 * BLOCK)
    totals = [one.block(6, low).totals for low in range(0, 4 * BLOCK, BLOCK)]
    weights = np.concatenate([part for part in totals if part is not None])
    error = np.sqrt(share * (1 - share) / (8 * BLOCK) + (weights**2).sum() / (4 * BLOCK) ** 2)
    assert abs(weights.sum() / (4 * BLOCK) - share) < 4 * error


def test_every_branch_fulfils_the_condition_and_has_its_stretch(small_model: Callable[..., Model]) -> None:
    model, condition = small_model("tailwise"), Criteria.of("C6|C5")
    part = proposer(model, condition).block(1, 0)
    assert part.below is not None and part.totals is not None
    assert condition.matches(cohort_of(model, part.kept, {})).all()
    ends = part.below + part.weight
    same = part.number[1:] == part.number[:-1]
    assert same.any() and np.allclose(part.below[1:][same], ends[:-1][same])
    assert (part.below[1:][~same] == 0).all() and np.isclose(part.totals.sum(), part.weight.sum())


def test_what_cannot_be_taken_is_not_drawn_to_its_end(small_model: Callable[..., Model]) -> None:
    model = small_model("tailwise")
    one = proposer(model, Criteria.of("C6"))
    all_of_them = one.block(1, 0)
    some = one.block(1, 0, lambda number, end: number % 8 == 0)
    assert some.n_visits < all_of_them.n_visits and set(some.number % 8) == {0}
    assert some.totals is not None and all_of_them.totals is not None
    assert np.array_equal(some.totals, all_of_them.totals)
    rest = proposer(model, Criteria.of("C6", without="C1"))
    assert not rest.settled
    assert rest.block(1, 0, lambda number, end: number < 0).n_visits == rest.block(1, 0).n_visits


def test_of_the_branches_of_a_stem_one_is_taken_at_most() -> None:
    """Two branches of weights 1 and 3 at a bound of 8: an eighth and three eighths, and never both."""
    n = 8000
    stem = np.repeat(np.arange(n), 2)
    weight, below = np.tile([1.0, 3.0], n), np.tile([0.0, 1.0], n)
    ones = np.ones(2 * n, dtype=np.int64)
    rolled = Rolled(stem.astype(np.int32), ones, ones, np.tile([0, 1], n), np.zeros((2 * n, 0), dtype=np.int64))
    pool = Pool(key=1, beyond=0.0, floor=8.0)
    pool.add(rolled, stem, weight, n, below, np.full(n, 4.0))
    assert pool.bound == 8.0
    taken = pool.taken(n)
    assert len(np.unique(taken.codes)) == len(taken.codes)
    first = int((taken.gaps == 0).sum())
    assert abs(first - n / 8) < 4 * np.sqrt(n / 8) and abs(len(taken.gaps) - first - 3 * n / 8) < 4 * np.sqrt(3 * n / 8)


def test_death_ends_a_record_before_and_in_its_appointed_visit(small_model: Callable[..., Model]) -> None:
    model = small_model("adapcla")
    model.network.last_code = 2
    for condition in (Criteria.of("C2"), Criteria.of("C6")):
        kept = proposer(model, condition).block(1, 0).kept
        entries = np.repeat(np.arange(len(kept.visit_sizes)), kept.visit_sizes)
        last = np.isin(np.arange(len(kept.visit_sizes)), np.cumsum(kept.lengths) - 1)
        assert (kept.codes == 2).any() and last[entries[kept.codes == 2]].all()


def test_the_same_stems_have_the_same_branches(small_model: Callable[..., Model]) -> None:
    one = proposer(small_model("adapcla"), Criteria.of("C6|C5"))
    again = replace(one)
    first, second = (which.block(4, BLOCK) for which in (one, again))
    assert np.array_equal(first.kept.codes, second.kept.codes) and np.array_equal(first.weight, second.weight)
