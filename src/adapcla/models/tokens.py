"""Records as streams of tokens: the codes of a visit, a separator, the next visit; and a Transformer over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adapcla.models.attention_lines import AttentionLines, attention_lines
from adapcla.models.batch import Batch
from adapcla.models.layers import CausalLayer, CausalTrunk

#: Tokens that a new cache has room for.
_ROOM = 64


@dataclass(frozen=True)
class Stream:
    """The tokens of a batch: start rows first, then each patient's tokens in order."""

    n_starts: int
    tokens: Tensor  # (tokens,) codes in rank order, the separator is the number of codes
    visit: Tensor  # (tokens,) visit of each token
    place: Tensor  # (tokens,) place inside the visit
    row_before: Tensor  # (tokens,) the row that predicts each token
    last_row: Tensor  # (patients,) the row of each patient's last separator
    attention: AttentionLines


def stream_of(batch: Batch, separator: int, order: Tensor) -> Stream:
    """The stream of a batch whose codes are in rank order; `order` sorts the entries inside their visits."""
    n_visits, n_entries = batch.n_visits, len(batch.codes)
    ends = torch.cat([batch.offsets[1:], torch.tensor([n_entries])])
    entry_at = torch.arange(n_entries) + batch.visit_of_entry
    mark_at = ends + torch.arange(n_visits)
    tokens = torch.empty(n_entries + n_visits, dtype=torch.int64)
    visit = torch.empty_like(tokens)
    tokens[entry_at], tokens[mark_at] = batch.codes[order], separator
    visit[entry_at], visit[mark_at] = batch.visit_of_entry, torch.arange(n_visits)
    begins = batch.offsets + torch.arange(n_visits)
    everyone = torch.arange(len(tokens))
    place = everyone - begins[visit]
    opens_record = (place == 0) & (batch.position[visit] == 0)
    start = batch.start_of_patient[batch.patient_of_visit[visit]]
    row_before = torch.where(opens_record, start, batch.n_starts + everyone - 1)
    last_visit = (batch.continues == 0).nonzero()[:, 0]
    last_row = batch.n_starts + mark_at[last_visit]
    lengths = torch.bincount(batch.patient_of_visit[visit], minlength=batch.n_patients).cpu().numpy()
    attention = attention_lines(lengths, batch.start_of_patient.cpu().numpy(), batch.n_starts)
    return Stream(batch.n_starts, tokens, visit, place, row_before, last_row, attention)


class TokenCache:
    """Keys and values of the tokens so far, (patients, room, heads, width of a head) a layer; records differ in length.

    What lies beyond a patient's length is scratch: nothing that is asked can see it.
    """

    def __init__(self, keys: list[Tensor], values: list[Tensor], lengths: Tensor) -> None:
        self.keys, self.values, self.lengths = keys, values, lengths

    def make_room(self, n_tokens: int) -> None:
        """Let every patient have `n_tokens` more."""
        n_needed = int(self.lengths.max()) + n_tokens
        have = self.keys[0].shape[1]
        if n_needed > have:
            more = max(n_needed - have, have // 2)
            for kept in (self.keys, self.values):
                kept[:] = [F.pad(tensor, (0, 0, 0, 0, 0, more)) for tensor in kept]

    def draft(self) -> TokenCache:
        """A cache that can be extended and thrown away: it writes beyond the lengths of this one, or to new room."""
        return TokenCache(list(self.keys), list(self.values), self.lengths)

    def keep(self, rows: Tensor) -> TokenCache:
        """The cache of some of the patients."""
        room = int(self.lengths[rows].max()) if len(rows) else 0
        keys, values = ([tensor[rows, :room] for tensor in kept] for kept in (self.keys, self.values))
        return TokenCache(keys, values, self.lengths[rows])


class TokenLayer(CausalLayer):
    """A causal layer that can also go on from a cache in which patients have different lengths."""

    def extend(self, rows: Tensor, keys: Tensor, values: Tensor, where: Tensor) -> Tensor:
        """New rows (patients, new, width); their keys and values are written to the cache at `where`."""
        n, new, width = rows.shape
        query, key, value = self.query_key_value(self.attention_norm(rows)).view(n, new, 3, self.heads, -1).unbind(2)
        patient = torch.arange(n)[:, None]
        keys[patient, where], values[patient, where] = key, value
        end = int(where.max()) + 1
        seen = torch.arange(end) <= where[:, None, :, None]  # (P, 1, new, end)
        out = F.scaled_dot_product_attention(
            query.transpose(1, 2), keys[:, :end].transpose(1, 2), values[:, :end].transpose(1, 2), attn_mask=seen
        )
        return self._rest(rows, out.transpose(1, 2).reshape(n, new, width))


class Extended(NamedTuple):
    """States of new tokens, and the cache that can be told to hold them."""

    states: Tensor  # (patients, new, width)
    cache: TokenCache


class TokenTrunk(CausalTrunk):
    """A causal Transformer over tokens."""

    def __init__(self, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__(width, layers, heads, dropout)
        self.heads = heads
        self.layers = nn.ModuleList(TokenLayer(width, heads, dropout) for _ in range(layers))

    def extend(self, rows: Tensor, cache: TokenCache | None) -> Extended:
        """States of new tokens (patients, new, width) after those in the cache, whose lengths do not change yet."""
        n, new, width = rows.shape
        if cache is None:
            shape = (n, _ROOM, self.heads, width // self.heads)
            empty = [torch.zeros(shape) for _ in range(2 * len(self.layers))]
            cache = TokenCache(empty[: len(self.layers)], empty[len(self.layers) :], torch.zeros(n, dtype=torch.int64))
        cache.make_room(new)
        where = cache.lengths[:, None] + torch.arange(new)
        for number, layer in enumerate(self.layers):
            rows = layer.extend(rows, cache.keys[number], cache.values[number], where)  # type: ignore[operator]
        return Extended(self.norm(rows), cache)
