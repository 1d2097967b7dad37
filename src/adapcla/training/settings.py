"""All settings that determine a fit, saved beside the model, and the table of methods; all defaults are here.

A method is a row of a model's file (`FAMILY.rows`): a name, and the settings in which it differs from the defaults.
"""

from __future__ import annotations

import difflib
import hashlib
import math
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_serializer

from adapcla.data import Prevalence
from adapcla.errors import UsageError
from adapcla.files import json_bytes
from adapcla.models.base import Architecture, Family, Network, Row, Shape
from adapcla.models.registry import FAMILIES
from adapcla.scaffold import schedule
from adapcla.scaffold.bias import EPSILON


class Budget(BaseModel):
    """The training settings that do not belong to a network."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    passes: float = Field(20.0, gt=0, description="Passes over the training patients.")
    batch_size: int = Field(256, ge=1, description="Patients per step.")
    learning_rate: float = Field(3e-3, gt=0)
    warmup: float = Field(0.05, ge=0, lt=1, description="Share of the steps over which the rate rises.")
    final_rate: float = Field(0.05, ge=0, le=1, description="Share of the rate that is left at the end.")
    weight_decay: float = Field(0.02, ge=0)
    table_decay: float = Field(0.02, ge=0, description="Decay of the code tables, where rare codes live.")
    clip: float = Field(1.0, gt=0, description="Largest norm of a gradient.")
    validations: int = Field(20, ge=1, description="Looks at the validation loss over the whole budget.")
    patience: int = Field(4, ge=1, description="Looks without improvement, once the scaffold is gone, before the end.")
    checkpoint_seconds: float = Field(60.0, ge=0, description="Time between checkpoints.")
    rows_at_once: int = Field(6144, ge=16, description="Visits computed together; bounds the memory of a step.")
    threads: int = Field(0, ge=0, description="Threads of torch; 0: OMP_NUM_THREADS, or one.")
    device: str = Field("auto", description="cpu, cuda, or auto, which is cpu.")

    def steps(self, n_patients: int) -> int:
        """Number of optimiser steps.

        >>> Budget(passes=2, batch_size=10).steps(25)
        6
        """
        return max(1, round(self.passes * math.ceil(n_patients / self.batch_size)))

    def rate(self, step: int, n_steps: int) -> float:
        """The learning rate at a step: a linear rise, then half a cosine.

        >>> budget = Budget(learning_rate=1.0, warmup=0.1, final_rate=0.0)
        >>> [round(budget.rate(step, 100), 3) for step in (0, 9, 54, 99)]
        [0.1, 1.0, 0.5, 0.0]
        """
        rise = max(1, round(self.warmup * n_steps))
        if step < rise:
            return self.learning_rate * (step + 1) / rise
        share = (step - rise + 1) / max(1, n_steps - rise)
        return self.learning_rate * (self.final_rate + (1 - self.final_rate) * 0.5 * (1 + math.cos(math.pi * share)))


class Privacy(BaseModel):
    """The privacy that a fit must keep; the unit is one patient, added or removed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: float = Field(8.0, gt=0, description="ε of everything that the saved model holds.")
    delta: float | None = Field(
        None, gt=0, lt=1, description="δ of everything; one in ten times the patients if left out."
    )
    clip: float = Field(1.0, gt=0, description="Largest norm of one patient's gradient.")
    prior: str = Field("", description="A public table of prevalences; empty counts the training visits, with noise.")
    prior_share: float = Field(0.2, gt=0, lt=1, description="Share of ε for what is counted: codes and attributes.")
    prior_clip: float = Field(6.0, gt=0, description="Largest norm of one patient's counts of codes and visits.")
    accountant: Literal["rdp", "prv"] = Field("rdp", description="How Opacus adds up: Rényi, or loss distributions.")
    noise_seed: int | None = Field(None, description="For tests alone: noise that can be drawn again hides nothing.")

    def delta_of(self, n_patients: int) -> float:
        """δ for so many patients.

        >>> Privacy().delta_of(1000)
        0.0001
        """
        return 1 / (10 * n_patients) if self.delta is None else self.delta


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

    privacy: Privacy | None = Field(None, description="Train with differential privacy; see `adapcla train --epsilon`.")

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


def refuse_unread(settings: Settings) -> None:
    """Raise where a setting was changed that nothing reads: the fit would be called another, and be the same.

    >>> refuse_unread(Settings(schedule="none", tempering=0.5))
    Traceback (most recent call last):
    adapcla.errors.UsageError: setting tempering: adapcla with these settings does not read it
    to do: leave it out
    """
    scaffold = settings.schedule != "none" or settings.bias_at_inference or settings.first_stage == "static"
    names: tuple[str, ...] = () if scaffold else ("tempering", "permuted", "epsilon", "bias_at_validation")
    for part, unread in ((settings, names), (settings.architecture, settings.architecture.unread)):
        fields = type(part).model_fields
        changed = [name for name in unread if getattr(part, name) != fields[name].default]
        if changed:
            raise UsageError(
                f"setting {', '.join(changed)}: {settings.method} with these settings does not read it\n"
                "to do: leave it out"
            )


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


@dataclass(frozen=True)
class Method:
    """A row of the table with its settings and what its family can do."""

    row: Row
    settings: Settings

    @property
    def supports(self) -> tuple[str, ...]:
        """What a fitted generator of this row can do beside sampling.

        >>> METHODS["synteg"].supports
        ('continue_',)
        """
        traits = self.settings.family.traits
        abilities = {"toward": traits.steerable, "continue_": traits.continues, "likelihood": traits.likelihood}
        return tuple(name for name, able in abilities.items() if able)


def _methods() -> dict[str, Method]:
    """Every row by name: the visit networks first, then the other families that are trained, then those that count."""

    def position(family: Family) -> tuple[bool, bool, str]:
        return family.name != "visits", family.objective is None, family.name

    return {
        row.name: Method(row, settings_from(Settings(), {"method": row.name, "family": family.name, **row.settings}))
        for family in sorted(FAMILIES.values(), key=position)
        for row in family.rows
    }


METHODS: dict[str, Method] = _methods()
