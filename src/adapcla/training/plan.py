"""What differs between methods in training: which parameters take a turn, and the loss of that turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from adapcla.networks.batch import Batch
from adapcla.networks.contract import Network
from adapcla.scaffold import Schedule


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


class Plan(Protocol):
    """A way to train some modules with the one loop."""

    #: Everything that is saved.
    modules: nn.Module

    def turns(self) -> dict[str, Iterable[tuple[str, nn.Parameter]]]:
        """Named parameters of each optimiser, by the name of its turn."""

    def turn(self, moment: Moment) -> str:
        """Whose turn a step is."""

    def loss(self, batch: Batch, moment: Moment) -> Tensor:
        """The summed loss of a batch, with gradients, for the turn of this moment."""

    def weight(self, moment: Moment) -> float:
        """The scaffold's weight, for the journal."""

    def settled(self, moment: Moment) -> bool:
        """Whether the objective has reached its final form, from which validation may stop the run."""

    def validation(self, batch: Batch) -> tuple[float, int]:
        """The summed bias-free loss of a batch and the number of visits it is summed over."""


class ScaffoldPlan:
    """Maximum likelihood with the scaffold added to the training logits, weighted by a schedule.

    AdaPCLA, Static-PCLA and plain training are this plan under different schedules.
    """

    def __init__(
        self,
        network: Network,
        bias: Tensor,
        schedule: Schedule,
        positive_weight: float = 1.0,
        bias_at_inference: bool = False,
    ) -> None:
        self.network = network
        self.modules: nn.Module = network  # type: ignore[assignment]
        self.bias = bias
        self.schedule = schedule
        self.positive_weight = positive_weight
        self.inference_bias = bias if bias_at_inference else None

    def turns(self) -> dict[str, Iterable[tuple[str, nn.Parameter]]]:
        """One optimiser for everything."""
        return {"main": self.modules.named_parameters()}

    def turn(self, moment: Moment) -> str:
        """Always the one optimiser's."""
        return "main"

    def weight(self, moment: Moment) -> float:
        """α at this moment."""
        return self.schedule.weight(moment.progress)

    def settled(self, moment: Moment) -> bool:
        """Whether the scaffold's weight will not change any more."""
        end = self.schedule.weight(1.0)
        return self.weight(moment) == end

    def loss(self, batch: Batch, moment: Moment) -> Tensor:
        """The summed loss under the scaffolded logits z + α·b."""
        weight = self.weight(moment)
        scaffold = weight * torch.as_tensor(self.bias) if weight else None
        return self.network.loss(batch, scaffold, self.positive_weight)

    @torch.no_grad()
    def validation(self, batch: Batch) -> tuple[float, int]:
        """The summed negative log-likelihood of the records under the rule of inference."""
        bias = None if self.inference_bias is None else torch.as_tensor(self.inference_bias)
        likelihood = self.network.likelihood(batch, bias)
        return float(likelihood.record.sum()), batch.n_visits
