"""Drawing sparse sets of codes: exact independent Bernoulli draws at the price of the codes that come out.

A Bernoulli with logit z happens with probability p = 1 − exp(−h) where h = softplus(z). So the codes hit by a unit
Poisson process on the line of stacked hazards h are exactly the independent draws, and a visit of eleven codes needs
about a dozen random numbers instead of one for each of thousands of codes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

from adapcla.errors import AdapclaError
from adapcla.seeds import keyed_uniform

_ARRIVALS = 16
#: A long visit asks for more numbers, each time this many channels further.
_CHANNELS = 64
#: Channels of the code draws begin here.
FIRST_CHANNEL = 8
#: A code of this hazard is missed once in 10^17 draws; larger ones would only take longer.
_CERTAIN = 40.0
#: Rows of logits that are drawn from at a time.
ROWS_AT_ONCE = 64
#: Sum of hazards, close to the number of codes, beyond which a visit is none.
_MOST = 100_000.0


@dataclass(frozen=True)
class Noise:
    """Random numbers for some patients at one place of their record; each depends on seed, patient and place alone."""

    key: int
    patients: NDArray[np.int64]
    place: int
    #: How often the same was drawn before and did not do.
    attempt: int = 0

    def uniform(self, n: int, channel: int) -> NDArray[np.float64]:
        """Uniform numbers (patients, n); another channel gives other numbers."""
        counters = np.full(len(self.patients), counter(self.place, channel, self.attempt), dtype=np.int64)
        return keyed_uniform(self.key, self.patients, counters, n)

    def keep(self, rows: NDArray[np.int64]) -> Noise:
        """The noise of some of the patients."""
        return replace(self, patients=self.patients[rows])


def counter(place: int, channel: int, attempt: int = 0) -> int:
    """The number that keys a draw of a patient: another one for each place, channel and attempt.

    It has 16 bits for the channel, 24 for the place (262,144 visits of 64 places), 8 for what a channel runs over, and
    15 for the attempt.

    >>> counter(3, 8) == 3 * 65536 + 8
    True
    """
    return (attempt << 48) + ((channel >> 16) << 40) + (place << 16) + (channel & 0xFFFF)


def bernoulli_codes(
    logits: Tensor, row_of_patient: Tensor | None, noise: Noise, channel: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(patient, code) pairs of independent draws; patient i uses row `row_of_patient[i]`, or row i if None.

    Pairs are sorted by patient, then code. −∞ logits never come out; any other non-finite logit is an error.
    """
    line = hazard_line(logits)
    totals = line[:, -1].numpy()
    rows = np.arange(len(totals)) if row_of_patient is None else row_of_patient.numpy()
    if len(rows) != len(noise.patients):
        raise ValueError(f"{len(noise.patients)} patients for {len(rows)} rows")
    # Most patients get nothing from a small block: who does is seen by the first arrival alone.
    first = -np.log(noise.uniform(1, channel)[:, 0])
    some = np.flatnonzero(first < totals[rows])
    if not len(some):
        return some, some
    rows = rows[some]
    arrivals = _arrivals(totals[rows], noise.keep(some), channel)
    which, marks = np.nonzero(arrivals < totals[rows][:, None])
    if row_of_patient is None:
        marked = torch.searchsorted(line[torch.from_numpy(rows)], torch.from_numpy(arrivals), right=True).numpy()
        codes = marked[which, marks]
    else:
        codes = _locate(line, rows[which], arrivals[which, marks])
    patients = some[which]
    key = np.unique(patients * logits.shape[1] + codes)  # a code hit twice is one code
    return np.divmod(key, logits.shape[1])


def hazard_line(logits: Tensor) -> Tensor:
    """(rows, codes) the stacked hazards of each row: where the stretch of each code ends."""
    hazard = F.softplus(logits)
    if not torch.isfinite(hazard.sum()):  # a sum that is finite has only finite parts, and is one look instead of four
        raise AdapclaError("the network gave logits that are not finite; the model is damaged: load another checkpoint")
    line = torch.cumsum(hazard.clamp_(max=_CERTAIN), dim=1, dtype=torch.float64)
    if bool((line[:, -1] > _MOST).any()):
        raise AdapclaError("the network makes nearly every code certain; the model is damaged: load another checkpoint")
    return line


def _arrivals(totals: NDArray[np.float64], noise: Noise, channel: int) -> NDArray[np.float64]:
    """Arrival times of unit Poisson processes, far enough to pass every total."""
    reached = np.zeros((len(totals), 1))
    pieces = []
    part = 0
    while (reached[:, -1] < totals).any():
        gaps = -np.log(noise.uniform(_ARRIVALS, channel + _CHANNELS * part))
        piece = reached[:, -1:] + np.cumsum(gaps, axis=1)
        pieces.append(piece)
        reached = piece
        part += 1
    return np.concatenate(pieces, axis=1) if pieces else np.zeros((len(totals), 0))


def _locate(line: Tensor, rows: NDArray[np.int64], points: NDArray[np.float64]) -> NDArray[np.int64]:
    """The code whose stretch of its row's line holds each point; for few rows that many patients share."""
    out = np.empty(len(points), dtype=np.int64)
    for row in np.unique(rows).tolist():
        members = rows == row
        out[members] = np.searchsorted(line[row].numpy(), points[members], side="right")
    return out


def bernoulli(logits: Tensor, noise: Noise, channel: int) -> NDArray[np.bool_]:
    """One draw for each patient."""
    chance = torch.sigmoid(logits.double()).numpy()
    if not np.isfinite(chance).all():
        raise AdapclaError("the network gave probabilities that are not finite; load another checkpoint")
    return noise.uniform(1, channel)[:, 0] < chance


def categorical(logits: Tensor, noise: Noise, channel: int) -> NDArray[np.int64]:
    """One category for each patient from rows of logits.

    The running sum of exp is in double precision; in place of dividing it, the random number is multiplied. A few rows
    at a time stay in the processor's cache, which takes a fifth of the time.
    """
    point = torch.from_numpy(noise.uniform(1, channel))
    drawn = torch.empty(len(logits), dtype=torch.int64)
    for low in range(0, len(logits), ROWS_AT_ONCE):
        rows = slice(low, low + ROWS_AT_ONCE)
        weight = (logits[rows] - logits[rows].amax(dim=1, keepdim=True)).exp_()
        steps = torch.cumsum(weight, dim=1, dtype=torch.float64)
        total = steps[:, -1:]
        if not bool(torch.isfinite(total).all()):
            raise AdapclaError("the network gave probabilities that are not finite; load another checkpoint")
        drawn[rows] = torch.searchsorted(steps, point[rows] * total)[:, 0]
    return drawn.clamp_(max=logits.shape[1] - 1).numpy()


def normal(noise: Noise, n: int, channel: int) -> Tensor:
    """Standard normal numbers (patients, n).

    >>> tuple(normal(Noise(1, np.arange(3), 0), 2, channel=5).shape)
    (3, 2)
    """
    return torch.from_numpy(ndtri(noise.uniform(n, channel))).float()
