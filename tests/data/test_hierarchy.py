"""The family tree of codes, read off the form of ICD-9 and ICD-10 codes."""

from __future__ import annotations

import pytest

from adapcla.data import Code, Hierarchy, Vocabulary


def tree(*codes: str, system: str = "") -> Hierarchy:
    found = Hierarchy.of(Vocabulary.of(Code.of(code, system=system) for code in codes))
    assert found is not None
    return found


def family(found: Hierarchy, position: int) -> tuple[str, str]:
    return found.categories[found.category[position]], found.chapters[found.chapter[position]]


@pytest.mark.parametrize(
    ("code", "category", "chapter"),
    [
        ("0389", "038", "ICD9 01"),
        ("1398", "139", "ICD9 01"),
        ("140", "140", "ICD9 02"),
        ("25000", "250", "ICD9 03"),
        ("4019", "401", "ICD9 07"),
        ("999.9", "999", "ICD9 17"),
        ("V270", "V27", "ICD9 V"),
        ("E8500", "E850", "ICD9 E"),
    ],
)
def test_icd9_families(code, category, chapter):
    """Chapter borders as in the classification: 001–139 infectious, 140–239 neoplasms, 240–279 endocrine …"""
    assert family(tree(code, system="ICD9CM"), 0) == (category, chapter)


@pytest.mark.parametrize(
    ("code", "category", "chapter"),
    [("I10", "I10", "ICD10 I"), ("E119", "E11", "ICD10 E"), ("S72.001A", "S72", "ICD10 S")],
)
def test_icd10_families(code, category, chapter):
    assert family(tree(code, system="ICD10CM"), 0) == (category, chapter)


def test_codes_of_one_category_share_it():
    found = tree("25000", "25001", "4019")
    assert found.category.tolist() == [0, 0, 1]
    assert found.chapter.tolist() == [0, 0, 1]


def test_bare_codes_that_could_be_either_follow_the_others():
    """E119 is diabetes in ICD-10 and a form that ICD-9 injuries have too; the company it keeps decides."""
    assert family(tree("E119", "I10", "J45"), 0) == ("E11", "ICD10 E")
    assert family(tree("4019", "25000", "E119"), 2) == ("E119", "ICD9 E")


def test_both_systems_side_by_side_stay_apart():
    found = Hierarchy.of(Vocabulary.of([Code.of("E119", "ICD10CM"), Code.of("E119", "ICD9CM")]))
    assert found is not None
    assert found.categories == ("E11", "E119")


def test_other_codes_show_no_tree():
    assert Hierarchy.of(Vocabulary.of(["44054006", "38341003"])) is None
    assert Hierarchy.of(Vocabulary.of([])) is None


def test_a_few_strangers_are_families_of_their_own():
    """19 ICD-9 codes and one stranger: 95 % are known, so there is a tree, and the stranger borrows from nobody."""
    found = tree(*(f"{i}0" for i in range(401, 420)), "STRANGER")
    assert len(found.categories) == 20
    assert found.categories[found.category[-1]] == "STRANGER"


def test_half_strangers_are_too_many():
    assert Hierarchy.of(Vocabulary.of(["4019", "STRANGER"])) is None
