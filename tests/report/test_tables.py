from __future__ import annotations

import csv
import io

from adapcla.evaluation import Reference
from adapcla.evaluation.metric import METRICS
from adapcla.report.tables import LONG, Line, Table, ablation_table, cell_of, score_table, shown
from adapcla.study.layouts import SCORE_TABLES
from adapcla.study.results import Measured, Study
from adapcla.tables import Cell

#: Tables of records with values, stays or several domains; the finished run has codes alone.
WHOLE_RECORD = {"numbers", "stays", "by-domain", "by-domain-tail"}
TABLE = Table(
    "t",
    "A title",
    "A caption",
    ("method", "x ↑"),
    (Line((Cell("a_b"), Cell("0.500", 0.5, "[0.4, 0.6]", True))), Line((Cell("real test"), Cell("–")), "reference")),
)


def test_the_three_forms_hold_the_same_numbers(tmp_path):
    TABLE.save(tmp_path)
    rows = list(csv.reader(io.StringIO((tmp_path / "t.csv").read_text())))
    assert rows == [
        ["kind", "method", "method interval", "x ↑", "x ↑ interval"],
        ["method", "a_b", "", "0.5", "[0.4, 0.6]"],
        ["reference", "real test", "", "–", ""],
    ]
    assert "| a_b | **0.500** [0.4, 0.6] |" in (tmp_path / "t.md").read_text()
    latex = (tmp_path / "t.tex").read_text()
    assert r"a\_b & \textbf{0.500} \\" in latex and r"x $\uparrow$" in latex


def test_columns_of_numbers_and_long_tables_are_known():
    assert TABLE.numeric == (False, True)
    assert not TABLE.long
    many = (Line((Cell("x"),)),) * (LONG + 1)
    assert Table("t", "", "", ("a",), many).long
    assert not Table("t", "", "", ("a",), many, always_open=True).long


def test_cells():
    assert cell_of(None, "insufficient data: 3 of 50") == Cell("–", None, "insufficient data")
    assert cell_of(Measured(0.5, None, None, 3)).note == ""
    assert [shown(x) for x in (0.0123, 0.00123, 12345.0, -0.5)] == ["0.012", "0.0012", "12,345", "-0.500"]


def test_every_table_of_scores_shows_the_references_that_have_a_number(finished_run):
    study = Study.open(finished_run)
    found = {asked.key: score_table(study, asked) for asked in SCORE_TABLES if asked.key not in WHOLE_RECORD}
    assert all(score_table(study, asked) is None for asked in SCORE_TABLES if asked.key in WHOLE_RECORD)
    for table in found.values():
        assert table is not None
        lines = {line.cells[0].text: line for line in table.lines}
        assert {"adapcla", "adapcla-no-scaffold"} <= set(lines)
        references = [line for line in table.lines if line.kind == "reference"]
        assert all(any(cell.value is not None for cell in line.cells) for line in references)
    for key in ("tail-plausibility", "fidelity"):
        assert {"real test", "train copy", "marginal"} <= {line.cells[0].text for line in found[key].lines}


def test_a_column_without_a_number_for_anybody_is_a_sentence_and_no_column(finished_run, monkeypatch):
    study, measured = Study.open(finished_run), Study.measured
    layout = next(asked for asked in SCORE_TABLES if asked.key == "fidelity")
    before = score_table(study, layout)

    def silent(self, row, metric, stratum="all", **where):
        return None if metric == "bigram_r2" else measured(self, row, metric, stratum, **where)

    monkeypatch.setattr(Study, "measured", silent)
    table = score_table(study, layout)
    assert [name for name in before.columns if name not in table.columns] == ["bigram R² ↑"]
    assert table.caption.endswith("Nobody has a number in: bigram R².") and "Nobody" not in before.caption
    assert {len(line.cells) for line in table.lines} == {len(table.columns)}


def test_the_glance_has_one_line_of_real_patients_with_a_number_wherever_one_can_be(finished_run):
    """Tail information has test patients as its judge, so that training patients stand for real ones there."""
    study = Study.open(finished_run)
    (layout,) = (asked for asked in SCORE_TABLES if asked.one_real)
    table = score_table(study, layout)
    lines = {line.cells[0].text: line for line in table.lines if line.kind == "reference"}
    assert list(lines) == ["real", "train copy", "marginal", "law itself", "family only"]
    information = table.columns.index("tail information ↑")
    assert lines["real"].cells[information].value == 1
    assert study.measured(Reference.REAL_TEST, "tail_information_share") is None
    pairs = table.columns.index("held-out pairs ↑")
    assert lines["real"].cells[pairs].value == study.measured(Reference.REAL_TEST, *layout.columns[2][:2]).value


def test_every_column_of_every_table_names_a_metric_that_exists(finished_run):
    known = set(Study.open(finished_run).scores["metric"].unique())
    asked_of_codes = {column.metric for t in SCORE_TABLES if t.key not in WHOLE_RECORD for column in t.columns}
    assert asked_of_codes <= known
    every = set(METRICS)
    assert {column.metric for t in SCORE_TABLES if t.key in WHOLE_RECORD for column in t.columns} <= every


def test_the_mark_goes_to_what_is_nearest_to_real_patients_and_never_to_the_largest(finished_run):
    study = Study.open(finished_run)
    for key, row in (("fidelity", "real test"), ("utility", "real train")):
        table = score_table(study, next(t for t in SCORE_TABLES if t.key == key))
        real = next(line for line in table.lines if line.cells[0].text == row)
        methods = [line.cells for line in table.lines if line.kind == "method"]
        for column in range(1, len(table.columns)):
            aim = real.cells[column].value
            known = [cells[column] for cells in methods if cells[column].value is not None]
            if aim is None or len(known) < 2:
                assert not any(cell.best for cell in known)
                continue
            nearest = min(abs(cell.value - aim) for cell in known)
            assert [cell.best for cell in known] == [abs(cell.value - aim) == nearest for cell in known]


def test_the_papers_rows_stand_beside_ours_on_its_own_cohort_only(finished_run):
    study = Study.open(finished_run)
    asked = next(table for table in SCORE_TABLES if table.key == "tail-plausibility")
    assert not any(line.kind == "paper" for line in score_table(study, asked).lines)
    study.about["spec"]["cohort"] = "MIMIC-III"
    paper = [line for line in score_table(study, asked).lines if line.kind == "paper"]
    assert [line.cells[0].text for line in paper] == ["adapcla (paper)"]
    assert paper[0].cells[2].text == "0.111"


def test_the_ablation_table_needs_a_static_row(finished_run):
    study = Study.open(finished_run)
    assert ablation_table(study) is None
    study.about["fits"].append({**study.about["fits"][0], "row": "static-pcla"})
    names = [line.cells[0].text for line in ablation_table(study).lines]
    assert names[:3] == ["static-pcla", "adapcla-no-scaffold", "adapcla"]
