"""Large samples straight to disk: shards that survive a kill, then one cohort folder, in flat memory."""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.console import meter
from adapcla.generators.contract import SampleRule
from adapcla.generators.neural import NeuralGenerator
from adapcla.generators.sampling import BLOCK, Rolled, joined
from adapcla.records import Cohort, store
from adapcla.scaffold import Steering

#: Patients a shard: a whole number of blocks.
SHARD = 64 * BLOCK


def write_sample(
    generator: NeuralGenerator,
    n: int,
    seed: int,
    folder: str | Path,
    *,
    steering: Steering | None = None,
    rule: SampleRule | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> Cohort:
    """`n` patients of a seed in a cohort folder; the same bytes as `generator.sample(n, seed).save(folder)`."""
    place, rule = Path(folder), rule or SampleRule()
    card = generator.sample_card(n, seed, rule, steering)
    key = _key(generator, card, steering, rule)
    if resume and (place / store.MANIFEST).exists() and store.read_json(place / store.CARD).get("key") == key:
        return Cohort.open(place)
    store.refuse_populated(place, overwrite)
    parts = place.with_name(f".{place.name}.{key}.parts")
    if not resume:
        shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir(parents=True, exist_ok=True)
    with meter("sample", n) as bar:
        for low in range(0, n, SHARD):
            path = parts / f"{low:012d}.npz"
            count = min(SHARD, n - low)
            if not path.exists():
                whole = joined(list(generator.stream(low + count, seed, steering, rule, first=low)))
                store.write_bytes(path, _packed(whole))
            bar.advance(count, f"shard {low // SHARD + 1}")
    _assemble(generator, sorted(parts.glob("*.npz")), place, {**card, "key": key}, overwrite)
    shutil.rmtree(parts)
    return Cohort.open(place)


def _key(generator: NeuralGenerator, card: dict[str, Any], steering: Steering | None, rule: SampleRule) -> str:
    """What a half-written sample belongs to."""
    digest = hashlib.sha256(store.json_bytes({**card, "rule": repr(rule)}))
    digest.update(generator.vocabulary_.fingerprint.encode())
    if steering is not None:
        digest.update(steering.delta.tobytes())
    for name, value in sorted(generator.fitted.modules.state_dict().items()):
        digest.update(name.encode() + value.numpy().tobytes())
    return digest.hexdigest()[:16]


def _packed(rolled: Rolled) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **{name: getattr(rolled, name) for name in Rolled.__dataclass_fields__})
    return buffer.getvalue()


def _unpacked(path: Path) -> Rolled:
    with np.load(path, allow_pickle=False) as content:
        return Rolled(**{name: content[name] for name in Rolled.__dataclass_fields__})


def _assemble(
    generator: NeuralGenerator, shards: list[Path], place: Path, card: dict[str, Any], overwrite: bool
) -> None:
    """One cohort folder from the shards, an array at a time, a shard at a time."""
    sizes: dict[str, int] = {}
    types: dict[str, np.dtype[Any]] = {}
    for piece in _pieces(generator, shards):
        for name, array in piece.items():
            sizes[name] = sizes.get(name, 0) + len(array)
            types[name] = array.dtype
    ends = {"visit_starts": "codes", "patient_starts": "visit_starts"}
    fitted = generator.fitted
    with store.no_space_named(place, 8 * sum(sizes.values())), store.fresh_folder(place, overwrite) as folder:
        out = {
            name: np.lib.format.open_memmap(
                folder / f"{name}.npy", mode="w+", dtype=types[name], shape=(size + (name in ends),)
            )
            for name, size in sizes.items()
        }
        at = dict.fromkeys(out, 0)
        for piece in _pieces(generator, shards):
            base = {name: at[of] for name, of in ends.items()}
            for name, array in piece.items():
                low = at[name]
                out[name][low : low + len(array)] = array + base[name] if name in ends else array
                at[name] = low + len(array)
        for name, of in ends.items():
            out[name][-1] = at[of]
        n_patients, n_visits = at["patient_starts"], at["visit_starts"]
        for array in out.values():
            array.flush()
        del out
        card = {
            **card,
            "patients": n_patients,
            "visits": n_visits,
            "codes": len(generator.vocabulary_),
            "entries": at["codes"],
            "labels": [],
            "attributes": {n: list(c) for n, c in zip(fitted.law.names, fitted.law.categories, strict=True)},
        }
        store.finish_folder(folder, generator.vocabulary_.codes, card)


def _pieces(generator: NeuralGenerator, shards: list[Path]) -> Iterator[dict[str, NDArray[Any]]]:
    """The arrays of each shard, starts without their end, as the whole will hold them."""
    for path in shards:
        cohort = generator.cohort_of(_unpacked(path), {})
        piece: dict[str, NDArray[Any]] = {
            "codes": cohort.codes,
            "visit_starts": cohort.visit_starts[:-1],
            "patient_starts": cohort.patient_starts[:-1],
        }
        if cohort.days is not None:
            piece["days"] = cohort.days
        for name, attribute in cohort.attributes.items():
            piece[f"attribute_{name}"] = attribute.values
        yield piece
