"""What is known about codes: recognition, levels, coarser codes, mappings and titles, against the published tables."""

from __future__ import annotations

import csv
import gzip
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapcla.data import Code, Cohort, Hierarchy, Vocabulary, code_systems
from adapcla.data.code_systems import ICD9, ICD10, identify, read_hierarchy, recognize_systems
from adapcla.data.rollup import roll_up
from adapcla.errors import InputError, UsageError


# ---- forms and levels --------------------------------------------------------------------------------------
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
def test_forms_by_hand(code: str, nine: bool, ten: bool) -> None:
    assert (code_systems.has_form(code, ICD9), code_systems.has_form(code, ICD10)) == (nine, ten)
    assert not code_systems.has_form(code, "LOCAL")


@pytest.mark.parametrize(
    ("code", "system", "levels"),
    [
        ("0389", "ICD9CM", ("038", "030-041", "001-139")),
        ("1398", "ICD9CM", ("139", "137-139", "001-139")),
        ("140", "ICD9CM", ("140", "140-149", "140-239")),
        ("25000", "ICD9CM", ("250", "249-259", "240-279")),
        ("4019", "ICD9CM", ("401", "401-405", "390-459")),
        ("999.9", "ICD9", ("999", "996-999", "800-999")),
        ("V270", "ICD9CM", ("V27", "V20-V29", "V01-V91")),
        ("V85.1", "ICD9CM", ("V85", "", "V01-V91")),
        ("E8500", "ICD9CM", ("E850", "E850-E858", "E000-E999")),
        ("I10", "ICD10CM", ("I10", "I10-I1A", "I00-I99")),
        ("I25.1", "ICD10CM", ("I25", "I20-I25", "I00-I99")),
        ("D45", "ICD10CM", ("D45", "D37-D48", "C00-D49")),
        ("D50.9", "ICD10CM", ("D50", "D50-D53", "D50-D89")),
        ("H60", "ICD10", ("H60", "H60-H62", "H60-H95")),
        ("C50.1", "ICD10CM", ("C50", "", "C00-D49")),
        ("O9A.1", "ICD10CM", ("O9A", "O94-O9A", "O00-O9A")),
        ("S72.001A", "ICD10CM", ("S72", "S70-S79", "S00-T88")),
        ("W19", "ICD10CM", ("W19", "W00-W19", "V00-Y99")),
        ("F00.1", "ICD10", ("F00", "", "F01-F99")),
        ("E90", "ICD10", ("E90", "", "E00-E89")),
    ],
)
def test_levels_are_those_that_the_classification_prints(code: str, system: str, levels: tuple[str, str, str]) -> None:
    found = identify(code, system)
    assert found is not None
    assert (found.category, found.block, found.chapter) == levels


@pytest.mark.parametrize("system", [ICD9, ICD10])
def test_every_listed_category_lies_in_one_chapter_and_at_most_one_block(system: str) -> None:
    listed = {code_systems.icd_category(code, system) for code in code_systems._titles(system)}
    for name, table in (("chapter", code_systems._CHAPTERS), ("block", code_systems._BLOCKS)):
        ranges = sorted(tuple(text.split("-")) for text in table[system].split())
        assert all(one[1] < two[0] for one, two in itertools.pairwise(ranges)), "ranges overlap"
        inside = {category: getattr(identify(category, system), name) for category in listed}
        for category, found in inside.items():
            if found:
                first, last = found.split("-")
                assert first <= category <= last or (name, category) == ("chapter", "QA0")
    blocks = [identify(category, system) for category in listed]
    assert sum(bool(found and found.block) for found in blocks) > 0.96 * len(listed)


def test_levels_end_at_the_chapter_and_a_level_has_only_those_above_it() -> None:
    above = {code: identify(code, "ICD10CM").above for code in ("I251", "I25", "I20-I25", "I00-I99", "I20-I29")}  # type: ignore[union-attr]
    assert above == {
        "I251": ("I25", "I20-I25", "I00-I99"),
        "I25": ("I20-I25", "I00-I99"),
        "I20-I25": ("I00-I99",),
        "I00-I99": (),
        "I20-I29": ("I00-I99",),  # a run of ten that earlier versions rolled up to
    }


