"""The three references under the contract of generators: a floor, a photocopier, and real patients.

They are fitted by counting or by copying, so there is nothing to train, to stop early or to resume.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from adapcla.generators.neural import NeuralGenerator
from adapcla.generators.settings import settings_from
from adapcla.networks.batch import Records
from adapcla.networks.copies import CopyNetwork
from adapcla.networks.marginal import MarginalNetwork
from adapcla.records import Cohort
from adapcla.training.journal import Journal
from adapcla.training.loop import Observer, Outcome

#: The row whose patients are the second cohort that `fit` is given: held-out people instead of training ones.
REAL_TEST = "real-test"


class ReferenceGenerator(NeuralGenerator):
    """A generator that counts or copies."""

    def fit(
        self,
        train: Cohort,
        valid: Cohort,
        folder: str | Path | None = None,
        resume: bool = False,
        observers: Sequence[Observer] = (),
    ) -> ReferenceGenerator:
        """The generator, fitted in one look; `real-test` takes the patients of the second cohort."""
        began = time.monotonic()
        valid = valid.on(train.vocabulary)
        source = valid if self.method == REAL_TEST else train
        if self.settings.architecture.family == "copy":
            sizes = {"patients": source.n_patients, "visits": source.n_visits, "entries": source.n_entries}
            longest = max(2, int(source.visits_per_patient.max()))
            self.settings = settings_from(self.settings, {**sizes, "context": longest})
        self.fitted_ = self._untrained(source)
        records = Records(self._seen(source), self.settings.architecture.context)
        network = self.fitted_.network
        loss = None
        if isinstance(network, CopyNetwork):
            network.take(records)
        elif isinstance(network, MarginalNetwork):
            network.count(records.batch(np.arange(source.n_patients)))
            loss = -float(self.log_likelihood(valid).sum()) / valid.n_visits
        seconds = time.monotonic() - began
        self.outcome_ = Outcome(np.inf if loss is None else loss, 0, 0, 0, seconds, False, Journal())
        self.fitted_.facts |= self._facts(source, valid) | {"validation loss a visit": loss}
        return self
