"""Training a variational autoencoder on the one loop: the divergence counts little at first and fully later."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from adapcla.networks.batch import Batch
from adapcla.networks.eva import EvaNetwork
from adapcla.training.plan import Moment


class ElboPlan:
    """The evidence bound with an annealed divergence."""

    def __init__(self, network: EvaNetwork) -> None:
        self.network = network
        self.modules: nn.Module = network

    def turns(self) -> dict[str, Iterable[tuple[str, nn.Parameter]]]:
        """One optimiser for everything."""
        return {"main": self.modules.named_parameters()}

    def turn(self, moment: Moment) -> str:
        """Always the one optimiser's."""
        return "main"

    def weight(self, moment: Moment) -> float:
        """The weight of the divergence at this moment."""
        first, share = self.network.first_divergence, min(1.0, moment.progress / self.network.annealed)
        return first + (1.0 - first) * share

    def settled(self, moment: Moment) -> bool:
        """Whether the divergence counts fully."""
        return self.weight(moment) >= 1.0

    def loss(self, batch: Batch, moment: Moment) -> Tensor:
        """The summed loss with the divergence at its present weight."""
        return self.network.weighted_loss(batch, self.weight(moment))

    @torch.no_grad()
    def validation(self, batch: Batch) -> tuple[float, int]:
        """The summed negative evidence bound, divergence at full weight."""
        return float(self.network.likelihood(batch).record.sum()), batch.n_visits
