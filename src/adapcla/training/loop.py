"""The training loop, the only one in the project.

Every draw is keyed by seed and step, so the loop carries no state of random numbers: a run that is killed and
resumed ends in the same bytes as one that was not.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adapcla.console import Meter, meter, say
from adapcla.errors import AdapclaError, InterruptedRun, UsageError
from adapcla.machine import thread_count
from adapcla.models.base import Moment, Objective
from adapcla.models.batch import Records
from adapcla.seeds import random_stream, stream_key
from adapcla.training.checkpoint import Checkpoints, Journal, parse_checkpoint
from adapcla.training.distributed import chosen_device, computing_on, processes
from adapcla.training.privacy import PrivateStep
from adapcla.training.settings import Budget


class Observer(Protocol):
    """An object that looks at the modules during training, as probes do."""

    #: How many looks over the whole run, the first before any step.
    looks: int

    def look(self, modules: nn.Module, moment: Moment) -> None:
        """Called with the modules in evaluation mode."""


@dataclass
class Outcome:
    """The result of a run."""

    best_loss: float
    best_step: int
    steps: int
    n_steps: int
    seconds: float
    stopped_early: bool
    journal: Journal = field(repr=False)


class Loop:
    """One run of an objective over a budget."""

    def __init__(
        self,
        objective: Objective,
        train: Records,
        valid: Records,
        budget: Budget,
        seed: int,
        folder: Path | None = None,
        observers: Sequence[Observer] = (),
        private: PrivateStep | None = None,
        last_weights: bool = False,
    ) -> None:
        #: How the gradient of a step is made when patients are protected; None sums it plainly.
        self.private = private
        #: Whether no weights are chosen by validation: patients that are protected must not be looked at for that.
        self.last_weights = last_weights or private is not None
        self.objective, self.train, self.valid, self.budget, self.seed = objective, train, valid, budget, seed
        self.observers = observers
        self.n_steps = budget.steps(train.cohort.n_patients)
        self.checkpoints = None if folder is None else Checkpoints(folder)
        self.processes = processes()
        self.device = chosen_device(budget.device)
        if self.device.type != "cpu" and (observers or private is not None):
            raise UsageError(f"device {budget.device!r}: probes and privacy are computed on processors: leave it out")
        objective.modules.to(self.device)
        if private is not None and self.processes.count > 1:
            raise UsageError("differential privacy with several processes: this version has one\nto do: start one")
        self.journal = Journal(folder / "journal.jsonl" if folder is not None and self.processes.main else None)
        self.optimisers = {name: self._optimiser(name, list(params)) for name, params in objective.turns().items()}
        #: Losses are divided by a constant, not by the batch's own rows, so that every visit weighs the same.
        self.scale = budget.batch_size * train.cohort.n_visits / train.cohort.n_patients
        self.n_patients = train.cohort.n_patients
        #: (patients,) visits that a step computes of each.
        self.visits = np.minimum(train.cohort.visits_per_patient, train.context)
        self.step, self.best_loss, self.best_step, self.bad_looks = 0, math.inf, -1, 0
        self.best: dict[str, Tensor] = {}
        self.spent = 0.0
        self._order: tuple[int, NDArray[np.int64]] | None = None
        self.stop_asked = self._stopping = False

    def _optimiser(self, turn: str, named: list[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
        """AdamW; parameters that share a weight decay and a multiple of the learning rate are a group."""
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for _, parameter in named:
            in_table = getattr(parameter, "in_table", False)
            usual = self.budget.table_decay if in_table else self.budget.weight_decay
            decay = getattr(parameter, "weight_decay", None)
            decay = (usual if parameter.dim() > 1 else 0.0) if decay is None else decay
            groups.setdefault((decay, getattr(parameter, "rate_factor", 1.0)), []).append(parameter)
        made = [{"params": some, "weight_decay": decay, "factor": rate} for (decay, rate), some in groups.items()]
        betas = self.objective.betas.get(turn, (0.9, 0.99))
        return torch.optim.AdamW(made, lr=self.budget.learning_rate, betas=betas, fused=True)

    # ---- running ----------------------------------------------------------------------------------------
    def run(self, resume: bool = False) -> Outcome:
        """Train to the end of the budget, or until validation says stop; modules then hold the best or last weights."""
        if resume:
            self._restore()
        # Nobody may write the next checkpoint while another still reads this one.
        self.processes.wait()
        # Sampling goes on with the same number: the bytes of a result depend on it.
        torch.set_num_threads(thread_count(self.budget.threads))
        self._started = self._saved = time.monotonic()
        with _signals(self), _no_denormals(), computing_on(self.device), meter("train", self.n_steps) as bar:
            bar.advance(self.step)
            self._observe()
            while self.step < self.n_steps and not self._out_of_patience():
                self._one_step(bar)
        self._save()
        stopped = self.step < self.n_steps
        if self.best:
            self.objective.modules.load_state_dict(self.best)
        self.objective.modules.to("cpu").eval()
        return Outcome(self.best_loss, self.best_step, self.step, self.n_steps, self._seconds(), stopped, self.journal)

    def seconds_per_step(self, seconds: float) -> float:
        """The seconds of a step on this machine at this moment, by real steps for so many seconds.

        The network has learned from them afterwards, so that a run needs a loop of its own.
        """
        torch.set_num_threads(thread_count(self.budget.threads))
        with _no_denormals(), computing_on(self.device):
            # The first step also allocates what all others use again.
            self._update(Moment(0, self.n_steps, self.seed))
            began, n = time.monotonic(), 0
            while n < 3 or time.monotonic() - began < seconds:
                n += 1
                self._update(Moment(n, max(self.n_steps, n + 1), self.seed))
        return (time.monotonic() - began) / n

    def _one_step(self, bar: Meter) -> None:
        moment = Moment(self.step, self.n_steps, self.seed)
        loss, norm = self._update(moment)
        self.step += 1
        alpha = self.objective.weight(moment)
        seconds, threads = self._seconds(), torch.get_num_threads()
        speed = self.scale * self.step / max(seconds, 1e-9)
        # The loss of single batches is no private number: it is neither shown nor written then.
        public = {"loss": loss} if self.private is None else {}
        shown = f"loss {loss:.3f} α {alpha:.2f} best {self.best_loss:.3f} {speed:,.0f} visits/s, threads {threads}"
        bar.advance(1, shown if public else f"private α {alpha:.2f}")
        if self.step % max(1, self.n_steps // 200) == 0:
            self.journal.write(
                kind="step",
                step=self.step,
                **public,
                alpha=alpha,
                gradient=norm,
                seconds=round(seconds, 2),
                **self.objective.notes(),
            )
        self._observe()
        if self._due(self.budget.validations):
            self._validate(moment)
        if self._stopping:
            self._save()
            raise InterruptedRun(
                f"stopped at step {self.step} of {self.n_steps} after a checkpoint; call again (train: --resume)"
            )
        if self.checkpoints and time.monotonic() - self._saved >= self.budget.checkpoint_seconds:
            self._save()

    def _update(self, moment: Moment) -> tuple[float, float]:
        """One optimiser step; anything that is not finite stops the run before it is kept."""
        turn = self.objective.turn(moment)
        optimiser = self.optimisers[turn]
        rate = self.budget.rate(moment.step, self.n_steps) * self.objective.rates.get(turn, 1.0)
        for group in optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        # Each process has its own stream, or patients of different processes would share their dropout.
        own = (self.processes.index,) if self.processes.index else ()
        torch.manual_seed(stream_key(self.seed, "step", moment.step, *own) % (1 << 63))
        self.objective.modules.train()
        optimiser.zero_grad(set_to_none=True)
        parameters = [p for group in optimiser.param_groups for p in group["params"]]
        total = self._gradients(moment, parameters)
        self.processes.sum_gradients(parameters)
        # One process that is asked to stop stops all, at the same step.
        total, stop_votes = self.processes.sum_over_processes([total, float(self.stop_asked)])
        self._stopping = stop_votes > 0
        if self.private is None:
            norm = float(torch.nn.utils.clip_grad_norm_(parameters, self.budget.clip))
        else:
            norm = self.private.add_noise(parameters, moment.step)
        self._demand(moment, loss=total, gradient=norm, rate=rate)
        optimiser.step()
        sizes = torch.stack(torch._foreach_norm([p.detach() for p in parameters]))
        self._demand(moment, parameters=float(sizes.sum()))
        return total, norm

    def _gradients(self, moment: Moment, parameters: list[nn.Parameter]) -> float:
        """Leave the gradient of a step in the parameters, before processes meet; the loss."""
        patients = self._draw(moment.step)
        if self.private is not None:
            return self.private.accumulate(self.objective, self.train, patients, moment, parameters)
        total = 0.0
        for piece in self._pieces(patients):
            loss = self.objective.loss(self.train.batch(piece), moment) / self.scale
            loss.backward()
            total += float(loss.detach())
        return total

    def _demand(self, moment: Moment, **numbers: float) -> None:
        for name, value in numbers.items():
            if not math.isfinite(value):
                kept = "the last good checkpoint is kept" if self.checkpoints else "nothing was saved"
                raise AdapclaError(
                    f"step {moment.step}: {name} is {value} (α = {self.objective.weight(moment):.3f}); {kept}\n"
                    "to do: lower the learning rate, or check the prior and the data"
                )

    def _draw(self, step: int) -> NDArray[np.int64]:
        """The patients of a step: a random draw without regard to length; this process's share of it."""
        n, size = self.n_patients, self.budget.batch_size
        if self.private is not None:
            return self.private.drawn(step, n)
        a_pass = math.ceil(n / size)
        if self._order is None or self._order[0] != step // a_pass:
            # Drawn once per pass: shuffling everybody at every step would make a pass grow with the square.
            self._order = (step // a_pass, random_stream(self.seed, "pass", step // a_pass).permutation(n))
        chosen = self._order[1][(step % a_pass) * size : (step % a_pass + 1) * size]
        return chosen[self.processes.index :: self.processes.count]

    def _pieces(self, patients: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """The patients in pieces of bounded size, so that memory is bounded too."""
        number = (np.cumsum(self.visits[patients]) - 1) // self.budget.rows_at_once
        for piece in np.unique(number):
            yield patients[number == piece]

    # ---- looking ----------------------------------------------------------------------------------------
    def _due(self, looks: int) -> bool:
        """Whether one of `looks` evenly spaced looks falls on the step just done."""
        return (self.step * looks) // self.n_steps > ((self.step - 1) * looks) // self.n_steps

    def _observe(self) -> None:
        for observer in self.observers:
            if self.step == 0 or self._due(observer.looks - 1):
                self.objective.modules.eval()
                observer.look(self.objective.modules, Moment(self.step, self.n_steps, self.seed))

    def _validate(self, moment: Moment) -> None:
        loss = validation_loss(self.objective, self.valid, self.budget)
        if not math.isfinite(loss):
            self._demand(moment, validation=loss)
        settled = self.objective.is_final(moment)
        # Weights that still lean on a scaffold are no candidates: they are not what will be sampled from.
        better = settled and loss < self.best_loss
        if self.last_weights:
            # Validation patients are looked at for the journal alone.
            self.best_loss, self.best_step, better = loss, self.step, False
        elif better:
            self.best_loss, self.best_step, self.bad_looks = loss, self.step, 0
            self.best = {name: value.detach().clone() for name, value in self.objective.modules.state_dict().items()}
        elif settled:
            self.bad_looks += 1
        self.journal.write(
            kind="validation",
            step=self.step,
            loss=loss,
            settled=settled,
            best=better,
            seconds=round(self._seconds(), 2),
        )

    def _out_of_patience(self) -> bool:
        return self.bad_looks >= self.budget.patience

    def _seconds(self) -> float:
        return self.spent + time.monotonic() - self._started

    # ---- keeping ----------------------------------------------------------------------------------------
    def _save(self) -> None:
        self._saved = time.monotonic()
        if self.checkpoints is None or not self.processes.main:
            return
        tensors = {f"now.{name}": value for name, value in self.objective.modules.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        for turn, optimiser in self.optimisers.items():
            for number, state in optimiser.state_dict()["state"].items():
                tensors |= {f"optimiser.{turn}.{number}.{name}": value for name, value in state.items()}
        state = {
            "step": self.step,
            "best_loss": self.best_loss if math.isfinite(self.best_loss) else None,
            "best_step": self.best_step,
            "bad_looks": self.bad_looks,
            "seconds": self._seconds(),
            "processes": self.processes.count,
        }
        self.checkpoints.save(self.step, {name: value.cpu() for name, value in tensors.items()}, state)

    def _restore(self) -> None:
        # From the first process to all: another machine may have a folder of its own, with nothing or old things in it.
        mine = self.checkpoints.newest() if self.checkpoints and self.processes.main else None
        newest = self.processes.bytes_of_first(mine)
        if newest is None:
            return
        tensors, state = parse_checkpoint(newest)
        before = state.get("processes", self.processes.count)
        if before != self.processes.count and self.processes.main:
            say(
                f"warning: begun by {before} processes, goes on with {self.processes.count}: sums are rounded otherwise"
            )
        self.step, self.best_step, self.bad_looks = state["step"], state["best_step"], state["bad_looks"]
        self.best_loss = math.inf if state["best_loss"] is None else state["best_loss"]
        self.spent = state["seconds"]
        self.objective.modules.load_state_dict(_under("now.", tensors))
        self.best = _under("best.", tensors)
        for turn, optimiser in self.optimisers.items():
            content = optimiser.state_dict()
            restored: dict[int, dict[str, Any]] = {}
            for name, value in _under(f"optimiser.{turn}.", tensors).items():
                number, _, key = name.partition(".")
                restored.setdefault(int(number), {})[key] = value
            content["state"] = restored
            optimiser.load_state_dict(content)
        self.journal.resume(self.step)


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name[len(prefix) :]: value for name, value in tensors.items() if name.startswith(prefix)}


@torch.no_grad()
def validation_loss(objective: Objective, valid: Records, budget: Budget) -> float:
    """The bias-free loss per visit over all validation patients."""
    objective.modules.eval()
    total, visits = 0.0, 0
    group, n_patients = processes(), valid.cohort.n_patients
    for low in group.share(range(0, n_patients, budget.batch_size)):
        patients = np.arange(low, min(low + budget.batch_size, n_patients))
        part, n = objective.validation(valid.batch(patients))
        total, visits = total + part, visits + n
    loss, rows = group.sum_over_processes([total, visits])
    return loss / max(rows, 1)


@contextmanager
def _no_denormals() -> Iterator[None]:
    """Tiny numbers count as 0 inside: moments of rows that are rarely touched decay into them, and they are slow.

    The processor is left as it was found, so that a model samples the same after a fit as after a load.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextmanager
def _signals(loop: Loop) -> Iterator[None]:
    """SIGTERM and Ctrl-C ask the loop to stop after a checkpoint; outside the main thread nothing is changed."""

    def ask(*_: object) -> None:
        loop.stop_asked = True

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
