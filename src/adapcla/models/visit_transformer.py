"""The visit network: a Transformer (or an LSTM) over visits and a head for the codes of the next one.

AdaPCLA and its ablations, the LSTM and HALO are rows of it, with different trunks and heads. The paper's head is
independent: z = W·H + b, one Bernoulli for each code. HALO's head is in `models/halo.py`.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from adapcla.data import Prevalence
from adapcla.data.vocabulary import DEATH
from adapcla.models.base import (
    Architecture,
    Drawn,
    DrawRule,
    Entered,
    Family,
    Head,
    Likelihood,
    Network,
    Row,
    ScaffoldedLikelihood,
    Shape,
    Traits,
    Visit,
)
from adapcla.models.batch import Batch
from adapcla.models.choice_groups import Groups
from adapcla.models.code_order import frequency_order
from adapcla.models.draws import Noise, bernoulli
from adapcla.models.halo import HaloHead
from adapcla.models.independent_head import IndependentHead
from adapcla.models.layers import (
    N_BUCKETS,
    CausalTrunk,
    CodeTable,
    RecurrentTrunk,
    VisitEmbedding,
    drawn_gap,
    gap_nll,
)


class RollState(NamedTuple):
    """Where patients stand: their states, which row of them each patient uses, the cache and their place."""

    states: Tensor
    row_of_patient: Tensor | None
    cache: Any
    n_seen: int


class VisitNetwork(Network):
    """A causal trunk over visits with a head for the next visit's codes."""

    def __init__(
        self,
        table: CodeTable,
        embedding: VisitEmbedding,
        trunk: nn.Module,
        head: Head,
        code_at: Tensor,
        width: int,
    ) -> None:
        super().__init__()
        self.table, self.embedding, self.trunk = table, embedding, trunk
        self.head = head
        self.going_on = nn.Linear(width, 1)
        self.gap_head = nn.Linear(width, N_BUCKETS) if embedding.gap is not None else None
        self.keep_order(code_at)

    def states(self, batch: Batch) -> Tensor:
        """States (starts + visits, width)."""
        visits = self.embedding.visits(self.table(), batch.codes, batch.offsets, batch.position, batch.gap)
        rows = torch.cat([self.embedding.starts(batch.start_attributes), visits])
        out: Tensor = self.trunk(rows, batch)
        return out

    def loss(self, batch: Batch, bias: Tensor | None, positive_weight: float = 1.0) -> Tensor:
        """The summed loss: codes of real visits, continuing, and day gaps where the cohort has them."""
        states = self.states(batch)
        total = self.head.loss(states, batch, bias, positive_weight)
        total = total + self._going_on_nll(states, batch).sum()
        if self.gap_head is not None:
            total = total + self._gap_nll(states, batch).sum()
        return total

    def going_on_logits(self, batch: Batch) -> Tensor:
        """(visits,) log-odds that the record goes on after each visit."""
        logits: Tensor = self.going_on(self.states(batch)[batch.n_starts :])[:, 0]
        return logits

    def _going_on_nll(self, states: Tensor, batch: Batch) -> Tensor:
        """(visits,) of whether the record goes on after each visit; 0 after death, which leaves no question."""
        logits = self.going_on(states[batch.n_starts :])[:, 0]
        nll = F.binary_cross_entropy_with_logits(logits, batch.continues, reduction="none")
        return nll if self.last_position is None else nll * batch.lacks(self.last_position)

    def _gap_nll(self, states: Tensor, batch: Batch) -> Tensor:
        """(visits,) of the days before each visit, 0 for first visits."""
        assert self.gap_head is not None
        later = (batch.position > 0).nonzero()[:, 0]
        return gap_nll(self.gap_head(states[batch.row_before[later]]), batch)

    @torch.no_grad()
    def likelihood(self, batch: Batch, bias: Tensor | None = None) -> Likelihood:
        """How probable the records are."""
        states = self.states(batch)
        codes = self.head.nll(states, batch, bias)
        rest = self._going_on_nll(states, batch).double()
        if self.gap_head is not None:
            rest = rest + self._gap_nll(states, batch)
        record = torch.zeros(batch.n_patients, dtype=torch.float64)
        record.index_add_(0, batch.patient_of_visit, codes + rest)
        return Likelihood(codes, record)

    @torch.no_grad()
    def next_chances(self, batch: Batch, bias: Tensor | None = None) -> Tensor | None:
        """Chances (patients, codes) of the visit after each patient's last one, or None."""
        logits = self.next_logits(batch)
        if logits is None:
            return None
        logits = (logits if bias is None else logits + bias).double()
        groups = self.head.groups  # type: ignore[attr-defined]
        chances: Tensor = torch.sigmoid(logits) if groups is None else groups.chances(logits)
        return chances

    def next_logits(self, batch: Batch) -> Tensor | None:
        """Logits (patients, codes) of the visit after each patient's last one, with gradients.

        None where the head draws codes that know of each other, so that it has no single logit for each.
        """
        if not isinstance(self.head, IndependentHead):
            return None
        last = batch.n_starts + (batch.continues == 0).nonzero()[:, 0]
        return self.head.logits(self.states(batch)[last])

    # ---- sampling ---------------------------------------------------------------------------------------
    @torch.no_grad()
    def begin(self, attributes: Tensor, noise: Noise) -> RollState:
        """The state of patients (n, attributes) before their first visit; equal patients share a row."""
        distinct, row_of_patient = np.unique(attributes.numpy(), axis=0, return_inverse=True)
        states, cache = self.trunk.step(self.embedding.starts(torch.from_numpy(distinct)), None)  # type: ignore[operator]
        return RollState(states, torch.from_numpy(row_of_patient.ravel()), cache, 0)

    @torch.no_grad()
    def enter(self, state: RollState, noise: Noise, certain: bool) -> Entered:
        """Who goes on, and the days until then: a bucket, then a day in it."""
        rows = np.arange(len(noise.patients))
        if not certain:
            logits = self.going_on(state.states)[:, 0]
            logits = logits if state.row_of_patient is None else logits[state.row_of_patient]
            rows = np.flatnonzero(bernoulli(logits, noise, channel=0))
            state, noise = self.select(state, rows), noise.keep(rows)
        if self.gap_head is None or state.n_seen == 0 or not len(rows):
            return Entered(rows, np.zeros(len(rows), dtype=np.int64), state)
        return Entered(rows, drawn_gap(self.gap_head(state.states), noise), state)

    @torch.no_grad()
    def draw_visit(self, state: RollState, rule: DrawRule, noise: Noise) -> Visit:
        """The codes of the next visit."""
        return self.head.draw(state.states, state.row_of_patient, rule, noise)

    @torch.no_grad()
    def absorb(self, state: RollState, drawn: Drawn, gap: NDArray[np.int64]) -> RollState:
        """The state after that visit; every patient must have drawn a code."""
        who, codes = drawn
        n = len(gap)
        cache = state.cache
        if state.row_of_patient is not None:
            cache = cache.keep(state.row_of_patient)
        offsets = torch.from_numpy(np.searchsorted(who, np.arange(n)))
        place = torch.full((n,), state.n_seen, dtype=torch.int64)
        rows = self.embedding.visits(self.table(), torch.from_numpy(codes), offsets, place, torch.from_numpy(gap))
        states, cache = self.trunk.step(rows, cache)  # type: ignore[operator]
        return RollState(states, None, cache, state.n_seen + 1)

    def select(self, state: RollState, rows: NDArray[np.int64]) -> RollState:
        """The state of some of the patients."""
        index = torch.from_numpy(rows)
        if state.row_of_patient is not None:
            return state._replace(row_of_patient=state.row_of_patient[index])
        return state._replace(states=state.states[index], cache=state.cache.keep(index))


