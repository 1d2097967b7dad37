"""The GPT-style baseline: one causal Transformer over a stream of codes with visit separators.

A record is START, codes, SEP, codes, SEP, …, END. After START a code must come; after SEP a code or END; after a code a
code or SEP. A code comes once a visit: with a fixed order (by frequency) only later codes can follow, with a shuffled
one every code that has not come yet. After a code of a choice group no other of the group can follow, and after a visit
that ends with death nothing can. What is impossible has probability zero in training and in drawing alike.

Its context is as many tokens as the `context` visits hold, so that it sees the same history as the other networks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from adapcla.data import Prevalence
from adapcla.data.vocabulary import DEATH
from adapcla.errors import UsageError
from adapcla.models.batch import Batch
from adapcla.models.contract import Drawn, DrawRule, Likelihood, Network, Shape
from adapcla.models.draws import Noise, bernoulli, categorical
from adapcla.models.family import Architecture, Family, Row, Traits
from adapcla.models.gaps import N_BUCKETS, drawn_gap, gap_nll
from adapcla.models.groups import Groups
from adapcla.models.kernels.softmax import Choices, masked_cross_entropy, masked_nll
from adapcla.models.layers import CodeTable, VisitEmbedding, gap_bucket
from adapcla.models.objective import ScaffoldedLikelihood
from adapcla.models.ranks import ranked
from adapcla.models.tokens import Stream, TokenCache, TokenTrunk, stream_of

#: Places inside a visit that are told apart; later codes share the last.
_PLACES = 64
_NONE = torch.zeros(0, dtype=torch.int64)


class GptArchitecture(Architecture):
    """A decoder over a stream of codes with visit separators."""

    family: Literal["gpt"] = "gpt"
    layers: int = Field(3, ge=1)
    heads: int = Field(8, ge=1)
    order: Literal["fixed", "shuffled"] = Field("fixed", description="Codes of a visit by frequency, or at random.")
    longest_visit: int = Field(256, ge=1, description="Codes after which a drawn visit is closed.")

    @property
    def depth(self) -> int:
        """Layers of the decoder."""
        return self.layers

    @property
    def attention_heads(self) -> int:
        """Heads of the attention."""
        return self.heads

    @property
    def chooses(self) -> bool:
        """In a fixed order the codes behind a choice group follow upon any of its codes."""
        return self.order == "fixed"

    @property
    def exact_steps(self) -> bool:
        """A shuffled order is drawn, and its likelihood is that of one order."""
        return self.order == "fixed"

    @property
    def empty_visits(self) -> bool:
        """A separator comes after at least one code."""
        return False

    def multiplications(self, n_codes: int, codes_per_visit: float) -> float:
        """Roughly, the work for one visit: a row for each code and each separator, where others have one per visit."""
        return (codes_per_visit + 1) * super().multiplications(n_codes, codes_per_visit)


class GptState(NamedTuple):
    """The state of each patient's last token, the cache of all tokens, and the number of visits."""

    last: Tensor  # (patients, width)
    cache: TokenCache
    n_seen: int


