"""What other codes of a visit say of an asked one, as the network itself tells it.

A rare code is often drawn after the frequent ones of its visit and hears of them: a partner may make it ten times as
likely, and a visit that is full already makes it nearly impossible. What one code a says of the asked code c is read
from two likelihoods of the visit that holds a alone: with c raised by s, its negative log-likelihood is larger by
log(1 + exp(z + s)) for a log-odds z of c far below 0, so that z is known to many digits. No visit has to be drawn for
that, and there is no chance in it.

A visit without any code tells which codes c does not hear of: those that are drawn with it or after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from adapcla.generation.model import Model
from adapcla.generation.proposals import visit_nll
from adapcla.generation.sampler import Rolled
from adapcla.models.base import DrawRule
from adapcla.scaffold.steering import logit

#: Log-odds by which a code must change the asked one to be heard at all, and the most that is made of one.
_HEARD, _MOST = 1e-3, 6.0
#: Shares of visits that are taken for a code that is not known to be in so many.
_RAREST = 1e-6


@dataclass(frozen=True, eq=False)
class Partners:
    """How much more one code than another speaks for each asked code."""

    #: (asked codes, codes) log-odds beyond the mean of codes as frequent as they are; 0 where nothing is heard.
    said: NDArray[np.float64]
    #: (asked codes, codes) which codes the asked one hears of.
    heard: NDArray[np.bool_]
    #: Visits that were computed for it.
    n_visits: int

    def tilts(self, room: float, weight: float) -> NDArray[np.float64]:
        """(asked codes, codes) what is added to log-odds: `room` for all that are heard, and what they say, weighed.

        >>> said, heard = np.array([[2.0, -1.0, 0.0]]), np.array([[True, True, False]])
        >>> Partners(said, heard, 4).tilts(-1.0, 0.5).tolist()
        [[0.0, -1.5, 0.0]]
        """
        return np.where(self.heard, room + weight * self.said, 0.0)


def visit_shares(model: Model) -> NDArray[np.float64]:
    """The share of training visits that hold each code; a small one where it is not told."""
    return np.asarray(np.clip(np.nan_to_num(model.prevalence.share), _RAREST, 0.5))


def partners_of(model: Model, codes: NDArray[np.int64], rule: DrawRule, attributes: NDArray[np.int64]) -> Partners:
    """What every code says of each of some asked ones in a first visit, for a patient with these attributes (1, …)."""
    n, share = len(model.vocabulary), visit_shares(model)
    said, heard = np.zeros((len(codes), n)), np.zeros((len(codes), n), dtype=bool)
    if not model.settings.architecture.empty_visits:
        return Partners(said, heard, 0)  # such networks draw one code after another, and the asked one may come at any
    sizes, one = np.r_[np.ones(n, dtype=np.int64), 0], np.ones(n + 1, dtype=np.int64)
    visits = Rolled(np.arange(n, dtype=np.int32), sizes, one, 0 * one, np.repeat(attributes, n + 1, axis=0))
    plain = visit_nll(model, visits, rule.bias)
    may = model.vocabulary.group_of_code < 0
    may[codes] = False
    for k, code in enumerate(codes):
        raised = torch.zeros(n) if rule.bias is None else rule.bias.clone()
        raised[code] += float(-logit(share[code : code + 1])[0])
        more = np.maximum(visit_nll(model, visits, raised) - plain, 1e-12)
        odds = np.log(np.expm1(np.minimum(more, 50.0)))
        heard[k] = may & (np.abs(odds[:n] - odds[n]) > _HEARD)
        if heard[k].any():
            mean = np.average(odds[:n][heard[k]], weights=share[heard[k]])
            said[k] = np.where(heard[k], np.clip(odds[:n] - mean, -_MOST, _MOST), 0.0)
    return Partners(said, heard, n + 1)
