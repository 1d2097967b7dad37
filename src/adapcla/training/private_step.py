"""The private step: a random share of the patients, each one's gradient cut to a bound, and noise on their sum.

This is DP-SGD (Abadi et al., 2016) with the patient as the unit, as a strategy of the one loop. Who is drawn and the
noise are keyed by a secret and the step: a resumed run does the same, and nobody who has the weights and the settings
can draw the noise again.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adapcla.errors import ExistsError
from adapcla.files import read_json, write_json
from adapcla.models.base import Moment, Objective
from adapcla.models.batch import Records
from adapcla.seeds import random_stream, stream_key
from adapcla.training.budget import Privacy
from adapcla.training.checkpoint import Checkpoints
from adapcla.training.ghost_clipping import clipped_by_norms

#: The file of a run that holds its secret; it goes when the run is complete, and is never part of a model.
SECRET = ".private.json"
_SECRET_BITS = 256


class PrivateStep:
    """How the gradient of a step is made when patients are protected."""

    def __init__(self, secret: int, noise: float, clip: float, rate: float, batch_size: int) -> None:
        self.secret, self.noise, self.clip, self.rate, self.batch_size = secret, noise, clip, rate, batch_size

    def drawn(self, step: int, n_patients: int) -> NDArray[np.int64]:
        """The patients of a step: each with the same chance, whatever the others do (Poisson sampling).

        >>> step = PrivateStep(secret=1, noise=1.0, clip=1.0, rate=0.5, batch_size=4)
        >>> all(0 <= i < 8 for i in step.drawn(0, 8))
        True
        """
        chance = random_stream(self.secret, "private draw", step).random(n_patients)
        return np.flatnonzero(chance < self.rate)

    def accumulate(
        self,
        objective: Objective,
        records: Records,
        patients: NDArray[np.int64],
        moment: Moment,
        parameters: Sequence[nn.Parameter],
    ) -> float:
        """Leave the sum of the patients' cut gradients in the parameters; their summed loss."""
        total = clipped_by_norms(objective, records, patients, moment, parameters, self.clip)
        if total is None:
            total = clipped_one_by_one(objective, records, patients, moment, parameters, self.clip)
        return total / self.batch_size

    def add_noise(self, parameters: Sequence[nn.Parameter], step: int) -> float:
        """Turn sums into a noisy mean over the expected number of patients; its norm."""
        stream = random_stream(self.secret, "private noise", step)
        sums = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        for parameter, value in zip(parameters, sums, strict=True):
            drawn = torch.from_numpy(stream.standard_normal(tuple(parameter.shape))).to(parameter.dtype)
            parameter.grad = value.add_(drawn, alpha=self.noise * self.clip).div_(self.batch_size)
        return float(torch.stack(torch._foreach_norm(sums)).norm())


def clipped_one_by_one(
    objective: Objective,
    records: Records,
    patients: NDArray[np.int64],
    moment: Moment,
    parameters: Sequence[nn.Parameter],
    clip: float,
) -> float:
    """Leave the sum of cut gradients in the parameters, patient by patient: exact for any network; the summed loss."""
    sums = [torch.zeros_like(p) for p in parameters]
    total = 0.0
    for patient in patients:
        loss, gradient = one_gradient(objective, records, int(patient), moment, parameters)
        norm = float(torch.stack(torch._foreach_norm(gradient)).norm())
        torch._foreach_add_(sums, gradient, alpha=clip_factor(norm, clip))
        total += loss
    for parameter, value in zip(parameters, sums, strict=True):
        parameter.grad = value
    return total


def one_gradient(
    objective: Objective, records: Records, patient: int, moment: Moment, parameters: Sequence[nn.Parameter]
) -> tuple[float, list[Tensor]]:
    """The loss of one patient and its gradient, one tensor per parameter."""
    loss = objective.loss(records.batch(np.array([patient])), moment)
    parts = torch.autograd.grad(loss, list(parameters), allow_unused=True)
    gradient = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, parts, strict=True)]
    return float(loss.detach()), gradient


def clip_factor(norm: float, clip: float) -> float:
    """What a gradient of this norm is multiplied by; a gradient that is no number stays none, and stops the run.

    >>> clip_factor(4.0, 1.0), clip_factor(0.5, 1.0)
    (0.25, 1.0)
    """
    return 1.0 if norm <= clip else clip / norm


def secret_of(privacy: Privacy, seed: int, folder: Path | None, resume: bool) -> int:
    """The secret of a run: drawn once, kept in the run's folder until it is complete.

    A fixed `noise_seed` makes it known, for tests and audits.
    """
    if privacy.noise_seed is not None:
        return stream_key(privacy.noise_seed, "secret", seed)
    if folder is None:
        return secrets.randbits(_SECRET_BITS)
    path = folder / SECRET
    if resume and path.exists():
        return int(read_json(path)["secret"], 16)
    if resume and Checkpoints(folder).latest() is not None:
        raise ExistsError(
            f"{folder}: the secret of this private run is gone, so that its noise cannot be drawn again\n"
            "to do: begin anew with --overwrite; what was published of this run before still counts"
        )
    folder.mkdir(parents=True, exist_ok=True)
    secret = secrets.randbits(_SECRET_BITS)
    write_json(path, {"secret": hex(secret)})
    path.chmod(0o600)
    return secret
