"""Coarser levels, descriptions and mappings of ICD codes, against cases known from the published tables."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapcla.data import Code, Cohort, Vocabulary, code_systems
from adapcla.errors import UsageError


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


def test_bare_codes_are_judged_together() -> None:
    """E119 alone could be an ICD-9 E-code; beside I10 and J45 it is ICD-10. Snomed numbers are neither."""
    assert set(code_systems.icd_systems(Vocabulary.of(["E119", "I10", "J45"]))) == {"ICD10CM"}
    assert set(code_systems.icd_systems(Vocabulary.of(["E8497", "0389", "V270"]))) == {"ICD9CM"}
    assert set(code_systems.icd_systems(Vocabulary.of(["44054006", "38341003"]))) == {""}


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
