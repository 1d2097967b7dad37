"""The SynTEG baseline (Zhang et al., 2021): a visit-state encoder, then an adversarial generator of the next visit.

Stage one: attention among the codes of a visit, recurrent layers over visits, a state that predicts the next visit.
Stage two: a generator makes the next visit from that state and noise, and a critic that knows the state tells real
visits from made ones (Wasserstein distance with a gradient penalty). Whether the record goes on, and after how many
days, is what stage one learned.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from adapcla.console import say
from adapcla.data import Prevalence
from adapcla.errors import UsageError
from adapcla.models.base import (
    Architecture,
    Bias,
    DrawRule,
    Family,
    Likelihood,
    Moment,
    NamedParameters,
    Objective,
    Row,
    Rows,
    Shape,
    Traits,
    Visit,
    Visits,
)
from adapcla.models.batch import Batch
from adapcla.models.code_order import frequency_order
from adapcla.models.draws import Noise, normal
from adapcla.models.independent_head import IndependentHead, independent_codes
from adapcla.models.layers import CodeTable, RecurrentCache, RecurrentTrunk, VisitEmbedding
from adapcla.models.visit_transformer import RollState, VisitNetwork

#: Made visits that differ among themselves less than this share of what real ones do are one visit.
_LEAST_SPREAD = 0.02
#: Made visits with this many times fewer or more codes than real ones are no visits.
_SIZE_FACTOR = 10.0
#: Turns of the generator in a row before the alarm.
_PATIENCE = 50
#: Share of the adversarial steps in which the critic learns alone.
_ALONE = 0.15
#: How fast likeness falls with the cosine between two rows when visits are judged.
_SHARPNESS = 3.0


class SyntegArchitecture(Architecture):
    """A visit-state encoder, and a conditional adversarial generator of the next visit."""

    family: Literal["synteg"] = "synteg"
    layers: int = Field(3, ge=1, description="Recurrent layers over visits.")
    heads: int = Field(4, ge=1, description="Heads of the attention among the codes of a visit.")
    condition: int = Field(256, ge=4, description="Width of the state that the generator is given.")
    noise: int = Field(128, ge=2, description="Random numbers that a generated visit is made from.")
    encoder_share: float = Field(0.4, gt=0, lt=1, description="Share of the steps that train the encoder.")
    critic_steps: int = Field(5, ge=1, description="Steps of the critic for each of the generator.")
    penalty: float = Field(10.0, gt=0, description="Weight of the gradient penalty.")

    @property
    def depth(self) -> int:
        """Recurrent layers."""
        return self.layers

    @property
    def attention_heads(self) -> int:
        """Heads of the attention."""
        return self.heads


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
        """Conditions of one new row per patient, and the cache after it."""
        out, cache = super().step(rows, cache)
        return torch.tanh(self.narrow(out)), cache


class Predictor(nn.Module):
    """Stage one's guess of the next visit; it teaches the encoder and is not sampled from."""

    def __init__(self, inner: IndependentHead) -> None:
        super().__init__()
        self.inner = inner

    @property
    def bias(self) -> Tensor:
        """The log-odds that the guess begins with."""
        return self.inner.bias

    def loss(self, states: Tensor, visits: Visits, bias: Bias, positive_weight: float = 1) -> Tensor:
        """The summed loss of all visits, with gradients."""
        return self.inner.loss(states, visits, bias, positive_weight)

    def nll(self, states: Tensor, visits: Visits, bias: Bias = None) -> Tensor:
        """The negative log-likelihood of each visit under the guess (visits,)."""
        return self.inner.nll(states, visits, bias)

    def draw(self, states: Tensor, row_of_patient: Rows, rule: DrawRule, noise: Noise) -> Visit:
        """Refused: visits come from the generator."""
        raise UsageError("the predictor of stage one is not sampled from")