class GptNetwork(Network):
    """Next-token prediction over codes and separators.

    Steering adds its shift to the code logits of every token; since codes compete with each other and with the
    separator, that is no Bernoulli shift, and the prevalence reached is looser than with a Bernoulli head.
    """

    def __init__(self, architecture: GptArchitecture, shape: Shape, prevalence: Prevalence) -> None:
        super().__init__()
        width, self.n_codes = architecture.width, shape.n_codes
        self.shuffled = architecture.order == "shuffled"
        self.longest_visit = architecture.longest_visit
        self.table = CodeTable(self.n_codes + 1, width)
        self.embedding = VisitEmbedding(width, architecture.context, shape.attributes, shape.with_days)
        self.within = nn.Parameter(torch.randn(_PLACES, width) * 0.02)
        self.trunk = TokenTrunk(width, architecture.layers, architecture.heads, architecture.dropout)
        self.output = CodeTable(self.n_codes + 2, width)
        code_of_rank, initial = ranked(prevalence)
        share = torch.sigmoid(initial)
        # One separator for each visit beside the codes; the end takes about a third of what follows a separator.
        ends = torch.stack([share.new_ones(()), share.sum() * 0.5])
        self.bias = nn.Parameter(torch.log(torch.cat([share, ends])))
        self.gap_head = nn.Linear(width, N_BUCKETS) if shape.with_days else None
        self.last_code = prevalence.vocabulary.index.get(DEATH.token)
        groups = Groups.of(prevalence.vocabulary.group_of_code[code_of_rank.numpy()])
        # The first code that may follow upon each token of a visit; after a separator none may.
        follows = torch.arange(1, self.n_codes + 2)
        if groups is not None:
            follows[:-1] = groups.stops()
        self.follows: Tensor
        self.register_buffer("follows", follows, persistent=False)
        self.code_of_rank: Tensor
        self.rank_of_code: Tensor
        self.register_buffer("code_of_rank", code_of_rank)
        self.register_buffer("rank_of_code", torch.argsort(code_of_rank))

    # ---- learning ---------------------------------------------------------------------------------------
    def _stream(self, batch: Batch) -> Stream:
        """The tokens of a batch; a shuffled order is drawn anew while training, and is always the same elsewhere."""
        codes = self.rank_of_code[batch.codes]
        key = codes.double() / self.n_codes
        if self.shuffled:
            fixed = None if self.training else torch.Generator().manual_seed(0)
            key = torch.rand(len(codes), generator=fixed, dtype=torch.float64)
        order = torch.argsort(batch.visit_of_entry + key)
        return stream_of(replace(batch, codes=codes), self.n_codes, order)

    def _states(self, batch: Batch, stream: Stream) -> Tensor:
        rows = self.table()[stream.tokens] + self.embedding.place[batch.position[stream.visit]]
        rows = rows + self.within[stream.place.clamp(max=_PLACES - 1)]
        if self.embedding.gap is not None:
            closing = (stream.tokens == self.n_codes)[:, None]
            rows = rows + closing * self.embedding.gap(gap_bucket(batch.gap[stream.visit]))
        parts = [self.embedding.starts(batch.start_attributes), self.embedding.norm(rows)]
        states: Tensor = self.trunk(torch.cat(parts), stream)
        return states

    def _ends(self, batch: Batch) -> Tensor:
        """The patients of whom it is asked whether their record ends: not those who died in their last visit."""
        if self.last_code is None:
            return torch.arange(batch.n_patients)
        return batch.lacks(self.last_code)[batch.continues == 0].nonzero()[:, 0]

    def _questions(self, stream: Stream, ends: Tensor) -> tuple[Tensor, Tensor, Choices]:
        """Rows, targets and what was possible: every token, then the end of some patients."""
        n, n_tokens, n_ends = self.n_codes, len(stream.tokens), len(ends)
        opens = stream.place == 0
        before = torch.cat([torch.zeros(1, dtype=torch.int64), stream.tokens[:-1]])
        floor = torch.zeros_like(before) if self.shuffled else torch.where(opens, 0, self.follows[before])
        starts_record = stream.row_before < stream.n_starts
        pairs = self._gone(stream) if self.shuffled else (_NONE, _NONE)
        choices = Choices(
            torch.cat([floor, torch.zeros(n_ends, dtype=torch.int64)]),
            torch.cat([~opens, torch.zeros(n_ends, dtype=torch.bool)]),
            torch.cat([opens & ~starts_record, torch.ones(n_ends, dtype=torch.bool)]),
            *pairs,
        )
        rows = torch.cat([stream.row_before, stream.last_row[ends]])
        targets = torch.cat([stream.tokens, torch.full((n_ends,), n + 1)])
        assert len(rows) == n_tokens + n_ends
        return rows, targets, choices

    @staticmethod
    def _gone(stream: Stream) -> tuple[Tensor, Tensor]:
        """(question, code) pairs of codes that came earlier in the visit."""
        question = torch.repeat_interleave(torch.arange(len(stream.tokens)), stream.place)
        begins = torch.cumsum(stream.place, 0) - stream.place
        back = torch.arange(len(question)) - begins[question]
        return question, stream.tokens[question - stream.place[question] + back]

    def _bias(self, extra: Tensor | None) -> Tensor:
        if extra is None:
            return self.bias
        return self.bias + torch.cat([extra[self.code_of_rank], torch.zeros(2)])

    def loss(self, batch: Batch, bias: Tensor | None, positive_weight: float = 1.0) -> Tensor:
        """The summed loss of all tokens, and of the day gaps where the cohort has them."""
        stream = self._stream(batch)
        states = self._states(batch, stream)
        rows, targets, choices = self._questions(stream, self._ends(batch))
        total = masked_cross_entropy(states[rows], self.output(), self._bias(bias), choices, targets)
        if self.gap_head is not None:
            total = total + self._gaps(states, stream, batch).sum()
        return total

    def _gaps(self, states: Tensor, stream: Stream, batch: Batch) -> Tensor:
        assert self.gap_head is not None
        opens = stream.row_before[stream.place == 0]
        return gap_nll(self.gap_head(states[opens[batch.position > 0]]), batch)

    @torch.no_grad()
    def likelihood(self, batch: Batch, bias: Tensor | None = None) -> Likelihood:
        """How probable the records are; with a shuffled order, how probable in one order, which is a bound."""
        stream = self._stream(batch)
        states = self._states(batch, stream)
        ends = self._ends(batch)
        rows, targets, choices = self._questions(stream, ends)
        nll, end = masked_nll(states[rows], self.output(), self._bias(bias), choices, targets)
        n_tokens = len(stream.tokens)
        going_on = -torch.log1p(-torch.exp(end[:n_tokens])).nan_to_num(0.0)
        codes = torch.zeros(batch.n_visits, dtype=torch.float64)
        codes.index_add_(0, stream.visit, nll[:n_tokens] - going_on)
        rest = torch.zeros(batch.n_visits, dtype=torch.float64).index_add_(0, stream.visit, going_on)
        if self.gap_head is not None:
            rest += self._gaps(states, stream, batch)
        record = torch.zeros(batch.n_patients, dtype=torch.float64).index_copy_(0, ends, nll[n_tokens:])
        return Likelihood(codes, record.index_add_(0, batch.patient_of_visit, codes + rest))

    # ---- rolling out ------------------------------------------------------------------------------------
    @torch.no_grad()
    def begin(self, attributes: Tensor, noise: Noise) -> GptState:
        """The state of patients (n, attributes) after START."""
        states, cache = self.trunk.extend(self.embedding.starts(attributes)[:, None], None)
        cache.lengths = cache.lengths + 1
        return GptState(states[:, 0], cache, 0)

    @torch.no_grad()
    def goes_on(self, state: GptState, noise: Noise) -> NDArray[np.bool_]:
        """Whether what follows the separator is a code."""
        logits = torch.addmm(self.bias, state.last, self.output().t())
        more = torch.logsumexp(logits[:, : self.n_codes].double(), dim=1) - logits[:, self.n_codes + 1]
        return bernoulli(more, noise, channel=0)

    @torch.no_grad()
    def draw_gap(self, state: GptState, noise: Noise) -> NDArray[np.int64]:
        """Days until the next visit."""
        if self.gap_head is None or state.n_seen == 0:
            return np.zeros(len(noise.patients), dtype=np.int64)
        return drawn_gap(self.gap_head(state.last), noise)

    @torch.no_grad()
    def draw_visit(self, state: GptState, rule: DrawRule, noise: Noise) -> Drawn:
        """The codes of the next visit, token by token until a separator."""
        if rule.counts is not None:
            raise UsageError("codes_per_visit='match' needs all logits at once; this network draws token by token")
        table = self.output()
        members, cache, last = torch.arange(len(noise.patients)), state.cache.draft(), state.last
        open_ = torch.ones(len(members), dtype=torch.bool)
        gone = torch.zeros(len(members), self.n_codes, dtype=torch.bool)
        who, ranks = [], []
        for step in range(min(self.longest_visit, self.n_codes)):
            logits = self._choice_logits(last, table, rule, gone, step)
            token = torch.from_numpy(categorical(logits, noise.keep(members.numpy()), channel=16 + step))
            open_ &= token < self.n_codes
            who.append(members[open_].numpy())
            ranks.append(token[open_].numpy())
            if not bool(open_.any()):
                break
            if 2 * int(open_.sum()) <= len(members):  # those who are done leave when they are the majority
                members, gone, token = members[open_], gone[open_], token[open_]
                cache = cache.keep(open_.nonzero()[:, 0])
                open_ = torch.ones(len(members), dtype=torch.bool)
            self._mark(gone, token)
            rows = self._rows(token[:, None].clamp(max=self.n_codes - 1), state.n_seen, torch.tensor([step]))
            last = self.trunk.extend(rows, cache).states[:, 0]
            cache.lengths = cache.lengths + 1
        everyone, codes = np.concatenate(who), self.code_of_rank.numpy()[np.concatenate(ranks)]
        order = np.lexsort((codes, everyone))
        return everyone[order], codes[order]

    def _choice_logits(self, last: Tensor, table: Tensor, rule: DrawRule, gone: Tensor, step: int) -> Tensor:
        """Logits (patients, codes + separator) of the next token of a visit."""
        logits = torch.addmm(self.bias, last, table.t())[:, : self.n_codes + 1] / rule.temperature
        if rule.bias is not None:
            logits[:, : self.n_codes] += rule.bias[self.code_of_rank]
        logits[:, : self.n_codes].masked_fill_(gone, -torch.inf)
        if step == 0:
            logits[:, self.n_codes] = -torch.inf
        return logits

    def _mark(self, gone: Tensor, token: Tensor) -> None:
        """Make the drawn codes impossible, and in a fixed order all codes before them."""
        if self.shuffled:
            some = token < self.n_codes
            gone[some.nonzero()[:, 0], token[some]] = True
        else:
            gone |= torch.arange(self.n_codes) < self.follows[token.clamp(max=self.n_codes)][:, None]

    def _rows(self, tokens: Tensor, n_seen: int, place: Tensor, gap: Tensor | None = None) -> Tensor:
        """Input rows (patients, new, width) of tokens of the same visit number."""
        rows = self.table()[tokens] + self.embedding.place[n_seen] + self.within[place.clamp(max=_PLACES - 1)]
        if gap is not None and self.embedding.gap is not None:
            rows = rows + (tokens == self.n_codes)[:, :, None] * self.embedding.gap(gap_bucket(gap))[:, None]
        out: Tensor = self.embedding.norm(rows)
        return out

    @torch.no_grad()
    def absorb(self, state: GptState, drawn: Drawn, gap: NDArray[np.int64]) -> GptState:
        """The state after that visit and its separator."""
        n = len(gap)
        who, ranks = torch.from_numpy(drawn[0]), self.rank_of_code[torch.from_numpy(drawn[1])]
        order = torch.argsort(who * self.n_codes + ranks)
        who, ranks = who[order], ranks[order]
        sizes = torch.bincount(who, minlength=n)
        place = torch.arange(len(who)) - (torch.cumsum(sizes, 0) - sizes)[who]
        tokens = torch.full((n, int(sizes.max()) + 1), self.n_codes)
        tokens[who, place] = ranks
        rows = self._rows(tokens, state.n_seen, torch.arange(tokens.shape[1]), torch.from_numpy(gap))
        states, cache = self.trunk.extend(rows, state.cache)
        cache.lengths = cache.lengths + sizes + 1
        return GptState(states[torch.arange(n), sizes], cache, state.n_seen + 1)

    def keep(self, state: GptState, rows: NDArray[np.int64]) -> GptState:
        """The state of some of the patients."""
        index = torch.from_numpy(rows)
        return state._replace(last=state.last[index], cache=state.cache.keep(index))


FAMILY = Family(
    GptArchitecture,
    GptNetwork,
    Traits(scaffold=True),
    (
        Row(
            "gpt",
            "Decoder over a stream of codes with visit separators; codes of a visit by frequency, none twice.",
            "GPT as in HALO's comparison",
            {"schedule": "none", "learning_rate": 1.5e-3},
            note="toward= shifts token logits, which compete: prevalence is met less exactly than with Bernoulli heads",
        ),
    ),
    objective=ScaffoldedLikelihood,
)
