from __future__ import annotations

from pathlib import Path

import pytest

from adapcla.evaluation import Reference
from adapcla.pipeline.folder import STAMP, RunFolder, is_done, making, stamp


def test_places_do_not_meet():
    folder = RunFolder(Path("x"))
    places = [
        folder.data,
        folder.target("t"),
        folder.fit("m", 1),
        folder.sample("m", 1, 1),
        folder.scores("m", 1, 1),
        folder.steered("m", 1, "t", "paper"),
        folder.reference(Reference.MARGINAL),
        folder.analysis,
        folder.cache,
        folder.report,
    ]
    assert len(set(places)) == len(places)


def test_a_stage_is_done_only_with_its_own_key(tmp_path):
    with making(tmp_path / "s", "k", n=3) as facts:
        facts["more"] = 4
    assert is_done(tmp_path / "s", "k") and not is_done(tmp_path / "s", "other")
    assert {"n": 3, "more": 4}.items() <= stamp(tmp_path / "s").items()


def test_a_stage_that_fails_is_not_done_even_where_an_older_one_was(tmp_path):
    with making(tmp_path, "old"):
        pass
    with pytest.raises(RuntimeError), making(tmp_path, "new"):
        raise RuntimeError
    assert not is_done(tmp_path, "old") and not is_done(tmp_path, "new")


def test_a_torn_stamp_is_no_stamp(tmp_path):
    (tmp_path / STAMP).write_text('{"key": "k"')
    assert stamp(tmp_path) == {} and not is_done(tmp_path, "k")
