"""What a family of networks registers: its settings, its network, how it is fitted, and what it can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from adapcla.data import Prevalence
from adapcla.models.batch import Records
from adapcla.models.contract import Network, Shape
from adapcla.models.objective import Objective, ScaffoldRule


class Architecture(BaseModel):
    """What every family is shown of a patient; a family adds its own settings and its name as `family`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    width: int = Field(256, ge=8, description="Width of a visit's state.")
    dropout: float = Field(0.1, ge=0, lt=1)
    context: int = Field(48, ge=2, description="Longest history, in visits; later visits are cut and counted.")
    credibility: float = Field(
        0.0, ge=0, description="Visits at which a code's or family's vector is believed by half; 0: at once."
    )
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
