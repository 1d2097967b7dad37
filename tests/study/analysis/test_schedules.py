from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from adapcla.scaffold import schedule
from adapcla.study.analysis.probed_fit import probed_fit
from adapcla.study.analysis.schedules import (
    FAMILY,
    PAPER,
    WIDTHS,
    corners,
    explained_share,
    explained_table,
    free_share,
    schedule_tables,
    slope,
    steepest,
)
from adapcla.study.analysis.trajectories import MEASURES


@pytest.mark.parametrize("name", FAMILY)
def test_the_slope_is_the_change_of_the_weight(name):
    plan = schedule(name)
    for progress in (0.05, 0.37, 0.62, 0.95):
        change = (plan.weight(progress + 1e-6) - plan.weight(progress - 1e-6)) / 2e-6
        assert slope(plan, progress) == pytest.approx(change, abs=1e-4)
        assert abs(change) <= steepest(plan) + 1e-4


def test_ramps_in_closed_form():
    """∫(1 − α) of a ramp from h to r is 1 − (h + r) / 2."""
    assert free_share(schedule("ramp:0.3,0.9")) == pytest.approx(0.4, abs=1e-6)
    assert free_share(schedule("none")) == 1 and free_share(schedule("constant")) == 0


def test_the_papers_ramps_share_a_slope_and_the_family_does_not():
    assert len({round(steepest(schedule(name)), 9) for name in ("slow", "base", "fast")}) == 1
    assert len({round(steepest(schedule(name)), 9) for name in WIDTHS}) == len(WIDTHS)
    assert {corners(schedule(name))[1] for name in WIDTHS} == {0.3}
    assert set(PAPER) | set(WIDTHS) == set(FAMILY)


def test_logits_that_only_track_the_scaffold_are_explained_by_time_alone():
    """log p_t − log p_0 = b (1 − α): then AUC is b · T · ∫(1 − α) and nothing is left to explain."""
    progress = np.linspace(0, 1, 101)
    rows = []
    for name in FAMILY:
        gains = np.array([1 - schedule(name).weight(p) for p in progress[1:]])
        rows.append({"schedule": name, "seed": 1, "auc": [b * gains.sum() for b in (2.0, 5.0)]})
    table = explained_table(rows, ["auc"])
    free = table.filter(pl.col("by") == "free_share").row(0, named=True)
    steep = table.filter(pl.col("by") == "steepest").row(0, named=True)
    assert free["between"] == pytest.approx(1.0, abs=1e-3)
    assert 0.5 < free["within"] <= 1.0
    assert steep["between"] < 0.7


def test_what_does_not_vary_explains_nothing():
    assert np.isnan(explained_share(np.ones(4), np.arange(4.0)))
    assert explained_share(np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.0, 1.0, 2.0, 2.0])) == 0


def test_schedules_share_their_start_and_their_steps(world, probes):
    from tests.study.analysis.conftest import SMALL

    paths = {
        (name, 1): probed_fit(
            world.train, world.valid, probes, changes={**SMALL, "passes": 1, "schedule": name, "seed": 1}, looks=6
        ).trajectory
        for name in ("fast", "slow", "none")
    }
    fast, slow = paths["fast", 1], paths["slow", 1]
    assert np.array_equal(fast.log_p[0], slow.log_p[0])
    assert fast.steps[-1] == slow.steps[-1]
    assert not np.array_equal(fast.log_p[-1], slow.log_p[-1])
    summary, explained, endpoint = schedule_tables(probes, paths)
    assert len(summary) == 3 * len(MEASURES)
    assert summary.filter(summary["schedule"] == "slow")["free_share"][0] == pytest.approx(0.3, abs=1e-6)
    assert set(explained["by"]) == {"free_share", "steepest"}
    assert len(endpoint) == 3 * 4


def test_seeds_are_no_more_contexts(probed, probes):
    """The same trajectory as two fit seeds: the same means and the same spread, from as many probes."""
    one = schedule_tables(probes, {("base", 1): probed.trajectory}).summary
    two = schedule_tables(probes, {("base", 1): probed.trajectory, ("base", 2): probed.trajectory}).summary
    assert two["fit_seeds"].unique().to_list() == [2]
    assert one.drop("fit_seeds").equals(two.drop("fit_seeds"))
