"""Parts that networks are made of: code tables with family trees, visit embeddings, causal attention over visits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adapcla.models.attention_lines import AttentionLines, Lines
from adapcla.models.batch import Batch
from adapcla.models.kernels.mixed import Level, mixed

#: Upper edges of the day-gap buckets: 0, 1, 2, 3, 7, 14 … days; the last bucket is open.
GAP_EDGES = (0, 1, 2, 3, 7, 14, 30, 60, 90, 180, 365, 730, 1460)


class Remembering(nn.Module):
    """A module that makes a derived tensor once while it is only evaluated, and forgets it when training goes on.

    Sampling asks for the same tables at every step of every visit. Versions of parameters cannot tell whether they
    changed, because fused optimisers do not count them up; the change of mode can.
    """

    def train(self, mode: bool = True) -> Self:
        """Change the mode, and forget the derived tensors."""
        self.__dict__.pop("_remembered", None)
        return super().train(mode)

    def remembered(self, make: Callable[[], Tensor]) -> Tensor:
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


class Settling(ABC):
    """A part of a network with numbers that must not leave the house as they are."""

    @abstractmethod
    def settled(self) -> dict[str, Tensor]:
        """What takes their place in a model for others, by name."""


class CodeTable(Remembering, Settling):
    """A vector for each code: its own, plus its category's and chapter's where the vocabulary has families.

    Rare codes have seen little, so most of their vector is what their family learned. `credibility` (codes,) scales
    the own part and, after it, the part of each level of families: a code or a family that was seen n times is believed
    n / (n + k), as actuaries do with small risk groups. A family of one rare code is no better known than the code.
    """

    def __init__(
        self,
        n_codes: int,
        width: int,
        families: tuple[Tensor, ...] = (),
        scale: float = 0.02,
        credibility: tuple[Tensor, ...] = (),
    ) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.randn(n_codes, width) * scale)
        self.parts = nn.ParameterList()
        for level, members in enumerate(families):
            self.register_buffer(f"family_{level}", members.clone())
            self.parts.append(nn.Parameter(torch.randn(int(members.max()) + 1, width) * scale))
        self.sceptical = bool(credibility)
        for level, belief in enumerate(credibility):
            self.register_buffer(f"credibility_{level}", belief.clone()[:, None])

    def shares(self) -> Iterator[tuple[nn.Parameter, Tensor | None, Tensor | None]]:
        """Each part: its vectors, the row of it that each code has (None: its own), and how far it is believed."""
        for level, part in enumerate([self.own, *self.parts]):
            members = getattr(self, f"family_{level - 1}") if level else None
            yield part, members, getattr(self, f"credibility_{level}") if self.sceptical else None

    def forward(self) -> Tensor:
        """The whole table (codes, width)."""
        return self.remembered(self._made) if self.sceptical or len(self.parts) else self.own

    def _made(self) -> Tensor:
        parts, _, beliefs = zip(*self.shares(), strict=True)
        return mixed(parts, self._levels(), beliefs if self.sceptical else ())

    def _levels(self) -> list[Level]:
        """The families of each level, sorted once as long as they stay the same."""
        families = [members for _, members, _ in self.shares() if members is not None]
        key = [(members.data_ptr(), members._version) for members in families]
        if self.__dict__.get("_sorted", (None,))[0] != key:
            levels = [Level.of(*both) for both in zip(families, map(len, self.parts), strict=True)]
            self.__dict__["_sorted"] = (key, levels)
        found: list[Level] = self.__dict__["_sorted"][1]
        return found

    @torch.no_grad()
    def settled(self) -> dict[str, Tensor]:
        """The parts with how far they are believed multiplied in, believed wholly from then on: the same table.

        Credibility is n / (n + k), so that the counts behind it could be read from it.
        """
        state: dict[str, Tensor] = {}
        for level, (part, members, belief) in enumerate(self.shares()):
            if belief is None:
                continue
            of_row = belief
            if members is not None:
                of_row = torch.ones(len(part), 1).index_copy(0, members, belief)
            state["own" if members is None else f"parts.{level - 1}"] = part * of_row
            state[f"credibility_{level}"] = torch.ones_like(belief)
        return state


def settled(network: nn.Module) -> dict[str, Tensor]:
    """The state of a network for others: no number in it gives a small count away."""
    state = dict(network.state_dict())
    for name, module in network.named_modules():
        if isinstance(module, Settling):
            state |= {f"{name}.{key}": value for key, value in module.settled().items()}
    return state


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
        pieces = [self._attended(projected, lines) for lines in batch.attention.lines]
        # `embedding` takes rows as an index would, and adds their gradients up faster.
        mixed = F.embedding(batch.attention.slot_of_row, pieces[0] if len(pieces) == 1 else torch.cat(pieces))
        return self._rest(rows, mixed)

    def _attended(self, projected: Tensor, lines: Lines) -> Tensor:
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
