"""A training run with probes and kernels recorded along the way, and its trajectory as a folder without patients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from adapcla import files
from adapcla.data import Cohort, Strata, Vocabulary, storage
from adapcla.errors import InputError
from adapcla.generation import Generator, generator_for
from adapcla.study.analysis.kernel import ContextKernel, KernelObserver
from adapcla.study.analysis.probes import LOOKS, Probe, ProbeKind, ProbeObserver, ProbeSet, Trajectory

# ---- the fit -------------------------------------------------------------------------------------------------
#: Looks without improvement before a run ends: never, so that runs can be compared step by step.
NEVER = 1_000_000


@dataclass(frozen=True, eq=False)
class Probed:
    """A fitted generator and what was seen while it was fitted."""

    generator: Generator
    trajectory: Trajectory
    kernels: tuple[ContextKernel, ...] = ()


def probed_fit(
    train: Cohort,
    valid: Cohort,
    probes: ProbeSet,
    method: str = "adapcla",
    changes: dict[str, Any] | None = None,
    kernels: bool = False,
    looks: int = LOOKS,
) -> Probed:
    """Fit a method over its whole budget, with probes along the way and, if asked, kernels before the first step."""
    generator = generator_for(method, **{"patience": NEVER, **(changes or {})})
    watcher = ProbeObserver(generator, probes, looks)
    before = KernelObserver(generator, probes) if kernels else None
    generator.fit(train, valid, observers=[watcher] if before is None else [watcher, before])
    return Probed(generator, watcher.trajectory(), () if before is None else tuple(before.kernels))


# ---- saving --------------------------------------------------------------------------------------------------
PROBES, INDEX, COUNTS, KERNELS = "probes.csv", "trajectory.json", "counts.npy", "kernels.json"
_NOT_ARRAYS = ("schedule", "strata", "truth")


class SavedTrajectory(NamedTuple):
    """What was seen along one training run, with its probes (without patients) and kernels, if any were asked for."""

    probes: ProbeSet
    trajectory: Trajectory
    kernels: tuple[ContextKernel, ...] = ()


def save_trajectory(
    folder: str | Path,
    probes: ProbeSet,
    trajectory: Trajectory,
    kernels: Sequence[ContextKernel] = (),
    overwrite: bool = False,
) -> Path:
    """Write a trajectory with its probes and kernels, without any patient: contexts are numbers."""
    target = Path(folder)
    with files.fresh_folder(target, overwrite) as fresh:
        for name, value in _arrays(trajectory).items():
            np.save(fresh / f"{name}.npy", value, allow_pickle=False)
        np.save(fresh / COUNTS, probes.strata.counts, allow_pickle=False)
        (fresh / PROBES).write_bytes(probes.table().write_csv().encode())
        storage.write_vocabulary(fresh / storage.VOCABULARY, probes.strata.vocabulary.codes)
        index = {"schedule": trajectory.schedule, "contexts": probes.n_contexts, "strata": list(trajectory.strata)}
        (fresh / INDEX).write_bytes(files.json_bytes(index | {"truth": trajectory.truth is not None}))
        (fresh / KERNELS).write_bytes(files.json_bytes({"kernels": [_written(kernel) for kernel in kernels]}))
        files.write_manifest(fresh)
    return target


def _written(kernel: ContextKernel) -> dict[str, Any]:
    """A kernel for JSON, which knows no NaN."""
    least = kernel.smallest_eigenvalue
    content = {**kernel._asdict(), "similarity": kernel.similarity.tolist()}
    return {**content, "smallest_eigenvalue": float(least) if np.isfinite(least) else None}


def _read(content: dict[str, Any]) -> ContextKernel:
    """A kernel as it was."""
    least = content["smallest_eigenvalue"]
    similarity = np.array(content["similarity"], dtype=np.float64)
    return ContextKernel(content["context"], content["group"], similarity, np.nan if least is None else least)


def _arrays(trajectory: Trajectory) -> dict[str, Any]:
    """Every array of a trajectory by file name."""
    out = {field.name: getattr(trajectory, field.name) for field in fields(Trajectory) if field.name not in _NOT_ARRAYS}
    out |= {f"stratum_{name}": values for name, values in trajectory.strata.items()}
    return out if trajectory.truth is None else {**out, "truth": trajectory.truth}


def open_trajectory(folder: str | Path) -> SavedTrajectory:
    """The trajectory in a folder."""
    path = Path(folder)
    files.verify_manifest(path)
    index = files.read_json(path / INDEX)
    names = [field.name for field in fields(Trajectory) if field.name not in _NOT_ARRAYS]
    try:
        arrays = {name: storage.read_array(path / f"{name}.npy") for name in names}
        strata = {name: storage.read_array(path / f"stratum_{name}.npy") for name in index["strata"]}
        truth = storage.read_array(path / "truth.npy") if index["truth"] else None
        counts = storage.read_array(path / COUNTS)
        vocabulary = Vocabulary(storage.read_vocabulary(path / storage.VOCABULARY))
        rows = pl.read_csv(path / PROBES).to_dicts()
        probes = tuple(
            Probe(row["context"], vocabulary.index[row["code"]], ProbeKind(row["kind"]), row["lift"], row["support"])
            for row in rows
        )
        probe_set = ProbeSet(probes, Strata.of(counts, vocabulary), int(index["contexts"]))
        kernels = tuple(_read(content) for content in files.read_json(path / KERNELS)["kernels"])
        trajectory = Trajectory(schedule=index["schedule"], strata=strata, truth=truth, **arrays)
        return SavedTrajectory(probe_set, trajectory, kernels)
    except (KeyError, ValueError, OSError, TypeError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"not a trajectory ({type(error).__name__})",
            path=path,
            remedy="make it again: a run with the analysis `probes` keeps one",
        ) from None
