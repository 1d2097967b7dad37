"""The co-occurrence prior: counts, leave-one-out, and what is told to others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adapcla.models.cooccurrence_prior import (
    CooccurrencePrior,
    PairCounts,
    Prefixes,
    count_pairs,
    damping_share,
    with_expected,
)

PATIENTS = [[[0, 1, 2], [0, 1]], [[0, 1], [2, 3]], [[1, 2, 3]], [[0, 3]], [[0, 1, 2, 3]]]


def flat(patients: list[list[list[int]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    visits = [visit for patient in patients for visit in patient]
    return (
        np.array([code for visit in visits for code in visit]),
        np.array([len(visit) for visit in visits]),
        np.array([len(patient) for patient in patients]),
    )


def counts_of(patients: list[list[list[int]]], n_codes: int = 4) -> PairCounts:
    return count_pairs(*flat(patients), n_codes)


def prior_of(
    patients: list[list[list[int]]], family: list[int] | None = None, strength: float = 2.0
) -> CooccurrencePrior:
    codes, sizes, _ = flat(patients)
    visits = np.bincount(codes, minlength=4).astype(float)
    counts = with_expected(counts_of(patients), visits, len(sizes))
    prior = CooccurrencePrior(
        len(counts.partner), torch.tensor(family or [0, 0, 1, 1]), torch.from_numpy(visits), len(sizes), strength
    )
    prior.store(counts)
    return prior


def test_patients_are_counted_once_for_each_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand = {(0, 1): 3, (0, 2): 2, (0, 3): 2, (1, 2): 3, (1, 3): 2, (2, 3): 3}
    for at_once in (1, 4_000_000):
        monkeypatch.setattr("adapcla.models.cooccurrence_prior._PAIRS_AT_ONCE", at_once)
        counts = counts_of(PATIENTS)
        assert {
            (k // 4, k % 4): n for k, n in zip(counts.key.tolist(), counts.patients.tolist(), strict=True)
        } == by_hand


def test_pairs_that_chance_would_give_are_stored_with_zero_patients() -> None:
    counts = with_expected(counts_of([[[0, 1]], [[2]]]), np.array([50.0, 40.0, 30.0, 0.1]), 100.0)
    assert counts.key.tolist() == [1, 2, 6] and counts.patients.tolist() == [1, 0, 0]


def test_family_sums_count_each_pair_once() -> None:
    """Families {0, 1} and {2, 3}: inside 3 and 3, between 2 + 2 + 3 + 2 = 9."""
    assert prior_of(PATIENTS).family_patients.tolist() == [[3, 9], [9, 3]]


def test_before_training_the_prior_is_the_shrunken_log_lift() -> None:
    prior = prior_of(PATIENTS)
    places, tables = prior.places, prior.tables()
    lift = torch.log((prior.patients + 2.0 * places.log_lift.exp()) / (places.expected + 2.0))
    assert torch.allclose(tables.pair, (lift - places.log_lift).float(), atol=1e-5)


@pytest.mark.parametrize("patient", range(len(PATIENTS)))
def test_own_pairs_are_exactly_what_the_patient_adds_to_the_counts(patient: int) -> None:
    """Corrected values are those at s − 1; family counts are those without the patient's pairs."""
    prior = prior_of(PATIENTS)
    codes, sizes, _ = flat([PATIENTS[patient]])
    lowest = torch.zeros(len(codes) + len(sizes), dtype=torch.int64)
    own = prior.own_pairs(
        torch.from_numpy(codes), torch.from_numpy(sizes), torch.zeros(len(sizes), dtype=torch.int64), lowest
    )
    rest = counts_of([other for number, other in enumerate(PATIENTS) if number != patient])
    without = dict(zip(rest.key.tolist(), rest.patients.tolist(), strict=True))
    held = counts_of([PATIENTS[patient]]).key
    assert sorted(prior.counts.key[own.pair.numpy()].tolist()) == held.tolist()
    for pair in own.pair.tolist():
        assert int(prior.patients[pair]) - 1 == without.get(int(prior.counts.key[pair]), 0)
    sums = torch.from_numpy(prior._sums_by_family(rest))
    for cell, n in zip(own.family_cell.tolist(), own.family_patients.tolist(), strict=True):
        assert int(prior.family_patients.flatten()[cell]) - n == int(sums.flatten()[cell])
    tables = prior.tables(own)
    tables = tables._replace(own=tables.own.detach(), pair=tables.pair.detach())
    for number, pair in enumerate(own.pair.tolist()):
        s = float(prior.patients[pair]) - 1
        lift = prior.places.log_lift[pair].exp()
        x = torch.log((s + 2.0 * lift) / (prior.places.expected[pair] + 2.0)) - prior.places.log_lift[pair]
        assert float(tables.own[number] + tables.pair[pair]) == pytest.approx(float(x), abs=1e-5)


