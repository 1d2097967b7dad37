"""The tables of scores: every column is of a metric that exists, and what moves with size is at equal sizes."""

from __future__ import annotations

from adapcla.evaluation.metric import METRICS
from adapcla.study.layouts import ABLATION, SCORE_TABLES


def test_every_column_names_a_metric_and_every_table_is_there_once():
    assert {column.metric for table in (*SCORE_TABLES, ABLATION) for column in table.columns} <= set(METRICS)
    keys = [table.key for table in SCORE_TABLES]
    assert len(set(keys)) == len(keys)
    assert keys[:2] == ["tail-glance", "tail-knowledge"]


def test_the_headline_has_knowledge_and_memory_side_by_side():
    asked = {column.metric for table in SCORE_TABLES[:2] for column in table.columns}
    assert {"tail_information_share", "tail_pair_seen_heldout", "copy_excess"} <= asked


def test_shares_of_heldout_pairs_are_those_of_all_synthetic_patients_against_halves():
    asked = {
        column for table in SCORE_TABLES for column in table.columns if column.metric.endswith("pair_seen_heldout")
    }
    assert asked and {column.stratum.partition(":")[0] for column in asked} == {"halves"}


def test_scores_that_move_with_the_number_of_patients_are_shown_at_equal_numbers():
    """The table in the paper's form alone is not, and the one after it is."""
    asked = {table.key: table.columns for table in SCORE_TABLES}
    keys = list(asked)
    assert keys[keys.index("tail-plausibility") + 1] == "tail-plausibility-same-size"
    unmatched = [
        (key, column.metric)
        for key, columns in asked.items()
        for column in columns
        if METRICS[column.metric].sized and not column.stratum.startswith("matched") and key != "tail-plausibility"
    ]
    assert unmatched == []
