"""Whether a model may be asked for patients of a condition: what training never showed, or showed of too few people.

A saved model knows how many training visits hold each code (a shareable one not below the smallest count that may be
told), how many patients have each combination of attributes, and how long the longest record is. It does not know how
many patients fulfil a condition of several parts. Where the training cohort is given, that is counted; elsewhere a
shareable model refuses what it expects of fewer patients than may be told, among as many as it was trained on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.data.criteria import Criteria, nearest_codes
from adapcla.disclosure import MIN_COUNT
from adapcla.errors import UsageError
from adapcla.generation.model import Model
from adapcla.scaffold import Steering


@dataclass(frozen=True, eq=False)
class Asked:
    """A condition that a model is asked for, and the training patients where they are at hand."""

    model: Model
    condition: Criteria
    steering: Steering | None = None
    train: Cohort | None = None

    @property
    def share_of_where(self) -> float:
        """Share of the training patients with the attributes that are asked for."""
        law = self.model.law
        return float(law.given(self.condition.where).counts.sum() / law.counts.sum()) if self.condition.where else 1.0

    def demand_possible(self) -> None:
        """Raise where nobody can fulfil the condition, nobody in training did, or too few for a shareable model."""
        model, condition = self.model, self.condition
        lacking = condition.lacking(model.vocabulary)
        self.model.law.given(condition.where)
        if condition.fewest_visits > model.longest:
            raise UsageError(
                f"{condition.fewest_visits} visits or more: the longest record of this model has {model.longest}"
            )
        for names, codes in zip(condition.having, condition.clauses(model.vocabulary), strict=True):
            name = " or ".join(names)
            left = np.setdiff1d(codes, lacking)
            if not len(left):
                raise UsageError(f"with and without {name} at once: nobody can fulfil that")
            if self.steering is not None and np.isneginf(self.steering.delta[left]).all():
                raise UsageError(f"{name}: the target prevalence says that it never comes; nobody can have it")
            self._demand_seen(name, left)
        if self.train is not None:
            self._demand_in(self.train)

    def _demand_seen(self, name: str, codes: NDArray[np.int64]) -> None:
        """Raise where training visits hold none of these codes, or too few for a model that may be shared."""
        model = self.model
        if model.settings.privacy is not None:
            return  # nothing exact is known of its training patients, and ε bounds what can be learned of them
        share = model.prevalence.share[codes]
        if (share == 0).all():
            seen = model.vocabulary.subset(np.nan_to_num(model.prevalence.share, nan=1.0) > 0)
            raise UsageError(
                f"{name}: no training visit holds it, so that the model has nothing to say about it\n"
                f"nearest that it has seen: {nearest_codes(name.replace('*', ''), seen) or 'nothing like it'}"
            )
        visits = np.nansum(share) * (model.prevalence.n_visits or 0)
        if model.shareable and visits < MIN_COUNT - 0.5:
            raise UsageError(self._too_few(name))

    def _demand_in(self, train: Cohort) -> None:
        """Raise where the condition is met by no training patient, or by too few for a shareable model."""
        n = int(self.condition.fulfilled(train, known=False).sum())
        if n == 0:
            raise UsageError(
                f"no training patient is {self.condition.text}\nnearest: {self._parts_in(train) or 'no part of it'}"
            )
        if self.model.shareable and n < MIN_COUNT:
            raise UsageError(self._too_few(self.condition.text))

    def _parts_in(self, train: Cohort) -> str:
        """How many training patients fulfil each part of the condition alone."""
        whole = self.condition
        alone = [Criteria(having=(clause,), at=whole.at, within=whole.within) for clause in whole.having]
        alone += [Criteria(where=(part,)) for part in whole.where]
        if whole.fewest_visits > 1 or whole.most_visits is not None:
            alone.append(replace(Criteria(), fewest_visits=whole.fewest_visits, most_visits=whole.most_visits))
        counts = [(part.text, int(part.fulfilled(train, known=False).sum())) for part in alone]
        return "; ".join(
            f"{text}: {n:,} patients" if n >= MIN_COUNT else f"{text}: fewer than {MIN_COUNT}" for text, n in counts
        )

    def demand_company(self, probability: float) -> None:
        """Raise where a shareable model expects too few patients of the condition among as many as it learned from."""
        n_train = int(self.model.facts.get("patients", 0))
        if self.model.shareable and self.train is None and probability * n_train < MIN_COUNT:
            raise UsageError(self._too_few(self.condition.text))

    @staticmethod
    def _too_few(what: str) -> str:
        return (
            f"{what}: fewer than {MIN_COUNT} training patients, and this model is made to be shared\n"
            "to do: ask for a family of codes or for fewer parts at once"
        )
