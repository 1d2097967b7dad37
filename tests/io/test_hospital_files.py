"""Files as hospitals send them: other languages, separators, encodings, dates and numbers; nothing is lost silently."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import polars as pl
import pytest
import xlsxwriter

from adapcla.errors import InputError
from adapcla.io import read
from adapcla.io.preview import preview


def written(folder: Path, text: str, encoding: str = "utf-8", name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


GERMAN = """Patienten-ID;Fallnummer;Aufnahmedatum;Entlassungsdatum;Hauptdiagnose;Nebendiagnose 1;Nebendiagnose 2;Größe
4711;1;31.12.2019;02.01.2020;I10.90;E11.90;;1,80
4711;2;5.3.2020;6.3.2020;J18.9;;;1,80
0815;3;01.02.2020 14:30;03.02.2020;I10.90;Z95.1;E78.0;1,65
"""


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16", "utf-8-sig"])
def test_a_german_export_is_read_without_an_option(tmp_path: Path, encoding: str) -> None:
    cohort = read("table", written(tmp_path, GERMAN, encoding), domains=("dx", "stay"))
    assert [[[t for t in visit if "/" not in t] for visit in patient] for patient in cohort.patients()] == [
        [["E78.0", "I10.90", "Z95.1"]],
        [["E11.90", "I10.90"], ["J18.9"]],
    ]
    assert cohort.days is not None and cohort.days.tolist() == [0, 0, 65]
    assert cohort.values is not None and sorted(cohort.values[cohort.values > 0].tolist()) == [1.0, 2.0, 2.0]
    assert cohort.card["dropped"] == {}


@pytest.mark.parametrize(
    "header",
    [
        ("patient", "encounter", "admission date", "diagnosis"),
        ("PID", "Encounter ID", "AdmitDate", "dx"),
        ("MRN", "Visit", "date_of_admission", "ICD-10 Code"),
        ("Patientennummer", "Fall-Nr.", "Datum", "Diagnose"),
        ("id_patient", "num_sejour", "date_entree", "CIM10"),
        ("ID paciente", "Episodio", "Fecha ingreso", "CIE10"),
    ],
)
def test_headers_in_other_words(tmp_path: Path, header: tuple[str, ...]) -> None:
    path = written(tmp_path, ",".join(header) + "\n7,1,2020-01-31,I10\n7,2,2020-03-01,E11.9\n")
    cohort = read("table", path)
    assert list(cohort.patients()) == [[["I10"], ["E11.9"]]] and cohort.days is not None


@pytest.mark.parametrize("names", ["dx{}", "Diagnosis {}", "ICD10_{}", "icd9_code{}", "DIAG_{}", "Nebendiagnose{}"])
def test_wide_tables_of_any_width(tmp_path: Path, names: str) -> None:
    """Of `dx1 … dx25` the first column was read, and the others were not."""
    header = ["patient_id", "visit_id", *(names.format(number) for number in range(1, 26))]
    row = ["1", "1", *(f"A{number:02}" for number in range(1, 26))]
    cohort = read("table", written(tmp_path, ",".join(header) + "\n" + ",".join(row) + "\n"))
    assert cohort.n_codes == 25 and cohort.card["dropped"] == {}


def test_the_name_of_a_drug_is_not_torn_apart(tmp_path: Path) -> None:
    """A single `Aspirin 81 mg` made the blank a separator for every column, and three codes of each name."""
    text = "patient_id,visit_id,dx,drug\n1,1,I10,Aspirin 81 mg\n2,1,E11,Ibuprofen\n"
    cohort = read("table", written(tmp_path, text), domains=("dx", "rx"))
    assert cohort.vocabulary.tokens == ("E11", "I10", "RX/Aspirin 81 mg", "RX/Ibuprofen")


def test_dates_of_many_forms_are_all_read(tmp_path: Path) -> None:
    """A column of mixed forms cost half of the patients."""
    dates = ("2020-01-31", "31.01.2020", "20200131", "31-Jan-2020", "31/01/2020", "2020/01/31 08:00", "31. Jan 2020")
    rows = "".join(f"{number},1,{date},A\n" for number, date in enumerate(dates))
    cohort = read("table", written(tmp_path, "patient_id,visit_id,date,code\n" + rows))
    assert cohort.n_patients == len(dates) and cohort.card["dropped"] == {}
    assert cohort.card["taken for"] == {"dates such as 03/04/2020": "day first"}


def test_all_that_is_unclear_is_asked_for_at_once(tmp_path: Path) -> None:
    text = 'who,date,dx,icd_code,value\n1,03/04/2020,I10,E11,"1,234"\n1,05/06/2020,I11,E12,"2,345"\n'
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read("table", path, value="value")
    said = str(caught.value)
    for option in ("--patient COLUMN", "--codes COLUMN", "--read date_order=dmy", "--read decimal=comma"):
        assert option in said
    assert "4 things are unclear" in said and "I10" not in said and "1,234 may" in said
    options = {"patient": "who", "codes": "dx", "date_order": "dmy", "decimal": "comma", "value": "value"}
    assert read("table", path, **options).values is not None


def test_words_of_stays_in_german(tmp_path: Path) -> None:
    """They were of another kind, every one, without a word on the screen."""
    text = "Patient;Fall;Aufnahmeart;Entlassungsart;ICD\n1;1;Notfall;Nach Hause;I10\n2;2;Geplant;Verstorben;I10\n"
    cohort = read("table", written(tmp_path, text, "cp1252"), domains=("dx", "stay"))
    assert list(cohort.patients()) == [
        [["END/home", "I10", "KIND/emergency-inpatient"]],
        [["END/died", "I10", "KIND/elective"]],
    ]


def test_british_and_american_dates(tmp_path: Path) -> None:
    path = written(tmp_path, "patient_id,visit_id,date,code\n1,1,03/04/2020,A\n1,2,05/04/2020,B\n")
    british, american = (read("table", path, date_order=order) for order in ("dmy", "mdy"))
    assert british.days is not None and american.days is not None
    assert (british.days.tolist(), american.days.tolist()) == ([0, 2], [0, 61])


def test_values_with_decimal_commas(tmp_path: Path) -> None:
    text = "Patient;Fall;Laborwert;Wert;Einheit\n1;1;Kalium;4,1;mmol/l\n1;1;Glukose;1.234,5;mg/dl\n"
    cohort = read("table", written(tmp_path, text, "cp1252"), domains=("lab",))
    assert cohort.values is not None
    found = dict(zip((cohort.vocabulary.tokens[code] for code in cohort.codes), cohort.values.tolist(), strict=True))
    assert found == {"LAB/Kalium": pytest.approx(4.1), "LAB/Glukose": pytest.approx(1234.5)}
    assert cohort.card["taken for"]["decimals in numbers"] == "comma"


def test_a_workbook_as_it_comes(tmp_path: Path) -> None:
    with xlsxwriter.Workbook(str(tmp_path / "t.xlsx")) as book:
        sheet, date = book.add_worksheet("Export"), book.add_format({"num_format": "dd.mm.yyyy"})
        for place, name in enumerate(("Patienten-ID", "Aufnahmedatum", "ICD")):
            sheet.write(0, place, name)
        for row, (who, day, code) in enumerate([(7, 1, "I10"), (7, 31, "E11.9"), (8, 1, "I10")], 1):
            sheet.write(row, 0, who)
            sheet.write_datetime(row, 1, datetime(2020, 1, day), date)
            sheet.write(row, 2, code)
    cohort = read("table", tmp_path / "t.xlsx")
    assert list(cohort.patients()) == [[["I10"], ["E11.9"]], [["I10"]]]
    assert cohort.days is not None and cohort.days.tolist() == [0, 30, 0]


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
@pytest.mark.parametrize(
    "titles", ["Auswertung Fälle\nStand: 12.03.2024, 14:05\n\n", "Liste;;;\n;;;\nStand;12.03.2024;;\n"]
)
def test_rows_above_the_header_are_left_out_and_said(tmp_path: Path, titles: str, encoding: str) -> None:
    path = written(tmp_path, titles + "Patient;Fall;Datum;ICD\n7;1;31.01.2020;I10\n7;2;01.03.2020;E11.9\n", encoding)
    cohort = read("table", path)
    assert list(cohort.patients()) == [[["I10"], ["E11.9"]]]
    assert cohort.card["taken for"]["rows above the header of t.csv"] == "2 left out"
    found = preview("table", path)
    assert found.header and found.problem is None and found.taken_for == cohort.card["taken for"]


def test_the_first_row_stays_the_header_where_most_cells_below_are_empty(tmp_path: Path) -> None:
    text = "patient_id,visit_id,code\n1,,\n2,,\n3,,\n4,1,I10\n5,1,E11\n"
    cohort = read("table", written(tmp_path, text))
    assert cohort.n_patients == 2 and cohort.card["in source"]["visits"] == 5


def test_rows_above_the_header_of_a_workbook(tmp_path: Path) -> None:
    with xlsxwriter.Workbook(str(tmp_path / "t.xlsx")) as book:
        sheet = book.add_worksheet("Export")
        rows = (["Diagnosen 2020"], ["erstellt am", "12.03.2024"], [], ["Pat-ID", "Fall-ID", "Datum", "Diagnosecode"])
        for place, row in enumerate([*rows, ["7", "1", "31.01.2020", "I10"], [], ["8", "2", "01.03.2020", "E11.9"]]):
            sheet.write_row(place, 0, row)
    cohort = read("table", tmp_path / "t.xlsx")
    assert list(cohort.patients()) == [[["I10"]], [["E11.9"]]]
    assert cohort.card["taken for"] == {"rows above the header of t.xlsx": "2 left out"}


def test_a_wide_table_whose_rows_end_early_is_read(tmp_path: Path) -> None:
    text = "MRN,ENC_ID,ADMIT_DT,DX1,DX2,DX3\n1,5,01/31/2020,I10,E119\n1,6,02/03/2020,I10\n2,7,03/01/2020,A01,A02,A03\n"
    cohort = read("table", written(tmp_path, text))
    assert list(cohort.patients()) == [[["E119", "I10"], ["I10"]], [["A01", "A02", "A03"]]]
    assert cohort.card["taken for"]["rows of t.csv with fewer cells than the header"] == "the missing ones are empty"
    with pytest.raises(InputError, match=r"row 3.*\n?.*7 cells"):
        read("table", written(tmp_path, "id,visit,date,dx1,dx2,dx3\n1,5,2020-01-31,I10\n2,7,2020-03-01,A,B,C,D\n"))


def test_a_row_that_is_cut_off_is_named_with_its_remedy(tmp_path: Path) -> None:
    path = written(tmp_path, "patient_id,visit_id,code\n1,1,I10\n1,1\n")
    with pytest.raises(InputError, match="row 3") as caught:
        read("table", path)
    assert "2 cells" in str(caught.value) and "cut off" in str(caught.value)


@pytest.mark.parametrize("nothing", ["NULL", "null", "(null)", r"\N", "#N/A", "#NV", "NaN", "nan"])
def test_what_databases_write_for_nothing_is_no_code(tmp_path: Path, nothing: str) -> None:
    """`NULL` was a code of its own."""
    text = f"PatientID|AdmitDateTime|ICD10Code\n1|2020-01-31 08:00:00|I10\n1|2020-02-03|{nothing}\n1|2020-02-03|NA\n"
    cohort = read("table", written(tmp_path, text))
    assert list(cohort.patients()) == [[["I10"], ["NA"]]]
    assert cohort.days is not None and cohort.card["dropped"] == {"empty code cells": 1}


def test_dates_as_spreadsheets_keep_them(tmp_path: Path) -> None:
    cohort = read("table", written(tmp_path, "patient_id,date,icd10\n1,43831,I10\n1,43831.75,E11\n1,43862,I10\n"))
    assert list(cohort.patients()) == [[["E11", "I10"], ["I10"]]]
    assert cohort.days is not None and cohort.days.tolist() == [0, 31]
    assert "spreadsheets" in cohort.card["taken for"]["dates such as 43831"]


def test_a_code_and_its_text_in_one_cell(tmp_path: Path) -> None:
    """The whole cell was taken for a local code."""
    text = "Patient;Fall;Diagnose\n1;1;I10.90 - Hypertonie\n2;1;E11.9 Diabetes, Typ 2\n3;1;J18.9: Pneumonie\n"
    vocabulary = read("table", written(tmp_path, text)).vocabulary
    assert vocabulary.tokens == ("E11.9", "I10.90", "J18.9")
    assert [code.description for code in vocabulary.codes] == ["Diabetes, Typ 2", "Hypertonie", "Pneumonie"]
    names = "Patient;Fall;Medikament\n1;1;A10 Aspirin 81 mg\n"
    assert read("table", written(tmp_path, names), domains=("rx",)).vocabulary.tokens == ("RX/A10 Aspirin 81 mg",)


def test_a_table_of_local_codes_keeps_them_all(tmp_path: Path) -> None:
    """Codes with an umlaut or a blank were dropped: 66 of 100 rows, and the card knew of 2 codes in the source."""
    names = ["Übelkeit", "Fieber unklar", "A01", "Sturz, häuslich", "(Verdacht)"]
    frame = pl.DataFrame({"patient": range(5), "visit": range(5), "code": names})
    frame.write_csv(tmp_path / "t.csv")
    cohort = read("table", tmp_path / "t.csv")
    assert set(cohort.vocabulary.tokens) == set(names)
    assert cohort.card["dropped"] == {} and cohort.card["in source"]["codes"] == 5


def test_what_is_lost_is_counted_of_the_source_as_it_was(tmp_path: Path) -> None:
    text = "patient_id,visit_id,code\n" + "".join(f"{n},1,A{n}\n" for n in range(8)) + "8,1,a\u200eb\n9,1,a\u200eb\n"
    card = read("table", written(tmp_path, text)).card
    assert card["in source"] == {"patients": 10, "visits": 10, "codes": 10}
    assert card["dropped"]["codes of characters that cannot be printed, or too long"] == 2


def test_the_preview_fails_where_the_run_would(tmp_path: Path) -> None:
    path = written(tmp_path, "Patient;Datum;Diagnose\n1;03/04/2020;I10\n")
    found = preview("table", path)
    assert found.problem is not None and "date_order" in found.problem
    with pytest.raises(InputError) as caught:
        read("table", path)
    assert str(caught.value) == found.problem
    assert preview("table", path, date_order="dmy").problem is None


def test_synthea_as_it_is_written(open_data_at, tmp_path: Path) -> None:
    """The conditions of a thousand made-up patients, without their encounters: one visit an encounter named."""
    folder = open_data_at("synthea")
    cohort = read("synthea", folder)
    assert cohort.n_patients > 900 and cohort.vocabulary.codes[0].system == "SNOMED"
    assert cohort.vocabulary.codes[0].description
    assert sum(n for reason, n in cohort.card["dropped"].items() if reason.startswith("codes of")) == 0