def test_a_procedure_code_is_no_diagnosis() -> None:
    """B2111ZZ was taken for a diagnosis of category B21 in chapter B."""
    procedures = Vocabulary.of([Code.of("B2111ZZ", "ICD10PCS", domain="procedure"), Code.of("I10", "ICD10CM")])
    assert code_systems.icd_systems(procedures) == ["ICD10CM", ""]
    assert code_systems.chapters(procedures) == ["I00-I99", "B21"]
    assert recognize_systems(["I10", "E119", "B2111ZZ"]) == ["ICD10CM", "ICD10CM", "ICD10PCS"]


def test_the_system_named_icd9_has_a_hierarchy_as_its_codes_have_ancestors() -> None:
    short = Vocabulary.of([Code.of("4019", "ICD9"), Code.of("25000", "ICD9")])
    assert Hierarchy.of(short) is not None
    assert [code.token for code in code_systems.ancestors(short)[1]] == ["ICD9/401", "ICD9/401-405", "ICD9/390-459"]


# ---- codes without a system --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "codes",
    [
        ["44054006", "38341003"],
        [f"A{number:05d}" for number in range(300)],
        [f"{number:03d}" for number in range(1, 1000)],
        [f"{letter}{number:02d}" for letter in "ABCDEFGHJKLMNPQRSTUVWXYZ" for number in range(100)],
        [f"{number:05d}" for number in range(0, 99999, 997)],
        [f"K{number}" for number in range(100, 1000)],
        ["4019", "STRANGER"],
        [],
    ],
    ids=["snomed", "numbered", "three digits", "letter and two", "five digits", "letter and three", "half", "none"],
)
def test_local_codes_are_not_taken_for_icd(codes: list[str]) -> None:
    """They were rolled up to chapters of ICD, so that nothing of a house's own codes was kept."""
    assert recognize_systems(codes) == [""] * len(codes)
    assert Hierarchy.of(Vocabulary.of(codes)) is None
    assert code_systems.ancestors(Vocabulary.of(codes)) == [()] * len(codes)


def test_bare_codes_that_could_be_either_follow_the_others() -> None:
    """E8497 is a place of accident in ICD-9 and has the form of cystic fibrosis in ICD-10."""
    assert recognize_systems(["E849", "E840", "I10", "J45"]) == ["ICD10CM"] * 4
    assert recognize_systems(["E849", "4019", "25000"]) == ["ICD9CM"] * 3
    assert recognize_systems(["V10"]) == ["ICD9CM"]


def test_codes_of_both_revisions_are_told_one_by_one() -> None:
    assert recognize_systems(["4019", "25000", "I10", "E119"]) == ["ICD9CM", "ICD9CM", "ICD10CM", "ICD10CM"]


def test_icd10_of_another_country_is_icd10() -> None:
    german = ["I10.90", "E11.90", "I64", "J44.19", "F00.1", "G35", "K21.9", "M54.5", "N18.4", "R51", "Z92.1", "B24"]
    usual = ["A09.0", "C34.1", "D50.9", "E78.0", "F32.1", "I21.4", "I48.0", "I50.1", "J18.9", "K80.2", "N39.0", "S72.0"]
    more = ["A41.9", "C50.9", "E66.0", "F10.2", "G40.2", "I25.1", "I63.9", "K57.3", "L40.0", "M17.1", "N20.0", "T81.4"]
    more += ["B34.9", "C18.9", "E87.6", "F41.9", "G47.3", "H25.9", "I35.0", "J06.9", "K29.7", "M51.2", "N40", "R07.4"]
    more += ["A46", "C61", "E03.9", "F20.0", "G20.9", "H40.1", "I70.2", "J20.9", "K35.8", "L03.1", "M80.0", "O80"]
    assert set(recognize_systems(german[:-1] + usual + more)) == {"ICD10CM", ""}
    assert recognize_systems(german + usual + more)[0] == "ICD10CM"


