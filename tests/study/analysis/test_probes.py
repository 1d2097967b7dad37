"""Probes: which are chosen, what is recorded along training, and how it is summarised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Cohort
from adapcla.data.cooccurrence import cooccurrence_counts
from adapcla.errors import InputError, UsageError
from adapcla.generation import generator_for
from adapcla.generation.model import seen_records
from adapcla.io import simulator
from adapcla.study.analysis.probes import (
    MEASURES,
    Probe,
    ProbeKind,
    ProbeObserver,
    ProbeSet,
    curve_table,
    endpoint_table,
    final_gain,
    gain_auc,
    mean_gain,
    next_visits,
    normalised_auc,
    probe_set,
    separation_table,
    summary_table,
    trapezoid_gain,
    true_next_visit,
)


# ---- histories -----------------------------------------------------------------------------------------------
def test_the_cut_keeps_days_and_attributes_and_loses_only_the_last_visit(tiny_full):
    """Patients 0 and 2 have two visits: {A, B} then {B}, and {A, B, D} then {A}."""
    cut = next_visits(tiny_full)
    assert list(cut.histories.patients()) == [[["A", "B"]], [["A", "B", "D"]]]
    assert cut.following.toarray().tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]
    assert cut.patients.tolist() == [0, 2]
    assert cut.histories.attributes["sex"].values.tolist() == [0, -1]
    assert cut.histories.days.tolist() == [0, 0]
    assert cut.history_codes.toarray().tolist() == [[1, 1, 0, 0], [1, 1, 0, 1]]


def test_histories_that_a_network_would_cut_are_left_out():
    cohort = simulator.simulate(patients=100, codes=60, seed=1)
    assert next_visits(cohort, longest=1).histories.visits_per_patient.max() == 1


def test_the_true_chances_are_those_of_the_world():
    cohort = simulator.simulate(patients=60, codes=60, seed=2)
    cut = next_visits(cohort)
    world = simulator.make_world(60)
    expected = world.next_visit(world.before_visits(cohort).rows(cohort.last_visits[cut.patients]))
    assert true_next_visit(cut.histories) == pytest.approx(expected)


# ---- probes --------------------------------------------------------------------------------------------------
#: Counts 20, 20, 8, 6, 3, 2: the tail is T1, T2, the mid M1, M2, the head H1, H2.
TRAIN = Cohort.of(
    [[["H1"]]] * 9
    + [[["H2"]]] * 9
    + [[["H1", "M1"]]] * 8
    + [[["H2", "M2"]]] * 6
    + [[["H1", "T1"]]] * 3
    + [[["H2", "T2"]]] * 2
    + [[["H2"]]] * 3
)


def held_out(own_last: list[str]) -> Cohort:
    """A patient who shows H1 and then `own_last`; four others: T1 stands with H1, T2 with H2."""
    others = [[["H1", "T1"]], [["H1", "T1"]], [["H2", "T2"]], [["H2", "T2"]]]
    return Cohort.of([[["H1"], own_last], *others], TRAIN.vocabulary)


def kinds(found: ProbeSet) -> dict[str, list[str]]:
    tokens = TRAIN.vocabulary.tokens
    out: dict[str, list[str]] = {}
    for probe in found.probes:
        out.setdefault(probe.kind.value, []).append(tokens[probe.code])
    return out


def test_the_rule_by_hand():
    """At history {H1}, without the patient's own visits: 4 visits, T1 in 2 and H1 in 2, together in 2.

    Lift of T1 with H1 is 2 · 4 / (2 · 2) = 2. T2 never stands with H1: lift 0. H2 and M2 never stand with H1 in
    training; H2 is more frequent.
    """
    found = probe_set(TRAIN, held_out(["H1"]), 5)
    assert found.n_contexts == 1
    assert kinds(found) == {"related_rare": ["T1"], "unrelated_rare": ["T2"], "wrong": ["H2", "M2"]}
    related = found.probes[0]
    assert (related.lift, related.support) == (2.0, 2)


def test_what_follows_the_history_plays_no_part():
    assert kinds(probe_set(TRAIN, held_out(["T1", "H1"]), 5)) == kinds(probe_set(TRAIN, held_out(["H2"]), 5))


def test_support_in_the_own_record_does_not_count():
    alone = Cohort.of([[["H1"], ["H1", "T1"]], [["H1", "T1"]], [["H2", "T2"]], [["H2", "T2"]]], TRAIN.vocabulary)
    with pytest.raises(InputError, match="no held-out history"):
        probe_set(TRAIN, alone, 5)


def test_the_rule_holds_on_every_probe_of_a_world(world, probes):
    strata = world.train.strata()
    together = cooccurrence_counts(world.train)
    seen = probes.histories.patient_matrix()
    for probe in probes.probes:
        codes = seen[[probe.context]].indices
        assert probe.code not in codes
        if probe.kind is ProbeKind.WRONG:
            assert strata.mid[probe.code] or strata.head[probe.code]
            assert together[codes][:, [probe.code]].sum() == 0
        else:
            assert strata.tail[probe.code]
        if probe.kind is ProbeKind.RELATED_RARE:
            assert probe.lift > 1 and probe.support >= 2
        if probe.kind is ProbeKind.UNRELATED_RARE:
            assert probe.lift <= 1


def test_a_smaller_set_is_the_beginning_of_a_larger_one(world):
    small, large = probe_set(world.train, world.test, 4), probe_set(world.train, world.test, 8)
    assert small.probes == tuple(large.probes[i] for i in large.first(4))


def test_contexts_with_all_kinds_come_first(probes):
    whole = [len({p.kind for p in probes.probes if p.context == c}) == 3 for c in range(probes.n_contexts)]
    assert whole == sorted(whole, reverse=True)
    assert probes.n_without_wrong == whole.count(False)


def test_unrelated_codes_are_of_like_count(probes):
    table = probes.table()
    related = table.filter(table["kind"] == "related_rare")["train_count"].mean()
    unrelated = table.filter(table["kind"] == "unrelated_rare")["train_count"].mean()
    assert unrelated == pytest.approx(related, abs=3)


def test_a_set_without_patients_says_so():
    bare = ProbeSet((Probe(0, 1, ProbeKind.WRONG, 0.0, 0),), TRAIN.strata(), 1)
    assert bare.of_kind(ProbeKind.WRONG).tolist() == [0]
    assert np.array_equal(bare.code, [1])
    with pytest.raises(UsageError, match="no patients"):
        _ = bare.histories


# ---- trajectories --------------------------------------------------------------------------------------------
def test_the_papers_summaries_by_hand():
    """log p: −5, −4, −2, −6. Gains 1, 3, −1: AUC 4; T = 3 checkpoints, so normalised 4 / (2 · 3) = 2/3."""
    path = np.array([[-5.0], [-4.0], [-2.0], [-6.0]])
    assert final_gain(path)[0] == -1
    assert gain_auc(path)[0] == 4
    assert normalised_auc(path)[0] == pytest.approx(2 / 3)
    assert mean_gain(path)[0] == 1
    assert trapezoid_gain(path, np.array([0.0, 0.25, 0.5, 1.0]))[0] == pytest.approx(0.125 + 0.5 + 0.75)


@given(st.lists(st.floats(-20, 0), min_size=3, max_size=30))
def test_the_summaries_keep_their_bounds(values):
    path = np.array(values)[:, None]
    checkpoints = len(values) - 1
    assert gain_auc(path)[0] >= 0
    assert 0 <= normalised_auc(path)[0] <= checkpoints / (checkpoints - 1) + 1e-9
    assert gain_auc(path)[0] >= checkpoints * mean_gain(path)[0] - 1e-9


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
    network = probed.generator.network_
    records = seen_records(probed.generator.settings, probes.histories, network.order)
    logits = network.next_logits(records.batch(np.arange(probes.n_contexts))).detach().numpy()
    logits = logits[:, network.order.position_of]
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


# ---- endpoint ------------------------------------------------------------------------------------------------
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
