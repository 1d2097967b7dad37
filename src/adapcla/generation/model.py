"""A fitted model: its settings and everything that the fit left behind; what a saved folder holds.

A model that learned numbers keeps their bins. Networks see quantised patients, people raw ones: codes and numbers as
the source has them. The functions at the end go from one form to the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adapcla.data import Cohort, Kind, Origin, Prevalence, Vocabulary
from adapcla.data.attributes import AttributeDistribution
from adapcla.data.criteria import Criteria
from adapcla.data.quantization import Quantizer
from adapcla.errors import InputError, UsageError
from adapcla.models.base import Network, Shape, Traits
from adapcla.models.batch import CodeOrder, Records
from adapcla.scaffold import Scaffold
from adapcla.seeds import random_stream
from adapcla.training.settings import Settings

#: Patients whose likelihood is computed together.
_AT_ONCE = 1024


@dataclass(eq=False)
class Model:
    """A fitted model; fitting, sampling, steering, continuing and saving are functions on it."""

    settings: Settings
    network: Network
    prevalence: Prevalence
    attribute_distribution: AttributeDistribution
    shape: Shape
    #: Number of codes of training visits: value i is the count of visits with i codes.
    visit_sizes: NDArray[np.int64]
    #: Visits of the longest record that is drawn.
    longest: int
    facts: dict[str, Any]
    #: Whether it was saved without small counts, to be given away.
    shareable: bool = False
    #: How the numbers of the cohort became choices; None where it has none.
    quantizer: Quantizer | None = None

    @property
    def method(self) -> str:
        """The row of the method table."""
        return self.settings.method

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary that the network learned: bins in the place of numbers."""
        return self.prevalence.vocabulary

    @property
    def raw_vocabulary(self) -> Vocabulary:
        """The vocabulary of the training cohort."""
        return self.vocabulary if self.quantizer is None else self.quantizer.raw_vocabulary

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
        """The scaffold (codes,), by position, where sampling keeps it: Static-PCLA."""
        if not self.settings.bias_at_inference:
            return None
        return self.network.order.arrange(scaffold_bias(self.settings, self.prevalence))

    def quantize(self, cohort: Cohort) -> Cohort:
        """The cohort as the network sees it: on its vocabulary, with bins in the place of numbers."""
        if self.quantizer is None or cohort.vocabulary == self.vocabulary:
            return cohort.on(self.vocabulary)
        quantized = self.quantizer.quantize(cohort)
        if quantized.n_patients < cohort.n_patients:
            raise InputError(
                f"{cohort.n_patients - quantized.n_patients} patients of whom the model knows no code",
                expected="more of each patient than numbers that too few training patients have",
                remedy="leave these patients out",
            )
        return quantized

    def records(self, cohort: Cohort) -> Records:
        """The cohort ready for batches, as this model sees it."""
        return seen_records(self.settings, self.quantize(cohort), self.network.order)

    @torch.no_grad()
    def log_likelihood(self, cohort: Cohort) -> NDArray[np.float64]:
        """Log-likelihood of each patient's record, in nats."""
        self.network.eval()
        records, bias, parts = self.records(cohort), self.inference_bias, []
        for low in range(0, cohort.n_patients, _AT_ONCE):
            batch = records.batch(np.arange(low, min(low + _AT_ONCE, cohort.n_patients)))
            parts.append(-self.network.likelihood(batch, bias).record.numpy())
        return np.concatenate(parts)


def seen_records(settings: Settings, cohort: Cohort, order: CodeOrder | None = None) -> Records:
    """The cohort ready for batches, with only what the settings let the network see."""
    architecture = settings.architecture
    seen = replace(
        cohort,
        attributes=cohort.attributes if architecture.use_attributes else {},
        days=cohort.days if architecture.use_days else None,
    )
    return Records(seen, architecture.context, order)


