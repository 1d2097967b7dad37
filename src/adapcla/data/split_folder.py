"""The parts of a cohort on disk: a folder with one cohort folder for each part, named after it."""

from __future__ import annotations

from pathlib import Path

from adapcla.data.cohort import Cohort
from adapcla.data.split import PARTS, SPLIT_SEED
from adapcla.errors import InputError, UsageError
from adapcla.files import MANIFEST, fresh_folder


def split_cohort(whole: Cohort, seed: int = SPLIT_SEED, control: float = 0.0) -> dict[str, Cohort]:
    """The parts of a cohort by name; control patients only where a share is reserved for them.

    >>> whole = Cohort.of([[["A"]]] * 50)
    >>> list(split_cohort(whole)), list(split_cohort(whole, control=0.1))
    (['train', 'valid', 'test'], ['train', 'valid', 'test', 'control'])
    """
    named = whole.split(seed, control=control)._asdict()
    return {name: part for name, part in named.items() if name != "control" or control}


def save_splits(parts: dict[str, Cohort], folder: str | Path, overwrite: bool = False) -> None:
    """Write all parts, or none; nothing of an earlier split stays beside them."""
    with fresh_folder(Path(folder), overwrite) as temporary:
        for name, part in parts.items():
            part.save(temporary / name)


def open_splits(folder: str | Path) -> dict[str, Cohort]:
    """The parts in a folder by name, as many as there are."""
    return {name: Cohort.open(Path(folder) / name) for name in PARTS if (Path(folder) / name).is_dir()}


def open_or_split(folder: str | Path, seed: int | None = None, control: float = 0.0) -> dict[str, Cohort]:
    """The parts in a folder; where the folder is a whole cohort, the cohort is divided."""
    if (Path(folder) / MANIFEST).exists() or not (Path(folder) / "train").is_dir():
        return split_cohort(Cohort.open(folder), SPLIT_SEED if seed is None else seed, control)
    if seed is not None or control:
        raise UsageError(
            f"{folder} is divided already\nto do: leave the settings of the split out, or divide the whole cohort anew"
        )
    parts = open_splits(folder)
    if "valid" not in parts:
        raise InputError(
            "no folder `valid`",
            path=Path(folder),
            expected="a folder that `adapcla split` wrote, or cohorts in folders named train and valid",
            remedy="divide the cohort again",
        )
    return parts
