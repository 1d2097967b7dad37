"""The method of the AdaPCLA paper in one file of plain PyTorch: scaffold, annealing, bias-free sampling, steering.

    python examples/minimal_adapcla.py

A patient is a list of visits, a visit a list of code numbers. For reading: everything is padded and dense here.
The package computes the same numbers without padding, and a test holds both to the same logits and the same loss.
"""

from __future__ import annotations

import math
import random

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Patient = list[list[int]]
EPSILON = 1e-6


# ---- the scaffold -------------------------------------------------------------------------------------------
def prevalence(patients: list[Patient], n_codes: int) -> Tensor:
    """(V,) the share of visits that hold each code: π̂."""
    visits = [visit for patient in patients for visit in patient]
    counts = torch.bincount(torch.tensor([code for visit in visits for code in visit]), minlength=n_codes)
    return counts.double() / len(visits)


def logit(share: Tensor) -> Tensor:
    """Log-odds, finite for shares of 0 and 1."""
    return torch.log((share + EPSILON) / (1 - share + EPSILON))


def scaffold(share: Tensor) -> Tensor:
    """(V,) the rarity bias b_stat = log((1 − π̂)/π̂), large where a code is rare; 0 for codes never seen."""
    return torch.where(share > 0, -logit(share), 0.0).float()


def alpha(progress: float, hold: float = 0.3, release: float = 0.7) -> float:
    """The weight of the scaffold at a fraction of training: 1 until `hold`, then linear to 0 at `release`."""
    return min(1.0, max(0.0, (release - progress) / (release - hold)))


