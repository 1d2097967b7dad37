"""Tail information: what P(c | t) of a cohort gains on test visits, by hand, and what chance, copies and lies score."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.evaluation import tail_information as module
from adapcla.evaluation.comparison import ALL, Comparison
from adapcla.evaluation.references import marginal
from adapcla.evaluation.tail_information import (
    TailInformation,
    TailInformationPrevious,
    TailInformationShare,
    information,
)

#: Rare: T only. Codes A, B and C are frequent in training.
COUNTS = np.array([1000, 1000, 1000, 4])
NAMES = ["A", "B", "C", "T"]


def world(seed: int, n: int, turn: int = 0) -> Cohort:
    """Forty rare codes, each with a partner of its own (another one after a turn), among twenty common ones."""
    draw = np.random.default_rng(seed)
    patients = []
    for _ in range(n):
        record = []
        for _ in range(1 + draw.integers(0, 3)):
            visit = [f"C{k:02d}" for k in np.flatnonzero(draw.random(20) < 0.15)] or ["C00"]
            if draw.random() < 0.3:
                rare = int(draw.integers(0, 40))
                visit += [f"T{rare:02d}"] + [f"P{(rare + turn) % 40:02d}"] * int(draw.random() < 0.8)
            record.append(visit)
        patients.append(record)
    return Cohort.of(patients, [f"C{k:02d}" for k in range(20)] + [f"{s}{k:02d}" for s in "PT" for k in range(40)])


def fixed(monkeypatch: pytest.MonkeyPatch, strength: float) -> None:
    """One strength to choose from."""
    monkeypatch.setattr(module, "STRENGTHS", (strength,))


def test_the_gain_of_one_visit_by_hand(monkeypatch: pytest.MonkeyPatch):
    """T stands in 2 of 4 visits, both with A; A in 3 of 4, B in 2 of 4, C nowhere; strength 2.

    P(A | T) = (2 + 2·¾)/(2 + 2) = ⅞ against ¾; P(B | T) = (0 + 2·½)/4 = ¼ against ½; C was never written: no word.
    """
    fixed(monkeypatch, 2.0)
    made = Cohort.of([[["A", "T"]], [["A", "T"]], [["A", "B"]], [["B"]]], NAMES)
    test = Cohort.of([[["A", "T", "C"]], [["B", "T"]], [["A"]]], NAMES)
    cases, gains = information(made, test, COUNTS)
    assert cases.patient.tolist() == [0, 1]
    with_a = math.log((7 / 8) / (3 / 4)) + math.log((3 / 4) / (1 / 2))
    with_b = math.log((1 / 8) / (1 / 4)) + math.log((1 / 4) / (1 / 2))
    assert gains == pytest.approx([with_a, with_b])


def test_the_previous_visit_by_hand(monkeypatch: pytest.MonkeyPatch):
    """Of four steps two lead to T, one from A and one from B; A stands before three of four, B before two."""
    fixed(monkeypatch, 2.0)
    made = Cohort.of([[["A"], ["T"]], [["B"], ["T"]], [["A"], ["C"]], [["A", "B"], ["C"]]], NAMES)
    test = Cohort.of([[["A"], ["T", "B"]], [["T"]]], NAMES)
    _, gains = information(made, test, COUNTS, previous=True)
    p_a, p_b = (1 + 2 * 3 / 4) / 4, (1 + 2 * 2 / 4) / 4
    assert gains == pytest.approx([math.log(p_a / (3 / 4)) + math.log((1 - p_b) / (1 / 2))])


def test_the_sum_over_all_codes_is_that_of_a_plain_loop(monkeypatch: pytest.MonkeyPatch):
    fixed(monkeypatch, 3.0)
    made, test = world(1, 80), world(2, 20)
    counts = made.visit_counts
    cases, gains = information(made, test, counts)
    visits, held = made.matrix().toarray().astype(float), test.matrix().toarray()
    share = np.minimum(visits.mean(axis=0), 1 - 0.5 / len(visits))
    expected = []
    for row in held:
        for t in np.flatnonzero(row * ((counts > 0) & (counts <= 100))):
            chance = (visits[visits[:, t] > 0].sum(axis=0) + 3.0 * share) / (visits[:, t].sum() + 3.0)
            known = (share > 0) & (np.arange(len(row)) != t)
            odds = np.where(row > 0, chance, 1 - chance)[known] / np.where(row > 0, share, 1 - share)[known]
            expected.append(np.log(odds).sum())
    assert len(cases.rare) == len(expected)
    assert np.sort(gains) == pytest.approx(np.sort(expected))


@pytest.fixture(scope="module")
def truth() -> tuple[Cohort, Cohort]:
    return world(1, 1500), world(2, 600)


def test_real_patients_gain_copies_gain_as_much_chance_nothing_and_lies_lose(truth: tuple[Cohort, Cohort]):
    train, test = truth
    made = {
        "fresh": world(3, 1500),
        "copy": train,
        "chance": marginal(train, 1500, seed=1),
        "lies": world(4, 1500, turn=7),
    }
    scores = {name: TailInformation().compute(Comparison.of(train, test, cohort))[ALL] for name, cohort in made.items()}
    assert scores["copy"].low > 0.5
    assert scores["fresh"].value == pytest.approx(scores["copy"].value, rel=0.15)
    assert abs(scores["chance"].value) < 0.02
    assert scores["lies"].high < 0
    shares = {
        name: TailInformationShare().compute(Comparison.of(train, test, cohort))[ALL] for name, cohort in made.items()
    }
    assert shares["copy"].value == 1.0 and shares["copy"].low == shares["copy"].high == 1.0
    assert shares["fresh"].low < 1.0 < shares["fresh"].high
    assert shares["lies"].value < 0


def test_fewer_patients_know_less_and_are_measured_by_as_few_real_ones(truth: tuple[Cohort, Cohort]):
    train, test = truth
    few, many = (Comparison.of(train, test, world(3, n)) for n in (300, 1500))
    assert 0 < TailInformation().compute(few)[ALL].value < TailInformation().compute(many)[ALL].value
    assert TailInformationShare().compute(few)[ALL].value == pytest.approx(1.0, abs=0.25)


def test_a_cohort_that_repeats_one_patient_does_not_believe_itself(truth: tuple[Cohort, Cohort]):
    train, test = truth
    repeated = train.subset(np.zeros(500, dtype=np.int64))
    scores = TailInformation().compute(Comparison.of(train, test, repeated))
    assert scores[ALL].value == 0.0 and scores[ALL].n > 100


def test_bands_divide_the_cases_and_the_interval_is_over_patients(truth: tuple[Cohort, Cohort]):
    train, test = truth
    scores = TailInformation().compute(Comparison.of(train, test, train))
    assert sum(score.n for name, score in scores.items() if name != ALL) == scores[ALL].n
    twice = TailInformation().compute(Comparison.of(train, test.subset(np.tile(np.arange(test.n_patients), 4)), train))
    assert twice[ALL].value == pytest.approx(scores[ALL].value)
    assert twice[ALL].high - twice[ALL].low < 0.7 * (scores[ALL].high - scores[ALL].low)


def test_what_real_patients_do_not_know_is_no_measure():
    alone = marginal(world(1, 400), 500, seed=1)
    train, test = alone.subset(range(400)), alone.subset(range(400, 500))
    score = TailInformationShare().compute(Comparison.of(train, test, train))[ALL]
    assert score.value is None and score.reason == "as many real patients gain nothing on these codes"


def test_without_a_rare_code_in_the_test_patients_there_is_a_reason():
    train, test = Cohort.of([[["A", "T"]], [["A"]]]), Cohort.of([[["A", "B"]]])
    comparison = Comparison.of(train, test.on(test.vocabulary), train)
    counts = TailInformation().compute(comparison)
    assert counts["6-10"].value is None and counts["6-10"].reason == "no test visit holds such a code"
    late = TailInformationPrevious().compute(comparison)[ALL]
    assert late.value is None and late.reason == "no test patient has such a code after another visit"


def test_ten_thousand_codes_need_no_square_of_memory():
    """Ten thousand codes squared would be 800 MB."""
    import tracemalloc

    draw = np.random.default_rng(1)
    vocabulary = [f"C{k:04d}" for k in range(10_000)]
    made = Cohort.of([[[vocabulary[k] for k in draw.integers(0, 10_000, 8)]] for _ in range(1000)], vocabulary)
    tracemalloc.start()
    TailInformation().compute(Comparison.of(made, made.subset(range(100)), made, intervals=False))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6
