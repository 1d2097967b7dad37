"""Large samples written straight to disk in constant memory: shards that survive a kill, then one cohort folder.

Shards are tasks (`adapcla.engine`): this process writes them one after another, the workers of a cluster side by side.
The bytes are the same.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla import files
from adapcla.console import meter
from adapcla.data import storage
from adapcla.engine import n_workers, run_tasks
from adapcla.errors import InputError
from adapcla.generation.bundle import read, save
from adapcla.generation.model import Model, dequantize
from adapcla.generation.sampler import BLOCK, Rolled, SampleRule, cohort_of, join, redrawn_card, sample_card, stream
from adapcla.scaffold import Steering

#: Patients per shard: a whole number of blocks.
SHARD = 16 * BLOCK


def stream_sample(
    model: Model,
    n: int,
    seed: int,
    folder: str | Path,
    *,
    steering: Steering | None = None,
    rule: SampleRule | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write `n` patients of a seed to a cohort folder in bounded memory; their card.

    The bytes are those of `sample(model, n, seed).save(folder)`.
    """
    target, rule = Path(folder), rule or SampleRule()
    card = sample_card(model, n, seed, rule, steering)
    key = _key(model, card, steering, rule)
    unfinished = target.with_name(f".{target.name}.unfinished")
    if resume and _is_sample(target, key):
        return files.read_json(target / storage.CARD)
    files.refuse_populated(target, overwrite)
    with files.folder_lock(unfinished):
        _prepare(target, unfinished, key if resume else "")
        shards = [_shard(unfinished / key, low) for low in range(0, n, SHARD)]
        _write_shards(model, n, seed, steering, rule, unfinished / key)
        _require_all(shards)
        _assemble(model, shards, target, {**card, "key": key}, overwrite, rule)
        shutil.rmtree(unfinished)
    return files.read_json(target / storage.CARD)


def _shard(folder: Path, low: int) -> Path:
    """The file of the shard that begins with patient `low`."""
    return folder / f"{low:012d}.npz"


def _is_sample(target: Path, key: str) -> bool:
    """Whether this sample is there already, complete and undamaged."""
    there = (target / files.MANIFEST).exists() and files.read_json(target / storage.CARD).get("key") == key
    return there and bool(files.verify_manifest(target))


def _prepare(target: Path, unfinished: Path, key: str) -> None:
    """Keep the shards of this key alone, and nothing that a killed process left."""
    files.remove_leftovers(target)
    for path in unfinished.iterdir():
        if path.is_dir() and path.name != key:
            shutil.rmtree(path)
    for path in (unfinished / key).glob(".*.tmp") if key else ():
        path.unlink()


def _write_shards(model: Model, n: int, seed: int, steering: Steering | None, rule: SampleRule, folder: Path) -> None:
    """Write the shards that are not there yet, each as a task."""
    folder.mkdir(parents=True, exist_ok=True)
    starts = range(0, n, SHARD)
    missing = [low for low in starts if not _shard(folder, low).exists()]
    with meter("sample", n) as bar:
        bar.advance(n - sum(min(SHARD, n - low) for low in missing))
        if n_workers() > 1:
            # Workers read the model from the folder that they write to.
            saved = save(model, folder / "model", overwrite=True)
            written = run_tasks(_write_shard_on_worker, ((saved, n, seed, steering, rule, low) for low in missing))
        else:
            written = run_tasks(_write_shard, ((model, n, seed, steering, rule, folder, low) for low in missing))
        for low, count in zip(missing, written, strict=True):
            bar.advance(count, f"shard {low // SHARD + 1}")


def _write_shard(
    model: Model, n: int, seed: int, steering: Steering | None, rule: SampleRule, folder: Path, low: int
) -> int:
    """Write the shard that begins with patient `low` of n; the patients in it."""
    count = min(SHARD, n - low)
    whole = join(list(stream(model, low + count, seed, steering, rule, first=low)))
    files.write_bytes(_shard(folder, low), _pack(whole))
    return count


def _write_shard_on_worker(
    saved: Path, n: int, seed: int, steering: Steering | None, rule: SampleRule, low: int
) -> int:
    """The same with the model of a folder, beside which the shard is written."""
    return _write_shard(_model_in(saved), n, seed, steering, rule, saved.parent, low)


@lru_cache(maxsize=1)
def _model_in(saved: Path) -> Model:
    """The model of a folder; a worker reads it once."""
    return read(saved)


