"""The rarity bias that training adds to the logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Prevalence

#: Keeps the bias finite for codes in no or in every visit.
EPSILON = 1e-6


@dataclass(frozen=True, eq=False)
class Scaffold:
    """A bias for each code, large where the code is rare.

    >>> rare = Prevalence.of({"A": 0.5, "B": 0.001, "C": 0.0})
    >>> Scaffold(rare).bias.round(3).tolist()
    [0.0, 6.906, 0.0]
    """

    prevalence: Prevalence
    #: 1.0 is the paper's text; 0.2 is what the authors' release ran (its τ).
    tempering: float = 1.0
    epsilon: float = EPSILON

    @property
    def bias(self) -> NDArray[np.float64]:
        """The paper's b_stat: log((1 − π̂ + ε)/(π̂ + ε)), tempered; 0 for codes never seen in training.

        For codes of a choice group 1 − π̂ is the share of visits without any of them, or that of the most frequent one
        if it is larger: where every visit has a code of the group, rare ones are lifted to the others, not to none.
        """
        share, rest = np.nan_to_num(self.prevalence.share), self.prevalence.rest()
        group = self.prevalence.vocabulary.group_of_code
        for number in range(len(self.prevalence.vocabulary.groups)):
            rest[group == number] = max(rest[group == number][0], share[group == number].max())
        bias = np.log((rest + self.epsilon) / (share + self.epsilon))
        return self.tempering * np.where(share > 0, bias, 0.0)

    @property
    def initial_logits(self) -> NDArray[np.float64]:
        """logit π̂, where an untrained network should start: added to the untempered bias it gives 0.

        >>> scaffold = Scaffold(Prevalence.of({"A": 0.2, "B": 0.003}))
        >>> (scaffold.initial_logits + scaffold.bias).round(12).tolist()
        [0.0, 0.0]
        """
        share = np.nan_to_num(self.prevalence.share)
        return np.log((share + self.epsilon) / (self.prevalence.rest() + self.epsilon))
