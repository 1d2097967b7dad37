"""The order of codes inside networks: that in which a visit is drawn, most frequent first."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adapcla.data import Prevalence, Vocabulary
from adapcla.data.vocabulary import DISCHARGE, LENGTH_OF_STAY, VISIT_KIND
from adapcla.disclosure import MIN_COUNT
from adapcla.scaffold import Scaffold

#: Groups that are drawn before all other codes of a visit, in this order, and after all others.
FIRST, LAST = (VISIT_KIND, LENGTH_OF_STAY.token), (DISCHARGE,)


def drawing_order(vocabulary: Vocabulary, plain: NDArray[np.int64]) -> NDArray[np.int64]:
    """All codes in the order in which a visit is drawn, given the codes of their own in theirs.

    Kind and length of the visit come first and how it ended last; what was measured comes before that, groups of equal
    size side by side. Inside a group codes stand as in the vocabulary.

    >>> from adapcla.data.vocabulary import discharge_code, visit_kind_code
    >>> vocabulary = Vocabulary.of([discharge_code("died"), visit_kind_code("other"), "A", "B"])
    >>> [vocabulary.tokens[code] for code in drawing_order(vocabulary, np.array([1, 0]))]
    ['KIND/other', 'B', 'A', 'END/died']
    """
    by_group = vocabulary.group_of_code
    members = {name: np.flatnonzero(by_group == number) for number, name in enumerate(vocabulary.groups)}
    measured = sorted(set(members) - {*FIRST, *LAST}, key=lambda name: (len(members[name]), name))
    first, last = ([members[name] for name in names if name in members] for names in (FIRST, LAST))
    return np.concatenate([*first, plain, *(members[name] for name in measured), *last])


def visits_of_codes(prevalence: Prevalence) -> NDArray[np.float64]:
    """(codes,) training visits of each code; counts too small to be told are all as large as the largest of them.

    A model for others does not know these counts, and must be the same model.
    """
    n_visits = prevalence.n_visits or 1
    share = prevalence.raise_small_counts().share
    return np.asarray(np.where(np.isnan(share), MIN_COUNT - 1, share * n_visits))


def frequency_order(prevalence: Prevalence) -> tuple[Tensor, Tensor]:
    """The code at each rank, most frequent first, and the log-odds of the training prevalence in that order.

    Codes of a few visits are taken as equally frequent: the order is saved, and small counts could be read from it.
    Codes of choice groups stand side by side before and behind the others, see `drawing_order`.

    >>> from adapcla.data import Cohort
    >>> frequency_order(Cohort.of([[["A"]], [["B"]]] + [[["B"]]] * 20).prevalence())[0].tolist()
    [1, 0]
    """
    order = np.argsort(-visits_of_codes(prevalence), kind="stable")
    if prevalence.vocabulary.groups:
        order = drawing_order(prevalence.vocabulary, order[prevalence.vocabulary.group_of_code[order] < 0])
    code_of_rank = torch.from_numpy(order)
    return code_of_rank, torch.from_numpy(Scaffold(prevalence).initial_logits).float()[code_of_rank]
