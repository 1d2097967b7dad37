"""The photocopier gives out whole records, evenly, with their days and attributes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adapcla.errors import AdapclaError, UsageError
from adapcla.networks.architecture import CopyArchitecture
from adapcla.networks.batch import Records
from adapcla.networks.contract import DrawRule, Shape
from adapcla.networks.copies import CopyNetwork
from adapcla.networks.draws import Noise
from adapcla.records import Cohort


def filled(cohort: Cohort) -> CopyNetwork:
    sizes = {"patients": cohort.n_patients, "visits": cohort.n_visits, "entries": cohort.n_entries}
    network = CopyNetwork(CopyArchitecture(**sizes), Shape(cohort.n_codes, 12, (2,), True))
    network.take(Records(cohort, 12))
    return network


def test_a_record_is_read_from_its_first_to_its_last_visit(tiny_full):
    """Patients with sex F, M and unknown; the third has {A, B, D}, then {A} seven days later."""
    network = filled(tiny_full)
    noise = Noise(2, np.arange(4), 0)
    state = network.begin(torch.zeros(4, 1, dtype=torch.int64), noise)  # sex unknown: always the third patient
    assert state.records.tolist() == [2, 2, 2, 2]
    who, codes = network.draw_visit(state, DrawRule(), noise)
    assert codes[who == 1].tolist() == [0, 1, 3]
    state = network.absorb(state, (who, codes), np.zeros(4, dtype=np.int64))
    assert network.goes_on(state, noise).all()
    assert network.draw_gap(state, noise).tolist() == [7, 7, 7, 7]
    assert network.draw_visit(network.keep(state, np.array([3])), DrawRule(), noise)[1].tolist() == [0]
    state = network.absorb(state, (who, codes), np.zeros(4, dtype=np.int64))
    assert not network.goes_on(state, noise).any()


def test_records_come_evenly():
    cohort = Cohort.of([[[letter]] for letter in "ABCD"])
    network = CopyNetwork(CopyArchitecture(patients=4, visits=4, entries=4), Shape(4, 12))
    network.take(Records(cohort, 12))
    state = network.begin(torch.zeros(4000, 0, dtype=torch.int64), Noise(2, np.arange(4000), 0))
    assert np.allclose(np.bincount(state.records) / 4000, 0.25, atol=0.03)


def test_copies_cannot_be_changed_trained_or_judged(tiny_full):
    network = filled(tiny_full)
    noise = Noise(2, np.arange(1), 0)
    state = network.begin(torch.ones(1, 1, dtype=torch.int64), noise)
    batch = Records(tiny_full, 12).batch(np.arange(2))
    with pytest.raises(UsageError, match="as they are"):
        network.draw_visit(state, DrawRule(temperature=2.0), noise)
    with pytest.raises(UsageError, match="not trained"):
        network.loss(batch, None)
    with pytest.raises(UsageError, match="no likelihood"):
        network.likelihood(batch)
    with pytest.raises(AdapclaError, match="attributes"):
        network.begin(torch.full((1, 1), 9), noise)
