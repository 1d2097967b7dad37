"""What every source keeps: the same patients whatever the row order, and for each defect an error or a count."""

from __future__ import annotations

import csv
import gzip
import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.io.fixtures import DATASETS, Dataset, TextTable

from adapcla.data import Cohort
from adapcla.errors import InputError
from adapcla.io import READERS, read, reader_of


def n_tables(name: str) -> int:
    """How many text tables the data set of a source has."""
    with tempfile.TemporaryDirectory() as folder:
        return len(DATASETS[name](Path(folder)).tables)


#: (source, position of the table) for every text table of every source.
TABLES = [(name, position) for name in DATASETS for position in range(n_tables(name))]


def plain_patients(cohort: Cohort) -> list[list[list[str]]]:
    """Patients with codes stripped of their system, codes of a visit in string order."""
    bare = {code.token: code.code for code in cohort.vocabulary.codes}
    return [[sorted(bare[token] for token in visit) for visit in patient] for patient in cohort.patients()]


def load(name: str, data: Dataset, **changes: object) -> Cohort:
    return read(name, data.root, **{**vars(data.options), **changes})


def coded_table(data: Dataset) -> TextTable:
    """The table with a column of codes; a source without one has its own tests of bad codes."""
    found = next((table for table in data.tables if table.code), None)
    return found or pytest.skip("no text table with a column of codes alone")


def rows_of(table: TextTable) -> list[list[str]]:
    with table.path.open(newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


def rewrite(table: TextTable, rows: list[list[str]]) -> None:
    with table.path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)


@pytest.fixture(params=list(DATASETS))
def named(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Dataset]:
    name = request.param
    return name, DATASETS[name](tmp_path / "data")


@pytest.fixture(params=TABLES, ids=[f"{name}-{position}" for name, position in TABLES])
def tabled(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Dataset, TextTable]:
    name, position = request.param
    data = DATASETS[name](tmp_path / "data")
    return name, data, data.tables[position]


@pytest.mark.parametrize("name", list(READERS))
def test_every_registered_source_has_a_reader(name: str) -> None:
    assert callable(reader_of(name))


def test_reads_the_tiny_data_set(named: tuple[str, Dataset]) -> None:
    name, data = named
    cohort = load(name, data)
    assert plain_patients(cohort) == data.patients
    assert (None if cohort.days is None else cohort.days.tolist()) == data.days
    assert cohort.card["dropped"] == {}
    assert cohort.card["source"] == name
    assert cohort.card["visit_rule"]


def test_no_patient_or_visit_id_is_kept(named: tuple[str, Dataset], tmp_path: Path) -> None:
    name, data = named
    for table in data.tables:
        text = table.path.read_text(encoding="utf-8")
        # Ids that can be told from any count in a folder.
        table.path.write_text(text.replace("11,", "ID770011,").replace(",11", ",ID770011"), encoding="utf-8")
    folder = load(name, data).save(tmp_path / "out")
    for path in folder.iterdir():
        assert b"ID77" not in path.read_bytes()


@pytest.mark.parametrize("seed", range(3))
def test_the_same_rows_in_another_order_give_the_same_bytes(
    named: tuple[str, Dataset], tmp_path: Path, seed: int
) -> None:
    name, data = named
    before = load(name, data).save(tmp_path / "before")
    for table in data.tables:
        header, *rows = rows_of(table)
        random.Random(seed).shuffle(rows)
        rewrite(table, [header, *rows])
    after = load(name, data).save(tmp_path / "after")
    for path in before.iterdir():
        assert path.read_bytes() == (after / path.name).read_bytes(), path.name


def test_missing_table(tabled: tuple[str, Dataset, TextTable]) -> None:
    name, data, table = tabled
    table.path.unlink()
    with pytest.raises(InputError) as caught:
        load(name, data)
    assert table.path.stem.lower() in str(caught.value).lower() or str(table.path.parent) in str(caught.value)


