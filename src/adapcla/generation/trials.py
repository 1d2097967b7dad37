"""Rate, passes and width of a fit, found by trying: whole fits, each to the end of its cosine, judged on validation
patients.

Sizes of a cohort do not tell how many passes it bears before they overfit, since that hangs on how much its visits say;
a few short fits do. `adapcla train` looks for its passes so where neither rate nor passes are given.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from adapcla.console import say
from adapcla.data import Cohort
from adapcla.errors import AdapclaError, InterruptedRun
from adapcla.files import folder_lock, read_json, refuse_populated, remove_leftovers, write_json
from adapcla.generation import bundle, fitting
from adapcla.generation.calibration import calibrate_prevalence
from adapcla.generation.generator import Generator, generator_for, load
from adapcla.generation.run_folder import MODEL, TRIALS, TRIED, asked_of, demand_same, emptied, only_hidden, train_run
from adapcla.training.distributed import processes
from adapcla.training.settings import METHODS, Budget, settings_from

#: Passes to choose from, and those of the first trials. Sixteen overfit wherever they were measured.
PASSES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 11.0)
COARSE = (2.0, 4.0, 8.0)
#: Rates to choose from, for rows that have none of their own.
RATES = (1e-3, 2e-3)
#: Training patients beyond which nothing is tried: no larger cohort was measured, and every trial takes hours.
MOST_PATIENTS = 100_000


class Cell(NamedTuple):
    """A rate, a number of passes and, where it is not that of the settings, a width."""

    learning_rate: float
    passes: float
    width: int | None = None

    @property
    def name(self) -> str:
        """The name of its folder.

        >>> Cell(0.003, 8.0).name, Cell(0.003, 8.0, 256).name
        ('rate0.003-passes8', 'rate0.003-passes8-width256')
        """
        width = "" if self.width is None else f"-width{self.width}"
        return f"rate{self.learning_rate:g}-passes{self.passes:g}{width}"

    @property
    def changes(self) -> dict[str, Any]:
        """The settings that the cell says, by name.

        >>> Cell(0.003, 8.0).changes
        {'learning_rate': 0.003, 'passes': 8.0}
        """
        return {name: value for name, value in self._asdict().items() if value is not None}

    def of(self, row: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
        """The row with this cell: the passes are those of all its stages together, the last weights are kept.

        A method that by its nature takes a multiple of the usual passes, as SynTEG does, takes it here too.

        >>> [Cell(0.003, 8.0).of((method, {}))[1]["passes"] for method in ("halo", "adapcla-release", "synteg")]
        [8.0, 4.0, 24.0]
        """
        method, settings = row
        n_stages = len(fitting.stages(generator_for(method, **settings).settings))
        passes = self.passes / n_stages * METHODS[method].settings.budget.passes / Budget().passes
        return method, {**settings, **self.changes, "passes": passes, "last_weights": True}


def climbed(
    loss_of: Callable[[Cell], float], rates: Sequence[float] = RATES, wider: int | None = None
) -> dict[Cell, float]:
    """Every cell that was tried, in the order of trying, with its loss.

    At the first rate a few numbers of passes far apart come first, because one fit may be better than the next by luck;
    from the best of them passes go down and up as long as the loss falls. A further rate is tried at half the passes of
    the best, since faster learning overfits sooner. Last, the best cell is tried with a wider network.

    >>> tried = climbed(lambda cell: abs(cell.passes - 3) + 1000 * cell.learning_rate, wider=256)
    >>> [cell.name for cell in tried][:4]
    ['rate0.001-passes2', 'rate0.001-passes4', 'rate0.001-passes8', 'rate0.001-passes1']
    >>> [cell.name for cell in tried][4:]
    ['rate0.001-passes3', 'rate0.002-passes2', 'rate0.001-passes3-width256']
    """
    tried: dict[Cell, float] = {}

    def loss(cell: Cell) -> float:
        if cell not in tried:
            tried[cell] = loss_of(cell)
        return tried[cell]

    def best() -> Cell:
        return min(tried, key=lambda cell: tried[cell])

    rate = rates[0]
    for passes in COARSE:
        loss(Cell(rate, passes))
    from_here = PASSES.index(best().passes)
    for rungs in (range(from_here - 1, -1, -1), range(from_here + 1, len(PASSES))):
        before = loss(Cell(rate, PASSES[from_here]))
        for rung in rungs:
            now = loss(Cell(rate, PASSES[rung]))
            if now >= before:
                break
            before = now
    half = min(reversed(PASSES), key=lambda passes: abs(passes - best().passes / 2))
    for faster in rates[1:]:
        loss(Cell(faster, half))
    if wider is not None:
        loss(best()._replace(width=wider))
    return tried


def rates_to_try(method: str, changes: dict[str, Any], n_patients: int) -> tuple[float, ...]:
    """The rates among which a fit looks for its own; none where there is nothing to look for.

    That is where rate or passes are given, where patients are protected (looking at validation patients is not paid for
    by ε), for methods that only count, for several processes and for very many patients.

    >>> rates_to_try("adapcla", {}, 5_000), rates_to_try("gpt", {}, 5_000), rates_to_try("gpt", {"passes": 3}, 5_000)
    ((0.001, 0.002), (0.0015,), ())
    """
    row = METHODS[method]
    said = {**changes, **changes.get("budget", {})}
    if row.settings.family.objective is None or {"passes", "learning_rate", "last_weights", "privacy"} & said.keys():
        return ()
    if n_patients > MOST_PATIENTS or processes().count > 1:
        return ()
    own = row.row.settings.get("learning_rate")
    return RATES if own is None else (float(own),)


def wider_than(method: str, changes: dict[str, Any], given: dict[str, Any]) -> int | None:
    """Twice the width that follows from the size of the cohort; None where the width is given, or there is none.

    >>> wider_than("adapcla", {"width": 128}, {}), wider_than("adapcla", {"width": 96}, {"width": 96})
    (256, None)
    """
    said = {**METHODS[method].row.settings, **given, **given.get("architecture", {})}
    return None if "width" in said or "width" not in changes else 2 * int(changes["width"])


def train_by_trials(
    method: str,
    changes: dict[str, Any],
    rates: Sequence[float],
    wider: int | None,
    train: Cohort,
    valid: Cohort,
    folder: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    shareable: bool = False,
) -> Generator:
    """The fitted generator of the best trial, in a run folder that survives being killed at any moment.

    Each trial is a run of its own inside the folder; at the end the best one takes its place, and `trials.json` says
    what was tried.
    """
    run_folder = Path(folder)
    generator = generator_for(method, **changes)
    asked = asked_of(generator, train, valid, shareable)
    going_on = resume and (run_folder / TRIED).exists()
    if not going_on and not (resume and only_hidden(run_folder)):
        refuse_populated(run_folder, overwrite)
    with folder_lock(run_folder):
        if going_on:
            demand_same(read_json(run_folder / TRIED), asked, run_folder)
        else:
            emptied(run_folder)
            remove_leftovers(run_folder / TRIED)
            write_json(run_folder / TRIED, asked)
        if (run_folder / MODEL).is_dir():
            say(f"{run_folder} is complete already")
        else:
            trial = partial(_trial, method, changes, train, valid, run_folder / TRIALS)
            tried = climbed(trial, rates, wider)
            best = min(tried, key=lambda cell: tried[cell])
            lines = [{**cell.changes, "validation loss per visit": loss} for cell, loss in tried.items()]
            write_json(run_folder / TRIED, {**asked, "trials": lines, "chosen": best.name})
            rounds = generator.settings.calibration_rounds
            _take_place(run_folder / TRIALS / best.name, run_folder, rounds, train, valid, shareable)
        shutil.rmtree(run_folder / TRIALS, ignore_errors=True)
    return load(run_folder)


def _trial(method: str, changes: dict[str, Any], train: Cohort, valid: Cohort, folder: Path, cell: Cell) -> float:
    """The validation loss of a whole fit of a cell; infinite where training failed at this rate."""
    row, settings = cell.of((method, changes))
    generator = generator_for(row, **{**settings, "calibration_rounds": 0})
    try:
        fitted = train_run(generator, train, valid, folder / cell.name, resume=True)
    except InterruptedRun:
        raise
    except AdapclaError as error:
        if error.exit_code != 1:
            raise
        say(f"{cell.name} failed: {error}")
        return math.inf
    loss = float(fitted.model.facts["validation loss per visit"])
    say(f"tried {cell.name}: validation loss {loss:.4f} a visit")
    return loss


def _take_place(trial: Path, run_folder: Path, rounds: int, train: Cohort, valid: Cohort, shareable: bool) -> None:
    """Put the run of a trial in the place of the whole, the model last: a run that has one is complete.

    What comes after training, the correction of prevalences and pairs, is done for this trial alone.
    """
    for path in trial.iterdir():
        if path.is_dir() and path.name != MODEL:
            shutil.copytree(path, run_folder / path.name, dirs_exist_ok=True)
        elif path.is_file() and not path.name.startswith("."):
            shutil.copy2(path, run_folder / path.name)
    model = bundle.read(trial / MODEL)
    if rounds:
        model.settings = settings_from(model.settings, {"calibration_rounds": rounds})
        calibrate_prevalence(model, model.quantize(train), model.quantize(valid), rounds)
    bundle.save(model, run_folder / MODEL, overwrite=True, shareable=shareable)
