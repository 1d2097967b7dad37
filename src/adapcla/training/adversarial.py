"""Two stages on the one loop: an encoder by likelihood, then a critic and a generator taking turns."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from adapcla.console import say
from adapcla.networks.batch import Batch
from adapcla.networks.synteg import SyntegNetwork
from adapcla.training.plan import Moment

#: Made visits that differ among themselves less than this share of what real ones do are one visit.
_LEAST_SPREAD = 0.02
#: Made visits with this many times fewer or more codes than real ones are no visits.
_SIZE_FACTOR = 10.0
#: Turns of the generator in a row before the alarm.
_PATIENCE = 50
#: Share of the adversarial steps in which the critic learns alone.
_ALONE = 0.15


class AdversarialPlan:
    """SynTEG's two stages; whose turn it is follows from the step alone, so that a resumed run does the same."""

    #: The critic and the generator chase each other: a long memory of gradients would make them overshoot.
    betas = {"critic": (0.5, 0.9), "generator": (0.5, 0.9)}  # noqa: RUF012
    #: A generator that moves slowly can be followed by its critic in few steps.
    rates = {"critic": 2.0, "generator": 0.7}  # noqa: RUF012

    def __init__(self, network: SyntegNetwork) -> None:
        self.network = network
        self.modules: nn.Module = network
        self.stage = "encoder"
        self._told: dict[str, float] = {}
        self._bad_turns = 0

    def turns(self) -> dict[str, Iterable[tuple[str, nn.Parameter]]]:
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

    def settled(self, moment: Moment) -> bool:
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
        self._told[f"{turn} loss"] = float(loss.detach()) / batch.n_visits
        return loss

    def _conditions(self, batch: Batch) -> Tensor:
        """States from the encoder as it is used later: no dropout, no gradient."""
        self.modules.eval()
        with torch.no_grad():
            conditions = self.network.conditions(batch)
        self.modules.train()
        return conditions

    def _made(self, conditions: Tensor) -> Tensor:
        """Drawn visits of zeros and ones, whose gradient is that of their chances.

        The critic so sees what is sampled later; soft visits would be told from real ones by their softness alone.
        """
        noise = torch.randn(len(conditions), self.network.settings.noise)
        chance = torch.sigmoid(self.network.made_logits(conditions, noise))
        return torch.bernoulli(chance.detach()) + chance - chance.detach()

    def _critic(self, batch: Batch) -> Tensor:
        conditions, real = self._conditions(batch), self.network.real_visits(batch)
        with torch.no_grad():
            made = self._made(conditions)
        share = torch.rand(len(real), 1)
        between = (share * real + (1 - share) * made).requires_grad_()
        slope = torch.autograd.grad(self.network.judged(between, conditions).sum(), between, create_graph=True)[0]
        penalty = ((slope.norm(dim=1) - 1) ** 2).sum()
        distance = (self.network.judged(real, conditions) - self.network.judged(made, conditions)).sum()
        self._told["distance"] = float(distance.detach()) / len(real)
        return self.network.settings.penalty * penalty - distance

    def _generator(self, batch: Batch) -> Tensor:
        conditions = self._conditions(batch)
        made = self._made(conditions)
        self._watch(made.detach(), self.network.real_visits(batch))
        return -self.network.judged(made, conditions).sum()

    def _watch(self, made: Tensor, real: Tensor) -> None:
        """Notice when made visits have become all alike, or empty, or full; the chosen weights are from before."""
        spread, size = _spread(made) / max(_spread(real), 1e-9), float(made.sum() / real.sum())
        bad = spread < _LEAST_SPREAD or not 1 / _SIZE_FACTOR < size < _SIZE_FACTOR
        self._bad_turns = self._bad_turns + 1 if bad else 0
        self._told |= {"spread": spread, "size": size, "collapsed": float(self._bad_turns >= _PATIENCE)}
        if self._bad_turns == _PATIENCE:
            say(
                f"warning: the generator has collapsed (visits differ {spread:.1%} as much as real ones, and have "
                f"{size:.2f} times their codes); weights from before are kept by validation"
            )

    def notes(self) -> dict[str, float]:
        """The latest losses of each part and what the watch saw, for the journal."""
        return {name: round(value, 6) for name, value in self._told.items()}

    @torch.no_grad()
    def validation(self, batch: Batch) -> tuple[float, int]:
        """The encoder's loss in its stage; then how far made visits are from real ones after the same histories."""
        judge = self.network.encoder_nll if self.stage == "encoder" else self.network.discrepancy
        return judge(batch), batch.n_visits


def _spread(visits: Tensor) -> float:
    """How much neighbouring rows differ, in codes: the mean absolute difference."""
    return float((visits - visits.roll(1, dims=0)).abs().sum(1).mean())