def test_local_codes_are_rolled_up_only_by_a_hierarchy_that_is_given(tmp_path: Path) -> None:
    patients = [[["W-1", "W-9"]], [["W-2", "W-9"]], [["W-1", "W-9"]], [["W-2", "W-9"]]]
    local = Cohort.of(patients)
    assert [code and code.token for code in roll_up(local, 3).codes] == [None, None, "W-9"]
    table = tmp_path / "levels.csv"
    table.write_text("code,parent,description\nW-1,WOUND,Wound of the skin\nW-2,WOUND,\nWOUND,SKIN,\n")
    rolled = roll_up(local, 3, read_hierarchy(table))
    assert [code and code.token for code in rolled.codes] == ["WOUND", "WOUND", "W-9"]


def test_a_hierarchy_that_turns_in_a_circle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "levels.csv").write_text("code,parent\nA,B\nB,A\n")
    with pytest.raises(InputError, match="above itself"):
        read_hierarchy(tmp_path / "levels.csv")(Vocabulary.of(["A", "B"]))
    (tmp_path / "twice.csv").write_text("code,parent\nA,B\nA,C\n")
    with pytest.raises(InputError, match="row 3"):
        read_hierarchy(tmp_path / "twice.csv")


# ---- the hierarchy of a vocabulary -------------------------------------------------------------------------
def test_codes_of_one_category_share_it() -> None:
    found = Hierarchy.of(Vocabulary.of(["25000", "25001", "4019"]))
    assert found is not None
    assert found.category.tolist() == found.block.tolist() == found.chapter.tolist() == [0, 0, 1]


def test_both_systems_side_by_side_stay_apart() -> None:
    found = Hierarchy.of(Vocabulary.of([Code.of("V10", "ICD10CM"), Code.of("V10", "ICD9CM")]))
    assert found is not None
    assert (found.categories, found.category.tolist()) == (("V10", "V10"), [0, 1])


def test_a_few_unknown_codes_are_alone() -> None:
    known = ["250", "401", "402", "403", "404", "405", "410", "411", "412", "413", "414", "415", "416", "417", "420"]
    found = Hierarchy.of(Vocabulary.of([*known, "421", "422", "423", "424", "UNKNOWN"]))
    assert found is not None
    assert found.categories[found.category[-1]] == found.blocks[found.block[-1]] == "UNKNOWN"


# ---- CCS, the other revision, categories -------------------------------------------------------------------
@pytest.mark.parametrize(
    ("code", "system", "wanted"),
    [
        ("250.00", "ICD9CM", "49"),
        ("25000", "ICD9CM", "49"),
        ("I10", "ICD10CM", "98"),
        ("E11.9", "ICD10CM", "49"),
        ("E7800", "ICD10CM", "53"),  # younger than the mapping: all codes under E780 agree
        ("428", "ICD9CM", "108"),  # a category: all its codes agree
        ("250", "ICD9CM", None),  # with and without complications: no agreement
        ("E8497", "ICD9CM", "2621"),
        ("ZZZ", "ICD10CM", None),
    ],
)
def test_ccs_of_known_codes(code: str, system: str, wanted: str | None) -> None:
    assert code_systems.ccs(code, system) == wanted


def test_ccs_agrees_with_the_published_icd9_table(open_data_at: Callable[[str], Path]) -> None:
    with gzip.open(open_data_at("vocab/ccs_icd9cm_single.csv.gz"), "rt", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) > 15_000
    assert [row["icd9cm"] for row in rows if code_systems.ccs(row["icd9cm"], "ICD9CM") != row["ccs"]] == []
    assert all(code_systems.ccs_name(row["ccs"]) == row["ccs_label"] for row in rows)


def test_ccs_of_icd10_agrees_with_the_published_table_on_codes_in_use(open_data_at: Callable[[str], Path]) -> None:
    """Through the equivalence mapping 95 % of the diagnoses written in a hospital land in the official group."""
    with gzip.open(open_data_at("vocab/ccs_icd10cm_2019.csv.gz"), "rt", encoding="utf-8") as stream:
        official = {row["ICD-10-CM CODE"]: row["CCS CATEGORY"] for row in csv.DictReader(stream)}
    with gzip.open(open_data_at("mimic4_demo/hosp/diagnoses_icd.csv.gz"), "rt", encoding="utf-8") as stream:
        used = [row["icd_code"] for row in csv.DictReader(stream) if row["icd_version"] == "10"]
    judged = [code for code in used if code in official]
    same = sum(code_systems.ccs(code, "ICD10CM") == official[code] for code in judged)
    assert same / len(judged) > 0.94