def test_a_missing_or_cut_file_that_is_no_table_is_an_error(named: tuple[str, Dataset]) -> None:
    name, data = named
    for path in data.files:
        content = path.read_bytes()
        # Not half: a cut between two lines of equal length leaves nothing to see.
        path.write_bytes(content[: len(content) // 3 + 2])
        with pytest.raises(InputError) as caught:
            load(name, data)
        assert path.name in str(caught.value)
        path.write_bytes(content)
    for path in data.files:
        path.unlink()
    if data.files:
        with pytest.raises(InputError):
            load(name, data)


def test_every_source_has_a_data_set() -> None:
    assert set(DATASETS) == set(READERS)


def test_missing_column_names_file_and_column(tabled: tuple[str, Dataset, TextTable]) -> None:
    name, data, table = tabled
    original = table.path.read_text(encoding="utf-8")
    for column in table.needed:
        table.path.write_text(original.replace(column, "another", 1), encoding="utf-8")
        with pytest.raises(InputError) as caught:
            load(name, data)
        assert table.path.name in str(caught.value) and column.lower() in str(caught.value).lower()


DEFECTS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda content: b"", "empty"),
    "damaged utf-8": (lambda content: content[:-2] + b"\xff\xc3\xa9" + content[-2:], "UTF-8"),
    "short row": (lambda content: content + b"7\n", "row {rows}: 1 cells"),
    "long row": (lambda content: content + b"x," * 60 + b"x\n", "row {rows}: 61 cells"),
    "duplicate column": (lambda content: content.replace(b"\n", b",x,x\n", 1), "the same column name twice"),
    "unclosed quote": (
        lambda content: content[: content.index(b"\n") + 1] + b'"' + content[content.index(b"\n") + 1 :],
        "row 2",
    ),
}


@pytest.mark.parametrize("defect", list(DEFECTS))
def test_a_defect_is_an_error_with_file_and_place(tabled: tuple[str, Dataset, TextTable], defect: str) -> None:
    name, data, table = tabled
    spoil, said = DEFECTS[defect]
    content = table.path.read_bytes()
    table.path.write_bytes(spoil(content))
    with pytest.raises(InputError) as caught:
        load(name, data)
    text = str(caught.value)
    assert table.path.name in text
    assert said.format(rows=content.count(b"\n") + 1) in text
    assert "to do:" in text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1"])
def test_any_usual_encoding_is_read(tabled: tuple[str, Dataset, TextTable], encoding: str) -> None:
    """A letter beyond ASCII in a column that nobody asks for, as hospitals write it."""
    name, data, table = tabled
    header, *rows = rows_of(table)
    rewrite(table, [[*header, "Größe"], *([*row, "Ärztin"] for row in rows)])
    table.path.write_bytes(table.path.read_text(encoding="utf-8").encode(encoding))
    assert plain_patients(load(name, data)) == data.patients


def test_a_nul_is_an_error_with_its_row(tabled: tuple[str, Dataset, TextTable]) -> None:
    name, data, table = tabled
    rows = rows_of(table)
    where = rows[0].index(table.needed[-1])
    rows[2][where] = f"a\0{rows[2][where]}"
    table.path.write_text("\n".join(",".join(f'"{cell}"' for cell in row) for row in rows) + "\n")
    with pytest.raises(InputError, match="row 3: a NUL byte"):
        load(name, data)


def test_a_byte_order_mark_changes_nothing(tabled: tuple[str, Dataset, TextTable]) -> None:
    name, data, table = tabled
    table.path.write_bytes(b"\xef\xbb\xbf" + table.path.read_bytes())
    assert plain_patients(load(name, data)) == data.patients


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_line_ends_of_other_systems_change_nothing(tabled: tuple[str, Dataset, TextTable], line_end: str) -> None:
    name, data, table = tabled
    table.path.write_bytes(table.path.read_bytes().replace(b"\n", line_end.encode()))
    assert plain_patients(load(name, data)) == data.patients


