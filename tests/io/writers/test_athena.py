"""A hand-made Athena download: tabs, no quotes, codes with dots, mappings that ended, concepts that are no standard."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapcla.errors import InputError
from adapcla.io.writers.athena import mapped

_HEADER = (
    *("concept_id", "concept_name", "domain_id", "vocabulary_id", "concept_class_id", "standard_concept"),
    *("concept_code", "valid_start_date", "valid_end_date", "invalid_reason"),
)
#: concept_id, name, domain, vocabulary, class, standard, code, invalid
_CONCEPTS = (
    (44832386, 'Diabetes "sugar', "Condition", "ICD9CM", "5-dig billing code", "", "250.00", ""),
    (44821949, "Hypertension NOS", "Condition", "ICD9CM", "4-dig billing code", "", "401.9", ""),
    (44821950, "Hypertension, withdrawn", "Condition", "ICD9CM", "4-dig billing code", "", "4019", "D"),
    (44829696, "Bypass status", "Observation", "ICD9CM", "5-dig billing code", "", "V45.81", ""),
    (44820683, "Drug-induced hyperglycaemia", "Condition", "ICD9CM", "4-dig billing code", "", "249.0", ""),
    (2008271, "Cont inv mec ven", "Procedure", "ICD9Proc", "4-dig billing code", "S", "96.71", ""),
    (201826, "Type 2 diabetes mellitus", "Condition", "SNOMED", "Clinical Finding", "S", "44054006", ""),
    (320128, "Essential hypertension", "Condition", "SNOMED", "Clinical Finding", "S", "59621000", ""),
    (4000000, "Old hypertension", "Condition", "SNOMED", "Clinical Finding", "", "1", ""),
    (4188539, "History of bypass", "Observation", "SNOMED", "Context-dependent", "S", "399261000", ""),
    (4214956, "Blood glucose", "Measurement", "SNOMED", "Procedure", "S", "33747003", ""),
)
_RELATIONS = (
    (44832386, 201826, "Maps to", ""),
    (44821949, 320128, "Maps to", ""),
    (44821949, 4000000, "Maps to", ""),
    (44821949, 201826, "Maps to", "D"),
    (44821949, 4188539, "Is a", ""),
    (44829696, 4188539, "Maps to", ""),
    (44820683, 201826, "Maps to", ""),
    (44820683, 4214956, "Maps to", ""),
    (2008271, 2008271, "Maps to", ""),
)


def athena(folder: Path) -> Path:
    """The download, written to a folder."""
    folder.mkdir()
    rows = [(*row[:7], "19700101", "20991231", row[7]) for row in _CONCEPTS]
    text = "\n".join("\t".join(map(str, row)) for row in (_HEADER, *rows))
    (folder / "CONCEPT.csv").write_text(text + "\n", encoding="utf-8")
    header = ("concept_id_1", "concept_id_2", "relationship_id", "valid_start_date", "valid_end_date", "invalid_reason")
    lines = [(*row[:3], "19700101", "20991231", row[3]) for row in _RELATIONS]
    text = "\n".join("\t".join(map(str, row)) for row in (header, *lines))
    (folder / "CONCEPT_RELATIONSHIP.csv").write_text(text + "\n", encoding="utf-8")
    return folder


def test_codes_find_their_concept_and_what_it_maps_to(tmp_path: Path) -> None:
    """Only valid mappings to standard concepts count; a code may have two; one that is unknown is absent."""
    asked = [("ICD9CM", "25000"), ("ICD9CM", "4019"), ("ICD9PROC", "9671"), ("ICD9CM", "2490"), ("ICD9CM", "0389")]
    found = mapped(athena(tmp_path / "v"), asked)
    assert {position: row.source.concept_id for position, row in found.items()} == {
        0: 44832386,
        1: 44821949,
        2: 2008271,
        3: 44820683,
    }
    assert [[target.concept_id for target in found[position].targets] for position in range(4)] == [
        [201826],
        [320128],
        [2008271],
        [201826, 4214956],
    ]
    assert found[0].source.concept_name == 'Diabetes "sugar'
    assert str(found[0].source.valid_end_date) == "2099-12-31"


def test_a_folder_without_the_files_and_a_file_without_a_column_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"CONCEPT\.csv"):
        mapped(tmp_path, [("ICD9CM", "4019")])
    path = athena(tmp_path / "v") / "CONCEPT.csv"
    path.write_text(path.read_text().replace("standard_concept", "standard"))
    with pytest.raises(InputError, match="standard_concept"):
        mapped(tmp_path / "v", [("ICD9CM", "4019")])
