"""Recall: what was there before, told the same by a whole record and by rolling out, and what it does to a visit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from adapcla.data import Cohort
from adapcla.errors import UsageError
from adapcla.generation import generator_for
from adapcla.models.batch import Batch, Records
from adapcla.models.contract import DrawRule, Shape
from adapcla.models.draws import Noise
from adapcla.models.families.visits import VisitArchitecture, visit_network
from adapcla.models.halo import HaloHead
from adapcla.models.kernels.bce import SparseTargets
from adapcla.models.recall import Had, Memory, Pushes, had_before, had_in_all, pair_dots
from adapcla.models.visits import VisitNetwork

CODES = "ABCDEF"
HEADS = ["independent", "blockwise"]
visits = st.lists(st.sets(st.sampled_from(CODES), min_size=1, max_size=4).map(sorted), min_size=1, max_size=6)
cohorts = st.lists(visits, min_size=1, max_size=5)


def _batch(patients: list[list[list[str]]]) -> tuple[Cohort, Batch]:
    cohort = Cohort.of(patients)
    return cohort, Records(cohort, 8).batch(np.arange(cohort.n_patients))


def _told(had: Had) -> set[tuple[int, int, float, float, float]]:
    """The lines of recall as tuples: row, code, in the last visit, share of visits, present."""
    facts, rest = had.facts.numpy(), (had.rows.tolist(), had.codes.tolist(), had.present.tolist())
    assert (facts[:, 0] == 1).all()
    shares = facts[:, 2].round(5).tolist()
    told = {(r, c, last, s, p) for r, c, p, last, s in zip(*rest, facts[:, 1].tolist(), shares, strict=True)}
    assert len(told) == len(had.rows)
    return told


def _share(times: int, of: int) -> float:
    return float(np.float32(times / of).round(5))


@given(cohorts)
def test_had_before_is_what_a_loop_over_visits_finds(patients: list[list[list[str]]]) -> None:
    cohort, batch = _batch(patients)
    place = cohort.vocabulary.index
    expected, row = set(), 0
    for patient in patients:
        for number, visit in enumerate(patient):
            earlier = patient[:number]
            for code in {code for old in earlier for code in old}:
                times = sum(code in old for old in earlier)
                last = float(code in earlier[-1])
                expected.add((row, place[code], last, _share(times, number), float(code in visit)))
            row += 1
    assert _told(had_before(batch)) == expected


@given(cohorts)
def test_the_memory_of_a_roll_out_is_that_of_the_record(patients: list[list[list[str]]]) -> None:
    """Patient by patient, absorbed visit by visit, against the packed record."""
    cohort, batch = _batch(patients)
    place = cohort.vocabulary.index
    whole = _told(had_in_all(batch))
    for number, patient in enumerate(patients):
        memory = Memory.empty()
        for visit in patient:
            codes = np.array([place[code] for code in visit])
            memory = memory.after((np.zeros(len(visit), dtype=np.int64), codes))
        mine = {(0, *line[1:]) for line in whole if line[0] == number}
        assert _told(memory.had()) == mine


def test_keeping_patients_keeps_their_memory_in_the_order_asked_for() -> None:
    memory = Memory.empty().after((np.array([0, 1, 1, 2]), np.array([3, 4, 5, 6])))
    kept = memory.keep(np.array([2, 0, 2]))
    assert kept.patients.tolist() == [0, 1, 2] and kept.codes.tolist() == [6, 3, 6]
    assert memory.keep(np.array([], dtype=np.int64)).codes.tolist() == []


def _network(cohort: Cohort, head: str, seed: int = 0) -> VisitNetwork:
    """A small network whose recall says something."""
    torch.manual_seed(seed)
    architecture = VisitArchitecture(width=16, layers=1, heads=2, context=8, hidden=8, head=head, recall=True)  # type: ignore[arg-type]
    network = visit_network(architecture, Shape(cohort.n_codes, 8), cohort.prevalence()).eval()
    assert network.recall is not None
    with torch.no_grad():
        network.recall.from_state.weight.normal_(std=0.1)
        network.recall.from_state.bias.normal_(std=0.3)
        network.recall.own.own.normal_(std=0.1)
    return network


RECORDS = [[["A", "B"], ["B", "C"], ["A"]], [["D"], ["D", "E", "F"]], [["C", "F"]]]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("weight", [1.0, 1.5])
def test_loss_and_gradient_are_those_of_every_logit_written_out(head: str, biased: bool, weight: float) -> None:
    """Against a dense sum over all codes, with the pushes put into a matrix of logits."""
    cohort, batch = _batch(RECORDS)
    network = _network(cohort, head)
    ranked, bias = network._ranked(batch), torch.linspace(-1, 1, cohort.n_codes) if biased else None
    states = network.states(ranked)
    pushes = network._push(states, ranked)
    assert pushes is not None and len(pushes.rows) == 6
    loss = network.head.loss(states, ranked, bias, weight, pushes)

    nothing = torch.zeros(len(pushes.rows))
    every = Pushes(
        *(x.flatten() for x in torch.meshgrid(torch.arange(6), torch.arange(6), indexing="ij")), nothing, nothing
    )
    logits = _logits_at(network, states, ranked, bias, every).view(6, 6)
    logits = pushes.added_to(logits)
    truth = torch.zeros(6, 6)
    truth[ranked.visit_of_entry, ranked.codes] = 1.0
    dense = F.binary_cross_entropy_with_logits(logits, truth, reduction="sum", pos_weight=torch.full((6,), weight))
    assert float(loss.detach()) == pytest.approx(float(dense.detach()), rel=1e-5)

    parameters = [p for name, p in network.named_parameters() if "going_on" not in name]
    found = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
    wanted = torch.autograd.grad(dense, parameters, allow_unused=True)
    for one, two in zip(found, wanted, strict=True):
        assert (one is None) == (two is None)
        if one is not None and two is not None:
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    assert any(g is not None and p is network.recall.from_state.bias for p, g in zip(parameters, found, strict=True))  # type: ignore[union-attr]


def _logits_at(network: VisitNetwork, states: torch.Tensor, ranked: Batch, bias: Any, asked: Pushes) -> torch.Tensor:
    """Logits (lines,) without pushes, by the head's plain formulas."""
    head: Any = network.head
    history, extra = states[ranked.row_before][asked.rows], 0.0 if bias is None else bias[asked.codes]
    out = (history * head.table()[asked.codes]).sum(1) + head.bias[asked.codes] + extra
    if hasattr(head, "block_of_code"):
        targets = SparseTargets(ranked.visit_of_entry, ranked.codes, torch.ones(6))
        inner = head._inner(states[ranked.row_before], torch.arange(6), targets)
        mine = inner[asked.rows, head.block_of_code[asked.codes]] @ head.to_state.t()
        out = out + (mine * head.table()[asked.codes]).sum(1)
    return out


