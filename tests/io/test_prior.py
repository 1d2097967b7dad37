from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Prevalence, Vocabulary
from adapcla.data.prevalence import read_prevalence, write_prevalence
from adapcla.errors import InputError, UsageError


def read_text(folder: Path, text: str) -> Prevalence:
    (folder / "p.csv").write_text(text, encoding="utf-8")
    return read_prevalence(folder / "p.csv")


def test_by_code_string_in_any_row_order(tmp_path: Path) -> None:
    one = read_text(tmp_path, "code,prevalence\nB,0.25\nA,0.5\n0389,0\n")
    two = read_text(tmp_path, "prevalence,code\n0,0389\n0.5,A\n0.25,B\n")
    assert one.vocabulary.tokens == ("0389", "A", "B")
    assert one.share.tolist() == two.share.tolist() == [0.0, 0.5, 0.25]
    assert one.n_visits is None


def test_the_system_is_part_of_the_code_string(tmp_path: Path) -> None:
    prior = read_text(tmp_path, "code,prevalence\nICD9CM/4019,0.25\n")
    assert prior.vocabulary.codes[0].system == "ICD9CM"
    assert prior.on(Vocabulary.of(["ICD9CM/4019", "4019"])).share[1] == 0.25


def test_an_empty_cell_is_unknown(tmp_path: Path) -> None:
    prior = read_text(tmp_path, "code,prevalence\nA,\nB,0.5\n")
    assert np.isnan(prior.share[0]) and prior.share[1] == 0.5


def test_a_denominator_says_how_exact_the_shares_are(tmp_path: Path) -> None:
    assert read_text(tmp_path, "code,prevalence,denominator\nA,0.5,200\nB,0.1,200\n").n_visits == 200


def test_counts_with_a_denominator_become_shares(tmp_path: Path) -> None:
    prior = read_text(tmp_path, "code,prevalence,denominator\nA,50,200\nB,0,200\n")
    assert prior.share.tolist() == [0.25, 0.0]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("A,1\n", r"row 2, column 'prevalence': a prevalence of 1"),
        ("A,0.5\nB,nan\n", r"row 3, column 'prevalence': NaN"),
        ("A,inf\n", "NaN or infinity"),
        ("A,0.5\nB,-0.1\n", "row 3, column 'prevalence': a negative"),
        ("A,0.5\nB,12.5\n", "row 3, column 'prevalence': over 1; the column looks like percentages"),
        ("A,5%\n", "a percentage"),
        ("A,0.5\nB,5000\n", "row 3, column 'prevalence': over 1"),
        ("A,often\n", "not a number"),
        ("A,1_0\n", "not a number"),
        ("A,0.5\nB,0.1\nA,0.5\n", "row 4, column 'code': the code of row 2 again"),
        ("A\x07,0.5\n", "row 2, column 'code': a code of a form"),
        (",0.5\n", "row 2, column 'code': no code"),
        ("", "no row"),
        ("A\n", "row 2: 1 cells"),
    ],
)
def test_every_bad_case_names_its_row(tmp_path: Path, rows: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read_text(tmp_path, "code,prevalence\n" + rows)
    assert "p.csv" in str(caught.value) and "to do:" in str(caught.value)


@pytest.mark.parametrize(
    "rows", ["A,0.5,100\nB,0.1,200\n", "A,0.5,0\n", "A,0.5,many\n", "A,0.5,1.5\n", "A,0.5,-3\n", "A,0.5,²\n"]
)
def test_a_bad_denominator_is_refused(tmp_path: Path, rows: str) -> None:
    with pytest.raises(InputError, match="column 'denominator'"):
        read_text(tmp_path, "code,prevalence,denominator\n" + rows)


def test_a_count_over_the_denominator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a count over the denominator"):
        read_text(tmp_path, "code,prevalence,denominator\nA,300,200\nB,3,200\n")


@pytest.mark.parametrize(("column", "remedy"), [("count", "denominator"), ("percent", "100"), ("per_1000", "1000")])
def test_another_unit_is_known_by_its_name(tmp_path: Path, column: str, remedy: str) -> None:
    with pytest.raises(InputError, match=f"another unit than a share(.|\n)*{remedy}"):
        read_text(tmp_path, f"code,{column}\nA,5\n")


@pytest.mark.parametrize("header", ["kode,prevalence", "code,prevalance"])
def test_an_unknown_column_is_named_with_the_nearest(tmp_path: Path, header: str) -> None:
    with pytest.raises(InputError, match="is near"):
        read_text(tmp_path, f"{header}\nA,0.5\n")


def test_other_columns_are_said_and_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ADAPCLA_QUIET", raising=False)
    assert read_text(tmp_path, "code,prevalence,name\nA,0.5,x\n").share.tolist() == [0.5]
    assert "columns not used: name" in capsys.readouterr().err


@given(st.dictionaries(st.from_regex(r"[A-Z][0-9]{1,4}", fullmatch=True), st.integers(0, 99), min_size=1))
def test_what_is_written_comes_back_without_small_cells(
    tmp_path_factory: pytest.TempPathFactory, counts: dict[str, int]
) -> None:
    """Of 100 visits: cells of 1 to 10 visits are left out, 0 and 11 or more come back exactly."""
    path = tmp_path_factory.mktemp("p") / "p.csv"
    prevalence = Prevalence.of({code: n / 100 for code, n in counts.items()}, n_visits=100)
    left_out = write_prevalence(prevalence, path, min_cell=11)
    kept = {code: n / 100 for code, n in counts.items() if n == 0 or n >= 11}
    assert left_out == len(counts) - len(kept)
    if kept:
        back = read_prevalence(path)
        assert dict(zip(back.vocabulary.tokens, back.share.tolist(), strict=True)) == kept
        assert back.n_visits == 100


def test_min_cell_below_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--min-cell 0"):
        write_prevalence(Prevalence.of({"A": 0.5}, 10), tmp_path / "p.csv", min_cell=0)
