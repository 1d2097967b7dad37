"""Small corrections after training that go into biases, so that sampling needs nothing from outside.

Record length: dropout is on in training and off when sampling, which shifts the probability that a record goes on; one
intercept, refitted with dropout off, puts the mean right.

Prevalence: patients are sampled, and the probabilities that their codes were drawn from are added up. Where a code
comes more often than in training, its output bias is lowered, and the other way round; so are the closings of visits.
Sums of probabilities say the same as counts of drawn codes and have less noise, most of all for rare codes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from adapcla.console import meter
from adapcla.data import Cohort
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
    """Match the prevalence of every code, and of every closing of a visit, to training; facts go to the model card."""
    network = model.network
    assert isinstance(network, GPT)
    network.eval()
    n_codes = network.n_codes
    wanted = network.observed_shares(model.records(train))  # (codes + closings,) a visit
    n, first_seed = calibration_size(train.n_patients), _FIRST_SEED + _SEEDS_OF_FIT * model.settings.seed
    history: list[dict[str, Any]] = []
    with meter("calibrate", rounds) as bar:
        for number in range(rounds):
            network.probability_sum = torch.zeros(2, len(wanted) + 1, dtype=torch.float64)
            try:
                n_visits = sum(len(part.visit_sizes) for part in stream(model, n, first_seed + number))
                # A visit closes once, so that the closings add up to the number of visits.
                got, growth = (network.probability_sum / network.probability_sum[0, -1].clamp(min=1)).clamp(min=1e-12)
            finally:
                network.probability_sum = None
            # What is all but certain after some histories and all but impossible after others hardly follows its bias,
            # which therefore moves further.
            further, got = (got / growth).clamp(max=_FARTHEST), got[:-1]
            # Codes move by their share of all codes, and closings by how many codes a visit holds.
            more_codes = torch.log(wanted[:n_codes].sum() / got[:n_codes].sum())
            move = torch.log(wanted.clamp(min=1e-12) / got)
            move[:n_codes] -= more_codes
            move *= further[:-1]
            move[n_codes:] -= further[-1] * more_codes
            # After three whole steps rounds move less, so that what chance gave to one sample is averaged.
            move = torch.where(wanted > 0, move.clamp(-_MOST, _MOST) / max(number - 1, 1), 0.0)
            network.bias.add_(move.float())
            difference = float((got - wanted).abs().sum() / wanted.sum())
            history.append({"round": number, "visits": n_visits, "mean difference": round(difference, 4)})
            bar.advance(1, f"prevalences differ by {difference:.1%}")
    before = model.facts["validation loss per visit"]
    after = -float(model.log_likelihood(valid).sum()) / valid.n_visits
    model.facts["calibration"] = history
    # What samples is the calibrated model, and its loss is the one to be told.
    model.facts |= {"validation loss before calibration": before, "validation loss per visit": after}
