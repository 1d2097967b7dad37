"""Large samples written straight to disk in constant memory: shards that survive a kill, then one cohort folder.

One process writes all shards (`stream_sample`), or several that a launcher started, or independent jobs that know
nothing of each other (`write_share` in each, then `assemble` once). The bytes are the same.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla import files
from adapcla.console import meter
from adapcla.data import storage
from adapcla.errors import InputError
from adapcla.generation.model import Model, as_natural
from adapcla.generation.sampler import BLOCK, Rolled, SampleRule, cohort_of, joined, redrawn_card, sample_card, stream
from adapcla.scaffold import Steering
from adapcla.training.distributed import Processes, processes

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
    target, rule, group = Path(folder), rule or SampleRule(), processes()
    card = sample_card(model, n, seed, rule, steering)
    key = _key(model, card, steering, rule)
    unfinished = target.with_name(f".{target.name}.unfinished")
    done = resume and _is_sample(target, key)
    if group.main and not done:
        files.refuse_populated(target, overwrite)
    with files.folder_lock(unfinished):
        if group.main and not done:
            _prepare(target, unfinished, key if resume else "")
        # The others begin when the folder is as the first has left it, and wait again until it is complete.
        group.wait()
        if not done:
            _shards(model, n, seed, steering, rule, unfinished / key, group)
            group.wait()
            if group.main:
                _assemble(model, _complete(unfinished / key, n), target, {**card, "key": key}, overwrite, rule)
        if group.main:
            shutil.rmtree(unfinished)
        group.wait()
    return files.read_json(target / storage.CARD)


def write_share(
    model: Model,
    n: int,
    seed: int,
    folder: str | Path,
    share: Processes,
    *,
    steering: Steering | None = None,
    rule: SampleRule | None = None,
) -> int:
    """Write the shards of one of `share.count` independent jobs beside `folder`; the patients in them.

    Shards that are there already are left as they are, so that a job that was stopped may be started again.
    """
    rule = rule or SampleRule()
    key = _key(model, sample_card(model, n, seed, rule, steering), steering, rule)
    _shards(model, n, seed, steering, rule, shards_beside(folder) / key, share)
    return _patients_of(share, n)


def assemble(
    model: Model,
    n: int,
    seed: int,
    folder: str | Path,
    *,
    steering: Steering | None = None,
    rule: SampleRule | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """The cohort folder from what all jobs of `write_share` wrote, to the bytes of `stream_sample`; its card."""
    target, rule = Path(folder), rule or SampleRule()
    card = sample_card(model, n, seed, rule, steering)
    key = _key(model, card, steering, rule)
    files.refuse_populated(target, overwrite)
    beside = shards_beside(target)
    shards = _complete(beside / key, n)
    with files.folder_lock(beside / key):
        _assemble(model, shards, target, {**card, "key": key}, overwrite, rule)
        shutil.rmtree(beside / key)
    if not any(beside.iterdir()):
        beside.rmdir()
    return files.read_json(target / storage.CARD)


def shards_beside(folder: str | Path) -> Path:
    """Where independent jobs leave the shards of a sample.

    >>> shards_beside("runs/large").as_posix()
    'runs/large.shards'
    """
    return Path(folder).with_name(f"{Path(folder).name}.shards")


def _complete(folder: Path, n: int) -> list[Path]:
    """The shards of n patients in order; an error if one is not there, because a sample must not end up smaller."""
    needed = [_shard(folder, low) for low in range(0, n, SHARD)]
    missing = [number for number, path in enumerate(needed, 1) if not path.exists()]
    if missing:
        others = [path for path in folder.parent.glob("*/*.npz") if path.parent != folder]
        named = ", ".join(map(str, missing[:8])) + (" …" if len(missing) > 8 else "")
        raise InputError(
            f"{len(missing)} of {len(needed)} shards of this sample are not there (numbers {named})"
            + ("; shards of another sample are" if others else ""),
            path=folder.parent,
            expected="the shards of all jobs, of the same model, seed, patients and options",
            remedy="run the jobs that are missing with the same options; job I of N writes shards I, I + N, I + 2N, …",
        )
    return needed


def _patients_of(share: Processes, n: int) -> int:
    """How many of n patients are in a share of the shards."""
    return sum(min(SHARD, n - low) for low in share.share(range(0, n, SHARD)))


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


def _shards(
    model: Model, n: int, seed: int, steering: Steering | None, rule: SampleRule, folder: Path, share: Processes
) -> None:
    """Write a share of the shards, except those that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    with meter("sample", _patients_of(share, n)) as bar:
        for low in share.share(range(0, n, SHARD)):
            path = _shard(folder, low)
            count = min(SHARD, n - low)
            if not path.exists():
                whole = joined(list(stream(model, low + count, seed, steering, rule, first=low)))
                files.write_bytes(path, _packed(whole))
            bar.advance(count, f"shard {low // SHARD + 1}")


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


def _packed(rolled: Rolled) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **{name: getattr(rolled, name) for name in Rolled.__dataclass_fields__})
    return buffer.getvalue()


def _unpacked(path: Path) -> Rolled:
    try:
        with np.load(path, allow_pickle=False) as content:
            return Rolled(**{name: content[name] for name in Rolled.__dataclass_fields__})
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise InputError(
            f"not a readable shard ({type(error).__name__})", path=path, remedy="remove it and run its job again"
        ) from None


def _assemble(
    model: Model, shards: list[Path], target: Path, card: dict[str, Any], overwrite: bool, rule: SampleRule
) -> None:
    """One cohort folder from the shards, an array at a time, a shard at a time."""
    if rule.rules is not None:
        card = card | redrawn_card(rule, np.concatenate([_unpacked(path).redrawn for path in shards]))
    sizes: dict[str, int] = {}
    types: dict[str, np.dtype[Any]] = {}
    for piece in _pieces(model, shards, card["seed"]):
        for name, array in piece.items():
            sizes[name] = sizes.get(name, 0) + len(array)
            types[name] = array.dtype
    with files.full_disk_explained(target, 8 * sum(sizes.values())), files.fresh_folder(target, overwrite) as folder:
        at = _concatenated(_pieces(model, shards, card["seed"]), folder, sizes, types)
        card = {
            **card,
            "patients": at["patient_starts"],
            "visits": at["visit_starts"],
            "codes": len(model.natural),
            "entries": at["codes"],
            "labels": [],
            "attributes": {n: list(c) for n, c in zip(model.law.names, model.law.categories, strict=True)},
        }
        storage.finish_folder(folder, model.natural.codes, card)


def _concatenated(
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
        cohort = as_natural(model, cohort_of(model, _unpacked(path), {}), seed, first=int(path.stem))
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
