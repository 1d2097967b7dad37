"""A folder of parts: written whole, read back, and divided as everybody divides."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapcla.data import Cohort
from adapcla.data.split_folder import open_or_split, open_splits, save_splits, split_cohort
from adapcla.errors import ExistsError, InputError, UsageError

WHOLE = Cohort.of([[[f"C{i:02d}"]] for i in range(50)])


def prints(parts: dict[str, Cohort]) -> dict[str, tuple[str, object]]:
    return {name: (part.fingerprint, part.origin) for name, part in parts.items()}


def test_a_cohort_and_its_folder_of_parts_give_the_same_parts(tmp_path: Path):
    WHOLE.save(tmp_path / "c")
    parts = split_cohort(WHOLE, 4, 0.1)
    save_splits(parts, tmp_path / "parts")
    assert prints(open_splits(tmp_path / "parts")) == prints(parts)
    assert prints(open_or_split(tmp_path / "parts")) == prints(parts)
    assert (
        prints(open_or_split(tmp_path / "c", 4, 0.1))
        == prints(open_or_split(tmp_path / "c", control=0.1))
        == prints(parts)
    )


def test_a_folder_that_is_divided_already_is_not_divided_again(tmp_path: Path):
    save_splits(split_cohort(WHOLE), tmp_path / "parts")
    for options in ({"seed": 4}, {"control": 0.1}):
        with pytest.raises(UsageError, match="divided already"):
            open_or_split(tmp_path / "parts", **options)


def test_nothing_of_an_earlier_split_stays(tmp_path: Path):
    save_splits(split_cohort(WHOLE, control=0.2), tmp_path / "parts")
    with pytest.raises(ExistsError):
        save_splits(split_cohort(WHOLE), tmp_path / "parts")
    save_splits(split_cohort(WHOLE), tmp_path / "parts", overwrite=True)
    assert list(open_splits(tmp_path / "parts")) == ["train", "valid", "test"]


def test_parts_that_were_made_elsewhere_need_train_and_valid(tmp_path: Path):
    WHOLE.subset([0, 1]).save(tmp_path / "mine" / "train")
    with pytest.raises(InputError, match="valid"):
        open_or_split(tmp_path / "mine")
    WHOLE.subset([2]).save(tmp_path / "mine" / "valid")
    assert list(open_or_split(tmp_path / "mine")) == ["train", "valid"]


def test_a_folder_with_nothing_in_it_is_named(tmp_path: Path):
    with pytest.raises(InputError):
        open_or_split(tmp_path / "nowhere")
