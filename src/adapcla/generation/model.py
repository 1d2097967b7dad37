"""A fitted model: its settings and everything that the fit left behind; what a saved folder holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adapcla.data import Cohort, Kind, Origin, Prevalence, Vocabulary
from adapcla.data.attributes import AttributeDistribution
from adapcla.data.quantization import Quantizer
from adapcla.errors import InputError
from adapcla.generation.settings import Settings
from adapcla.models.base import Likelihood, Network, Shape, Traits
from adapcla.models.batch import Batch, Records
from adapcla.scaffold import Scaffold
from adapcla.seeds import random_stream

#: Patients whose likelihood is computed together.
_AT_ONCE = 1024


@dataclass(eq=False)
class Model:
    """A fitted model; fitting, sampling, steering, continuing and saving are functions on it."""

    settings: Settings
    network: Network
    prevalence: Prevalence
    law: AttributeDistribution
    shape: Shape
    #: Number of codes of training visits: value i is the count of visits with i codes.
    visit_sizes: NDArray[np.int64]
    #: Visits of the longest record that is drawn.
    longest: int
    facts: dict[str, Any]
    #: Whether it was saved without small counts, to be given away.
    shareable: bool = False
    #: How the numbers of the cohort became choices; None where it has none.
    bands: Quantizer | None = None

    @property
    def method(self) -> str:
        """The row of the method table."""
        return self.settings.method

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary that the network learned: bands in the place of numbers."""
        return self.prevalence.vocabulary

    @property
    def natural(self) -> Vocabulary:
        """The vocabulary of the training cohort."""
        return self.vocabulary if self.bands is None else self.bands.raw_vocabulary

    @property
    def traits(self) -> Traits:
        """What the network can do."""
        return self.settings.family.traits

    @property
    def origin(self) -> Origin:
        """Where the patients that this model writes come from; a private model does not name its patients."""
        return replace(Origin.from_card(self.facts), kind=Kind.SYNTHETIC)

    @property
    def inference_bias(self) -> Tensor | None:
        """The scaffold (codes,) where sampling keeps it: Static-PCLA."""
        return scaffold_bias(self.settings, self.prevalence) if self.settings.bias_at_inference else None

    def inside(self, cohort: Cohort) -> Cohort:
        """The cohort as the network sees it: on its vocabulary, with bands in the place of numbers."""
        if self.bands is None or cohort.vocabulary == self.vocabulary:
            return cohort.on(self.vocabulary)
        banded = self.bands.quantize(cohort)
        if banded.n_patients < cohort.n_patients:
            raise InputError(
                f"{cohort.n_patients - banded.n_patients} patients of whom the model knows no code",
                expected="more of each patient than numbers that too few training patients have",
                remedy="leave these patients out",
            )
        return banded

    def records(self, cohort: Cohort) -> Records:
        """The cohort ready for batches, as this model sees it."""
        return seen_records(self.settings, self.inside(cohort))

    def log_likelihood(self, cohort: Cohort) -> NDArray[np.float64]:
        """Log-likelihood of each patient's record, in nats."""
        return np.concatenate([-likelihood.record.numpy() for _, likelihood in self._likelihoods(cohort)])

    def code_log_likelihood(self, cohort: Cohort) -> NDArray[np.float64]:
        """Log-likelihood of the codes of each patient's visits, in nats: without days and without going on."""
        log_likelihoods = []
        for batch, likelihood in self._likelihoods(cohort):
            patient = batch.patient_of_visit.numpy()
            log_likelihoods.append(-np.bincount(patient, likelihood.codes.double().numpy(), batch.n_patients))
        return np.concatenate(log_likelihoods)

    @torch.no_grad()
    def _likelihoods(self, cohort: Cohort) -> Iterator[tuple[Batch, Likelihood]]:
        """The patients batch by batch, and how probable they are."""
        self.network.eval()
        records, bias = self.records(cohort), self.inference_bias
        for low in range(0, cohort.n_patients, _AT_ONCE):
            batch = records.batch(np.arange(low, min(low + _AT_ONCE, cohort.n_patients)))
            yield batch, self.network.likelihood(batch, bias)


def seen_records(settings: Settings, cohort: Cohort) -> Records:
    """The cohort ready for batches, with only what the settings let the network see."""
    architecture = settings.architecture
    seen = replace(
        cohort,
        attributes=cohort.attributes if architecture.use_attributes else {},
        days=cohort.days if architecture.use_days else None,
    )
    return Records(seen, architecture.context)


def scaffold_bias(settings: Settings, prevalence: Prevalence) -> Tensor:
    """The scaffold of the settings as a tensor (codes,), permuted where the settings say so."""
    bias = Scaffold(prevalence, settings.tempering, settings.epsilon).bias
    if settings.permuted:
        bias = bias[random_stream(settings.seed, "permuted").permutation(len(bias))]
    return torch.from_numpy(bias).float()
