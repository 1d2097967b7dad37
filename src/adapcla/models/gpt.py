"""A causal Transformer over codes, with three parts for the long tail: `gpt` without them, `tailwise` with them.

A record is a stream of tokens: the codes of a visit in a fixed order, most frequent first; then a closing token, which
says how many days pass until the next visit, or that the record ends; then the codes of the next visit.

    START   401  250  |8–14 days|   250  585  |END|

One softmax predicts each token: a code that comes later in the order, or a closing token. So a visit holds no code
twice and at least one, how many it holds is part of the model, and the codes of a visit know the days before it. Of a
choice group a visit holds at most one code; after a visit that ends with death only END is possible.

The three parts, each a switch:

- **prior** (`models/cooccurrence_prior.py`): logits from counts of pairs of codes, each patient's own left out; with
  *damping*, which lowers the logits of pairs that few patients hold.
- **shrinkage**: the vector of a code is that of its family plus n / (n + κ) times its own, n its training visits.
- **copy**: two learned numbers for each band of frequency are added to codes of the last and of an earlier visit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from adapcla.data import Prevalence
from adapcla.data.code_systems import Hierarchy
from adapcla.data.ragged import expand_ranges
from adapcla.data.vocabulary import DEATH
from adapcla.errors import AdapclaError, UsageError
from adapcla.models.base import (
    Architecture,
    Drawn,
    DrawRule,
    Entered,
    Family,
    Likelihood,
    Network,
    Passage,
    Row,
    ScaffoldedLikelihood,
    Shape,
    Traits,
    Visit,
)
from adapcla.models.batch import AttentionLines, Batch, Records, attention_lines
from adapcla.models.choice_groups import Groups
from adapcla.models.code_order import frequency_order, visits_of_codes
from adapcla.models.cooccurrence_prior import CooccurrencePrior, OwnPairs, Prefixes, Tables, count_pairs, with_expected
from adapcla.models.draws import Noise, bernoulli, categorical
from adapcla.models.layers import (
    N_BUCKETS,
    CausalLayer,
    CausalTrunk,
    Dropout,
    Remembering,
    day_in_bucket,
    gap_bucket,
    learns,
)

#: Places inside a visit that have a vector each; later codes share the last.
_PLACES = 64
#: Upper edges, in training visits, of the bands of frequency of the copy head.
_COPY_EDGES = (30, 100, 300, 1000, 5000)
#: Logits that are computed at a time in training.
_LOGITS_AT_ONCE = 1 << 22
#: The learning rate of single numbers (copy head, functions of the prior) as a multiple of the usual one.
_FAST = 10.0
#: Tokens that a new cache has room for.
_ROOM = 64


class GptArchitecture(Architecture):
    """A causal Transformer over codes."""

    family: Literal["gpt"] = "gpt"
    layers: int = Field(3, ge=1)
    heads: int = Field(8, ge=1)
    prior: bool = Field(False, description="Add logits from counts of pairs of codes, each patient's own left out.")
    prior_strength: float = Field(
        100.0, gt=0, description="Patients by whom a pair of codes must be held to count as much as its families do."
    )
    prior_below: int = Field(
        0,
        ge=0,
        description="Training patients from which on there is damping and no prior, and below a prior and no damping; "
        "0: both, as they are set.",
    )
    damping: float = Field(
        0.0, ge=0, description="γ: by how much the logits of pairs that few patients hold are lowered after training."
    )
    shrinkage: float = Field(
        0.0,
        ge=0,
        description="κ: visits at which a code's own vector weighs half; 0 gives codes their own vector alone.",
    )
    copy_head: bool = Field(False, description="Add learned numbers to codes that the record held before.")
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
    def unread(self) -> tuple[str, ...]:
        """The strength of a prior that is not there."""
        return () if self.prior else ("prior_strength",)

    @property
    def counts_pairs(self) -> bool:
        """Pairs are counted for the prior and for damping."""
        return self.prior or self.damping > 0

    @property
    def chooses(self) -> bool:
        """The codes behind a choice group follow upon any of its codes."""
        return True

    def multiplications(self, n_codes: int, codes_per_visit: float) -> float:
        """Roughly, the work for one visit: a row for each code and each closing, where others have one per visit."""
        return (codes_per_visit + 1) * super().multiplications(n_codes, codes_per_visit)


# ---- parts ----------------------------------------------------------------------------------------------------------
class ShrunkEmbedding(Remembering):
    """A vector for each code: its family's plus n / (n + κ) times its own; or its own alone where κ is 0."""

    def __init__(self, width: int, family: Tensor, visits: Tensor, kappa: float) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.randn(len(family), width) * 0.02)
        learns(self.own, weight_decay=1.0 if kappa else None, table=True)
        self.family_vector = nn.Parameter(torch.randn(int(family.max()) + 1, width) * 0.02) if kappa else None
        self.family: Tensor
        self.weight: Tensor
        self.register_buffer("family", family.clone(), persistent=False)
        self.register_buffer("weight", (visits / (visits + max(kappa, 1e-9))).float()[:, None], persistent=False)

    def forward(self) -> Tensor:
        """The whole table (codes, width)."""
        if self.family_vector is None:
            return self.own
        return self.remember(self._compute)

    def _compute(self) -> Tensor:
        assert self.family_vector is not None
        return F.embedding(self.family, self.family_vector) + self.weight * self.own


