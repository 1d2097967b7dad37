"""The private step: exact gradients of each patient, the right noise, the same draws again, a secret that is kept."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from adapcla.data import Cohort
from adapcla.errors import ExistsError, InterruptedRun, UsageError
from adapcla.generation import generator_for
from adapcla.generation.fitting import initial_model, objective_for
from adapcla.io import simulator as planted
from adapcla.models.base import Moment
from adapcla.models.batch import Records
from adapcla.training.checkpoint import Checkpoints
from adapcla.training.distributed import Processes
from adapcla.training.loop import Loop
from adapcla.training.privacy import SECRET, PrivateStep, clip_factor, clipped_one_by_one, one_gradient, secret_of
from adapcla.training.settings import Privacy

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("opacus") is None, reason="opacus is not installed: pip install 'adapcla[dp]'"
)
_SMALL = {"width": 16, "layers": 1, "heads": 2, "passes": 2, "batch_size": 60, "validations": 4}
_MOMENT = Moment(1, 10, 1)


@pytest.fixture(scope="module")
def world() -> tuple[Cohort, Cohort]:
    train, valid, _ = planted.simulate(patients=260, codes=60, seed=1).split(seed=4)
    return train, valid


def digest(generator: Any) -> str:
    found = hashlib.sha256()
    for name, value in sorted(generator.model.network.state_dict().items()):
        found.update(name.encode() + value.numpy().tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("method", ["adapcla", "tailwise", "lstm", "gpt"])
def test_gradients_of_patients_add_up_to_that_of_the_batch(world: tuple[Cohort, Cohort], method: str) -> None:
    """Without a bound and without dropout, patients one by one give what the plain loss gives for all of them."""
    train = world[0]
    generator = generator_for(method, width=16, layers=1, heads=2, dropout=0.0)
    objective = objective_for(initial_model(generator.settings, train))
    objective.modules.train()
    parameters = list(objective.modules.parameters())
    records = Records(train, 9, objective.modules.order)  # type: ignore[arg-type]
    patients = np.arange(12)
    expected = torch.autograd.grad(objective.loss(records.batch(patients), _MOMENT), parameters, allow_unused=True)
    clipped_one_by_one(objective, records, patients, _MOMENT, parameters, clip=1e9)
    for parameter, whole in zip(parameters, expected, strict=True):
        torch.testing.assert_close(
            parameter.grad, torch.zeros_like(parameter) if whole is None else whole, rtol=1e-4, atol=1e-4
        )


def test_no_patient_moves_the_sum_by_more_than_the_bound(world: tuple[Cohort, Cohort]) -> None:
    """What sensitivity means: with and without a patient, the sums differ by at most the bound."""
    generator = generator_for("lstm", width=16, layers=1, dropout=0.0)
    objective = objective_for(initial_model(generator.settings, world[0]))
    parameters = list(objective.modules.parameters())
    records = Records(world[0], 9, objective.modules.order)  # type: ignore[arg-type]
    sums = []
    for patients in (np.arange(5), np.arange(6)):
        clipped_one_by_one(objective, records, patients, _MOMENT, parameters, clip=0.5)
        sums.append(torch.cat([p.grad.reshape(-1).double() for p in parameters]))  # type: ignore[union-attr]
    assert 0.49 < float((sums[1] - sums[0]).norm()) <= 0.5 + 1e-5
    assert one_gradient(objective, records, 5, _MOMENT, parameters)[0] > 0


def test_factors_cut_and_leave_alone() -> None:
    assert clip_factor(2.0, 1.0) == 0.5 and clip_factor(0.1, 1.0) == 1.0
    assert np.isnan(clip_factor(float("nan"), 1.0))


def test_noise_has_the_deviation_that_was_accounted_for() -> None:
    """On a sum of zeros: deviation noise · clip / batch = 1.5 · 2 / 10 = 0.3, mean 0, over 20,000 numbers."""
    parameter = nn.Parameter(torch.zeros(100, 200))
    step = PrivateStep(secret=9, noise=1.5, clip=2.0, rate=0.1, batch_size=10)
    norm = step.add_noise([parameter], 3)
    assert parameter.grad is not None
    first = parameter.grad.clone()
    assert float(first.std()) == pytest.approx(0.3, rel=0.02) and abs(float(first.mean())) < 4 * 0.3 / 141
    assert norm == pytest.approx(float(first.norm()), rel=1e-5)
    for number, same in ((3, True), (4, False)):
        parameter.grad = None
        step.add_noise([parameter], number)
        assert torch.equal(parameter.grad, first) is same


def test_patients_are_drawn_one_by_one_with_the_rate_that_was_accounted_for() -> None:
    """400 steps of 1,000 patients at 0.1: 100 a step, varying as a binomial does (deviation 9.5)."""
    step = PrivateStep(secret=9, noise=1.0, clip=1.0, rate=0.1, batch_size=100)
    drawn = [step.drawn(number, 1000) for number in range(400)]
    sizes = np.array([len(patients) for patients in drawn])
    assert sizes.mean() == pytest.approx(100, abs=2) and 8 < sizes.std() < 11
    assert np.array_equal(drawn[7], step.drawn(7, 1000)) and not np.array_equal(drawn[7], drawn[8])
    assert np.bincount(np.concatenate(drawn), minlength=1000).min() > 10


@pytest.mark.parametrize("noise_seed", [None, 5])
def test_a_stopped_and_resumed_run_ends_in_the_same_bytes(
    noise_seed: int | None, world: tuple[Cohort, Cohort], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a secret that only the run's folder knows: two folders with the same one are compared."""
    small = {**_SMALL, "privacy": {"epsilon": 8, "noise_seed": noise_seed}}
    one, other = tmp_path / "one", tmp_path / "other"
    whole = generator_for("adapcla", **small).fit(*world, folder=one)
    original = Loop._one_step

    def stopping(self: Loop, bar: Any) -> None:
        self.stop_asked = self.step == 3
        original(self, bar)

    monkeypatch.setattr(Loop, "_one_step", stopping)
    if noise_seed is None:
        other.mkdir()
        (other / SECRET).write_bytes((one / SECRET).read_bytes())
    with pytest.raises(InterruptedRun):
        generator_for("adapcla", **small).fit(*world, folder=other, resume=True)
    monkeypatch.setattr(Loop, "_one_step", original)
    resumed = generator_for("adapcla", **small).fit(*world, folder=other, resume=True)
    assert digest(resumed) == digest(whole)
    assert np.array_equal(resumed.prevalence_.share, whole.prevalence_.share)