def scaffold_bias(settings: Settings, prevalence: Prevalence) -> Tensor:
    """The scaffold of the settings as a tensor (codes,), permuted where the settings say so."""
    bias = Scaffold(prevalence, settings.tempering, settings.epsilon).bias
    if settings.permuted:
        bias = bias[random_stream(settings.seed, "permuted").permutation(len(bias))]
    return torch.from_numpy(bias).float()


def has_choices(vocabulary: Vocabulary) -> bool:
    """Whether a network must draw one code of several: of a choice group, or of the bins of a number.

    >>> from adapcla.data.vocabulary import DEATH, LENGTH_OF_STAY
    >>> [has_choices(Vocabulary.of([code])) for code in (DEATH, LENGTH_OF_STAY, "A")]
    [True, True, False]
    """
    return bool(vocabulary.groups) or bool(vocabulary.numbers.any())


def refuse_unlearnable(settings: Settings, train: Cohort) -> None:
    """Raise where a cohort has choice groups or numbers that a method has no room for."""
    if not has_choices(train.vocabulary):
        return
    has = "choice groups (kind, length and ending of visits) or values"
    if settings.privacy is not None:
        raise UsageError(
            f"differential privacy: this cohort has {has}, whose bins and chances ε would not cover\n"
            "to do: read it without them (--domains dx,px,rx)"
        )
    if not settings.architecture.chooses:
        raise UsageError(
            f"{settings.method} has no way to draw one code of a group, and this cohort has {has}\n"
            "to do: read it without them (--domains dx,px,rx), or take adapcla, tailwise, lstm, gpt or marginal"
        )


def quantize_known(model: Model, cohort: Cohort) -> Cohort:
    """The cohort as the network sees it, without the codes that the model does not know."""
    known = model.raw_vocabulary.positions(cohort.vocabulary.tokens) >= 0
    if cohort.vocabulary == model.vocabulary:
        return cohort
    return model.quantize(cohort if known.all() else cohort.keep_codes(known))


def dequantize(model: Model, cohort: Cohort, seed: int, first: int = 0) -> Cohort:
    """Drawn patients with numbers in the place of bins; `first` is the number of the first of them."""
    return cohort if model.quantizer is None else model.quantizer.dequantize(cohort, seed, first)


def quantize_prevalence(model: Model, target: Cohort | Prevalence) -> Prevalence:
    """The prevalences of a cohort, or given ones, with bins in the place of numbers."""
    if model.quantizer is None:
        return target.prevalence() if isinstance(target, Cohort) else target
    if isinstance(target, Prevalence):
        return model.quantizer.spread_target(target, model.prevalence)
    have = zip(target.vocabulary.codes, target.prevalence().share, strict=True)
    shares = {code.token: (code, share) for code, share in have}
    for number in model.quantizer.numbers:
        position = target.vocabulary.index.get(number.code.token)
        if position is None or target.values is None:
            continue
        del shares[number.code.token]
        band = number.bin_of(np.asarray(target.values)[np.asarray(target.codes) == position])
        counts = np.bincount(band, minlength=number.n_bins)
        found = zip(number.codes(), counts / max(target.n_visits, 1), strict=True)
        shares |= {code.token: (code, share) for code, share in found}
    vocabulary = Vocabulary.of(code for code, _ in shares.values())
    share = np.array([shares[token][1] for token in vocabulary.tokens], dtype=float)
    return Prevalence(vocabulary, share, target.n_visits)


def quantize_condition(model: Model, condition: Criteria) -> Criteria:
    """The condition in the words of the network: a number is any of its bins."""
    return condition if model.quantizer is None else model.quantizer.translate(condition)


def refuse_dead_histories(history: Cohort) -> None:
    """Raise where a history that is to be continued ends with death."""
    n_dead = int(history.died().sum())
    if n_dead:
        raise InputError(
            f"{n_dead} of {history.n_patients} histories end with death",
            expected="patients who may have another visit",
            remedy="leave these patients out",
        )
