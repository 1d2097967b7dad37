"""Scores kept by content: found again for the same content, never for another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from adapcla.data import Code, Cohort, Prevalence, Vocabulary
from adapcla.evaluation.runner import ScoreCache, content_key, cache_folder
from adapcla.evaluation.comparison import Comparison, Missing, Score


def test_scores_come_back_as_they_were(tmp_path: Path):
    cache = ScoreCache(tmp_path / "deep" / "cache")
    scores = {"pair_seen@1": {"rare20": Missing("none").score, "all": Score(0.5, 3, 0.4, 0.6)}}
    cache.write("k", scores)
    assert cache.read("k") == scores
    assert list(cache.read("k")["pair_seen@1"]) == ["rare20", "all"]
    assert cache.read("other") == {}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"scores": 3}', b'{"scores": {"a": [["all", {"bad": 1}]]}}', b'{"scores": {"a": [3]}}'],
)
def test_a_damaged_file_counts_as_none(tmp_path: Path, content: bytes):
    cache = ScoreCache(tmp_path)
    (tmp_path / "k.json").write_bytes(content)
    assert cache.read("k") == {}


def test_without_a_folder_nothing_is_kept():
    cache = ScoreCache(None)
    cache.write("k", {"a@1": {"all": Score(1.0, 1)}})
    assert cache.read("k") == {}


def test_the_key_changes_with_everything_that_scores_depend_on():
    train, other = Cohort.of([[["A"]], [["B"]]]), Cohort.of([[["B"]], [["A"]]])
    drugs = Vocabulary.of([Code.of("A", domain="drug"), Code.of("B")])
    target = Prevalence.of({"A": 0.5, "B": 0.5})
    comparisons = [
        Comparison.of(train, train, train),
        Comparison.of(other, train, train),
        Comparison.of(train, other, train),
        Comparison.of(train, train, train, control=train),
        Comparison.of(train, train, train, seed=2),
        Comparison.of(train, train, train, quick=True),
        Comparison.of(train, train, train, target=target),
        Comparison.of(*[Cohort(drugs, np.array(train.codes), train.visit_starts, train.patient_starts)] * 3),
    ]
    keys = [content_key(one, "marginal", 5) for one in comparisons] + [content_key(comparisons[0], "marginal", 6)]
    assert len(set(keys)) == len(keys)
    assert content_key(Comparison.of(train, train, other), "marginal", 5) == keys[0]


def test_the_users_cache_folder_follows_the_standard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "adapcla" / "scores"
