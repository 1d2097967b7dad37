"""The floor: codes drawn independently by their expected prevalence, without any memory."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from adapcla.data import Prevalence
from adapcla.data.vocabulary import DEATH
from adapcla.errors import UsageError
from adapcla.models.base import (
    Architecture,
    Drawn,
    DrawRule,
    Entered,
    Family,
    Likelihood,
    Network,
    Row,
    Shape,
    Traits,
    Visit,
)
from adapcla.models.batch import Batch, Records
from adapcla.models.choice_groups import Groups
from adapcla.models.code_order import drawing_order
from adapcla.models.draws import Noise, bernoulli
from adapcla.models.independent_head import independent_codes
from adapcla.models.layers import N_BUCKETS, drawn_gap, gap_bucket, gap_nll
from adapcla.scaffold import Scaffold


class MarginalArchitecture(Architecture):
    """Independent draws by the expected prevalence: counted, not trained."""

    family: Literal["marginal"] = "marginal"

    @property
    def chooses(self) -> bool:
        """Choices are drawn by their prevalence, too."""
        return True


class Place(NamedTuple):
    """How many patients there are and how many visits they have."""

    n: int
    n_seen: int


class MarginalNetwork(Network):
    """One log-odds per code, one chance to go on per visit number, one law of gaps; all counted by `count`."""

    def __init__(self, shape: Shape, prevalence: Prevalence) -> None:
        super().__init__()
        self.logits: Tensor
        self.going_on: Tensor
        self.gaps: Tensor
        self.register_buffer("logits", torch.from_numpy(Scaffold(prevalence).initial_logits).float())
        self.register_buffer("going_on", torch.zeros(shape.context))
        self.register_buffer("gaps", torch.zeros(N_BUCKETS))
        self.with_days = shape.with_days
        vocabulary = prevalence.vocabulary
        self.last_code = vocabulary.index.get(DEATH.token)
        # Vocabulary order, but for choice groups, whose codes must stand side by side.
        order = drawing_order(vocabulary, np.flatnonzero(vocabulary.group_of_code < 0))
        self.keep_order(torch.from_numpy(order), saved=False)
        self.groups = Groups.of(vocabulary.group_of_code[order])

    def count(self, records: Records) -> None:
        """Take prevalences, chances to go on and gaps from these patients, with half a patient added to each side.

        Prevalences are those expected of other patients (empirical Bayes): rare codes are rare partly by chance.
        """
        expected = Scaffold(records.cohort.expected_prevalence()).initial_logits
        self.logits.copy_(torch.from_numpy(expected).float())
        batch = records.batch(np.arange(records.cohort.n_patients))
        asked = self._may_continue(batch) > 0
        places = torch.bincount(batch.position[asked], minlength=len(self.going_on))
        stayed = torch.bincount(batch.position[asked & (batch.continues > 0)], minlength=len(self.going_on))
        self.going_on.copy_(torch.log((stayed + 0.5) / (places - stayed + 0.5)))
        later = batch.gap[batch.position > 0]
        self.gaps.copy_(torch.log(torch.bincount(gap_bucket(later), minlength=N_BUCKETS) + 0.5))

    def _may_continue(self, batch: Batch) -> Tensor:
        """(visits,) 1.0 after visits that may have another after them."""
        return torch.ones(batch.n_visits) if self.last_position is None else batch.lacks(self.last_position)

    @property
    def _log_odds(self) -> Tensor:
        """(codes,) log-odds by position; they are saved as the vocabulary numbers them."""
        return self.logits[self.code_of_rank]

    def loss(self, batch: Batch, bias: Tensor | None, positive_weight: float = 1.0) -> Tensor:
        """Refused: there is nothing to train."""
        raise UsageError("marginal is counted, not trained")

    @torch.no_grad()
    def likelihood(self, batch: Batch, bias: Tensor | None = None) -> Likelihood:
        """How probable the records are."""
        logits = (self._log_odds if bias is None else self._log_odds + bias).double()
        sums = F.softplus(logits) if self.groups is None else self.groups.normalisers(logits[None])
        codes = sums.sum().repeat(batch.n_visits)
        codes = codes.index_add_(0, batch.visit_of_entry, -logits[batch.codes])
        rest = F.binary_cross_entropy_with_logits(self.going_on[batch.position], batch.continues, reduction="none")
        rest = rest * self._may_continue(batch)
        if self.with_days:
            rest = rest + gap_nll(self.gaps.expand(int((batch.position > 0).sum()), -1), batch)
        record = torch.zeros(batch.n_patients, dtype=torch.float64)
        return Likelihood(codes, record.index_add_(0, batch.patient_of_visit, codes + rest))

    def begin(self, attributes: Tensor, noise: Noise) -> Place:
        """The state before the first visit."""
        return Place(len(noise.patients), 0)

    def enter(self, state: Place, noise: Noise, certain: bool) -> Entered:
        """Who goes on, and the days until then."""
        rows = np.arange(state.n)
        if not certain:
            at = min(state.n_seen, len(self.going_on)) - 1
            rows = np.flatnonzero(bernoulli(self.going_on[at].expand(state.n), noise, channel=0))
            state, noise = self.select(state, rows), noise.keep(rows)
        if not self.with_days or state.n_seen == 0 or not len(rows):
            return Entered(rows, np.zeros(len(rows), dtype=np.int64), state)
        return Entered(rows, drawn_gap(self.gaps.expand(state.n, -1), noise), state)

    def draw_visit(self, state: Place, rule: DrawRule, noise: Noise) -> Visit:
        """The codes of the next visit."""
        if rule.counts is not None:
            raise UsageError("codes_per_visit='match' is for networks; marginal draws codes as they are")
        rows = torch.zeros(state.n, dtype=torch.int64)
        return independent_codes(rule.apply(self._log_odds[None]), rows, rule, noise, self.groups)

    def absorb(self, state: Place, drawn: Drawn, gap: NDArray[np.int64]) -> Place:
        """The state after one more visit; its codes are forgotten."""
        return Place(state.n, state.n_seen + 1)

    def select(self, state: Place, rows: NDArray[np.int64]) -> Place:
        """Some of the patients."""
        return Place(len(rows), state.n_seen)


FAMILY = Family(
    MarginalArchitecture,
    lambda _, shape, prevalence: MarginalNetwork(shape, prevalence),
    Traits(
        holds_counts=True,
        not_private="it counts, and has no steps to protect; train adapcla with few passes instead",
    ),
    (
        Row(
            "marginal",
            "Independent draws by the expected prevalence, lengths from training: the floor.",
            "reference",
            {"schedule": "none"},
            starts_from="counts of the training visits",
            usual=False,
        ),
    ),
    count=MarginalNetwork.count,
)
