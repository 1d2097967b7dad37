from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adapcla.errors import UsageError
from adapcla.generation import generator_for
from adapcla.generation.model import seen_records
from adapcla.study.analysis.probes import ProbeKind
from adapcla.study.analysis.trajectories import (
    MEASURES,
    ProbeObserver,
    auc,
    curve_table,
    final_gain,
    mean_gain,
    normalised_auc,
    separation_table,
    summary_table,
    trapezoid_gain,
)


def test_the_papers_summaries_by_hand():
    """log p: −5, −4, −2, −6. Gains 1, 3, −1: AUC 4; T = 3 checkpoints, so normalised 4 / (2 · 3) = 2/3."""
    path = np.array([[-5.0], [-4.0], [-2.0], [-6.0]])
    assert final_gain(path)[0] == -1
    assert auc(path)[0] == 4
    assert normalised_auc(path)[0] == pytest.approx(2 / 3)
    assert mean_gain(path)[0] == 1
    assert trapezoid_gain(path, np.array([0.0, 0.25, 0.5, 1.0]))[0] == pytest.approx(0.125 + 0.5 + 0.75)


@given(st.lists(st.floats(-20, 0), min_size=3, max_size=30))
def test_the_summaries_keep_their_bounds(values):
    path = np.array(values)[:, None]
    checkpoints = len(values) - 1
    assert auc(path)[0] >= 0
    assert 0 <= normalised_auc(path)[0] <= checkpoints / (checkpoints - 1) + 1e-9
    assert auc(path)[0] >= checkpoints * mean_gain(path)[0] - 1e-9


def test_the_first_look_is_before_any_step_and_the_last_after_all(probed):
    path = probed.trajectory
    assert path.steps[0] == 0 and path.steps[-1] == probed.generator.outcome_.n_steps
    assert len(path.steps) == 11
    assert path.weight[0] == 1 and path.weight[-1] == 0
    assert path.log_p.shape == (11, len(path.oracle))


def test_the_oracle_line_is_the_untrained_network_with_the_scaffold_applied(probed, probes):
    """An untrained network starts near logit π̂, so that the scaffold puts every probability near one half."""
    path = probed.trajectory
    at = probes.context, probes.code
    lifted = path.first_logits[at] + path.bias[probes.code]
    assert path.oracle == pytest.approx(-np.log1p(np.exp(-lifted)), abs=1e-5)
    assert np.exp(path.oracle).mean() == pytest.approx(0.5, abs=0.1)


def test_what_is_recorded_is_without_the_scaffold(probed, probes):
    logits = probed.trajectory.last_logits[probes.context, probes.code]
    assert probed.trajectory.log_p[-1] == pytest.approx(-np.log1p(np.exp(-logits.astype(float))), abs=1e-5)


def test_watching_does_not_change_what_is_learned(world, probed):
    from tests.study.analysis.conftest import SMALL

    plain = generator_for("adapcla", patience=1_000_000, **SMALL).fit(world.train, world.valid)
    mine, theirs = plain.model.network.state_dict(), probed.generator.model.network.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_the_last_look_agrees_with_the_network_that_was_kept(probed, probes):
    outcome = probed.generator.outcome_
    assert outcome.best_step == outcome.n_steps, "so short a fit still improves: otherwise earlier weights are kept"
    batch = seen_records(probed.generator.settings, probes.histories).batch(np.arange(probes.n_contexts))
    logits = probed.generator.network_.next_logits(batch).numpy()
    assert np.allclose(logits, probed.trajectory.last_logits, atol=1e-5)


def test_truth_is_known_in_the_planted_world(probed):
    assert probed.trajectory.truth is not None
    assert (probed.trajectory.truth <= 0).all()


def test_tables_have_a_row_for_every_question(probed, probes):
    summary = summary_table(probes, probed.trajectory, (4, 12))
    assert len(summary) == 2 * len(ProbeKind) * len(MEASURES)
    related = summary.row(0, named=True)
    assert related["kind"] == "related_rare" and related["low"] <= related["mean"] <= related["high"]
    separation = separation_table(probes, probed.trajectory, (12,))
    assert set(separation["n"]) <= set(range(probes.n_contexts + 1))
    curves = curve_table(probes, probed.trajectory, 12)
    assert {"all tail", "related_rare"} <= set(curves["kind"])
    first = curves.filter(curves["kind"] == "related_rare").row(0, named=True)
    chosen = probes.of_kind(ProbeKind.RELATED_RARE)
    assert first["log_p"] == pytest.approx(probed.trajectory.log_p[0, chosen].mean())


def test_a_head_without_one_shot_logits_is_refused(probes):
    with pytest.raises(UsageError, match="no one-shot logit"):
        ProbeObserver(generator_for("tailwise"), probes)


def test_nothing_was_seen_before_a_fit(probes):
    with pytest.raises(UsageError, match="no training run"):
        ProbeObserver(generator_for("adapcla", width=16, heads=2), probes).trajectory()
