"""A training run as a folder: what was asked, what happened, and the model that came out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapcla.console import say
from adapcla.errors import ExistsError, UsageError
from adapcla.files import folder_lock, read_json, refuse_populated, remove_leftovers, write_json
from adapcla.generators.bundle import environment
from adapcla.generators.fitting import FIRST_STAGE
from adapcla.generators.generator import Generator, load
from adapcla.machine import peak_memory_mb
from adapcla.records import Cohort
from adapcla.training.checkpoint import Checkpoints
from adapcla.training.private import SECRET
from adapcla.training.processes import processes

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
    """The fitted generator, after training in a run folder that survives being killed at any moment."""
    place, group = Path(folder), processes()
    asked = {
        "settings": generator.settings.model_dump(),
        "fingerprint": generator.settings.fingerprint(),
        "train": train.fingerprint,
        "valid": valid.fingerprint,
        "shareable": shareable,
    }
    killed_at_once = resume and not (place / ASKED).exists() and _only_hidden(place)
    resume = resume and (place / ASKED).exists()
    if group.main and not resume and not killed_at_once:
        refuse_populated(place, overwrite)
    with folder_lock(place):
        if group.main:
            _prepare(place, asked, resume)
        # The others look at the folder when it is as the first has left it.
        group.wait()
        if resume and (place / MODEL).is_dir():
            say(f"{place} is complete already")
            if group.main:
                _tidy(place)
            return load(place)
        generator.fit(train, valid, folder=place, resume=resume)
        if group.main:
            write_json(place / OUTCOME, outcome(generator))
            # The model comes last: a run that has one is complete.
            generator.save(place / MODEL, overwrite=True, shareable=shareable)
            _tidy(place)
        group.wait()
    return generator


def _prepare(place: Path, asked: dict[str, Any], resume: bool) -> None:
    """Leave the folder as training needs it: emptied, or that of the same run."""
    if resume:
        _same(read_json(place / ASKED), asked, place)
    else:
        _emptied(place)
        write_json(place / ASKED, asked)
    for name in (ASKED, OUTCOME, ENVIRONMENT, MODEL, SECRET):
        remove_leftovers(place / name)
    _warn_other_environment(place)


def _only_hidden(place: Path) -> bool:
    """Whether a folder holds no more than the lock and the unfinished files of a run that had just begun."""
    return place.is_dir() and all(path.name.startswith(".") for path in place.iterdir())


def _tidy(place: Path) -> None:
    """Remove what only an unfinished run needs."""
    Checkpoints(place).clear()
    Checkpoints(place / FIRST_STAGE).clear()
    (place / SECRET).unlink(missing_ok=True)


def outcome(generator: Generator) -> dict[str, Any]:
    """What the run cost and came to."""
    found = generator.outcome_
    if found is None:
        raise UsageError("this generator was not trained here")
    return {
        **generator.model.facts,
        "seconds": round(found.seconds, 1),
        "peak memory MB": peak_memory_mb(),
    }


def _same(before: dict[str, Any], now: dict[str, Any], place: Path) -> None:
    """Raise if a run would go on with other settings or data than it began with."""
    for name in ("fingerprint", "train", "valid", "shareable"):
        if before.get(name) != now[name]:
            what = {"fingerprint": "settings", "train": "training data", "valid": "validation data"}.get(name, name)
            raise ExistsError(
                f"{place} was begun with other {what}\nto do: repeat the first command, or name another --out"
            )


def _warn_other_environment(place: Path) -> None:
    """Record where a run is made, and say when it goes on somewhere else: bytes may then differ."""
    path = place / ENVIRONMENT
    here = environment()
    if path.exists():
        before = read_json(path)
        changed = [name for name, value in here.items() if before.get(name) != value]
        if changed:
            say(f"warning: {', '.join(changed)} changed since this run began; the result may differ in the last bits")
    else:
        write_json(path, here)


def _emptied(place: Path) -> None:
    """Clear what an earlier run left, file by file: only what runs make."""
    import shutil

    # The secret goes too: the same noise on other patients would give both away.
    for name in (ASKED, OUTCOME, "journal.jsonl", ENVIRONMENT, SECRET):
        (place / name).unlink(missing_ok=True)
    Checkpoints(place).clear()
    for name in (MODEL, FIRST_STAGE):
        shutil.rmtree(place / name, ignore_errors=True)
