"""The world as a whole: its shape, its card, its controls."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.errors import UsageError
from adapcla.io import simulator as planted


@pytest.fixture(scope="module")
def world() -> Cohort:
    return planted.simulate()


def test_the_default_world_has_the_shape_of_hospital_records(world):
    counts = world.visit_counts
    assert (world.n_patients, world.n_codes) == (12_000, 3000)
    assert world.visits_per_patient.mean() == pytest.approx(1.8, abs=0.1)
    assert world.visits_per_patient.min() == 1
    assert world.visits_per_patient.max() <= 20
    assert world.codes_per_visit.mean() == pytest.approx(11, abs=0.6)
    assert (counts < 10).mean() == pytest.approx(0.5, abs=0.04)
    assert (counts == 0).mean() < 0.1
    assert 0.25 < counts.max() / world.n_visits < 0.45


def test_the_frequency_rank_curve_is_a_power_law_in_its_body(world):
    """Between ranks 20 and 1,000 log count falls linearly in log rank, by about one and a half."""
    counts = np.sort(world.visit_counts)[::-1]
    rank = np.arange(20, 1001)
    fit = np.polyfit(np.log(rank), np.log(counts[rank - 1]), 1)
    left = np.log(counts[rank - 1]) - np.polyval(fit, np.log(rank))
    assert -1.7 < fit[0] < -0.9
    assert np.std(left) < 0.15


def test_worlds_of_other_sizes_have_a_tail_too():
    for patients, codes in ((1200, 300), (4000, 1000)):
        cohort = planted.simulate(patients, codes)
        assert 0.3 < (cohort.visit_counts < 10).mean() < 0.65
        assert 1.5 < cohort.visits_per_patient.mean() < 2.3


def test_another_law_seed_is_another_world_on_the_same_codes():
    one, two = planted.law(300), planted.law(300, law_seed=8)
    assert one.vocabulary == two.vocabulary
    same = {(p.code, p.partner) for p in one.pairs()} & {(p.code, p.partner) for p in two.pairs()}
    assert len(same) < 0.2 * len(one.pairs())
    # The marginals are nearly the same, so that only structure tells the worlds apart.
    assert np.corrcoef(np.log(one.first_visit), np.log(two.first_visit))[0, 1] > 0.9


def test_the_card_says_what_it_is():
    card = planted.simulate(30, 60, seed=3, population="shifted").card
    assert card["source"] == "planted"
    assert card["arguments"] == {
        "patients": 30,
        "codes": 60,
        "seed": 3,
        "population": "shifted",
        "tripwires": 0,
        "law_seed": planted.LAW_SEED,
        "world": planted.WORLD,
    }
    assert "nobody in this cohort is real" in card["note"]


def test_a_larger_cohort_begins_with_the_smaller():
    small, large = planted.simulate(100, 60), planted.simulate(250, 60)
    assert large.subset(range(100)).fingerprint == small.fingerprint


def test_it_survives_its_folder(tmp_path):
    cohort = planted.simulate(50, 60)
    assert Cohort.open(cohort.save(tmp_path / "world")).fingerprint == cohort.fingerprint


def test_progress_is_told_chunk_by_chunk():
    told: list[int] = []
    planted.simulate(25, 60, chunk=10, advance=told.append)
    assert told == [10, 10, 5]


@pytest.mark.parametrize(
    ("name", "value"), [("patients", 0), ("patients", -1), ("codes", 10), ("chunk", 0), ("population", "x")]
)
def test_wrong_settings_are_refused(name, value):
    with pytest.raises(UsageError, match=name):
        planted.simulate(**{"patients": 10, "codes": 60, name: value})
