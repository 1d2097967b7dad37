"""Damaged models, tables, priors and settings: each ends in a result or a named error, soon, and nothing is executed.

python benchmarks/fuzz.py --quick --json
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

# The mutations of text, and the small data sets, are those of the tests.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from tests.io import fuzz as tables

from adapcla.data.prevalence import read_prevalence, write_prevalence
from adapcla.errors import AdapclaError
from adapcla.files import write_manifest
from adapcla.generation import Generator, generator_for, load
from adapcla.io import simulator
from adapcla.study.spec import read_study

SECONDS_A_FILE = 10
METHODS = ("adapcla", "tailwise", "gpt")
MEMORY = 8 << 30


class Payload:
    """Leaves a folder behind when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, ...]]:
        return os.makedirs, (str(self.trace),)


class Models:
    """Small saved models, and damaged copies of them."""

    def __init__(self, root: Path) -> None:
        self.root, self.trace = root, root / "trace"
        world = simulator.simulate(patients=150, codes=50, seed=1)
        train, valid, _ = world.split(seed=4)
        small = {"width": 16, "layers": 1, "heads": 2, "passes": 1, "validations": 1}
        self.whole = [
            generator_for(name, **small).fit(train, valid).save(root / "whole" / name) for name in METHODS
        ]  # fmt: skip
        fewer = train.keep_codes(train.visit_counts > 3)
        small_one = generator_for("adapcla", **small).fit(fewer, valid.keep_codes(train.visit_counts > 3))
        self.other = small_one.save(root / "whole" / "other")
        write_prevalence(train.prevalence(), root / "prior.csv", min_cell=1)

    def damage(self, draws: random.Random) -> tuple[Path, str]:
        """A damaged copy, and what was done to it."""
        folder = self.root / "damaged"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(draws.choice(self.whole), folder)
        kind = draws.choice(sorted(DAMAGES))
        DAMAGES[kind](self, folder, draws)
        # Whoever means harm would leave a manifest that agrees; whoever lost bytes on the way would not.
        if kind not in ("flip", "file instead") and draws.random() < 0.9:
            write_manifest(folder)
        return folder, kind


def flip(models: Models, folder: Path, draws: random.Random) -> None:
    path = draws.choice(sorted(folder.iterdir()))
    content = bytearray(path.read_bytes())
    content[draws.randrange(len(content))] ^= 1 << draws.randrange(8)
    path.write_bytes(bytes(content))


def truncate(models: Models, folder: Path, draws: random.Random) -> None:
    path = draws.choice(sorted(folder.iterdir()))
    content = path.read_bytes()
    path.write_bytes(content[: draws.randrange(len(content))])


def header(models: Models, folder: Path, draws: random.Random) -> None:
    """Change the header of the weights: its length, a name, a shape, a type, an offset."""
    path = folder / "weights.safetensors"
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    if draws.random() < 0.3:
        path.write_bytes(draws.choice((0, 2, size + 1, 1 << 40, (1 << 64) - 1)).to_bytes(8, "little") + content[8:])
        return
    header = json.loads(content[8 : 8 + size])
    name = draws.choice([name for name in header if name != "__metadata__"])
    entry = header[name]
    change = draws.randrange(5)
    if change == 0:
        entry["shape"] = [draws.choice((0, 1, 7, 1 << 40, -1)) for _ in entry["shape"]]
    elif change == 1:
        entry["dtype"] = draws.choice(("F64", "I64", "BOOL", "F99", "BF16"))
    elif change == 2:
        entry["data_offsets"] = [draws.randrange(1 << 20), draws.randrange(1 << 20)]
    elif change == 3:
        header[draws.choice(("x", "../x", name.upper()))] = header.pop(name)
    else:
        del header[name]
    new = json.dumps(header).encode()
    path.write_bytes(len(new).to_bytes(8, "little") + new + content[8 + size :])


