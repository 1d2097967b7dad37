"""Static properties of patients, such as sex, and their joint distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.errors import UsageError
from adapcla.seeds import keyed_uniform, stream_key


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

    def texts(self) -> list[str | None]:
        """The category of each patient, None where it is not known.

        >>> Attribute(np.array([1, -1], dtype=np.int16), ("F", "M")).texts()
        ['M', None]
        """
        return [self.categories[value] if value >= 0 else None for value in np.asarray(self.values).tolist()]

    def followed_by(self, other: Attribute) -> Attribute:
        """The attribute of these patients and then of the other's, who have the same categories."""
        return Attribute(np.concatenate([self.values, other.values]), self.categories)


@dataclass(frozen=True, eq=False)
class AttributeDistribution:
    """Distinct combinations of attributes, and how many training patients have each."""

    names: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    combinations: NDArray[np.int64]  # (combinations, attributes), category + 1
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, attributes: Mapping[str, Attribute], n_patients: int) -> AttributeDistribution:
        """The distribution of these patients.

        >>> sex = Attribute(np.array([1, -1, 1], dtype=np.int16), ("F", "M"))
        >>> AttributeDistribution.of({"sex": sex}, 3).counts.tolist()
        [1, 2]
        """
        names = tuple(sorted(attributes))
        columns = [np.asarray(attributes[name].values).astype(np.int64) + 1 for name in names]
        rows = np.stack(columns, axis=1) if columns else np.zeros((n_patients, 0), dtype=np.int64)
        combinations, counts = np.unique(rows, axis=0, return_counts=True)
        return cls(names, tuple(attributes[name].categories for name in names), combinations, counts)

    def draw(self, patients: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
        """A combination for each patient number."""
        edges = np.cumsum(self.counts) / self.counts.sum()
        point = keyed_uniform(stream_key(seed, "attributes"), patients, np.zeros_like(patients), 1)[:, 0]
        return self.combinations[np.minimum(np.searchsorted(edges, point, side="right"), len(edges) - 1)]

    def given(self, conditions: Sequence[tuple[str, str]]) -> AttributeDistribution:
        """The law among patients with these attributes, each a pair of name and category.

        >>> law = AttributeDistribution(("sex",), (("F", "M"),), np.array([[1], [2]]), np.array([30, 20]))
        >>> law.given([("sex", "M")]).counts.tolist()
        [20]
        """
        keep = np.ones(len(self.counts), dtype=bool)
        for name, category in conditions:
            if name not in self.names:
                raise UsageError(f"no attribute {name!r}; this model knows {', '.join(self.names) or 'none'}")
            column = self.names.index(name)
            if category not in self.categories[column]:
                raise UsageError(f"{name}={category}: expected one of {', '.join(self.categories[column])}")
            keep &= self.combinations[:, column] == self.categories[column].index(category) + 1
        if not keep.any():
            raise UsageError("no training patient has these attributes together")
        return replace(self, combinations=self.combinations[keep], counts=self.counts[keep])
