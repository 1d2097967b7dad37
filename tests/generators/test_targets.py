"""Targets in every form that people have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapcla.errors import UsageError
from adapcla.generators.targets import target_prevalence
from adapcla.records import Cohort, Prevalence


def test_every_form_gives_the_same_prevalence(tiny: Cohort, tmp_path: Path) -> None:
    folder = tiny.save(tmp_path / "cohort")
    file = tmp_path / "prior.csv"
    file.write_text("code,prevalence\nA,0.6\nB,0.6\nC,0.2\nD,0.2\n")
    forms = [
        tiny,
        folder,
        str(folder),
        file,
        tiny.prevalence(),
        Prevalence.of({"A": 0.6, "B": 0.6, "C": 0.2, "D": 0.2}),
    ]
    for form in forms:
        assert target_prevalence(form).share.tolist() == [0.6, 0.6, 0.2, 0.2]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        target_prevalence(tmp_path / "nothing.csv")
