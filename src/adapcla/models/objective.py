"""What training minimises: which parameters take a turn at each step, and the loss of that turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from adapcla.models.batch import Batch
from adapcla.models.contract import Network
from adapcla.scaffold import Schedule

NamedParameters = Iterable[tuple[str, nn.Parameter]]


@dataclass(frozen=True)
class Moment:
    """Where training stands."""

    step: int
    n_steps: int
    seed: int

    @property
    def progress(self) -> float:
        """0 at the first step, 1 at the last."""
        return self.step / max(1, self.n_steps - 1)


class ScaffoldRule(NamedTuple):
    """What the settings say about the scaffold while training: its bias, its schedule, and when it is kept."""

    bias: Tensor  # (codes,)
    schedule: Schedule
    positive_weight: float = 1.0
    #: Whether validation, like sampling, adds the bias: Static-PCLA.
    at_validation: bool = False


class Objective(ABC):
    """What the one training loop asks; the defaults are those of a single optimiser for all parameters."""

    #: Momentum coefficients of an optimiser that wants others than the loop's, by the name of its turn.
    betas: ClassVar[Mapping[str, tuple[float, float]]] = {}
    #: Factors of the learning rate, by the name of the turn.
    rates: ClassVar[Mapping[str, float]] = {}

    def __init__(self, modules: nn.Module) -> None:
        #: Everything that is trained and saved.
        self.modules = modules

    def turns(self) -> dict[str, NamedParameters]:
        """Named parameters of each optimiser, by the name of its turn."""
        return {"main": self.modules.named_parameters()}

    def turn(self, moment: Moment) -> str:
        """Whose turn a step is."""
        return "main"

    def notes(self) -> dict[str, float]:
        """What else belongs into the journal, such as the losses of several parts."""
        return {}

    @abstractmethod
    def loss(self, batch: Batch, moment: Moment) -> Tensor:
        """The summed loss of a batch, with gradients, for the turn of this moment."""

    @abstractmethod
    def weight(self, moment: Moment) -> float:
        """The weight of what is annealed (the scaffold, for one), for the journal."""

    @abstractmethod
    def settled(self, moment: Moment) -> bool:
        """Whether the loss has reached its final form, so that weights from now on may be chosen."""

    @abstractmethod
    def validation(self, batch: Batch) -> tuple[float, int]:
        """The summed bias-free loss of a batch and the number of visits it is summed over."""


class ScaffoldedLikelihood(Objective):
    """Maximum likelihood with the scaffold added to the training logits, weighted by a schedule.

    AdaPCLA, Static-PCLA and plain training are this objective under different schedules.
    """

    def __init__(self, network: Network, rule: ScaffoldRule) -> None:
        super().__init__(network)
        self.network, self.rule = network, rule

    def weight(self, moment: Moment) -> float:
        """α at this moment."""
        return self.rule.schedule.weight(moment.progress)

    def settled(self, moment: Moment) -> bool:
        """Whether the scaffold's weight will not change any more."""
        return self.weight(moment) == self.rule.schedule.weight(1.0)

    def loss(self, batch: Batch, moment: Moment) -> Tensor:
        """The summed loss under the scaffolded logits z + α·b."""
        weight = self.weight(moment)
        scaffold = weight * torch.as_tensor(self.rule.bias) if weight else None
        return self.network.loss(batch, scaffold, self.rule.positive_weight)

    @torch.no_grad()
    def validation(self, batch: Batch) -> tuple[float, int]:
        """The summed negative log-likelihood of the records under the rule of inference."""
        bias = torch.as_tensor(self.rule.bias) if self.rule.at_validation else None
        return float(self.network.likelihood(batch, bias).record.sum()), batch.n_visits
