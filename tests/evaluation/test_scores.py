"""Scores as rows, tables and files."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from adapcla.errors import ExistsError, InputError
from adapcla.evaluation.comparison import Missing, Score
from adapcla.evaluation.scores import Row, Scores, normalise


@pytest.fixture
def scores() -> Scores:
    rows = (
        Row("pair_seen", "tail", "up", "all", 0.5, 0.4, 0.6, 10, "", 0.9, 1.0, 0.1, 0.5),
        Row("tail_ctx_jsd", "tail", "down", "all", 0.3, 0.2, 0.4, 10, "", 0.2, 0.0, 0.6, None, "why"),
        Row("tail_ctx_jsd", "tail", "down", "matched", 0.4, 0.3, 0.5, 10, "", 0.2, 0.0, 0.6, 0.5),
        Row("bigram_r2", "fidelity", "up", "all", None, None, None, 0, "nothing varies", None, None, None, None),
    )
    return Scores("halo_50%", 3, rows, {"patients": {"train": 7}})


def test_values_and_single_scores(scores: Scores):
    assert scores.values() == {"pair_seen": 0.5, "tail_ctx_jsd": 0.3, "bigram_r2": None}
    assert scores["pair_seen"] == Score(0.5, 10, 0.4, 0.6)
    assert scores["tail_ctx_jsd", "matched"].value == 0.4
    assert scores["bigram_r2"].reason == "nothing varies"
    assert scores["tail_ctx_jsd"].reason == ""
    with pytest.raises(KeyError, match="no score of 'pair_seen' in stratum 'nowhere'"):
        scores["pair_seen", "nowhere"]


def test_normalised_comes_from_the_matched_row_where_the_plain_one_has_none(scores: Scores):
    assert scores.normalised() == {"pair_seen": 0.5, "tail_ctx_jsd": 0.5, "bigram_r2": None}


def test_normalised_by_hand():
    """Half way from floor to ceiling is 0.5, also where lower is better; a scale inside the interval is none."""
    assert normalise(Score(0.4, 1), 0.6, 0.2, "down") == (0.5, "")
    assert normalise(Score(0.5, 1, 0.3, 0.7), 0.45, 0.55)[0] is None
    assert "interval" in normalise(Score(0.5, 1, 0.3, 0.7), 0.45, 0.55)[1]
    assert normalise(Score(0.5, 1), None, 0.5) == (None, "no floor")
    assert normalise(Score(0.5, 1), 0.5, None) == (None, "no ceiling")
    assert normalise(Missing("x").score, 0.1, 0.5) == (None, "")


def test_beyond_the_goal_is_as_wrong_as_before_it():
    """A discriminator at .3 or .7 is as far from real patients' .5: both closed 60 % of the gap from 1, never 140 %."""
    assert normalise(Score(0.3, 1), 1.0, 0.5, "match") == normalise(Score(0.7, 1), 1.0, 0.5, "match") == (0.6, "")
    assert normalise(Score(0.5, 1), 1.0, 0.5, "match") == (1.0, "")
    assert normalise(Score(-0.5, 1), 1.0, 0.5, "match") == (-1.0, "")


def test_the_table_is_tidy(scores: Scores):
    table = scores.table()
    assert table.columns[:3] == ["method", "seed", "metric"]
    assert {"stratum", "value", "low", "high", "n", "reason", "real_test", "train_copy", "marginal"} <= set(
        table.columns
    )
    assert table.filter(pl.col("value").is_null())["reason"].to_list() == ["nothing varies"]
    assert table["seed"].to_list() == [3] * 4


def test_saved_scores_come_back(scores: Scores, tmp_path: Path):
    folder = scores.save(tmp_path / "out")
    assert sorted(path.name for path in folder.iterdir()) == [
        "scores.csv",
        "scores.md",
        "scores.parquet",
        "scores.tex",
        "summary.json",
    ]
    again = Scores.open(folder)
    assert (again.method, again.seed, again.rows, again.card) == ("halo_50%", 3, scores.rows, scores.card)
    assert pl.read_csv(folder / "scores.csv").height == 4


def test_nothing_is_replaced_unasked(scores: Scores, tmp_path: Path):
    scores.save(tmp_path / "out")
    with pytest.raises(ExistsError):
        scores.save(tmp_path / "out")
    scores.save(tmp_path / "out", overwrite=True)


def test_a_damaged_folder_is_a_named_error(scores: Scores, tmp_path: Path):
    folder = scores.save(tmp_path / "out")
    (folder / "scores.parquet").write_bytes(b"not parquet")
    with pytest.raises(InputError, match=r"scores\.parquet"):
        Scores.open(folder)
    with pytest.raises(InputError):
        Scores.open(tmp_path / "nowhere")


def test_text_tables_hold_headlines_and_escape(scores: Scores):
    assert "| tail_ctx_jsd ↓ | matched | 0.400 |" in scores.markdown()
    assert "– (nothing varies)" in scores.markdown()
    assert r"tail\_ctx\_jsd $\downarrow$ & matched" in scores.latex()