# ---- the network --------------------------------------------------------------------------------------------
class Layer(nn.Module):
    """A pre-norm Transformer layer over the rows of one patient."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, rows: Tensor) -> Tensor:  # (B, T, d)
        """New rows, each of which has seen the rows up to its own."""
        batch, length, width = rows.shape
        projected = self.query_key_value(self.attention_norm(rows)).view(batch, length, 3, self.heads, -1)
        query, key, value = projected.permute(2, 0, 3, 1, 4)  # (B, h, T, d/h) each
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        rows = rows + self.dropout(self.mix(seen.transpose(1, 2).reshape(batch, length, width)))
        return rows + self.dropout(self.narrow(F.gelu(self.widen(self.forward_norm(rows)))))


class Network(nn.Module):
    """A causal Transformer over visits with one Bernoulli per code of the next visit."""

    def __init__(
        self, share: Tensor, width: int = 32, layers: int = 2, heads: int = 2, context: int = 48, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.n_codes, self.context = len(share), context
        self.codes = nn.Parameter(torch.randn(self.n_codes, width) * 0.02)
        self.start, self.place = (
            nn.Parameter(torch.randn(width) * 0.02),
            nn.Parameter(torch.randn(context, width) * 0.02),
        )
        self.embedding_norm, self.last_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(Layer(width, heads, dropout) for _ in range(layers))
        self.output = nn.Parameter(torch.randn(self.n_codes, width) * 0.02)
        # An untrained network has the right prevalences: z starts at logit π̂.
        self.bias = nn.Parameter(logit(share).float())
        self.going_on = nn.Linear(width, 1)

    def forward(self, visits: Tensor) -> tuple[Tensor, Tensor]:  # visits (B, T, V) of zeros and ones
        """Logits (B, T + 1, V) of the visit after each row, and (B, T + 1) of whether there is one."""
        start = self.start.expand(len(visits), 1, -1)
        rows = torch.cat([start, visits @ self.codes + self.place[: visits.shape[1]]], dim=1)  # (B, T + 1, d)
        rows = self.embedding_norm(rows)
        for layer in self.layers:
            rows = layer(rows)
        states = self.last_norm(rows)
        return states @ self.output.T + self.bias, self.going_on(states)[..., 0]

    def loss(self, patients: list[Patient], bias: Tensor | float = 0.0) -> Tensor:
        """The summed loss of some patients under the logits z + bias; without a bias their negative log-likelihood."""
        visits, real = multi_hot(patients, self.n_codes)
        logits, further = self(visits)
        of_codes = F.binary_cross_entropy_with_logits(logits[:, :-1] + bias, visits, reduction="none").sum(-1)
        follows = F.pad(real[:, 1:], (0, 1))  # 1 where another visit follows
        of_going_on = F.binary_cross_entropy_with_logits(further[:, 1:], follows, reduction="none")
        return ((of_codes + of_going_on) * real).sum()


def multi_hot(patients: list[Patient], n_codes: int) -> tuple[Tensor, Tensor]:
    """Visits (B, T, V), and (B, T) which of them are real and no padding."""
    longest = max((len(patient) for patient in patients), default=0)
    visits, real = torch.zeros(len(patients), longest, n_codes), torch.zeros(len(patients), longest)
    for row, patient in enumerate(patients):
        real[row, : len(patient)] = 1.0
        for place, visit in enumerate(patient):
            visits[row, place, visit] = 1.0
    return visits, real


# ---- training -----------------------------------------------------------------------------------------------
def train(
    network: Network, patients: list[Patient], valid: list[Patient], bias: Tensor, steps: int, batch: int = 64
) -> float:
    """Fit with the scaffold added to the logits and annealed away; the best validation loss per visit."""
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3, betas=(0.9, 0.99), weight_decay=0.02)
    rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    best, weights, n_visits = math.inf, network.state_dict(), sum(map(len, valid))
    for step in range(steps):
        weight = alpha(step / max(1, steps - 1))
        network.train()
        some = random.sample(patients, min(batch, len(patients)))
        loss = network.loss(some, weight * bias) / sum(map(len, some))
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        rates.step()
        # Weights are candidates once the scaffold is gone, and judged without it.
        if weight == 0.0 and (step % 20 == 0 or step == steps - 1):
            network.eval()
            with torch.no_grad():
                found = float(network.loss(valid)) / n_visits
            if found < best:
                best, weights = found, {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(weights)
    network.eval()
    return best


# ---- sampling and steering ----------------------------------------------------------------------------------
def shift(source: Tensor, target: Tensor, strength: float = 1.0) -> Tensor:
    """(V,) what to add to the logits to move to another population: λ (logit π_target − logit π_source)."""
    return (strength * (logit(target) - logit(source))).float()


@torch.no_grad()
def sample(network: Network, n: int, steering: Tensor | float = 0.0, seed: int = 1) -> list[Patient]:
    """Patients drawn visit by visit from z alone, or from z + steering; an empty visit ends a record."""
    draws = torch.Generator().manual_seed(seed)
    patients: list[Patient] = [[] for _ in range(n)]
    open_ = list(range(n))  # patients whose record goes on
    for _ in range(network.context):
        logits, further = network(multi_hot([patients[i] for i in open_], network.n_codes)[0])
        if patients[open_[0]]:
            goes_on = torch.rand(len(open_), generator=draws) < torch.sigmoid(further[:, -1])
        else:
            goes_on = torch.ones(len(open_), dtype=torch.bool)
        chance = torch.sigmoid(logits[:, -1] + steering)
        drawn = torch.rand(chance.shape, generator=draws) < chance
        while not patients[open_[0]] and not drawn.any(-1).all():  # a first visit is drawn until it holds a code
            drawn = torch.where(drawn.any(-1, keepdim=True), drawn, torch.rand(chance.shape, generator=draws) < chance)
        going = (goes_on & drawn.any(-1)).tolist()
        for i, goes, codes in zip(open_, going, drawn, strict=True):
            if goes:
                patients[i].append(codes.nonzero()[:, 0].tolist())
        open_ = [i for i, goes in zip(open_, going, strict=True) if goes]
        if not open_:
            break
    return patients


# ---- a demonstration ----------------------------------------------------------------------------------------
def toy_patients(n: int, n_codes: int, seed: int, factor: float = 1.0) -> list[Patient]:
    """Made-up patients with a long tail: code c comes by itself with chance 0.5/(c + 1), and comes back more often."""
    draws = random.Random(seed)
    patients = []
    for _ in range(n):
        had: set[int] = set()
        patient: Patient = []
        while not patient or (draws.random() < 0.5 and len(patient) < 10):
            chance = [min(0.9, 0.5 / (c + 1) * (factor if c % 2 else 1.0) + 0.4 * (c in had)) for c in range(n_codes)]
            visit = [c for c in range(n_codes) if draws.random() < chance[c]] or [0]
            had.update(visit)
            patient.append(visit)
        patients.append(patient)
    return patients


def main(n_patients: int = 1500, steps: int = 400, n_codes: int = 60) -> dict[str, float]:
    """Train on one population, sample, steer to another that was never trained on; what came of it."""
    torch.manual_seed(1)
    random.seed(1)
    everybody = toy_patients(n_patients, n_codes, seed=1)
    patients, valid = everybody[: n_patients * 4 // 5], everybody[n_patients * 4 // 5 :]
    share, target = prevalence(patients, n_codes), prevalence(toy_patients(n_patients, n_codes, 2, 2.0), n_codes)
    network = Network(share)
    loss = train(network, patients, valid, scaffold(share), steps)
    plain = prevalence(sample(network, n_patients), n_codes)
    steered = prevalence(sample(network, n_patients, shift(share, target)), n_codes)
    return {
        "validation loss per visit": loss,
        "gap to training prevalence": float((plain - share).abs().mean()),
        "gap to target, unsteered": float((plain - target).abs().mean()),
        "gap to target, steered": float((steered - target).abs().mean()),
    }


if __name__ == "__main__":
    for name, value in main().items():
        print(f"{name:28s} {value:.4f}")
