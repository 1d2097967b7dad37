"""Tables of a study."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import polars as pl

from adapcla.evaluation import Reference
from adapcla.evaluation.metric import METRICS
from adapcla.files import write_json
from adapcla.study import tables
from adapcla.study.results import Study
from adapcla.study.tables import (
    FOLDER,
    RESULTS,
    SCORE_TABLES,
    discriminator_table,
    evaluator_table,
    evaluator_tables,
    grid_table,
    score_table,
)
from adapcla.tables import Cell, Line


def test_every_column_names_a_metric_and_every_table_is_there_once():
    assert {column.metric for table in SCORE_TABLES for column in table.columns} <= set(METRICS)
    keys = [table.key for table in SCORE_TABLES]
    assert len(set(keys)) == len(keys)
    assert keys[0] == "tail-glance"


def test_the_headline_has_knowledge_and_memory_side_by_side():
    shown = {column.metric for column in SCORE_TABLES[0].columns}
    assert {"tail_information_share", "tail_pair_seen_heldout", "copy_excess"} <= shown


def test_shares_of_heldout_pairs_are_those_of_all_synthetic_patients_against_halves():
    every = {column for table in SCORE_TABLES for column in table.columns}
    seen = {column for column in every if column.metric.endswith("pair_seen_heldout")}
    strata = {column.stratum.partition(":")[0] for column in seen}
    assert strata <= {"halves", "only"} and "halves" in strata


def test_scores_that_depend_on_the_number_of_patients_are_shown_at_equal_numbers():
    """The table in the paper's form is not, and the discriminator has both."""
    unmatched = [
        (table.key, column.metric)
        for table in SCORE_TABLES
        for column in table.columns
        if METRICS[column.metric].sized and not column.stratum.startswith("matched")
    ]
    assert {key for key, _ in unmatched} == {"tail-plausibility", "discriminator"}


#: Tables of records with values, stays or several domains; the finished run has codes alone.
WHOLE_RECORD = {"numbers", "stays", "by-domain"}


def test_every_table_of_scores_shows_the_references_that_have_a_number(finished_run):
    study = Study.open(finished_run)
    found = {layout.key: score_table(study, layout) for layout in SCORE_TABLES if layout.key not in WHOLE_RECORD}
    assert all(score_table(study, layout) is None for layout in SCORE_TABLES if layout.key in WHOLE_RECORD)
    for table in found.values():
        assert table is not None
        lines = {line.cells[0].text: line for line in table.lines}
        assert {"adapcla", "adapcla-no-scaffold"} <= set(lines)
        references = [line for line in table.lines if line.kind == "reference"]
        assert all(any(cell.value is not None for cell in line.cells) for line in references)
    for key in ("tail-plausibility", "fidelity"):
        assert {"real test", "train copy", "marginal"} <= {line.cells[0].text for line in found[key].lines}


def test_a_column_without_a_number_for_anybody_is_a_sentence_and_no_column(finished_run, monkeypatch):
    study, measured = Study.open(finished_run), Study.estimate
    layout = next(layout for layout in SCORE_TABLES if layout.key == "fidelity")
    before = score_table(study, layout)

    def silent(self, row, metric, stratum="all", **where):
        return None if metric == "bigram_r2" else measured(self, row, metric, stratum, **where)

    monkeypatch.setattr(Study, "estimate", silent)
    table = score_table(study, layout)
    assert [name for name in before.columns if name not in table.columns] == ["bigram R² ↑"]
    assert table.caption.endswith("No value for any method: bigram R².") and "No value" not in before.caption
    assert {len(line.cells) for line in table.lines} == {len(table.columns)}


def test_the_glance_has_one_line_of_real_patients_with_a_number_wherever_one_can_be(finished_run):
    """Tail information is about test patients, so that training patients stand for real ones there."""
    study = Study.open(finished_run)
    (layout,) = (layout for layout in SCORE_TABLES if layout.one_real)
    table = score_table(study, layout)
    lines = {line.cells[0].text: line for line in table.lines if line.kind == "reference"}
    assert list(lines) == ["real", "train copy", "marginal", "law itself", "family only"]
    information = table.columns.index("tail information ↑")
    assert lines["real"].cells[information].value == 1
    assert study.estimate(Reference.REAL_TEST, "tail_information_share") is None
    pairs = table.columns.index("held-out pairs ↑")
    real = study.estimate(Reference.REAL_TEST, "tail_pair_seen_heldout", "halves")
    assert real is not None and lines["real"].cells[pairs].value == real.value


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


def test_without_a_number_of_real_patients_nothing_is_marked():
    lines = [Line((Cell(name), Cell("", value))) for name, value in (("a", 0.9), ("b", 0.6))]
    assert not any(cell.best for line in tables._with_nearest(lines, [None]) for cell in line.cells)