def weights(models: Models, folder: Path, draws: random.Random) -> None:
    """Overwrite numbers of the weights with anything."""
    path = folder / "weights.safetensors"
    content = bytearray(path.read_bytes())
    begin = 8 + int.from_bytes(content[:8], "little")
    for _ in range(draws.choice((1, 20))):
        at = draws.randrange(begin, len(content) - 8)
        content[at : at + 8] = draws.randbytes(8)
    path.write_bytes(bytes(content))


def shapes(models: Models, folder: Path, draws: random.Random) -> None:
    """Put another number, or something else, at some places of the settings."""
    path = folder / "config.json"
    config: Any = json.loads(path.read_text())
    for _ in range(draws.choice((1, 1, 3))):
        at = config
        while True:
            key = draws.choice(sorted(at) if isinstance(at, dict) else range(len(at)))
            if not isinstance(at[key], dict | list) or not at[key] or draws.random() < 0.1:
                break
            at = at[key]
        at[key] = draws.choice((0, -1, 1, 7, 1 << 20, 1 << 40, 1e308, None, "", "x", [], {}, True, [[1]], 0.5))
    path.write_text(json.dumps(config))


def text(models: Models, folder: Path, draws: random.Random) -> None:
    """Mutate the bytes of settings, manifest, vocabulary or prior."""
    name = draws.choice(("config.json", "MANIFEST.json", "vocabulary.parquet", "prior.npy"))
    path = folder / name
    path.write_bytes(tables.mutated(path.read_bytes(), draws))


def vocabulary(models: Models, folder: Path, draws: random.Random) -> None:
    """Another model's vocabulary, prior or weights."""
    for name in draws.sample(("vocabulary.parquet", "prior.npy", "weights.safetensors"), draws.randint(1, 2)):
        shutil.copy(draws.choice([models.other, *models.whole]) / name, folder / name)


def put_pickles(models: Models, folder: Path, draws: random.Random) -> None:
    """A pickle in the place of a file, and one beside the weights."""
    import pickle

    content = pickle.dumps(Payload(models.trace))
    draws.choice(sorted(folder.iterdir())).write_bytes(content)
    (folder / draws.choice(("weights.pt", "model.pkl", "pytorch_model.bin"))).write_bytes(content)


def replace_folder(models: Models, folder: Path, draws: random.Random) -> None:
    """A pickle in the place of the whole folder."""
    import pickle

    shutil.rmtree(folder)
    folder.write_bytes(pickle.dumps(Payload(models.trace)))


DAMAGES: dict[str, Callable[[Models, Path, random.Random], None]] = {
    "flip": flip,
    "truncate": truncate,
    "header": header,
    "weights": weights,
    "shapes": shapes,
    "text": text,
    "vocabulary": vocabulary,
    "pickle": put_pickles,
    "file instead": replace_folder,
}


def outcome(work: Callable[[], object]) -> str:
    """What some work ends in: `done`, `error`, `hang`, or the name of what should not happen."""
    try:
        with tables._time_limit(SECONDS_A_FILE):
            work()
    except AdapclaError:
        return "error"
    except tables._Hang:
        return "hang"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:120]}"
    return "done"


def model_outcome(models: Models, seed: int) -> tuple[str, str]:
    """What opening a damaged model and drawing from it ends in, and how it was damaged."""
    folder, kind = models.damage(random.Random(seed))
    if kind == "flip":
        return outcome(lambda: load(folder)), kind
    result = outcome(lambda: load(folder).sample(4, seed=1, max_visits=3))
    if folder.is_file():
        folder.unlink()
    return result, kind


def prior_outcome(models: Models, generator: Generator, seed: int) -> tuple[str, str]:
    """What steering towards a mutated prior ends in."""
    path = models.root / "mutated.csv"
    path.write_bytes(tables.mutated((models.root / "prior.csv").read_bytes(), random.Random(seed)))
    return outcome(lambda: generator.sample(4, toward=read_prevalence(path), max_visits=2)), "prior"