@pytest.mark.parametrize("head", HEADS)
def test_the_loss_is_the_summed_likelihood(head: str) -> None:
    cohort, batch = _batch(RECORDS)
    network = _network(cohort, head)
    bias = torch.linspace(-1, 1, cohort.n_codes)
    assert float(network.loss(batch, bias)) == pytest.approx(
        float(network.likelihood(batch, bias).record.sum()), rel=1e-5
    )


@pytest.mark.parametrize("head", HEADS)
def test_second_visits_come_at_their_likelihood(head: str) -> None:
    """Rolling out draws the codes of a second visit as often as the likelihood of the record says."""
    cohort, _ = _batch(RECORDS)
    network, n = _network(cohort, head), 20_000
    one = Cohort.of([[["A", "B"], ["A"]], [["A", "B"], ["A", "B"]], [["A", "B"], ["C"]]]).on(cohort.vocabulary)
    batch = Records(one, 8).batch(np.arange(3))
    chance = torch.exp(-network.likelihood(batch).codes[batch.position == 1]).numpy()
    noise = Noise(4, np.arange(n), 0)
    first = (np.repeat(np.arange(n), 2), np.tile([0, 1], n))
    state = network.absorb(network.begin(torch.zeros(n, 0, dtype=torch.int64), noise), first, np.zeros(n, np.int64))
    who, codes = network.draw_visit(state, DrawRule(), Noise(4, np.arange(n), 64))
    drawn = np.bincount(who, 2.0**codes, minlength=n)
    for mask, expected in zip((1, 3, 4), chance, strict=True):
        share = (drawn == mask).mean()
        assert share == pytest.approx(expected, abs=4 * np.sqrt(expected / n) + 1e-4)


