"""All settings that determine a fitted generator; they are saved beside it, and all defaults are here."""

from __future__ import annotations

import difflib
import hashlib
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_serializer

from adapcla.data import Prevalence
from adapcla.errors import UsageError
from adapcla.files import json_bytes
from adapcla.models.base import Architecture, Family, Network, Shape
from adapcla.models.registry import FAMILIES
from adapcla.scaffold import schedule
from adapcla.scaffold.bias import EPSILON
from adapcla.training.budget import Budget, Privacy

if TYPE_CHECKING:
    AnyArchitecture = Architecture
else:
    # The settings of any family, told apart by their `family`.
    _union = reduce(or_, (family.architecture for family in FAMILIES.values()))
    AnyArchitecture = Annotated[_union, Field(discriminator="family")]


#: Settings that are written only when they are on, with what they are when they are off.
_WHEN_OFF: dict[str, Any] = {"last_weights": False, "privacy": None}
#: Patients that a round of calibration draws at least, for each training patient, and at most.
_CALIBRATION: tuple[int, int, int] = (2_000, 1, 10_000)


class Settings(BaseModel):
    """The settings of one fit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str = "adapcla"
    seed: int = 1
    architecture: AnyArchitecture = FAMILIES["visits"].architecture()  # type: ignore[call-arg]
    budget: Budget = Budget()
    schedule: str = "base"
    tempering: float = Field(1.0, description="Factor of the scaffold; −1 turns it round.")
    permuted: bool = Field(False, description="Give each code another code's bias: a control.")
    epsilon: float = Field(EPSILON, gt=0)
    positive_weight: float = Field(1.0, gt=0, description="Extra weight of present codes in the loss.")
    bias_at_inference: bool = Field(False, description="Keep the scaffold when sampling: Static-PCLA consistent.")
    bias_at_validation: bool = Field(
        False, description="Choose the weights with the scaffold, sample without: a control."
    )
    starts_from: str = Field("", description="Run whose weights training starts from; empty for a fresh start.")
    first_stage: Literal["", "plain", "static"] = Field(
        "", description="Train without a scaffold (plain) or with one that stays (static) first, and go on from there."
    )
    last_weights: bool = Field(
        False, description="Train to the end and keep the last weights, not those of the best validation loss."
    )
    calibration_rounds: int = Field(
        0, ge=0, description="Rounds of sampling after training that match prevalences to training."
    )

    privacy: Privacy | None = Field(None, description="Train with differential privacy; see `adapcla train --dp`.")

    @field_validator("schedule")
    @classmethod
    def _known_schedule(cls, name: str) -> str:
        return schedule(name).name

    @model_serializer(mode="wrap")
    def _without_what_is_off(self, handler: Any) -> dict[str, Any]:
        """The fields; what is off is left out, so that a fit is written as before the setting existed, to the byte."""
        content: dict[str, Any] = handler(self)
        return {name: value for name, value in content.items() if name not in _WHEN_OFF or value != _WHEN_OFF[name]}

    @property
    def family(self) -> Family:
        """The family of networks."""
        return FAMILIES[self.architecture.family]

    def network(self, shape: Shape, prevalence: Prevalence) -> Network:
        """The untrained network of these settings; its weights come from torch's global stream: seed it first."""
        return self.family.network(self.architecture, shape, prevalence)

    def fingerprint(self) -> str:
        """A hash of every setting that changes the weights; threads and times of checkpoints do not.

        >>> Settings(budget=Budget(threads=2, device="cpu")).fingerprint() == Settings().fingerprint()
        True
        """
        content = self.model_dump()
        budget = content["budget"]
        del budget["checkpoint_seconds"]
        budget["threads"] = 0
        budget["device"] = "auto" if budget["device"] == "cpu" else budget["device"]
        return hashlib.sha256(json_bytes(content)).hexdigest()[:16]


def calibration_size(training_patients: int) -> int:
    """The patients that a round of calibration samples.

    >>> calibration_size(100), calibration_size(3_000), calibration_size(50_000)
    (2000, 3000, 10000)
    """
    least, each, most = _CALIBRATION
    return min(max(each * training_patients, least), most)


def settings_from(base: Settings, changes: dict[str, Any]) -> Settings:
    """The settings with some changed; names may be nested (`architecture`, `budget`) or plain.

    >>> settings_from(Settings(), {"width": 64, "passes": 3}).architecture.width
    64
    """
    # What is off is not written, but can be asked for.
    content = {**_WHEN_OFF, **base.model_dump(), "architecture": dict(base.architecture)}
    family = _family_name(changes)
    if family is not None and family != content["architecture"]["family"]:
        content["architecture"] = dict(FAMILIES[family].architecture())  # type: ignore[call-arg]
    places = dict.fromkeys(content, content)
    places |= {name: content[part] for part in ("architecture", "budget") for name in content[part]}
    for name, value in changes.items():
        if name in ("architecture", "budget") and isinstance(value, dict):
            content[name] |= value
        elif name == "privacy" and isinstance(value, dict):
            content[name] = (content[name] or {}) | value
        elif name in places:
            places[name][name] = value
        else:
            near = difflib.get_close_matches(name, places, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"no setting is called {name!r}{hint}")
    try:
        return Settings.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"setting {'.'.join(str(p) for p in first['loc'])}: {first['msg']}") from None


def _family_name(changes: dict[str, Any]) -> str | None:
    """The family of networks that the changes ask for, if they do."""
    nested = changes.get("architecture")
    family = changes.get("family", nested.get("family") if isinstance(nested, dict) else None)
    if family is not None and (not isinstance(family, str) or family not in FAMILIES):
        raise UsageError(f"family {family!r}: expected one of {', '.join(FAMILIES)}")
    return family
