"""Choice groups in a row of logits: codes of which a visit holds at most one are drawn as one category, or none.

Networks keep the codes of a group side by side. None has the logit 0, so that a group's part of the negative
log-likelihood is log(1 + Σ exp z) over its codes, less the logit of the code that is there. A code of its own is a
group of one: log(1 + exp z). Whatever is added to logits is therefore added to log-odds, for codes of both kinds.

Groups of equal size that lie side by side are a *run*, and are computed together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from adapcla.data import Prevalence, Vocabulary
from adapcla.data.vocabulary import DISCHARGE, LENGTH_OF_STAY, VISIT_KIND
from adapcla.disclosure import MIN_COUNT
from adapcla.errors import AdapclaError, UsageError
from adapcla.models.base import FREE, Drawn, DrawRule, Passage, Visit
from adapcla.models.draws import FIRST_CHANNEL, Noise, bernoulli_codes
from adapcla.scaffold import Scaffold

#: Groups that are drawn before all other codes of a visit, in this order, and after all others.
FIRST, LAST = (VISIT_KIND, LENGTH_OF_STAY.token), (DISCHARGE,)
#: The random numbers of groups, one for each group; code draws begin with channel 8.
_CHANNEL = 4


class Run(NamedTuple):
    """Groups of equal size, side by side."""

    start: int
    n_groups: int
    size: int
    #: The number of the first of them among all groups.
    number: int

    @property
    def stop(self) -> int:
        """The column behind the last of them."""
        return self.start + self.n_groups * self.size

    @property
    def columns(self) -> slice:
        """Their columns."""
        return slice(self.start, self.stop)

    def group_of(self, column: int) -> slice:
        """The columns of the group that one of its columns belongs to.

        >>> Run(4, 2, 3, 0).group_of(8)
        slice(7, 10, None)
        """
        start = column - (column - self.start) % self.size
        return slice(start, start + self.size)

    def of(self, logits: Tensor) -> Tensor:
        """A view (rows, groups, size) of their columns of some logits (rows, columns)."""
        return logits[:, self.columns].unflatten(1, (self.n_groups, self.size))


class Groups(NamedTuple):
    """The choice groups among some columns, in order; all other columns are codes of their own."""

    runs: tuple[Run, ...]
    n_columns: int

    @classmethod
    def of(cls, group_of_column: NDArray[np.int32]) -> Groups | None:
        """The groups of columns by number, −1 for a code of its own; None where there is none.

        >>> Groups.of(np.array([3, 3, -1, -1, 0, 0, 1, 1])).runs
        (Run(start=0, n_groups=1, size=2, number=0), Run(start=4, n_groups=2, size=2, number=1))
        """
        edges = np.flatnonzero(np.diff(group_of_column, prepend=-2, append=-2))
        runs: list[Run] = []
        number = 0
        for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if group_of_column[start] < 0:
                continue
            last = runs[-1] if runs else None
            if last is not None and last.stop == start and last.size == stop - start:
                runs[-1] = last._replace(n_groups=last.n_groups + 1)
            else:
                runs.append(Run(start, 1, stop - start, number))
            number += 1
        return cls(tuple(runs), len(group_of_column)) if runs else None

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return sum(run.n_groups for run in self.runs)

    def plain(self) -> Iterator[slice]:
        """The stretches of columns that are codes of their own.

        >>> list(Groups((Run(1, 1, 2, 0),), 5).plain())
        [slice(0, 1, None), slice(3, 5, None)]
        """
        begin = 0
        for run in (*self.runs, Run(self.n_columns, 0, 0, 0)):
            if run.start > begin:
                yield slice(begin, run.start)
            begin = run.stop

    def run_of(self, column: int) -> Run | None:
        """The run that a column belongs to; None for a code of its own."""
        return next((run for run in self.runs if run.start <= column < run.stop), None)

    def inside(self, columns: slice) -> Groups | None:
        """The groups of some columns, which cut none, counted from the first of them.

        >>> Groups((Run(2, 3, 2, 0),), 9).inside(slice(4, 9)).runs
        (Run(start=0, n_groups=2, size=2, number=1),)
        """
        kept = []
        for run in self.runs:
            low, high = max(run.start, columns.start), min(run.stop, columns.stop)
            if low < high:
                before = (low - run.start) // run.size
                kept.append(Run(low - columns.start, (high - low) // run.size, run.size, run.number + before))
        return Groups(tuple(kept), columns.stop - columns.start) if kept else None

    def uncut(self, edge: int) -> int:
        """The column at which to cut instead of one inside a group: where the group begins.

        >>> Groups((Run(2, 3, 2, 0),), 9).uncut(5)
        4
        """
        for run in self.runs:
            if run.start < edge < run.stop:
                return edge - (edge - run.start) % run.size
        return edge

    def unit_of_column(self) -> Tensor:
        """(columns,) the number of the group or code of its own that each column belongs to, in order of columns."""
        first = torch.ones(self.n_columns, dtype=torch.int64)
        for run in self.runs:
            run.of(first[None])[:, :, 1:] = 0
        return torch.cumsum(first, 0) - 1

    def stops(self) -> Tensor:
        """(columns,) the column behind the group of each column, or behind the column itself.

        >>> Groups((Run(1, 1, 2, 0),), 4).stops().tolist()
        [1, 3, 3, 4]
        """
        unit = self.unit_of_column()
        return torch.searchsorted(unit, unit, right=True)

    def normalisers(self, logits: Tensor) -> Tensor:
        """(rows, units) the logarithm of 1 + Σ exp z of each group and each code of its own; with gradients.

        >>> sums = Groups((Run(1, 1, 2, 0),), 3).normalisers(torch.zeros(1, 3))
        >>> [round(x, 4) for x in sums[0].exp().tolist()]
        [2.0, 3.0]
        """
        parts = {stretch.start: F.softplus(logits[:, stretch]) for stretch in self.plain()}
        for run in self.runs:
            parts[run.start] = torch.logsumexp(F.pad(run.of(logits), (0, 1)), dim=2)
        return torch.cat([parts[start] for start in sorted(parts)], dim=1)

    def chances(self, logits: Tensor) -> Tensor:
        """(rows, columns) the chance that each code is there."""
        return torch.exp(logits - self.normalisers(logits)[:, self.unit_of_column()])

    def draw(
        self, logits: Tensor, uniform: NDArray[np.float64], row_of_patient: Tensor | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(patient, column) pairs of one choice of each group, which may be none; `uniform` is (patients, all groups).

        Patient i uses row `row_of_patient[i]` of the logits, or row i if None.
        """
        rows, columns = [], []
        for run in self.runs:
            steps = torch.cumsum(choice_chances(run.of(logits).double()), dim=2).numpy()
            if not np.isfinite(steps).all():
                raise AdapclaError("the network gave probabilities that are not finite; load another checkpoint")
            steps = steps if row_of_patient is None else steps[row_of_patient.numpy()]
            mine = uniform[:, run.number : run.number + run.n_groups, None]
            choice = (mine > steps).sum(axis=2)
            who, which = np.nonzero(choice < run.size)
            rows.append(who)
            columns.append(run.start + which * run.size + choice[who, which])
        return np.concatenate(rows), np.concatenate(columns)


