"""Small corrections after training that go into biases, so that sampling needs nothing from outside.

Record length: dropout is on in training and off when sampling, which shifts the probability that a record goes on; one
intercept, refitted with dropout off, puts the mean right.

Prevalence: patients are sampled, and the probabilities that their codes were drawn from are added up. Where a code
comes more often than in training, its output bias is lowered, and the other way round; so are the closings of visits,
and the numbers of the copy head by how often codes of earlier visits come again. Sums of probabilities say the same as
counts of drawn codes and have less noise, most of all for rare codes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from adapcla.console import meter
from adapcla.data import Cohort
from adapcla.disclosure import MIN_COUNT
from adapcla.generation.model import Model
from adapcla.generation.sampler import stream
from adapcla.models.gpt import GPT
from adapcla.models.visit_transformer import VisitNetwork
from adapcla.training.settings import calibration_size

#: Seeds of calibration samples begin here; fits of different seeds have different ones, so that they do not err alike.
_FIRST_SEED, _SEEDS_OF_FIT = 90_001, 1_000
#: The largest correction of a logit in a round, and how much further than the log ratio of shares it goes at most.
_MOST, _FARTHEST = 1.5, 3.0
#: Training patients that the intercept of record length is refitted on, at most.
_LENGTH_PATIENTS = 20_000


@torch.no_grad()
def calibrate_record_length(model: Model, train: Cohort) -> float:
    """Move the intercept of "the record goes on" so that its mean over training visits is right; the move.

    Networks without that intercept are left alone.
    """
    network = model.network
    if not isinstance(network, VisitNetwork):
        return 0.0
    network.eval()
    records = model.records(train)
    logits, happened = [], []
    for low in range(0, min(train.n_patients, _LENGTH_PATIENTS), 512):
        batch = records.batch(np.arange(low, min(low + 512, train.n_patients)))
        may_go_on = slice(None) if network.last_position is None else batch.lacks(network.last_position) > 0
        logits.append(network.going_on_logits(batch)[may_go_on].double())
        happened.append(batch.continues[may_go_on].double())
    every, mean = torch.cat(logits), float(torch.cat(happened).mean())
    low_end, high_end = -3.0, 3.0
    for _ in range(60):
        middle = (low_end + high_end) / 2
        too_long = float(torch.sigmoid(every + middle).mean()) > mean
        low_end, high_end = (low_end, middle) if too_long else (middle, high_end)
    network.going_on.bias.add_(middle)
    return middle


@torch.no_grad()
def calibrate_prevalence(model: Model, train: Cohort, valid: Cohort, rounds: int) -> None:
    """Match how often codes come, come again and visits close to training; facts go to the model card."""
    network = model.network
    assert isinstance(network, GPT)
    network.eval()
    n_codes, n_tokens = network.n_codes, len(network.bias)
    wanted = network.observed_shares(model.records(train))  # (codes + closings + repeats,) a visit
    # Repeats that few training visits show are left as they were learned.
    enough = (wanted > 0) & (torch.arange(len(wanted)) < n_tokens) | (wanted * train.n_visits >= MIN_COUNT)
    n, first_seed = calibration_size(train.n_patients), _FIRST_SEED + _SEEDS_OF_FIT * model.settings.seed
    history: list[dict[str, Any]] = []
    with meter("calibrate", rounds) as bar:
        for number in range(rounds):
            network.probability_sum = torch.zeros(3, len(wanted) + 1, dtype=torch.float64)
            try:
                n_visits = sum(len(part.visit_sizes) for part in stream(model, n, first_seed + number))
                # A visit closes once, so that the closings add up to the number of visits.
                got, growth, possible = network.probability_sum / network.probability_sum[0, -1].clamp(min=1)
            finally:
                network.probability_sum = None
            # What is all but certain after some histories and all but impossible after others follows its logit less
            # than what always has its mean probability, and therefore moves further.
            mean = got / possible.clamp(min=1e-12)
            further = (got * (1 - mean) / growth.clamp(min=1e-12)).clamp(1.0, _FARTHEST)
            longer = (got[-1] / growth[-1].clamp(min=1e-12)).clamp(max=_FARTHEST)
            got = got[:-1].clamp(min=1e-12)
            # Codes move by their share of all codes, closings by their share of all closings and by how many codes a
            # visit holds, and repeats by their share of the codes of their band.
            more_codes = torch.log(wanted[:n_codes].sum() / got[:n_codes].sum())
            move = torch.log(wanted.clamp(min=1e-12) / got)
            move[:n_codes] -= more_codes
            if network.copy_head is not None:
                of_band = [
                    torch.bincount(network.band, each[:n_codes], minlength=network.copy_head.shape[1])
                    for each in (wanted, got)
                ]
                move[n_tokens:] -= torch.log(of_band[0] / of_band[1]).nan_to_num(0.0).repeat(2)
            move *= further[:-1]
            move[n_codes:n_tokens] -= longer * more_codes
            # After three whole steps rounds move less, so that what chance gave to one sample is averaged.
            move = torch.where(enough, move.clamp(-_MOST, _MOST) / max(number - 1, 1), 0.0).float()
            network.bias.add_(move[:n_tokens])
            if network.copy_head is not None:
                network.copy_head.add_(move[n_tokens:].view_as(network.copy_head))
            got, goal = got[:n_tokens], wanted[:n_tokens]
            difference = float((got - goal).abs().sum() / goal.sum())
            history.append({"round": number, "visits": n_visits, "mean difference": round(difference, 4)})
            bar.advance(1, f"prevalences differ by {difference:.1%}")
    before = model.facts["validation loss per visit"]
    after = -float(model.log_likelihood(valid).sum()) / valid.n_visits
    model.facts["calibration"] = history
    # What samples is the calibrated model, and its loss is the one that counts.
    model.facts |= {"validation loss before calibration": before, "validation loss per visit": after}
