"""Targets in every form that people have them; the closed loop comes nearer than the rule it starts from, and ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from adapcla.data import Cohort, Prevalence
from adapcla.errors import UsageError
from adapcla.generation import Generator, steering
from adapcla.generation.steering import DAMPING, _aim, closed_loop, steer, target_of
from adapcla.scaffold.steering import measure_gap, shift


def test_the_loop_closes_the_gap(plain: Generator) -> None:
    """A small, barely trained model far from its own prevalence: the loop still reaches the target."""
    base = plain.prevalence_
    goal = np.clip(base.share * np.where(np.arange(len(base.share)) % 2, 1.6, 0.6), 0, 0.9)
    start = steer(plain.model, Prevalence(base.vocabulary, goal))
    loop = closed_loop(plain.model, start, seed=1, pilot=1500)
    before = plain.sample(1500, seed=9, toward=start)
    after = plain.sample(1500, seed=9, toward=loop)
    paper = measure_gap(start.target, before.prevalence(), before.n_visits)
    closed = measure_gap(loop.target, after.prevalence(), after.n_visits)
    assert closed.inside_sampling_error >= max(0.9, paper.inside_sampling_error)
    assert closed.mae < paper.mae


def test_half_strength_aims_half_way_in_log_odds() -> None:
    """From 0.2 to 0.8 the log-odds run from −1.386 to 1.386: half way is 0.5."""
    source, target = Prevalence.of({"A": 0.2}), Prevalence.of({"A": 0.8})
    assert _aim(source, shift(source, target, strength=0.5)).share.tolist() == pytest.approx([0.5])


def test_the_loop_ends_when_it_is_closed_and_not_before(plain: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the model writes anyway is inside at the first look; a loop that is never closed takes every round."""
    rounds: list[int] = []

    def count(*arguments: object) -> Cohort:
        rounds.append(1)
        return sample(*arguments)

    sample = steering.sample
    monkeypatch.setattr(steering, "sample", count)
    own = sample(plain.model, 4000, 5).prevalence()
    unmoved = closed_loop(plain.model, shift(own, own), seed=2, pilot=400)
    assert len(rounds) == 1 and np.array_equal(unmoved.delta, shift(own, own).delta)
    rounds.clear()
    monkeypatch.setattr(steering, "CLOSED", 1.1)
    closed_loop(plain.model, shift(own, own), seed=2, pilot=400)
    assert len(rounds) == len(DAMPING)


def test_every_form_gives_the_same_prevalence(tiny: Cohort, tmp_path: Path) -> None:
    folder = tiny.save(tmp_path / "cohort")
    file = tmp_path / "prior.csv"
    file.write_text("code,prevalence\nA,0.6\nB,0.6\nC,0.2\nD,0.2\n")
    forms = [
        tiny,
        folder,
        str(folder),
        file,
        tiny.prevalence(),
        Prevalence.of({"A": 0.6, "B": 0.6, "C": 0.2, "D": 0.2}),
    ]
    for form in forms:
        found = target_of(form)
        prevalence = found.prevalence() if isinstance(found, Cohort) else found
        assert prevalence.share.tolist() == [0.6, 0.6, 0.2, 0.2]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        target_of(tmp_path / "nothing.csv")
