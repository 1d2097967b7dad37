"""Company: counts of others, belief in them, and nothing from a single patient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from adapcla.data import Cohort
from adapcla.disclosure import MIN_COUNT
from adapcla.io import simulator as planted
from adapcla.models.batch import Records
from adapcla.models.company import Company
from adapcla.models.contract import DrawRule, Shape
from adapcla.models.draws import Noise
from adapcla.models.families.visits import VisitArchitecture, visit_network
from adapcla.models.heads import BlockwiseHead
from adapcla.models.kinship import Kinship, met_band
from adapcla.models.pair_counts import COUNT_EDGES, N_COLUMNS, PairCounts, count_band, expected_column, pair_counts
from adapcla.models.visit_entries import Whose
from adapcla.models.visits import RollState, VisitNetwork

N_CODES = 60


@pytest.fixture(scope="module")
def world() -> Cohort:
    return planted.simulate(patients=150, codes=N_CODES, seed=4)


def built(cohort: Cohort, least_patients: int = 2, **changes: object) -> tuple[VisitNetwork, BlockwiseHead, Company]:
    """A network whose company has seen the cohort, and whose belief is not what it began with."""
    torch.manual_seed(3)
    architecture = VisitArchitecture(
        width=16, layers=1, heads=2, head="blockwise", blocks=6, company=least_patients, use_days=False,
        use_attributes=False, **changes,  # type: ignore[arg-type]
    )  # fmt: skip
    network = visit_network(architecture, Shape(cohort.n_codes, 48), cohort.prevalence())
    assert isinstance(network.head, BlockwiseHead) and network.head.company is not None
    with torch.no_grad():
        network.head.company.belief.normal_()
        network.head.company.rarity.normal_()
        if network.head.company.kinship is not None:
            network.head.company.kinship.belief.normal_()
        network.head.company.strangers.normal_()
        network.head.company.strength.uniform_(0.5, 1.0)
    network.observe(Records(cohort, 48), Shape(cohort.n_codes, 48))
    return network, network.head, network.head.company


def by_rank(counts: PairCounts, number: Tensor, n: int) -> Tensor:
    """Visits of each pair as a whole table, both ways round."""
    table = torch.zeros(n, n, dtype=torch.int64)
    first, second = number[torch.from_numpy(counts.first)], number[torch.from_numpy(counts.second)]
    table[first, second] = table[second, first] = torch.from_numpy(counts.visits)
    return table


def of_families(kinship: Kinship, others: Cohort, rank_of_code: Tensor) -> Tensor:
    """(codes, codes) what families say of each other by a recount of some patients, in bands of all patients."""
    family, n = kinship.family.long(), len(kinship.cell)
    meetings = by_rank(pair_counts(others, family[rank_of_code].numpy()), torch.arange(n), n)
    n_columns = kinship.belief.shape[1]
    cell = met_band(meetings) * n_columns + kinship.known_cell % n_columns
    return (4.0 * kinship.belief.detach().reshape(-1)[cell])[family][:, family]


def started(network: VisitNetwork, n: int) -> tuple[RollState, DrawRule, Noise]:
    """Patients before their first visit."""
    noise = Noise(5, np.arange(n), 0)
    return network.begin(torch.zeros(n, 0, dtype=torch.int64), noise), DrawRule(), noise


@pytest.mark.parametrize("kinship", [False, True])
@pytest.mark.parametrize("order", ["frequent", "mixed"])
@pytest.mark.parametrize("kept", [False, True])
def test_a_patient_hears_of_all_others_and_of_nobody_else(world: Cohort, kinship: bool, order: str, kept: bool) -> None:
    """What is heard while training equals what a recount without the patient says, pair by pair."""
    network, head, company = built(world, kinship=kinship, order=order, rare_visits=20)
    records = Records(world, 48)
    of_rank = torch.from_numpy(world.visit_counts)[network.code_of_rank]
    each = torch.arange(N_CODES)
    expected = expected_column(of_rank, world.n_visits)(each[:, None], each[None])
    for patient in range(8):
        batch = network._ranked(records.batch(np.array([patient])))
        place = torch.arange(batch.n_visits)
        whose = Whose(batch.patient_of_visit, place, batch.first_visits, batch.origin if kept else None)
        spoken = company.spoken(batch.visit_of_entry, batch.codes, head.block_of_code, batch.n_visits, whose)
        others = world.subset([p for p in range(world.n_patients) if p != patient])
        said = company.of_strangers()[company.band.long()][:, company.band.long()].detach()
        counts = by_rank(pair_counts(others), network.rank_of_code, N_CODES)
        cell = count_band(counts) * N_COLUMNS + expected
        band = company.band.long()
        rarer = torch.minimum(band[:, None], band[None])
        met = company.belief.detach().reshape(-1)[cell] + company.rarity.detach()[count_band(counts), rarer]
        said = torch.where(counts > 0, 4.0 * met, said)
        if company.kinship is not None:
            said = said + of_families(company.kinship, others, network.rank_of_code)
        said = torch.where(head.block_of_code[:, None] < head.block_of_code[None], said, 0.0)
        wanted = torch.zeros(batch.n_visits, N_CODES).index_add(0, batch.visit_of_entry, said[batch.codes])
        torch.testing.assert_close(spoken.sums(batch.n_visits, N_CODES).detach(), wanted, rtol=1e-4, atol=1e-4)


def test_out_of_training_everybody_hears_of_the_kept_pairs(world: Cohort) -> None:
    """The loss is that of the likelihood then, in which no patient is left out; while training it is another."""
    network, _, _ = built(world, least_patients=2, kinship=True)
    batch = Records(world, 48).batch(np.arange(30))
    kept, others = (float(network.train(training).loss(batch, None).detach()) for training in (False, True))
    assert kept == pytest.approx(float(network.eval().likelihood(batch).record.sum()), rel=1e-4)
    assert abs(others - kept) > 1e-3 * kept


def test_the_same_count_may_say_more_of_rarer_codes(world: Cohort) -> None:
    """Belief by rarity changes some kept pairs and not others: those of one count and one band of the rarer code."""
    _, _, company = built(world)
    before = company.values().detach()
    used = company.values().sum()
    used.backward()
    assert company.rarity.grad is not None
    chosen = int(company.rarity.grad.view(-1).abs().argmax())
    with torch.no_grad():
        company.rarity.view(-1)[chosen] += 0.1
    changed = (company.values().detach() - before).abs() > 1e-6
    assert 0 < int(changed.sum()) < len(changed)


def test_a_pair_of_too_few_patients_is_not_even_kept(world: Cohort) -> None:
    network, _, company = built(world, least_patients=3)
    counts = pair_counts(world)
    rank = network.rank_of_code
    patients = {
        frozenset((int(rank[a]), int(rank[b]))): int(n)
        for a, b, n in zip(counts.first, counts.second, counts.patients, strict=True)
    }
    kept = {frozenset(pair) for pair in zip(company.first.tolist(), company.second.tolist(), strict=True)}
    assert kept and all(patients[pair] >= 3 for pair in kept)
    assert any(n < 3 for n in patients.values())


def test_a_pair_of_one_patient_changes_no_logit_to_the_bit() -> None:
    """Two cohorts that differ in one patient: there A and B meet, here the patient has them in two visits."""
    others = [[["A", "C"], ["B"]], [["B", "C"], ["A"]], [["A", "C"]], [["B", "C"]]] * 4
    met, apart = ([*others, [first, second]] for first, second in ((["A", "B"], ["D"]), (["A", "D"], ["B"])))
    said = []
    for patients in (met, apart):
        cohort = Cohort.of(patients, ["A", "B", "C", "D"])
        torch.manual_seed(1)
        architecture = VisitArchitecture(width=8, layers=1, heads=2, head="blockwise", blocks=4, company=2)
        # Four codes have four blocks of one code each, whatever their order.
        network = visit_network(architecture, Shape(4, 48), Cohort.of(met, ["A", "B", "C", "D"]).prevalence())
        network.head.sizes = [1, 1, 1, 1]  # type: ignore[attr-defined]
        network.head.block_of_code = torch.arange(4)  # type: ignore[attr-defined]
        network.observe(Records(cohort, 48), Shape(cohort.n_codes, 48))
        assert isinstance(network.head, BlockwiseHead) and network.head.company is not None
        said.append(network.head.company.values().detach())
        assert network.head.company.n_pairs == 2
    assert torch.equal(said[0], said[1])


def test_from_infinitely_many_patients_on_is_no_prior(world: Cohort) -> None:
    network, _, company = built(world, least_patients=10**9)
    assert company.n_pairs == 0
    batch = Records(world, 48).batch(np.arange(20))
    with_company = network.eval().likelihood(batch).record
    drawn = network.draw_visit(*started(network, 50))
    network.head.company = None  # type: ignore[assignment]
    assert torch.equal(with_company, network.likelihood(batch).record)
    for one, other in zip(drawn, network.draw_visit(*started(network, 50)), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("order", ["frequent", "rare"])
def test_visits_are_drawn_as_their_likelihood_says(order: str) -> None:
    """Four codes in blocks of one: the frequencies of all sixteen visits are those of the likelihood."""
    a, b, c, d = tokens = ["25000", "25001", "4011", "4019"]
    cohort = Cohort.of([[[a, b]], [[a, b]], [[c, d]], [[c, d]], [[a, d]], [[b]], [[c]]] * 3)
    torch.manual_seed(2)
    architecture = VisitArchitecture(
        width=8, layers=1, heads=2, head="blockwise", blocks=4, company=2, counting=True, kinship=True, order=order,  # type: ignore[arg-type]
    )  # fmt: skip
    network = visit_network(architecture, Shape(4, 4), cohort.prevalence()).eval()
    head = network.head
    assert isinstance(head, BlockwiseHead) and head.company is not None and head.counting is not None
    assert head.sizes == [1, 1, 1, 1] and head.company.kinship is not None
    with torch.no_grad():
        for part in (head.company.belief, head.company.kinship.belief):
            part.normal_(std=0.3)
        for part in head.counting.parameters():
            part.normal_(std=0.1)
    network.observe(Records(cohort, 4), Shape(cohort.n_codes, 4))
    assert head.company.n_pairs == 3
    n = 40_000
    who, codes = network.draw_visit(*started(network, n))
    drawn = np.bincount(np.bincount(who, 1 << codes, minlength=n).astype(int), minlength=16) / n
    visits = [[tokens[c] for c in range(4) if number >> c & 1] for number in range(1, 16)]
    asked = Records(Cohort.of([[visit] for visit in visits], tokens), 4).batch(np.arange(15))
    chances = torch.exp(-network.likelihood(asked).codes).numpy()
    assert chances.sum() + drawn[0] == pytest.approx(1.0, abs=0.01)
    assert np.abs(drawn[1:] - chances).max() < 4 * np.sqrt(0.25 / n)


@pytest.mark.parametrize("n_codes", [10_000, 50_000])
def test_wide_vocabularies_have_room(n_codes: int) -> None:
    """A step and a draw with tens of thousands of codes: nothing is as wide as codes × codes."""
    rng = np.random.default_rng(1)
    tokens = [f"{i:05d}" for i in range(n_codes)]
    patients = [[[tokens[i] for i in np.unique(rng.integers(0, n_codes, 4))]] for _ in range(40)] * 2
    cohort = Cohort.of(patients, tokens)
    torch.manual_seed(1)
    architecture = VisitArchitecture(
        width=8, layers=1, heads=2, head="blockwise", hidden=4, blocks=8, company=2, kinship=True, order="mixed"
    )
    network = visit_network(architecture, Shape(n_codes, 4), cohort.prevalence())
    n_pairs = network.observe(Records(cohort, 4), Shape(cohort.n_codes, 4)).n_pairs
    assert 40 < n_pairs < 400
    network.loss(Records(cohort, 4).batch(np.arange(8)), None).backward()
    network.eval().draw_visit(*started(network, 4))


def test_belief_begins_at_a_shrunken_lift() -> None:
    """More meetings than chance would give speak for each other, fewer against; strangers say little if rare."""
    company = Company(0, 2, torch.tensor([0, 5]), 10_000)
    belief, strangers = company.belief, company.strangers.detach()
    assert (strangers < 0).all() and abs(float(strangers[0, 0])) < 1e-3 < abs(float(strangers[-1, -1]))
    assert belief.shape[0] == len(COUNT_EDGES)
    assert (belief.diff(dim=0) > 0).all() and (belief.diff(dim=1) < 0).all()
    assert float(belief.detach()[0, 0]) > 0 > float(belief.detach()[0, -1])


def test_a_model_for_others_tells_no_small_count(world: Cohort) -> None:
    """Counts of 2 to 10 are one band; larger ones keep theirs."""
    _, _, company = built(world)
    rows = [(cells // company.belief.shape[1]).tolist() for cells in (company.cell, company.settled()["cell"])]
    few = int(count_band(torch.tensor([MIN_COUNT])))
    assert len({row for row in rows[0] if row < few}) > 1
    assert len({row for row in rows[1] if row < few}) == 1
    assert [row for row in rows[0] if row >= few] == [row for row in rows[1] if row >= few]


def test_private_training_refuses_company() -> None:
    from adapcla.errors import UsageError
    from adapcla.generation import generator_for

    with pytest.raises(UsageError, match="pairs"):
        generator_for("adapcla", head="blockwise", company=2, privacy={"epsilon": 8})


def test_codes_can_know_each_other_by_company_alone(world: Cohort) -> None:
    """Without a within-visit state a step and a draw go through, and company is what moves."""
    network, _, company = built(world, hidden=0)
    network.loss(Records(world, 48).batch(np.arange(20)), None).backward()
    assert company.belief.grad is not None and company.belief.grad.abs().sum() > 0
    assert len(network.eval().draw_visit(*started(network, 50))[0])


def test_the_band_of_chance_tells_no_small_count(world: Cohort) -> None:
    """Codes of one to ten visits have the same band with any partner, so that their pairs do not tell them apart."""
    network, _, company = built(world)
    counts = torch.from_numpy(world.visit_counts)[network.code_of_rank]
    small = (counts > 0) & (counts < MIN_COUNT)
    columns: dict[int, set[int]] = {}
    for a, t, cell in zip(company.first.tolist(), company.second.tolist(), company.cell.tolist(), strict=True):
        for one, other in ((a, t), (t, a)):
            if small[one]:
                columns.setdefault(other, set()).add(cell % N_COLUMNS)
    assert len(torch.unique(counts[small])) > 5 and any(columns)
    assert all(len(bands) == 1 for bands in columns.values())


def test_what_many_codes_say_together_stays_bounded(world: Cohort) -> None:
    """Ten times as many codes that say the same weigh as much as 24 of them: a large visit does not run away."""
    _, _, company = built(world)
    said = company.weight(torch.tensor([1, 24, 240])).detach() * torch.tensor([1.0, 24.0, 240.0])
    assert float(said[2]) == pytest.approx(float(said[1]), rel=1e-6)
    assert float(company.weight(torch.tensor([3])).detach()) == float(company.strength[2].detach())