def choice_chances(logits: Tensor) -> Tensor:
    """The chances of choices (…, size) beside none, whose logit is 0.

    >>> choice_chances(torch.zeros(1, 3)).tolist()
    [[0.25, 0.25, 0.25]]
    """
    return torch.softmax(F.pad(logits, (0, 1)), dim=-1)[..., :-1]


def choices_(logits: Tensor) -> Tensor:
    """log(1 + Σ exp z) of choices (…, size), without gradients; the logits become chances in place.

    >>> logits = torch.zeros(1, 3)
    >>> round(float(choices_(logits).exp()), 4), logits.tolist()
    (4.0, [[0.25, 0.25, 0.25]])
    """
    most = logits.amax(dim=-1, keepdim=True).clamp_(min=0)
    logits.sub_(most).exp_()
    total = logits.sum(dim=-1, keepdim=True) + torch.exp(-most)
    logits.div_(total)
    return (most + total.log())[..., 0]


def group_noise(groups: Groups, noise: Noise) -> NDArray[np.float64]:
    """(patients, groups) the random numbers of one visit's choices."""
    return noise.uniform(groups.n_groups, channel=_CHANNEL)


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


#: The logit of a code that must come.
_SURE = 50.0
#: Draws of a visit before its number of codes is given up; one in 2.5 standard deviations has the number.
_ATTEMPTS = 2000


def independent_codes(
    logits: Tensor, row_of_patient: Tensor | None, rule: DrawRule, noise: Noise, groups: Groups | None = None
) -> Visit:
    """Independent draws of the columns; with counts in the rule, each visit holds exactly one of them."""
    hazard = None
    if rule.passage is not None:
        logits, row_of_patient, hazard = passage_logits(logits, row_of_patient, rule.passage, groups)
    if groups is not None:
        who, codes = _codes_and_choices(logits, row_of_patient, rule, noise, groups)
    elif rule.counts is None:
        who, codes = bernoulli_codes(logits, row_of_patient, noise, channel=FIRST_CHANNEL)
    else:
        number = rule.counts[(noise.uniform(1, channel=2)[:, 0] * len(rule.counts)).astype(np.int64)]
        who, codes = codes_given_number(logits if row_of_patient is None else logits[row_of_patient], number, noise)
    return Visit(who, codes, hazard)


