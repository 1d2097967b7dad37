"""Choice groups: one category or none, in every network that draws them, exactly."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from adapcla.data import Code, Cohort, Vocabulary
from adapcla.data.vocabulary import LENGTH_OF_STAY, discharge_code, visit_kind_code
from adapcla.models.base import DrawRule, Network, Shape
from adapcla.models.batch import Batch, Records, pack
from adapcla.models.choice_groups import Groups, Run, choices_
from adapcla.models.code_order import frequency_order
from adapcla.models.draws import Noise
from adapcla.models.registry import FAMILIES
from adapcla.seeds import random_stream

#: Two kinds, two lengths of stay, two codes of their own, a value in two bands, two endings.
WORLD = Vocabulary.of(
    [
        visit_kind_code("inpatient"),
        visit_kind_code("outpatient"),
        *(Code(f"STAY/days/b0{i}", "STAY", domain="stay", group=LENGTH_OF_STAY.token) for i in range(2)),
        "A",
        "B",
        *(Code(f"LAB/x/b0{i}", "LAB", domain="lab", group="LAB/x") for i in range(3)),
        discharge_code("home"),
        discharge_code("died"),
    ]
)
UNITS = [np.flatnonzero(WORLD.group_of_code == g).tolist() for g in range(len(WORLD.groups))]
UNITS += [[code] for code in np.flatnonzero(WORLD.group_of_code < 0).tolist()]
#: Every visit that there can be.
EVERY = [sorted(c for c in chosen if c >= 0) for chosen in itertools.product(*([-1, *unit] for unit in UNITS))]


def some_cohort(n_patients: int, seed: int, ends: bool = True) -> Cohort:
    """Patients of visits at random; death ends a record."""
    random = random_stream(seed, "choices")
    patients = []
    for _ in range(n_patients):
        visits = []
        for _ in range(int(random.integers(1, 5))):
            visit = EVERY[int(random.integers(1, len(EVERY)))]
            visits.append([WORLD.tokens[code] for code in visit])
            if ends and "END/died" in visits[-1]:
                break
        patients.append(visits)
    return Cohort.of(patients, WORLD)


NETWORKS: dict[str, dict[str, Any]] = {
    "independent": {"family": "visits"},
    "lstm": {"family": "visits", "trunk": "lstm"},
    "gpt": {"family": "gpt"},
    "tailwise": {"family": "gpt", "prior": True, "shrinkage": 5.0, "copy_head": True},
    "marginal": {"family": "marginal"},
}  # fmt: skip


#: A closing token comes after at least one code.
OF_TOKENS = ("gpt", "tailwise")


def network_of(name: str) -> Network:
    """A network with weights at random that has seen some patients."""
    settings = {"width": 16, "layers": 1, "heads": 2, "context": 8, **NETWORKS[name]}
    family = FAMILIES[settings.pop("family")]
    known = {key: value for key, value in settings.items() if key in family.architecture.model_fields}
    cohort = some_cohort(80, seed=1)
    torch.manual_seed(3)
    network = family.network(family.architecture(**known), Shape(len(WORLD), 8), cohort.prevalence())
    if family.count is not None:
        family.count(network, Records(cohort, 8, network.order))
    n_pairs = network.observe(Records(cohort, 8), Shape(cohort.n_codes, 8)).n_pairs
    assert bool(n_pairs) == ("prior" in NETWORKS[name])
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network.eval()


def after(network: Network, history: list[list[int]], visits: list[list[int]]) -> Batch:
    """Patients who all have this history and then one of the visits each."""
    records = [[*history, visit] for visit in visits]
    flat = [visit for record in records for visit in record]
    sizes, lengths = (np.array([len(part) for part in parts]) for parts in (flat, records))
    codes = np.array([code for visit in flat for code in visit], dtype=np.int32)
    none = np.zeros((len(records), 0), dtype=np.int64)
    return pack(network.order.encode(codes), sizes, lengths, none, np.zeros(len(flat), dtype=np.int64))


HISTORY = [[0, 4, 6], [1, 2, 5, 8]]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_chances_of_all_visits_sum_to_one(name: str) -> None:
    possible = EVERY[1:] if name in OF_TOKENS else EVERY
    network = network_of(name)
    for history in ([], HISTORY):
        for bias in (None, torch.linspace(-1, 1, len(WORLD))):
            nll = network.likelihood(after(network, history, possible), bias).codes[len(history) :: len(history) + 1]
            assert float(torch.exp(-nll.double()).sum()) == pytest.approx(1.0, abs=2e-5)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "marginal"])
def test_the_loss_is_the_likelihood(name: str) -> None:
    network = network_of(name)
    batch = Records(some_cohort(20, seed=5), 8, network.order).batch(np.arange(20))
    bias = torch.linspace(-1, 1, len(WORLD))
    loss = float(network.loss(batch, bias).detach())
    assert loss == pytest.approx(float(network.likelihood(batch, bias).record.sum()), rel=1e-5)


def by_visit(network: Network, name: str, bias: torch.Tensor | None) -> NDArray[np.float64]:
    """The chance of each possible visit after the history."""
    possible = EVERY[1:] if name in OF_TOKENS else EVERY
    nll = network.likelihood(after(network, HISTORY, possible), bias).codes[len(HISTORY) :: len(HISTORY) + 1]
    chance = torch.exp(-nll.double()).numpy()
    return np.r_[0.0, chance] if name in OF_TOKENS else chance


def p_value(found: NDArray[np.int64], chance: NDArray[np.float64]) -> float:
    """Of a χ² over the visits that are expected often enough, the others together."""
    expected = chance * found.sum() / chance.sum()
    often = expected >= 10
    folded = [np.append(counts[often], counts[~often].sum()) for counts in (found, expected)]
    kept = folded[1] > 0
    return float(stats.chisquare(folded[0][kept], folded[1][kept]).pvalue)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("shifted", [False, True])
def test_visits_come_at_their_likelihood(name: str, shifted: bool) -> None:
    network, n = network_of(name), 20_000
    bias = torch.linspace(-1, 1, len(WORLD)) if shifted else None
    state = network.begin(torch.zeros(n, 0, dtype=torch.int64), Noise(5, np.arange(n), 0))
    for visit in HISTORY:
        who, codes = np.repeat(np.arange(n), len(visit)), np.tile(network.order.encode(np.array(visit)), n)
        state = network.absorb(state, (who, codes), np.zeros(n, dtype=np.int64))
        state = network.after_days(state, np.zeros(n, dtype=np.int64))
    who, codes = network.draw_visit(state, DrawRule(bias), Noise(5, np.arange(n), 128)).drawn
    mask = np.zeros(n, dtype=np.int64)
    np.add.at(mask, who, 1 << network.order.decode(codes))
    keys = [sum(1 << code for code in visit) for visit in EVERY]
    assert np.isin(mask, keys).all()
    found = np.array([(mask == key).sum() for key in keys])
    assert p_value(found, by_visit(network, name, bias)) > 1e-4
    if shifted:  # the check can fail: the same draws against the law without the shift
        assert p_value(found, by_visit(network, name, None)) < 1e-6


@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_is_asked_after_death(name: str) -> None:
    """A record that ends with death is as likely as its visits; any other ends with a chance, too."""
    network = network_of(name)
    died, home = WORLD.index["END/died"], WORLD.index["END/home"]
    for visit, certain in (([0, died], True), ([0, home], False)):
        likelihood = network.likelihood(after(network, [], [visit]))
        rest = float(likelihood.record - likelihood.codes)
        assert (rest == pytest.approx(0.0, abs=1e-12)) is certain
        assert certain or rest > 0.001


@pytest.mark.parametrize("name", ["independent", "lstm"])
def test_chances_of_the_next_visit_are_those_of_its_likelihood(name: str) -> None:
    network = network_of(name)
    chances = network.next_chances(after(network, HISTORY[:1], HISTORY[1:]))
    assert chances is not None
    nll = network.likelihood(after(network, HISTORY, EVERY)).codes[len(HISTORY) :: len(HISTORY) + 1].double()
    by_code = np.zeros(len(WORLD))
    for visit, chance in zip(EVERY, torch.exp(-nll).tolist(), strict=True):
        by_code[visit] += chance
    assert np.allclose(chances[0].numpy()[network.order.position_of], by_code, atol=2e-5)


def test_the_order_of_drawing() -> None:
    code_of_rank, _ = frequency_order(some_cohort(80, seed=1).prevalence())
    tokens = [WORLD.tokens[code] for code in code_of_rank.tolist()]
    kinds = [token.split("/")[0] for token in tokens]
    assert kinds == [*["KIND"] * 2, *["STAY"] * 2, *tokens[4:6], *["LAB"] * 3, *["END"] * 2]
    assert sorted(tokens[4:6]) == ["A", "B"]


@given(sizes=st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=8), seed=st.integers(0, 9))
def test_runs_and_stretches_cover_all_columns_once(sizes: list[tuple[int, bool]], seed: int) -> None:
    numbers = [number if grouped else -1 for number, (_, grouped) in enumerate(sizes)]
    of_column = np.repeat(numbers, [size for size, _ in sizes])
    groups = Groups.of(of_column)
    if groups is None:
        assert (of_column < 0).all()
        return
    covered = [*(run.columns for run in groups.runs), *groups.plain()]
    assert sorted(i for part in covered for i in range(part.start, part.stop)) == list(range(len(of_column)))
    assert groups.n_groups == len(set(of_column[of_column >= 0]))
    torch.manual_seed(seed)
    logits = torch.randn(3, len(of_column)).double()
    chances = groups.chances(logits)
    for number in set(of_column[of_column >= 0].tolist()):
        mine = torch.from_numpy(of_column == number)
        whole = torch.softmax(torch.cat([logits[:, mine], torch.zeros(3, 1)], dim=1), dim=1)
        assert torch.allclose(chances[:, mine], whole[:, :-1])
    assert torch.allclose(chances[:, of_column < 0], torch.sigmoid(logits[:, of_column < 0]))


def test_large_logits_are_no_trouble() -> None:
    logits = torch.tensor([[[200.0, 190.0], [-300.0, -torch.inf]]])
    sums = choices_(logits)
    assert sums[0].tolist() == pytest.approx([200.0, 0.0], abs=1e-3)
    assert torch.isfinite(logits).all()


def test_groups_that_are_cut_begin_where_they_begin() -> None:
    groups = Groups((Run(2, 3, 4, 0),), 20)
    assert [groups.uncut(edge) for edge in (2, 3, 6, 9, 13, 14, 17)] == [2, 2, 6, 6, 10, 14, 17]
