"""Calibration after training: prevalences and the length of records."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adapcla.data import Cohort
from adapcla.data.split import Split
from adapcla.errors import UsageError
from adapcla.generation import generator_for
from adapcla.generation.calibration import calibrate_prevalence, calibrate_record_length


def test_biases_that_are_off_are_brought_back(parts: Split) -> None:
    """One code comes too rarely, records end too late, codes come again too rarely; twelve rounds put that right."""
    generator = generator_for("tailwise", width=32, layers=1, heads=2, passes=12, batch_size=32, calibration_rounds=0)
    generator.fit(parts.train, parts.valid)
    network, often = generator.network_, int(np.argmax(parts.train.visit_counts))
    with torch.no_grad():
        network.bias[network.rank_of_code[often]] -= 0.8  # type: ignore[index,operator]
        network.bias[-1] -= 0.4  # type: ignore[index,operator]
        network.copy_head -= 1.0  # type: ignore[operator]
    wanted = parts.train.prevalence().share

    def overlap(cohort: Cohort) -> float:
        first = cohort.visits_with_next
        return float(cohort.jaccard(first, first + 1).mean())

    def errors() -> tuple[float, float, float, float]:
        made = generator.sample(5_000, seed=9)
        share = made.prevalence().share
        return (
            abs(float(share.sum() / wanted.sum()) - 1),
            abs(float(share[often] / wanted[often]) - 1),
            abs(float(made.visits_per_patient.mean() / parts.train.visits_per_patient.mean()) - 1),
            abs(overlap(made) / overlap(parts.train) - 1),
        )

    assert min(errors()[1:]) > 0.15
    calibrate_prevalence(generator.model, parts.train, parts.valid, rounds=12)
    assert max(errors()) < 0.1
    facts = generator.model.facts
    assert [line["round"] for line in facts["calibration"]] == list(range(12))
    assert facts["calibration"][-1]["mean difference"] < facts["calibration"][0]["mean difference"] / 3
    loss = -float(generator.log_likelihood(parts.valid).sum()) / parts.valid.n_visits
    assert facts["validation loss per visit"] == pytest.approx(loss)
    assert generator.network_.probability_sum is None


def test_independent_heads_are_not_calibrated(parts: Split) -> None:
    generator = generator_for("adapcla", width=16, layers=1, heads=2, passes=1, calibration_rounds=2)
    with pytest.raises(UsageError, match="calibration_rounds"):
        generator.fit(parts.train, parts.valid)


def test_the_mean_probability_to_go_on_is_that_of_training(parts: Split) -> None:
    """The intercept is moved far off and put back: the mean over training visits is then exact."""
    generator = generator_for("adapcla", width=16, layers=1, heads=2, passes=1, batch_size=64)
    generator.fit(parts.train, parts.valid)
    network = generator.network_
    with torch.no_grad():
        network.going_on.bias -= 1.0  # type: ignore[attr-defined]
    assert calibrate_record_length(generator.model, parts.train) > 0.5
    batch = generator.model.records(parts.train).batch(np.arange(parts.train.n_patients))
    with torch.no_grad():
        chance = torch.sigmoid(network.going_on_logits(batch)).mean()  # type: ignore[attr-defined]
    assert abs(float(chance) - float(batch.continues.mean())) < 1e-3
