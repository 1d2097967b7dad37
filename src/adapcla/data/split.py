"""Divides patients into train, validation, test and control, by seed and in the paper's shares, and keeps the parts.

On disk the parts are a folder with one cohort folder for each, named after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from adapcla.errors import InputError, UsageError
from adapcla.files import MANIFEST, fresh_folder
from adapcla.seeds import random_stream

if TYPE_CHECKING:
    from adapcla.data.cohort import Cohort

#: The split that everybody gets who does not ask for another.
SPLIT_SEED = 4
#: Cards name a part by its seed and its share of controls alone, so these two shares belong to the format of cards.
TEST_SHARE = 0.2
VALID_SHARE_OF_REST = 0.1

Each = TypeVar("Each")


class Split(NamedTuple, Generic[Each]):
    """The three parts of a cohort: their patients, or the positions of these, ascending."""

    train: Each
    valid: Each
    test: Each


class ControlledSplit(NamedTuple, Generic[Each]):
    """The three parts and the control patients that privacy tests need."""

    train: Each
    valid: Each
    test: Each
    control: Each


#: The names of the parts.
PARTS = ControlledSplit._fields


def split_positions(
    n_patients: int, seed: int = SPLIT_SEED, control: float = 0.0
) -> ControlledSplit[NDArray[np.int64]]:
    """Positions of the parts: 20 % test; of the rest 10 % validation; `control` is a share of all, taken from train.

    The test and validation patients do not change when a control part is reserved.

    >>> [len(part) for part in split_positions(100, seed=4, control=0.1)]
    [62, 8, 20, 10]
    """
    if not 0 <= control < 0.7:
        raise UsageError(f"control {control}: expected a share from 0 up to 0.7")
    order = random_stream(seed, "split").permutation(n_patients)
    n_test = round(TEST_SHARE * n_patients)
    n_valid = round(VALID_SHARE_OF_REST * (n_patients - n_test))
    n_control = round(control * n_patients)
    cuts = np.cumsum([n_test, n_valid, n_control])
    test, valid, reserved, train = (np.sort(piece) for piece in np.split(order, cuts))
    return ControlledSplit(train, valid, test, reserved)


# ---- parts as cohorts ---------------------------------------------------------------------------------------
def split_cohort(whole: Cohort, seed: int = SPLIT_SEED, control: float = 0.0) -> dict[str, Cohort]:
    """The parts of a cohort by name; control patients only where a share is reserved for them.

    >>> from adapcla.data import Cohort
    >>> whole = Cohort.of([[["A"]]] * 50)
    >>> list(split_cohort(whole)), list(split_cohort(whole, control=0.1))
    (['train', 'valid', 'test'], ['train', 'valid', 'test', 'control'])
    """
    named = whole.split(seed, control=control)._asdict()
    return {name: part for name, part in named.items() if name != "control" or control}


def save_splits(parts: dict[str, Cohort], folder: str | Path, overwrite: bool = False) -> None:
    """Write all parts, or none; nothing of an earlier split stays beside them."""
    with fresh_folder(Path(folder), overwrite) as temporary:
        for name, part in parts.items():
            part.save(temporary / name)


def open_splits(folder: str | Path) -> dict[str, Cohort]:
    """The parts in a folder by name, as many as there are."""
    from adapcla.data.cohort import Cohort

    return {name: Cohort.open(Path(folder) / name) for name in PARTS if (Path(folder) / name).is_dir()}


def open_or_split(folder: str | Path, seed: int | None = None, control: float = 0.0) -> dict[str, Cohort]:
    """The parts in a folder; where the folder is a whole cohort, the cohort is divided."""
    from adapcla.data.cohort import Cohort

    if (Path(folder) / MANIFEST).exists() or not (Path(folder) / "train").is_dir():
        return split_cohort(Cohort.open(folder), SPLIT_SEED if seed is None else seed, control)
    if seed is not None or control:
        raise UsageError(
            f"{folder} is divided already\nto do: leave the settings of the split out, or divide the whole cohort anew"
        )
    parts = open_splits(folder)
    if "valid" not in parts:
        raise InputError(
            "no folder `valid`",
            path=Path(folder),
            expected="a folder that `adapcla split` wrote, or cohorts in folders named train and valid",
            remedy="divide the cohort again",
        )
    return parts
