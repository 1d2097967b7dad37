"""A training run as a folder: what was asked, what happened, and the model that came out."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

from adapcla.console import say
from adapcla.errors import ExistsError, UsageError
from adapcla.generators.bundle import environment
from adapcla.generators.neural import NeuralGenerator
from adapcla.records import Cohort
from adapcla.records.store import json_bytes, read_json, refuse_populated, write_bytes
from adapcla.training.checkpoint import Checkpoints

ASKED, OUTCOME, MODEL = "asked.json", "outcome.json", "model"


def train_run(
    generator: NeuralGenerator,
    train: Cohort,
    valid: Cohort,
    folder: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    shareable: bool = False,
) -> NeuralGenerator:
    """The fitted generator, after training in a run folder that survives being killed at any moment."""
    place = Path(folder)
    asked = {
        "settings": generator.settings.model_dump(),
        "fingerprint": generator.settings.fingerprint(),
        "train": train.fingerprint,
        "valid": valid.fingerprint,
        "shareable": shareable,
    }
    if resume and (place / ASKED).exists():
        _same(read_json(place / ASKED), asked, place)
        if (place / MODEL).is_dir():
            say(f"{place} is complete already")
            Checkpoints(place).clear()
            return NeuralGenerator.load(place)
    else:
        refuse_populated(place, overwrite)
        _emptied(place)
        place.mkdir(parents=True, exist_ok=True)
        write_bytes(place / ASKED, json_bytes(asked))
    _warn_other_environment(place)
    generator.fit(train, valid, folder=place, resume=resume)
    generator.save(place / MODEL, overwrite=True, shareable=shareable)
    write_bytes(place / OUTCOME, json_bytes(outcome(generator)))
    Checkpoints(place).clear()
    return generator


def outcome(generator: NeuralGenerator) -> dict[str, Any]:
    """What the run cost and came to."""
    found = generator.outcome_
    if found is None:
        raise UsageError("this generator was not trained here")
    return {
        **generator.fitted.facts,
        "seconds": round(found.seconds, 1),
        "peak memory MB": peak_memory_mb(),
    }


def peak_memory_mb() -> int:
    """The largest memory this process has held, in MB.

    >>> peak_memory_mb() > 1
    True
    """
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit // 1_000_000


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
    path = place / "environment.json"
    here = environment()
    if path.exists():
        before = read_json(path)
        changed = [name for name, value in here.items() if before.get(name) != value]
        if changed:
            say(f"warning: {', '.join(changed)} changed since this run began; the result may differ in the last bits")
    else:
        write_bytes(path, json_bytes(here))


def _emptied(place: Path) -> None:
    """Clear what an earlier run left, file by file: only what runs make."""
    import shutil

    for name in (ASKED, OUTCOME, "journal.jsonl", "environment.json"):
        (place / name).unlink(missing_ok=True)
    Checkpoints(place).clear()
    shutil.rmtree(place / MODEL, ignore_errors=True)
