from __future__ import annotations

from pathlib import Path

from tests.io.fixtures import eicu, write_csv

from adapcla.io import read


def read_cells(folder: Path, *cells: str) -> tuple[list[str], dict[str, int]]:
    """Tokens of the one visit whose diagnosis cells these are, and what was dropped of it."""
    root = eicu(folder).root
    rows = [(str(i), "201", "0", cell) for i, cell in enumerate(cells)]
    write_csv(root / "diagnosis.csv", ("diagnosisid", "patientunitstayid", "diagnosisoffset", "icd9code"), rows)
    cohort = read("eicu", root)
    return next(cohort.patients())[0], cohort.card["dropped"]


def test_systems_are_told_by_form(tmp_path: Path) -> None:
    tokens, _ = read_cells(tmp_path, "038.9, A41.9", "E849.7,E87.1", " V45.81 ", "427.31, I48.0,")
    assert tokens == [
        "ICD10CM/A41.9",
        "ICD10CM/E87.1",
        "ICD10CM/I48.0",
        "ICD9CM/038.9",
        "ICD9CM/427.31",
        "ICD9CM/E849.7",
        "ICD9CM/V45.81",
    ]


def test_what_has_neither_form_is_counted(tmp_path: Path) -> None:
    tokens, dropped = read_cells(tmp_path, "038.9, sepsis", "", "1E10")
    assert tokens == ["ICD9CM/038.9"]
    assert dropped["codes of neither ICD-9 nor ICD-10 form"] == 2
    assert dropped["empty code cells"] == 1


def test_stays_are_ordered_by_year_then_id(tmp_path: Path) -> None:
    """Stay 9 is of 2015; the minutes between hospital and unit admission are no order in time of two stays."""
    root = eicu(tmp_path).root
    header = (root / "patient.csv").read_text().splitlines()[0].split(",")
    rows = [
        ("1", "6", "p", "2015", "-5", "1", "Female", "69"),
        ("2", "8", "p", "2014", "-10", "1", "Female", "69"),
        ("3", "7", "p", "2014", "-20", "2", "Female", "69"),
        ("4", "7", "p", "2014", "-3", "1", "Female", "69"),
    ]
    write_csv(root / "patient.csv", header, rows)
    diagnoses = [("1", "1", "0", "I10"), ("2", "2", "0", "I11"), ("3", "3", "0", "I12"), ("4", "4", "0", "I13")]
    write_csv(root / "diagnosis.csv", ("diagnosisid", "patientunitstayid", "diagnosisoffset", "icd9code"), diagnoses)
    plain = [[token[8:] for token in visit] for visit in next(read("eicu", root).patients())]
    assert plain == [["I12", "I13"], ["I11"], ["I10"]]


def test_ages_over_89_are_one_band(tmp_path: Path) -> None:
    band = read("eicu", eicu(tmp_path).root).attributes["age_band"]
    assert [band.categories[value] for value in band.values] == ["60-69", "90+"]


def test_sex_and_age_may_be_missing(tmp_path: Path) -> None:
    root = eicu(tmp_path).root
    lines = [",".join(line.split(",")[:6]) for line in (root / "patient.csv").read_text().splitlines()]
    (root / "patient.csv").write_text("\n".join(lines) + "\n")
    assert read("eicu", root).attributes == {}


def test_long_paths_of_treatments_stay_apart(tmp_path: Path) -> None:
    """Two paths that agree in their first 48 letters are two codes."""
    root = eicu(tmp_path).root
    paths = [f"cardiovascular|shock|vasopressors|continuous infusion|{name}" for name in ("dopamine", "norepinephrine")]
    write_csv(root / "treatment.csv", ("patientunitstayid", "treatmentstring"), [("101", path) for path in paths])
    cohort = read("eicu", root, domains=("px",))
    assert cohort.n_codes == 2
    assert {code.code for code in cohort.vocabulary.codes} == set(paths)


def test_drugs_by_number_or_by_name_and_not_if_cancelled(tmp_path: Path) -> None:
    root = eicu(tmp_path).root
    header = ("patientunitstayid", "drugname", "drughiclseqno", "drugordercancelled")
    rows = [("101", "HEPARIN INJ", "2807.0", "No"), ("101", "Some Drug 5 %", "", "No"), ("103", "ASPIRIN", "1", "Yes")]
    write_csv(root / "medication.csv", header, rows)
    cohort = read("eicu", root, domains=("rx",))
    assert cohort.vocabulary.tokens == ("DRUG/Some Drug 5 %", "HICL/2807")
    assert cohort.card["dropped"]["orders of drugs that were cancelled"] == 1
