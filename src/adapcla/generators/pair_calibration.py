"""How far pairs of codes are believed, settled after training: pairs of several patients come out as they should.

While training, a pair is believed as far as the counts of *other* patients carry; what is drawn knows pairs of at least
k patients, and treats all others as pairs that never met. The tables of belief are few numbers that all pairs share, so
that they can be fitted to the end with everything else held still: to the training visits, by the counts that sampling
will use. A few pilots then measure how often the kept pairs of each kind (a band of counts, a band of the rarer code)
are drawn beside how often validation patients hold them; the correction goes into the table of rarity. No pair has a
number of its own, and one of fewer than k patients takes no part.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from adapcla.generators.model import Model
from adapcla.metrics.pairs import cooccurrence
from adapcla.networks.company import Company
from adapcla.networks.heads import BlockwiseHead
from adapcla.networks.visits import VisitNetwork
from adapcla.records import Cohort
from adapcla.seeds import random_stream

#: Steps by which the tables of belief are fitted, training patients of a step, and the size of the first step.
_STEPS, _PATIENTS, _RATE = 120, 1024, 0.05
#: Training patients for each step: a small cohort has little to say.
_PATIENTS_A_STEP = 8
#: Times that pairs of a kind must be expected in a pilot before the kind is corrected.
_ENOUGH = 10
#: A kind is corrected by this factor at most in one round.
_MOST = 3.0


def company_of(model: Model) -> Company | None:
    """The prior over pairs of a model that has one and keeps a pair."""
    head = model.network.head if isinstance(model.network, VisitNetwork) else None
    company = head.company if isinstance(head, BlockwiseHead) else None
    return company if company is not None and company.n_pairs else None


def settle_company(model: Model, train: Cohort, valid: Cohort) -> dict[str, float]:
    """Fit the tables of belief to the training visits, if validation patients gain; the losses a visit, for the card.

    Where they do not gain, the tables stay as training left them.
    """
    company, network = company_of(model), model.network
    if company is None:
        return {}
    before = {name: value.clone() for name, value in company.state_dict().items()}
    losses = {"before": _loss(model, valid)}
    network.eval()
    needed = [parameter for parameter in network.parameters() if parameter.requires_grad]
    for parameter in needed:
        parameter.requires_grad_(False)
    try:
        _fit(model, company, train)
    finally:
        for parameter in needed:
            parameter.requires_grad_(True)
    losses["after"] = _loss(model, valid)
    if not losses["after"] <= losses["before"]:
        company.load_state_dict(before)
    return losses


def _fit(model: Model, company: Company, train: Cohort) -> None:
    records, tables = model.records(train), company.beliefs
    for table in tables:
        table.requires_grad_(True)
    optimiser = torch.optim.Adam(tables, betas=(0.9, 0.99))
    random = random_stream(model.settings.seed, "settle company")
    steps = min(_STEPS, train.n_patients // _PATIENTS_A_STEP)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = _RATE * (1 + np.cos(np.pi * step / steps)) / 2
        some = random.choice(train.n_patients, min(_PATIENTS, train.n_patients), replace=False)
        batch = records.batch(np.sort(some))
        optimiser.zero_grad()
        (model.network.loss(batch, None, 1.0) / batch.n_visits).backward()
        optimiser.step()


def _loss(model: Model, cohort: Cohort) -> float:
    """The loss a visit."""
    return -float(model.log_likelihood(cohort).sum()) / cohort.n_visits


class PairShares(NamedTuple):
    """The share of visits that should hold each kept pair."""

    company: Company
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    kind: NDArray[np.int64]
    share: NDArray[np.float64]

    @classmethod
    def of(cls, company: Company, code_of_rank: NDArray[np.int64], train: Cohort, others: Cohort) -> PairShares:
        """The kept pairs as often as training visits hold them, or as others do where those hold a kind less often.

        A pair is kept because training visits hold it, so that they hold it more often than other patients do; to write
        it as often as they do would be to repeat them.
        """
        first, second = (code_of_rank[side.long().numpy()] for side in (company.first, company.second))
        visits = np.asarray(cooccurrence(train)[first, second], dtype=np.float64).ravel()
        counted = cls(company, first, second, company.kind_of_kept().numpy(), visits / train.n_visits)
        expected, found = counted._by_kind(others)
        repeated = np.minimum((found + _ENOUGH) / (expected + _ENOUGH), 1.0)
        return counted._replace(share=counted.share * repeated[counted.kind])

    def _by_kind(self, cohort: Cohort) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How many pairs of each kind the visits of a cohort should hold, and how many they do."""
        n = self.company.rarity.numel()
        held = np.asarray(cooccurrence(cohort)[self.first, self.second], dtype=np.float64).ravel()
        expected = np.bincount(self.kind, self.share, minlength=n) * cohort.n_visits
        return expected, np.bincount(self.kind, held, minlength=n)

    def correct(self, drawn: Cohort) -> None:
        """Believe pairs of each kind more or less, by how often a pilot holds them."""
        expected, found = self._by_kind(drawn)
        # A kind that the pilot holds rarely is believed to be as it should.
        ratio = np.clip((expected + _ENOUGH) / (found + _ENOUGH), 1 / _MOST, _MOST)
        more = np.where(expected >= _ENOUGH, np.log(ratio), 0.0)
        self.company.believe(torch.from_numpy(more).float())
