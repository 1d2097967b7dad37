"""Scores kept on disk by content, so that references are not computed again for every method."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from adapcla import files
from adapcla.errors import InputError
from adapcla.evaluation.contract import Comparison, Metric, Score
from adapcla.version import __version__


def default_folder() -> Path:
    """The user's cache folder.

    >>> default_folder().name
    'scores'
    """
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if root else Path.home() / ".cache") / "adapcla" / "scores"


def content_key(comparison: Comparison, *recipe: object) -> str:
    """A hash of everything that scores depend on, with the recipe of the synthetic cohort in place of its content.

    >>> from adapcla.data import Cohort
    >>> one = Comparison.of(*[Cohort.of([[["A"]]])] * 3)
    >>> content_key(one, "marginal", 10) == content_key(one, "marginal", 11)
    False
    """
    control, target = comparison.control, comparison.target
    parts: list[object] = [
        __version__,
        comparison.whole.train.fingerprint,
        comparison.whole.test.fingerprint,
        "" if control is None else control.fingerprint,
        "" if target is None else hashlib.sha256(target.share.tobytes()).hexdigest(),
        "/".join(code.domain for code in comparison.vocabulary.codes),
        comparison.seed,
        comparison.quick,
        *recipe,
    ]
    return hashlib.sha256("\n".join(str(part) for part in parts).encode()).hexdigest()


class ScoreCache:
    """A folder with one small file for each comparison; without a folder it remembers nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def read(self, key: str) -> dict[str, dict[str, Score]]:
        """The known scores of a comparison, by metric name and stratum; a damaged file counts as none."""
        if self.folder is None or not self._path(key).is_file():
            return {}
        try:
            content = files.read_json(self._path(key))
            return {
                name: {stratum: Score(**{**score, "redrawn": tuple(score["redrawn"])}) for stratum, score in strata}
                for name, strata in content["scores"].items()
            }
        except (InputError, KeyError, TypeError, ValueError, AttributeError):
            return {}

    def write(self, key: str, scores: dict[str, dict[str, Score]]) -> None:
        """Keep the scores of a comparison."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        # Pairs, since the order of strata is the order of rows.
        content: dict[str, Any] = {
            name: [[stratum, asdict(score)] for stratum, score in strata.items()] for name, strata in scores.items()
        }
        files.write_json(self._path(key), {"scores": content})

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{key}.json"


def name_of(metric: Metric) -> str:
    """The name of a metric in a cache: its key with the version of its definition."""
    return f"{metric.key}@{metric.version}"