class KeyValueCache:
    """Keys and values of the tokens so far, (patients, room, heads, width of a head) a layer; records differ in length.

    What lies beyond a patient's length is scratch that nothing can see.
    """

    def __init__(self, keys: list[Tensor], values: list[Tensor], lengths: Tensor) -> None:
        self.keys, self.values, self.lengths = keys, values, lengths

    @classmethod
    def empty(cls, n: int, layers: int, heads: int, width: int) -> KeyValueCache:
        """A cache without tokens."""
        room = [torch.zeros(n, _ROOM, heads, width // heads) for _ in range(2 * layers)]
        return cls(room[:layers], room[layers:], torch.zeros(n, dtype=torch.int64))

    def make_room(self, n_tokens: int) -> None:
        """Let every patient have `n_tokens` more."""
        missing = int(self.lengths.max()) + n_tokens - self.keys[0].shape[1]
        if missing > 0:
            more = max(missing, self.keys[0].shape[1] // 2)
            for kept in (self.keys, self.values):
                kept[:] = [F.pad(tensor, (0, 0, 0, 0, 0, more)) for tensor in kept]

    def select(self, rows: Tensor) -> KeyValueCache:
        """A copy of the cache of some of the patients."""
        room = int(self.lengths[rows].max()) + 1 if len(rows) else 0
        keys, values = ([tensor[rows, :room] for tensor in kept] for kept in (self.keys, self.values))
        return KeyValueCache(keys, values, self.lengths[rows])


class TokenLayer(CausalLayer):
    """A causal layer that can also go on from a cache in which patients have different lengths."""

    def extend(self, rows: Tensor, keys: Tensor, values: Tensor, at: Tensor) -> Tensor:
        """States of one new row (patients, width) each; its key and value are written to the cache at place `at`."""
        n, width = rows.shape
        query, key, value = self.query_key_value(self.attention_norm(rows)).view(n, 3, self.heads, -1).unbind(1)
        patient = torch.arange(n)
        keys[patient, at], values[patient, at] = key, value
        end = int(at.max()) + 1
        seen = torch.arange(end) <= at[:, None]
        out = F.scaled_dot_product_attention(
            query[:, :, None],
            keys[:, :end].transpose(1, 2),
            values[:, :end].transpose(1, 2),
            attn_mask=seen[:, None, None],
        )
        return self._rest(rows, out.reshape(n, width))


class TokenTrunk(CausalTrunk):
    """A causal Transformer over tokens."""

    def __init__(self, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__(width, layers, heads, dropout)
        self.heads = heads
        self.layers = nn.ModuleList(TokenLayer(width, heads, dropout) for _ in range(layers))

    def extend(self, rows: Tensor, cache: KeyValueCache) -> Tensor:
        """States (patients, width) of one new token each, which the cache holds from then on."""
        cache.make_room(1)
        for number, layer in enumerate(self.layers):
            rows = layer.extend(rows, cache.keys[number], cache.values[number], cache.lengths)  # type: ignore[operator]
        cache.lengths = cache.lengths + 1
        return self.norm(rows)


# ---- a batch as tokens ----------------------------------------------------------------------------------------------
class Tokens(NamedTuple):
    """A batch as rows of tokens (start rows first) and as questions: what comes after each of them.

    A visit of m codes has m + 1 questions, side by side: after no code of it, after one, …, after all. The first
    question of a first visit is answered by a start row, which many patients share.
    """

    token: Tensor  # (tokens,) a code, or number of codes + bucket of the days before a visit
    visit_number: Tensor  # (tokens,) which visit of the record
    place: Tensor  # (tokens,) 0 for the token before a visit, 1 for its first code, …
    attention: AttentionLines
    codes: Tensor  # (entries,) codes in the order of drawing, visit by visit
    sizes: Tensor  # (visits,) codes of each visit
    visit: Tensor  # (questions,)
    row: Tensor  # (questions,) the row that answers
    target: Tensor  # (questions,) the column that is right
    lowest: Tensor  # (questions,) the first code that is possible
    closes: Tensor  # (questions,) whether the visit may close
    ends: Tensor  # (questions,) whether it can only close with END


class _Part(NamedTuple):
    """The questions of some whole visits, whose visits and questions are numbered from 0 in what belongs to them."""

    tokens: Tokens
    questions: slice
    first_visit: int
    n_visits: int
    prefixes: Prefixes
    earlier: Earlier | None
    own: OwnPairs | None


class Earlier(NamedTuple):
    """Codes that a record held before a visit."""

    visit: Tensor
    code: Tensor
    kind: Tensor  # 0 in the last visit, 1 earlier


def earlier_codes(codes: NDArray[np.int64], sizes: NDArray[np.int64], patient: NDArray[np.int64]) -> Earlier:
    """For every visit the codes of its patient's visits before, each once.

    >>> found = earlier_codes(np.array([4, 4, 7, 9]), np.array([1, 2, 1]), np.array([0, 0, 0]))
    >>> [part.tolist() for part in found]
    [[1, 2, 2], [4, 4, 7], [0, 0, 0]]
    >>> earlier_codes(np.array([4, 7, 9]), np.ones(3, dtype=np.int64), np.array([0, 0, 0])).kind.tolist()
    [0, 1, 0]
    """
    n_visits = len(sizes)
    last = np.searchsorted(patient, np.arange(patient.max(initial=-1) + 1), side="right")[patient]
    of_entry = np.repeat(np.arange(n_visits), sizes)
    later = last[of_entry] - of_entry - 1
    entry = np.repeat(np.arange(len(codes)), later)
    visit = expand_ranges(of_entry + 1, last[of_entry])
    earlier = (visit - of_entry[entry] > 1).astype(np.int64)
    most = int(codes.max(initial=0)) + 1
    key, first = np.unique((visit * most + codes[entry]) * 2 + earlier, return_index=True)
    fresh = np.r_[True, key[1:] // 2 != key[:-1] // 2][: len(key)]
    kept = first[fresh]
    return Earlier(*(torch.as_tensor(x) for x in (visit[kept], codes[entry][kept], earlier[kept])))


class _SumOverParts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, loss_of: Callable[..., Tensor], parts: list[_Part], *inputs: Tensor) -> Tensor:
        with torch.enable_grad():
            given = [tensor.detach().requires_grad_() for tensor in inputs]
            total = torch.zeros((), dtype=torch.float64)
            for part in parts:
                loss = loss_of(part, *given)
                loss.backward()
                total += loss.detach().double()
        ctx.save_for_backward(*(torch.zeros_like(x) if x.grad is None else x.grad for x in given))
        return total.to(inputs[0].dtype)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(upstream[0] * gradient for gradient in ctx.saved_tensors)


def sum_of_parts(loss_of: Callable[..., Tensor], parts: list[_Part], inputs: list[Tensor]) -> Tensor:
    """The sum of `loss_of(part, *inputs)` over parts, with gradients; the logits of one part exist at a time."""
    if not torch.is_grad_enabled():
        return torch.stack([loss_of(part, *inputs) for part in parts]).sum()
    total: Tensor = _SumOverParts.apply(loss_of, parts, *inputs)
    return total


def family_of_code(prevalence: Prevalence) -> Tensor:
    """(codes,) the family of each code: its category if it has several codes, else its section, else its chapter.

    Codes of a choice group are a family; codes that show no family are one together, by domain.
    """
    vocabulary = prevalence.vocabulary
    tree = Hierarchy.of(vocabulary)
    if tree is None:
        names = [code.group or code.domain for code in vocabulary.codes]
    else:
        several = np.bincount(tree.category)[tree.category] > 1
        section = tree.block
        wide = np.bincount(section)[section] > 1
        names = [
            f"0 {tree.category[i]}" if several[i] else f"1 {section[i]}" if wide[i] else f"2 {tree.chapter[i]}"
            for i in range(len(vocabulary))
        ]
    return torch.from_numpy(np.unique(names, return_inverse=True)[1].astype(np.int64))


class GptState(NamedTuple):
    """Patients between two visits."""

    last: Tensor  # (patients, width) the state of the last token
    cache: KeyValueCache
    n_seen: int
    before: Tensor | None  # (patients, codes) codes of the last visit
    earlier: Tensor | None  # (patients, codes) codes of visits before it


# ---- the model ------------------------------------------------------------------------------------------------------
class GPT(Network):
    """Next-token prediction over codes and closings.

    Steering adds its shift to the logits of codes; since codes compete with each other and with closing, that is no
    Bernoulli shift, and only the closed loop reaches a target prevalence.
    """

    def __init__(self, architecture: GptArchitecture, shape: Shape, prevalence: Prevalence) -> None:
        super().__init__()
        width, self.n_codes = architecture.width, shape.n_codes
        self.longest_visit, self.with_days = architecture.longest_visit, shape.with_days
        code_at, initial = frequency_order(prevalence)
        n_visits = float(prevalence.n_visits or 1)
        visits = torch.from_numpy(visits_of_codes(prevalence))[code_at]
        family = family_of_code(prevalence)[code_at]
        embed = (width, family, visits, architecture.shrinkage)
        self.input, self.output = ShrunkEmbedding(*embed), ShrunkEmbedding(*embed)
        #: Closing tokens: a bucket of days until the next visit (or one for "next visit"), then END.
        self.n_gaps = N_BUCKETS if shape.with_days else 1
        self.opening = nn.Parameter(torch.randn(self.n_gaps, width) * 0.02)
        self.closing = nn.Parameter(torch.randn(self.n_gaps + 1, width) * 0.02)
        self.start = nn.Parameter(torch.randn(width) * 0.02)
        self.attributes = nn.ModuleList(nn.Embedding(size + 1, width) for size in shape.attributes)
        for table in self.attributes:
            nn.init.normal_(table.weight, std=0.02)  # type: ignore[arg-type]
        self.visit_number = nn.Parameter(torch.randn(architecture.context, width) * 0.02)
        self.place = nn.Parameter(torch.randn(_PLACES, width) * 0.02)
        self.dropout = Dropout(architecture.dropout)
        self.trunk = TokenTrunk(width, architecture.layers, architecture.heads, architecture.dropout)
        # One closing for each visit beside its codes; about a third of them end the record.
        closing = visits.new_full((self.n_gaps + 1,), 0.5 / self.n_gaps)
        self.bias = nn.Parameter(torch.log(torch.cat([torch.sigmoid(initial.double()), closing])).float())
        self.prior = None
        if architecture.counts_pairs:
            strength, learned, damping = architecture.prior_strength, architecture.prior, architecture.damping
            self.prior = CooccurrencePrior(shape.n_pairs, family, visits, n_visits, strength, learned, damping)
            for part in self.prior.parameters():
                learns(part, weight_decay=0.0, rate=_FAST)
        self.copy_head = None
        if architecture.copy_head:
            self.copy_head = nn.Parameter(torch.ones(2, len(_COPY_EDGES) + 1))
            learns(self.copy_head, weight_decay=0.0, rate=_FAST)
        band = torch.from_numpy(np.searchsorted(_COPY_EDGES, visits.numpy()))
        groups = Groups.of(prevalence.vocabulary.group_of_code[code_at.numpy()])
        #: The first code that may follow upon each code; behind the last there is none.
        follows = torch.arange(1, self.n_codes + 1) if groups is None else groups.stops()
        self.last_code = prevalence.vocabulary.index.get(DEATH.token)
        #: Where it is set, every drawn token adds to it what it was drawn from; see `_add_probabilities`.
        self.probability_sum: Tensor | None = None
        self.band: Tensor
        self.follows: Tensor
        self.keep_order(code_at)
        self.register_buffer("band", band, persistent=False)
        self.register_buffer("follows", follows, persistent=False)

    # ---- learning ---------------------------------------------------------------------------------------
    def observe(self, records: Records, shape: Shape) -> Shape:
        """Count the pairs of the training patients."""
        if self.prior is None:
            return shape
        cohort = records.within_context
        codes = self.order.encode(np.asarray(cohort.codes))
        sizes = np.asarray(cohort.codes_per_visit)
        codes = codes[np.lexsort((codes, np.repeat(np.arange(len(sizes)), sizes)))]
        counts = count_pairs(codes, sizes, np.asarray(cohort.visits_per_patient), self.n_codes)
        if self.prior.learned:
            counts = with_expected(counts, self.prior.code_visits.cpu().numpy(), self.prior.n_visits)
        self.prior.store(counts)
        return shape._replace(n_pairs=len(self.prior.partner))

    def without_small_counts(self, shape: Shape) -> tuple[dict[str, Tensor], Shape]:
        """The state for others, in which pairs of few patients are left to their families."""
        state, shape = super().without_small_counts(shape)
        if self.prior is None:
            return state, shape
        counts = self.prior.without_small_counts()
        state |= {f"prior.{name}": value for name, value in counts.items()}
        return state, shape._replace(n_pairs=len(counts["partner"]))

    def problem_with(self, state: dict[str, Tensor]) -> str:
        """What is wrong with the whole numbers of a state; empty where nothing is."""
        if self.prior is None:
            return super().problem_with(state)
        counts = {name.removeprefix("prior."): value for name, value in state.items() if name.startswith("prior.")}
        rest = {name: value for name, value in state.items() if not name.startswith("prior.")}
        return super().problem_with(rest) or self.prior.problem_with(counts)

    @torch.no_grad()
    def observed_shares(self, records: Records) -> Tensor:
        """(codes + closings + repeats,) how often each comes in these patients, a visit.

        Repeats, for networks with a copy head, are codes of each band of frequency that the record held in its last
        visit, then those that it held in an earlier one.
        """
        n_tokens, n_visits = self.n_codes + self.n_gaps + 1, 0
        total, repeats = torch.zeros(n_tokens), torch.zeros(0 if self.copy_head is None else self.copy_head.numel())
        for low in range(0, records.cohort.n_patients, 4096):
            batch = records.batch(np.arange(low, min(low + 4096, records.cohort.n_patients)))
            tokens = self._tokens(batch)
            total += torch.bincount(tokens.target, minlength=n_tokens)
            n_visits += batch.n_visits
            if self.copy_head is not None:
                visit, code, kind = self._earlier(batch, tokens)
                now = torch.repeat_interleave(torch.arange(batch.n_visits), tokens.sizes) * self.n_codes + tokens.codes
                again = torch.isin(visit * self.n_codes + code, now)
                place = kind * self.copy_head.shape[1] + self.band[code]
                repeats += torch.bincount(place[again], minlength=len(repeats))
        return torch.cat([total, repeats]).double() / n_visits

    def _earlier(self, batch: Batch, tokens: Tokens) -> Earlier:
        """For every visit of a batch the codes of the visits before."""
        return earlier_codes(
            tokens.codes.cpu().numpy(), tokens.sizes.cpu().numpy(), batch.patient_of_visit.cpu().numpy()
        )

    def _tokens(self, batch: Batch) -> Tokens:
        """The batch as tokens and questions."""
        n, n_visits = self.n_codes, batch.n_visits
        codes = batch.codes[torch.argsort(batch.visit_of_entry * n + batch.codes)]
        visit_of_entry, every = batch.visit_of_entry, torch.arange(len(codes))
        sizes = torch.bincount(visit_of_entry, minlength=n_visits)
        patient = batch.patient_of_visit
        # A token before each visit but a patient's first.
        at = every + (torch.arange(n_visits) - patient)[visit_of_entry]
        later = (batch.position > 0).nonzero()[:, 0]
        opens = at[batch.offsets[later]] - 1
        n_tokens = len(codes) + len(later)
        token, visit = torch.empty(n_tokens, dtype=torch.int64), torch.empty(n_tokens, dtype=torch.int64)
        place = torch.zeros(n_tokens, dtype=torch.int64)
        gap = gap_bucket(batch.gap) if self.with_days else torch.zeros(n_visits, dtype=torch.int64)
        token[at], token[opens] = codes, n + gap[later]
        visit[at], visit[opens] = visit_of_entry, later
        inside = every - batch.offsets[visit_of_entry]
        place[at] = inside + 1
        lengths = torch.bincount(patient[visit], minlength=batch.n_patients)
        attention = attention_lines(lengths.cpu().numpy(), batch.start_of_patient.cpu().numpy(), batch.n_starts)
        # Questions: those before each code, and the one after the last code of each visit.
        ask = every + visit_of_entry
        after = batch.offsets + sizes + torch.arange(n_visits)
        n_questions = len(codes) + n_visits
        row, target = torch.empty(n_questions, dtype=torch.int64), torch.empty(n_questions, dtype=torch.int64)
        lowest = torch.zeros(n_questions, dtype=torch.int64)
        first_of_record = (inside == 0) & (batch.position[visit_of_entry] == 0)
        start = batch.start_of_patient[patient[visit_of_entry]]
        row[ask] = torch.where(first_of_record, start, batch.n_starts + at - 1)
        row[ask + 1] = batch.n_starts + at
        target[ask] = codes
        next_gap = torch.cat([gap[1:], gap.new_zeros(1)])
        target[after] = n + torch.where(batch.continues > 0, next_gap, self.n_gaps)
        lowest[ask + 1] = self.follows[codes]
        closes = torch.ones(n_questions, dtype=torch.bool)
        closes[ask[inside == 0]] = False
        ends = torch.zeros(n_questions, dtype=torch.bool)
        if self.last_position is not None:
            ends[ask + 1] = codes == self.last_position
        question_visit = torch.repeat_interleave(torch.arange(n_visits), sizes + 1)
        return Tokens(
            token, batch.position[visit], place, attention,
            codes, sizes, question_visit, row, target, lowest, closes, ends,
        )  # fmt: skip

    def _starts(self, attributes: Tensor) -> Tensor:
        """Start rows (starts, width) from attribute categories (starts, attributes)."""
        rows = (self.start + self.visit_number[0]).expand(attributes.shape[0], -1)
        for column, table in enumerate(self.attributes):
            rows = rows + table(attributes[:, column])
        return rows

    def _rows(self, token: Tensor, visit_number: Tensor, place: Tensor) -> Tensor:
        """Input rows (tokens, width)."""
        table = torch.cat([self.input(), self.opening])
        return F.embedding(token, table) + self.visit_number[visit_number] + self.place[place.clamp(max=_PLACES - 1)]

    def _states(self, batch: Batch, tokens: Tokens) -> Tensor:
        """States (start rows and tokens, width)."""
        rows = torch.cat(
            [self._starts(batch.start_attributes), self._rows(tokens.token, tokens.visit_number, tokens.place)]
        )
        states: Tensor = self.trunk(self.dropout(rows), tokens)
        return states

    def _bias(self, extra: Tensor | None) -> Tensor:
        """The output bias with what is added to the logits of codes."""
        return self.bias if extra is None else self.bias + F.pad(extra, (0, self.n_gaps + 1))

    def _possible(self, logits: Tensor, lowest: Tensor, closes: Tensor, ends: Tensor) -> Tensor:
        """The logits (questions, codes + closings) with −∞ where something is impossible."""
        n = self.n_codes
        no_code = torch.arange(n) < lowest[:, None]
        no_gap = (~closes | ends)[:, None].expand(-1, self.n_gaps)
        return logits.masked_fill(torch.cat([no_code, no_gap, ~closes[:, None]], dim=1), -torch.inf)

    def _log_probabilities(
        self, states: Tensor, output: Tensor, bias: Tensor, tables: Tables | None, copied: Tensor | None, part: _Part
    ) -> Tensor:
        """(questions, codes + closings) of the questions of some whole visits."""
        q = part.questions
        logits = torch.addmm(bias, F.embedding(part.tokens.row[q], states), output.t())
        extra = None
        if tables is not None and self.prior is not None:
            extra = self.prior.logits(tables, part.prefixes, part.own)
        if copied is not None and part.earlier is not None:
            e = part.earlier
            values = copied[e.kind, self.band[e.code]]
            rows = torch.zeros(part.n_visits, self.n_codes).index_put((e.visit, e.code), values)
            rows = F.embedding(part.tokens.visit[q] - part.first_visit, rows)
            extra = rows if extra is None else extra + rows
        if extra is not None:
            logits = torch.cat([logits[:, : self.n_codes] + extra, logits[:, self.n_codes :]], dim=1)
        t = part.tokens
        return torch.log_softmax(self._possible(logits, t.lowest[q], t.closes[q], t.ends[q]), dim=1)

    def _parts(self, batch: Batch, tokens: Tokens, own: OwnPairs | None) -> Iterator[_Part]:
        """The questions of some visits at a time, so that memory is bounded."""
        most = max(1, _LOGITS_AT_ONCE // (self.n_codes + self.n_gaps + 1))
        begins = torch.cumsum(tokens.sizes + 1, 0) - tokens.sizes - 1
        number = begins // most
        earlier = None
        if self.copy_head is not None:
            earlier = self._earlier(batch, tokens)
        for each in torch.unique(number).tolist():
            first, last = torch.searchsorted(number, torch.tensor([each, each + 1])).tolist()
            low, high = int(begins[first]), int(begins[last - 1] + tokens.sizes[last - 1] + 1)
            size = torch.arange(low, high) - begins[tokens.visit[low:high]]
            entry = torch.as_tensor(
                expand_ranges(*((batch.offsets[tokens.visit[low:high]] + x).cpu().numpy() for x in (0, size)))
            )
            some = None
            if earlier is not None:
                a, b = torch.searchsorted(earlier.visit, torch.tensor([first, last])).tolist()
                some = Earlier(earlier.visit[a:b] - first, earlier.code[a:b], earlier.kind[a:b])
            yield _Part(
                tokens, slice(low, high), first, last - first,
                Prefixes(tokens.codes[entry], torch.cumsum(size, 0) - size, size),
                some, None if own is None else own.part(low, high),
            )  # fmt: skip

    def loss(self, batch: Batch, bias: Tensor | None, positive_weight: float = 1.0) -> Tensor:
        """The summed negative log-likelihood of all tokens; in training each patient's own pairs are left out."""
        tokens = self._tokens(batch)
        own = tables = None
        if self.prior is not None and (self.prior.learned or not self.training):
            if self.training:
                own = self.prior.own_pairs(tokens.codes, tokens.sizes, batch.patient_of_visit, tokens.lowest)
            tables = self.prior.tables(own)
        inputs = [self._states(batch, tokens), torch.cat([self.output(), self.closing]), self._bias(bias)]
        n_inputs = len(inputs)
        inputs += [] if self.copy_head is None else [self.copy_head]
        inputs += [] if tables is None else list(tables)

        def loss_of(part: _Part, *given: Tensor) -> Tensor:
            copied = None if self.copy_head is None else given[n_inputs]
            made = None if tables is None else Tables(*given[-len(tables) :])
            log_p = self._log_probabilities(given[0], given[1], given[2], made, copied, part)
            return F.nll_loss(log_p, tokens.target[part.questions], reduction="sum")

        return sum_of_parts(loss_of, list(self._parts(batch, tokens, own)), inputs)

    @torch.no_grad()
    def likelihood(self, batch: Batch, bias: Tensor | None = None) -> Likelihood:
        """How probable the records are: the codes of each visit with its closing, then also which closing."""
        tokens = self._tokens(batch)
        tables = None if self.prior is None else self.prior.tables()
        states, output = self._states(batch, tokens), torch.cat([self.output(), self.closing])
        codes, record = (
            torch.zeros(batch.n_visits, dtype=torch.float64),
            torch.zeros(batch.n_visits, dtype=torch.float64),
        )
        for part in self._parts(batch, tokens, None):
            log_p = self._log_probabilities(states, output, self._bias(bias), tables, self.copy_head, part).double()
            target, visit = tokens.target[part.questions], tokens.visit[part.questions]
            of_target = log_p.gather(1, target[:, None])[:, 0]
            closing = torch.logsumexp(log_p[:, self.n_codes :], dim=1)
            record.index_add_(0, visit, -of_target)
            codes.index_add_(0, visit, -torch.where(target < self.n_codes, of_target, closing))
        return Likelihood(
            codes, torch.zeros(batch.n_patients, dtype=torch.float64).index_add_(0, batch.patient_of_visit, record)
        )

    # ---- sampling ---------------------------------------------------------------------------------------
    @torch.no_grad()
    def begin(self, attributes: Tensor, noise: Noise) -> GptState:
        """The state of patients (n, attributes) after START."""
        n = len(attributes)
        cache = KeyValueCache.empty(n, len(self.trunk.layers), self.trunk.heads, self.start.shape[0])
        last = self.trunk.extend(self._starts(attributes), cache)
        nothing = torch.zeros(n, self.n_codes, dtype=torch.bool) if self.copy_head is not None else None
        return GptState(last, cache, 0, nothing, nothing)

    def _closing_logits(self, state: GptState) -> Tensor:
        """(patients, closings) after the last code of a visit."""
        return torch.addmm(self.bias[self.n_codes :], state.last, self.closing.t())

    @torch.no_grad()
    def enter(self, state: GptState, noise: Noise, certain: bool) -> Entered:
        """Whom END did not close, and the days that the closing token says."""
        rows = np.arange(len(noise.patients))
        if not certain:
            logits = self._closing_logits(state).double()
            going_on = torch.logsumexp(logits[:, :-1], dim=1) - logits[:, -1]
            rows = np.flatnonzero(bernoulli(going_on, noise, channel=0))
            state, noise = self.select(state, rows), noise.keep(rows)
        gap = np.zeros(len(rows), dtype=np.int64)
        if state.n_seen == 0 or not len(rows):
            return Entered(rows, gap, state)
        if self.with_days:
            gap = day_in_bucket(categorical(self._closing_logits(state)[:, :-1], noise, channel=1), noise)
        return Entered(rows, gap, self.after_days(state, gap))

    def after_days(self, state: GptState, gap: NDArray[np.int64]) -> GptState:
        """The state after the days before the next visit."""
        n = len(gap)
        bucket = gap_bucket(torch.from_numpy(gap)) if self.with_days else torch.zeros(n, dtype=torch.int64)
        at = torch.full((n,), state.n_seen)
        cache = state.cache.select(torch.arange(n))
        last = self.trunk.extend(self._rows(self.n_codes + bucket, at, torch.zeros_like(at)), cache)
        return state._replace(last=last, cache=cache)

    @torch.no_grad()
    def draw_visit(self, state: GptState, rule: DrawRule, noise: Noise) -> Visit:
        """The codes of the next visit, token by token until it closes, and the state after them."""
        if rule.counts is not None:
            raise UsageError("codes_per_visit='match' needs all logits at once; this network draws token by token")
        output, bias = torch.cat([self.output(), self.closing]), self.bias
        n, n_codes = len(noise.patients), self.n_codes
        tables = None if self.prior is None else self.prior.tables()
        so_far = None if tables is None else torch.zeros(n, n_codes)
        copied = self._copy_logits(state)
        full = work = state.cache.select(torch.arange(n))
        last, reached = state.last.clone(), state.last
        members, is_open, lowest = torch.arange(n), torch.ones(n, dtype=torch.bool), torch.zeros(n, dtype=torch.int64)
        sizes = torch.zeros(n, dtype=torch.int64)
        who, codes = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        passage = rule.passage
        hazard = None if passage is None else np.zeros((n, len(passage.codes)))
        for place in range(min(self.longest_visit, n_codes) + 1):
            logits = torch.addmm(bias, reached, output.t())
            of_codes = logits[:, :n_codes]
            if tables is not None and so_far is not None and place:
                of_codes.addcmul_(so_far, tables.factor[min(place, len(tables.factor) - 1)])
            if copied is not None:
                of_codes += copied
            if rule.temperature != 1:
                logits /= rule.temperature
            if rule.bias is not None:
                of_codes += rule.bias
            of_codes.masked_fill_(torch.arange(n_codes) < lowest[:, None], -torch.inf)
            if place == 0:
                logits[:, n_codes:] = -torch.inf
            elif place == self.longest_visit:
                of_codes.fill_(-torch.inf)
            if self.probability_sum is not None:
                self._add_probabilities(torch.softmax(logits[is_open], dim=1).double(), state, members[is_open])
            mine = noise.keep(members.numpy())
            if passage is None or hazard is None:
                token = torch.from_numpy(categorical(logits, mine, channel=16 + place))
            else:
                here = passage.select(members.numpy())
                drawn_token, passed = token_under(here, logits, lowest.numpy(), mine.uniform(1, 16 + place))
                token, still = torch.from_numpy(drawn_token), is_open.numpy()
                hazard[members.numpy()[still]] += passed[still]
            is_open &= token < n_codes
            if not bool(is_open.any()):
                break
            who.append(members[is_open].numpy())
            codes.append(token[is_open].numpy())
            if 2 * int(is_open.sum()) <= len(members):  # those who are done leave when they are the majority
                stays = is_open.nonzero()[:, 0]
                members, token, work = members[stays], token[stays], work.select(stays)
                so_far, copied = (None if x is None else x[stays] for x in (so_far, copied))
                is_open = is_open[stays]
            token = token.clamp(max=n_codes - 1)
            lowest = self.follows[token]
            if so_far is not None and tables is not None and self.prior is not None:
                distinct, which = torch.unique(token, return_inverse=True)
                so_far += F.embedding(which, self.prior.rows(tables, distinct))
            reached = self._extend(token, state.n_seen, place + 1, work, full, members)
            sizes[members[is_open]] += 1
            last[members[is_open]] = reached[is_open]
        drawn = np.concatenate(who), np.concatenate(codes)
        in_order = np.lexsort((drawn[1], drawn[0]))
        full.lengths = state.cache.lengths + sizes
        return Visit(drawn[0][in_order], drawn[1][in_order], hazard, self._after(state, last, full, drawn))

    def _extend(
        self, token: Tensor, n_seen: int, place: int, work: KeyValueCache, full: KeyValueCache, members: Tensor
    ) -> Tensor:
        """States after one more code of some members, whose keys and values also go to the cache of all."""
        at = torch.full_like(token, n_seen)
        states = self.trunk.extend(self._rows(token, at, torch.full_like(token, place)), work)
        if work is not full:
            where = work.lengths - 1
            full.make_room(int(where.max()) + 1 - int(full.lengths.max()))
            every = torch.arange(len(members))
            for whole, some in ((full.keys, work.keys), (full.values, work.values)):
                for layer, tensor in enumerate(some):
                    whole[layer][members, where] = tensor[every, where]
        return states

    def _copy_logits(self, state: GptState) -> Tensor | None:
        """(patients, codes) what the copy head adds."""
        if self.copy_head is None or state.before is None or state.earlier is None:
            return None
        last, earlier = self.copy_head[:, self.band]
        return torch.where(state.before, last, torch.where(state.earlier, earlier, 0.0))

    def _add_probabilities(self, p: Tensor, state: GptState, rows: Tensor) -> None:
        """Add probabilities (some patients, codes + closings) of one token to `probability_sum`.

        Its three rows, (3, codes + closings + repeats + 1), the last column for any closing, are sums over tokens of p,
        of p · (1 − p), by which the sum of p grows with its logit, and of 1 where p was not 0. Which closing it is, is
        counted among closings: there p is the probability of a closing if it is one, and tokens weigh by that of any.
        """
        assert self.probability_sum is not None
        codes, closings = p[:, : self.n_codes], p[:, self.n_codes :]
        closes = closings.sum(1, keepdim=True)
        free = [codes, closes]
        if self.copy_head is not None and state.before is not None and state.earlier is not None:
            of_band = F.one_hot(self.band, self.copy_head.shape[1]).double()
            before, earlier = state.before[rows], state.earlier[rows]
            free[1:1] = [(codes * held) @ of_band for held in (before, earlier & ~before)]
        sums = [torch.stack([q.sum(0), (q * (1 - q)).sum(0), (q > 0).double().sum(0)]) for q in free]
        which = closings / closes.clamp(min=1e-300)
        sums[1:1] = [
            torch.stack([closings.sum(0), (closings * (1 - which)).sum(0), closes.sum().expand(self.n_gaps + 1)])
        ]
        self.probability_sum += torch.cat(sums, dim=1)

    def _after(self, state: GptState, last: Tensor, cache: KeyValueCache, drawn: Drawn) -> GptState:
        """The state after a visit of these codes."""
        before, earlier = state.before, state.earlier
        if before is not None and earlier is not None:
            earlier = earlier | before
            before = torch.zeros_like(before)
            before[torch.from_numpy(drawn[0]), torch.from_numpy(drawn[1])] = True
        return GptState(last, cache, state.n_seen + 1, before, earlier)

    @torch.no_grad()
    def absorb(self, state: GptState, drawn: Drawn, gap: NDArray[np.int64]) -> GptState:
        """The state after a visit of these codes."""
        n = len(gap)
        who, codes = torch.from_numpy(drawn[0]), torch.from_numpy(drawn[1])
        in_order = torch.argsort(who * self.n_codes + codes)
        who, codes = who[in_order], codes[in_order]
        sizes = torch.bincount(who, minlength=n)
        begins = torch.cumsum(sizes, 0) - sizes
        full = work = state.cache.select(torch.arange(n))
        last = state.last.clone()
        for place in range(int(sizes.max())):
            members = (sizes > place).nonzero()[:, 0]
            work = full if len(members) == n else full.select(members)
            last[members] = self._extend(codes[begins[members] + place], state.n_seen, place + 1, work, full, members)
            full.lengths = state.cache.lengths + sizes.clamp(max=place + 1)
        return self._after(state, last, full, (who.numpy(), codes.numpy()))

    def select(self, state: GptState, rows: NDArray[np.int64]) -> GptState:
        """The state of some of the patients."""
        index = torch.from_numpy(rows)
        before, earlier = (None if x is None else x[index] for x in (state.before, state.earlier))
        return GptState(state.last[index], state.cache.select(index), state.n_seen, before, earlier)


def token_under(
    passage: Passage, logits: Tensor, lowest: NDArray[np.int64], uniform: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """One token of each patient under a passage, and the hazards (patients, codes) of the codes that it passes.

    A code c is passed by what stands behind it. Its hazard is p(c) over the probability of c and all behind it; without
    c, what is behind it has 1 / (1 − hazard) of its probability. Up to a target the distribution function is that
    without the codes, and at the target it is 1, so that the same uniform number gives the same token before it.

    Args:
        passage: Codes, ascending.
        logits: (patients, tokens), −∞ where a token is not possible.
        lowest: (patients,) the first possible code.
        uniform: (patients, 1).

    >>> from adapcla.models.base import NONE
    >>> passage = Passage(np.array([1]), np.array([NONE, 0]), np.zeros(2, dtype=np.int64))
    >>> token, hazard = token_under(passage, torch.zeros(2, 4), np.zeros(2, dtype=np.int64), np.full((2, 1), 0.9))
    >>> token.tolist(), hazard.round(4).tolist()
    ([3, 1], [[0.3333], [0.3333]])
    """
    chance = torch.softmax(logits.double(), dim=1)
    if not bool(torch.isfinite(chance).all()):
        raise AdapclaError("the network gave probabilities that are not finite; load another checkpoint")
    n, codes = len(chance), passage.codes.tolist()
    ends = [*codes[1:], chance.shape[1]]
    # Sums over each code and what stands before the next one, then from each code to the end.
    behind = torch.stack([chance[:, code:end].sum(1) for code, end in zip(codes, ends, strict=True)], dim=1)
    behind = torch.flip(torch.cumsum(torch.flip(behind, [1]), dim=1), [1])
    hazard = (chance[:, codes] / behind.clamp(min=1e-300)).clamp(max=1.0)
    forbidden = torch.from_numpy(passage.must_not_come)
    more, factor = torch.ones(n, dtype=torch.float64), chance
    for k, (code, end) in enumerate(zip(codes, ends, strict=True)):
        more = torch.where(forbidden[:, k], more / (1 - hazard[:, k]).clamp(min=1e-300), more)
        factor[:, code] = torch.where(forbidden[:, k], 0.0, factor[:, code] * more)
        factor[:, code + 1 : end] *= more[:, None]
    steps = torch.cumsum(factor, dim=1).numpy()
    targets = np.flatnonzero((passage.target >= 0) & (lowest <= passage.codes[np.maximum(passage.target, 0)]))
    for row in targets.tolist():
        steps[row, codes[passage.target[row]] :] = 2.0
    token = np.minimum((uniform > steps).sum(axis=1), steps.shape[1] - 1)
    passed = (passage.codes >= lowest[:, None]) & (passage.codes <= token[:, None])
    return token, np.where(passed, hazard.numpy(), 0.0)


_OURS = {
    "prior": True,
    "prior_below": 10_000,
    "damping": 0.3,
    "shrinkage": 50.0,
    "copy_head": True,
    "width": 128,
    "layers": 2,
    "heads": 4,
    "schedule": "none",
    "learning_rate": 1.5e-3,
    "batch_size": 128,
    "calibration_rounds": 4,
    "patience": 6,
}
FAMILY = Family(
    GptArchitecture,
    GPT,
    Traits(scaffold=True, output_bias=True),
    (
        Row(
            "tailwise",
            "Ours: a Transformer over codes with a co-occurrence prior, hierarchical shrinkage and a copy head.",
            "this project",
            _OURS,
            note="toward= shifts logits of codes, which compete: the closed loop (calibrate) reaches a target",
        ),
        Row(
            "gpt",
            "Transformer over a stream of codes with closing tokens; codes of a visit by frequency, none twice.",
            "GPT as in HALO's comparison",
            {"schedule": "none", "learning_rate": 1.5e-3},
            note="toward= shifts logits of codes, which compete: the closed loop (calibrate) reaches a target",
        ),
    ),
    objective=ScaffoldedLikelihood,
)
