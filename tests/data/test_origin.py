"""Where patients came from: it stays true through choices, splits and the disk, and it tells who meets whom."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Cohort, Kind, Origin
from adapcla.data.provenance import Group, Part, overlap
from adapcla.data.split import PARTS, split_positions
from adapcla.errors import InputError


def numbered(n: int, kind: Kind = Kind.REAL) -> Cohort:
    """Patients who are all different: patient i holds the code Ci alone."""
    return Cohort.of([[[f"C{i:03d}"]] for i in range(n)], card=Origin(kind).as_card())


def group(cohort: Cohort) -> Group:
    return Group("any", cohort.fingerprint, cohort.origin)


WHOLE = numbered(60)


def test_a_part_knows_the_whole_its_split_and_its_name():
    for name, part in WHOLE.split(seed=7, control=0.1)._asdict().items():
        assert part.origin == Origin(Kind.REAL, (Part(WHOLE.fingerprint, 60, 7, 0.1, name),))
        assert WHOLE.subset(part.origin.parts[0].positions()).fingerprint == part.fingerprint


def test_what_is_chosen_from_a_part_is_of_that_part_and_from_a_whole_a_new_whole():
    test = WHOLE.split().test
    assert test.subset([0, 3]).origin == test.origin
    assert test.keep_codes(test.visit_counts > 0).origin == test.origin
    assert test.subset([1]).on(WHOLE.vocabulary).origin == test.origin
    assert WHOLE.subset(np.arange(30)).origin == Origin(Kind.REAL)
    chosen = WHOLE.subset(np.arange(30))
    assert chosen.split().test.origin.parts[0].whole == chosen.fingerprint


@given(st.integers(0, 5), st.integers(0, 5), st.sampled_from([0.0, 0.1, 0.3]), st.sampled_from([0.0, 0.2]))
def test_parts_of_one_whole_meet_exactly_where_their_patients_do(seed, other_seed, control, other_control):
    one, other = WHOLE.split(seed, control=control), WHOLE.split(other_seed, control=other_control)
    for mine in one:
        for theirs in other:
            if mine.n_patients and theirs.n_patients:
                common = {str(p) for p in mine.patients()} & {str(p) for p in theirs.patients()}
                assert overlap(group(mine), group(theirs)) is bool(common)


def test_a_part_meets_its_whole_and_a_part_of_a_part_its_part():
    train, _, test = WHOLE.split()
    inner = train.split(seed=5)
    assert overlap(group(WHOLE), group(test)) is True
    assert overlap(group(inner.train), group(train)) is True
    assert overlap(group(inner.train), group(inner.test)) is False
    assert overlap(group(inner.train), group(test)) is False
    assert inner.test.origin.parts == (*train.origin.parts, Part(train.fingerprint, train.n_patients, 5, 0.0, "test"))


def test_a_choice_from_the_training_part_counts_as_the_training_part():
    train = WHOLE.split().train
    assert overlap(group(train.subset([0, 1])), group(train.subset([2, 3]))) is True


def test_copies_are_known_by_content_and_strangers_are_not_known():
    unsaid = replace(WHOLE, card={})
    assert overlap(group(unsaid), group(replace(unsaid, card={"source": "a copy"}))) is True
    assert overlap(group(unsaid), group(numbered(5))) is None
    assert overlap(group(WHOLE.split().train), group(numbered(50).split().test)) is None


def test_an_origin_survives_the_disk_with_all_it_says(tmp_path: Path):
    learned = tuple(group(part) for part in WHOLE.split(control=0.2)[:2])
    once = replace(WHOLE, card=Origin(Kind.SYNTHETIC, (), learned).as_card())
    twice = Origin(Kind.SYNTHETIC, (Part("ab", 9, 1, 0.0, "valid"),), (group(once),))
    replace(WHOLE, card=twice.as_card()).save(tmp_path / "c")
    found = Cohort.open(tmp_path / "c")
    assert found.origin == twice
    assert found.fingerprint == WHOLE.fingerprint
    assert [g.fingerprint for g in found.origin.ancestors()] == [WHOLE.fingerprint, *(g.fingerprint for g in learned)]


def test_a_folder_without_an_origin_opens_as_unknown(tmp_path: Path):
    replace(WHOLE, card={"source": "mimic4"}).save(tmp_path / "c")
    assert Cohort.open(tmp_path / "c").origin == Origin(Kind.UNKNOWN)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"kind": "genuine"},
        [],
        {"kind": "real", "parts": [{"whole": "a"}]},
        {"kind": "real", "parts": [{"whole": "a", "patients": -1, "seed": 4, "control": 0, "part": "test"}]},
        {"kind": "real", "parts": [{"whole": "a", "patients": 9, "seed": 4, "control": 0, "part": "index"}]},
        {"kind": "real", "parts": [{"whole": "a", "patients": 9, "seed": 4, "control": 2, "part": "test"}]},
        {"kind": "real", "learned from": [{"role": "train"}]},
    ],
)
def test_an_origin_that_cannot_be_read_is_an_error_at_once(wrong: object, tmp_path: Path):
    replace(WHOLE, card={"origin": json.loads(json.dumps(wrong))}).save(tmp_path / "c")
    with pytest.raises(InputError, match="origin"):
        Cohort.open(tmp_path / "c")


def test_two_cohorts_together_keep_what_is_true_of_both():
    train, valid, _ = WHOLE.split()
    assert train.followed_by(valid).origin == Origin(Kind.REAL)
    assert train.followed_by(train).origin == train.origin
    assert WHOLE.followed_by(numbered(60, Kind.PLANTED)).origin.kind == Kind.UNKNOWN
    one, other = (Origin(Kind.SYNTHETIC, (), (group(part),)) for part in (train, valid))
    assert one.together(other).learned_from == (group(train), group(valid))
    assert one.together(Origin(Kind.SYNTHETIC)).learned_from == ()


def test_the_names_of_parts_are_those_of_the_split():
    assert PARTS == split_positions(10)._fields == ("train", "valid", "test", "control")
