from __future__ import annotations

from pathlib import Path

from adapcla.data import Cohort
from adapcla.report.figures import gallery
from adapcla.study.results import Measured, Study

WANTED = {
    "long-tail", "scorecard", "frequency-rank", "frequency-frequency", "rank-rank", "ppmi", "given-label", "downstream",
    "reliability", "reliability-balanced", "tail-knowledge", "roc", "copies", "control-adapcla-shifted", "schedules",
    "analysis-bound",
}  # fmt: skip


def test_a_study_gets_every_picture_once_with_a_caption_that_says_what_to_see(finished_run):
    found = list(gallery.pictures(Study.open(finished_run)))
    assert len(found) == len(WANTED)
    assert {drawn.key for drawn in found} == WANTED
    assert all(len(drawn.caption) > 60 for drawn in found)
    assert all(not isinstance(drawn.figure, Path) or drawn.figure.is_file() for drawn in found)


def test_the_scorecard_takes_the_matched_score_where_the_plain_one_has_no_scale(finished_run):
    values = gallery.scorecard_values(Study.open(finished_run))
    assert list(values) == ["adapcla", "adapcla-no-scaffold"]
    assert len({len(cells) for cells in values.values()}) == 1


def test_heat_maps_look_at_the_first_patients_only(monkeypatch):
    monkeypatch.setattr(gallery, "MOST_PATIENTS", 2)
    assert gallery.some(Cohort.of([[["A"]], [["B"]], [["C"]]])).n_visits == 2


def test_memory_is_drawn_against_the_tail_where_both_were_judged(finished_run, monkeypatch):
    """The tiny run has too few patients for the gap of pairs: none is drawn until it is there."""
    study = Study.open(finished_run)
    assert list(gallery._memory_pictures(study)) == []
    monkeypatch.setattr(Study, "measured", lambda self, row, metric, stratum="all": Measured(0.1, 0.0, 0.2, 1))
    (drawn,) = gallery._memory_pictures(study)
    assert len(drawn.figure.axes[0].get_legend().get_texts()) == 2


def test_rows_with_several_fits_are_drawn_as_differences_to_adapcla(finished_run, monkeypatch):
    study = Study.open(finished_run)
    assert list(gallery._difference_pictures(study)) == []
    study.about["spec"]["fit"]["seeds"] = [1, 2]
    study.about["fits"].append({**study.about["fits"][0], "row": "theirs"})
    (drawn,) = gallery._difference_pictures(study)
    rows = [text.get_text() for text in drawn.figure.axes[0].get_yticklabels()]
    assert rows == ["adapcla-no-scaffold", "theirs"]
