"""Codes of a visit as a whole exclude each other, and plain records know nothing of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapcla.data import Cohort, Vocabulary
from adapcla.data.vocabulary import DEATH, DISCHARGES, LENGTH_OF_STAY, VISIT_KINDS, discharge_code, visit_kind_code
from adapcla.errors import InputError


def test_every_kind_and_ending_has_words() -> None:
    assert all(visit_kind_code(name).description for name in VISIT_KINDS)
    assert all(discharge_code(name).description for name in DISCHARGES)
    assert DEATH.group == "end" and LENGTH_OF_STAY.unit == "d"


def test_a_visit_holds_one_ending() -> None:
    codes = [discharge_code("home"), discharge_code("died"), visit_kind_code("inpatient")]
    assert Cohort.of([[["END/home", "KIND/inpatient"], ["END/died"]]], codes).n_visits == 2
    with pytest.raises(InputError, match="choice group"):
        Cohort.of([[["END/home", "END/died"]]], codes)


def test_groups_are_saved_and_plain_vocabularies_have_the_file_that_they_always_had(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    grouped = Cohort.of([[["END/home"]]], [discharge_code("home"), discharge_code("died")])
    assert Cohort.open(grouped.save(tmp_path / "grouped")).vocabulary == grouped.vocabulary
    Cohort.of([[["A"]]]).save(tmp_path / "plain")
    names = pq.read_table(tmp_path / "plain" / "vocabulary.parquet").column_names
    assert names == ["token", "system", "version", "code", "description", "domain"]


def test_a_group_changes_the_meaning_of_a_vocabulary() -> None:
    plain = Vocabulary.of([discharge_code("home")._replace(group="")])
    assert plain.fingerprint != Vocabulary.of([discharge_code("home")]).fingerprint
