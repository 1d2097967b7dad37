"""The numbers that entries carry, when the vocabulary around them changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adapcla.data.vocabulary import Vocabulary


def values_on(
    is_number: NDArray[np.bool_], values: NDArray[np.float32] | None, n_entries: int
) -> NDArray[np.float32] | None:
    """The values of the same entries on a vocabulary with these numbers: none without numbers, NaN without values.

    >>> values_on(np.array([True]), None, 2)
    array([nan, nan], dtype=float32)
    >>> values_on(np.array([False]), np.array([1, 2], dtype=np.float32), 2) is None
    True
    """
    if not is_number.any():
        return None
    return np.full(n_entries, np.nan, dtype=np.float32) if values is None else values


def without_units(vocabulary: Vocabulary) -> Vocabulary:
    """The vocabulary with numbers as plain codes.

    >>> from adapcla.data.vocabulary import Code
    >>> bool(without_units(Vocabulary.of([Code.of("glucose", "LAB", unit="mg/dL")])).numbers.any())
    False
    """
    return Vocabulary(tuple(code._replace(unit="") for code in vocabulary.codes))
