from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from adapcla.errors import UsageError
from adapcla.io import simulator as planted
from adapcla.scaffold import Ramp, schedule
from adapcla.study.analysis.internalization import ExactSetting, bound_table, certain_curvature, flow, planted_setting


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


def test_the_planted_setting_starts_centred_and_its_table_tells_no_violation():
    setting = planted_setting(planted.law(120), 8, 20.0)
    assert setting.start + setting.bias == pytest.approx(np.zeros(8))
    assert setting.smallest_eigenvalue >= 2 - 1e-9
    table = bound_table(setting, ["base", "none"])
    assert table["violated"].to_list() == [False, False]
    assert (table["last_radius"] <= table["bound"]).all()
    assert np.isnan(table["corollary"][1]) and table["speed"].to_list() == [pytest.approx(0.125), 0.0]


def test_a_schedule_that_jumps_is_refused():
    with pytest.raises(UsageError, match="jumps"):
        flow(random_setting(1, 2, 1.0), Ramp(0.5, 0.5))