def test_two_runs_have_two_secrets(world: tuple[Cohort, Cohort]) -> None:
    small = {**_SMALL, "passes": 0.2, "privacy": {"epsilon": 8}}
    assert digest(generator_for("adapcla", **small).fit(*world)) != digest(
        generator_for("adapcla", **small).fit(*world)
    )


def test_the_secret_is_kept_for_a_resumed_run_and_made_anew_otherwise(tmp_path: Path) -> None:
    privacy = Privacy()
    first = secret_of(privacy, 1, tmp_path, resume=False)
    assert first.bit_length() > 128 and secret_of(privacy, 1, tmp_path, resume=True) == first
    assert secret_of(privacy, 1, tmp_path, resume=False) != first
    assert (tmp_path / SECRET).stat().st_mode & 0o077 == 0
    fixed = Privacy(noise_seed=3)
    assert secret_of(fixed, 1, tmp_path, resume=False) == secret_of(fixed, 1, None, resume=False)
    assert secret_of(fixed, 1, None, resume=False) != secret_of(fixed, 2, None, resume=False)


def test_a_lost_secret_is_not_replaced_in_the_middle_of_a_run(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(1, {"now.a": torch.zeros(1)}, {"step": 1})
    with pytest.raises(ExistsError, match="secret"):
        secret_of(Privacy(), 1, tmp_path, resume=True)


def test_validation_changes_no_weight_and_no_loss_of_a_batch_is_written(
    world: tuple[Cohort, Cohort], tmp_path: Path
) -> None:
    """Two sets of validation patients, and a patience that would stop a plain run: the same weights to the byte."""
    train, valid = world
    small = {**_SMALL, "patience": 1, "validations": 8, "privacy": {"epsilon": 8, "noise_seed": 5}}
    one = generator_for("adapcla", **small).fit(train, valid, folder=tmp_path)
    other = generator_for("adapcla", **small).fit(train, valid.subset(np.arange(3)))
    assert digest(one) == digest(other)
    assert one.outcome_ is not None and one.outcome_.steps == one.outcome_.n_steps == one.outcome_.best_step
    lines = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert not any("loss" in line for line in lines if line["kind"] == "step")


def test_several_processes_are_refused(world: tuple[Cohort, Cohort], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapcla.training.loop.processes", lambda: Processes(0, 2))
    with pytest.raises(UsageError, match="several processes"):
        generator_for("adapcla", **_SMALL, privacy={"epsilon": 8}).fit(*world)
