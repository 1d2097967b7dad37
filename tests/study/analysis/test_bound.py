"""Schedules, bound and identities against their closed forms."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from adapcla.data import Prevalence
from adapcla.errors import UsageError
from adapcla.io import simulator
from adapcla.scaffold import Ramp, schedule, shift
from adapcla.scaffold.steering import logit
from adapcla.study.analysis.bound import (
    FAMILY,
    PAPER,
    WIDTHS,
    ExactSetting,
    centring,
    certain_curvature,
    corners,
    exact_setting,
    explained_share,
    explained_table,
    flow,
    flow_table,
    free_share,
    prior_shift_gap,
    schedule_tables,
    sensitivity,
    slope,
    steepest,
)
from adapcla.study.analysis.probes import MEASURES
from adapcla.study.analysis.run import observed_fit


# ---- schedules -----------------------------------------------------------------------------------------------
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
        (name, 1): observed_fit(
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
    one = schedule_tables(probes, {("base", 1): probed.trajectory})[0]
    two = schedule_tables(probes, {("base", 1): probed.trajectory, ("base", 2): probed.trajectory})[0]
    assert two["fit_seeds"].unique().to_list() == [2]
    assert one.drop("fit_seeds").equals(two.drop("fit_seeds"))


# ---- internalization -----------------------------------------------------------------------------------------
def random_setting(seed: int, n: int, horizon: float) -> ExactSetting:
    draw = np.random.default_rng(seed)
    root = draw.normal(size=(n, n))
    share = 10 ** draw.uniform(-3, -0.3, n)
    bias = np.log((1 - share) / share) * draw.choice([1.0, 1.0, -1.0, 0.3])
    start = -bias + draw.normal(size=n)
    return ExactSetting(root @ root.T / n + 0.2 * np.eye(n), draw.normal(-2, 1.5, n), bias, start, horizon)


ramps = st.tuples(st.integers(0, 9), st.integers(1, 10)).filter(lambda p: p[0] < p[1])


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([0.5, 20.0, 500.0]), ramps)
def test_the_bound_is_never_crossed(seed, n, horizon, ramp):
    run = flow(random_setting(seed, n, horizon), Ramp(ramp[0] / 10, ramp[1] / 10), points=41)
    assert run.certain_curvature <= run.path_curvature * (1 + 1e-9)
    for curvature in (run.certain_curvature, run.path_curvature):
        assert (run.radius <= run.bound(curvature) * (1 + 1e-6) + 1e-9).all()
        assert (run.radius <= run.sharp_bound(curvature) * (1 + 1e-6) + 1e-9).all()
        assert (run.sharp_bound(curvature) <= run.bound(curvature) * (1 + 1e-9)).all()
        assert run.endpoint_deviation <= run.corollary(curvature) * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("name", ["cosine", "linear", "none", "constant", "base"])
def test_named_schedules_obey_it_too(name):
    run = flow(random_setting(3, 4, 30.0), schedule(name))
    assert (run.radius <= run.bound(run.path_curvature) * (1 + 1e-6)).all()
    assert (run.radius <= run.sharp_bound(run.path_curvature) * (1 + 1e-6)).all()


def test_one_code_without_a_scaffold_by_hand():
    """ė = −k (σ(e) − ½) = −(k/2) tanh(e/2), so that d/dt ln sinh(e/2) = ½ coth(e/2) ė = −k/4."""
    setting = ExactSetting(np.array([[2.0]]), np.zeros(1), np.ones(1), np.array([3.0]), horizon=4.0)
    run = flow(setting, schedule("none"))
    assert np.sinh(run.error[-1, 0] / 2) == pytest.approx(np.sinh(1.5) * np.exp(-2.0 * 4.0 / 4), rel=1e-6)


def test_the_flow_is_the_flow_of_the_logits():
    """Small Euler steps of ż = −K (σ(z + αb) − p), without the error coordinates, end at the same place."""
    setting, plan = random_setting(5, 3, 2.0), schedule("base")
    run = flow(setting, plan)
    logits, n = setting.start.copy(), 20_000
    for step in range(n):
        pull = expit(logits + plan.weight((step + 0.5) / n) * setting.bias) - expit(setting.optimum)
        logits -= setting.horizon / n * setting.kernel @ pull
    assert logits - setting.optimum == pytest.approx(run.error[-1], abs=2e-3)
    moved = setting.norm(logits - setting.start - setting.bias)[0]
    assert run.endpoint_deviation == pytest.approx(moved, abs=5e-3)


def test_a_long_flow_forgets_the_scaffold():
    """Whatever the schedule, the logits end at the optimum: the scaffold leaves nothing behind in the end."""
    setting = random_setting(8, 3, 1e5)
    for name in ("base", "fast", "none"):
        assert flow(setting, schedule(name)).radius[-1] < 1e-3


def test_a_flow_that_starts_at_the_moving_optimum_has_the_ideal_endpoint_when_it_is_slow():
    """z_0 = z̃* − b gives e_0 = 0; then z_T − z_0 is nearly b for a long horizon and not for a short one."""
    draw = random_setting(9, 3, 1.0)
    ideal = ExactSetting(draw.kernel, draw.optimum, draw.bias, draw.optimum - draw.bias, 1e5)
    hasty = ExactSetting(draw.kernel, draw.optimum, draw.bias, draw.optimum - draw.bias, 0.1)
    assert flow(ideal, schedule("linear")).endpoint_deviation < 0.05
    assert flow(hasty, schedule("linear")).endpoint_deviation > 10 * flow(ideal, schedule("linear")).endpoint_deviation


def test_the_certain_curvature_is_a_curvature():
    setting = random_setting(1, 4, 10.0)
    assert 0 < certain_curvature(setting, schedule("base")) <= 0.25


def test_a_singular_kernel_is_refused():
    with pytest.raises(UsageError, match="positive definite"):
        ExactSetting(np.ones((2, 2)), np.zeros(2), np.zeros(2), np.zeros(2))


def test_the_exact_setting_starts_centred_and_its_table_has_no_violation():
    setting = exact_setting(simulator.make_world(120), 8, 20.0)
    assert setting.start + setting.bias == pytest.approx(np.zeros(8))
    assert setting.smallest_eigenvalue >= 2 - 1e-9
    table = flow_table([flow(setting, schedule(name)) for name in ("base", "none")])
    assert table["violated"].to_list() == [False, False]
    assert (table["last_radius"] <= table["bound"]).all()
    assert np.isnan(table["corollary"][1]) and table["speed"].to_list() == [pytest.approx(0.125), 0.0]


def test_a_schedule_that_jumps_is_refused():
    with pytest.raises(UsageError, match="jumps"):
        flow(random_setting(1, 2, 1.0), Ramp(0.5, 0.5))


# ---- identities ----------------------------------------------------------------------------------------------
shares = st.floats(1e-5, 0.999)


@given(st.lists(shares, min_size=1, max_size=20), st.floats(0.01, 3))
def test_only_the_scaffold_centres(values, apart):
    prevalence = Prevalence.of({f"C{i:02d}": share for i, share in enumerate(values)})
    found = centring(prevalence, apart)
    assert found.off_centre < 1e-12
    assert found.sensitivity == pytest.approx(0.25)
    assert found.sensitivity_elsewhere < 0.25
    assert found.n_codes == len(values)


def test_the_sigmoid_is_steepest_at_zero():
    line = np.linspace(-5, 5, 101)
    assert line[np.argmax(sensitivity(line))] == pytest.approx(0)


@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)), min_size=2, max_size=6),
    st.floats(1e-4, 0.9),
    st.floats(1e-4, 0.9),
)
def test_the_shift_is_bayes_rule(likelihoods, source, target):
    """P(x | code) and P(x | no code) are the same in both populations; only the prior differs."""
    present, absent = (np.array(side) / sum(side) for side in zip(*likelihoods, strict=True))
    before, after = (prior * present / (prior * present + (1 - prior) * absent) for prior in (source, target))
    delta = shift(Prevalence.of({"C": source}), Prevalence.of({"C": target})).delta[0]
    assert logit(after) - logit(before) == pytest.approx(delta, abs=1e-9)


def test_the_shift_is_exact_for_simulated_patients_at_every_history():
    law, shifted = simulator.make_world(120), simulator.make_world(120, population="shifted")
    cohort = simulator.simulate(patients=40, codes=120, seed=1)
    assert prior_shift_gap(law, shifted, law.after_visits(cohort)) < 1e-9
    assert (shifted.code_shift != 0).any()


def test_another_structure_does_not_pass():
    law, deep = simulator.make_world(120), simulator.make_world(120, population="deep")
    cohort = simulator.simulate(patients=200, codes=120, seed=1)
    assert prior_shift_gap(law, deep, law.after_visits(cohort)) > 0.01