class SyntegNetwork(VisitNetwork):
    """The visit network of stage one, with a generator and a critic beside it."""

    def __init__(self, architecture: SyntegArchitecture, shape: Shape, prevalence: Prevalence) -> None:
        width, condition, n_codes = architecture.width, architecture.condition, shape.n_codes
        code_at, initial = frequency_order(prevalence)
        super().__init__(
            CodeTable(n_codes, width),
            AttentiveEmbedding(shape, width, architecture.heads, architecture.dropout),
            StateTrunk(width, architecture.layers, architecture.dropout, condition),
            Predictor(IndependentHead(CodeTable(n_codes, condition), initial)),
            code_at,
            condition,
        )
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
        return self.states(batch)[batch.row_before]

    def real_visits(self, batch: Batch) -> Tensor:
        """The visits as rows of zeros and ones (visits, codes)."""
        rows = torch.zeros(batch.n_visits, len(self.code_of_rank))
        rows[batch.visit_of_entry, batch.codes] = 1.0
        return rows

    def written_logits(self, conditions: Tensor, noise: Tensor) -> Tensor:
        """Logits (visits, codes) that the generator gives."""
        out: Tensor = self.generator(torch.cat([noise, conditions], dim=1))
        return out

    def critic_scores(self, visits: Tensor, conditions: Tensor) -> Tensor:
        """The critic's opinion of visits (visits,); higher is more real."""
        out: Tensor = self.critic(torch.cat([visits, conditions], dim=1))[:, 0]
        return out

    @torch.no_grad()
    def encoder_nll(self, batch: Batch) -> float:
        """The summed negative log-likelihood of the records under stage one."""
        return float(super().likelihood(batch).record.sum())

    @torch.no_grad()
    def discrepancy(self, batch: Batch) -> float:
        """How far written visits are from real ones, together with the states they follow; 0 for a perfect generator.

        The squared maximum mean discrepancy under a kernel of the overlap of visits times that of states, in
        thousandths, times the number of visits. A likelihood would not do: it is best for a generator that ignores
        its noise and gives every code its prevalence.
        """
        conditions, real = self.conditions(batch), self.real_visits(batch)
        fixed = torch.Generator().manual_seed(0)
        noise = torch.randn(len(real), self.settings.noise, generator=fixed)
        written = torch.bernoulli(torch.sigmoid(self.written_logits(conditions, noise)), generator=fixed)
        states = _kernel(conditions, conditions)
        among_real, among_written = states * _kernel(real, real), states * _kernel(written, written)
        across = states * _kernel(real, written)
        n = max(len(real), 2)
        inside = sum(float((k.sum() - k.diagonal().sum()) / (n * (n - 1))) for k in (among_real, among_written))
        # A written visit and the real one after the same history are a pair too; leaving them out keeps it unbiased.
        between = float((across.sum() - across.diagonal().sum()) / (n * (n - 1)))
        return 1000 * len(real) * (inside - 2 * between)

    def likelihood(self, batch: Batch, bias: Tensor | None = None) -> Likelihood:
        """Refused: an adversarial generator has draws, and no likelihood."""
        raise UsageError("synteg has no likelihood: its generator can be drawn from, not evaluated")

    # ---- sampling ---------------------------------------------------------------------------------------
    @torch.no_grad()
    def draw_visit(self, state: RollState, rule: DrawRule, noise: Noise) -> Visit:
        """The codes of the next visit."""
        if rule.bias is not None or rule.counts is not None:
            raise UsageError("synteg has no log-odds of codes, so that it can be neither steered nor matched")
        conditions = state.states if state.row_of_patient is None else state.states[state.row_of_patient]
        logits = self.written_logits(conditions, normal(noise, self.settings.noise, channel=6))
        return independent_codes(rule.apply(logits), None, rule, noise)


def _kernel(one: Tensor, two: Tensor) -> Tensor:
    """Likeness of rows: an exponential of their cosine, so that sets of codes count and not only single ones."""
    return torch.exp(_SHARPNESS * (F.normalize(one, dim=1) @ F.normalize(two, dim=1).t()))


