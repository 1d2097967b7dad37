"""The EVA baseline (Biswal et al., 2021): a variational autoencoder of whole records.

A bidirectional LSTM reads the visits of a record into a few numbers; a deconvolution unfolds them into steps, dilated
causal convolutions relate the steps, and each step gives independent code probabilities, the chance that the record
goes on and the days before the visit. A new patient is a draw from the prior: nothing drawn at one visit changes the
next, the latent alone holds a record together.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from adapcla.data import Prevalence
from adapcla.models.base import (
    Architecture,
    Drawn,
    DrawRule,
    Entered,
    Family,
    Likelihood,
    Moment,
    Network,
    Objective,
    Row,
    Shape,
    Traits,
    Visit,
)
from adapcla.models.batch import Batch
from adapcla.models.draws import Noise, bernoulli, normal
from adapcla.models.independent_head import IndependentHead
from adapcla.models.layers import N_BUCKETS, CodeTable, VisitEmbedding, drawn_gap, gap_nll
from adapcla.scaffold import Scaffold

#: Each deconvolution doubles the number of steps.
_DOUBLINGS = 3


class EvaArchitecture(Architecture):
    """A variational autoencoder of whole records."""

    family: Literal["eva"] = "eva"
    latent: int = Field(32, ge=2, description="Numbers that a record is squeezed into.")
    layers: int = Field(3, ge=1, description="Dilated causal convolutions of the decoder.")
    first_divergence: float = Field(0.1, ge=0, le=1, description="Weight of the divergence at the first step.")
    annealed: float = Field(0.5, gt=0, le=1, description="Progress at which that weight has reached 1.")

    @property
    def depth(self) -> int:
        """Convolutions of the decoder."""
        return self.layers


class EvaState(NamedTuple):
    """All steps of each patient, decoded at once, and how many were given out."""

    steps: Tensor  # (patients, steps, width)
    n_seen: int


class Own(NamedTuple):
    """Visits that each have a state row of their own, as heads want them."""

    row_before: Tensor
    visit_of_entry: Tensor
    codes: Tensor


class CausalConvolution(nn.Module):
    """A dilated convolution that sees a step and those before it, with a way around it."""

    def __init__(self, width: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.reach = 2 * dilation
        self.weigh = nn.Conv1d(width, width, kernel_size=3, dilation=dilation)
        self.dropout = nn.Dropout(dropout)

    def forward(self, steps: Tensor) -> Tensor:
        """New steps (patients, width, steps)."""
        out: Tensor = steps + self.dropout(F.gelu(self.weigh(F.pad(steps, (self.reach, 0)))))
        return out


class EvaNetwork(Network):
    """Encoder, latent and decoder; the likelihoods it gives are bounds."""

    def __init__(self, architecture: EvaArchitecture, shape: Shape, prevalence: Prevalence) -> None:
        super().__init__()
        width, self.latent = architecture.width, architecture.latent
        self.context = architecture.context
        self.first_divergence, self.annealed = architecture.first_divergence, architecture.annealed
        self.table = CodeTable(shape.n_codes, width)
        self.embedding = VisitEmbedding(width, architecture.context, shape.attributes, shape.with_days)
        self.reader = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.to_latent = nn.Linear(3 * width, 2 * self.latent)
        self.seeds = math.ceil(architecture.context / (1 << _DOUBLINGS))
        self.lift = nn.Linear(self.latent + width, width * self.seeds)
        self.unfold = nn.ModuleList(nn.ConvTranspose1d(width, width, 4, stride=2, padding=1) for _ in range(_DOUBLINGS))
        self.relate = nn.ModuleList(
            CausalConvolution(width, 1 << layer, architecture.dropout) for layer in range(architecture.layers)
        )
        self.norm = nn.LayerNorm(width)
        self.keep_order(torch.arange(shape.n_codes), saved=False)
        initial = torch.from_numpy(Scaffold(prevalence).initial_logits).float()
        self.head = IndependentHead(CodeTable(shape.n_codes, width), initial)
        self.going_on = nn.Linear(width, 1)
        self.gap_head = nn.Linear(width, N_BUCKETS) if shape.with_days else None

    # ---- learning ---------------------------------------------------------------------------------------
    def encode(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of each patient's latent, both (patients, latent)."""
        visits = self.embedding.visits(self.table(), batch.codes, batch.offsets, batch.position, batch.gap)
        first_visit = (batch.position == 0).nonzero()[:, 0]
        read = torch.zeros(batch.n_patients, 2 * visits.shape[1])
        for group in batch.groups:
            rows = group.rows[:, 1:] - batch.n_starts
            patients = torch.searchsorted(first_visit, rows[:, 0].contiguous())
            _, (hidden, _) = self.reader(visits[rows])
            read = read.index_copy(0, patients, torch.cat([hidden[0], hidden[1]], dim=1))
        known = self.embedding.starts(batch.start_attributes)[batch.start_of_patient]
        mean, log_variance = self.to_latent(torch.cat([read, known], dim=1)).chunk(2, dim=1)
        return mean, log_variance.clamp(-10, 10)

    def steps(self, latent: Tensor, known: Tensor, n_steps: int) -> Tensor:
        """The first steps (patients, steps, width) that a latent unfolds to."""
        lifted = self.lift(torch.cat([latent, known], dim=1)).view(len(latent), -1, self.seeds)
        lifted = lifted[:, :, : math.ceil(n_steps / (1 << _DOUBLINGS)) + 2]  # two more: the edge reaches no further
        for layer in self.unfold:
            lifted = F.gelu(layer(lifted))
        lifted = lifted[:, :, :n_steps]
        for layer in self.relate:
            lifted = layer(lifted)
        out: Tensor = self.norm(lifted.transpose(1, 2))
        return out

    def _parts(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The state of each visit (visits, width), and the divergence of each patient's latent from the prior."""
        mean, log_variance = self.encode(batch)
        fixed = None if self.training else torch.Generator().manual_seed(0)
        latent = mean + torch.exp(0.5 * log_variance) * torch.randn(mean.shape, generator=fixed)
        known = self.embedding.starts(batch.start_attributes)[batch.start_of_patient]
        steps = self.steps(latent, known, int(batch.position.max()) + 1)
        divergence = 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum(1)
        return steps[batch.patient_of_visit, batch.position], divergence

    def _rest(self, states: Tensor, batch: Batch) -> Tensor:
        """(visits,) of going on, and of the days before each visit."""
        logits = self.going_on(states)[:, 0]
        nll = F.binary_cross_entropy_with_logits(logits, batch.continues, reduction="none")
        if self.gap_head is not None:
            nll = nll + gap_nll(self.gap_head(states[batch.position > 0]), batch)
        return nll

    def weighted_loss(self, batch: Batch, divergence_weight: float) -> Tensor:
        """The summed reconstruction loss plus the weighted divergence."""
        states, divergence = self._parts(batch)
        visits = Own(torch.arange(batch.n_visits), batch.visit_of_entry, batch.codes)
        return (
            self.head.loss(states, visits, None)
            + self._rest(states, batch).sum()
            + divergence_weight * divergence.sum()
        )

    def loss(self, batch: Batch, bias: Tensor | None, positive_weight: float = 1.0) -> Tensor:
        """The summed negative evidence bound."""
        return self.weighted_loss(batch, 1.0)

    @torch.no_grad()
    def likelihood(self, batch: Batch, bias: Tensor | None = None) -> Likelihood:
        """An upper bound of the negative log-likelihood; a record's divergence is spread evenly over its visits."""
        states, divergence = self._parts(batch)
        visits = Own(torch.arange(batch.n_visits), batch.visit_of_entry, batch.codes)
        lengths = torch.bincount(batch.patient_of_visit, minlength=batch.n_patients)
        share = (divergence / lengths).double()[batch.patient_of_visit]
        codes = self.head.nll(states, visits, bias) + share
        record = torch.zeros(batch.n_patients, dtype=torch.float64)
        return Likelihood(codes, record.index_add_(0, batch.patient_of_visit, codes + self._rest(states, batch)))

    # ---- sampling ---------------------------------------------------------------------------------------
    @torch.no_grad()
    def begin(self, attributes: Tensor, noise: Noise) -> EvaState:
        """Whole records of patients (n, attributes), decoded from draws of the prior."""
        latent = normal(noise, self.latent, channel=5)
        return EvaState(self.steps(latent, self.embedding.starts(attributes), self.context), 0)

    @torch.no_grad()
    def enter(self, state: EvaState, noise: Noise, certain: bool) -> Entered:
        """Who goes on, and the days until then."""
        rows = np.arange(len(noise.patients))
        if not certain:
            rows = np.flatnonzero(bernoulli(self.going_on(state.steps[:, state.n_seen - 1])[:, 0], noise, channel=0))
            state, noise = self.select(state, rows), noise.keep(rows)
        if self.gap_head is None or state.n_seen == 0 or not len(rows):
            return Entered(rows, np.zeros(len(rows), dtype=np.int64), state)
        return Entered(rows, drawn_gap(self.gap_head(state.steps[:, state.n_seen]), noise), state)

    @torch.no_grad()
    def draw_visit(self, state: EvaState, rule: DrawRule, noise: Noise) -> Visit:
        """The codes of the next step."""
        return self.head.draw(state.steps[:, state.n_seen], None, rule, noise)

    def absorb(self, state: EvaState, drawn: Drawn, gap: NDArray[np.int64]) -> EvaState:
        """The next step; what was drawn changes nothing."""
        return EvaState(state.steps, state.n_seen + 1)

    def select(self, state: EvaState, rows: NDArray[np.int64]) -> EvaState:
        """The state of some of the patients."""
        return EvaState(state.steps[torch.from_numpy(rows)], state.n_seen)


class EvidenceBound(Objective):
    """The evidence bound; the divergence counts little at first and fully later."""

    def __init__(self, network: EvaNetwork) -> None:
        super().__init__(network)
        self.network = network

    def weight(self, moment: Moment) -> float:
        """The weight of the divergence at this moment."""
        first, share = self.network.first_divergence, min(1.0, moment.progress / self.network.annealed)
        return first + (1.0 - first) * share

    def is_final(self, moment: Moment) -> bool:
        """Whether the divergence counts fully."""
        return self.weight(moment) >= 1.0

    def loss(self, batch: Batch, moment: Moment) -> Tensor:
        """The summed loss with the divergence at its present weight."""
        return self.network.weighted_loss(batch, self.weight(moment))

    @torch.no_grad()
    def validation(self, batch: Batch) -> tuple[float, int]:
        """The summed negative evidence bound, divergence at full weight."""
        return float(self.network.likelihood(batch).record.sum()), batch.n_visits


FAMILY = Family(
    EvaArchitecture,
    EvaNetwork,
    Traits(continues=False),
    (
        Row(
            "eva",
            "Variational autoencoder of whole records: recurrent encoder, convolutional decoder, independent codes.",
            "EVA (Biswal et al., 2021)",
            {"schedule": "none"},
            note="its likelihood is a bound",
        ),
    ),
    objective=lambda network, _: EvidenceBound(network),
)
