"""Head, mid and tail by training visit counts: the one definition in the project."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapcla.data.vocabulary import Vocabulary

#: Count bands reported beside the cuts: name → (lowest, highest count).
BANDS: dict[str, tuple[int, int]] = {"1": (1, 1), "2-5": (2, 5), "6-20": (6, 20), "21+": (21, 2**62)}
#: The bands of rare codes that scores of single tail codes are given for: name → (lowest, highest count).
RARE_BANDS: dict[str, tuple[int, int]] = {"1-5": (1, 5), "6-20": (6, 20), "21-100": (21, 100)}
#: The bands of rare codes whose company is learned with one strength of smoothing; finer, as strength goes with count.
INFORMATION_BANDS: dict[str, tuple[int, int]] = {"1-5": (1, 5), "6-10": (6, 10), "11-30": (11, 30), "31-100": (31, 100)}
#: Tails by the number of training visits of a code, which cohorts of all sizes share: name → highest count.
COUNT_CUTS: dict[str, int] = {"up to 5": 5, "up to 20": 20, "up to 100": 100}
#: The tail cuts, the default first.
TAIL_CUTS = ("third", "rare20", "singletons")


@dataclass(frozen=True, eq=False)
class Strata:
    """Which codes are head, mid and tail, as masks over the vocabulary.

    Only codes present in training have a stratum; equal counts are ordered by code string.

    >>> strata = Strata.of(np.array([5, 1, 3, 0]), Vocabulary.of(["A", "B", "C", "D"]))
    >>> strata.tail.tolist(), strata.head.tolist(), strata.singletons.tolist()
    ([False, True, False, False], [True, False, False, False], [False, True, False, False])
    """

    vocabulary: Vocabulary
    counts: NDArray[np.int64]
    head: NDArray[np.bool_]
    mid: NDArray[np.bool_]
    tail: NDArray[np.bool_]
    rare20: NDArray[np.bool_]

    @classmethod
    def of(cls, counts: NDArray[np.int64], vocabulary: Vocabulary) -> Strata:
        """Strata from the number of training visits of each code."""
        counts = np.asarray(counts, dtype=np.int64)
        if len(counts) != len(vocabulary):
            raise ValueError(f"{len(counts)} counts for {len(vocabulary)} codes")
        present = np.flatnonzero(counts > 0)
        # The vocabulary is in string order, so a stable sort breaks ties by code string.
        rare_first = present[np.argsort(counts[present], kind="stable")]
        third, fifth = len(present) // 3, len(present) // 5

        def mask(chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
            out = np.zeros(len(counts), dtype=bool)
            out[chosen] = True
            return out

        return cls(
            vocabulary,
            counts,
            head=mask(rare_first[len(present) - third :]),
            mid=mask(rare_first[third : len(present) - third]),
            tail=mask(rare_first[:third]),
            rare20=mask(rare_first[:fifth]),
        )

    @property
    def present(self) -> NDArray[np.bool_]:
        """Codes seen in training."""
        return self.counts > 0

    @property
    def singletons(self) -> NDArray[np.bool_]:
        """Codes of exactly one training visit."""
        return self.counts == 1

    def cut(self, name: str) -> NDArray[np.bool_]:
        """The tail by one of `TAIL_CUTS` (the rarest third, the rarest 20 %, the singletons) or of `COUNT_CUTS`.

        >>> Strata.of(np.array([1, 2]), Vocabulary.of(["A", "B"])).cut("singletons").tolist()
        [True, False]
        """
        if name in COUNT_CUTS:
            return self.present & (self.counts <= COUNT_CUTS[name])
        return {"third": self.tail, "rare20": self.rare20, "singletons": self.singletons}[name]

    def band(self, name: str) -> NDArray[np.bool_]:
        """Codes whose training count lies in one of `BANDS`, `RARE_BANDS` or `INFORMATION_BANDS`.

        >>> Strata.of(np.array([1, 4]), Vocabulary.of(["A", "B"])).band("2-5").tolist()
        [False, True]
        """
        low, high = (BANDS | RARE_BANDS | INFORMATION_BANDS)[name]
        return (self.counts >= low) & (self.counts <= high)
