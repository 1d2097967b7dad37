"""Parts that networks are made of: code tables, visit embeddings, day gaps, causal attention over visits."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from adapcla.models.batch import AttentionLines, Batch, Lines
from adapcla.models.draws import Noise, categorical

#: Upper edges of the day-gap buckets: 0, 1, 2, 3, 7, 14 … days; the last bucket is open.
GAP_EDGES = (0, 1, 2, 3, 7, 14, 30, 60, 90, 180, 365, 730, 1460)


def learns(parameter: nn.Parameter, weight_decay: float | None = None, rate: float = 1.0, table: bool = False) -> None:
    """Let a parameter be trained with a weight decay of its own, or that of code tables, or another learning rate."""
    parameter.weight_decay, parameter.rate_factor = weight_decay, rate  # type: ignore[attr-defined]
    parameter.in_table = table  # type: ignore[attr-defined]


class Remembering(nn.Module):
    """A module that makes a derived tensor once while it is only evaluated, and forgets it when training goes on.

    Sampling asks for the same tables at every step of every visit. Versions of parameters cannot tell whether they
    changed, because fused optimisers do not count them up; the change of mode can.
    """

    def train(self, mode: bool = True) -> Self:
        """Change the mode, and forget the derived tensors."""
        self.__dict__.pop("_remembered", None)
        return super().train(mode)

    def remember(self, make: Callable[[], Tensor]) -> Tensor:
        """What `make()` returns; in evaluation mode it is computed once while no parameter is replaced or edited."""
        if self.training or torch.is_grad_enabled():
            return make()
        key = tuple((p.data_ptr(), p._version) for p in self.parameters())
        memory = self.__dict__.get("_remembered")
        if memory is None or memory[0] != key:
            memory = (key, make())
            self.__dict__["_remembered"] = memory
        table: Tensor = memory[1]
        return table


class CodeTable(nn.Module):
    """A vector for each code."""

    def __init__(self, n_codes: int, width: int) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.randn(n_codes, width) * 0.02)
        learns(self.own, table=True)

    def forward(self) -> Tensor:
        """The whole table (codes, width)."""
        return self.own


class VisitEmbedding(nn.Module):
    """A visit as the sum of its codes' vectors, its place in the record and the days since the one before."""

    def __init__(self, width: int, context: int, n_attributes: tuple[int, ...], with_days: bool) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(width) * 0.02)
        self.place = nn.Parameter(torch.randn(context, width) * 0.02)
        self.attributes = nn.ModuleList(nn.Embedding(size + 1, width) for size in n_attributes)
        for table in self.attributes:
            nn.init.normal_(table.weight, std=0.02)  # type: ignore[arg-type]
        self.gap = nn.Embedding(len(GAP_EDGES) + 1, width) if with_days else None
        if self.gap is not None:
            nn.init.normal_(self.gap.weight, std=0.02)
        self.norm = nn.LayerNorm(width)

    def starts(self, attributes: Tensor) -> Tensor:
        """Start rows (starts, width) from attribute categories (starts, attributes)."""
        rows = self.start.expand(attributes.shape[0], -1)
        for column, table in enumerate(self.attributes):
            rows = rows + table(attributes[:, column])
        return self.norm(rows)

    def visits(self, table: Tensor, codes: Tensor, offsets: Tensor, position: Tensor, gap: Tensor) -> Tensor:
        """Visit rows (visits, width)."""
        rows = F.embedding_bag(codes, table, offsets, mode="sum") + self.place[position]
        if self.gap is not None:
            rows = rows + self.gap(gap_bucket(gap))
        return self.norm(rows)


def gap_bucket(days: Tensor) -> Tensor:
    """The bucket of each day gap.

    >>> gap_bucket(torch.tensor([0, 5, 9999])).tolist()
    [0, 4, 13]
    """
    return torch.bucketize(days.contiguous(), torch.tensor(GAP_EDGES))


class Cache(NamedTuple):
    """Keys and values of the rows so far, one pair per layer, each (patients, heads, rows, width of a head)."""

    layers: tuple[tuple[Tensor, Tensor], ...]

    def keep(self, rows: Tensor) -> Cache:
        """The cache of some of the patients."""
        return Cache(tuple((k[rows], v[rows]) for k, v in self.layers))


class OnLines(Protocol):
    """What attention needs to know about the rows it is asked about: where they lie."""

    @property
    def attention(self) -> AttentionLines:
        """The lines."""