class Adversarial(Objective):
    """SynTEG's two stages; whose turn it is follows from the step alone, so that a resumed run does the same."""

    #: The critic and the generator chase each other: a long memory of gradients would make them overshoot.
    betas: ClassVar = {"critic": (0.5, 0.9), "generator": (0.5, 0.9)}
    #: A generator that moves slowly can be followed by its critic in few steps.
    rates: ClassVar = {"critic": 2.0, "generator": 0.7}

    def __init__(self, network: SyntegNetwork) -> None:
        super().__init__(network)
        self.network = network
        self.stage = "encoder"
        self._notes: dict[str, float] = {}
        self._bad_turns = 0

    def turns(self) -> dict[str, NamedParameters]:
        """Three optimisers: the encoder's, the critic's and the generator's."""
        parts: dict[str, list[tuple[str, nn.Parameter]]] = {"encoder": [], "critic": [], "generator": []}
        for name, parameter in self.modules.named_parameters():
            first = name.split(".")[0]
            parts[first if first in ("critic", "generator") else "encoder"].append((name, parameter))
        return dict(parts)

    def _first_adversarial(self, moment: Moment) -> int:
        return max(1, round(self.network.settings.encoder_share * moment.n_steps))

    def turn(self, moment: Moment) -> str:
        """The encoder's for its share of the steps, then some of the critic's for each of the generator's."""
        first = self._first_adversarial(moment)
        after = moment.step - first
        if after < 0:
            return "encoder"
        # A generator that listens to a critic who knows nothing yet walks away from where it began.
        if after < _ALONE * (moment.n_steps - first):
            return "critic"
        cycle = self.network.settings.critic_steps + 1
        return "critic" if after % cycle < cycle - 1 else "generator"

    def weight(self, moment: Moment) -> float:
        """0 while the encoder learns, 1 in the adversarial stage."""
        return float(self.turn(moment) != "encoder")

    def is_final(self, moment: Moment) -> bool:
        """Only the adversarial stage makes candidates."""
        return self.turn(moment) != "encoder"

    def loss(self, batch: Batch, moment: Moment) -> Tensor:
        """The summed loss of whoever's turn it is."""
        turn = self.turn(moment)
        self.stage = "encoder" if turn == "encoder" else "adversarial"
        if turn == "encoder":
            loss = self.network.loss(batch, None)
        else:
            loss = self._critic(batch) if turn == "critic" else self._generator(batch)
        self._notes[f"{turn} loss"] = float(loss.detach()) / batch.n_visits
        return loss

    def _conditions(self, batch: Batch) -> Tensor:
        """States from the encoder as it is used later: no dropout, no gradient."""
        self.modules.eval()
        with torch.no_grad():
            conditions = self.network.conditions(batch)
        self.modules.train()
        return conditions

    def _generate(self, conditions: Tensor) -> Tensor:
        """Drawn visits of zeros and ones, whose gradient is that of their chances.

        The critic so sees what is sampled later; soft visits would be told from real ones by their softness alone.
        """
        noise = torch.randn(len(conditions), self.network.settings.noise)
        chance = torch.sigmoid(self.network.written_logits(conditions, noise))
        return torch.bernoulli(chance.detach()) + chance - chance.detach()

    def _critic(self, batch: Batch) -> Tensor:
        conditions, real = self._conditions(batch), self.network.real_visits(batch)
        with torch.no_grad():
            written = self._generate(conditions)
        share = torch.rand(len(real), 1)
        between = (share * real + (1 - share) * written).requires_grad_()
        slope = torch.autograd.grad(self.network.critic_scores(between, conditions).sum(), between, create_graph=True)[
            0
        ]
        penalty = ((slope.norm(dim=1) - 1) ** 2).sum()
        distance = (
            self.network.critic_scores(real, conditions) - self.network.critic_scores(written, conditions)
        ).sum()
        self._notes["distance"] = float(distance.detach()) / len(real)
        return self.network.settings.penalty * penalty - distance

    def _generator(self, batch: Batch) -> Tensor:
        conditions = self._conditions(batch)
        written = self._generate(conditions)
        self._watch(written.detach(), self.network.real_visits(batch))
        return -self.network.critic_scores(written, conditions).sum()

    def _watch(self, written: Tensor, real: Tensor) -> None:
        """Notice when written visits have become all alike, or empty, or full; the chosen weights are from before."""
        spread, size = _spread(written) / max(_spread(real), 1e-9), float(written.sum() / real.sum())
        bad = spread < _LEAST_SPREAD or not 1 / _SIZE_FACTOR < size < _SIZE_FACTOR
        self._bad_turns = self._bad_turns + 1 if bad else 0
        self._notes |= {"spread": spread, "size": size, "collapsed": float(self._bad_turns >= _PATIENCE)}
        if self._bad_turns == _PATIENCE:
            say(
                f"warning: the generator has collapsed (visits differ {spread:.1%} as much as real ones, and have "
                f"{size:.2f} times their codes); weights from before are kept by validation"
            )

    def notes(self) -> dict[str, float]:
        """The latest losses of each part and what the watch saw, for the journal."""
        return {name: round(value, 6) for name, value in self._notes.items()}

    @torch.no_grad()
    def validation(self, batch: Batch) -> tuple[float, int]:
        """The encoder's loss in its stage; then how far written visits are from real ones after the same histories."""
        judge = self.network.encoder_nll if self.stage == "encoder" else self.network.discrepancy
        return judge(batch), batch.n_visits


def _spread(visits: Tensor) -> float:
    """How much neighbouring rows differ, in codes: the mean absolute difference."""
    return float((visits - visits.roll(1, dims=0)).abs().sum(1).mean())


FAMILY = Family(
    SyntegArchitecture,
    SyntegNetwork,
    Traits(
        steerable=False,
        likelihood=False,
        not_private="a critic and a generator learn from each other, so that no patient has a gradient of their own",
    ),
    (
        Row(
            "synteg",
            "Visit-state encoder, then a conditional adversarial generator of the next visit (WGAN-GP).",
            "SynTEG (Zhang et al., 2021)",
            {"schedule": "none", "passes": 60, "patience": 12, "validations": 60},
            note="three times the passes: 40 % of the steps are the encoder's, of the rest one in six the generator's",
        ),
    ),
    objective=lambda network, _: Adversarial(network),
)
