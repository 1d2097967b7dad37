"""What leads to what: counts of others, belief in them, and nothing from a single patient."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from adapcla.data import Cohort
from adapcla.io import simulator as planted
from adapcla.models.batch import Batch, Records
from adapcla.models.contract import DrawRule, Shape
from adapcla.models.draws import Noise
from adapcla.models.families.visits import VisitArchitecture, visit_network
from adapcla.models.leads import Leads
from adapcla.models.pair_counts import count_band
from adapcla.models.recall import Memory, Pushes
from adapcla.models.visits import VisitNetwork

N_CODES = 60


@pytest.fixture(scope="module")
def world() -> Cohort:
    return planted.simulate(patients=1200, codes=N_CODES, seed=4)


def built(cohort: Cohort, least_patients: int = 2) -> tuple[VisitNetwork, Leads]:
    """A network whose leads have seen the cohort, and whose belief is not what it began with."""
    torch.manual_seed(3)
    architecture = VisitArchitecture(
        width=16, layers=1, heads=2, head="blockwise", blocks=6, company=least_patients, leads=True, recall=True,
        use_days=False, use_attributes=False,
    )  # fmt: skip
    shape = Shape(cohort.n_codes, 48)
    network = visit_network(architecture, shape, cohort.prevalence())
    assert network.leads is not None
    with torch.no_grad():
        network.leads.belief.normal_()
    assert network.observe(Records(cohort, 48), shape).n_leads == network.leads.n_pairs
    return network, network.leads


def ranked(network: VisitNetwork, cohort: Cohort, patients: list[int]) -> Batch:
    return network._ranked(Records(cohort, 48).batch(np.array(patients)))


def recounted(patients: list[list[list[str]]]) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """Visits and patients of each pair of an earlier and a later code, counted one by one."""
    visits: Counter[tuple[str, str]] = Counter()
    holders: Counter[tuple[str, str]] = Counter()
    for record in patients:
        own: Counter[tuple[str, str]] = Counter()
        for before, now in pairwise(record):
            own.update((a, t) for a in before for t in now if t not in before)
        visits.update(own)
        holders.update(own.keys())
    return visits, holders


def table_of(pushes: Pushes) -> dict[tuple[int, int], float]:
    return {(r, c): p for r, c, p in zip(*(x.tolist() for x in pushes[:3]), strict=True)}


def test_what_is_kept_was_had_by_enough_patients(world: Cohort) -> None:
    network, leads = built(world, least_patients=3)
    visits, holders = recounted(list(world.patients()))
    tokens = [world.vocabulary.tokens[i] for i in network.code_of_rank.tolist()]
    kept = [(tokens[a], tokens[t]) for a, t in zip(leads.first.tolist(), leads.second.tolist(), strict=True)]
    assert len(kept) > 10 and len(set(kept)) == len(kept)
    assert all(holders[pair] >= 3 for pair in kept)
    assert leads.known_visits.tolist() == [visits[pair] for pair in kept]
    assert leads.known_patients.tolist() == [holders[pair] for pair in kept]


def test_a_patient_hears_what_a_recount_without_the_patient_says(world: Cohort) -> None:
    """In training every push is that of a cohort in which the patient at hand was never counted."""
    network, leads = built(world)
    network.train()
    patients = [i for i in range(60) if world.visits_per_patient[i] > 1][:25]
    batch = ranked(network, world, patients)
    heard = table_of(leads(batch))
    assert len(heard) > 20
    tokens, names = [world.vocabulary.tokens[i] for i in network.code_of_rank.tolist()], list(world.patients())
    column = {(a, t): cell % leads.belief.shape[1] for a, t, cell in zip(
        leads.first.tolist(), leads.second.tolist(), leads.cell.tolist(), strict=True)}  # fmt: skip
    expected: dict[tuple[int, int], float] = {}
    for number, patient in enumerate(patients):
        visits, holders = recounted(names[:patient] + names[patient + 1 :])
        for row in (batch.patient_of_visit == number).nonzero()[1:, 0].tolist():
            before = batch.codes[batch.visit_of_entry == row - 1].tolist()
            for (a, t), of_pair in column.items():
                pair = tokens[a], tokens[t]
                if a not in before or t in before or holders[pair] < 2:
                    continue
                cell = int(count_band(torch.tensor([visits[pair]]))) * leads.belief.shape[1] + of_pair
                if leads.telling[cell]:
                    said = 4.0 * float(leads.belief.detach().reshape(-1)[cell])
                    expected[row, t] = max(expected.get((row, t), -np.inf), said)
    assert heard == pytest.approx(expected)


def test_a_pair_of_one_patient_changes_no_logit() -> None:
    """Two cohorts that differ in what one patient's visit leads to say the same, to the bit."""
    others = [[["A"], ["B"]]] * 60 + [[["B"], ["C"]]] * 45 + [[["C"], ["E"]]] * 30 + [[["A"], ["E"]]] * 5
    said = []
    for one in ([["D"], ["A"]], [["D"], ["B"]]):
        _, leads = built(Cohort.of([*others, one], ["A", "B", "C", "D", "E"]))
        said.append((leads.first, leads.second, leads.cell))
        assert leads.n_pairs == 3
    assert all(torch.equal(one, other) for one, other in zip(*said, strict=True))


