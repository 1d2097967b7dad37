"""The cards of a release: what they say, and what they never say."""

from __future__ import annotations

import hashlib
import json
import re

import pytest

from adapcla.data import Cohort
from adapcla.data.provenance import Group, Kind, Origin
from adapcla.release.card import card, checksums, shareable


def test_the_card_says_what_people_must_know(finished_release):
    text = (finished_release.out / "README.md").read_text()
    for heading in ("Source", "How it was made", "Evaluation", "What it must not be used for", "Files"):
        assert f"## {heading}" in text
    assert "at least 11 training patients" in text and "rarest third" in text
    assert "anonymous" in text and '"anonymous"' in text


def test_small_counts_of_real_patients_are_not_told(finished_release):
    told = finished_release.summary()
    few = {"all": 100, "kept in full": 90, "rolled up": 7, "not placed": 3}
    told.chosen.rollup["entries"] = few
    text = card(told, {"csv": ""}, model=False)
    line = next(line for line in text.splitlines() if line.startswith("| Occurrences in visits"))
    assert line == "| Occurrences in visits | 100 | 90 | fewer than 11 | fewer than 11 |"


def test_croissant_lists_every_file_with_its_hash_and_every_column(finished_release):
    content = json.loads((finished_release.out / "croissant.json").read_text())
    files = {entry["@id"]: entry["sha256"] for entry in content["distribution"]}
    assert "csv/long.csv" in files and "report.html" in files
    for name, digest in files.items():
        assert hashlib.sha256((finished_release.out / name).read_bytes()).hexdigest() == digest
    fields = {field["@id"] for records in content["recordSet"] for field in records["field"]}
    assert {"long/code", "visits/codes", "vocabulary/description"} <= fields


def test_mlcroissant_reads_the_card_and_the_data(finished_release, monkeypatch):
    croissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed: pip install mlcroissant")
    dataset = croissant.Dataset(str(finished_release.out / "croissant.json"))
    assert not dataset.metadata.ctx.issues.errors
    first = next(iter(dataset.records("long")))
    assert first["long/patient_id"] == 9_000_000_000_000


def test_checksums_are_as_sha256sum_writes_them(tmp_path):
    (tmp_path / "a").write_text("x")
    assert re.fullmatch(rb"[0-9a-f]{64}  a\n", checksums(tmp_path))


def test_nothing_of_the_patients_behind_stays_in_the_card():
    """A sample's card knows whom its generator learned from, by a hash; a shared one does not."""
    behind = Origin(Kind.SYNTHETIC, (), (Group("train", "ab12cd34", Origin(Kind.REAL)),))
    sample = Cohort.of([[["4019"]]], card={**behind.as_card(), "trained on": "ward 7"})
    shared = shareable(sample)
    assert "ab12cd34" not in str(shared.card) and "ward 7" not in str(shared.card)
    assert shared.origin.kind is Kind.SYNTHETIC and shared.fingerprint == sample.fingerprint
