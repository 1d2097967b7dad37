"""How common each code is, tied to the vocabulary it is written in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapcla.data.vocabulary import Vocabulary
from adapcla.disclosure import SMALLEST_COUNT
from adapcla.errors import InputError


@dataclass(frozen=True, eq=False)
class Prevalence:
    """The share of visits that hold each code (the paper's π̂); NaN where nothing is known of a code.

    >>> site = Prevalence(Vocabulary.of(["A", "B"]), np.array([0.5, 0.1]))
    >>> site.on(Vocabulary.of(["B", "C"])).share.tolist()
    [0.1, nan]
    """

    vocabulary: Vocabulary
    share: NDArray[np.float64]
    #: Number of visits behind the shares, where known: it says how exact they are.
    n_visits: int | None = None

    def __post_init__(self) -> None:
        if self.share.shape != (len(self.vocabulary),):
            raise InputError(
                f"{self.share.shape} prevalences for {len(self.vocabulary)} codes",
                expected="one share for each code",
                remedy="build it with Prevalence.of or Cohort.prevalence",
            )
        known = self.share[~np.isnan(self.share)]
        if known.size and (known.min() < 0 or known.max() > 1):
            raise InputError(
                "a prevalence outside 0 to 1",
                expected="the share of visits that hold the code, as a fraction",
                remedy="divide percentages by 100, or give a denominator for counts",
            )

    @classmethod
    def of(cls, shares: dict[str, float], n_visits: int | None = None) -> Prevalence:
        """A prevalence by code string.

        >>> Prevalence.of({"B": 0.1, "A": 0.5}).share.tolist()
        [0.5, 0.1]
        """
        vocabulary = Vocabulary.of(shares)
        return cls(vocabulary, np.array([shares[token] for token in vocabulary.tokens], dtype=float), n_visits)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Codes with a value."""
        return ~np.isnan(self.share)

    def rest(self, among: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """The share of visits without each code; for a code of a choice group, without any code of the group.

        Where only some codes are meant (`among`), the others of a group count as visits without any. Unknown shares
        count as 0.

        >>> from adapcla.data.vocabulary import Code
        >>> codes = Vocabulary.of([Code.of("home", "END", group="end"), Code.of("died", "END", group="end"), "A"])
        >>> Prevalence(codes, np.array([0.25, 0.125, 0.5])).rest().tolist()
        [0.75, 0.375, 0.375]
        """
        share = np.nan_to_num(self.share)
        rest, group = 1 - share, self.vocabulary.group_of_code
        grouped = np.flatnonzero(group >= 0)
        if len(grouped):
            counted = share[grouped] if among is None else np.where(among, share, 0.0)[grouped]
            sums = np.bincount(group[grouped], counted)
            rest[grouped] = np.maximum(1 - sums[group[grouped]], 0.0)
        return rest

    def on(self, vocabulary: Vocabulary) -> Prevalence:
        """The same prevalences on another vocabulary, by code string; the only way from one vocabulary to another."""
        if vocabulary == self.vocabulary:
            return self
        positions = self.vocabulary.positions(vocabulary.tokens)
        share = np.full(len(vocabulary), np.nan)
        known = positions >= 0
        share[known] = self.share[positions[known]]
        return Prevalence(vocabulary, share, self.n_visits)

    def sampling_gap(self, n_visits: int) -> NDArray[np.float64]:
        """How far the shares among `n_visits` independent visits of these prevalences are expected to be off.

        The mean absolute deviation of a binomial count (de Moivre), over the number of visits. Unknown shares stay NaN.

        >>> Prevalence.of({"A": 0.5, "B": 0.0}).sampling_gap(2).tolist()
        [0.25, 0.0]
        """
        from scipy import stats

        above = np.floor(np.nan_to_num(self.share) * n_visits) + 1
        return np.asarray(2 * above * (1 - self.share) * stats.binom.pmf(above, n_visits, self.share) / n_visits)

    def floored(self, min_cell: int = SMALLEST_COUNT) -> Prevalence:
        """A copy in which codes of 1 to `min_cell` − 1 visits are all as frequent as the most frequent of them may be.

        >>> counts = Prevalence(Vocabulary.of(["A", "B", "C"]), np.array([0.5, 0.02, 0.0]), n_visits=100)
        >>> counts.floored(11).share.tolist()
        [0.5, 0.1, 0.0]
        """
        if self.n_visits is None:
            return self
        most = min(1.0, (min_cell - 1) / self.n_visits)
        return Prevalence(self.vocabulary, np.where(self._small(min_cell), most, self.share), self.n_visits)

    def suppressed(self, min_cell: int = SMALLEST_COUNT) -> Prevalence:
        """A copy in which codes of 1 to `min_cell` − 1 visits are unknown, so that small counts cannot be read.

        >>> counts = Prevalence(Vocabulary.of(["A", "B"]), np.array([0.5, 0.05]), n_visits=100)
        >>> counts.suppressed(11).share.tolist()
        [0.5, nan]
        """
        if self.n_visits is None:
            raise InputError(
                "the number of visits behind this prevalence is unknown",
                expected="a denominator, to tell which cells are small",
                remedy="export it from a cohort",
            )
        return Prevalence(self.vocabulary, np.where(self._small(min_cell), np.nan, self.share), self.n_visits)

    def _small(self, min_cell: int) -> NDArray[np.bool_]:
        """Codes of 1 to `min_cell` − 1 visits."""
        visits = np.nan_to_num(self.share) * (self.n_visits or 0)
        return (visits > 0.5) & (visits < min_cell - 0.5)
