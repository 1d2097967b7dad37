"""Independent codes, drawn as they come or given how many a visit must hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adapcla.errors import AdapclaError, UsageError
from adapcla.models.contract import Drawn, DrawRule
from adapcla.models.draws import FIRST_CHANNEL, Noise, bernoulli_codes
from adapcla.models.groups import Groups, group_noise

#: Draws of a visit before its number of codes is given up; one in 2.5 standard deviations has the number.
_ATTEMPTS = 2000


def independent_codes(
    logits: Tensor, row_of_patient: Tensor | None, rule: DrawRule, noise: Noise, groups: Groups | None = None
) -> Drawn:
    """(patient, code) pairs of independent draws; with counts in the rule, each visit holds exactly one of them."""
    if groups is not None:
        return _codes_and_choices(logits, row_of_patient, rule, noise, groups)
    if rule.counts is None:
        return bernoulli_codes(logits, row_of_patient, noise, channel=FIRST_CHANNEL)
    number = rule.counts[(noise.uniform(1, channel=2)[:, 0] * len(rule.counts)).astype(np.int64)]
    return codes_given_number(logits if row_of_patient is None else logits[row_of_patient], number, noise)


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
