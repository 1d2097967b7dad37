"""The Transformer over codes: its likelihood sums to one, its draws follow it, and its parts do what they say."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats

from adapcla.data import Cohort
from adapcla.errors import UsageError
from adapcla.models.base import DrawRule, Shape
from adapcla.models.batch import Records
from adapcla.models.draws import Noise
from adapcla.models.gpt import GPT, GptArchitecture

ALL_PARTS = {"prior": True, "damping": 0.4, "shrinkage": 5.0, "copy_head": True}


def made(cohort: Cohort, shape: Shape, seed: int = 4, spread: float = 0.0, **changes: object) -> GPT:
    torch.manual_seed(seed)
    settings = GptArchitecture(width=16, layers=1, heads=2, context=12, **changes)  # type: ignore[arg-type]
    network = GPT(settings, shape, cohort.prevalence())
    network.observe(Records(cohort, 12), shape)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(spread * torch.randn_like(parameter))
    return network.eval()


def every_visit(letters: str) -> list[tuple[str, ...]]:
    return [some for size in range(1, len(letters) + 1) for some in combinations(letters, size)]


@pytest.mark.parametrize("parts", [{}, ALL_PARTS])
@pytest.mark.parametrize("shifted", [False, True])
def test_all_records_of_one_visit_and_all_that_go_on_are_certain(parts: dict, shifted: bool) -> None:
    """Four codes have fifteen visits. exp(−nll) of their codes sums to 1, with a shift too; so do their records when
    those that go on are added."""
    visits = every_visit("ABCD")
    cohort = Cohort.of([[list(visit), list(other)] for visit in visits for other in visits])
    network = made(cohort, Shape(4, 12), spread=0.5, **parts)
    shift = torch.tensor([0.5, -1.0, 2.0, 0.0]) if shifted else None
    single = Cohort.of([[list(visit)] for visit in visits], cohort.vocabulary)
    likelihood = network.likelihood(Records(single, 12).batch(np.arange(len(visits))), shift)
    assert float(torch.exp(-likelihood.codes).sum()) == pytest.approx(1.0, abs=1e-5)
    ended = float(torch.exp(-likelihood.record).sum())
    both = network.likelihood(Records(cohort, 12).batch(np.arange(cohort.n_patients)), shift)
    # Records of exactly two visits: what goes on, times the probability that it then ends.
    second = both.codes.view(-1, 2)
    end = both.record - second.sum(1)
    assert ended < 1 and float(torch.exp(-second.sum(1)).sum()) == pytest.approx(1.0, abs=1e-5)
    assert (end > 0).all()


def test_drawn_visits_have_the_frequencies_of_the_likelihood() -> None:
    """χ² of 6,000 second visits, shifted, against their likelihoods, with all parts on."""
    visits = every_visit("ABC")
    history = ["A", "C"]
    cohort = Cohort.of([[history, list(visit)] for visit in visits])
    network = made(cohort, Shape(3, 12), spread=0.5, **ALL_PARTS)
    shift = torch.tensor([0.5, 0.0, -0.5])
    batch = Records(cohort, 12).batch(np.arange(len(visits)))
    nll = network.likelihood(batch, shift).codes.view(-1, 2)[:, 1]
    n = 6000
    noise = Noise(8, np.arange(n), 64)
    state = network.begin(torch.zeros(n, 0, dtype=torch.int64), noise)
    drawn = np.repeat(np.arange(n), 2), np.tile([0, 2], n)
    state = network.after_days(network.absorb(state, drawn, np.zeros(n, dtype=np.int64)), np.zeros(n, dtype=np.int64))
    who, codes = network.draw_visit(state, DrawRule(shift), noise).drawn
    number = np.bincount(who, weights=2.0**codes, minlength=n).astype(int)
    key = [sum(2 ** "ABC".index(letter) for letter in visit) for visit in visits]
    seen = np.bincount(number, minlength=8)[key]
    probability = torch.exp(-nll).numpy()
    assert stats.chisquare(seen, probability / probability.sum() * n).pvalue > 1e-3


def test_drawn_lengths_are_those_of_the_likelihood_with_a_bias() -> None:
    """Codes compete with closing, so that a bias of codes makes visits longer; the likelihood says by how much."""
    visits = every_visit("AB")
    cohort = Cohort.of([[list(visit)] for visit in visits])
    network = made(cohort, Shape(2, 12), spread=0.5, **ALL_PARTS)
    shift, n = torch.tensor([1.0, 2.0]), 8000
    batch = Records(cohort, 12).batch(np.arange(len(visits)))
    begun = network.begin(torch.zeros(n, 0, dtype=torch.int64), Noise(8, np.arange(n), 0))
    for bias in (None, shift):
        ends = float(torch.exp(-network.likelihood(batch, bias).record).sum())
        step = network.step(begun, DrawRule(bias), Noise(8, np.arange(n), 0), certain=True)
        drawn = 1 - len(network.enter(step.state, Noise(8, np.arange(n), 64), certain=False).rows) / n
        assert abs(drawn - ends) < 4 * np.sqrt(ends * (1 - ends) / n)


@pytest.mark.parametrize("parts", [{}, ALL_PARTS])
def test_sampling_reaches_the_states_of_training(parts: dict, world, shape, records) -> None:
    """The cache of drawn visits, the cache of given visits and one pass over all tokens give the same states."""
    network, n = made(world, shape, **parts), 12
    attributes = torch.from_numpy(records.attribute_rows(np.arange(n)))
    noise = Noise(3, np.arange(n), 0)
    nothing = np.zeros(n, dtype=np.int64)
    begun = network.begin(attributes, noise)
    visit = network.draw_visit(begun, DrawRule(), noise)
    drawn, after = visit.drawn, visit.after
    given = network.absorb(begun, drawn, nothing)
    assert torch.allclose(given.last, after.last, atol=1e-5)
    gap = np.full(n, 20) if network.with_days else nothing
    states = [network.after_days(state, gap).last for state in (given, after)]
    assert torch.allclose(*states, atol=1e-5)
    starts = np.searchsorted(drawn[0], np.arange(n))
    patients = [[[world.vocabulary.tokens[c] for c in codes]] for codes in np.split(drawn[1], starts[1:])]
    single = Cohort.of(patients, world.vocabulary)
    batch = Records(single, 12).batch(np.arange(n))
    if not network.attributes:
        tokens = network._tokens(batch)
        with torch.no_grad():
            packed = network._states(batch, tokens)
        ends = tokens.row[torch.cumsum(tokens.sizes + 1, 0) - 1]
        assert torch.allclose(packed[ends], after.last, atol=1e-5)


def test_no_code_comes_twice_and_no_visit_is_empty(world, shape, starts) -> None:
    network = made(world, shape, **ALL_PARTS)
    attributes, noise = starts(30)
    with torch.no_grad():
        network.bias[network.n_codes :] = -5.0  # long visits
    who, codes = network.draw_visit(network.begin(attributes, noise), DrawRule(), noise).drawn
    assert len(np.unique(who * world.n_codes + codes)) == len(codes) > 80
    assert np.array_equal(np.unique(who), np.arange(30))


@pytest.mark.parametrize("parts", [{}, {"copy_head": True, "shrinkage": 5.0}])
def test_the_loss_is_the_sum_of_the_likelihoods(parts: dict, world, shape, records, monkeypatch) -> None:
    """With logits in one piece or in many; a prior leaves out each patient's own pairs and is another loss."""
    network = made(world, shape, **parts)
    batch = records.batch(np.arange(30))
    whole = float(network.loss(batch, None).detach())
    assert whole == pytest.approx(float(network.likelihood(batch).record.sum()), rel=1e-5)
    monkeypatch.setattr("adapcla.models.gpt._LOGITS_AT_ONCE", 1000)
    assert float(network.loss(batch, None).detach()) == pytest.approx(whole, rel=1e-6)


