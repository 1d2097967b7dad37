"""CSV files as a person meets them."""

from __future__ import annotations

from pathlib import Path

from adapcla.records import Code, Cohort
from adapcla.sources import export, read


def test_the_four_files(tiny_full: Cohort, tmp_path: Path) -> None:
    folder = export.write(tiny_full, tmp_path / "c", "csv")
    long = (folder / "long.csv").read_text(encoding="utf-8").splitlines()
    assert long[0] == '"patient_id","visit_id","visit_index","day","code","domain"'
    assert long[3] == '9000000000000,2,2,30,"B","diagnosis"'
    assert (folder / "visits.csv").read_text().splitlines()[1] == '9000000000000,1,1,0,"A B"'
    assert (folder / "patients.csv").read_text().splitlines()[1:] == [
        '9000000000000,"F",1,0',
        '9000000000001,"M",0,0',
        "9000000000002,,1,1",
    ]
    assert '"A","SYS","1","A","diagnosis","Alpha, with a comma"' in (folder / "vocabulary.csv").read_text("utf-8")


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    cohort = Cohort.of([[["A"]]], [Code.of("A", description="=HYPERLINK(1)")])
    folder = export.write(cohort, tmp_path / "c", "csv")
    assert '"\'=HYPERLINK(1)"' in (folder / "vocabulary.csv").read_text()
    assert read("table", folder).vocabulary.codes[0].description == "=HYPERLINK(1)"


def test_names_of_labels_may_hold_separators(tmp_path: Path) -> None:
    """The one label of the benchmark with two semicolons must not make the table one of semicolons."""
    import numpy as np

    names = ("Respiratory failure; insufficiency; arrest (adult)",)
    cohort = Cohort.of([[["A"]], [["B"]]], labels=np.array([[1], [0]], dtype=np.uint8), label_names=names)
    found = read("table", export.write(cohort, tmp_path / "c", "csv"))
    assert found.fingerprint == cohort.fingerprint


def test_without_its_codebook_it_is_a_plain_table(tiny_full: Cohort, tmp_path: Path) -> None:
    folder = export.write(tiny_full, tmp_path / "c", "csv")
    (folder / "adapcla.json").unlink()
    for name in ("long.csv", "visits.csv"):
        found = read("table", folder / name)
        assert list(found.patients()) == list(tiny_full.patients())
        assert found.days.tolist() == tiny_full.days.tolist()
