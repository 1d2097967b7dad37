"""Emphasis: rare codes hear more when visits are drawn, frequent ones and single patients change nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adapcla.data import Cohort
from adapcla.disclosure import MIN_COUNT
from adapcla.io import simulator as planted
from adapcla.models.batch import Records
from adapcla.models.company import Company, Listener
from adapcla.models.contract import Shape
from adapcla.models.emphasis import N_NEAR, N_RARE, Emphasis, rareness
from adapcla.models.families.visits import VisitArchitecture, visit_network
from adapcla.models.heads import BlockwiseHead
from adapcla.models.visits import VisitNetwork

N_CODES = 120
FAMILY = torch.tensor([0, 0, 1, 1])


@pytest.fixture(scope="module")
def world() -> Cohort:
    return planted.simulate(patients=300, codes=N_CODES, seed=4)


def built(cohort: Cohort) -> tuple[VisitNetwork, Company]:
    torch.manual_seed(3)
    architecture = VisitArchitecture(
        width=8,
        layers=1,
        heads=2,
        head="blockwise",
        blocks=6,
        company=2,
        kinship=True,
        use_days=False,
        use_attributes=False,
    )
    network = visit_network(architecture, Shape(cohort.n_codes, 48), cohort.prevalence())
    assert isinstance(network.head, BlockwiseHead) and network.head.company is not None
    network.observe(Records(cohort, 48), Shape(cohort.n_codes, 48))
    return network.eval(), network.head.company


def heard(company: Company, speaker: int) -> torch.Tensor:
    """(codes,) what all codes hear after one code was drawn."""
    listener = Listener(company, 1, N_CODES)
    listener.listen(np.array([0]), np.array([speaker]))
    with torch.no_grad():
        return listener.heard(slice(0, N_CODES))[0]


def test_rare_codes_hear_the_two_tables_and_frequent_codes_nothing_new(world: Cohort) -> None:
    _, company = built(world)
    speaker, emphasis = 0, company.emphasis
    before = heard(company, speaker)
    emphasis.by_speaker[:N_RARE].normal_()
    emphasis.by_nearness[:N_RARE].normal_()
    degree, family = emphasis.rareness.long(), emphasis.family
    assert family is not None
    near = emphasis.nearness.long()[family[speaker], family]
    more = emphasis.by_speaker[degree, company.band.long()[speaker]] + emphasis.by_nearness[degree, near]
    after = heard(company, speaker)
    torch.testing.assert_close(after - before, more * company.strength[0].detach(), atol=1e-5, rtol=1e-4)
    frequent = degree == N_RARE
    assert frequent.any() and (degree == 0).any()
    assert torch.equal(after[frequent], before[frequent])


def test_known_partners_are_heard_by_how_frequent_they_are(world: Cohort) -> None:
    _, company = built(world)
    emphasis, strength = company.emphasis, company.strength[0].detach()
    first, second = company.first.long(), company.second.long()
    speaker = int(first[emphasis.rareness[second] < N_RARE][0])
    before = heard(company, speaker)
    emphasis.by_partner[:N_RARE].normal_()
    more = emphasis.by_partner[emphasis.rareness.long(), int(company.band[speaker])]
    known = torch.zeros(N_CODES, dtype=torch.bool).index_fill(0, second[first == speaker], True)
    wanted = torch.where(known, more * strength, 0.0)
    assert known.any() and not known.all()
    torch.testing.assert_close(heard(company, speaker) - before, wanted, atol=1e-5, rtol=1e-4)


def test_the_likelihood_hears_what_is_drawn_by(world: Cohort) -> None:
    """What visits of one earlier code say by the likelihood's way is what the listener of draws hears."""
    network, company = built(world)
    company.emphasis.by_speaker[:N_RARE].normal_()
    company.emphasis.by_nearness[:N_RARE].normal_()
    company.emphasis.by_partner[:N_RARE].normal_()
    block = network.head.block_of_code  # type: ignore[attr-defined]
    for speaker in (0, 7):
        spoken = company.spoken(torch.tensor([0]), torch.tensor([speaker]), block, 1)
        later = block > block[speaker]
        said = spoken.table(N_CODES)[0].detach() * company.strength[0].detach()
        torch.testing.assert_close(said[later], heard(company, speaker)[later], atol=1e-5, rtol=1e-4)


def test_while_training_nothing_is_emphasised(world: Cohort) -> None:
    network, company = built(world)
    batch = Records(world, 48).batch(np.arange(20))
    losses = []
    for training, more in ((True, 0.0), (True, 1.0), (False, 0.0), (False, 1.0)):
        company.emphasis.by_speaker[:N_RARE].fill_(more)
        torch.manual_seed(1)
        losses.append(float(network.train(training).loss(batch, None).detach()))
    assert losses[0] == losses[1] and losses[2] != losses[3]


def test_a_pair_of_one_patient_brings_no_families_nearer_to_the_bit() -> None:
    """Two cohorts that differ in whom one patient's codes stand with: two visits with their codes exchanged."""
    tokens = ["25000", "25001", "4011", "4019", "V100", "E8000"]
    a, b, c, d, e, f = tokens
    others = [[[a, c], [b]], [[b, d], [a]], [[a, c]], [[b, d]], [[e], [f]]] * 4
    seen = []
    for own in ([[a, e], [c, f]], [[a, f], [c, e]]):
        cohort = Cohort.of([*others, own], tokens)
        torch.manual_seed(1)
        architecture = VisitArchitecture(
            width=8, layers=1, heads=2, head="blockwise", blocks=6, company=2, kinship=True
        )
        network = visit_network(architecture, Shape(6, 48), cohort.prevalence())
        network.observe(Records(cohort, 48), Shape(cohort.n_codes, 48))
        seen.append(network.head.company.emphasis)  # type: ignore[attr-defined]
    assert torch.equal(seen[0].nearness, seen[1].nearness) and torch.equal(seen[0].rareness, seen[1].rareness)
    assert len(torch.unique(seen[0].nearness)) > 1


def test_no_small_count_is_told() -> None:
    """Codes of up to ten visits are equally rare, and pairs of up to ten visits make families equally near."""
    counts = torch.tensor([1, 3, MIN_COUNT - 1, 40, 2000])
    assert len(torch.unique(rareness(counts)[:3])) == 1
    degrees = []
    for visits in (2, MIN_COUNT - 1):
        emphasis = Emphasis(4, 14, FAMILY)
        emphasis.observe(
            torch.tensor([0]), torch.tensor([2]), torch.tensor([visits]), torch.tensor([50, 50, 50, 50]), 300
        )
        degrees.append(emphasis.nearness)
    assert torch.equal(degrees[0], degrees[1])
    assert emphasis.by_nearness.shape == (N_RARE + 1, N_NEAR)