def test_the_papers_rows_stand_beside_ours_on_its_own_cohort_only(finished_run):
    study = Study.open(finished_run)
    layout = next(table for table in SCORE_TABLES if table.key == "tail-plausibility")
    assert not any(line.kind == "paper" for line in score_table(study, layout).lines)
    study.about["spec"]["cohort"] = "MIMIC-III"
    paper = [line for line in score_table(study, layout).lines if line.kind == "paper"]
    assert [line.cells[0].text for line in paper] == ["adapcla (paper)"]
    assert paper[0].cells[2].text == "0.111"


def texts(table):
    return {line.cells[0].text: [cell.text for cell in line.cells[1:]] for line in table.lines}


def test_the_data_card_has_the_sizes_of_the_whole_and_of_every_part(finished_run):
    card = texts(tables.data_card(Study.open(finished_run)))
    assert card["patients"] == ["260"] and card["source"] == ["planted"]
    assert list(card)[-4:] == ["train part", "valid part", "test part", "control part"]


def test_control_shows_every_way_of_steering(finished_run):
    table = tables.steering_table(Study.open(finished_run))
    assert [line.cells[2].text for line in table.lines] == ["not steered", "paper's rule"]
    assert all(line.cells[3].value is not None for line in table.lines)


def test_scores_of_steering_that_nobody_has_are_named_and_not_shown(finished_run, monkeypatch):
    monkeypatch.setattr(tables, "_STEERING", (("never_scored", "all", "nothing ↑"), *tables._STEERING))
    table = tables.steering_table(Study.open(finished_run))
    assert "nothing ↑" not in table.columns and table.caption.endswith("No value for any method: nothing ↑.")
    assert all(len(line.cells) == len(table.columns) for line in table.lines)


def test_the_papers_transfer_rows_need_the_papers_cohorts(finished_run):
    study = Study.open(finished_run)
    study.about["spec"]["cohort"] = "MIMIC-IV to MIMIC-III"
    paper = [line for line in tables.steering_table(study).lines if "(paper)" in line.cells[0].text]
    assert [line.cells[-1].text for line in paper] == ["0.565", "0.445", "0.603", "0.895", "0.922"]


def test_the_gate_is_asked_of_every_sample_of_every_fit(finished_run):
    study = Study.open(finished_run)
    table = tables.privacy_table(study)
    assert [line.cells[0].text for line in table.lines] == ["adapcla", "adapcla-no-scaffold"]
    assert all(re.fullmatch("[01] of 1", line.cells[-1].text) for line in table.lines)
    twice = study.scores.filter(study.scores["row"] == "adapcla").with_columns(fit=pl.lit(2, dtype=pl.Int64))
    vars(study)["scores"] = pl.concat([study.scores, twice])
    assert tables.privacy_table(study).lines[0].cells[-1].text in ("0 of 2", "2 of 2")


def test_costs_settings_and_environment(finished_run):
    study = Study.open(finished_run)
    cost = tables.cost_table(study)
    assert all(line.cells[1].value > 100 for line in cost.lines)
    assert all(line.cells[6].text in ("0 of 1", "1 of 1") for line in cost.lines)
    assert "torch" in texts(tables.environment_table(study))


def test_settings_are_those_in_which_rows_differ_or_that_were_changed(finished_run):
    """The schedule differs between the rows, the width was set for both; patience is what both methods have."""
    settings = texts(tables.settings_table(Study.open(finished_run)))
    assert settings["schedule"] == ["base", "none"] and settings["architecture.width"] == ["16", "16"]
    assert "budget.patience" not in settings and "seed" not in settings


def test_a_fit_that_failed_and_patients_made_elsewhere_have_a_line_that_says_so(finished_run):
    study = Study.open(finished_run)
    study.about["failed"] = [{"row": "lstm", "seed": 2, "why": "step 3: loss is nan"}]
    study.about["fits"].append({**study.about["fits"][0], "row": "theirs", "seed": None, "place": None, "toward": []})
    cost = texts(tables.cost_table(study))
    assert cost["lstm"][-1] == "seed 2 failed: step 3: loss is nan" and cost["lstm"][0] == "–"
    assert cost["theirs"][-2] == "made elsewhere"
    assert "lstm" not in study.rows and "theirs" in study.rows


def test_analysis_tables_are_shown_with_their_notes(finished_run):
    found = {table.key: table for table in tables.analysis_tables(Study.open(finished_run))}
    assert "analysis-bound" in found and "norm: inverse kernel." in found["analysis-bound"].caption


def test_long_analysis_tables_are_cut_and_say_so_and_inner_folders_are_not_shown(finished_run, tmp_path):
    (tmp_path / "part" / "for-few").mkdir(parents=True)
    for name in ("many.csv", "for-few/patients.csv"):
        pl.DataFrame({"x": list(range(500))}).write_csv(tmp_path / "part" / name)
    study = Study(tmp_path, {**Study.open(finished_run).about, "analysis": "."})
    (table,) = tables.analysis_tables(study)
    assert len(table.lines) == 100 and "of 500 rows" in table.caption


