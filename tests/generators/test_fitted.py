"""What a fit leaves behind."""

from __future__ import annotations

import numpy as np

from adapcla.generators import NeuralGenerator
from adapcla.records.cohort import Split


def test_a_fit_keeps_aggregates_of_its_cohort(fitted: NeuralGenerator, parts: Split) -> None:
    kept, train = fitted.fitted, parts.train
    assert kept.modules is kept.network
    assert kept.visit_sizes.sum() == train.n_visits
    assert (kept.visit_sizes * np.arange(len(kept.visit_sizes))).sum() == train.n_entries
    assert kept.law.counts.sum() == train.n_patients
    assert kept.longest == train.visits_per_patient.max()