class VisitArchitecture(Architecture):
    """The visit network: a trunk over visits and a head for the codes of the next one."""

    family: Literal["visits"] = "visits"
    trunk: Literal["transformer", "lstm"] = "transformer"
    head: Literal["independent", "halo"] = "independent"
    layers: int = Field(4, ge=1)
    heads: int = Field(8, ge=1)

    @property
    def depth(self) -> int:
        """Layers of the trunk."""
        return self.layers

    @property
    def attention_heads(self) -> int:
        """Heads of the trunk's attention."""
        return self.heads if self.trunk == "transformer" else 1

    @property
    def one_shot(self) -> bool:
        """Only independent codes have one logit each."""
        return self.head == "independent"

    @property
    def chooses(self) -> bool:
        """HALO's head draws code by code."""
        return self.head != "halo"

    def multiplications(self, n_codes: int, codes_per_visit: float) -> float:
        """Roughly, the multiplications and additions that one visit takes in one direction."""
        within_visit = 4.0 if self.head == "halo" else 1.0
        return 2.0 * (12 * self.layers * self.width**2 + within_visit * n_codes * self.width)


def visit_network(architecture: VisitArchitecture, shape: Shape, prevalence: Prevalence) -> VisitNetwork:
    """The network of these settings, its output bias at the log-odds of the training prevalence.

    Weights come from torch's global stream: seed it first.
    """
    code_at, initial = frequency_order(prevalence)
    groups = Groups.of(prevalence.vocabulary.group_of_code[code_at.numpy()])
    width = architecture.width
    table = CodeTable(shape.n_codes, width)
    embedding = VisitEmbedding(width, architecture.context, shape.attributes, shape.with_days)
    if architecture.trunk == "lstm":
        trunk: nn.Module = RecurrentTrunk(width, architecture.layers, architecture.dropout)
    else:
        trunk = CausalTrunk(width, architecture.layers, architecture.heads, architecture.dropout)
    if architecture.head == "independent":
        head: Head = IndependentHead(CodeTable(shape.n_codes, width), initial, groups)
    else:
        head = HaloHead(shape.n_codes, width, initial)
    network = VisitNetwork(table, embedding, trunk, head, code_at, width)
    network.last_code = prevalence.vocabulary.index.get(DEATH.token)
    return network


