"""HALO's head against a dense restatement of the reference, in one run: `python benchmarks/halo_speed.py`.

The restatement computes what the reference computes: 48 rows per patient whether they exist or not, multi-hot visits,
the mask multiplied into the weights at every call, and when sampling one call of the whole head for each distinct
code that the batch draws. Both get the same patients; the figures are patients per second and their ratios. The
restatement's sampling is timed over a few calls and scaled by the number of calls it would need, which favours it: the
trunk, which it computes anew for every visit, is left out on both sides.
"""

from __future__ import annotations

import argparse
import json
import time
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F

from adapcla.models.base import DrawRule
from adapcla.models.draws import Noise
from adapcla.models.halo import HaloHead

ROWS_A_PATIENT = 48
VISITS_A_PATIENT = 2.6


def zipf_visits(n_visits: int, n_codes: int, mean: float = 11.0) -> tuple[torch.Tensor, torch.Tensor]:
    """(visit, code) entries of visits with a long-tailed vocabulary."""
    share = 1 / np.arange(1, n_codes + 1)
    chance = np.minimum(share / share.sum() * mean, 0.5)
    present = np.random.default_rng(1).random((n_visits, n_codes)) < chance
    present[:, 0] |= ~present.any(axis=1)
    rows, codes = np.nonzero(present)
    return torch.from_numpy(rows), torch.from_numpy(codes)


class DenseHead(torch.nn.Module):
    """Two masked square layers over [history, visit]."""

    def __init__(self, n_codes: int, width: int) -> None:
        super().__init__()
        size = width + n_codes
        self.width = width
        self.first, self.second = torch.nn.Linear(size, size), torch.nn.Linear(size, size)
        self.mask: torch.Tensor
        self.register_buffer("mask", torch.tril(torch.ones(size, size)))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Logits of rows [history, visit]."""
        hidden = torch.relu(F.linear(rows, self.mask * self.first.weight, self.first.bias))
        return F.linear(hidden, self.mask * self.second.weight, self.second.bias)[:, self.width - 1 : -1]


def dense_training(n_codes: int, width: int, patients: int) -> float:
    """Patients per second of the restatement's training step."""
    head = DenseHead(n_codes, width)
    optimiser = torch.optim.Adam(head.parameters(), lr=1e-4)
    n_rows = patients * ROWS_A_PATIENT
    real = round(patients * VISITS_A_PATIENT)
    visit, code = zipf_visits(real, n_codes)
    multihot = torch.zeros(n_rows, n_codes)
    multihot[visit, code] = 1.0
    rows = torch.cat([torch.randn(n_rows, width), multihot], dim=1)
    began = time.perf_counter()
    chance = torch.sigmoid(head(rows))
    F.binary_cross_entropy(chance[:real], multihot[:real], reduction="sum").backward()
    optimiser.step()
    return patients / (time.perf_counter() - began)


def sparse_training(n_codes: int, width: int, patients: int, steps: int) -> float:
    """Patients per second of the sparse head's training step."""
    head = HaloHead(n_codes, width, torch.full((n_codes,), -6.0))
    optimiser = torch.optim.AdamW(head.parameters(), lr=1e-4, fused=True)
    n_visits = round(patients * VISITS_A_PATIENT)
    visit, code = zipf_visits(n_visits, n_codes)
    visits = SimpleNamespace(row_before=torch.arange(n_visits), visit_of_entry=visit, codes=code)
    states = torch.randn(n_visits, width)
    took = []
    for _ in range(steps):
        began = time.perf_counter()
        optimiser.zero_grad(set_to_none=True)
        head.loss(states, visits, None).backward()
        optimiser.step()
        took.append(time.perf_counter() - began)
    return patients / float(np.median(took[1:]))


def sparse_sampling(n_codes: int, width: int, patients: int) -> tuple[float, int]:
    """Visits per second of the sweep, and the number of distinct codes that came out."""
    share = 1 / np.arange(1, n_codes + 1)
    chance = np.minimum(share / share.sum() * 11.0, 0.5)
    head = HaloHead(n_codes, width, torch.from_numpy(np.log(chance / (1 - chance))).float())
    states = torch.randn(patients, width)
    took, distinct = [], 0
    for place in range(3):
        began = time.perf_counter()
        _, codes = head.draw(states, None, DrawRule(), Noise(1, np.arange(patients), place)).drawn
        took.append(time.perf_counter() - began)
        distinct = len(np.unique(codes))
    return patients / float(np.median(took)), distinct


@torch.no_grad()
def dense_sampling(n_codes: int, width: int, patients: int, distinct: int) -> float:
    """Visits per second of the restatement: one call of the head for each distinct code, and one to end."""
    head = DenseHead(n_codes, width)
    rows = torch.cat([torch.randn(patients, width), torch.zeros(patients, n_codes)], dim=1)
    took = []
    for _ in range(2):
        began = time.perf_counter()
        head(rows)
        took.append(time.perf_counter() - began)
    return patients / (min(took) * (distinct + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codes", type=int, default=6869)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--dense-patients", type=int, default=48)
    parser.add_argument("--patients", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    fast = sparse_training(options.codes, options.width, options.patients, steps=4)
    slow = dense_training(options.codes, options.width, options.dense_patients)
    sparse_rate, distinct = sparse_sampling(options.codes, options.width, options.patients)
    dense_rate = dense_sampling(options.codes, options.width, options.patients, distinct)
    print(
        json.dumps(
            {
                "codes": options.codes,
                "width": options.width,
                "threads": options.threads,
                "training patients/s": {"sparse": round(fast, 2), "dense": round(slow, 3)},
                "training ratio": round(fast / slow, 1),
                "visits/s sampled": {"sparse": round(sparse_rate, 2), "dense": round(dense_rate, 4)},
                "distinct codes per batch": distinct,
                "sampling ratio": round(sparse_rate / dense_rate, 1),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
