from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from adapcla.data import Cohort
from adapcla.errors import InputError, UsageError
from adapcla.io import read

#: Data set → (patients, visits, codes) as its description counts them.
OPEN_DATA = {
    "synpuf_inpatient": (42_324, 74_371, 5_462),
    "diabetes130": (57_298, 81_611, 898),
    "chile_grd_inca2023": (2_916, 3_558, 1_484),
    "mimic4_demo": (100, 275, 1_474),
    "mimic3_demo": (100, 129, 581),
    "synthea": (986, 19_591, 136),
    "synpuf1k_omop_eras": (928, 44_008, 5_068),
}


def read_text(folder: Path, text: str, name: str = "t.csv", **options: object) -> Cohort:
    (folder / name).write_text(text, encoding="utf-8")
    return read("table", folder / name, **options)


def visits(cohort: Cohort) -> list[list[list[str]]]:
    return list(cohort.patients())


def test_one_row_a_code(tmp_path: Path) -> None:
    text = "patient_id,visit_id,date,code\n1,b,2020-01-01,A\n1,a,2020-02-01,B\n1,b,2020-01-01,C\n"
    assert visits(read_text(tmp_path, text)) == [[["A", "C"], ["B"]]]


@pytest.mark.parametrize("mark", [" ", ";", "|", ","])
def test_one_row_a_visit_with_any_separator(tmp_path: Path, mark: str) -> None:
    text = f'patient_id,visit_id,dx\n1,1,"0389{mark}4019"\n1,2,"NA"\n'
    assert visits(read_text(tmp_path, text)) == [[["0389", "4019"], ["NA"]]]


def test_a_stray_blank_in_one_row_a_code_is_a_name_not_two_codes(tmp_path: Path) -> None:
    cohort = read_text(tmp_path, "patient_id,visit_id,code\n1,1,A\n1,1,B\n1,1,C D\n")
    assert visits(cohort) == [[["A", "B", "C D"]]]


def test_a_named_separator_is_taken_as_it_is(tmp_path: Path) -> None:
    assert visits(read_text(tmp_path, "patient_id,visit_id,code\n1,1,A+B\n", separator="+")) == [[["A", "B"]]]


def test_the_guesses_are_said_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ADAPCLA_QUIET", raising=False)
    read_text(tmp_path, "Subject_ID,HADM_ID,icd9_code\n1,1,A\n")
    said = capsys.readouterr()
    assert "patient=Subject_ID, visit=HADM_ID, dx=icd9_code" in said.err
    assert said.out == ""


def test_named_columns_win_over_guesses(tmp_path: Path) -> None:
    text = "patient_id,visit_id,code,who,stay,what\n1,1,A,x,7,B\n"
    assert visits(read_text(tmp_path, text, patient="who", visit="stay", codes="what")) == [[["B"]]]


def test_without_a_visit_column_a_day_is_a_visit(tmp_path: Path) -> None:
    text = "patient_id,date,code\n1,2020-01-01 08:00:00,A\n1,2020-01-01 20:00:00,B\n1,2020-01-02,C\n"
    cohort = read_text(tmp_path, text)
    assert visits(cohort) == [[["A", "B"], ["C"]]]
    assert cohort.days is not None and cohort.days.tolist() == [0, 1]
    assert cohort.card["visit_rule"] == "one value of date; ordered by date"


def test_neither_visit_nor_date_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column 'visit_id' and no date"):
        read_text(tmp_path, "patient_id,code\n1,A\n")


def test_a_visit_number_tells_apart_what_the_id_does_not(tmp_path: Path) -> None:
    text = "patient_id,visit_id,visit_index,day,dx\n1,x,1,0,A\n1,x,2,5,B\n"
    assert visits(read_text(tmp_path, text)) == [[["A"], ["B"]]]


def test_the_system_column_keeps_revisions_apart(tmp_path: Path) -> None:
    text = "patient_id,visit_id,code_system,dx,px\n1,1,ICD9CM,4019,0389\n1,2,ICD10CM,I10,0DJD8ZZ\n"
    cohort = read_text(tmp_path, text, domains=("dx", "px"))
    assert visits(cohort) == [[["ICD9CM/4019", "ICD9PROC/0389"], ["ICD10CM/I10", "ICD10PCS/0DJD8ZZ"]]]
    assert [code.domain for code in cohort.vocabulary.codes] == ["diagnosis", "procedure", "diagnosis", "procedure"]


