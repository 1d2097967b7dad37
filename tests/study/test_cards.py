from __future__ import annotations

import polars as pl

from adapcla.study import cards
from adapcla.study.results import Study


def texts(table):
    return {line.cells[0].text: [cell.text for cell in line.cells[1:]] for line in table.lines}


def test_the_data_card_has_the_sizes_of_the_whole_and_of_every_part(finished_run):
    card = texts(cards.data_card(Study.open(finished_run)))
    assert card["patients"] == ["260"] and card["source"] == ["planted"]
    assert list(card)[-4:] == ["train part", "valid part", "test part", "control part"]


def test_control_shows_every_way_of_steering(finished_run):
    table = cards.steering_table(Study.open(finished_run))
    assert [line.cells[2].text for line in table.lines] == ["not steered", "paper's rule"]
    assert all(line.cells[3].value is not None for line in table.lines)


def test_scores_of_steering_that_nobody_has_are_named_and_not_shown(finished_run, monkeypatch):
    monkeypatch.setattr(cards, "_STEERING", (("never_scored", "all", "nothing ↑"), *cards._STEERING))
    table = cards.steering_table(Study.open(finished_run))
    assert "nothing ↑" not in table.columns and table.caption.endswith("Nobody has a number in: nothing ↑.")
    assert all(len(line.cells) == len(table.columns) for line in table.lines)


def test_the_papers_transfer_rows_need_the_papers_cohorts(finished_run):
    study = Study.open(finished_run)
    study.about["spec"]["cohort"] = "MIMIC-IV to MIMIC-III"
    paper = [line for line in cards.steering_table(study).lines if "(paper)" in line.cells[0].text]
    assert [line.cells[-1].text for line in paper] == ["0.565", "0.445", "0.603", "0.895", "0.922"]


def test_the_gate_judges_every_row(finished_run):
    table = cards.gate_table(Study.open(finished_run))
    assert [line.cells[0].text for line in table.lines] == ["adapcla", "adapcla-no-scaffold"]
    assert all(line.cells[1].text in ("passed", "failed") for line in table.lines)


def test_costs_settings_and_environment(finished_run):
    study = Study.open(finished_run)
    cost = cards.cost_table(study)
    assert all(line.cells[1].value > 100 for line in cost.lines)
    assert all(line.cells[6].text in ("0 of 1", "1 of 1") for line in cost.lines)
    assert "torch" in texts(cards.environment_table(study))


def test_settings_are_those_in_which_rows_differ_or_that_were_changed(finished_run):
    """The schedule differs between the rows, the width was set for both; patience is what both methods have."""
    settings = texts(cards.settings_table(Study.open(finished_run)))
    assert settings["schedule"] == ["base", "none"] and settings["architecture.width"] == ["16", "16"]
    assert "budget.patience" not in settings and "seed" not in settings


def test_a_fit_that_failed_and_patients_made_elsewhere_have_a_line_that_says_so(finished_run):
    study = Study.open(finished_run)
    study.about["failed"] = [{"row": "lstm", "seed": 2, "why": "step 3: loss is nan"}]
    study.about["fits"].append({**study.about["fits"][0], "row": "theirs", "seed": None, "place": None, "toward": []})
    cost = texts(cards.cost_table(study))
    assert cost["lstm"][-1] == "seed 2 failed: step 3: loss is nan" and cost["lstm"][0] == "–"
    assert cost["theirs"][-2] == "made elsewhere"
    assert "lstm" not in study.rows and "theirs" in study.rows


def test_analysis_tables_are_shown_with_their_notes(finished_run):
    found = {table.key: table for table in cards.analysis_tables(Study.open(finished_run))}
    assert "analysis-bound" in found and "norm: inverse kernel." in found["analysis-bound"].caption


def test_long_analysis_tables_are_cut_and_say_so_and_inner_folders_are_not_shown(finished_run, tmp_path):
    (tmp_path / "part" / "for-few").mkdir(parents=True)
    for name in ("many.csv", "for-few/patients.csv"):
        pl.DataFrame({"x": list(range(500))}).write_csv(tmp_path / "part" / name)
    study = Study(tmp_path, {**Study.open(finished_run).about, "analysis": "."})
    (table,) = cards.analysis_tables(study)
    assert len(table.lines) == 100 and "of 500 rows" in table.caption


def test_the_papers_analyses_stand_beside_those_of_its_own_cohorts_only(finished_run):
    study = Study.open(finished_run)
    assert cards.paper_analysis_tables(study) == []
    study.about["spec"]["cohort"] = "MIMIC-IV"
    schedules, probes = cards.paper_analysis_tables(study)
    assert texts(schedules)["fast"] == ["1.040", "101.400", "0.401"] and len(probes.lines) == 6


def test_next_visits_have_a_line_for_every_method_and_say_what_is_missing():
    """Two methods, tail codes asked of one of them only: four strata × two methods = eight lines."""
    asked = {"low": None, "high": None, "n": 7}
    rows = [
        {"method": "a", "stratum": "all", "measure": "hit_rate", "value": 0.5, "low": 0.4, "high": 0.6, "n": 9},
        {"method": "b", "stratum": "all", "measure": "hit_rate", "value": 0.25, **asked},
        {"method": "b", "stratum": "tail", "measure": "nll", "value": 2.0, **asked},
    ]
    table = cards.next_visit_table(rows, "notes")
    assert [(line.cells[0].text, line.cells[1].text) for line in table.lines][:3] == [
        ("all", "a"),
        ("all", "b"),
        ("tail", "a"),
    ]
    assert len(table.lines) == 8 and all(len(line.cells) == len(table.columns) for line in table.lines)
    first, second = table.lines[0].cells, table.lines[3].cells
    assert (first[2].text, first[3].text, first[3].note) == ("9", "0.500", "[0.400, 0.600]")
    assert second[3].text == "–" and second[-1].value == 2.0
