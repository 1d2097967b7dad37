"""Every word means a kind or an ending that a cohort has, or nothing."""

from __future__ import annotations

import pytest

from adapcla.data.vocabulary import DISCHARGES, VISIT_KINDS
from adapcla.io import visit_terms as words


@pytest.mark.parametrize(
    "name", [name for name in vars(words) if name.endswith(("_KINDS", "_ENDS")) and name != "VISIT_KINDS"]
)
def test_meanings_exist_and_words_are_in_lower_case(name: str) -> None:
    table = getattr(words, name)
    assert set(table.values()) <= {"", *(VISIT_KINDS if name.endswith("_KINDS") else DISCHARGES)}
    assert all(word == word.lower() for word in table)


def test_the_names_of_a_cohort_go_before_words_of_hospitals_in_a_table() -> None:
    """EMERGENCY is an admission through the emergency room to MIMIC-III, and an emergency visit to a cohort."""
    assert words.MIMIC_KINDS["emergency"] == "emergency-inpatient"
    assert words.TABLE_KINDS["emergency"] == "emergency"
    assert words.KIND_TOKENS["kind/emergency"] == "emergency"
