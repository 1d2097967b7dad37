"""Rules that training patients teach, by hand."""

from __future__ import annotations

import numpy as np

from adapcla.data import Attribute, Cohort
from adapcla.data.rules import MIN_PATIENTS, Rules

CODES = ["C", "D", "P", "X"]


def sexed(rows: list[list[list[str]]], women: list[bool]) -> Cohort:
    """Patients and whether each is a woman."""
    values = np.array(women, dtype=np.int16)
    return Cohort.of(rows, CODES, attributes={"sex": Attribute(values, ("M", "F"))})


def world(n: int = 40) -> Cohort:
    """As many women, who all hold P, as men, who hold X."""
    return sexed([[["P"]]] * n + [[["X"]]] * n, [True] * n + [False] * n)


def test_a_code_of_one_sex_is_a_rule_and_its_breaker_is_found():
    rules = Rules.of(world())
    assert {word: codes.tolist() for word, codes in rules.never["sex"].items()} == {"M": [2], "F": [3]}
    made = sexed([[["P"]], [["P"]], [["X", "P"]]], [True, False, True])
    assert rules.broken(made)["sex"].tolist() == [False, True, True]
    assert rules.any_broken(made).tolist() == [False, True, True]


def test_a_rare_code_makes_no_rule():
    assert Rules.of(world(MIN_PATIENTS - 1)).counts == {"sex": 0, "age": 0, "before": 0, "size": 0}


def test_no_training_patient_breaks_a_rule():
    train = world().followed_by(sexed([[["D"], ["C"]]] * 30, [True] * 15 + [False] * 15))
    rules = Rules.of(train)
    assert rules.counts["before"] == 1
    assert not rules.any_broken(train).any()


def test_an_unknown_sex_breaks_nothing():
    made = Cohort.of([[["P"]]], CODES, attributes={"sex": Attribute(np.array([-1], dtype=np.int16), ("M", "F"))})
    assert not Rules.of(world()).any_broken(made).any()


def test_the_disease_may_come_with_its_complication_but_not_after():
    rows = [[["D"], ["X"], ["C"]], [["C", "D"]], [["X"]], [["X"]]]
    rules = Rules.of(Cohort.of(rows * 20, CODES))
    assert rules.before.tolist() == [[0, 1]]
    made = Cohort.of([[["D"], ["C"]], [["D", "C"]], [["C"], ["D"]], [["X"], ["C"], ["C"]], [["D"]]], CODES)
    assert rules.broken(made)["before"].tolist() == [False, False, True, True, False]


def test_a_code_that_everybody_has_comes_before_nothing():
    """X is in every record, so that it being there before C says nothing."""
    rules = Rules.of(Cohort.of([[["X"], ["C"]], [["X"]]] * 40, CODES))
    assert rules.counts["before"] == 0


def test_a_limit_of_codes_is_a_rule_where_many_visits_reach_it():
    rows = [[["C", "D", "P"]]] * 50 + [[["C", "D"], ["X"]]] * 10
    rules = Rules.of(Cohort.of(rows, CODES))
    assert (rules.most, rules.counts["size"]) == (3, 1)
    made = Cohort.of([[["C", "D", "P", "X"]], [["C", "D", "P"]], [["X"], ["C", "D", "P", "X"]]], CODES)
    assert rules.broken(made)["size"].tolist() == rules.any_broken(made).tolist() == [True, False, True]
    assert rules.fingerprint != Rules(rules.vocabulary, rules.never, rules.before).fingerprint


def test_the_end_of_a_tail_of_sizes_is_no_limit():
    """A tenth of the visits goes on to each next size: that 20 of the largest do not is chance (.9 ** 20 is .12)."""
    sizes = [1] * 1800 + [2] * 180 + [3] * 20
    assert Rules.of(Cohort.of([[CODES[:size]] for size in sizes], CODES)).most == 0
    few = [1] * 10 + [3] * (MIN_PATIENTS - 1) + [2]
    assert Rules.of(Cohort.of([[CODES[:size]] for size in few], CODES)).most == 0
