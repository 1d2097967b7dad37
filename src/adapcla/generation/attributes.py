"""How static attributes of patients, such as sex, are distributed in training, and draws from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from adapcla.errors import UsageError
from adapcla.models.batch import Records
from adapcla.models.draws import Noise
from adapcla.seeds import stream_key


@dataclass(frozen=True, eq=False)
class AttributeLaw:
    """Distinct combinations of attributes, and how many training patients have each."""

    names: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    combinations: NDArray[np.int64]  # (combinations, attributes), category + 1
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, records: Records) -> AttributeLaw:
        """The law of these patients."""
        rows = records.attribute_rows(np.arange(records.cohort.n_patients))
        combinations, counts = np.unique(rows, axis=0, return_counts=True)
        names = records.attribute_names
        return cls(names, tuple(records.cohort.attributes[name].categories for name in names), combinations, counts)

    def draw(self, patients: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
        """A combination for each patient number."""
        edges = np.cumsum(self.counts) / self.counts.sum()
        point = Noise(stream_key(seed, "attributes"), patients, 0).uniform(1, 0)[:, 0]
        return self.combinations[np.minimum(np.searchsorted(edges, point, side="right"), len(edges) - 1)]

    def given(self, conditions: Sequence[tuple[str, str]]) -> AttributeLaw:
        """The law among patients with these attributes, each a pair of name and category.

        >>> law = AttributeLaw(("sex",), (("F", "M"),), np.array([[1], [2]]), np.array([30, 20]))
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