def test_domains_never_share_a_token(tmp_path: Path) -> None:
    text = "patient_id,visit_id,dx,px,rx\n1,1,401,401,401\n"
    cohort = read_text(tmp_path, text, domains=("dx", "px", "rx"))
    assert visits(cohort) == [[["401", "PX/401", "RX/401"]]]


def test_drugs_in_one_cell_are_torn_apart_where_the_user_says_so(tmp_path: Path) -> None:
    text = "patient_id,visit_id,dx,rx\n1,1,A,insulin:Up A10BA02\n"
    cohort = read_text(tmp_path, text, domains=("dx", "rx"), separator=" ")
    assert visits(cohort) == [[["A", "RX/A10BA02", "RX/insulin:Up"]]]


@pytest.mark.parametrize("codes", ["d1,d2,d3", "d*", "D1, d2 ,d3"])
def test_codes_in_several_columns(tmp_path: Path, codes: str) -> None:
    cohort = read_text(tmp_path, "patient_id,visit_id,d1,d2,d3\n1,1,A,B,\n1,2,0389,,\n", codes=codes)
    assert visits(cohort) == [[["A", "B"], ["0389"]]]
    assert cohort.card["dropped"] == {}
    assert "dx=d1+d2+d3" in cohort.card["columns"]


def test_a_column_among_several_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column 'd9'"):
        read_text(tmp_path, "patient_id,visit_id,d1\n1,1,A\n", codes="d1,d9")


def test_a_date_makes_a_guessed_day_needless(tmp_path: Path) -> None:
    """A column `day` may hold names of days; beside a date it is not looked at unless named."""
    cohort = read_text(tmp_path, "patient_id,visit_id,date,day,code\n1,1,2020-01-01,Monday,A\n")
    assert cohort.days is not None and cohort.days.tolist() == [0]


def test_attributes(tmp_path: Path) -> None:
    text = "patient_id,visit_id,visit_index,code,age band,SEX\n1,x,1,A,30-39,F\n1,y,2,A,40-49,F\n2,z,1,A,,M\n"
    cohort = read_text(tmp_path, text, attributes=("age band", "sex"))
    assert cohort.attributes["age_band"].values.tolist() == [0, -1]
    assert cohort.attributes["age_band"].categories == ("30-39",)
    assert cohort.attributes["sex"].categories == ("F", "M")


def test_an_attribute_may_not_be_an_id(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--attributes patient"):
        read_text(tmp_path, "patient,visit,code\n1,1,A\n", attributes=("patient",))


def test_quotes_in_names_and_separators_are_harmless(tmp_path: Path) -> None:
    text = '"p\'""; DROP TABLE raw; --",visit_id,code\n1,1,A\'B\n'
    cohort = read_text(tmp_path, text, patient="p'\"; DROP TABLE raw; --", separator="'")
    assert visits(cohort) == [[["A", "B"]]]


def test_one_column_for_two_domains_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one column for two domains"):
        read_text(tmp_path, "patient_id,visit_id,px\n1,1,A\n", domains=("dx", "px"), codes="px")


def test_a_folder_of_shards(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"part{i}.csv").write_text(f"patient_id,visit_id,code\n{i},1,A\n", encoding="utf-8")
    assert read("table", tmp_path).n_patients == 3


@pytest.mark.parametrize("name", list(OPEN_DATA))
def test_open_data_with_no_option(open_data_at: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    patients, n_visits, n_codes = OPEN_DATA[name]
    cohort = read("table", open_data_at(f"{name}/visits.csv.gz"))
    dropped = cohort.card["dropped"]
    assert cohort.n_patients == patients - dropped.get("patients without a visit", 0)
    assert cohort.n_visits == n_visits - dropped.get("visits without a code", 0)
    assert cohort.n_codes == n_codes
    assert set(dropped) <= {"visits without a code", "patients without a visit"}
    json.dumps(cohort.card)
