"""What few real patients hold: sets by hand, gaps by hand and against a plain loop, standard errors by simulation."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapcla.data import Cohort
from adapcla.data.fingerprints import code_keys
from adapcla.evaluation.comparison import ALL, Comparison, Missing
from adapcla.evaluation.metric import METRICS
from adapcla.evaluation.privacy import singletons
from adapcla.evaluation.privacy.groups import RealPatients
from adapcla.evaluation.privacy.singletons import (
    Gap,
    census_of,
    few_holders,
    holder_gaps,
    is_written,
    pairs,
    records,
    set_features,
    transitions,
    triples,
    visits,
)
from adapcla.seeds import random_stream

CODES = list("ABCDEF")
PATIENTS = st.lists(
    st.lists(st.sets(st.sampled_from(CODES), min_size=1), min_size=1, max_size=3), min_size=1, max_size=8
)


def plain_sets(kind, record):
    """The sets of one record, by a loop."""
    if kind is pairs or kind is triples:
        return {c for visit in record for c in combinations(sorted(visit), 2 if kind is pairs else 3)}
    if kind is transitions:
        return {(a, b) for here, after in pairwise(record) for a in here for b in after}
    if kind is visits:
        return {tuple(sorted(visit)) for visit in record if len(visit) >= 3}
    return {tuple(tuple(sorted(visit)) for visit in record)} if sum(map(len, record)) >= 6 else set()


@settings(max_examples=60)
@given(PATIENTS, st.sampled_from([pairs, triples, transitions, visits, records]), st.integers(1, 3))
def test_sets_of_few_holders_are_those_of_a_plain_loop(patients, kind, few):
    cohort = Cohort.of(patients, CODES)
    census = census_of(cohort, code_keys(cohort.vocabulary))
    held = few_holders(kind(cohort, census), census, few)
    holders = defaultdict(set)
    for patient, record in enumerate(patients):
        for each in plain_sets(kind, record):
            holders[each].add(patient)
    expected = sorted(sorted(who) for who in holders.values() if len(who) <= few)
    assert sorted(sorted(held.patient[a:b].tolist()) for a, b in pairwise(held.starts)) == expected


@pytest.mark.parametrize("kind", [pairs, triples, transitions])
def test_a_share_of_the_sets_is_a_part_of_them_with_the_same_holders(kind):
    random = random_stream(1, "share")
    everybody = [[random.choice(80, 6, replace=False).astype(str).tolist() for _ in range(2)] for _ in range(200)]
    cohort = Cohort.of(everybody)
    keys = code_keys(cohort.vocabulary)
    whole, part = (few_holders(kind(cohort, c), c, 99) for c in (census_of(cohort, keys), census_of(cohort, keys, 0.3)))
    assert 0.2 < len(part.key) / len(whole.key) < 0.4
    same = whole.only(np.isin(whole.key, part.key))
    one, other = (dict(zip(h.key.tolist(), h.holders.tolist(), strict=True)) for h in (same, part))
    assert one == other and is_written(part, kind(cohort, part.census)).all()


def world(n_members: int, n_controls: int) -> RealPatients:
    """Patients whose pairs nobody else holds: patient k holds three codes of its own."""
    everybody = [[[f"{3 * k + j:06d}" for j in range(3)]] for k in range(n_members + n_controls)]
    cohort = Cohort.of(everybody)
    return RealPatients.of(cohort.subset(range(n_members)), cohort.subset(range(n_members, n_members + n_controls)), 1)


def pairs_of(real: RealPatients, few: int):
    census = census_of(real.pool, real.keys)
    return few_holders(pairs(real.pool, census), census, few)


def test_the_gap_of_singletons_is_the_difference_of_shares(monkeypatch):
    """Of 100 members 30 are written, of 60 controls 6: .3 − .1 in one stratum of equally rare sets."""
    real = world(100, 60)
    held = pairs_of(real, 6)
    written = (held.patient < 30) | ((held.patient >= 100) & (held.patient < 106))
    monkeypatch.setattr(singletons, "STRATA_OF_SETS", 1)
    gap = holder_gaps(held, written, real, 1)[ALL]
    assert isinstance(gap, Gap) and gap.value == pytest.approx(0.2)
    # As of two shares at the pooled share 36/160: three pairs of a patient are one piece of evidence.
    assert gap.error == pytest.approx(np.sqrt(36 / 160 * 124 / 160 * (1 / 100 + 1 / 60)), rel=0.15)


def test_that_a_code_of_one_person_is_written_is_not_explained_by_how_often_it_is_written():
    """80 of 120 members and 20 of 60 controls are copied; nobody else holds their codes."""
    real = world(120, 60)
    held = pairs_of(real, 1)
    synthetic = real.pool.subset([*range(80), *range(120, 140)])
    written = is_written(held, pairs(synthetic, held.census))
    gap = holder_gaps(held, written, real, 1, set_features(pairs, held, real, synthetic))[ALL]
    assert isinstance(gap, Gap) and gap.value == pytest.approx(80 / 120 - 20 / 60)


def test_one_more_holder_by_hand():
    """Pairs of two members are written, those of a member and a control are not; nobody holds a pair alone."""
    codes = [f"{k:05d}" for k in range(600)]
    of_two_members = [[[codes[2 * (k // 2)], codes[2 * (k // 2) + 1]]] for k in range(200)]
    mixed = [[[codes[400 + 2 * k], codes[401 + 2 * k]]] for k in range(100)]
    train, control, made = (Cohort.of(each, codes) for each in ([*of_two_members, *mixed], mixed, of_two_members))
    comparison = Comparison.of(train, control, made, control)
    gaps = METRICS["pair_holder_gap"].compute(comparison)
    assert gaps["2"].value == pytest.approx(1.0) and gaps[ALL].value == pytest.approx(1.0)
    assert METRICS["unique_pair_gap"].compute(comparison)[ALL].value is None


def test_errors_are_those_of_many_draws():
    """Who is a member is drawn again and again: the gap varies as much as its error says, and is 0 on average."""
    random = random_stream(2, "errors")
    codes = [f"{k:03d}" for k in range(120)]
    cohort, made = (
        Cohort.of([[[codes[k] for k in random.choice(120, 6, replace=False)]] for _ in range(900)], codes)
        for _ in range(2)
    )
    values, errors = [], []
    for seed in range(40):
        order = random_stream(seed, "members").permutation(900)
        train, control = cohort.subset(order[:600]), cohort.subset(order[600:])
        score = METRICS["pair_holder_gap"].compute(Comparison.of(train, control, made, control))[ALL]
        values.append(score.value)
        errors.append((score.high - score.low) / 2 / 1.96)
    assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(40)
    assert 0.7 < np.mean(errors) / np.std(values) < 1.4


def test_nobody_who_holds_such_a_set_is_nobody_and_few_are_too_few():
    one_code = Cohort.of([[[code]] for code in "AB" * 100], "AB")
    nobody = METRICS["pair_holder_gap"].compute(Comparison.of(one_code, one_code, one_code.subset([0]), one_code))
    assert nobody[ALL].reason.startswith("concerns nobody")
    real = world(15, 90)
    held = pairs_of(real, 1)
    few = holder_gaps(held, np.zeros(len(held.key), bool), real, 1)[ALL]
    assert isinstance(few, Missing) and few.reason.startswith("insufficient data: 15 members and 90 controls who hold")


def test_nothing_written_is_not_certainty():
    real = world(200, 100)
    held = pairs_of(real, 1)
    gap = holder_gaps(held, np.zeros(len(held.key), bool), real, 1)[ALL]
    assert isinstance(gap, Gap) and gap.value == 0 and 0.005 < gap.error < 0.02


@pytest.mark.parametrize(
    ("change", "near"),
    [
        (lambda r: r, True),
        (lambda r: [r[0][:-1], r[1]], True),
        (lambda r: [[*r[0], "Z"], r[1]], True),
        (lambda r: [[*r[0][:-1], "Z"], r[1]], True),
        (lambda r: [[*r[0][:-2], "Y", "Z"], r[1]], False),
        (lambda r: [r[1], r[0]], False),
    ],
    ids=["the same", "one less", "one more", "one replaced", "two replaced", "visits exchanged"],
)
def test_a_near_copy_differs_by_one_code(change, near):
    codes = [*(f"{k:04d}" for k in range(2_000)), "Y", "Z"]
    everybody = [[codes[8 * k : 8 * k + 5], codes[8 * k + 5 : 8 * k + 8]] for k in range(240)]
    train, control = Cohort.of(everybody[:120], codes), Cohort.of(everybody[120:], codes)
    made = Cohort.of([change(record) for record in everybody[:120]], codes)
    score = METRICS["near_copy_excess"].compute(Comparison.of(train, control, made, control))[ALL]
    assert score.value == (1.0 if near else 0.0)


def test_singling_out_counts_pairs_of_one_synthetic_patient_that_one_real_one_holds():
    """Of 240 pairs of one synthetic patient each 180 are those of one member and 60 those of one control."""
    pool = world(80, 80).pool
    train, control = pool.subset(range(80)), pool.subset(range(80, 160))
    made = pool.subset([*range(60), *range(80, 100)])
    score = METRICS["singling_out_excess"].compute(Comparison.of(train, control, made, control))
    assert score[ALL].value == pytest.approx(0.5) and score["members"].value == pytest.approx(0.75)
