"""The smallest count that may be told: one number, and no module or document that has another."""

from __future__ import annotations

import re

from adapcla.data import Prevalence
from adapcla.disclosure import MIN_COUNT, SMALL_COUNTS
from adapcla.pipeline.settings import ExportOptions
from adapcla.release.settings import ReleaseSettings


def test_whoever_hides_small_counts_hides_the_same_ones():
    """Of 1,000 visits a share of 0.010 is 10 visits, which is hidden, and 0.011 is 11, which is not."""
    shares = Prevalence.of({"A": 0.010, "B": 0.011}, n_visits=1000)
    assert shares.suppress_small_counts().known.tolist() == [False, True]
    assert ExportOptions().min_cell == ReleaseSettings().min_patients == MIN_COUNT


def test_the_documents_name_the_same_counts(repository):
    text = (repository / "docs" / "privacy.md").read_text(encoding="utf-8")
    assert f"count of {SMALL_COUNTS}" in text
    assert set(re.findall(r"min_support=(\d+)", text)) == {str(MIN_COUNT)}
