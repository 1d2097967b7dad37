"""Codes of a visit as a whole exclude each other, and plain records know nothing of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapcla.data import Cohort, Vocabulary
from adapcla.data.stay import DIED, ENDS, KINDS, LENGTH, ending, kind_of_visit
from adapcla.errors import InputError


def test_every_kind_and_ending_has_words() -> None:
    assert all(kind_of_visit(name).description for name in KINDS)
    assert all(ending(name).description for name in ENDS)
    assert DIED.group == "end" and LENGTH.unit == "d"


def test_a_visit_holds_one_ending() -> None:
    codes = [ending("home"), ending("died"), kind_of_visit("inpatient")]
    assert Cohort.of([[["END/home", "KIND/inpatient"], ["END/died"]]], codes).n_visits == 2
    with pytest.raises(InputError, match="choice group"):
        Cohort.of([[["END/home", "END/died"]]], codes)


def test_groups_are_saved_and_plain_vocabularies_have_the_file_that_they_always_had(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    grouped = Cohort.of([[["END/home"]]], [ending("home"), ending("died")])
    assert Cohort.open(grouped.save(tmp_path / "grouped")).vocabulary == grouped.vocabulary
    Cohort.of([[["A"]]]).save(tmp_path / "plain")
    names = pq.read_table(tmp_path / "plain" / "vocabulary.parquet").column_names
    assert names == ["token", "system", "version", "code", "description", "domain"]


def test_a_group_changes_the_meaning_of_a_vocabulary() -> None:
    plain = Vocabulary.of([ending("home")._replace(group="")])
    assert plain.fingerprint != Vocabulary.of([ending("home")]).fingerprint
