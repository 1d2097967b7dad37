"""Folding the prevalence into the output bias."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from adapcla.data.split import Split
from adapcla.generation import generator_for
from adapcla.generation.calibration import bands, fold_prevalence, settle_record_length


def test_a_bias_that_is_off_is_brought_back(parts: Split) -> None:
    """Every code's bias is raised by 1.2, about twice too often; four rounds bring every judged band near one.

    How near a band can come is bounded by what a pilot says of it: with n expected occurrences its ratio is known to
    1/√n, so that three times that is allowed, and 0.05 for what the rounds leave. A new sample is judged.
    """
    generator = generator_for("adapcla", width=16, layers=1, heads=2, passes=4, batch_size=64)
    generator.fit(parts.train, parts.valid)
    head = generator.network_.head  # type: ignore[attr-defined]
    with torch.no_grad():
        head.bias += 1.2
    band, share = bands(parts.train.visit_counts), parts.train.expected_prevalence().share
    present = band >= 0

    def by_band(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(band[present], values[present])

    def error() -> NDArray[np.float64]:
        ratio = by_band(generator.sample(5_000, seed=9).prevalence().share) / np.maximum(by_band(share), 1e-12)
        return np.abs(ratio - 1)

    occurrences = by_band(share) * generator.sample(1_000, seed=9).n_visits  # in a pilot
    judged = occurrences >= 30
    allowed = 3 / np.sqrt(np.maximum(occurrences, 1)) + 0.05
    assert (error() > allowed)[judged].mean() > 0.6
    fold_prevalence(generator.model, parts.train, rounds=4)
    left = error()
    assert judged.sum() >= 10
    assert (left < allowed)[judged].all()
    assert left[occurrences > 500].max() < 0.08


def test_codes_never_seen_have_no_band() -> None:
    assert bands(np.array([0, 2, 3])).tolist() == [-1, 1, 2]


def test_the_mean_chance_to_go_on_is_that_of_training(parts: Split) -> None:
    """The intercept is moved far off and put back: the mean over training visits is then exact."""
    generator = generator_for("adapcla", width=16, layers=1, heads=2, passes=1, batch_size=64)
    generator.fit(parts.train, parts.valid)
    network = generator.network_
    with torch.no_grad():
        network.going_on.bias -= 1.0  # type: ignore[attr-defined]
    assert settle_record_length(generator.model, parts.train) > 0.5
    batch = generator.model.records(parts.train).batch(np.arange(parts.train.n_patients))
    with torch.no_grad():
        chance = torch.sigmoid(network.going_on_logits(batch)).mean()  # type: ignore[attr-defined]
    assert abs(float(chance) - float(batch.continues.mean())) < 1e-3


def test_a_frequent_code_is_corrected_for_itself(parts: Split) -> None:
    """One frequent code's bias is lowered by 1.5 while its band stays right on the whole: only its own ratio tells."""
    generator = generator_for("adapcla", width=16, layers=1, heads=2, passes=4, batch_size=64)
    generator.fit(parts.train, parts.valid)
    often = int(np.argsort(-parts.train.visit_counts)[0])
    network = generator.network_
    with torch.no_grad():
        network.head.bias[network.rank_of_code[often]] -= 1.5  # type: ignore[attr-defined,index,union-attr]

    def share() -> float:
        return float(generator.sample(2000, seed=9).prevalence().share[often])

    wanted, before = float(parts.train.prevalence().share[often]), share()
    fold_prevalence(generator.model, parts.train, rounds=4)
    assert abs(share() - wanted) < 0.35 * abs(before - wanted)
