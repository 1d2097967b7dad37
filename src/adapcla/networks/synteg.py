"""The SynTEG baseline (Zhang et al., 2021): a visit-state encoder, then an adversarial generator of the next visit.

Stage one: attention among the codes of a visit, recurrent layers over visits, a state that predicts the next visit.
Stage two: a generator makes the next visit from that state and noise, and a critic that knows the state tells real
visits from made ones (Wasserstein distance with a gradient penalty). Whether the record goes on, and after how many
days, is what stage one learned.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adapcla.errors import UsageError
from adapcla.networks.architecture import SyntegArchitecture, ranked
from adapcla.networks.batch import Batch
from adapcla.networks.contract import Drawn, DrawRule, Likelihood, Shape
from adapcla.networks.decoding import decoded, normal
from adapcla.networks.draws import Noise
from adapcla.networks.heads import Bias, IndependentHead, Rows, Visits
from adapcla.networks.layers import CodeTable, RecurrentCache, RecurrentTrunk, VisitEmbedding
from adapcla.networks.recall import Push
from adapcla.networks.visits import RollState, VisitNetwork
from adapcla.records import Prevalence

#: How fast likeness falls with the cosine between two rows when visits are judged.
_SHARPNESS = 3.0


class AttentiveEmbedding(VisitEmbedding):
    """A visit as the mean of its codes after they have seen each other."""

    def __init__(self, shape: Shape, width: int, heads: int, dropout: float) -> None:
        super().__init__(width, shape.context, shape.attributes, shape.with_days)
        self.among = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout, batch_first=True)

    def visits(self, table: Tensor, codes: Tensor, offsets: Tensor, position: Tensor, gap: Tensor) -> Tensor:
        """Visit rows (visits, width); visits of equal size are attended to together."""
        rows = F.embedding(codes, table)
        sizes = torch.diff(offsets, append=torch.tensor([len(codes)]))
        pieces, places = [], []
        for size in torch.unique(sizes).tolist():
            members = (sizes == size).nonzero()[:, 0]
            pieces.append(self.among(rows[offsets[members][:, None] + torch.arange(size)]).sum(1))
            places.append(members)
        seen = torch.zeros(len(offsets), rows.shape[1]).index_copy(0, torch.cat(places), torch.cat(pieces))
        # Bags of the attended rows would be the same sum: the base class adds place and days to it.
        return super().visits(seen, torch.arange(len(offsets)), torch.arange(len(offsets)), position, gap)


class StateTrunk(RecurrentTrunk):
    """Recurrent layers whose last state is narrowed to the condition that the generator is given."""

    def __init__(self, width: int, layers: int, dropout: float, condition: int) -> None:
        super().__init__(width, layers, dropout)
        self.narrow = nn.Linear(width, condition)

    def forward(self, rows: Tensor, batch: Batch) -> Tensor:
        """Conditions (rows, condition)."""
        return torch.tanh(self.narrow(super().forward(rows, batch)))

    def step(self, rows: Tensor, cache: RecurrentCache | None) -> tuple[Tensor, RecurrentCache]:
        """Conditions of one new row a patient, and the cache after it."""
        out, cache = super().step(rows, cache)
        return torch.tanh(self.narrow(out)), cache


class Predictor(nn.Module):
    """Stage one's guess of the next visit; it teaches the encoder and is not sampled from."""

    def __init__(self, inner: IndependentHead) -> None:
        super().__init__()
        self.inner = inner

    def loss(self, states: Tensor, visits: Visits, bias: Bias, positive_weight: float = 1, push: Push = None) -> Tensor:
        """The summed loss of all visits, with gradients."""
        return self.inner.loss(states, visits, bias, positive_weight, push)

    def nll(self, states: Tensor, visits: Visits, bias: Bias = None, push: Push = None) -> Tensor:
        """The negative log-likelihood of each visit under the guess (visits,)."""
        return self.inner.nll(states, visits, bias, push)

    def draw(self, states: Tensor, row_of_patient: Rows, rule: DrawRule, noise: Noise, push: Push = None) -> Drawn:
        """Refused: visits come from the generator."""
        raise UsageError("the predictor of stage one is not sampled from")