def passage_logits(
    logits: Tensor, row_of_patient: Tensor | None, passage: Passage, groups: Groups | None = None
) -> tuple[Tensor, Tensor, NDArray[np.float64]]:
    """Logits of independent columns under a passage, the row of each patient, and the hazards (patients, codes).

    Rows are those pairs of a row and a target that occur. A code that must not come has the logit −∞; one that must
    come, a very large one.

    >>> from adapcla.models.base import NONE
    >>> passage = Passage(np.array([1, 2]), np.array([NONE, 1]), np.zeros(2, dtype=np.int64))
    >>> shifted, rows, hazard = passage_logits(torch.zeros(1, 3), torch.zeros(2, dtype=torch.int64), passage)
    >>> shifted[rows].tolist(), hazard.tolist()
    ([[0.0, -inf, -inf], [0.0, -inf, 50.0]], [[0.5, 0.5], [0.5, 0.5]])
    """
    rows = np.arange(len(logits)) if row_of_patient is None else row_of_patient.numpy()
    kinds = len(passage.codes) + 2
    pairs, of_patient = np.unique(rows * kinds + passage.target - FREE, return_inverse=True)
    out = logits[torch.from_numpy(pairs // kinds)]
    every = Passage(passage.codes, pairs % kinds + FREE, np.zeros(len(pairs), dtype=np.int64))
    forbidden, comes = torch.from_numpy(every.must_not_come), torch.from_numpy(every.comes)
    hazard = np.zeros((len(pairs), len(passage.codes)))
    for k, column in enumerate(passage.codes.tolist()):
        # Of a choice group only what stands before this code is settled: the codes before it do not come.
        run = None if groups is None else groups.run_of(column)
        others = slice(column, column + 1) if run is None else run.group_of(column)
        inside = F.pad(out[:, others].double(), (0, 1))
        hazard[:, k] = torch.softmax(inside, dim=1)[:, column - others.start].numpy()
        out[forbidden[:, k], column] = -torch.inf
        chosen = comes[:, k].nonzero()[:, 0]
        out[chosen, others] = -torch.inf
        out[chosen, column] = _SURE
    return out, torch.from_numpy(of_patient.ravel()), hazard[of_patient.ravel()]


def _codes_and_choices(
    logits: Tensor, row_of_patient: Tensor | None, rule: DrawRule, noise: Noise, groups: Groups
) -> Drawn:
    """(patient, code) pairs of codes of their own and one choice of each group, all independent."""
    if rule.counts is not None:
        raise UsageError(
            "codes_per_visit='match' counts codes that are drawn one by one, and this vocabulary has choice groups\n"
            "to do: sample with codes_per_visit='natural'"
        )
    alone = torch.cat([torch.arange(stretch.start, stretch.stop) for stretch in groups.plain()] or [torch.zeros(0)])
    parts = []
    if len(alone):
        who, which = bernoulli_codes(logits[:, alone.long()], row_of_patient, noise, channel=FIRST_CHANNEL)
        parts.append((who, alone.long().numpy()[which]))
    parts.append(groups.draw(logits, group_noise(groups, noise), row_of_patient))
    who, codes = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((codes, who))
    return who[order], codes[order]


def codes_given_number(logits: Tensor, number: NDArray[np.int64], noise: Noise) -> Drawn:
    """Exactly `number[i]` codes of row i: the law of independent codes given how many there are.

    That law does not change when all logits of a row are shifted alike. So they are shifted until the number is the
    expected one, which makes it the likeliest, and drawn until it comes out: rejection, and exact.

    >>> who, codes = codes_given_number(torch.zeros(2, 5), np.array([3, 9]), Noise(1, np.arange(2), 0))
    >>> np.bincount(who).tolist()
    [3, 5]
    """
    number = np.minimum(number, torch.isfinite(logits).sum(1).numpy())
    shifted = with_expected_count(logits, torch.from_numpy(number))
    waiting = np.arange(len(number))
    patients, drawn_codes = [], []
    for attempt in range(_ATTEMPTS):
        again = replace(noise.keep(waiting), attempt=attempt)
        who, codes = bernoulli_codes(shifted[torch.from_numpy(waiting)], None, again, channel=FIRST_CHANNEL)
        right = np.bincount(who, minlength=len(waiting)) == number[waiting]
        patients.append(waiting[who[right[who]]])
        drawn_codes.append(codes[right[who]])
        waiting = waiting[~right]
        if not len(waiting):
            who, codes = np.concatenate(patients), np.concatenate(drawn_codes)
            order = np.lexsort((codes, who))
            return who[order], codes[order]
    raise AdapclaError(
        f"{len(waiting)} visits did not come out with their number of codes in {_ATTEMPTS} draws\n"
        "to do: sample with codes_per_visit='natural', or check the target prevalence"
    )


def with_expected_count(logits: Tensor, expected: Tensor, rounds: int = 40) -> Tensor:
    """Logits (rows, codes) shifted by one scalar per row so that the expected number of codes is as wanted.

    >>> shifted = with_expected_count(torch.zeros(1, 10), torch.tensor([2.0]))
    >>> round(float(torch.sigmoid(shifted).sum()), 3)
    2.0
    """
    low = torch.full((logits.shape[0], 1), -30.0)
    high = -low
    for _ in range(rounds):
        middle = (low + high) / 2
        too_many = torch.sigmoid(logits + middle).sum(1, keepdim=True) > expected[:, None]
        low, high = torch.where(too_many, low, middle), torch.where(too_many, middle, high)
    return logits + (low + high) / 2


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