def test_the_papers_analyses_stand_beside_those_of_its_own_cohorts_only(finished_run):
    study = Study.open(finished_run)
    assert tables.paper_analysis_tables(study) == []
    study.about["spec"]["cohort"] = "MIMIC-IV"
    schedules, probes = tables.paper_analysis_tables(study)
    assert texts(schedules)["fast"] == ["1.040", "101.400", "0.401"] and len(probes.lines) == 6


def test_next_visits_have_a_line_for_every_method_and_say_what_is_missing():
    """Two methods, tail codes scored of one of them only: four strata × two methods = eight lines."""
    missing = {"low": None, "high": None, "n": 7}
    rows = [
        {"method": "a", "stratum": "all", "measure": "hit_rate", "value": 0.5, "low": 0.4, "high": 0.6, "n": 9},
        {"method": "b", "stratum": "all", "measure": "hit_rate", "value": 0.25, **missing},
        {"method": "b", "stratum": "tail", "measure": "nll", "value": 2.0, **missing},
    ]
    table = tables.next_visit_table(rows, "notes")
    assert [(line.cells[0].text, line.cells[1].text) for line in table.lines][:3] == [
        ("all", "a"),
        ("all", "b"),
        ("tail", "a"),
    ]
    assert len(table.lines) == 8 and all(len(line.cells) == len(table.columns) for line in table.lines)
    first, second = table.lines[0].cells, table.lines[3].cells
    assert (first[2].text, first[3].text, first[3].note) == ("9", "0.500", "[0.400, 0.600]")
    assert second[3].text == "–" and second[-1].value == 2.0


SAID = {"evaluator": "mirror", "version": "1.0", "metric": "auc", "synthetic": 0.65, "real": 0.52, "reason": ""}
SILENT = {
    "evaluator": "gone",
    "version": "2.0",
    "metric": "",
    "synthetic": None,
    "real": None,
    "reason": "no such wheel",
}


def test_a_number_stands_beside_that_of_real_patients_and_silence_has_a_reason():
    table = evaluator_table({"subject": "tailwise", "results": [SAID, SILENT]})
    assert [cell.text for cell in table.lines[0].cells] == ["mirror", "1.0", "auc", "0.650", "0.520"]
    assert table.lines[1].cells[3].text == "–"
    assert table.lines[1].cells[3].note == "no such wheel"


def test_words_are_shown_as_words():
    table = evaluator_table({"subject": "s", "results": [{**SAID, "synthetic": True, "real": "valid"}]})
    assert [cell.text for cell in table.lines[0].cells[3:]] == ["True", "valid"]


def test_every_folder_of_results_beside_an_experiment_is_a_table(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / FOLDER / name).mkdir(parents=True)
        write_json(tmp_path / FOLDER / name / RESULTS, {"subject": name, "results": [SAID]})
    assert [table.key for table in evaluator_tables(tmp_path)] == ["evaluators-a", "evaluators-b"]
    assert list(evaluator_tables(tmp_path / "nowhere")) == []


def test_giveaways_of_each_row_are_listed_and_none_is_no_table():
    found = {"feature": "largest visit", "kind": "sizes", "real": 9.0, "synthetic": 12.0, "alone": 0.7, "lost": 0.1}
    study = SimpleNamespace(rows=["tailwise"], curves=lambda row: {"feature_importance": [found] * 20})
    table = discriminator_table(study)
    assert len(table.lines) == 8
    assert [cell.text for cell in table.lines[0].cells[:3]] == ["tailwise", "largest visit", "sizes"]
    assert discriminator_table(SimpleNamespace(rows=["tailwise"], curves=lambda row: {})) is None


def test_the_grid_shows_every_cell_and_marks_the_chosen_one():
    study = Study(Path(), {"spec": {"fit": {}}})
    losses = {(0.001, 4.0): 14.0, (0.002, 4.0): 13.8, (0.004, 4.0): None}
    study.about["tuning"] = [
        {"row": "adapcla", "learning_rate": rate, "passes": passes, "loss": loss, "steps": 8, "chosen": loss == 13.8}
        for (rate, passes), loss in losses.items()
    ]
    study.about["spec"]["fit"]["grid"] = {"patients": 500, "seed": 1}
    table = grid_table(study)
    (line,) = table.lines
    assert [cell.text for cell in line.cells[1:4]] == ["14.000", "13.800", "failed"]
    assert [cell.best for cell in line.cells[1:4]] == [False, True, False]
    assert line.cells[4].text == "0.002, 4 passes" and "500 training patients" in table.caption
