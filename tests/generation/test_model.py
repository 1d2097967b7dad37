"""What a fit leaves behind."""

from __future__ import annotations

import numpy as np

from adapcla.data.split import Split
from adapcla.generation import Generator
from adapcla.generation.model import seen_records
from adapcla.io import simulator as planted
from adapcla.training.settings import Settings, settings_from


def test_a_fit_keeps_aggregates_of_its_cohort(fitted: Generator, parts: Split) -> None:
    kept, train = fitted.model, parts.train
    assert kept.visit_sizes.sum() == train.n_visits
    assert (kept.visit_sizes * np.arange(len(kept.visit_sizes))).sum() == train.n_entries
    assert kept.law.counts.sum() == train.n_patients
    assert kept.longest == train.visits_per_patient.max()


def test_a_network_sees_only_what_its_settings_show():
    histories = planted.simulate(patients=40, codes=60, seed=1)
    assert len(seen_records(Settings(), histories).attribute_names) == 2
    blind = settings_from(Settings(), {"use_attributes": False, "use_days": False})
    records = seen_records(blind, histories)
    assert records.attribute_names == () and records.cohort.days is None
    assert int(np.abs(records.batch(np.arange(3)).gap.numpy()).sum()) == 0
