"""The loop: same bytes after any interruption, and nothing that is not finite is kept."""

from __future__ import annotations

import hashlib
import json
import signal
from pathlib import Path

import pytest
import torch
from torch import nn

from adapcla.data import Cohort
from adapcla.errors import AdapclaError, InterruptedRun, UsageError
from adapcla.generation import generator_for
from adapcla.generation.fitting import initial_model, objective_for
from adapcla.generation.model import seen_records
from adapcla.io import simulator as planted
from adapcla.models.base import Moment
from adapcla.training import loop as loop_module
from adapcla.training.loop import Loop

_SMALL = {"width": 16, "layers": 1, "heads": 2, "passes": 3, "batch_size": 40, "validations": 6, "dropout": 0.2}


@pytest.fixture(scope="module")
def world() -> tuple[Cohort, Cohort]:
    train, valid, _ = planted.simulate(patients=260, codes=60, seed=1).split(seed=4)
    return train, valid


def _weights(generator: object) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(generator.model.network.state_dict().items()):  # type: ignore[attr-defined]
        digest.update(name.encode() + value.numpy().tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("method", ["adapcla", "tailwise", "release-stages"])
def test_a_stopped_and_resumed_run_ends_in_the_same_bytes(
    method: str, world: tuple[Cohort, Cohort], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {**_SMALL, "calibration_rounds": int(method == "tailwise")}
    whole = generator_for(method, **small).fit(*world)
    original = Loop._one_step

    def stop_at(steps: int) -> None:
        def step(self: Loop, bar: object) -> None:
            if self.step == steps:
                self.stop_asked = True
            original(self, bar)  # type: ignore[arg-type]

        monkeypatch.setattr(Loop, "_one_step", step)

    for steps in (2, 9):
        stop_at(steps)
        with pytest.raises(InterruptedRun, match="--resume"):
            generator_for(method, **small).fit(*world, folder=tmp_path, resume=True)
    monkeypatch.setattr(Loop, "_one_step", original)
    resumed = generator_for(method, **small).fit(*world, folder=tmp_path, resume=True)
    assert _weights(resumed) == _weights(whole)
    assert resumed.outcome_.best_step == whole.outcome_.best_step  # type: ignore[union-attr]
    lines = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    steps = [line["step"] for line in lines if line["kind"] == "validation"]
    assert steps == sorted(set(steps))


def test_the_last_weights_are_kept_when_they_are_asked_for(world: tuple[Cohort, Cohort]) -> None:
    """At this rate validation is best long before the end and would stop the run."""
    hasty = {**_SMALL, "passes": 12, "learning_rate": 0.05, "patience": 1, "schedule": "none"}

    class Ending(_Looker):
        def look(self, modules: nn.Module, moment: Moment) -> None:
            super().look(modules, moment)
            self.weights = {name: value.clone() for name, value in modules.state_dict().items()}

    ending = Ending()
    last = generator_for("adapcla", last_weights=True, **hasty).fit(*world, observers=[ending])
    best = generator_for("adapcla", **hasty).fit(*world)
    assert best.outcome_ is not None and best.outcome_.stopped_early
    assert last.outcome_ is not None and last.outcome_.best_step == last.outcome_.steps == last.outcome_.n_steps
    assert last.outcome_.best_loss > best.outcome_.best_loss
    for name, value in last.model.network.state_dict().items():
        if name != "going_on.bias":  # refitted after training
            assert torch.equal(value, ending.weights[name]), name


def test_another_seed_gives_other_weights(world: tuple[Cohort, Cohort]) -> None:
    small = {**_SMALL, "passes": 1}
    assert _weights(generator_for("adapcla", **small).fit(*world)) != _weights(
        generator_for("adapcla", seed=2, **small).fit(*world)
    )


def test_pieces_of_a_batch_add_up_to_the_batch(world: tuple[Cohort, Cohort]) -> None:
    """Without dropout, computing a batch in small pieces changes the weights by rounding only."""
    small = {**_SMALL, "passes": 1, "dropout": 0.0}
    one = generator_for("adapcla", **small).fit(*world).model.network.state_dict()
    many = generator_for("adapcla", rows_at_once=16, **small).fit(*world).model.network.state_dict()
    for name, value in one.items():
        torch.testing.assert_close(many[name], value, rtol=2e-2, atol=2e-3)


class _Looker:
    looks = 5

    def __init__(self) -> None:
        self.steps: list[int] = []

    def look(self, modules: nn.Module, moment: Moment) -> None:
        assert not modules.training
        self.steps.append(moment.step)


def test_observers_look_before_the_first_step_and_after_the_last(world: tuple[Cohort, Cohort]) -> None:
    looker = _Looker()
    generator = generator_for("adapcla", **_SMALL).fit(*world, observers=[looker])
    assert generator.outcome_ is not None
    assert looker.steps[0] == 0 and looker.steps[-1] == generator.outcome_.n_steps and len(looker.steps) == 5


@pytest.mark.parametrize("where", ["loss", "gradient", "parameter", "optimiser", "rate", "prior"])
def test_a_number_that_is_none_stops_the_run_at_its_step(
    where: str, world: tuple[Cohort, Cohort], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Loop._update

    def poisoned(self: Loop, moment: Moment) -> tuple[float, float]:
        if moment.step == 4:
            parameter = next(iter(self.objective.modules.parameters()))
            if where == "loss":
                monkeypatch.setattr(self, "scale", float("nan"))
            elif where == "gradient":
                parameter.register_hook(lambda gradient: gradient * float("inf"))
            elif where == "parameter":
                parameter.data.view(-1)[0] = float("nan")
            elif where == "optimiser":
                self.optimisers["main"].state[parameter]["exp_avg"].fill_(float("nan"))
            elif where == "rate":
                monkeypatch.setattr(type(self.budget), "rate", lambda *_: float("inf"))
            else:
                rule = self.objective.rule
                self.objective.rule = rule._replace(bias=rule.bias * float("nan"))  # type: ignore[attr-defined]
        return original(self, moment)

    monkeypatch.setattr(Loop, "_update", poisoned)
    with pytest.raises(AdapclaError, match=r"step 4: .* (nan|inf)"):
        generator_for("adapcla", checkpoint_seconds=0, **_SMALL).fit(*world, folder=tmp_path)
    tensors, state = loop_module.Checkpoints(tmp_path).latest()  # type: ignore[misc]
    assert state["step"] == 4
    assert all(torch.isfinite(value).all() for value in tensors.values() if value.is_floating_point())


def test_a_signal_checkpoints_and_says_how_to_go_on(
    world: tuple[Cohort, Cohort], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Loop._update

    def signalled(self: Loop, moment: Moment) -> tuple[float, float]:
        if moment.step == 2:
            signal.raise_signal(signal.SIGTERM)
        return original(self, moment)

    monkeypatch.setattr(Loop, "_update", signalled)
    with pytest.raises(InterruptedRun) as stopped:
        generator_for("adapcla", **_SMALL).fit(*world, folder=tmp_path)
    assert stopped.value.exit_code == 130
    assert loop_module.Checkpoints(tmp_path).latest() is not None


def test_training_leaves_the_processor_as_it_was(world: tuple[Cohort, Cohort]) -> None:
    """Tiny numbers count as 0 inside the loop only; other code of the process relies on them."""
    generator_for("adapcla", width=16, layers=1, heads=2, passes=0.1, batch_size=64).fit(*world)
    assert float(torch.tensor(1e-310, dtype=torch.float64) * 0.5) > 0


def test_a_device_that_would_be_ignored_is_refused(world: tuple[Cohort, Cohort]) -> None:
    with pytest.raises(UsageError, match="cuda"):
        generator_for("adapcla", device="cuda", **_SMALL).fit(*world)


def test_a_pass_shuffles_everybody_once_and_visits_everybody_once(
    world: tuple[Cohort, Cohort], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shuffling at every step would make a pass over a million patients grow with the square."""
    shuffles: list[tuple[object, ...]] = []
    original = loop_module.random_stream

    def count(*key: object) -> object:
        shuffles.append(key)
        return original(*key)  # type: ignore[arg-type]

    seen: list[list[int]] = []
    draw = Loop._draw

    def noted(self: Loop, step: int) -> object:
        chosen = draw(self, step)
        seen.append(chosen.tolist())
        return chosen

    monkeypatch.setattr(loop_module, "random_stream", count)
    monkeypatch.setattr(Loop, "_draw", noted)
    generator_for("adapcla", **{**_SMALL, "patience": 1000}).fit(*world)
    steps = -(-world[0].n_patients // 40)
    assert len(shuffles) == 3 and len(seen) == 3 * steps
    assert sorted(patient for chosen in seen[:steps] for patient in chosen) == list(range(world[0].n_patients))
    assert seen[0] != seen[steps]


def test_the_decay_of_a_parameter_is_what_its_module_says_and_not_its_name(world: tuple[Cohort, Cohort]) -> None:
    generator = generator_for("adapcla", **{**_SMALL, "weight_decay": 0.5, "table_decay": 0.25})
    model = initial_model(generator.settings, world[0])
    model.network.owner = nn.Linear(2, 2, bias=False)
    model.network.owner.own_ways = nn.Parameter(torch.zeros(2, 2))  # a name like that of a code table
    records = seen_records(generator.settings, world[0])
    loop = Loop(objective_for(model), records, records, generator.settings.budget, 1)
    decay = {
        id(parameter): group["weight_decay"]
        for group in loop.optimisers["main"].param_groups
        for parameter in group["params"]
    }
    assert decay[id(model.network.owner.own_ways)] == 0.5
    assert decay[id(model.network.table.own)] == 0.25 and decay[id(model.network.head.table.own)] == 0.25
    assert decay[id(model.network.head.bias)] == 0.0
