"""The forms of ICD diagnoses, their categories and chapters, by hand."""

from __future__ import annotations

import pytest

from adapcla.data import code_systems


@pytest.mark.parametrize(
    ("code", "nine", "ten"),
    [
        ("401", True, False),
        ("401.9", True, False),
        ("40190", True, False),
        ("401901", False, False),
        ("V10.1", True, True),
        ("e849.7", True, False),
        ("E84", False, True),
        ("i10", False, True),
        ("C7A.1", False, True),
        ("S72.001A", False, True),
        ("S72001AXY", False, False),
        ("40", False, False),
        ("", False, False),
    ],
)
def test_forms_by_hand(code, nine, ten):
    assert (code_systems.has_form(code, code_systems.ICD9), code_systems.has_form(code, code_systems.ICD10)) == (
        nine,
        ten,
    )
    assert not code_systems.has_form(code, "LOCAL")


def test_codes_of_both_forms_are_decided_by_the_others_and_alone_are_icd9():
    assert code_systems.system_of(["V101", "E849", "I10"]) == code_systems.ICD10
    assert code_systems.system_of(["V101", "E849", "4019"]) == code_systems.ICD9
    assert code_systems.system_of(["V101"]) == code_systems.system_of([]) == code_systems.ICD9


@pytest.mark.parametrize(
    ("code", "name"),
    [("001", "01"), ("139.8", "01"), ("140", "02"), ("4019", "07"), ("799", "16"), ("800", "17"), ("999", "17")],
)
def test_chapters_of_icd9_end_where_the_book_says(code, name):
    assert code_systems.icd_chapter(code, code_systems.ICD9) == f"ICD9 {name}"


def test_supplementary_codes_have_chapters_of_their_own():
    assert (
        code_systems.icd_chapter("E849.7", code_systems.ICD9) == "ICD9 E"
        and code_systems.icd_category("e849.7", code_systems.ICD9) == "E849"
    )
    assert (
        code_systems.icd_chapter("V45", code_systems.ICD9) == "ICD9 V"
        and code_systems.icd_category("V4581", code_systems.ICD9) == "V45"
    )
    assert (
        code_systems.icd_chapter("e84.0", code_systems.ICD10) == "ICD10 E"
        and code_systems.icd_category("e84.0", code_systems.ICD10) == "E84"
    )


@pytest.mark.parametrize(
    ("code", "system", "wanted"),
    [
        ("0389", "ICD9CM", "038"),
        ("038.9", "ICD9CM", "038"),
        ("V4581", "ICD9CM", "V45"),
        ("E849.7", "ICD9CM", "E849"),
        ("E119", "ICD10CM", "E11"),
        ("S72.001A", "ICD10CM", "S72"),
    ],
)
def test_category_is_three_characters_and_four_for_e_codes(code, system, wanted):
    assert code_systems.icd_category(code, system) == wanted