def test_logits_of_the_next_visit_are_those_that_are_drawn_from() -> None:
    cohort, batch = _batch([[["A", "B"], ["B"]]])
    network = _network(cohort, "independent")
    told = torch.sigmoid(network.next_logits(batch))[0].numpy()
    n = 20_000
    noise = Noise(4, np.arange(n), 0)
    state = network.begin(torch.zeros(n, 0, dtype=torch.int64), noise)
    state = network.absorb(state, (np.repeat(np.arange(n), 2), np.tile([0, 1], n)), np.zeros(n, np.int64))
    state = network.absorb(state, (np.arange(n), np.ones(n, np.int64)), np.zeros(n, np.int64))
    _, codes = network.draw_visit(state, DrawRule(), Noise(4, np.arange(n), 128))
    assert np.bincount(codes, minlength=2) / n == pytest.approx(told, abs=0.02)


def test_inner_products_of_pairs_have_their_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """In chunks of one pair, against plain indexing."""
    monkeypatch.setattr("adapcla.models.recall._CHUNK", 1)
    torch.manual_seed(0)
    left, right = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    i, j = torch.tensor([0, 2, 2, 1]), torch.tensor([1, 1, 0, 1])
    assert torch.autograd.gradcheck(lambda a, b: pair_dots(a, b, i, j), (left, right))
    torch.testing.assert_close(pair_dots(left, right, i, j), (left[i] * right[j]).sum(1))


def test_without_recall_settings_are_written_as_before() -> None:
    """Models and run folders made before there was recall stay what they are."""
    plain = generator_for("adapcla").settings
    assert "recall" not in plain.model_dump()["architecture"]
    asked = generator_for("adapcla", recall=True).settings
    assert asked.model_dump()["architecture"]["recall"] is True
    assert asked.fingerprint() != plain.fingerprint()


def test_a_head_without_room_for_recall_refuses_it() -> None:
    with pytest.raises(ValidationError, match="expected head=independent or head=blockwise"):
        VisitArchitecture(head="halo", recall=True)
    with pytest.raises(UsageError, match="setting architecture"):
        generator_for("halo", recall=True)
    cohort, batch = _batch(RECORDS)
    head, nothing = HaloHead(cohort.n_codes, 8, torch.zeros(cohort.n_codes)), torch.zeros(0, dtype=torch.int64)
    with pytest.raises(UsageError, match="head=blockwise"):
        head.nll(torch.zeros(9, 8), batch, None, Pushes(nothing, nothing, torch.zeros(0), torch.zeros(0)))


def test_a_rare_code_that_always_comes_back_is_foreseen_with_recall_and_not_without() -> None:
    """Two hundred codes that three patients each have, always twice: nobody's own vector can learn that."""
    stream = np.random.default_rng(0)
    patients = [[["common", f"R{i % 200:03d}"]] * 2 for i in stream.permutation(600)]
    train, valid = Cohort.of(patients[:500]), Cohort.of(patients[500:])
    foreseen = {}
    for recall in (False, True):
        made = generator_for("adapcla-no-scaffold", width=16, layers=1, heads=2, passes=30, patience=30, recall=recall)
        made.fit(train, valid)
        first = Cohort.of([[visits[0]] for visits in patients[500:]]).on(train.vocabulary)
        chances = made.continue_(first, draws=1).probabilities
        own = train.vocabulary.positions([visits[0][1] for visits in patients[500:]])
        foreseen[recall] = float(np.median(chances[np.arange(100), own]))
    assert foreseen[True] > 0.5 > 0.2 > foreseen[False]
