"""Company: counts of others, belief in them, and nothing from a single patient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from adapcla.disclosure import SMALLEST_COUNT
from adapcla.networks.batch import Records
from adapcla.networks.company import COUNT_EDGES, Company, count_band, pair_counts
from adapcla.networks.contract import DrawRule, Shape
from adapcla.networks.draws import Noise
from adapcla.networks.families.visits import VisitArchitecture, visit_network
from adapcla.networks.heads import BlockwiseHead
from adapcla.networks.kernels.blocks import Spoken
from adapcla.networks.visits import RollState, VisitNetwork
from adapcla.records import Cohort
from adapcla.sources import planted

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
        network.head.company.strangers.normal_()
        network.head.company.strength.uniform_(0.5, 1.0)
    network.observe(Records(cohort, 48))
    return network, network.head, network.head.company


def sums(spoken: Spoken, n_visits: int, n_codes: int) -> Tensor:
    """What is said of every code in every visit, before it is weighed."""
    table = torch.zeros(spoken.n_speakers, n_codes).index_put(
        (spoken.speaker_of_pair, spoken.code_of_pair), spoken.values
    )
    said = torch.zeros(n_visits, n_codes).index_add(0, spoken.visit_of_entry, table[spoken.speaker_of_entry])
    lines = spoken.corrections
    return said.index_put((lines.rows, lines.codes), lines.values, accumulate=True)


def started(network: VisitNetwork, n: int) -> tuple[RollState, DrawRule, Noise]:
    """Patients before their first visit."""
    noise = Noise(5, np.arange(n), 0)
    return network.begin(torch.zeros(n, 0, dtype=torch.int64), noise), DrawRule(), noise


def test_pairs_are_counted_by_visit_and_by_patient() -> None:
    counts = pair_counts(Cohort.of([[["A", "B"], ["A", "B"], ["B", "C"]], [["A", "B", "C"]], [["D"]]]))
    pairs = list(zip(counts.first.tolist(), counts.second.tolist(), strict=True))
    assert pairs == [(0, 1), (0, 2), (1, 2)]
    assert counts.visits.tolist() == [3, 1, 2] and counts.patients.tolist() == [2, 1, 2]


def test_blocks_of_patients_count_the_same(world: Cohort, monkeypatch: pytest.MonkeyPatch) -> None:
    from adapcla.networks import company

    whole = pair_counts(world)
    monkeypatch.setattr(company, "_PAIRS_AT_ONCE", 50)
    for one, two in zip(whole, pair_counts(world), strict=True):
        assert np.array_equal(one, two)


def test_a_patient_hears_of_all_others_and_of_nobody_else(world: Cohort) -> None:
    """Left-out counts equal a recount without the patient, pair by pair."""
    network, head, company = built(world)
    records = Records(world, 48)
    column = {
        (int(a), int(t)): int(c)
        for a, t, c in zip(company.known_first, company.known_second, company.known_column, strict=True)
    }
    for patient in range(12):
        batch = network._ranked(records.batch(np.array([patient])))
        spoken = company.spoken(
            batch.visit_of_entry, batch.codes, head.block_of_code, batch.n_visits, batch.patient_of_visit
        )
        others = pair_counts(world.subset([p for p in range(world.n_patients) if p != patient]))
        rank = network.rank_of_code
        counts = torch.zeros(N_CODES, N_CODES, dtype=torch.int64)
        one, two = rank[torch.from_numpy(others.first)], rank[torch.from_numpy(others.second)]
        counts[one, two] = counts[two, one] = torch.from_numpy(others.visits)
        expected = torch.zeros(batch.n_visits, N_CODES)
        for visit, a in zip(batch.visit_of_entry.tolist(), batch.codes.tolist(), strict=True):
            for t in range(N_CODES):
                if head.block_of_code[a] < head.block_of_code[t] and counts[a, t] > 0:
                    one, other = torch.tensor([a]), torch.tensor([t])
                    value = company._value(one, other, counts[a, t][None], torch.tensor([column[a, t]]))
                    expected[visit, t] += float(value.detach())
        torch.testing.assert_close(sums(spoken, batch.n_visits, N_CODES).detach(), expected, rtol=1e-5, atol=1e-5)


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
        network.observe(Records(cohort, 48))
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
    cohort = Cohort.of([[["A", "B"]], [["A", "B"]], [["C", "D"]], [["C", "D"]], [["A", "D"]], [["B"]], [["C"]]] * 3)
    torch.manual_seed(2)
    architecture = VisitArchitecture(
        width=8, layers=1, heads=2, head="blockwise", blocks=4, company=2, order=order,  # type: ignore[arg-type]
    )  # fmt: skip
    network = visit_network(architecture, Shape(4, 4), cohort.prevalence()).eval()
    head = network.head
    assert isinstance(head, BlockwiseHead) and head.company is not None
    head.sizes, head.block_of_code = [1, 1, 1, 1], torch.arange(4)
    head.block = torch.nn.Parameter(torch.randn(4, head.block.shape[1]))
    with torch.no_grad():
        head.company.belief.normal_(std=0.3)
    network.observe(Records(cohort, 4))
    assert head.company.n_pairs == 3
    n = 40_000
    who, codes = network.draw_visit(*started(network, n))
    drawn = np.bincount(np.bincount(who, 1 << codes, minlength=n).astype(int), minlength=16) / n
    tokens = ["A", "B", "C", "D"]
    visits = [[tokens[c] for c in range(4) if number >> c & 1] for number in range(1, 16)]
    asked = Records(Cohort.of([[visit] for visit in visits], tokens), 4).batch(np.arange(15))
    chances = torch.exp(-network.likelihood(asked).codes).numpy()
    assert chances.sum() + drawn[0] == pytest.approx(1.0, abs=0.01)
    assert np.abs(drawn[1:] - chances).max() < 4 * np.sqrt(0.25 / n)


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
    few = int(count_band(torch.tensor([SMALLEST_COUNT])))
    assert len({row for row in rows[0] if row < few}) > 1
    assert len({row for row in rows[1] if row < few}) == 1
    assert [row for row in rows[0] if row >= few] == [row for row in rows[1] if row >= few]


def test_private_training_refuses_company() -> None:
    from adapcla.errors import UsageError
    from adapcla.generators import generator_for

    with pytest.raises(UsageError, match="pairs"):
        generator_for("adapcla", head="blockwise", company=2, privacy={"epsilon": 8})
