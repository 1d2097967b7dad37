from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adapcla.study.analysis.endpoint import endpoint_table


def with_drift(probed, drift):
    path = probed.trajectory
    return replace(path, last_logits=(path.first_logits + drift).astype(np.float32))


def test_a_network_that_moved_by_the_scaffold_has_taken_all_of_it(probed, probes):
    table = endpoint_table(with_drift(probed, probed.trajectory.bias), probes.strata)
    assert table["deviation"].to_numpy() == pytest.approx(np.zeros(4), abs=1e-5)
    assert table["share_internalised"].to_numpy() == pytest.approx(np.ones(4), abs=1e-5)


def test_a_network_that_did_not_move_is_off_by_the_scaffold(probed, probes):
    table = endpoint_table(with_drift(probed, 0.0), probes.strata, seed=7)
    assert table["deviation"].to_numpy() == pytest.approx(table["bias"].to_numpy())
    assert table["share_internalised"].to_list() == [0, 0, 0, 0]
    assert table["seed"].to_list() == [7] * 4


def test_the_tail_row_is_about_the_tail(probed, probes):
    drift = np.where(probes.strata.tail, probed.trajectory.bias, 0.0)
    table = {row["stratum"]: row for row in endpoint_table(with_drift(probed, drift), probes.strata).to_dicts()}
    assert table["tail"]["deviation"] < 1e-5 < table["head"]["deviation"]
    assert table["tail"]["codes"] == int(probes.strata.tail.sum())
