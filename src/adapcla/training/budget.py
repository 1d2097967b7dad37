"""How long and how fast to train."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


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
