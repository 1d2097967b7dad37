from __future__ import annotations

from pathlib import Path

import pytest

from adapcla.errors import ExistsError, InputError
from adapcla.io import ReadOptions
from adapcla.io.database import MEMORY, THREADS, Database
from adapcla.io.tables import open_table


def value(expression: str) -> object:
    with Database() as db:
        return db.query(f"SELECT {expression}")[0][0]


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
        ("2.1.70", 1.0),
        ("02.01.1970 12:00", 1.5),
        ("2-Jan-1970", 1.0),
        ("02 Januar 1970", 1.0),
        ("2. Mai 1970", 121.0),
        ("January 2, 1970", 1.0),
        ("31.02.1970", None),
        ("1970-13-01", None),
        ("1970-02-30", None),
        ("1970-01-02 soon", 1.0),
        ("infinity", None),
        ("epoch", None),
        ("9", None),
        ("", None),
    ],
)
def test_a_date_is_read_or_not_never_guessed(text: str, day: float | None) -> None:
    assert value(f"days_of('{text}')") == day


@pytest.mark.parametrize(
    ("years", "band"),
    [("0", "0-9"), ("9.9", "0-9"), ("10", "10-19"), ("89.9", "80-89"), ("300", "90+"), ("-1", ""), ("NULL", "")],
)
def test_age_bands(years: str, band: str) -> None:
    assert value(f"age_band({years})") == band


@pytest.mark.parametrize(
    ("dates", "order", "day"),
    [
        (["13/01/1970", "02/01/1970"], "", 1.0),
        (["01/13/1970", "01/02/1970 12:00 AM"], "", 1.0),
        (["02/01/1970"], "dmy", 1.0),
        (["2-1-70"], "dmy", 1.0),
    ],
)
def test_day_and_month_are_told_apart_by_all_dates_or_by_the_user(dates: list[str], order: str, day: float) -> None:
    with Database() as db:
        query = " UNION ALL ".join(f"SELECT '{date}' AS d" for date in dates)
        assert db.settle_dates(ReadOptions(date_order=order or None), [query]) == ""
        assert db.query(f"SELECT days_of('{dates[-1]}')") == [(day,)]


@pytest.mark.parametrize("dates", [["02/01/1970", "03/04/1970"], ["13/01/1970", "01/13/1970"]])
def test_dates_of_which_the_order_is_not_known_are_asked_for(dates: list[str]) -> None:
    with Database() as db:
        query = " UNION ALL ".join(f"SELECT '{date}'" for date in dates)
        assert "--read date_order=" in db.settle_dates(ReadOptions(), [query])


@pytest.mark.parametrize(
    ("numbers", "mark"),
    [(["1,5", "2"], "comma"), (["1.234,5"], "comma"), (["1.5", "2,000.5"], "point"), (["1,000,000"], "point")],
)
def test_the_mark_of_decimals_is_seen_from_all_numbers(numbers: list[str], mark: str) -> None:
    with Database() as db:
        query = " UNION ALL ".join(f"SELECT '{number}'" for number in numbers)
        assert db.settle_decimals(ReadOptions(), query) == ""
        assert db.notes == {"decimals in numbers": mark}


@pytest.mark.parametrize("numbers", [["1,234"], ["1,5", "1.5"]])
def test_numbers_that_may_be_either_are_asked_for(numbers: list[str]) -> None:
    with Database() as db:
        assert "--read decimal=" in db.settle_decimals(
            ReadOptions(), " UNION ALL ".join(f"SELECT '{n}'" for n in numbers)
        )


def test_text_is_stripped_on_its_way_in_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('a\n" 0389\t"\n\u00a0NA \n""\n', encoding="utf-8")
    with Database() as db:
        db.load("t", open_table(tmp_path / "t.csv"), {"a": "a"})
        assert db.query("SELECT a FROM t ORDER BY a") == [("",), ("0389",), ("NA",)]


def test_a_table_without_rows_keeps_its_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n", encoding="utf-8")
    with Database() as db:
        db.load("t", open_table(tmp_path / "t.csv"), {"x": "B"})
        assert db.query("SELECT x FROM t") == []


def test_rows_can_be_filtered_while_reading(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y\n", encoding="utf-8")
    with Database() as db:
        db.load("t", open_table(tmp_path / "t.csv"), {"a": "a", "b": "b"}, where="b = 'y'")
        assert db.query("SELECT a FROM t") == [("2",)]


def test_the_error_of_a_table_comes_through_the_database(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2\n", encoding="utf-8")
    with Database() as db, pytest.raises(InputError, match="row 3: 1 cells"):
        db.load("t", open_table(tmp_path / "t.csv"), {"a": "a"})


def test_the_temporary_folder_goes_even_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ZeroDivisionError), Database():
        assert list(tmp_path.iterdir())
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


_MILLION = "SELECT hash(i) AS h, CAST(hash(i) AS VARCHAR) AS s FROM range(1000000) r(i)"


def test_more_rows_than_memory_go_to_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEMORY, "20MB")
    with Database() as db:
        db.run(f"CREATE TABLE t AS {_MILLION}")
        assert db.number("SELECT count(*) FROM (SELECT row_number() OVER (ORDER BY s) FROM t)") == 1_000_000


def test_a_full_disk_is_a_named_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEMORY, "20MB")
    with Database() as db:
        db.run("SET max_temp_directory_size = '1MB'")
        with pytest.raises(ExistsError, match="TMPDIR"):
            db.run(f"CREATE TABLE t AS {_MILLION}")


def test_counts_of_what_was_dropped_add_up() -> None:
    with Database() as db:
        db.drop("a", 2)
        db.drop("a", 3)
        db.drop("b", 0)
        assert db.dropped == {"a": 5}


def test_threads_and_memory_follow_the_machine_and_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread and 500 MB were taken on any machine."""
    for name in (THREADS, MEMORY, "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("adapcla.io.database.usable_cores", lambda: 8)
    monkeypatch.setattr("adapcla.io.database.available_bytes", lambda: 10_000_000_000)
    with Database() as db:
        assert (db.threads, db.memory) == (8, "5000MB")
    monkeypatch.setenv(THREADS, "3")
    monkeypatch.setenv(MEMORY, "700MB")
    with Database() as db:
        assert (db.threads, db.memory) == (3, "700MB")
