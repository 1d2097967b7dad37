"""Divides patients into train, validation, test and control, by seed and in the paper's shares."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from adapcla.errors import UsageError
from adapcla.seeds import random_stream

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
