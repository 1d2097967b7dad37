"""A static property of patients, such as sex."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Attribute(NamedTuple):
    """One small integer per patient (−1 unknown) and the category that each integer stands for."""

    values: NDArray[np.int16]
    categories: tuple[str, ...]

    def of_patients(self, patients: NDArray[np.int64] | NDArray[np.bool_]) -> Attribute:
        """The attribute of some of the patients, by position or by mask.

        >>> Attribute(np.array([1, -1, 0], dtype=np.int16), ("F", "M")).of_patients(np.array([2, 0])).values.tolist()
        [0, 1]
        """
        return Attribute(np.asarray(self.values[patients]), self.categories)

    def followed_by(self, other: Attribute) -> Attribute:
        """The attribute of these patients and then of the other's, who have the same categories."""
        return Attribute(np.concatenate([self.values, other.values]), self.categories)