def setting_outcome(models: Models, seed: int) -> tuple[str, str]:
    """What a mutated experiment, and a method with a mutated setting, end in."""
    draws = random.Random(seed)
    demo = files("adapcla.study") / "demo.toml"
    path = models.root / "mutated.toml"
    path.write_bytes(tables.mutated(demo.read_bytes(), draws))
    name = draws.choice(("width", "passes", "schedule", "epsilon", "family", "heads", "threads", "nonsense", "budget"))
    value: Any = draws.choice((0, -1, 1e400, "x", None, [], "ramp:1,2,3", "ramp:nan,1", float("nan"), {"passes": "x"}))

    def work() -> None:
        if draws.random() < 0.5:
            read_study(path)
        else:
            generator_for(draws.choice(("adapcla", "gpt", "eva")), **{name: value})

    return outcome(work), "setting"


def table_outcome(seed: int) -> tuple[str, str]:
    """What reading a mutated table of some source ends in."""
    with tempfile.TemporaryDirectory() as folder:
        result = tables.outcome(seed, Path(folder))
    return ("done" if result == "cohort" else result), "table"


def pickle_workflow(root: Path, flips: int = 200) -> dict[str, object]:
    """The like tests on weights kept as a pickle, as scripts of the field keep them: flips seen, payload run or not."""
    import pickle

    weights = np.random.default_rng(1).normal(size=20_000).astype(np.float32)
    content = pickle.dumps({"weights": weights})
    begin = content.index(weights.tobytes())
    draws, undetected = random.Random(1), 0
    for _ in range(flips):
        damaged = bytearray(content)
        # Inside the numbers only: a flip in the program around them may run anything.
        damaged[draws.randrange(begin, begin + weights.nbytes)] ^= 1 << draws.randrange(8)
        found = pickle.loads(bytes(damaged))["weights"]
        undetected += not np.array_equal(found, weights, equal_nan=True)
    trace = root / "pickle-trace"
    pickle.loads(pickle.dumps(Payload(trace)))
    share = round(weights.nbytes / len(content), 4)
    return {"flips": flips, "undetected": undetected, "share_of_file": share, "executed": int(trace.exists())}


def measure(root: Path, files: int, seconds: float) -> dict[str, object]:
    """So many files of each kind, or as many as the time allows."""
    models = Models(root)
    generator = load(models.whole[0])
    kinds: tuple[tuple[int, Callable[[int], tuple[str, str]]], ...] = (
        (files, lambda seed: model_outcome(models, seed)),
        (files // 2, table_outcome),
        (files // 4, lambda seed: prior_outcome(models, generator, seed)),
        (files // 4, lambda seed: setting_outcome(models, seed)),
    )
    began, counts, bad = time.monotonic(), Counter[str](), []
    flips = undetected = hangs = 0
    for number, (n, one) in enumerate(kinds, 1):
        for seed in range(n):
            if time.monotonic() - began > seconds * number / len(kinds):
                break
            result, kind = one(seed)
            counts[f"{kind}: {result if result in ('done', 'error') else 'bad'}"] += 1
            flips += kind == "flip"
            undetected += kind == "flip" and result != "error"
            hangs += result == "hang"
            if result not in ("done", "error", "hang"):
                bad.append(f"{kind} {seed}: {result}")
    return {
        "files": counts.total(), "tracebacks": len(bad), "hangs": hangs, "flips": flips,
        "undetected_flips": undetected, "executed": int(models.trace.exists()),
        "outcomes": dict(sorted(counts.items())), "pickle_workflow": pickle_workflow(root),
        "bad": bad[:20], "seconds": round(time.monotonic() - began),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a few hundred files")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line, which is the default")
    parser.add_argument("--files", type=int, default=10_000, help="damaged models; as many of the rest together")
    arguments = parser.parse_args()
    os.environ["ADAPCLA_QUIET"] = "1"
    # A size that is believed must fail here, not take the machine's memory.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        files, seconds = (600, 200.0) if arguments.quick else (arguments.files, 4 * 3_600.0)
        result = measure(Path(folder), files, seconds)
    print(json.dumps(result, ensure_ascii=False))
    if result["tracebacks"] or result["hangs"] or result["undetected_flips"] or result["executed"]:
        sys.exit("something was not refused as it should be")


if __name__ == "__main__":
    main()