def packed(data: Dataset, table: TextTable, content: bytes) -> Dataset:
    """The data set with one table packed."""
    target = table.path.with_name(table.path.name + ".gz")
    target.write_bytes(content)
    table.path.unlink()
    return replace(data, root=target) if data.root == table.path else data


def test_gzip_changes_nothing(tabled: tuple[str, Dataset, TextTable]) -> None:
    name, data, table = tabled
    data = packed(data, table, gzip.compress(table.path.read_bytes()))
    assert plain_patients(load(name, data)) == data.patients


@pytest.mark.parametrize("cut", [3, 12, -9, -4])
def test_truncated_gzip_is_an_error(tabled: tuple[str, Dataset, TextTable], cut: int) -> None:
    name, data, table = tabled
    data = packed(data, table, gzip.compress(table.path.read_bytes())[:cut])
    with pytest.raises(InputError, match="gzip"):
        load(name, data)


def test_parquet_changes_nothing(tabled: tuple[str, Dataset, TextTable]) -> None:
    name, data, table = tabled
    data = as_parquet(data, table)
    assert plain_patients(load(name, data)) == data.patients


def as_parquet(data: Dataset, table: TextTable, spoil: Callable[[bytes], bytes] = bytes) -> Dataset:
    """The data set with one table as Parquet, spoilt; columns that are read come first, where most of it is spoilt."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    header, *rows = rows_of(table)
    target = table.path.with_suffix(".parquet")
    order = sorted(range(len(header)), key=lambda i: header[i] not in table.needed)
    pq.write_table(pa.table({header[i]: [row[i] for row in rows] for i in order}), target)
    target.write_bytes(spoil(target.read_bytes()))
    table.path.unlink()
    return replace(data, root=target) if data.root == table.path else data


@pytest.mark.parametrize(
    "spoil",
    [
        lambda b: b[:-20],
        lambda b: b"PAR1" + b"\xff" * 200 + b"PAR1",
        lambda b: b"",
        lambda b: b[:60] + b"\xff" * 40 + b[100:],
    ],
)
def test_damaged_parquet_is_an_error(tabled: tuple[str, Dataset, TextTable], spoil: Callable[[bytes], bytes]) -> None:
    name, data, table = tabled
    data = as_parquet(data, table, spoil)
    with pytest.raises(InputError, match="Parquet"):
        load(name, data)


def test_duplicate_rows_are_counted_and_change_nothing(tabled: tuple[str, Dataset, TextTable]) -> None:
    name, data, table = tabled
    header, *rows = rows_of(table)
    rewrite(table, [header, *rows, *rows])
    cohort = load(name, data)
    assert plain_patients(cohort) == data.patients
    counted = cohort.card["dropped"]
    assert counted == ({"repeated codes in a visit": cohort.n_entries} if table.code or table.coded else {})


def test_no_row_means_nobody_is_left(tabled: tuple[str, Dataset, TextTable]) -> None:
    name, data, table = tabled
    rewrite(table, rows_of(table)[:1])
    if table.code is None and table.key is None:
        assert plain_patients(load(name, data)) == data.patients
        return
    with pytest.raises(InputError, match="no patient is left"):
        load(name, data)


@pytest.mark.parametrize("cell", ["=1+1", "@SUM(A1)", "+1", "-1", "Übelkeit, akute", "x" * 70, "ÄÖ", '"'])
def test_any_code_that_can_be_printed_is_kept(named: tuple[str, Dataset], cell: str) -> None:
    """In eICU alone, whose cells hold codes of two revisions, the form says what is one."""
    name, data = named
    table = coded_table(data)
    header, *rows = rows_of(table)
    before = load(name, data).n_entries
    rows[0][header.index(table.code)] = cell
    rewrite(table, [header, *rows])
    cohort = load(name, data)
    if name == "eicu":
        assert sum(n for reason, n in cohort.card["dropped"].items() if "form" in reason) >= 1
        return
    assert cohort.card["dropped"] == {} and cohort.n_entries == before
    assert cell in {code.code for code in cohort.vocabulary.codes}


@pytest.mark.parametrize("cell", ["a\u200eb", "x" * 300])
def test_a_code_that_cannot_be_printed_or_is_too_long_is_counted(named: tuple[str, Dataset], cell: str) -> None:
    name, data = named
    table = coded_table(data)
    header, *rows = rows_of(table)
    rows[0][header.index(table.code)] = cell
    rewrite(table, [header, *rows])
    dropped = load(name, data).card["dropped"]
    assert sum(n for reason, n in dropped.items() if reason.startswith("codes of")) == 1


def test_an_empty_code_is_dropped_and_counted(named: tuple[str, Dataset]) -> None:
    name, data = named
    table = coded_table(data)
    header, *rows = rows_of(table)
    rows[0][header.index(table.code)] = "  "
    rewrite(table, [header, *rows])
    assert load(name, data).card["dropped"]["empty code cells"] == 1


def test_blanks_around_a_code_are_stripped(named: tuple[str, Dataset]) -> None:
    name, data = named
    table = coded_table(data)
    header, *rows = rows_of(table)
    for row in rows:
        row[header.index(table.code)] = f" {row[header.index(table.code)]}\t"
    rewrite(table, [header, *rows])
    assert plain_patients(load(name, data)) == data.patients


def test_an_unreadable_date_costs_the_visit_and_is_counted(named: tuple[str, Dataset]) -> None:
    name, data = named
    table = next((t for t in data.tables if t.date), None)
    if table is None:
        pytest.skip(f"{name} has no text table with dates")
    header, *rows = rows_of(table)
    visit = rows[-1][:3]
    for row in rows:
        if row[:2] == rows[-1][:2] or row == rows[-1]:
            row[header.index(table.date)] = "31.31.2020"
    rewrite(table, [header, *rows])
    cohort = load(name, data)
    assert cohort.card["dropped"]["visits without a readable date"] == 1, visit
    assert cohort.n_visits == sum(map(len, data.patients)) - 1


def test_no_readable_date_at_all_is_an_error(named: tuple[str, Dataset]) -> None:
    name, data = named
    table = next((t for t in data.tables if t.date), None)
    if table is None:
        pytest.skip(f"{name} has no text table with dates")
    header, *rows = rows_of(table)
    for row in rows:
        row[header.index(table.date)] = "soon"
    rewrite(table, [header, *rows])
    with pytest.raises(InputError, match="no readable date"):
        load(name, data)


def test_a_row_without_its_key_is_dropped_and_counted(named: tuple[str, Dataset]) -> None:
    name, data = named
    table = coded_table(data)
    header, *rows = rows_of(table)
    rows[0][header.index(table.key)] = ""
    rewrite(table, [header, *rows])
    dropped = load(name, data).card["dropped"]
    assert any("without a patient" in reason or "not known" in reason for reason in dropped), dropped


def test_only_the_first_visits_on_request(named: tuple[str, Dataset]) -> None:
    name, data = named
    cohort = load(name, data, max_visits=1)
    assert plain_patients(cohort) == [patient[:1] for patient in data.patients]
    assert cohort.card["dropped"] == {"visits beyond a patient's first 1": 1}


def test_one_patient_with_5000_visits(tmp_path: Path) -> None:
    rows = "".join(f"1,{i},{i},A{i % 7}\n" for i in range(5_000))
    path = tmp_path / "long.csv"
    path.write_text("patient_id,visit_id,day,code\n" + rows, encoding="utf-8")
    cohort = read("table", path)
    assert (cohort.n_patients, cohort.n_visits) == (1, 5_000)
    assert cohort.days is not None and cohort.days.tolist() == list(range(5_000))


def test_a_card_is_json(named: tuple[str, Dataset]) -> None:
    name, data = named
    json.dumps(load(name, data).card)
