from __future__ import annotations

from pathlib import Path

from adapcla.files import read_json
from adapcla.pipeline.folder import RunFolder
from adapcla.pipeline.rows import checked_rows
from adapcla.study.index import study_index
from adapcla.study.spec import study_from


def index_of(content, failed=None):
    spec = study_from({"name": "a", **content})
    return study_index(spec, RunFolder(Path("out/a")), checked_rows(spec.fit), failed or {})


def test_a_finished_run_says_where_everything_lies(finished_run):
    about = read_json(finished_run / "study.json")
    for fit in about["fits"]:
        for drawn in [*fit["draws"], *fit["toward"]]:
            assert (finished_run / drawn["cohort"]).is_dir() and (finished_run / drawn["scores"]).is_dir()
    assert set(about["references"]) == {"train_copy", "marginal", "real_train", "law_itself", "family_only"}


def test_a_failed_fit_is_named_and_has_no_results():
    index = index_of({"fit": {"methods": ["lstm"], "seeds": [1, 2]}}, {("lstm", 1): "loss is nan"})
    assert [fit["seed"] for fit in index["fits"]] == [2]
    assert index["failed"] == [{"row": "lstm", "seed": 1, "why": "loss is nan"}]


def test_patients_made_elsewhere_are_a_row_without_a_fit():
    index = index_of({"fit": {"methods": []}, "external": {"theirs": "somewhere"}})
    (row,) = index["fits"]
    assert (row["row"], row["seed"], row["place"]) == ("theirs", None, None)
    assert row["draws"] == [{"draw": 1, "cohort": "external/theirs/cohort", "scores": "external/theirs/scores"}]


def test_without_suites_nothing_is_judged():
    index = index_of({"evaluate": {"suites": [], "quick": True}})
    assert "scores" not in index["fits"][0]["draws"][0] and index["references"] == {}
