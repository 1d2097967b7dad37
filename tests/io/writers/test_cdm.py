"""The columns of the CDM, and the concepts that are known without a vocabulary."""

from __future__ import annotations

from adapcla.io.writers.cdm import BUILT_IN, COLUMNS, VISIT_TYPES, Concept


def test_no_column_comes_twice_and_ids_come_first() -> None:
    for table, columns in COLUMNS.items():
        assert len(set(columns)) == len(columns), table
        assert columns[0].endswith(("_id", "_id_1", "_name"))
    assert COLUMNS["concept"] == Concept._fields


def test_built_in_concepts_hold_none_the_visit_types_and_nothing_twice() -> None:
    numbers = [concept.concept_id for concept in BUILT_IN]
    assert len(set(numbers)) == len(numbers)
    assert {0, 8507, 8532, 32817, 32827, 756265, *VISIT_TYPES.values()} == set(numbers)
