"""What every generator can do, whatever is inside."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from adapcla.records import Cohort, Prevalence, Vocabulary

#: What a target prevalence may be given as: a file, a cohort folder, a cohort, or a prevalence.
Target = str | Path | Cohort | Prevalence


@dataclass(frozen=True)
class SampleRule:
    """How patients are drawn; the defaults are the paper's inference: the network's own logits and nothing else."""

    temperature: float = 1.0
    #: `natural`, or `match`: temper each visit to a number of codes drawn from the training visits.
    codes_per_visit: str = "natural"
    max_visits: int | None = None
    #: Visits with fewer codes are drawn again; 0 ends the record at an empty visit instead.
    min_codes: int = 0
    #: Fixed static attributes, such as {"sex": "F"}.
    where: tuple[tuple[str, str], ...] = ()


class Generator(Protocol):
    """A method that can be fitted to patients and then writes new ones."""

    method: str
    vocabulary_: Vocabulary

    def fit(self, train: Cohort, valid: Cohort) -> Generator:
        """The generator, fitted."""

    def sample(self, n: int, seed: int = 1, *, batch_size: int | None = None) -> Cohort:
        """`n` new patients; patient i of a seed is the same for any n and batch size."""

    def save(self, folder: str | Path) -> Path:
        """Write the generator to a folder."""


@dataclass(frozen=True, eq=False)
class Continuation:
    """What a model expects after given histories."""

    #: Probability of each code at the next visit (patients, codes).
    probabilities: NDArray[np.float64]
    #: Continued records: `draws` for each history, in order; only the new visits.
    drawn: Cohort
    #: The history that each drawn record continues.
    history_of: NDArray[np.int64]
