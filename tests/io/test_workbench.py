from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from adapcla.errors import ExistsError, InputError
from adapcla.io import workbench
from adapcla.io.tables import open_table
from adapcla.io.workbench import Workbench


def value(expression: str) -> object:
    with Workbench() as bench:
        return bench.query(f"SELECT {expression}")[0][0]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("1970-01-02", 1.0),
        ("1970-01-02 12:00:00", 1.5),
        ("1970-01-02T12:00:00", 1.5),
        ("1970-01-02T12:00:00Z", 1.5),
        ("19700102", 1.0),
        ("1970/01/02", 1.0),
        ("02.01.1970", 1.0),
        ("02/01/1970", None),
        ("1970-13-01", None),
        ("1970-02-30", None),
        ("1970-01-02 soon", None),
        ("infinity", None),
        ("epoch", None),
        ("9", None),
        ("", None),
    ],
)
def test_a_date_is_read_or_not_never_guessed(text: str, day: float | None) -> None:
    assert value(f"days_of('{text}')") == day


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("A10BA02", "A10BA02"),
        ("insulin:Up", "insulin_up"),
        (" (5%) Dextrose ", "5_dextrose"),
        ("=1+1", "1_1"),
        ("", ""),
    ],
)
def test_a_name_becomes_a_token_and_a_code_stays(name: str, token: str) -> None:
    assert value(f"name_token('{name}')") == token


@pytest.mark.parametrize(
    ("years", "band"),
    [("0", "0-9"), ("9.9", "0-9"), ("10", "10-19"), ("89.9", "80-89"), ("300", "90+"), ("-1", ""), ("NULL", "")],
)
def test_age_bands(years: str, band: str) -> None:
    assert value(f"age_band({years})") == band


def test_text_is_stripped_on_its_way_in_and_nothing_else(tmp_path: Path) -> None:
    with Workbench() as bench:
        bench.add("t", [pa.record_batch({"a": [" 0389\t", "\u00a0NA ", ""]})])
        assert bench.query("SELECT a FROM t ORDER BY a") == [("",), ("0389",), ("NA",)]


def test_a_table_without_rows_keeps_its_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n", encoding="utf-8")
    with Workbench() as bench:
        bench.load("t", open_table(tmp_path / "t.csv"), {"x": "B"})
        assert bench.query("SELECT x FROM t") == []


def test_rows_can_be_filtered_while_reading(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y\n", encoding="utf-8")
    with Workbench() as bench:
        bench.load("t", open_table(tmp_path / "t.csv"), {"a": "a", "b": "b"}, where="b = 'y'")
        assert bench.query("SELECT a FROM t") == [("2",)]


def test_the_error_of_a_table_comes_through_the_database(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2\n", encoding="utf-8")
    with Workbench() as bench, pytest.raises(InputError, match="row 3: 1 cells"):
        bench.load("t", open_table(tmp_path / "t.csv"), {"a": "a"})


def test_the_temporary_folder_goes_even_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ZeroDivisionError), Workbench():
        assert list(tmp_path.iterdir())
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


_MILLION = "SELECT hash(i) AS h, CAST(hash(i) AS VARCHAR) AS s FROM range(1000000) r(i)"


def test_more_rows_than_memory_go_to_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbench, "MEMORY_LIMIT", "20MB")
    with Workbench() as bench:
        bench.run(f"CREATE TABLE t AS {_MILLION}")
        assert bench.number("SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY s) FROM t)") == 1_000_000


def test_a_full_disk_is_a_named_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbench, "MEMORY_LIMIT", "20MB")
    with Workbench() as bench:
        bench.run("SET max_temp_directory_size = '1MB'")
        with pytest.raises(ExistsError, match="TMPDIR"):
            bench.run(f"CREATE TABLE t AS {_MILLION}")


def test_counts_of_what_was_dropped_add_up() -> None:
    with Workbench() as bench:
        bench.drop("a", 2)
        bench.drop("a", 3)
        bench.drop("b", 0)
        assert bench.dropped == {"a": 5}
