"""Trunks: packed training and cached stepping are one function, and nobody sees the future."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from adapcla.data import Cohort
from adapcla.models.batch import Batch, Records, pack
from adapcla.models.layers import (
    GAP_EDGES,
    CausalLayer,
    CausalTrunk,
    Dropout,
    RecurrentTrunk,
    VisitEmbedding,
    gap_bucket,
)


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


def _one_by_one(layer: CausalLayer, rows: torch.Tensor, batch: Batch) -> torch.Tensor:
    """A layer over exact groups of equal length, as the definition says: no line is shared, nothing is padded."""
    projected = layer.query_key_value(layer.attention_norm(rows))
    out = [projected[: batch.n_starts, 2 * rows.shape[1] :]]
    places = [torch.arange(batch.n_starts)]
    for group in batch.groups:
        members, steps = group.rows.shape
        query, key, value = projected[group.rows].view(members, steps, 3, layer.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        out.append(mixed[:, :, 1:].transpose(1, 2).reshape(-1, rows.shape[1]))
        places.append(group.rows[:, 1:].reshape(-1))
    return layer._rest(rows, torch.cat(out)[torch.argsort(torch.cat(places))])


@pytest.mark.parametrize("longest", [5, 14, 15, 60])
def test_attention_on_lines_is_attention_over_exact_lengths(longest: int) -> None:
    """Values and all gradients, with shared lines, lines of one record each, and three start rows."""
    torch.manual_seed(longest)
    lengths = np.random.default_rng(longest).integers(1, longest + 1, 40)
    n_visits, nothing = int(lengths.sum()), np.zeros(int(lengths.sum()), np.int64)
    batch = pack(np.zeros(n_visits, np.int32), nothing + 1, lengths, np.arange(40)[:, None] % 3, nothing)
    layer = CausalLayer(16, 4, 0.0)
    rows = torch.randn(batch.n_starts + n_visits, 16, requires_grad=True)
    pull = torch.randn(rows.shape)
    found = []
    for way in (layer(rows, batch), _one_by_one(layer, rows, batch)):
        slopes = torch.autograd.grad((way * pull).sum(), [rows, *layer.parameters()])
        found.append((way, *slopes))
    for mine, wanted in zip(*found, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=1e-4 if mine is not found[0][0] else 1e-5)


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    """A million ones at 0.1: 10 % ± 0.15 % (five standard errors) are 0, the others 1 / 0.9; the seed decides."""
    drop = Dropout(0.1)
    ones = torch.ones(1000, 1001)
    torch.manual_seed(5)
    once = drop(ones)
    torch.manual_seed(5)
    assert torch.equal(once, drop(ones))
    assert not torch.equal(once, drop(ones))
    gone = once == 0
    assert float(gone.float().mean()) == pytest.approx(0.1, abs=0.0015)
    torch.testing.assert_close(once[~gone], torch.full((int((~gone).sum()),), 1 / 0.9), rtol=1e-4, atol=0)
    for phase in range(4):  # four elements come from one draw: none of the four may be favoured
        assert float(gone.view(-1)[phase::4].float().mean()) == pytest.approx(0.1, abs=0.003)
    both = (gone.view(-1)[:-1] & gone.view(-1)[1:]).float().mean()
    assert float(both) == pytest.approx(0.01, abs=0.0006)
    assert drop.eval()(ones) is ones


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