class Dropout(nn.Dropout):
    """Dropout whose mask takes 16 random bits per element, four elements per draw; chances are multiples of 1/65536."""

    def forward(self, rows: Tensor) -> Tensor:
        """The rows with some elements put to 0 and the rest enlarged, in training; else as they are."""
        if not self.training or self.p == 0.0:
            return rows
        dropped = round(self.p * 65536)
        bits = torch.empty(rows.numel() // 4 + 1, dtype=torch.int64).random_(-(1 << 63), None).view(torch.int16)
        stays = (bits[: rows.numel()] >= dropped - 32768).view(rows.shape)
        return rows * stays.to(rows.dtype).mul_(65536 / (65536 - dropped))


class CausalLayer(nn.Module):
    """Pre-norm attention over a patient's rows up to the present one, then a feed-forward part."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = Dropout(dropout)

    def forward(self, rows: Tensor, batch: OnLines) -> Tensor:
        """New rows (rows, width); linear parts run on packed rows, attention on lines of equal length."""
        projected = self.query_key_value(self.attention_norm(rows))  # (R, 3d)
        pieces = [self._attend(projected, lines) for lines in batch.attention.lines]
        # `embedding` takes rows as an index would, and adds their gradients up faster.
        mixed = F.embedding(batch.attention.slot_of_row, pieces[0] if len(pieces) == 1 else torch.cat(pieces))
        return self._rest(rows, mixed)

    def _attend(self, projected: Tensor, lines: Lines) -> Tensor:
        """What each slot (lines · slots, width) gathers from the slots that it sees."""
        n, slots = lines.rows.shape
        parts = F.embedding(lines.rows, projected).view(n, slots, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)  # (L, h, S, d/h)
        if lines.mask is None:
            out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:  # for short lines plain products take two thirds of the time
            scores = (query * query.shape[-1] ** -0.5) @ key.transpose(2, 3) + lines.mask
            out = torch.softmax(scores, dim=-1) @ value
        return out.transpose(1, 2).reshape(n * slots, -1)

    def step(self, rows: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The new row (patients, width) of each patient given the cached ones, and the longer cache."""
        n = rows.shape[0]
        query, key, value = self.query_key_value(self.attention_norm(rows)).view(n, 3, self.heads, 1, -1).unbind(1)
        if past is not None:
            key, value = torch.cat([past[0], key], dim=2), torch.cat([past[1], value], dim=2)
        out = F.scaled_dot_product_attention(query, key, value)  # (P, h, 1, d/h)
        return self._rest(rows, out.reshape(n, -1)), (key, value)

    def _rest(self, rows: Tensor, attended: Tensor) -> Tensor:
        rows = rows + self.dropout(self.mix(attended))
        return rows + self.dropout(self.narrow(F.gelu(self.widen(self.forward_norm(rows)))))


class CausalTrunk(nn.Module):
    """A causal Transformer over visits."""

    def __init__(self, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(CausalLayer(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, rows: Tensor, batch: OnLines) -> Tensor:
        """States (rows, width): each has seen its patient's rows up to its own."""
        for layer in self.layers:
            rows = layer(rows, batch)
        return self.norm(rows)

    def step(self, rows: Tensor, cache: Cache | None) -> tuple[Tensor, Cache]:
        """States of one new row per patient, and the cache that holds it."""
        grown = []
        for number, layer in enumerate(self.layers):
            rows, pair = layer.step(rows, cache.layers[number] if cache else None)  # type: ignore[operator]
            grown.append(pair)
        return self.norm(rows), Cache(tuple(grown))


class RecurrentCache(NamedTuple):
    """Hidden and cell states, each (layers, patients, width)."""

    hidden: Tensor
    cell: Tensor

    def keep(self, rows: Tensor) -> RecurrentCache:
        """The cache of some of the patients."""
        return RecurrentCache(self.hidden[:, rows], self.cell[:, rows])


class RecurrentTrunk(nn.Module):
    """An LSTM over visits, with the same two ways of calling as the causal trunk."""

    def __init__(self, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.cells = nn.LSTM(width, width, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)

    def forward(self, rows: Tensor, batch: Batch) -> Tensor:
        """States (rows, width): each has seen its patient's rows up to its own."""
        starts, _ = self.cells(rows[: batch.n_starts, None])
        pieces, places = [starts[:, 0]], [torch.arange(batch.n_starts)]
        for group in batch.groups:
            out, _ = self.cells(rows[group.rows])  # (P, T+1, d)
            pieces.append(out[:, 1:].reshape(-1, rows.shape[1]))
            places.append(group.rows[:, 1:].reshape(-1))
        return torch.empty_like(rows).index_copy(0, torch.cat(places), torch.cat(pieces))

    def step(self, rows: Tensor, cache: RecurrentCache | None) -> tuple[Tensor, RecurrentCache]:
        """States of one new row per patient, and the cache after it."""
        out, (hidden, cell) = self.cells(rows[:, None], None if cache is None else (cache.hidden, cache.cell))
        return out[:, 0], RecurrentCache(hidden, cell)


#: Longest gap that the open last bucket is drawn up to, in days.
_LONGEST_GAP = 2920
N_BUCKETS = len(GAP_EDGES) + 1


def drawn_gap(logits: Tensor, noise: Noise) -> NDArray[np.int64]:
    """Days until the next visit for each patient, from rows of bucket logits: a bucket, then a day in it.

    >>> sure = torch.full((1, N_BUCKETS), -50.0).index_fill(1, torch.tensor([4]), 50.0)
    >>> 4 <= int(drawn_gap(sure, Noise(1, np.arange(1), 0))[0]) <= 7
    True
    """
    return day_in_bucket(categorical(logits, noise, channel=1), noise)


def day_in_bucket(bucket: NDArray[np.int64], noise: Noise) -> NDArray[np.int64]:
    """A day drawn uniformly from each patient's bucket."""
    lows = np.array([0, *(edge + 1 for edge in GAP_EDGES)])
    highs = np.array([*GAP_EDGES, _LONGEST_GAP])
    spread = noise.uniform(1, channel=3)[:, 0] * (highs - lows + 1)[bucket]
    return lows[bucket] + spread.astype(np.int64)


def gap_nll(logits_of_later: Tensor, batch: Batch) -> Tensor:
    """(visits,) of the days before each visit, 0 for first visits; logits are given for the later visits, in order."""
    later = (batch.position > 0).nonzero()[:, 0]
    nll = F.cross_entropy(logits_of_later, gap_bucket(batch.gap[later]), reduction="none")
    return torch.zeros(batch.n_visits).index_copy(0, later, nll)
