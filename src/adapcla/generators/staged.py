"""A method that trains another one first and starts from its weights, and says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from adapcla.generators.fitted import Fitted
from adapcla.generators.neural import NeuralGenerator
from adapcla.generators.settings import Settings, settings_from
from adapcla.records import Cohort
from adapcla.training.loop import Observer

#: Where the first stage's checkpoints and journal live inside a run.
FIRST = "first-stage"
_COSTS = ("steps", "passes")


def first_stage(settings: Settings) -> Settings:
    """The settings of the run that comes first: the same network under a scaffold that stays.

    >>> first_stage(Settings(tempering=0.2, first_stage="static")).schedule
    'constant'
    """
    return settings_from(
        settings, {"method": "static-pcla", "schedule": "constant", "bias_at_inference": True, "first_stage": ""}
    )


class StagedGenerator(NeuralGenerator):
    """Two stages with the same budget each; the second begins with the weights of the first."""

    _start: dict[str, Tensor] | None = None

    def fit(
        self,
        train: Cohort,
        valid: Cohort,
        folder: str | Path | None = None,
        resume: bool = False,
        observers: Sequence[Observer] = (),
    ) -> StagedGenerator:
        """The generator, fitted; both stages can be resumed, and observers look at the second."""
        place = None if folder is None else Path(folder) / FIRST
        first = NeuralGenerator(first_stage(self.settings)).fit(train, valid, place, resume)
        self._start = first.fitted.modules.state_dict()
        super().fit(train, valid, folder, resume, observers)
        self._add(first)
        return self

    def _add(self, first: NeuralGenerator) -> None:
        """Count what the first stage cost as part of the whole."""
        assert self.outcome_ is not None and first.outcome_ is not None
        before, facts = first.fitted.facts, self.fitted.facts
        facts["first stage"] = {name: before[name] for name in _COSTS}
        for name in _COSTS:
            facts[name] = round(facts[name] + before[name], 2)
        self.outcome_.seconds += first.outcome_.seconds

    def _untrained(self, train: Cohort) -> Fitted:
        fitted = super()._untrained(train)
        if self._start is not None:
            fitted.modules.load_state_dict(self._start)
        return fitted
