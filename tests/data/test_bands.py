"""Numbers as choices: nothing of single patients is told, and what is drawn lies where it should."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from adapcla.data import Code, Cohort, Prevalence, Vocabulary
from adapcla.data.quantization import LEFT_OUT, Quantizer
from adapcla.errors import InputError

GLUCOSE = Code.of("glucose", "LAB", description="Glucose", domain="lab", unit="mg/dL")
LACTATE = Code.of("lactate", "LAB", domain="lab", unit="mmol/L")


def measured(values: NDArray[np.float64], per_patient: int = 1, code: Code = GLUCOSE) -> Cohort:
    """Patients with one value in each visit, and a plain code beside it."""
    plain, token = "ZZZ", code.token
    n = len(values) // per_patient
    visits = [[[token, plain]] * per_patient] * n
    flat = np.full(2 * n * per_patient, np.nan, dtype=np.float32)
    flat[::2] = values[: n * per_patient]
    return Cohort.of(visits, [code, plain], values=flat)


def test_hand_solved_bands() -> None:
    """Values 0 to 99 of a hundred patients, two bands: three pieces each at most, cut in the middle."""
    bands = Quantizer.of(measured(np.arange(100.0)), smallest=11, n_bands=2)
    (glucose,) = bands.numbers
    assert glucose.decimals == 0
    assert len(glucose.mass) == 6
    assert glucose.cuts.tolist() == [50.0]
    assert [code.token for code in glucose.codes()] == ["LAB/glucose/b00", "LAB/glucose/b01"]
    assert [code.group for code in glucose.codes()] == ["LAB/glucose"] * 2
    assert [code.description for code in glucose.codes()] == ["Glucose below 50 mg/dL", "Glucose from 50 mg/dL"]
    # Equal values everywhere: the outer pieces end where the values do.
    assert (glucose.edges[0], glucose.edges[-1]) == (0.0, 100.0)


def test_an_extreme_of_one_patient_is_not_told() -> None:
    values = np.concatenate([np.linspace(80, 120, 200).round(), [100_000.0]])
    (glucose,) = Quantizer.of(measured(values)).numbers
    assert glucose.edges[-1] < 40_000
    assert 100_000.0 not in glucose.edges
    drawn = glucose.drawn(np.full(5000, glucose.n_bands - 1), np.random.default_rng(1).random((5000, 2)))
    assert drawn.max() < 40_000


def test_a_number_of_too_few_patients_is_not_learned() -> None:
    """Ten patients with a hundred values each are ten patients."""
    cohort = measured(np.arange(1000.0), per_patient=100)
    bands = Quantizer.of(cohort)
    assert bands.numbers == ()
    banded = bands.banded(cohort)
    assert banded.vocabulary.tokens == ("ZZZ",)
    assert banded.card["dropped"][LEFT_OUT] == 1000
    assert bands.with_values(banded, seed=1).vocabulary == cohort.vocabulary


numbers = st.one_of(
    st.lists(st.integers(0, 12).map(float), min_size=11, max_size=120),
    st.lists(st.floats(-1000, 1000, width=32), min_size=11, max_size=120),
    st.lists(st.floats(0, 1e6, width=32).map(lambda x: round(x, 1)), min_size=11, max_size=120),
)


@settings(max_examples=60)
@given(values=numbers, per_patient=st.integers(1, 3), seed=st.integers(0, 9))
def test_what_is_drawn_stays_in_its_band(values: list[float], per_patient: int, seed: int) -> None:
    cohort = measured(np.array(values), per_patient)
    bands = Quantizer.of(cohort)
    banded = bands.banded(cohort)
    drawn = bands.with_values(banded, seed)
    assert drawn.vocabulary == cohort.vocabulary
    assert bands.banded(drawn).fingerprint == banded.fingerprint
    assert bands.with_values(banded, seed).fingerprint == drawn.fingerprint
    for number in bands.numbers:
        value = drawn.values[~np.isnan(drawn.values)] if drawn.values is not None else np.zeros(0)
        assert np.allclose(np.round(value.astype(float), number.decimals), value, rtol=3e-7, atol=1e-6)
        if min(values) >= 0:
            assert value.min() >= 0


@settings(max_examples=60)
@given(values=numbers, per_patient=st.integers(1, 3), smallest=st.integers(3, 20))
def test_every_band_and_piece_has_enough_patients(values: list[float], per_patient: int, smallest: int) -> None:
    cohort = measured(np.array(values), per_patient)
    flat = cohort.values[~np.isnan(cohort.values)] if cohort.values is not None else np.zeros(0)
    patient = cohort.patient_of_entry[::2]
    for number in Quantizer.of(cohort, smallest).numbers:
        for edges in (number.cuts, np.array(number.edges[1:-1], dtype=np.float32)):
            part = np.searchsorted(edges, flat, side="right")
            assert min(len(set(patient[part == i])) for i in range(len(edges) + 1)) >= smallest
        assert number.n_bands <= 10


def test_the_shape_of_training_comes_back() -> None:
    random = np.random.default_rng(3)
    values = np.round(np.exp(random.normal(4.6, 0.3, 4000)), 1)
    cohort = measured(values)
    bands = Quantizer.of(cohort)
    drawn = bands.with_values(bands.banded(cohort), seed=2).values
    assert drawn is not None
    drawn = drawn[::2].astype(float)
    assert drawn.mean() == pytest.approx(values.mean(), rel=0.01)
    assert drawn.std() == pytest.approx(values.std(), rel=0.05)
    shares = np.linspace(0.02, 0.98, 49)
    assert np.abs(np.quantile(drawn, shares) / np.quantile(values, shares) - 1).max() < 0.03


def test_a_patient_is_the_same_whoever_stands_before() -> None:
    bands = Quantizer.of(measured(np.arange(100.0)))
    banded = bands.banded(measured(np.arange(100.0)))
    whole = bands.with_values(banded, seed=5)
    part = bands.with_values(banded.subset(np.arange(40, 100)), seed=5, first=40)
    assert part.values is not None
    assert whole.values is not None
    assert np.array_equal(part.values[::2], whole.values[80::2])
    assert whole.fingerprint != bands.with_values(banded, seed=6).fingerprint


def test_codes_stay_in_order_where_names_would_change_it() -> None:
    """`LAB/a` stands before `LAB/a.last`, and `LAB/a.last/b00` before `LAB/a/b00`."""
    one, last = Code.of("a", "LAB", unit="1"), Code.of("a.last", "LAB", unit="1")
    values = (np.arange(600) // 2 + np.tile([0, 1000], 300)).astype(np.float32)
    cohort = Cohort.of([[["LAB/a", "LAB/a.last"]]] * 300, [one, last], values=values)
    bands = Quantizer.of(cohort)
    back = bands.with_values(bands.banded(cohort), seed=1)
    assert back.values is not None
    assert np.abs(back.values - values).max() < 60  # two bands at most


def test_bands_survive_the_configuration_of_a_model() -> None:
    cohort = measured(np.arange(100.0))
    bands = Quantizer.of(cohort)
    again = Quantizer.from_json(json.loads(json.dumps(bands.as_json())), bands.vocabulary)
    assert again.natural == bands.natural
    assert again.numbers == bands.numbers
    number = bands.as_json()["numbers"][0]
    for wrong in ({}, {**number, "edges": number["edges"][1:]}, {**number, "bands": [0]}, {**number, "decimals": "x"}):
        damaged = {"numbers": [wrong], "not learned": []}
        with pytest.raises(InputError, match="do not fit"):
            Quantizer.from_json(damaged, bands.vocabulary)


def test_a_target_of_a_number_is_shared_out_over_its_bands() -> None:
    cohort = measured(np.arange(100.0))
    bands = Quantizer.of(cohort, n_bands=2)
    target = bands.spread(
        Prevalence.of({"LAB/glucose": 0.5, "ZZZ": 0.9, "new": 0.1}), bands.banded(cohort).prevalence()
    )
    shares = dict(zip(target.vocabulary.tokens, target.share, strict=True))
    assert shares["LAB/glucose/b00"] + shares["LAB/glucose/b01"] == pytest.approx(0.5)
    assert (shares["ZZZ"], shares["new"]) == (0.9, 0.1)


def test_chances_of_bands_are_the_chance_of_the_number() -> None:
    bands = Quantizer.of(measured(np.arange(100.0)), n_bands=2)
    assert bands.vocabulary.tokens == ("LAB/glucose/b00", "LAB/glucose/b01", "ZZZ")
    assert bands.summed(np.array([[0.2, 0.3, 1.0]])).tolist() == [[0.5, 1.0]]


def test_a_cohort_without_numbers_is_its_own_banded_form() -> None:
    cohort = Cohort.of([[["A"]], [["B", "A"]]])
    bands = Quantizer.of(cohort)
    assert bands.banded(cohort).fingerprint == cohort.fingerprint
    assert bands.with_values(cohort, seed=1).fingerprint == cohort.fingerprint
    assert bands.vocabulary == Vocabulary.of(["A", "B"])
