"""Belief in pairs after training: kept pairs are expected as often as they come, and validation patients never lose."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from adapcla.generators import Generator, generator_for
from adapcla.generators.pair_calibration import _loss, company_of, settle_company
from adapcla.networks.company import Company
from adapcla.records import Cohort

TOKENS = ["A", "B", "C", "D"]
#: A comes with B, C with D.
PATIENTS = [[["A", "B"]], [["A", "B"]], [["C", "D"]], [["A"]], [["C", "D"]], [["B", "D"]]] * 160


def fitted(least_patients: int = 3) -> tuple[Generator, Company, Cohort]:
    """A short fit that knows codes of a visit by company alone, before anything is settled."""
    cohort = Cohort.of(PATIENTS, TOKENS)
    settings = {"width": 8, "layers": 1, "heads": 2, "passes": 1, "hidden": 0, "company": least_patients, "blocks": 4}
    generator = generator_for("tailwise", **settings, calibration_rounds=0, hierarchy=False, kinship=False)
    generator.fit(cohort, cohort)
    company = company_of(generator.model)
    assert company is not None
    return generator, company, cohort


def test_kept_pairs_are_expected_as_often_as_training_visits_hold_them() -> None:
    """At the best table of belief, what the network expects of pairs that speak is what there is: its slope is 0."""
    generator, company, cohort = fitted()
    with torch.no_grad():
        company.belief.zero_()
    losses = settle_company(generator.model, cohort, cohort)
    assert losses["after"] < losses["before"]
    network = generator.model.network.eval()
    network.zero_grad()
    (network.loss(generator.model.records(cohort).batch(np.arange(cohort.n_patients)), None, 1.0)).backward()
    assert company.belief.grad is not None
    # A pair stands in 320 of 960 visits; the slope is what is expected less what is counted, four times over.
    assert float(company.belief.grad.abs().max()) / 4 < 0.05 * 320


def test_where_validation_patients_do_not_gain_nothing_changes_to_the_bit() -> None:
    """Validation patients in whom codes stand the other way round."""
    generator, company, cohort = fitted()
    other = Cohort.of([[["A", "D"]], [["B", "C"]]] * 20, TOKENS)
    with torch.no_grad():
        for table in (company.belief, company.rarity, company.strangers):
            table.zero_()
    before = {name: value.clone() for name, value in generator.model.network.state_dict().items()}
    losses = settle_company(generator.model, cohort, other)
    assert losses["after"] > losses["before"]
    assert all(torch.equal(value, before[name]) for name, value in generator.model.network.state_dict().items())
    assert _loss(generator.model, other) == pytest.approx(losses["before"])


def test_nothing_but_the_tables_of_belief_is_fitted() -> None:
    generator, company, cohort = fitted()
    network = generator.model.network
    tables = {id(table) for table in company.beliefs}
    rest = {name: value.clone() for name, value in network.named_parameters() if id(value) not in tables}
    with torch.no_grad():
        company.belief.zero_()
    settle_company(generator.model, cohort, cohort)
    assert float(company.belief.detach().abs().max()) > 0.1
    after = dict(network.named_parameters())
    assert all(torch.equal(value, after[name]) for name, value in rest.items())
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_a_model_that_keeps_no_pair_has_nothing_to_settle() -> None:
    cohort = Cohort.of(PATIENTS, TOKENS)
    build = partial(generator_for, width=8, layers=1, heads=2, passes=1)
    for generator in (build("adapcla"), build("tailwise", company=10**6, calibration_rounds=0)):
        generator.fit(cohort, cohort)
        assert company_of(generator.model) is None
        assert settle_company(generator.model, cohort, cohort) == {}
        assert "belief in pairs settled" not in generator.model.facts
