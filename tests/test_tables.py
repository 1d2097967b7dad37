"""One table in three forms: cells that would break a form are escaped in it."""

from __future__ import annotations

import csv
import io

from adapcla.tables import LONG, Cell, Estimate, Line, Table, estimate_cell, format_number

AWKWARD = Table(("name", "share, in %"), [("a|b", Cell("50 %", 0.5, "[40, 60]", best=True)), ('say "x"', "−1")])


def test_a_bar_in_a_cell_does_not_end_it():
    lines = AWKWARD.markdown().splitlines()
    assert lines[2] == r"| a\|b | **50 %** [40, 60] |"
    assert AWKWARD.markdown().endswith("|\n")


def test_latex_prints_what_was_written():
    lines = AWKWARD.latex(n_left=2).splitlines()
    assert lines[0] == r"\begin{tabular}{ll}"
    assert lines[2] == r"name & share, in \% \\"
    assert lines[4] == r"a|b & \textbf{50 \%} \\"
    assert Table(("x",), [("\\_±",)]).latex().splitlines()[4] == r"\textbackslash{}\_$\pm$ \\"


def test_csv_reads_back_as_the_texts():
    rows = list(csv.reader(io.StringIO(AWKWARD.csv())))
    assert rows == [["name", "share, in %"], ["a|b", "50 %"], ['say "x"', "−1"]]
    assert "\r" not in AWKWARD.csv()


def test_a_table_without_rows_has_its_titles():
    assert Table(("x", "y"), []).markdown() == "| x | y |\n|---|---|\n"


def test_the_three_files_hold_the_same_numbers(tmp_path):
    """Programs read the kind of each line, numbers with six digits, and the interval beside each."""
    lines = (Line((Cell("a_b"), Cell("0.500", 0.5, "[0.4, 0.6]", True))), Line((Cell("real"), Cell("–")), "reference"))
    Table(("method", "x ↑"), lines, "t", "A title").save(tmp_path)
    rows = list(csv.reader(io.StringIO((tmp_path / "t.csv").read_text())))
    assert rows[0] == ["kind", "method", "method interval", "x ↑", "x ↑ interval"]
    assert rows[1:] == [["method", "a_b", "", "0.5", "[0.4, 0.6]"], ["reference", "real", "", "–", ""]]
    assert "| a_b | **0.500** [0.4, 0.6] |" in (tmp_path / "t.md").read_text()
    latex = (tmp_path / "t.tex").read_text()
    assert r"a\_b & \textbf{0.500} \\" in latex and r"x $\uparrow$" in latex


def test_columns_of_numbers_and_long_tables_are_known():
    table = Table(("a", "b"), [("x", Cell("1", 1.0))] * (LONG + 1))
    assert table.numeric == (False, True) and table.long
    assert not Table(("a",), [("x",)] * (LONG + 1), always_open=True).long


def test_numbers_have_as_many_digits_as_they_need_and_absent_ones_a_reason():
    assert estimate_cell(None, "insufficient data: 3 of 50") == Cell("–", None, "insufficient data")
    assert estimate_cell(Estimate(0.5, None, None, 3)).note == ""
    assert [format_number(x) for x in (0.0123, 0.00123, 12345.0, -0.5)] == ["0.012", "0.0012", "12,345", "-0.500"]
