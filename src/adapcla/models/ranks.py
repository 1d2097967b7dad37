"""Codes by rank: networks keep them most frequent first."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from adapcla.data import Prevalence
from adapcla.models.groups import arranged
from adapcla.scaffold import Scaffold


def ranked(prevalence: Prevalence) -> tuple[Tensor, Tensor]:
    """The code at each rank, most frequent first, and the log-odds of the training prevalence in that order.

    Codes of a few visits are taken as equally frequent: the order is saved, and small counts could be read from it.
    Codes of choice groups stand side by side before and behind the others, see `arranged`.

    >>> from adapcla.data import Cohort
    >>> ranked(Cohort.of([[["A"]], [["B"]]] + [[["B"]]] * 20).prevalence())[0].tolist()
    [1, 0]
    """
    order = np.argsort(-np.nan_to_num(prevalence.raise_small_counts().share), kind="stable")
    if prevalence.vocabulary.groups:
        order = arranged(prevalence.vocabulary, order[prevalence.vocabulary.group_of_code[order] < 0])
    code_of_rank = torch.from_numpy(order)
    return code_of_rank, torch.from_numpy(Scaffold(prevalence).initial_logits).float()[code_of_rank]