def test_mapping_skips_what_has_no_counterpart_and_takes_the_unspecified_of_equals() -> None:
    """I10 answers to 401.0, 401.1 and 401.9 alike; 36570 has no counterpart; 003.1 + 995.91 is a combination."""
    assert code_systems.map_codes(["I10", "A02.1"], to="ICD9CM") == {"I10": "4019", "A02.1": "0031"}
    assert code_systems.map_codes(["36570", "0010", "0010"], to="ICD10CM") == {"0010": "A000"}


def test_mapping_a_cohort_keeps_bare_and_unmapped_codes() -> None:
    """Two ICD-9 codes become E119: one entry in the visit; the unmapped code stays in ICD-9."""
    listed = [Code.of(c, "ICD9CM") for c in ("25000", "25002", "36570")] + [Code.of("99", "LOCAL")]
    cohort = Cohort.of([[["ICD9CM/25000", "ICD9CM/25002", "ICD9CM/36570", "LOCAL/99"]]], listed)
    mapped = code_systems.map_revision(cohort, "ICD10CM")
    visit = next(mapped.patients())[0]
    assert "ICD9CM/36570" in visit
    assert "LOCAL/99" in visit
    assert not any(token.startswith("ICD9CM/25") for token in visit)
    assert mapped.card["icd"]["codes without a counterpart, kept"] == 1
    assert mapped.card["icd"]["entries without a counterpart, kept"] == 1


def test_codes_without_a_system_are_mapped_too() -> None:
    """`--icd map10` did nothing for them, and said that nothing was mapped."""
    mapped = code_systems.map_revision(Cohort.of([[["4019", "25000"]]]), "ICD10CM")
    assert list(mapped.patients()) == [[["E119", "I10"]]]
    assert mapped.card["icd"]["codes mapped"] == 2


def test_a_mapped_code_is_written_as_the_codes_that_are_there() -> None:
    """E11.9 and E119 became two codes."""
    listed = [Code.of("250.00", "ICD9CM"), Code.of("401.9", "ICD9CM"), Code.of("E11.9", "ICD10CM")]
    cohort = Cohort.of([[["ICD9CM/250.00", "ICD9CM/401.9"], ["ICD10CM/E11.9"]]], listed)
    assert list(code_systems.map_revision(cohort, "ICD10CM").patients()) == [
        [["ICD10CM/E11.9", "ICD10CM/I10"], ["ICD10CM/E11.9"]]
    ]
    bare = code_systems.map_revision(Cohort.of([[["250.00", "401.9"], ["E11.9", "I10", "J45.0"]]]), "ICD10CM")
    assert list(bare.patients()) == [[["E11.9", "I10"], ["E11.9", "I10", "J45.0"]]]


def test_group_at_ccs_joins_both_revisions_and_keeps_the_rest() -> None:
    listed = [
        Code.of("4019", "ICD9CM"),
        Code.of("I10", "ICD10CM"),
        Code.of("250", "ICD9CM"),
        Code.of("3893", "ICD9PROC", domain="procedure"),
    ]
    cohort = Cohort.of([[["ICD9CM/4019", "ICD9CM/250"], ["ICD10CM/I10", "ICD9PROC/3893"]]], listed)
    grouped = code_systems.group_codes(cohort, "ccs")
    assert list(grouped.patients()) == [[["CCS/98", "ICD9CM/250"], ["CCS/98", "ICD9PROC/3893"]]]
    assert grouped.card["level"]["codes kept as they were"] == 2
    assert grouped.vocabulary.codes[0].description == "Essential hypertension"
    assert code_systems.group_codes(cohort, "full") is cohort


def test_unknown_level_and_target_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="category"):
        code_systems.group_codes(Cohort.of([[["4019"]]]), "chapter")
    with pytest.raises(UsageError, match="ICD10CM"):
        code_systems.map_codes(["4019"], to="ICD11")


