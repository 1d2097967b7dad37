"""Labels from codes: the benchmark's phenotypes, a table of one's own, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapcla.data import Code, Cohort, LabelRule
from adapcla.data.labels import BENCHMARK_CCS, add_labels, phenotypes
from adapcla.errors import InputError, UsageError

#: One ICD-9 code and one ICD-10 code of each phenotype, by hand.
EXAMPLES = {
    "Acute and unspecified renal failure": ("5849", "N179"),
    "Acute cerebrovascular disease": ("43491", "I639"),
    "Acute myocardial infarction": ("41071", "I214"),
    "Cardiac dysrhythmias": ("42731", "I4891"),
    "Chronic kidney disease": ("5859", "N189"),
    "Chronic obstructive pulmonary disease and bronchiectasis": ("496", "J449"),
    "Conduction disorders": ("4260", "I442"),
    "Coronary atherosclerosis and other heart disease": ("41401", "I2510"),
    "Diabetes mellitus with complications": ("25060", "E1140"),
    "Diabetes mellitus without complication": ("25000", "E119"),
    "Disorders of lipid metabolism": ("2724", "E785"),
    "Essential hypertension": ("4019", "I10"),
    "Fluid and electrolyte disorders": ("2761", "E871"),
    "Gastrointestinal hemorrhage": ("5789", "K922"),
    "Pneumonia (except that caused by tuberculosis or sexually transmitted disease)": ("486", "J189"),
    "Shock": ("78551", "R570"),
}


def test_there_are_25_and_known_codes_fall_into_theirs() -> None:
    """Every example is its own patient, so the label matrix must name it; both revisions must agree."""
    assert len(set(BENCHMARK_CCS)) == 25
    for revision, system in enumerate(("ICD9CM", "ICD10CM")):
        listed = [Code.of(pair[revision], system) for pair in EXAMPLES.values()]
        cohort = add_labels(Cohort.of([[[code.token]] for code in listed], listed), "phenotypes")
        assert len(cohort.label_names) == 25
        found = {
            name: [cohort.label_names[i] for i in row.nonzero()[0]]
            for name, row in zip(EXAMPLES, cohort.labels, strict=True)
        }
        assert found == {name: [name] for name in EXAMPLES}


def test_phenotypes_need_icd_codes() -> None:
    with pytest.raises(InputError, match="auto"):
        phenotypes(Cohort.of([[["SNOMED-44054006"]]]).vocabulary)


def test_a_table_labels_any_vocabulary_with_or_without_system(tmp_path: Path) -> None:
    """Code 7 is in two systems: the bare spelling means both, the full one only its own."""
    (tmp_path / "l.csv").write_text("code,label\n7,both\nA/7,first\n007,zero\nmissing,first\n")
    listed = [Code.of("7", "A"), Code.of("7", "B"), Code.of("007", "B")]
    cohort = add_labels(Cohort.of([[["A/7"]], [["B/7"]], [["B/007"]]], listed), tmp_path / "l.csv")
    assert cohort.label_names == ("both", "first", "zero")
    assert cohort.labels.tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert cohort.card["labelled"]["codes of the rule not in the cohort"] == 1
    assert LabelRule.from_card(cohort.card).apply(cohort).tolist() == cohort.labels.tolist()


def test_auto_labels_and_says_when_nothing_varies() -> None:
    assert add_labels(Cohort.of([[["X1"]], [["X2"]]]), "auto").label_names == ("X1", "X2")
    with pytest.raises(InputError, match="some patients"):
        add_labels(Cohort.of([[["X1"]], [["X1"]]]), "auto")


@pytest.mark.parametrize(
    ("text", "where"),
    [("code,label\nI10,\n", "row 2, column 'label'"), ("code,label\nI10,a\n\x07,b\n", "row 3, column 'code'")],
)
def test_a_bad_cell_is_named_by_place(tmp_path: Path, text: str, where: str) -> None:
    (tmp_path / "l.csv").write_text(text)
    with pytest.raises(InputError, match=where):
        add_labels(Cohort.of([[["I10"]]]), tmp_path / "l.csv")


def test_missing_column_empty_table_and_unknown_way_are_refused(tmp_path: Path) -> None:
    cohort = Cohort.of([[["I10"]]])
    (tmp_path / "l.csv").write_text("code,name\nI10,a\n")
    with pytest.raises(InputError, match="label"):
        add_labels(cohort, tmp_path / "l.csv")
    (tmp_path / "e.csv").write_text("code,label\n")
    with pytest.raises(InputError, match="without rows"):
        add_labels(cohort, tmp_path / "e.csv")
    with pytest.raises(UsageError, match="phenotypes"):
        add_labels(cohort, "phenotype")