def _require_all(shards: list[Path]) -> None:
    """Raise if a shard is not there, because a sample must not end up smaller."""
    missing = [path.name for path in shards if not path.exists()]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(shards)} shards of this sample are not there, {missing[0]} for one",
            path=shards[0].parent,
            expected="a folder that all workers of the cluster see",
            remedy="write to such a folder, or use --cluster local",
        )


def _key(model: Model, card: dict[str, Any], steering: Steering | None, rule: SampleRule) -> str:
    """What a half-written sample belongs to."""
    digest = hashlib.sha256(files.json_bytes({**card, "rule": repr(rule)}))
    digest.update(model.vocabulary.fingerprint.encode())
    if steering is not None:
        digest.update(steering.delta.tobytes())
    if rule.rules is not None:
        digest.update(rule.rules.fingerprint.encode())
    for name, value in sorted(model.network.state_dict().items()):
        digest.update(name.encode() + value.numpy().tobytes())
    return digest.hexdigest()[:16]


def _pack(rolled: Rolled) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **{name: getattr(rolled, name) for name in Rolled.__dataclass_fields__})
    return buffer.getvalue()


def _unpack(path: Path) -> Rolled:
    try:
        with np.load(path, allow_pickle=False) as content:
            return Rolled(**{name: content[name] for name in Rolled.__dataclass_fields__})
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(
            f"not a readable shard ({type(error).__name__})", path=path, remedy="remove it and give the command again"
        ) from None


def _assemble(
    model: Model, shards: list[Path], target: Path, card: dict[str, Any], overwrite: bool, rule: SampleRule
) -> None:
    """One cohort folder from the shards, an array at a time, a shard at a time."""
    if rule.rules is not None:
        card = card | redrawn_card(rule, np.concatenate([_unpack(path).redrawn for path in shards]))
    sizes: dict[str, int] = {}
    types: dict[str, np.dtype[Any]] = {}
    for piece in _pieces(model, shards, card["seed"]):
        for name, array in piece.items():
            sizes[name] = sizes.get(name, 0) + len(array)
            types[name] = array.dtype
    with files.full_disk_explained(target, 8 * sum(sizes.values())), files.fresh_folder(target, overwrite) as folder:
        at = _concatenate(_pieces(model, shards, card["seed"]), folder, sizes, types)
        learned = model.attribute_distribution
        card = {
            **card,
            "patients": at["patient_starts"],
            "visits": at["visit_starts"],
            "codes": len(model.raw_vocabulary),
            "entries": at["codes"],
            "labels": [],
            "attributes": {name: list(c) for name, c in zip(learned.names, learned.categories, strict=True)},
        }
        storage.finish_folder(folder, model.raw_vocabulary.codes, card)


def _concatenate(
    pieces: Iterator[dict[str, NDArray[Any]]], folder: Path, sizes: dict[str, int], types: dict[str, np.dtype[Any]]
) -> dict[str, int]:
    """The arrays of all pieces one after another in files, and their lengths without the ends of the starts.

    Written, not mapped: pages of a map count as memory of the process until the system takes them back.
    """
    ends = {"visit_starts": "codes", "patient_starts": "visit_starts"}
    at = dict.fromkeys(sizes, 0)
    with ExitStack() as open_files:
        files = {name: open_files.enter_context((folder / f"{name}.npy").open("wb")) for name in sizes}
        for name, file in files.items():
            form = {"descr": np.lib.format.dtype_to_descr(types[name]), "fortran_order": False}
            np.lib.format.write_array_header_1_0(file, form | {"shape": (sizes[name] + (name in ends),)})
        for piece in pieces:
            base = {name: at[of] for name, of in ends.items()}
            for name, array in piece.items():
                files[name].write(np.ascontiguousarray(array + base[name] if name in ends else array).data)
                at[name] += len(array)
        for name, of in ends.items():
            files[name].write(np.array([at[of]], dtype=types[name]).data)
    return at


def _pieces(model: Model, shards: list[Path], seed: int) -> Iterator[dict[str, NDArray[Any]]]:
    """The arrays of each shard, starts without their end, as the whole will hold them."""
    for path in shards:
        cohort = dequantize(model, cohort_of(model, _unpack(path), {}), seed, first=int(path.stem))
        piece: dict[str, NDArray[Any]] = {
            "codes": cohort.codes,
            "visit_starts": cohort.visit_starts[:-1],
            "patient_starts": cohort.patient_starts[:-1],
        }
        if cohort.days is not None:
            piece["days"] = cohort.days
        if cohort.values is not None:
            piece["values"] = cohort.values
        for name, attribute in cohort.attributes.items():
            piece[f"attribute_{name}"] = attribute.values
        yield piece
