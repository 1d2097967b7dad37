"""Files of every form: what is read of them as text, how they are found, and the errors of those that are damaged."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter
from hypothesis import given, settings
from hypothesis import strategies as st

from adapcla.errors import InputError
from adapcla.io.database import NOTHING, Database
from adapcla.io.tables import LONGEST_ROW, Table, find_table, guarded, need_table, open_table


def table_of(folder: Path, content: str | bytes, name: str = "t.csv") -> Table:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return open_table(path)


def rows(table: Table, *columns: str) -> list[tuple[str, ...]]:
    with Database() as db:
        # One thread keeps the order of rows.
        db.run("SET threads = 1")
        db.load("t", table, {f"x{i}": column for i, column in enumerate(columns)})
        return db.query("SELECT * FROM t")


@pytest.mark.parametrize("cell", ["0389", "NA", "None", "1E10", "nil", "", "-", "true", "00", "1.0", "=1+1"])
def test_a_cell_is_text_and_nothing_else(tmp_path: Path, cell: str) -> None:
    assert rows(table_of(tmp_path, f"a,b\n{cell},y\n"), "a") == [(cell,)]


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(*[st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), max_size=8)] * 2),
        min_size=1,
        max_size=20,
    )
)
def test_what_csv_writes_comes_back(tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str]]) -> None:
    import csv

    path = tmp_path_factory.mktemp("t") / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *cells])
    read = [tuple(cell.strip("\ufeff") for cell in row) for row in cells]
    expected = [tuple("" if cell in NOTHING else cell for cell in row) for row in read]
    assert rows(open_table(path), "a", "b") == expected


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_the_delimiter_is_read_off_the_header(tmp_path: Path, delimiter: str) -> None:
    table = table_of(tmp_path, delimiter.join("abc") + "\n" + delimiter.join("123") + "\n")
    assert rows(table, "c", "a") == [("3", "1")]


def test_columns_are_found_in_any_case_and_the_exact_one_first(tmp_path: Path) -> None:
    table = table_of(tmp_path, "Code,CODE, who \n1,2,3\n")
    assert (table.column("CODE"), table.column("code"), table.column("WHO")) == ("CODE", "Code", "who")
    assert rows(table, "WHO", "CODE") == [("3", "2")]
    assert table.first_of("nothing", "who") == "who" and table.first_of("nothing") is None


def test_a_missing_column_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no column 'icd_code'(.|\n)*'icd9_code' is near"):
        table_of(tmp_path, "subject_id,icd9_code\n").column("icd_code")


@pytest.mark.parametrize("line", ["10006,142345,4019", "secret,secret,4019"])
def test_the_cells_of_a_file_without_header_are_not_shown(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError) as caught:
        table_of(tmp_path, f"{line}\n{line}\n").column("subject_id")
    assert not any(cell in str(caught.value) for cell in line.split(","))


def test_a_quoted_line_end_does_not_break_the_row(tmp_path: Path) -> None:
    assert rows(table_of(tmp_path, 'a,b\n"1\n2",3\n4,5\n'), "a", "b") == [("1\n2", "3"), ("4", "5")]


def test_a_stray_quote_inside_a_cell_is_text(tmp_path: Path) -> None:
    assert rows(table_of(tmp_path, 'a,b\n5" tube,3\n4,5\n'), "a", "b") == [('5" tube', "3"), ("4", "5")]


def test_an_unclosed_quote_does_not_swallow_rows_silently(tmp_path: Path) -> None:
    """The last row would hold all that follows, and be taken for one odd cell: row 3 opens it."""
    with pytest.raises(InputError, match="row 3: a quote that is never closed"):
        rows(table_of(tmp_path, 'a,b\n1,2\n3,"4\n5,6\n7,8\n'), "a")


def test_a_row_longer_than_a_block_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a row longer than"):
        rows(table_of(tmp_path, 'a,b\n1,"' + "x\n" * LONGEST_ROW + '"\n'), "a")


def test_an_error_never_shows_the_cell(tmp_path: Path) -> None:
    for content in ("a,b\nsecret\n", "a,b\nsecret,1,2\n", "a,b\nsecret,é\n".encode() + b"secret,\xff\n"):
        with pytest.raises(InputError) as caught:
            rows(table_of(tmp_path, content), "a", "b")
        assert "secret" not in str(caught.value)


def test_no_rows_are_no_batches_with_rows(tmp_path: Path) -> None:
    assert rows(table_of(tmp_path, "a,b\n"), "a") == []
    assert rows(table_of(tmp_path, "a,b"), "a") == []


def test_shards_are_one_table(tmp_path: Path) -> None:
    table_of(tmp_path, "a,b\n1,2\n", "visits/0.csv")
    table_of(tmp_path, "A,B\n3,4\n", "visits/1.csv")
    table = need_table(tmp_path, "VISITS")
    assert rows(table, "b") == [("2",), ("4",)]
    table_of(tmp_path, "b,a\n3,4\n", "visits/2.csv")
    with pytest.raises(InputError, match="columns differ"):
        need_table(tmp_path, "visits")


@pytest.mark.parametrize("name", ["ADMISSIONS.csv", "admissions.CSV", "Admissions.tsv", "admissions.txt"])
def test_a_table_is_found_in_any_case(tmp_path: Path, name: str) -> None:
    table_of(tmp_path, "a,b\n1,2\n", name)
    assert rows(need_table(tmp_path, "admissions"), "a") == [("1",)]


def test_subfolders_and_second_names(tmp_path: Path) -> None:
    table_of(tmp_path, "a,b\n1,2\n", "HOSP/admissions.csv")
    assert find_table(tmp_path, "hosp/admissions", "admissions") is not None
    assert find_table(tmp_path / "HOSP", "hosp/admissions", "admissions") is not None
    assert find_table(tmp_path, "patients") is None
    with pytest.raises(InputError, match="no table 'patients'"):
        need_table(tmp_path, "patients")
    with pytest.raises(InputError, match="no such folder"):
        find_table(tmp_path / "none", "patients")


def test_parquet_values_become_text(tmp_path: Path) -> None:
    columns = {
        "text": ["0389", None],
        "whole": [7, None],
        "real": [250.0, 401.9],
        "time": [datetime(2164, 10, 23, 21, 9), None],
        "word": pa.array(["x", "y"]).dictionary_encode(),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = open_table(tmp_path / "t.parquet")
    assert rows(table, "text", "whole", "real", "word") == [("0389", "7", "250", "x"), ("", "", "401.9", "y")]
    assert rows(table, "time")[0][0].startswith("2164-10-23 21:09:00")


def test_a_nested_parquet_column_is_refused_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x"], "b": [["x"]]}), tmp_path / "t.parquet")
    assert rows(open_table(tmp_path / "t.parquet"), "a") == [("x",)]
    with pytest.raises(InputError, match="column 'b': a column of type list"):
        rows(open_table(tmp_path / "t.parquet"), "b")


def test_a_panic_becomes_a_named_error(tmp_path: Path) -> None:
    class Panic(BaseException):
        pass

    with pytest.raises(InputError, match=r"not readable as Parquet \(Panic\)"), guarded(tmp_path / "t", "Parquet"):
        raise Panic("secret cell")
    with pytest.raises(KeyboardInterrupt), guarded(tmp_path / "t", "Parquet"):
        raise KeyboardInterrupt


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252"])
def test_text_of_any_usual_encoding(tmp_path: Path, encoding: str) -> None:
    table = table_of(tmp_path, "Fall;Größe\nä1;Übelkeit\n".encode(encoding))
    assert table.columns == ("Fall", "Größe")
    assert rows(table, "größe", "fall") == [("Übelkeit", "ä1")]


def test_windows_1252_is_more_than_latin_1(tmp_path: Path) -> None:
    """Dashes, quotes and the euro stand where Latin-1 has control characters; a late one is seen too."""
    text = "a,b\n" + "x,y\n" * 700_000 + "“5 €” – ja,1\n"
    found = rows(table_of(tmp_path, text.encode("cp1252")), "a")
    assert len(found) == 700_001 and found[-1] == ("“5 €” – ja",)


def test_utf_8_with_damage_is_not_taken_for_another_encoding(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"row 3(.|\n)*--read encoding"):
        rows(table_of(tmp_path, "a,b\né,1\n".encode() + b"\xe9,2\n"), "a")


def test_surplus_empty_cells_are_no_defect(tmp_path: Path) -> None:
    """Spreadsheets write the separators of empty columns behind the last."""
    assert rows(table_of(tmp_path, "a;b\n1;2;;;\n3;4\n"), "b") == [("2",), ("4",)]


def workbook(path: Path, sheets: dict[str, list[list[object]]]) -> Path:
    with xlsxwriter.Workbook(str(path)) as book:
        date = book.add_format({"num_format": "dd.mm.yyyy"})
        for name, cells in sheets.items():
            sheet = book.add_worksheet(name)
            for number, row in enumerate(cells):
                for place, cell in enumerate(row):
                    if isinstance(cell, datetime):
                        sheet.write_datetime(number, place, cell, date)
                    else:
                        sheet.write(number, place, cell)
    return path


def test_a_workbook_is_a_table(tmp_path: Path) -> None:
    cells = [["Patient", "Datum", "ICD"], [7, datetime(2020, 1, 31), "0389"], [8.5, datetime(2021, 2, 1), None]]
    table = open_table(workbook(tmp_path / "t.xlsx", {"Daten": cells, "Leer": []}))
    found = rows(table, "patient", "datum", "icd")
    assert [(who, day[:10], code) for who, day, code in found] == [
        ("7", "2020-01-31", "0389"),
        ("8.5", "2021-02-01", ""),
    ]


def test_a_workbook_of_several_sheets_needs_a_name(tmp_path: Path) -> None:
    path = workbook(tmp_path / "t.xlsx", {"one": [["a"], [1]], "two": [["a"], [2]]})
    with pytest.raises(InputError, match=r"2 sheets(.|\n)*one of one, two(.|\n)*--read sheet"):
        open_table(path)
    assert rows(open_table(path, sheet="two"), "a") == [("2",)]
    (tmp_path / "bad.xlsx").write_bytes(b"PK nothing")
    with pytest.raises(InputError, match=r"bad\.xlsx: not readable as a workbook"):
        open_table(tmp_path / "bad.xlsx")


def test_a_folder_of_parquet_shards_with_the_short_ending(tmp_path: Path) -> None:
    """A single `.pq` was read, a folder of them was "without any table"."""
    (tmp_path / "t").mkdir()
    for number in range(2):
        pq.write_table(pa.table({"a": [str(number)]}), tmp_path / "t" / f"{number}.pq")
    assert sorted(rows(open_table(tmp_path / "t"), "a")) == [("0",), ("1",)]
    assert need_table(tmp_path, "t").files[0].name == "0.pq"