_PAPER = "AdaPCLA (Cui et al.)"
_HALO = "HALO (Theodorou, Xiao and Sun, 2023)"
_PAPER_SIZE = {"width": 768, "layers": 12, "heads": 12, "context": 48, "learning_rate": 1e-4, "batch_size": 48}
#: What the release and the rows of its parts share.
_RELEASE = {"head": "halo", "last_weights": True}
_TWICE = "twice the passes: a full budget for each stage, whose last weights are kept; nothing is chosen by validation"
_OURS_AND_ABLATIONS = (
    Row("adapcla", "The paper's method: independent head, annealed scaffold (base), no bias when sampling.", _PAPER),
    Row(
        "adapcla-paper-size",
        "The same at the paper's size: width 768, 12 layers, 12 heads, 48 rows.",
        _PAPER,
        _PAPER_SIZE,
        usual=False,
    ),
    Row(
        "static-pcla",
        "The scaffold stays throughout training and is kept when sampling (consistent).",
        _PAPER,
        {"schedule": "constant", "bias_at_inference": True},
    ),
    Row(
        "static-pcla-train-only",
        "The same weights as static-pcla, sampled without the scaffold: a negative control, expected to lose the tail.",
        _PAPER,
        {"schedule": "constant", "bias_at_validation": True},
        note="its weights are chosen as static-pcla's are, so its validation loss is with the scaffold",
    ),
    Row(
        "adapcla-no-scaffold",
        "The same network, passes and seed with no scaffold at all: the control of what the scaffold does.",
        _PAPER,
        {"schedule": "none"},
    ),
    Row(
        "adapcla-reversed",
        "The scaffold with its sign turned round: a control on what the sign does.",
        _PAPER,
        {"tempering": -1.0},
    ),
    Row(
        "adapcla-halo",
        "The paper's ablation, whose backbone is HALO: HALO's head, annealed scaffold (base), no bias when sampling.",
        _PAPER,
        {"head": "halo"},
    ),
    Row(
        "adapcla-release",
        "As the public release ran: HALO's head, scaffold times 0.2, present codes weigh 1.5, from a static model.",
        _PAPER,
        {**_RELEASE, "positive_weight": 1.5, "tempering": 0.2, "first_stage": "static"},
        starts_from="a static-pcla with the same settings, which this row trains first",
        note=_TWICE,
    ),
    Row(
        "release-stages",
        "A part of adapcla-release: its two stages and last weights, without scaffold and without extra weight.",
        _PAPER,
        {**_RELEASE, "schedule": "none", "first_stage": "plain"},
        starts_from="a halo with the same settings, which this row trains first",
        usual=False,
        note=_TWICE,
    ),
    Row(
        "release-weight",
        "The next part of adapcla-release: two stages in which present codes weigh 1.5, without scaffold.",
        _PAPER,
        {**_RELEASE, "positive_weight": 1.5, "schedule": "none", "first_stage": "plain"},
        starts_from="a halo with the same settings, which this row trains first",
        usual=False,
        note=_TWICE,
    ),
)
_BASELINES = (
    Row(
        "halo",
        "Visit Transformer with the within-visit autoregressive head; exact ancestral sampling.",
        _HALO,
        {"head": "halo", "schedule": "none"},
        note="the paper's factorisation at this project's default width; halo-paper-size has the paper's",
    ),
    Row(
        "halo-paper-size",
        "HALO at its paper's size and recipe: width 768, 12 layers, 12 heads, rate 1e-4, batches of 48, 50 passes.",
        _HALO,
        {"head": "halo", "schedule": "none", "passes": 50, **_PAPER_SIZE},
        usual=False,
    ),
    Row(
        "lstm",
        "Recurrent next-visit multi-label network with independent outputs.",
        "Doctor AI (Choi et al., 2016)",
        {"trunk": "lstm", "schedule": "none", "layers": 2},
    ),
)
FAMILY = Family(
    VisitArchitecture,
    visit_network,
    Traits(scaffold=True, positive_weight=True),
    (*_OURS_AND_ABLATIONS, *_BASELINES),
    objective=ScaffoldedLikelihood,
)
