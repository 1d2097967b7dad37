"""One table in three forms: cells that would break a form are escaped in it."""

from __future__ import annotations

import csv
import io

from adapcla.tables import Cell, Table

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
