"""A training run as a folder: its settings, its journal and the trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapcla.console import say
from adapcla.data import Cohort
from adapcla.errors import ExistsError, UsageError
from adapcla.files import folder_lock, read_json, refuse_populated, remove_leftovers, write_json
from adapcla.generation.bundle import environment
from adapcla.generation.fitting import FIRST_STAGE
from adapcla.generation.generator import Generator, load
from adapcla.machine import peak_memory_mb
from adapcla.training.checkpoint import Checkpoints
from adapcla.training.distributed import processes
from adapcla.training.privacy import SECRET

ASKED, OUTCOME, ENVIRONMENT, MODEL = "asked.json", "outcome.json", "environment.json", "model"


def train_run(
    generator: Generator,
    train: Cohort,
    valid: Cohort,
    folder: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    shareable: bool = False,
) -> Generator:
    """The fitted generator, after training in a run folder that survives being killed at any moment.

    Of several processes only the first reads and writes the folder, so that each machine may have one of its own. Where
    the run was complete already, a process that does not see its model gets the generator back as it was.
    """
    run_folder, group = Path(folder), processes()
    asked = asked_of(generator, train, valid, shareable)
    killed_at_once = resume and not (run_folder / ASKED).exists() and only_hidden(run_folder)
    resume = group.first_says(resume and (run_folder / ASKED).exists())
    if group.main and not resume and not killed_at_once:
        refuse_populated(run_folder, overwrite)
    with folder_lock(run_folder):
        if group.main:
            _prepare(run_folder, asked, resume)
        # The others look at the folder when it is as the first has left it.
        group.wait()
        if group.first_says(resume and (run_folder / MODEL).is_dir()):
            say(f"{run_folder} is complete already")
            if group.main:
                _tidy(run_folder)
            return load(run_folder) if (run_folder / MODEL).is_dir() else generator
        generator.fit(train, valid, folder=run_folder, resume=resume)
        if group.main:
            write_json(run_folder / OUTCOME, outcome(generator))
            # The model comes last: a run that has one is complete.
            generator.save(run_folder / MODEL, overwrite=True, shareable=shareable)
            _tidy(run_folder)
        group.wait()
    return generator


def asked_of(generator: Generator, train: Cohort, valid: Cohort, shareable: bool) -> dict[str, Any]:
    """What a run is asked for, by which it is known again."""
    return {
        "settings": generator.settings.model_dump(),
        "fingerprint": generator.settings.fingerprint(),
        "train": train.fingerprint,
        "valid": valid.fingerprint,
        "shareable": shareable,
    }


def _prepare(run_folder: Path, asked: dict[str, Any], resume: bool) -> None:
    """Leave the folder as training needs it: emptied, or that of the same run."""
    if resume:
        demand_same(read_json(run_folder / ASKED), asked, run_folder)
    else:
        empty_folder(run_folder)
        write_json(run_folder / ASKED, asked)
    for name in (ASKED, OUTCOME, ENVIRONMENT, MODEL, SECRET):
        remove_leftovers(run_folder / name)
    _warn_other_environment(run_folder)


def only_hidden(run_folder: Path) -> bool:
    """Whether a folder holds no more than the lock and the unfinished files of a run that had just begun."""
    return run_folder.is_dir() and all(path.name.startswith(".") for path in run_folder.iterdir())


def _tidy(run_folder: Path) -> None:
    """Remove what only an unfinished run needs."""
    Checkpoints(run_folder).clear()
    Checkpoints(run_folder / FIRST_STAGE).clear()
    (run_folder / SECRET).unlink(missing_ok=True)


def outcome(generator: Generator) -> dict[str, Any]:
    """The cost and the result of the run."""
    outcome = generator.outcome_
    if outcome is None:
        raise UsageError("this generator was not trained here")
    return {
        **generator.model.facts,
        "seconds": round(outcome.seconds, 3),
        "peak memory MB": peak_memory_mb(),
    }


def demand_same(before: dict[str, Any], now: dict[str, Any], run_folder: Path) -> None:
    """Raise if a run would go on with other settings or data than it began with."""
    for name in ("fingerprint", "train", "valid", "shareable"):
        if before.get(name) != now[name]:
            what = {"fingerprint": "settings", "train": "training data", "valid": "validation data"}.get(name, name)
            raise ExistsError(
                f"{run_folder} was begun with other {what}\nto do: repeat the first command, or name another --out"
            )


def _warn_other_environment(run_folder: Path) -> None:
    """Record where a run is made, and say when it goes on somewhere else: bytes may then differ."""
    path = run_folder / ENVIRONMENT
    here = environment()
    if path.exists():
        before = read_json(path)
        changed = [name for name, value in here.items() if before.get(name) != value]
        if changed:
            say(f"warning: {', '.join(changed)} changed since this run began; the result may differ in the last bits")
    else:
        write_json(path, here)


def empty_folder(run_folder: Path) -> None:
    """Clear what an earlier run left, file by file: only what runs make."""
    import shutil

    # The secret goes too: the same noise on other patients would give both away.
    for name in (ASKED, OUTCOME, "journal.jsonl", ENVIRONMENT, SECRET):
        (run_folder / name).unlink(missing_ok=True)
    Checkpoints(run_folder).clear()
    for name in (MODEL, FIRST_STAGE):
        shutil.rmtree(run_folder / name, ignore_errors=True)
