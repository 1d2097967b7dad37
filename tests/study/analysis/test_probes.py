from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.data.cooccurrence import cooccurrence_counts
from adapcla.errors import InputError, UsageError
from adapcla.study.analysis.probes import Probe, ProbeKind, ProbeSet, probe_set

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