def test_without_the_extra_ccs_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for cached in (code_systems._ccs_table, code_systems._ccs_of_icd9, code_systems._ccs_of_icd10, code_systems._gem):
        cached.cache_clear()
    monkeypatch.setattr(code_systems, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"adapcla\[codes\]"):
        code_systems.group_codes(Cohort.of([[["4019"]]]), "ccs")
    assert code_systems.group_codes(Cohort.of([[["4019"]]]), "category").n_codes == 1


@pytest.mark.parametrize(
    ("system", "code", "title"),
    [
        ("ICD9CM", "401", "Essential hypertension"),
        ("ICD9CM", "E849", "Place of occurrence"),
        ("ICD9CM", "285", "Other and unspecified anemias"),
        ("ICD9CM", "250.6", "Diabetes with neurological manifestations"),
        (
            "ICD9CM",
            "0413",
            "Friedländer's bacillus infection in conditions classified elsewhere and of unspecified site",
        ),
        ("ICD9PROC", "0001", "Therapeutic ultrasound of vessels of head and neck"),
        ("ICD10CM", "U07.1", "COVID-19"),
        ("ICD10CM", "E11", "Type 2 diabetes mellitus"),
        ("ICD10PCS", "0DTJ4ZZ", "Resection of Appendix, Percutaneous Endoscopic Approach"),
    ],
)
def test_titles_need_no_other_package(system: str, code: str, title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_systems, "find_spec", lambda name: None)
    assert code_systems.describe_codes(Vocabulary.of([Code.of(code, system)])) == {f"{system}/{code}": title}


@pytest.mark.parametrize(("file", "system"), [("icd9cm_dx", "ICD9CM"), ("icd9cm_px", "ICD9PROC")])
def test_titles_are_those_of_the_published_lists(file: str, system: str, open_data_at: Callable[[str], Path]) -> None:
    with gzip.open(open_data_at(f"vocab/{file}.csv.gz"), "rt", encoding="utf-8") as stream:
        published = {row["code"]: row["long"] for row in csv.DictReader(stream)}
    listed = Vocabulary.of([Code.of(code, system) for code in published])
    known = code_systems.describe_codes(listed)
    assert {code: known.get(f"{system}/{code}") for code in published} == published


def test_descriptions_of_categories_dotted_codes_and_procedures() -> None:
    listed = [
        Code.of("E11", "ICD10CM"),
        Code.of("E11.9", "ICD10CM"),
        Code.of("0016070", "ICD10PCS", domain="procedure"),
        Code.of("x", "LOCAL", description="mine"),
    ]
    known = code_systems.describe_codes(Vocabulary.of(listed))
    assert known["ICD10CM/E11"] == "Type 2 diabetes mellitus"
    assert known["ICD10CM/E11.9"] == "Type 2 diabetes mellitus without complications"
    assert known["ICD10PCS/0016070"].startswith("Bypass Cerebral Ventricle")
    assert known["LOCAL/x"] == "mine"
    shown = code_systems.add_descriptions(Cohort.of([[["ICD10CM/E11"]]], listed[:1]))
    assert shown.vocabulary.codes[0].description == "Type 2 diabetes mellitus"


token = st.sampled_from(["25000", "25001", "4019", "4011", "0389", "V4581"])


@settings(max_examples=40)
@given(st.lists(st.lists(st.lists(token, min_size=1, max_size=5), min_size=1, max_size=3), min_size=1, max_size=5))
def test_grouping_is_the_set_of_categories_of_each_visit(patients: list[list[list[str]]]) -> None:
    cohort = Cohort.of(patients, days=np.concatenate([np.arange(len(p), dtype=np.int32) for p in patients]))
    grouped = code_systems.group_codes(cohort, "category")
    wanted = [[sorted({c[:3] for c in visit}) for visit in patient] for patient in patients]
    assert list(grouped.patients()) == wanted
    assert (grouped.days == cohort.days).all()


def test_ranges_of_rolled_up_codes_do_not_hide_what_the_others_are():
    """Half of the codes are sections: the other half still has titles."""
    known = code_systems.describe_codes(Vocabulary.of(["I61", "E11", "I60-I69", "E10-E19"]))
    assert set(known) == {"I61", "E11"}
