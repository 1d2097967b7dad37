"""Belief in pairs after training: kept pairs come out as often as they should, and validation patients never lose."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from adapcla.generators import Generator, generator_for
from adapcla.generators.pair_calibration import PairShares, _loss, company_of, settle_company
from adapcla.metrics.pairs import cooccurrence
from adapcla.networks.company import Company
from adapcla.networks.visits import VisitNetwork
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


def test_a_pilot_with_half_of_the_pairs_raises_belief_by_that_factor() -> None:
    """A third of all visits hold A–B; a pilot of 2,400 should hold 800 and holds 395: (800 + 10) / (395 + 10) = 2."""
    generator, company, cohort = fitted()
    assert isinstance(generator.model.network, VisitNetwork)
    shares = PairShares.of(company, generator.model.network.code_of_rank.numpy(), cohort, cohort)
    assert np.allclose(shares.share * cohort.n_visits, cooccurrence(cohort).toarray()[shares.first, shares.second])
    rows = [[TOKENS.index("A"), TOKENS.index("B")], [TOKENS.index("C"), TOKENS.index("D")]]
    pair = [[*sorted((int(a), int(b)))] for a, b in zip(shares.first, shares.second, strict=True)]
    assert all(row in pair for row in rows)
    kind = shares.kind[pair.index(rows[0])]
    expected = 2_400 * shares.share[shares.kind == kind].sum()
    n_held = round((expected + 10) / 2 - 10)
    pilot = Cohort.of([[["A", "B"]]] * n_held + [[["A"]]] * (2_400 - n_held), TOKENS)
    before = company.values().detach()
    shares.correct(pilot)
    changed = (company.values().detach() - before).numpy()[shares.kind == kind]
    assert changed == pytest.approx(np.log(2), abs=0.01)


def test_pairs_that_other_patients_hold_less_often_are_written_so() -> None:
    """A share that expects 160 pairs of a kind among others who hold 75 is halved: (75 + 10) / (160 + 10)."""
    generator, company, cohort = fitted()
    assert isinstance(generator.model.network, VisitNetwork)
    code_of_rank = generator.model.network.code_of_rank.numpy()
    counted = PairShares.of(company, code_of_rank, cohort, cohort)
    kind = int(counted.kind[0])
    pair = [TOKENS[int(counted.first[0])], TOKENS[int(counted.second[0])]]
    others = Cohort.of([[pair]] * 75 + [[["A"]]] * 405, TOKENS)
    expected, found = counted._by_kind(others)
    assert found[kind] >= 75
    shares = PairShares.of(company, code_of_rank, cohort, others)
    ratio = shares.share[shares.kind == kind] / counted.share[counted.kind == kind]
    assert ratio == pytest.approx(min((found[kind] + 10) / (expected[kind] + 10), 1.0))
    assert ratio.max() < 0.8


def test_others_who_hold_a_pair_more_often_do_not_raise_it() -> None:
    generator, company, cohort = fitted()
    assert isinstance(generator.model.network, VisitNetwork)
    code_of_rank = generator.model.network.code_of_rank.numpy()
    all_of_them = Cohort.of([[["A", "B"], ["C", "D"], ["B", "D"]]] * 200, TOKENS)
    shares = PairShares.of(company, code_of_rank, cohort, all_of_them)
    assert np.allclose(shares.share, PairShares.of(company, code_of_rank, cohort, cohort).share)