def test_gradients_do_not_depend_on_the_pieces(world, shape, records, monkeypatch) -> None:
    network = made(world, shape, **ALL_PARTS).train()
    network.dropout.p = 0.0
    for layer in network.trunk.layers:
        layer.dropout.p = 0.0  # type: ignore[union-attr]
    batch = replace(records, order=network.order).batch(np.arange(30))

    def gradients() -> list[torch.Tensor]:
        network.zero_grad()
        network.loss(batch, None).backward()
        return [p.grad.clone() for p in network.parameters() if p.grad is not None]

    one = gradients()
    monkeypatch.setattr("adapcla.models.gpt._LOGITS_AT_ONCE", 1000)
    two = gradients()
    assert len(one) == len(two) == len(list(network.parameters()))
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(one, two, strict=True))


def test_training_leaves_each_patient_out(world, shape) -> None:
    """The training loss of one patient is that of a model whose counts never saw the patient."""
    patients = [[["A", "B"], ["A", "C"]], [["A", "B", "C"]], [["B", "C"]], [["A"], ["B", "C"]]] * 6
    cohort = Cohort.of(patients)
    network = made(cohort, Shape(3, 12), dropout=0.0, prior=True, prior_strength=20.0)
    one = Records(cohort, 12, network.order).batch(np.array([0]))
    with_own = float(network.loss(one, None).detach())
    without_own = float(network.train().loss(one, None).detach())
    fewer = made(cohort, Shape(3, 12), dropout=0.0, prior=True, prior_strength=20.0)
    fewer.observe(Records(cohort.subset(np.arange(1, len(patients))), 12), Shape(3, 12))
    # What chance would give is that of all patients, as it is in training.
    assert fewer.prior is not None and network.prior is not None
    fewer.prior.__dict__["_places"] = fewer.prior.places._replace(
        expected=network.prior.places.expected, family_expected=network.prior.places.family_expected
    )
    assert without_own != pytest.approx(with_own, abs=1e-4)
    left_out = float(fewer.loss(one, None).detach())
    assert abs(without_own - left_out) < 0.35 * abs(with_own - left_out)


