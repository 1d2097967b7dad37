"""How far pairs of codes are believed, settled after training: pairs of several patients come out as they should.

While training, a pair is believed as far as the counts of *other* patients carry; what is drawn knows pairs of at least
k patients, and treats all others as pairs that never met. The tables of belief are few numbers that all pairs share, so
that they can be fitted to the end with everything else held still: to the training visits, by the counts that sampling
will use. No pair has a number of its own, and one of fewer than k patients takes no part.

Pilots that correct belief by how often pairs are drawn were tried and left out: together with the folding in of
prevalences they raise each other, and visits of a small planted world came out with twice their codes.
"""

from __future__ import annotations

import numpy as np
import torch

from adapcla.generators.model import Model
from adapcla.networks.company import Company
from adapcla.networks.heads import BlockwiseHead
from adapcla.networks.visits import VisitNetwork
from adapcla.records import Cohort
from adapcla.seeds import random_stream

#: Steps by which the tables of belief are fitted, training patients of a step, and the size of the first step.
_STEPS, _PATIENTS, _RATE = 120, 1024, 0.05
#: Training patients for each step: a small cohort has little to say.
_PATIENTS_A_STEP = 8


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
