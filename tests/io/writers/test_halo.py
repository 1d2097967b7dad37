"""HALO files: attributes go along, labels are HALO's own arrays."""

from __future__ import annotations

from pathlib import Path

from adapcla.data import Cohort
from adapcla.io import read
from adapcla.io import writers as export
from adapcla.io.readers.halo import load


def test_records_are_what_halo_reads(tiny_full: Cohort, tmp_path: Path) -> None:
    folder = export.write(tiny_full, tmp_path / "h", "halo")
    records = [r for part in ("train", "val", "test") for r in load(folder / f"{part}Dataset.pkl")]
    by_id = {record["id"]: record for record in records}
    assert by_id[0]["visits"] == [[0, 1], [1]]
    assert by_id[0]["labels"].value.tolist() == [1.0, 0.0]
    assert by_id[0]["facts"] == ["ATTRIBUTE//sex//F"]
    assert "facts" not in by_id[2]
    assert load(folder / "idToLabel.pkl") == ["first", "second"]


def test_without_its_codebook_codes_visits_and_labels_are_left(tiny_full: Cohort, tmp_path: Path) -> None:
    folder = export.write(tiny_full, tmp_path / "h", "halo")
    (folder / "adapcla.json").unlink()
    found = read("halo", folder)
    assert list(found.patients()) == list(tiny_full.patients())
    assert found.labels.tolist() == tiny_full.labels.tolist()
    assert found.label_names == ("first", "second")
