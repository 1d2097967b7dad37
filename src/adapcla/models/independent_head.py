"""The independent head, z = W·H + b with one Bernoulli for each code, and how independent codes are drawn.

A choice group is one category. Of a visit that must hold or lack codes, the hazards of those codes come with the draw.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from adapcla.errors import AdapclaError, UsageError
from adapcla.models.base import FREE, Bias, Drawn, DrawRule, Passage, Rows, Visit, Visits
from adapcla.models.choice_groups import Groups, group_noise
from adapcla.models.draws import FIRST_CHANNEL, Noise, bernoulli_codes
from adapcla.models.layers import CodeTable
from adapcla.models.losses import TILE_ELEMENTS, sparse_bce, sparse_targets


@torch.no_grad()
def sparse_nll(
    states: Tensor,
    weight: Tensor,
    bias: Tensor,
    visit_rows: Tensor,
    visit_of_entry: Tensor,
    codes: Tensor,
    groups: Groups | None = None,
) -> Tensor:
    """The negative log-likelihood of each visit (visits,), in nats; `codes` and `visit_of_entry` list its entries."""
    used, row_of_visit = torch.unique(visit_rows, return_inverse=True)
    asked, tall = states[used], max(1, TILE_ELEMENTS // max(len(weight), 1))
    base = torch.empty(len(used), dtype=torch.float64)
    for low in range(0, len(used), tall):
        logits = torch.addmm(bias, asked[low : low + tall], weight.t())
        sums = F.softplus(logits) if groups is None else groups.normalisers(logits)
        base[low : low + tall] = sums.sum(1).double()
    out = base[row_of_visit]
    entry_logits = (states[visit_rows[visit_of_entry]] * weight[codes]).sum(1) + bias[codes]
    return out.index_add_(0, visit_of_entry, -entry_logits.double())


class IndependentHead(nn.Module):
    """The paper's: one Bernoulli per code, all at once; one category per choice group."""

    def __init__(self, table: CodeTable, initial_logits: Tensor, groups: Groups | None = None) -> None:
        super().__init__()
        self.table, self.groups = table, groups
        self.bias = nn.Parameter(initial_logits.clone())

    def _bias(self, extra: Tensor | None) -> Tensor:
        return self.bias if extra is None else self.bias + extra

    def logits(self, states: Tensor, bias: Tensor | None = None) -> Tensor:
        """Logits (rows, codes)."""
        return torch.addmm(self._bias(bias), states, self.table().t())

    def loss(self, states: Tensor, visits: Visits, bias: Bias, positive_weight: float = 1) -> Tensor:
        """The summed loss of all visits, with gradients."""
        targets = sparse_targets(
            visits.row_before[visits.visit_of_entry], visits.codes, visits.row_before, states.shape[0], self.groups
        )
        return sparse_bce(states, self.table(), self._bias(bias), targets, positive_weight)

    @torch.no_grad()
    def nll(self, states: Tensor, visits: Visits, bias: Bias = None) -> Tensor:
        """The negative log-likelihood of each visit (visits,)."""
        entries = (visits.row_before, visits.visit_of_entry, visits.codes)
        return sparse_nll(states, self.table(), self._bias(bias), *entries, self.groups)

    @torch.no_grad()
    def draw(self, states: Tensor, row_of_patient: Rows, rule: DrawRule, noise: Noise) -> Visit:
        """One visit of each patient."""
        return independent_codes(rule.apply(self.logits(states)), row_of_patient, rule, noise, self.groups)


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