def test_from_infinitely_many_patients_on_nothing_leads_anywhere(world: Cohort) -> None:
    network, leads = built(world, least_patients=10**9)
    assert leads.n_pairs == 0
    batch = Records(world, 48).batch(np.arange(20))
    with_leads = network.eval().likelihood(batch).record
    network.leads = None
    assert torch.equal(with_leads, network.likelihood(batch).record)


def test_drawn_patients_hear_what_the_likelihood_says(world: Cohort) -> None:
    """After the same visit the pushes of a roll are those of a batch."""
    network, leads = built(world)
    network.eval()
    patient = int(np.flatnonzero(world.visits_per_patient > 1)[0])
    batch = ranked(network, world, [patient])
    first = batch.codes[batch.visit_of_entry == 0].numpy()
    rolled = leads.after(Memory.empty().after((np.zeros(len(first), dtype=np.int64), first)))
    in_batch = {code: push for (row, code), push in table_of(leads(batch)).items() if row == 1}
    assert in_batch
    assert {code: push for (_, code), push in table_of(rolled).items()} == in_batch


def test_second_visits_are_drawn_as_their_likelihood_says() -> None:
    """Three codes: how often each second visit comes after the first is what the likelihood says."""
    tokens = ["A", "B", "C"]
    cohort = Cohort.of([[["A"], ["B"]], [["C"], ["A"]], [["B"], ["C"]], [["C"]], [["A"]]] * 20, tokens)
    network, leads = built(cohort)
    network.eval()
    assert leads.n_pairs
    with torch.no_grad():
        leads.belief.fill_(0.4)
    n = 20_000
    noise = Noise(5, np.arange(n), 1)
    begun = network.begin(torch.zeros(n, 0, dtype=torch.int64), noise)
    after = network.absorb(begun, (np.arange(n), np.zeros(n, dtype=np.int64)), np.zeros(n, dtype=np.int64))
    who, codes = network.draw_visit(after, DrawRule(), noise)
    drawn = np.bincount(np.bincount(who, 1 << codes, minlength=n).astype(int), minlength=8) / n
    visits = [[tokens[c] for c in range(3) if number >> c & 1] for number in range(1, 8)]
    asked = Records(Cohort.of([[["A"], visit] for visit in visits], tokens), 48).batch(np.arange(7))
    chances = torch.exp(-network.likelihood(asked).codes[1::2]).numpy()
    assert np.abs(drawn[1:] - chances).max() < 4 * np.sqrt(0.25 / n)


def test_belief_is_learned_from_what_follows(world: Cohort) -> None:
    network, leads = built(world)
    network.train()
    network.loss(Records(world, 48).batch(np.arange(100)), None).backward()
    assert leads.belief.grad is not None and float(leads.belief.grad.abs().sum()) > 0


def test_a_model_for_others_tells_small_counts_as_one(world: Cohort) -> None:
    _, leads = built(world)
    row = leads.settled()["cell"] // leads.belief.shape[1]
    small = leads.known_visits < 11
    assert small.any() and len(row[small].unique()) == 1


def test_wide_vocabularies_have_room() -> None:
    rng = np.random.default_rng(1)
    n = 50_000
    tokens = [f"{i:05d}" for i in range(n)]
    records = [[[tokens[i] for i in np.unique(rng.integers(0, n, 4))] for _ in range(2)] for _ in range(40)]
    cohort = Cohort.of(records * 12, tokens)
    network, leads = built(cohort)
    assert 200 < leads.n_pairs < 2000
    network.train().loss(Records(cohort, 4).batch(np.arange(8)), None).backward()


def test_what_is_kept_of_a_patient_is_what_is_found_anew(world: Cohort) -> None:
    network, leads = built(world)
    batch = ranked(network.train(), world, list(range(300)))
    assert batch.origin is not None and leads.own.mark == batch.origin.mark
    kept = leads(batch)
    anew = leads(replace(batch, origin=None))
    assert len(kept.rows) > 10
    for one, other in zip(kept, anew, strict=True):
        assert torch.equal(one, other)
