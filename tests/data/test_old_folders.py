"""Cohort folders written before the package was reorganised still open, and are written again with the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adapcla.data import Cohort
from adapcla.data.fingerprints import code_keys, record_fingerprints

FOLDERS = Path(__file__).parent / "folders"
FINGERPRINTS = {
    "six_columns": "8b726657b0afa1963ca48dca4098d636406c5b5c3e35ade082898e8444abaf96",
    "eight_columns": "7bad1bcc2d84f182984b8923f8108857ecdb10bfc17a87856ba22c29ae1459d4",
}


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_an_old_folder_opens_and_is_written_again_alike(name, tmp_path):
    cohort = Cohort.open(FOLDERS / name)
    assert cohort.fingerprint == FINGERPRINTS[name]
    written = cohort.save(tmp_path / name)
    old = {path.name: path.read_bytes() for path in (FOLDERS / name).iterdir()}
    new = {path.name: path.read_bytes() for path in written.iterdir()}
    assert old.keys() == new.keys()
    # Parquet and the manifest's hash of it name the version of the library that wrote them.
    for file in old.keys() - {"vocabulary.parquet", "MANIFEST.json"}:
        assert new[file] == old[file], file


def test_the_columns_of_a_vocabulary_are_six_or_eight():
    import pyarrow.parquet as pq

    columns = {name: pq.read_schema(FOLDERS / name / "vocabulary.parquet").names for name in FINGERPRINTS}
    plain = ["token", "system", "version", "code", "description", "domain"]
    assert columns == {"six_columns": plain, "eight_columns": [*plain, "group", "unit"]}


def test_splits_and_fingerprints_of_records_stay():
    cohort = Cohort.of([[["A"], ["B"]], [["B", "C"]], [["A"]]] * 10)
    parts = cohort.split(seed=4, control=0.1)
    assert [part.fingerprint[:12] for part in parts] == ["d20a8af4ff52", "426dbdaa9b15", "2d7d38077693", "4a43fb69194d"]
    prints = record_fingerprints(cohort, code_keys(cohort.vocabulary))[:3]
    assert prints.tolist() == [
        [3387165147838350484, 11819159881501354191],
        [7594767150268163878, 343242882961034989],
        [7615345142161744145, 7419337791947756958],
    ]
    card = json.loads((FOLDERS / "eight_columns" / "card.json").read_text(encoding="utf-8"))
    assert card["origin"] == {"kind": "planted"}