def test_the_days_before_a_visit_are_known_to_its_codes() -> None:
    cohort = Cohort.of([[["A"], ["B"]], [["A"], ["C"]]])
    days = np.array([0, 3, 0, 400], dtype=np.int32)
    dated = Cohort(cohort.vocabulary, cohort.codes, cohort.visit_starts, cohort.patient_starts, days=days)
    shape = Shape(3, 12, (), True)
    network = made(dated, shape, spread=0.5)
    near = network.likelihood(Records(dated, 12).batch(np.array([0]))).codes
    moved = Cohort(cohort.vocabulary, cohort.codes, cohort.visit_starts, cohort.patient_starts, days=days[[0, 3, 0, 3]])
    far = network.likelihood(Records(moved, 12).batch(np.array([0]))).codes
    assert near[0] == far[0] and near[1] != far[1]


def test_long_visits_are_closed_and_matching_is_refused(world, shape, starts) -> None:
    network = made(world, shape, longest_visit=3)
    with torch.no_grad():
        network.bias[network.n_codes :] = -30.0
    attributes, noise = starts(20)
    state = network.begin(attributes, noise)
    who = network.draw_visit(state, DrawRule(), noise).who
    assert np.bincount(who).max() == 3
    with pytest.raises(UsageError, match="token by token"):
        network.draw_visit(state, DrawRule(counts=np.array([2])), noise)


def test_sums_of_probabilities_are_expected_counts(world, shape, starts) -> None:
    network = made(world, shape, copy_head=True)
    attributes, noise = starts(150)
    n_repeats, n_tokens = network.copy_head.numel(), network.n_codes + network.n_gaps + 1
    network.probability_sum = torch.zeros(3, n_tokens + n_repeats + 1, dtype=torch.float64)
    visit = network.draw_visit(network.begin(attributes, noise), DrawRule(), noise)
    codes, repeats = visit.codes, network.probability_sum[0, n_tokens:-1]
    assert float(repeats.sum()) == 0
    expected = network.probability_sum[0, : network.n_codes].numpy()
    drawn = np.bincount(codes, minlength=world.n_codes)
    assert abs(drawn.sum() - expected.sum()) < 4 * np.sqrt(expected.sum())
    assert float(network.probability_sum[0, network.n_codes : n_tokens].sum()) == pytest.approx(150, abs=40)
    assert (np.abs(drawn - expected) < 5 * np.sqrt(expected) + 2).all()
    # In the second visit codes of the first come again, of bands and in numbers that the sums say.
    state, later = network.after_days(visit.after, np.zeros(150, dtype=np.int64)), replace(noise, place=1)
    again = network.draw_visit(state, DrawRule(), later)
    held = set(zip(visit.who.tolist(), codes.tolist(), strict=True))
    band = network.band.numpy()
    drawn = np.bincount(
        [band[code] for who, code in zip(again.who, again.codes, strict=True) if (who, code) in held],
        minlength=n_repeats // 2,
    )
    expected, earlier = network.probability_sum[0, n_tokens:-1].view(2, -1).numpy()
    assert drawn.sum() > 20 and (np.abs(drawn - expected) < 5 * np.sqrt(expected) + 2).all()
    assert earlier.sum() == 0
