"""Stays: length, kind, ending, death and return, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.evaluation.conftest import World

from adapcla.data import Attribute, Cohort
from adapcla.data.vocabulary import DISCHARGE, LENGTH_OF_STAY, READMITTED, VISIT_KIND, discharge_code, visit_kind_code
from adapcla.evaluation.contract import ALL, Comparison
from adapcla.evaluation.references import marginal
from adapcla.evaluation.stays import (
    Stays,
    choice_distance,
    death_by_age,
    death_rate,
    length_by_ending,
    mean_length,
    readmission_rate,
    stay_length_distance,
)

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
    score = choice_distance(DISCHARGE, Comparison.of(one, one, two))[ALL]
    assert score.value == pytest.approx(0.5) and score.n == 10
    assert choice_distance(VISIT_KIND, Comparison.of(one, one, two))[ALL].reason == "no training visit tells its kind"


def test_a_copy_is_at_no_distance_and_chance_loses_who_dies_and_how_long_it_took(world: World):
    train = world(500, 1)
    copy, chance = (Comparison.of(train, train, one) for one in (train, marginal(train, 2000, 1)))
    for score in (stay_length_distance, length_by_ending, death_by_age):
        assert score(copy)[ALL].value == pytest.approx(0, abs=1e-9)
        assert score(chance)[ALL].value > 0
    assert death_by_age(chance)[ALL].value > 0.08, "the old die ten times as often"
    rates = death_rate(copy)
    assert rates["age:60 and more"].value > 5 * rates["age:under 60"].value
    assert mean_length(copy)["end:died"].value > mean_length(copy)["end:home"].value
    assert rates[ALL].low < rates[ALL].value < rates[ALL].high


def test_stays_that_are_longer_by_a_day_are_one_day_away(world: World):
    train = world(200, 1)
    here = np.asarray(train.codes) == train.vocabulary.index[LENGTH_OF_STAY.token]
    longer = replace(train, values=np.where(here, train.values + np.float32(1), train.values).astype(np.float32))
    comparison = Comparison.of(train, train, longer)
    assert stay_length_distance(comparison)[ALL].value == pytest.approx(1, rel=1e-4)
    assert length_by_ending(comparison)[ALL].value == pytest.approx(1, rel=1e-4)


def test_what_cannot_be_told_says_why(world: World):
    plain = Cohort.of([[["A"], ["B"]]] * 30)
    comparison = Comparison.of(plain, plain, plain)
    reasons = {
        stay_length_distance: "no training visit has a length",
        death_rate: "no training patient dies",
        readmission_rate: "no training stay of which it is known whether another follows",
    }
    for score, reason in reasons.items():
        assert score(comparison)[ALL].reason == reason
    train = world(300, 1)
    ageless = replace(train, attributes={})
    assert death_by_age(Comparison.of(train, train, ageless))[ALL].reason == "the synthetic patients have no age"
    assert death_by_age(Comparison.of(ageless, train, train))[ALL].reason == "no age of 20 training patients"


def test_ages_go_by_name_not_by_number(world: World):
    train = world(300, 1)
    values = np.asarray(train.attributes["age_band"].values)
    turned = Attribute((1 - values).astype(np.int16), train.attributes["age_band"].categories[::-1])
    same = replace(train, attributes={"age_band": turned})
    assert death_by_age(Comparison.of(train, train, same))[ALL].value == pytest.approx(0, abs=1e-9)


def test_the_share_who_come_back_is_counted_over_stays(world: World):
    cohort = course((0, 1, "inpatient", "home"), (5, 1, "inpatient", "home"), (300, 1, "inpatient", "home"))
    assert readmission_rate(Comparison.of(cohort, cohort, cohort))[ALL].value == pytest.approx(1 / 3)