def test_corrections_stand_at_the_questions_that_they_concern() -> None:
    """A visit of 0, 1, 2: after 0 the pairs (0, 1) and (0, 2) matter, then also (1, 2); 1 cannot come again."""
    prior = prior_of(PATIENTS)
    codes, sizes = torch.tensor([0, 1, 2]), torch.tensor([3])
    lowest = torch.tensor([0, 1, 2, 3])
    own = prior.own_pairs(codes, sizes, torch.tensor([0]), lowest)
    stands = sorted(zip(own.question.tolist(), own.code.tolist(), own.own.tolist(), strict=True))
    pair = {(0, 1): 0, (0, 2): 1, (1, 2): 2}
    assert stands == [(1, 1, pair[0, 1]), (1, 2, pair[0, 2]), (2, 2, pair[0, 2]), (2, 2, pair[1, 2])]
    assert own.part(2, 3).question.tolist() == [0, 0]


def test_the_logits_of_a_prefix_are_the_sum_of_its_codes() -> None:
    prior = prior_of(PATIENTS)
    tables = prior.tables()
    rows = prior.rows(tables, torch.arange(4))
    prefixes = Prefixes(torch.tensor([0, 0, 1]), torch.tensor([0, 0, 1]), torch.tensor([0, 1, 2]))
    out = prior.logits(tables, prefixes)
    assert torch.equal(out[0], torch.zeros(4))
    assert torch.allclose(out[1], rows[0] * tables.factor[1])
    assert torch.allclose(out[2], (rows[0] + rows[1]) * tables.factor[2])


def test_damping_lowers_pairs_that_few_patients_hold_once_training_is_over() -> None:
    """In the logits of codes behind the ones that are there; what nobody or what many hold stays as it is."""
    prior = CooccurrencePrior(0, torch.zeros(4, dtype=torch.int64), torch.ones(4), 9, 2.0, learned=False, damping=0.5)
    prior.store(counts_of([[[0, 1]], [[0, 2], [0, 2]], *[[[1, 2]]] * 40]))
    assert not list(prior.parameters())
    assert not prior.train().tables().pair.any()
    tables = prior.eval().tables()
    once = -0.5 * float(damping_share(torch.tensor([1]))[0])
    assert prior.rows(tables, torch.tensor([0, 1])).tolist() == [[0, once, once, 0], [0, 0, 0, 0]]
    learned = prior_of(PATIENTS)
    undamped = learned.train().tables().pair
    learned.damping = 0.5
    assert torch.equal(learned.tables().pair, undamped)
    assert torch.equal(learned.eval().tables().pair, undamped - 0.5 * damping_share(learned.patients))


def test_patients_who_were_never_counted_are_refused() -> None:
    prior = prior_of([[[0, 1]], [[2]], [[3]]])
    with pytest.raises(ValueError, match="no training patients"):
        prior.own_pairs(torch.tensor([2, 3]), torch.tensor([2]), torch.tensor([0]), torch.zeros(3, dtype=torch.int64))


def test_others_are_told_no_pair_of_few_patients() -> None:
    """Pairs of 20 patients stay, pairs of 3 go; families keep what many such pairs add up to."""
    many = [[[0, 1]]] * 20 + [[[2, 3]]] * 3 + [[[0, 2]]] * 3 + [[[0, 3]]] * 3 + [[[1, 2]]] * 3 + [[[1, 3]]] * 3
    prior = prior_of(many)
    told = prior.without_small_counts()
    assert told["patients"][told["patients"] > 0].min() >= 11
    assert told["family_patients"].tolist() == [[20, 12], [12, 0]]  # 3 of the last are too few to be told
    assert prior.problem_with(told) == ""
    for name, change in (("starts", [0, 9, 9, 9, 9]), ("partner", [0] * len(told["partner"]))):
        assert prior.problem_with({**told, name: torch.tensor(change)})
