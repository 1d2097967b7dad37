"""Trunks: packed training and cached stepping are one function, and nobody sees the future."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from adapcla.networks.batch import Batch, Records
from adapcla.networks.layers import GAP_EDGES, CausalTrunk, CodeTable, RecurrentTrunk, VisitEmbedding, gap_bucket
from adapcla.records import Cohort


def _trunk(kind: str) -> nn.Module:
    torch.manual_seed(0)
    trunk = CausalTrunk(16, 2, 4, 0.1) if kind == "causal" else RecurrentTrunk(16, 2, 0.1)
    return trunk.eval()


@pytest.fixture
def batch(tiny: Cohort) -> Batch:
    return Records(tiny, context=8).batch(np.arange(3))


@pytest.mark.parametrize("kind", ["causal", "recurrent"])
def test_stepping_with_a_cache_gives_the_packed_states(kind: str, batch: Batch) -> None:
    trunk = _trunk(kind)
    rows = torch.randn(batch.n_starts + batch.n_visits, 16)
    whole = trunk(rows, batch)
    for group in batch.groups:
        cache = None
        for step in range(group.rows.shape[1]):
            states, cache = trunk.step(rows[group.rows[:, step]], cache)  # type: ignore[operator]
            torch.testing.assert_close(states, whole[group.rows[:, step]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["causal", "recurrent"])
def test_a_later_visit_changes_no_earlier_state(kind: str, batch: Batch) -> None:
    trunk = _trunk(kind)
    rows = torch.randn(batch.n_starts + batch.n_visits, 16)
    before = trunk(rows, batch)
    changed = rows.clone()
    changed[5] += torch.randn(16)  # the last visit of the last patient
    after = trunk(changed, batch)
    torch.testing.assert_close(before[:5], after[:5])
    assert not torch.allclose(before[5], after[5])


@pytest.mark.parametrize("kind", ["causal", "recurrent"])
def test_a_kept_cache_goes_on_for_the_kept_patients(kind: str) -> None:
    trunk = _trunk(kind)
    first, second = torch.randn(3, 16), torch.randn(3, 16)
    _, cache = trunk.step(first, None)  # type: ignore[operator]
    whole, _ = trunk.step(second, cache)  # type: ignore[operator]
    kept, _ = trunk.step(second[[2, 0]], cache.keep(torch.tensor([2, 0])))  # type: ignore[operator]
    torch.testing.assert_close(kept, whole[[2, 0]])


def test_a_code_is_its_own_part_plus_its_families() -> None:
    table = CodeTable(3, 2, (torch.tensor([0, 0, 1]),))
    with torch.no_grad():
        table.own.zero_()
        table.parts[0].copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert table().tolist() == [[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]]


def test_a_visit_is_a_set_of_codes() -> None:
    torch.manual_seed(0)
    embedding = VisitEmbedding(8, 4, (), with_days=True)
    table = torch.randn(5, 8)
    place, gap = torch.tensor([1]), torch.tensor([3])
    one = embedding.visits(table, torch.tensor([0, 2, 4]), torch.tensor([0]), place, gap)
    other = embedding.visits(table, torch.tensor([4, 0, 2]), torch.tensor([0]), place, gap)
    torch.testing.assert_close(one, other)


def test_every_gap_has_a_bucket() -> None:
    buckets = gap_bucket(torch.arange(0, 5000))
    assert int(buckets.max()) == len(GAP_EDGES)
    assert (torch.diff(buckets) >= 0).all()


def test_a_table_is_remembered_until_a_parameter_changes() -> None:
    table = CodeTable(3, 2, (torch.tensor([0, 0, 1]),)).eval()
    with torch.no_grad():
        first = table()
        assert table() is first
        table.own += 1.0
        torch.testing.assert_close(table(), first + 1.0)
    assert table().requires_grad


def test_a_table_is_forgotten_when_training_goes_on() -> None:
    """Fused optimisers change parameters without counting up their version: the mode must tell."""
    table = CodeTable(3, 2, (torch.tensor([0, 0, 1]),))
    optimiser = torch.optim.AdamW(table.parameters(), lr=0.1, fused=True)
    seen = []
    for _ in range(2):
        table.eval()
        with torch.no_grad():
            seen.append(table().clone())
        table.train()
        table().sum().backward()
        optimiser.step()
    assert not torch.allclose(seen[0], seen[1])


def test_a_rare_code_is_believed_less_than_its_family() -> None:
    """Own parts of 1 believed by 0.1 and 0.9, family part of 2: vectors 2.1 and 2.9."""
    table = CodeTable(2, 1, (torch.tensor([0, 0]),), credibility=torch.tensor([0.1, 0.9]))
    with torch.no_grad():
        table.own.fill_(1.0)
        table.parts[0].fill_(2.0)
    torch.testing.assert_close(table(), torch.tensor([[2.1], [2.9]]))
