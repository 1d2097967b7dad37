"""The functions that every network has, so that one loop trains them all and one sampler rolls them all out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from adapcla.models.batch import Batch, Records
from adapcla.models.draws import Noise

#: (patient, code) pairs, sorted by patient.
Drawn = tuple[NDArray[np.int64], NDArray[np.int64]]


class Shape(NamedTuple):
    """What a network must fit: the size of the vocabulary, of the context, and what the cohort carries."""

    n_codes: int
    context: int
    #: Number of categories of each static attribute, in name order.
    attributes: tuple[int, ...] = ()
    with_days: bool = False
    #: Pairs of codes that the network keeps of its training patients: of one visit, and of visits that follow.
    n_pairs: int = 0
    n_leads: int = 0


class Likelihood(NamedTuple):
    """Negative log-likelihoods in nats."""

    codes: Tensor  # (visits,) of the visit's codes
    record: Tensor  # (patients,) of codes, continuing and gaps together


@dataclass(frozen=True)
class DrawRule:
    """How codes are drawn from logits: z / temperature + bias, in vocabulary order."""

    #: Added to the logits: a steering shift, or the scaffold of Static-PCLA.
    bias: Tensor | None = None
    temperature: float = 1.0
    #: Numbers, one of which is drawn for each visit, which then holds exactly so many codes; None leaves it natural.
    counts: NDArray[np.int64] | None = None

    def applied(self, logits: Tensor, codes: slice = slice(None)) -> Tensor:
        """The logits (…, some codes) that are drawn from.

        >>> DrawRule(Tensor([0.0, 1.0]), temperature=2.0).applied(Tensor([4.0]), slice(1, 2))
        tensor([3.])
        """
        tempered = logits if self.temperature == 1 else logits / self.temperature
        return tempered if self.bias is None else tempered + self.bias[codes]


class Network(nn.Module, ABC):
    """A network that can be trained on packed batches and rolled out visit by visit."""

    #: The code, by position in the vocabulary, after which a record never goes on: death.
    last_code: int | None = None

    @abstractmethod
    def loss(self, batch: Batch, bias: Tensor | None, positive_weight: float = 1.0) -> Tensor:
        """The summed training loss; `bias` (codes,) is added to the code logits."""

    @abstractmethod
    def likelihood(self, batch: Batch, bias: Tensor | None = None) -> Likelihood:
        """How probable the records are, without any training aid but `bias`."""

    def observe(self, records: Records, shape: Shape) -> Shape:
        """Take what must be known of all training patients before the first step; the shape with what is kept of it."""
        return shape

    def next_logits(self, batch: Batch) -> Tensor | None:
        """Logits (patients, codes) of the visit after each patient's last one; None where they come one by one."""
        return None

    def next_chances(self, batch: Batch, bias: Tensor | None = None) -> Tensor | None:
        """The chances (patients, codes) of that visit's codes; None where they come one by one."""
        return None

    # ---- rolling out ------------------------------------------------------------------------------------
    @abstractmethod
    def begin(self, attributes: Tensor, noise: Noise) -> Any:
        """The state of patients (n, attributes) before their first visit."""

    @abstractmethod
    def goes_on(self, state: Any, noise: Noise) -> NDArray[np.bool_]:
        """Whether each patient has another visit; asked before the codes of every visit but the first."""

    @abstractmethod
    def draw_gap(self, state: Any, noise: Noise) -> NDArray[np.int64]:
        """Days until the next visit."""

    @abstractmethod
    def draw_visit(self, state: Any, rule: DrawRule, noise: Noise) -> Drawn:
        """The codes of the next visit."""

    @abstractmethod
    def absorb(self, state: Any, drawn: Drawn, gap: NDArray[np.int64]) -> Any:
        """The state after that visit."""

    @abstractmethod
    def keep(self, state: Any, rows: NDArray[np.int64]) -> Any:
        """The state of some of the patients."""
