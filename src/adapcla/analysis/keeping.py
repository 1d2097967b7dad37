"""Tables and trajectories on disk: CSV and JSON for people and programs, flat arrays for what is read back."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from adapcla import files
from adapcla.analysis.probes import Probe, ProbeKind, ProbeSet
from adapcla.analysis.trajectories import Trajectory
from adapcla.errors import InputError
from adapcla.records import Strata, Vocabulary, store

PROBES, INDEX, COUNTS = "probes.csv", "trajectory.json", "counts.npy"
_NOT_ARRAYS = ("schedule", "strata", "truth")


def write_table(frame: pl.DataFrame, stem: str | Path, notes: dict[str, Any] | None = None) -> Path:
    """Write a tidy table as CSV and, with notes on how to read it, as JSON; `stem` is the path without ending."""
    path = Path(stem)
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = frame.with_columns(pl.col(pl.Float64, pl.Float32).fill_nan(None))
    files.write_bytes(path.with_name(path.name + ".csv"), plain.write_csv().encode())
    content = {"notes": notes or {}, "columns": plain.columns, "rows": plain.to_dicts()}
    files.write_json(path.with_name(path.name + ".json"), content)
    return path


def save_trajectory(folder: str | Path, probes: ProbeSet, trajectory: Trajectory, overwrite: bool = False) -> Path:
    """Write a trajectory with its probes, without any patient: contexts are numbers."""
    target = Path(folder)
    with files.fresh_folder(target, overwrite) as place:
        for name, value in _arrays(trajectory).items():
            np.save(place / f"{name}.npy", value, allow_pickle=False)
        np.save(place / COUNTS, probes.strata.counts, allow_pickle=False)
        (place / PROBES).write_bytes(probes.table().write_csv().encode())
        store.write_vocabulary(place / store.VOCABULARY, probes.strata.vocabulary.codes)
        index = {"schedule": trajectory.schedule, "contexts": probes.n_contexts, "strata": list(trajectory.strata)}
        (place / INDEX).write_bytes(files.json_bytes(index | {"truth": trajectory.truth is not None}))
        files.write_manifest(place)
    return target


def _arrays(trajectory: Trajectory) -> dict[str, Any]:
    """Every array of a trajectory by file name."""
    out = {field.name: getattr(trajectory, field.name) for field in fields(Trajectory) if field.name not in _NOT_ARRAYS}
    out |= {f"stratum_{name}": values for name, values in trajectory.strata.items()}
    return out if trajectory.truth is None else {**out, "truth": trajectory.truth}


def open_trajectory(folder: str | Path) -> tuple[ProbeSet, Trajectory]:
    """The probes (without patients) and the trajectory in a folder."""
    place = Path(folder)
    files.verify_manifest(place)
    index = files.read_json(place / INDEX)
    names = [field.name for field in fields(Trajectory) if field.name not in _NOT_ARRAYS]
    try:
        arrays = {name: store.read_array(place / f"{name}.npy") for name in names}
        strata = {name: store.read_array(place / f"stratum_{name}.npy") for name in index["strata"]}
        truth = store.read_array(place / "truth.npy") if index["truth"] else None
        counts = store.read_array(place / COUNTS)
        vocabulary = Vocabulary(store.read_vocabulary(place / store.VOCABULARY))
        rows = pl.read_csv(place / PROBES).to_dicts()
        probes = tuple(
            Probe(row["context"], vocabulary.index[row["code"]], ProbeKind(row["kind"]), row["lift"], row["support"])
            for row in rows
        )
        found = ProbeSet(probes, Strata.of(counts, vocabulary), int(index["contexts"]))
        return found, Trajectory(schedule=index["schedule"], strata=strata, truth=truth, **arrays)
    except (KeyError, ValueError, OSError, TypeError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"not a trajectory ({type(error).__name__})", path=place, remedy="run `adapcla analyse probes` again"
        ) from None
