"""Turns, losses and the watch of the two-stage plan."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from adapcla.io import simulator as planted
from adapcla.models.base import Moment, Shape
from adapcla.models.batch import Records
from adapcla.models.registry import synteg
from adapcla.models.synteg import Adversarial, SyntegArchitecture, SyntegNetwork
from adapcla.training.loop import Loop
from adapcla.training.settings import Budget


@pytest.fixture
def watched_world():
    return Records(planted.simulate(patients=120, codes=45, seed=3), 8)


@pytest.fixture
def objective(watched_world) -> Adversarial:
    torch.manual_seed(1)
    cohort = watched_world.cohort
    categories = tuple(len(cohort.attributes[name].categories) for name in sorted(cohort.attributes))
    settings = SyntegArchitecture(width=16, layers=1, heads=2, context=8, condition=8, noise=6, critic_steps=2)
    return Adversarial(SyntegNetwork(settings, Shape(45, 8, categories, True), cohort.prevalence()))


def turns(objective, n_steps: int) -> str:
    return "".join(objective.turn(Moment(step, n_steps, 1))[0] for step in range(n_steps))


def test_first_the_encoder_then_the_critic_alone_then_both_in_turn(objective):
    """20 steps: 40 % are 8 of the encoder; of the other 12, 15 % are 2 of the critic alone; then 2 to 1."""
    assert turns(objective, 20) == "eeeeeeee" + "cc" + "g" + "ccg" + "ccg" + "ccg"
    assert not objective.is_final(Moment(7, 20, 1)) and objective.is_final(Moment(8, 20, 1))


def test_every_parameter_has_exactly_one_turn(objective):
    named = [name for part in objective.turns().values() for name, _ in part]
    assert sorted(named) == sorted(name for name, _ in objective.modules.named_parameters())
    assert set(objective.turns()) == {"encoder", "critic", "generator"}


def test_a_turn_gives_gradients_to_its_own_part(objective, watched_world):
    batch = watched_world.batch(np.arange(40))
    for step, turn in ((0, "encoder"), (8, "critic"), (10, "generator")):
        objective.modules.zero_grad()
        objective.loss(batch, Moment(step, 20, 1)).backward()
        for part, parameters in objective.turns().items():
            moved = any(p.grad is not None and bool(p.grad.abs().sum() > 0) for _, p in parameters)
            # The generator's loss passes through the critic, whose own optimiser clears it before its turn.
            assert moved == (part == turn or (turn == "generator" and part == "critic")), (turn, part)
    assert {"encoder loss", "critic loss", "generator loss", "distance", "spread", "size"} <= set(objective.notes())


def test_the_critic_learns_to_tell_real_visits_from_made_ones(objective, watched_world):
    """The generator is made to draw what is rare, which is easy to see."""
    batch = watched_world.batch(np.arange(100))
    with torch.no_grad():
        objective.network.generator[-1].bias.copy_(objective.network.generator[-1].bias.flip(0))
    optimiser = torch.optim.Adam([p for _, p in objective.turns()["critic"]], lr=5e-3, betas=(0.5, 0.9))
    torch.manual_seed(2)
    for _ in range(60):
        optimiser.zero_grad()
        (objective.loss(batch, Moment(8, 20, 1)) / batch.n_visits).backward()
        optimiser.step()
    assert objective.notes()["distance"] > 0.3


def test_collapse_is_noticed_and_told_once(objective, monkeypatch, capsys):
    monkeypatch.setattr(synteg, "_PATIENCE", 3)
    monkeypatch.delenv("ADAPCLA_QUIET", raising=False)
    real = torch.eye(6, 45)
    for _ in range(2):
        objective._watch(real.roll(1, dims=1), real)
    assert objective.notes()["collapsed"] == 0.0
    alike = torch.zeros(6, 45).index_fill(1, torch.tensor([3]), 1.0)
    for _ in range(5):
        objective._watch(alike, real)
    assert objective.notes()["collapsed"] == 1.0
    assert capsys.readouterr().err.count("collapsed") == 1


def test_losses_of_all_parts_are_in_the_journal_of_the_loop(objective, watched_world):
    budget = Budget(passes=10, batch_size=60, validations=4, patience=50)
    outcome = Loop(objective, watched_world, watched_world, budget, seed=1).run()
    last = outcome.journal.of_kind("step")[-1]
    assert {"encoder loss", "critic loss", "generator loss", "distance", "spread", "collapsed"} <= set(last)
    looks = outcome.journal.of_kind("validation")
    assert [look["settled"] for look in looks] == [False, True, True, True]
    assert outcome.best_step > 8
