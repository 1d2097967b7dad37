"""Stays: length, kind, ending, death and return, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.evaluation.conftest import World, score_of, scores_of, value_of

from adapcla.data import Attribute, Cohort
from adapcla.data.vocabulary import LENGTH_OF_STAY, READMITTED, discharge_code, visit_kind_code
from adapcla.evaluation.comparison import ALL
from adapcla.evaluation.references import marginal
from adapcla.evaluation.stays import Stays

CODES = [
    LENGTH_OF_STAY,
    READMITTED,
    *map(discharge_code, ("died", "home")),
    *map(visit_kind_code, ("inpatient", "outpatient")),
    "A",
]


def course(*visits: tuple[int, float, str, str]) -> Cohort:
    """One patient by day, length, kind and ending of each visit."""
    records = [[["STAY/days", f"KIND/{kind}", f"END/{end}"] for _, _, kind, end in visits]]
    values = [x for _, length, _, _ in visits for x in (np.nan, np.nan, length)]
    return Cohort.of(
        records,
        [code for code in CODES if code != READMITTED],
        days=np.array([day for day, *_ in visits], dtype=np.int32),
        values=np.array(values, dtype=np.float32),
    )


def test_days_count_from_the_end_of_a_stay_and_only_stays_in_hospital_count():
    cohort = course(
        (0, 5, "inpatient", "home"),  # back 30 days after its end
        (20, 1, "outpatient", "home"),  # no stay in hospital
        (35, 2, "inpatient", "home"),  # back 31 days after its end
        (68, 3, "inpatient", "died"),  # nobody comes back
    )
    stays = Stays.of(cohort)
    assert stays.readmitted.tolist() == [1, -1, 0, -1]
    assert stays.length.tolist() == [5, 1, 2, 3] and stays.died.tolist() == [False, False, False, True]


def test_where_there_are_no_dates_the_source_says_who_came_back():
    cohort = Cohort.of([[["A", READMITTED.token], ["A"]]], ["A", READMITTED])
    assert Stays.of(cohort).readmitted.tolist() == [1, 0]
    assert Stays.of(Cohort.of([[["A"]]])).readmitted.tolist() == [-1]


def test_shares_of_endings_differ_by_their_total_variation():
    one = Cohort.of([[["A", "END/home"]]] * 8 + [[["A"]]] * 2, CODES[1:])
    two = Cohort.of([[["A", "END/home"]]] * 5 + [[["A", "END/died"]]] * 5, CODES[1:])
    score = score_of("stay_end_tv", one, two)
    assert score.value == pytest.approx(0.5) and score.n == 10
    assert score_of("stay_kind_tv", one, two).reason == "no training visit tells its kind"


def test_a_copy_is_at_no_distance_and_chance_loses_who_dies_and_how_long_it_took(world: World):
    train = world(500, 1)
    chance = marginal(train, 2000, 1)
    for key in ("stay_length_w1", "death_by_age"):
        assert value_of(key, train, train) == pytest.approx(0, abs=1e-9)
        assert value_of(key, train, chance) > 0
    assert value_of("death_by_age", train, chance) > 0.08, "the old die ten times as often"
    rates = scores_of("death_rate", train, train)
    assert rates["age:60 and more"].value > 5 * rates["age:under 60"].value
    assert rates[ALL].low < rates[ALL].value < rates[ALL].high


def test_stays_that_are_longer_by_a_day_are_one_day_away(world: World):
    train = world(200, 1)
    here = np.asarray(train.codes) == train.vocabulary.index[LENGTH_OF_STAY.token]
    longer = replace(train, values=np.where(here, train.values + np.float32(1), train.values).astype(np.float32))
    assert value_of("stay_length_w1", train, longer) == pytest.approx(1, rel=1e-4)


def test_what_cannot_be_told_says_why(world: World):
    plain = Cohort.of([[["A"], ["B"]]] * 30)
    reasons = {
        "stay_length_w1": "no training visit has a length",
        "death_rate": "no training patient dies",
        "readmission_30": "no training stay of which it is known whether another follows",
    }
    for key, reason in reasons.items():
        assert score_of(key, plain, plain).reason == reason
    train = world(300, 1)
    ageless = replace(train, attributes={})
    assert score_of("death_by_age", train, ageless).reason == "the synthetic patients have no age"
    assert score_of("death_by_age", ageless, train, train).reason == "no age of 20 training patients"


def test_ages_go_by_name_not_by_number(world: World):
    train = world(300, 1)
    values = np.asarray(train.attributes["age_band"].values)
    turned = Attribute((1 - values).astype(np.int16), train.attributes["age_band"].categories[::-1])
    same = replace(train, attributes={"age_band": turned})
    assert value_of("death_by_age", train, same) == pytest.approx(0, abs=1e-9)


def test_the_share_who_come_back_is_counted_over_stays(world: World):
    cohort = course((0, 1, "inpatient", "home"), (5, 1, "inpatient", "home"), (300, 1, "inpatient", "home"))
    assert value_of("readmission_30", cohort, cohort) == pytest.approx(1 / 3)
