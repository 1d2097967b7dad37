"""Estimates with intervals as cells, and the one table of the privacy gate."""

from __future__ import annotations

from typing import NamedTuple

from adapcla.tables import Cell, format_number, number_cell


class Estimate(NamedTuple):
    """A number: the mean over fits and samples, its 95 % interval, and how many fits there were."""

    value: float
    low: float | None
    high: float | None
    n: int

    @property
    def half(self) -> float | None:
        """Half of the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def estimate_cell(estimate: Estimate | None, reason: str = "") -> Cell:
    """An estimate as a cell with its interval; a dash with the beginning of the reason where there is none.

    >>> estimate_cell(Estimate(0.5, 0.4, 0.6, 1))
    Cell(text='0.500', value=0.5, note='[0.400, 0.600]', best=False)
    """
    if estimate is None:
        # The beginning says what; the whole reason is in the scores' own files.
        return Cell("–", None, reason.partition(":")[0])
    low, high = estimate.low, estimate.high
    note = "" if low is None or high is None else f"[{format_number(low)}, {format_number(high)}]"
    return number_cell(estimate.value, note)
