"""The photocopier: real records, given out again under the contract of networks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adapcla.errors import AdapclaError, UsageError
from adapcla.networks.architecture import CopyArchitecture
from adapcla.networks.batch import Batch, Records
from adapcla.networks.contract import Drawn, DrawRule, Likelihood, Shape
from adapcla.networks.draws import Noise
from adapcla.records.runs import ranges


class Reading(NamedTuple):
    """Which record each patient is a copy of, and how many of its visits were given out."""

    records: NDArray[np.int64]
    n_seen: int


class CopyNetwork(nn.Module):
    """Records as buffers; a new patient is a random record with the attributes that were asked for.

    A saved model of this kind *is* the patients: `holds_patients` keeps it from being made shareable.
    """

    holds_patients = True
    #: A history cannot be given: a copy goes its own way.
    conditional = False

    def __init__(self, architecture: CopyArchitecture, shape: Shape) -> None:
        super().__init__()
        self.steerable = False
        self.codes: Tensor
        self.visit_starts: Tensor
        self.patient_starts: Tensor
        self.gap: Tensor
        self.attributes: Tensor
        self.register_buffer("codes", torch.zeros(architecture.entries, dtype=torch.int32))
        self.register_buffer("visit_starts", torch.zeros(architecture.visits + 1, dtype=torch.int64))
        self.register_buffer("patient_starts", torch.zeros(architecture.patients + 1, dtype=torch.int64))
        self.register_buffer("gap", torch.zeros(architecture.visits, dtype=torch.int64))
        self.register_buffer("attributes", torch.zeros(architecture.patients, len(shape.attributes), dtype=torch.int64))

    def take(self, records: Records) -> None:
        """Learn these patients by heart."""
        cohort = records.cohort
        everybody = np.arange(cohort.n_patients)
        self.codes.copy_(torch.from_numpy(np.array(cohort.codes)))
        self.visit_starts.copy_(torch.from_numpy(np.array(cohort.visit_starts)))
        self.patient_starts.copy_(torch.from_numpy(np.array(cohort.patient_starts)))
        self.gap.copy_(records.batch(everybody).gap)
        self.attributes.copy_(torch.from_numpy(records.attribute_rows(everybody)))

    def loss(self, batch: Batch, bias: Tensor | None, positive_weight: float = 1.0) -> Tensor:
        """Refused: there is nothing to train."""
        raise UsageError("copies are not trained")

    def likelihood(self, batch: Batch, bias: Tensor | None = None) -> Likelihood:
        """Refused: a copy gives no chance to anything that it did not see."""
        raise UsageError("copies have no likelihood: what they did not see has none")

    def begin(self, attributes: Tensor, noise: Noise) -> Reading:
        """A record for each patient, evenly among those with the same attributes."""
        wanted, group = np.unique(attributes.numpy(), axis=0, return_inverse=True)
        point = noise.uniform(1, channel=4)[:, 0]
        records = np.empty(len(point), dtype=np.int64)
        have = self.attributes.numpy()
        for number, row in enumerate(wanted):
            alike = np.flatnonzero((have == row).all(axis=1))
            if not len(alike):
                raise AdapclaError("no stored patient has the attributes that were asked for")
            mine = group.ravel() == number
            records[mine] = alike[(point[mine] * len(alike)).astype(np.int64)]
        return Reading(records, 0)

    def _visits(self, state: Reading) -> NDArray[np.int64]:
        return self.patient_starts.numpy()[state.records] + state.n_seen

    def goes_on(self, state: Reading, noise: Noise) -> NDArray[np.bool_]:
        """Whether the record that is copied has another visit."""
        more: NDArray[np.bool_] = self._visits(state) < self.patient_starts.numpy()[state.records + 1]
        return more

    def draw_gap(self, state: Reading, noise: Noise) -> NDArray[np.int64]:
        """The days that the record has."""
        return self.gap.numpy()[self._visits(state)]

    def draw_visit(self, state: Reading, rule: DrawRule, noise: Noise) -> Drawn:
        """The codes that the record has."""
        if rule.bias is not None or rule.counts is not None or rule.temperature != 1:
            raise UsageError("copies are given out as they are: no steering, temperature or matching")
        visits = self._visits(state)
        begins, ends = self.visit_starts.numpy()[visits], self.visit_starts.numpy()[visits + 1]
        who = np.repeat(np.arange(len(visits)), ends - begins)
        return who, self.codes.numpy()[ranges(begins, ends)].astype(np.int64)

    def absorb(self, state: Reading, drawn: Drawn, gap: NDArray[np.int64]) -> Reading:
        """The next page."""
        return Reading(state.records, state.n_seen + 1)

    def keep(self, state: Reading, rows: NDArray[np.int64]) -> Reading:
        """Some of the patients."""
        return Reading(state.records[rows], state.n_seen)
