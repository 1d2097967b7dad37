"""What every model is: its settings, the functions that training and sampling call, and how it is registered.

A model is one file of this package with a `FAMILY`; `models/registry.py` lists them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from adapcla.data import Prevalence
from adapcla.models.batch import Batch, Records
from adapcla.models.draws import Noise
from adapcla.scaffold import Schedule

#: (patient, code) pairs, sorted by patient.
Drawn = tuple[NDArray[np.int64], NDArray[np.int64]]


#: Added to the logits (codes,), or nothing.
Bias = Tensor | None
#: The state row of each patient, or one each.
Rows = Tensor | None


class Shape(NamedTuple):
    """What a network must fit: the size of the vocabulary, of the context, and what the cohort carries."""

    n_codes: int
    context: int
    #: Number of categories of each static attribute, in name order.
    attributes: tuple[int, ...] = ()
    with_days: bool = False
    #: Pairs of codes of which the network keeps how many training patients hold them.
    n_pairs: int = 0


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


class Visits(Protocol):
    """What a head needs to know about the visits it is asked about."""

    @property
    def row_before(self) -> Tensor:
        """(visits,) the state row that predicts each visit."""

    @property
    def visit_of_entry(self) -> Tensor:
        """(entries,) the visit of each code."""

    @property
    def codes(self) -> Tensor:
        """(entries,) code positions."""


class Head(Protocol):
    """How a history state becomes the codes of the next visit; codes and bias are in the order of the network."""

    @property
    def bias(self) -> Tensor:
        """(codes,) the log-odds of codes before anything is known of the visit."""

    def loss(self, states: Tensor, visits: Visits, bias: Bias, positive_weight: float) -> Tensor:
        """The summed loss of all visits, with gradients."""

    def nll(self, states: Tensor, visits: Visits, bias: Bias) -> Tensor:
        """The negative log-likelihood of each visit (visits,)."""

    def draw(self, states: Tensor, row_of_patient: Rows, rule: DrawRule, noise: Noise) -> Drawn:
        """(patient, code) pairs of one drawn visit for each patient."""


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

    def without_small_counts(self, shape: Shape) -> tuple[dict[str, Tensor], Shape]:
        """The state for others, in which no number gives a count away that is too small to be told; and its shape."""
        return dict(self.state_dict()), shape

    def problem_with(self, state: dict[str, Tensor]) -> str:
        """What is wrong with the whole numbers of a state, which are orders of codes; empty where nothing is."""
        for name, value in self.state_dict().items():
            if name in state and not value.is_floating_point():
                one, other = (torch.sort(x.reshape(-1)).values for x in (state[name], value))
                if not torch.equal(one, other):
                    return f"{name!r} does not fit the vocabulary"
        return ""

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

    def enter(self, state: Any, gap: NDArray[np.int64]) -> Any:
        """The state after those days, from which the codes of the next visit are drawn."""
        return state

    @abstractmethod
    def draw_visit(self, state: Any, rule: DrawRule, noise: Noise) -> Drawn:
        """The codes of the next visit."""

    def visit(self, state: Any, rule: DrawRule, noise: Noise) -> tuple[Drawn, Any | None]:
        """The codes of the next visit, and the state after them where drawing leaves it behind."""
        return self.draw_visit(state, rule, noise), None

    @abstractmethod
    def absorb(self, state: Any, drawn: Drawn, gap: NDArray[np.int64]) -> Any:
        """The state after that visit."""

    @abstractmethod
    def keep(self, state: Any, rows: NDArray[np.int64]) -> Any:
        """The state of some of the patients."""


class Architecture(BaseModel):
    """What every family is shown of a patient; a family adds its own settings and its name as `family`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    width: int = Field(256, ge=8, description="Width of a visit's state.")
    dropout: float = Field(0.1, ge=0, lt=1)
    context: int = Field(48, ge=2, description="Longest history, in visits; later visits are cut and counted.")
    use_days: bool = Field(True, description="Learn and draw the days between visits where the cohort has them.")
    use_attributes: bool = Field(True, description="Condition on static attributes where the cohort has them.")
    family: str

    @property
    def depth(self) -> int:
        """Number of equal layers."""
        return 1

    @property
    def attention_heads(self) -> int:
        """Parts that attention divides the width into."""
        return 1

    @property
    def counts_pairs(self) -> bool:
        """Whether pairs of codes of the training patients are counted and kept."""
        return False

    @property
    def one_shot(self) -> bool:
        """Whether every code's logit of the next visit comes at once, so that its probability needs no draw."""
        return False

    @property
    def chooses(self) -> bool:
        """Whether codes of a choice group are drawn as one category, so that a visit holds at most one of them."""
        return False

    @property
    def exact_steps(self) -> bool:
        """Whether the likelihood of a visit's codes after its history is the very law by which they are drawn."""
        return True

    @property
    def empty_visits(self) -> bool:
        """Whether a drawn visit may come out without a code."""
        return True

    @model_validator(mode="after")
    def _width_fits_attention(self) -> Architecture:
        if self.width % self.attention_heads:
            raise ValueError(
                f"a width of {self.width} cannot be shared by {self.attention_heads} heads: expected a multiple"
            )
        return self

    def multiplications(self, n_codes: int, codes_per_visit: float) -> float:
        """Roughly, the multiplications and additions that one visit takes in one direction."""
        return 2.0 * (12 * self.depth * self.width**2 + n_codes * self.width)


@dataclass(frozen=True)
class Traits:
    """What the networks of a family can do, and what must be known before one is saved or shared."""

    #: Has a logit for each code, so that a shift of them steers the population.
    steerable: bool = True
    #: Can go on from a given history.
    continues: bool = True
    #: Says how probable a record is.
    likelihood: bool = True
    #: Can be trained with the scaffold.
    scaffold: bool = False
    #: Present codes can weigh more than absent ones in the loss.
    positive_weight: bool = False
    #: Has an output bias that the training prevalence can be folded into.
    output_bias: bool = False
    #: Its numbers are the exact counts of the codes.
    holds_counts: bool = False
    #: Why it cannot be trained with differential privacy; empty if it can.
    not_private: str = ""


@dataclass(frozen=True)
class Row:
    """A row of the table of methods: a name, where it comes from, and its settings."""

    name: str
    summary: str
    paper: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    starts_from: str = "random weights"
    #: Whether `--methods all` takes it; references and paper sizes are asked for by name.
    usual: bool = True
    note: str = ""


@dataclass(frozen=True)
class Family:
    """A family of networks; its module in `networks.families` names it `FAMILY`, and nothing else lists it."""

    architecture: type[Architecture]
    network: Callable[[Any, Shape, Prevalence], Network]
    traits: Traits
    rows: tuple[Row, ...]
    #: How a network is trained; None for one that is counted.
    objective: Callable[[Any, ScaffoldRule], Objective] | None = None
    #: How a network without an objective is fitted, in one look at all training patients.
    count: Callable[[Any, Records], None] | None = None

    @property
    def name(self) -> str:
        """The name that settings give as `family`."""
        return str(self.architecture.model_fields["family"].default)


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