class SyntegNetwork(VisitNetwork):
    """The visit network of stage one, with a generator and a critic beside it."""

    def __init__(self, architecture: SyntegArchitecture, shape: Shape, prevalence: Prevalence) -> None:
        width, condition, n_codes = architecture.width, architecture.condition, shape.n_codes
        code_of_rank, initial = ranked(prevalence)
        super().__init__(
            CodeTable(n_codes, width),
            AttentiveEmbedding(shape, width, architecture.heads, architecture.dropout),
            StateTrunk(width, architecture.layers, architecture.dropout, condition),
            Predictor(IndependentHead(CodeTable(n_codes, condition), initial)),
            code_of_rank,
            condition,
        )
        #: What the generator gives are not log-odds of a code given the history, so no shift of them is a prior shift.
        self.steerable = False
        self.settings = architecture
        self.generator = nn.Sequential(
            nn.Linear(architecture.noise + condition, width),
            nn.LayerNorm(width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.LayerNorm(width),
            nn.ReLU(),
            nn.Linear(width, n_codes),
        )
        last = self.generator[-1]
        nn.init.normal_(last.weight, std=0.02)  # type: ignore[arg-type]
        with torch.no_grad():
            last.bias.copy_(initial)  # type: ignore[operator]
        self.critic = nn.Sequential(
            nn.Linear(n_codes + condition, width),
            nn.LeakyReLU(0.2),
            nn.Linear(width, width),
            nn.LeakyReLU(0.2),
            nn.Linear(width, 1),
        )

    # ---- learning ---------------------------------------------------------------------------------------
    def conditions(self, batch: Batch) -> Tensor:
        """The state before each visit (visits, condition)."""
        return self.states(self._ranked(batch))[batch.row_before]

    def real_visits(self, batch: Batch) -> Tensor:
        """The visits as rows of zeros and ones (visits, codes), in rank order."""
        rows = torch.zeros(batch.n_visits, len(self.rank_of_code))
        rows[batch.visit_of_entry, self.rank_of_code[batch.codes]] = 1.0
        return rows

    def made_logits(self, conditions: Tensor, noise: Tensor) -> Tensor:
        """Logits (visits, codes) that the generator gives, in rank order."""
        out: Tensor = self.generator(torch.cat([noise, conditions], dim=1))
        return out

    def judged(self, visits: Tensor, conditions: Tensor) -> Tensor:
        """The critic's opinion of visits (visits,); higher is more real."""
        out: Tensor = self.critic(torch.cat([visits, conditions], dim=1))[:, 0]
        return out

    @torch.no_grad()
    def encoder_nll(self, batch: Batch) -> float:
        """The summed negative log-likelihood of the records under stage one."""
        return float(super().likelihood(batch).record.sum())

    @torch.no_grad()
    def discrepancy(self, batch: Batch) -> float:
        """How far made visits are from real ones, together with the states they follow; 0 for a perfect generator.

        The squared maximum mean discrepancy under a kernel of the overlap of visits times that of states, in
        thousandths, times the number of visits. A likelihood would not do: it is best for a generator that ignores
        its noise and gives every code its prevalence.
        """
        conditions, real = self.conditions(batch), self.real_visits(batch)
        fixed = torch.Generator().manual_seed(0)
        noise = torch.randn(len(real), self.settings.noise, generator=fixed)
        made = torch.bernoulli(torch.sigmoid(self.made_logits(conditions, noise)), generator=fixed)
        states = _kernel(conditions, conditions)
        among_real, among_made = states * _kernel(real, real), states * _kernel(made, made)
        across = states * _kernel(real, made)
        n = max(len(real), 2)
        inside = sum(float((k.sum() - k.diagonal().sum()) / (n * (n - 1))) for k in (among_real, among_made))
        # A made visit and the real one after the same history are a pair too; leaving them out keeps it unbiased.
        between = float((across.sum() - across.diagonal().sum()) / (n * (n - 1)))
        return 1000 * len(real) * (inside - 2 * between)

    def likelihood(self, batch: Batch, bias: Tensor | None = None) -> Likelihood:
        """Refused: an adversarial generator has draws, and no likelihood."""
        raise UsageError("synteg has no likelihood: its generator can be drawn from, not evaluated")

    # ---- rolling out ------------------------------------------------------------------------------------
    @torch.no_grad()
    def draw_visit(self, state: RollState, rule: DrawRule, noise: Noise) -> Drawn:
        """The codes of the next visit."""
        if rule.bias is not None or rule.counts is not None:
            raise UsageError("synteg has no log-odds of codes, so that it can be neither steered nor matched")
        conditions = state.states if state.row_of_patient is None else state.states[state.row_of_patient]
        logits = self.made_logits(conditions, normal(noise, self.settings.noise, channel=6))
        who, ranks = decoded(rule.applied(logits), self.settings.decode, noise)
        codes = self.code_of_rank.numpy()[ranks]
        order = np.lexsort((codes, who))
        return who[order], codes[order]

    def _ranked(self, batch: Batch) -> Batch:
        """The batch in rank order, the codes of each visit ascending."""
        return replace(batch, codes=self.rank_of_code[batch.codes])


def _kernel(one: Tensor, two: Tensor) -> Tensor:
    """Likeness of rows: an exponential of their cosine, so that sets of codes count and not only single ones."""
    return torch.exp(_SHARPNESS * (F.normalize(one, dim=1) @ F.normalize(two, dim=1).t()))
