"""A rough estimate of how long each stage takes on two cores, for people who read a plan before they start it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adapcla.data import Cohort
from adapcla.evaluation.metric import SUITES
from adapcla.generation.fitting import stages
from adapcla.generation.model import Model
from adapcla.generation.sample_folder import SHARD
from adapcla.generation.sampler import BLOCK, Rolled, SampleRule, join, stream
from adapcla.io.writers import IN_PARTS, PATIENTS_AT_ONCE, WriteOptions, write
from adapcla.machine import GIGABYTE, peak_memory_mb
from adapcla.pipeline.settings import DataSettings, EvaluateSettings
from adapcla.pipeline.steps import Step, seconds_on
from adapcla.scaffold import Steering
from adapcla.training.settings import Settings
from adapcla.training.tuning import choose_budget

#: Multiplications and additions per second that training and sampling reach on one core of a common machine.
_SPEED = 6e10
#: The shares of a suite's seconds that a whole and a quick judgement take: always, and for every 10,000 training
#: patients. Seen on one thread for a whole one: 25 s with 1,800, 106 s with 36,000.
_WHOLE, _QUICK = (0.05, 0.06), (0.04, 0.02)
#: Seconds of the work by which machines are compared, on the one that these numbers were measured on.
_PROBE = 7e-4
#: Beyond this a short look at a busy machine says little of the minutes to come.
_SLOWEST = 8.0
#: Bytes of memory of an evaluation, and for each training patient: 1.6 GB at a million (`benchmarks/scale.py`).
_EVALUATED, _PATIENT_EVALUATED = 4e8, 1_200
#: Patients of whom a part is written to see how long all take.
_TRIED = 2_000
#: The share of all patients that is learned from.
_TRAINING_SHARE = 0.72
#: Sizes of a cohort that was not read yet.
_UNKNOWN = (40_000, 60_000, 5_000, 8.0)


class Sizes(NamedTuple):
    """Numbers of training patients, training visits, codes, and codes per visit."""

    patients: int
    visits: int
    codes: int
    codes_per_visit: float = 8.0


def sizes_of(data: DataSettings, prepared: dict[str, Any]) -> Sizes:
    """The sizes of the training part: exact where it is prepared, else from the settings.

    >>> sizes_of(DataSettings(), {}).codes
    3000
    """
    if prepared.get("parts"):
        patients, visits = prepared["parts"]["train"]
        about = prepared["description"]
        return Sizes(patients, visits, int(about["codes"]), float(about["codes_per_visit"]["mean"]))
    if data.source == "planted":
        patients = round(0.72 * data.planted.patients)
        return Sizes(patients, 4 * patients, data.planted.codes)
    return Sizes(*_UNKNOWN)


def slowness(seconds: float = 1.0) -> float:
    """How many times longer work takes at this moment than on the machine that the numbers of this file are from.

    >>> slowness(0.05) > 0
    True
    """
    rng = np.random.default_rng(1)
    matrix, numbers = rng.random((256, 256)), rng.random(20_000)
    began, n = time.monotonic(), 0
    while time.monotonic() - began < seconds or n < 3:
        matrix @ matrix
        np.sort(numbers)
        sum(range(10_000))
        n += 1
    return min((time.monotonic() - began) / n / _PROBE, _SLOWEST)


def training_seconds(settings: Settings, sizes: Sizes) -> float:
    """Seconds to train a row.

    >>> training_seconds(Settings(), Sizes(10_000, 20_000, 1000)) > 1
    True
    """
    if settings.family.objective is None:
        return 1.0
    settings = choose_budget(settings, sizes.patients)
    return (
        2
        + 3
        * len(stages(settings))
        * settings.budget.passes
        * sizes.visits
        * settings.architecture.multiplications(sizes.codes, sizes.codes_per_visit)
        / _SPEED
    )


def sampling_seconds(settings: Settings, sizes: Sizes, patients: int = 0) -> float:
    """Seconds to sample as many patients as were trained on, or this many."""
    share = patients / sizes.patients if patients else 1.0
    return (
        1
        + 3 * share * sizes.visits * settings.architecture.multiplications(sizes.codes, sizes.codes_per_visit) / _SPEED
    )


def evaluation_seconds(asked: EvaluateSettings, sizes: Sizes) -> float:
    """Seconds to judge one sample.

    >>> evaluation_seconds(EvaluateSettings(suites=("tail",)), Sizes(10_000, 20_000, 1000))
    2.2
    """
    always, growing = _QUICK if asked.quick else _WHOLE
    scale = always + growing * sizes.patients / 10_000
    return sum(SUITES[suite].seconds for suite in asked.suites) * scale


# ---- what a command needs -----------------------------------------------------------------------------------
class Need(NamedTuple):
    """What a command takes, roughly: seconds on so many workers, bytes of memory of each, and bytes of disk."""

    seconds: float
    memory: float
    disk: float
    workers: int = 1

    @property
    def sentence(self) -> str:
        """For people.

        >>> Need(9000, 1.2e9, 3e10, 4).sentence
        'about 2.5 h on 4 workers, 1.2 GB of memory each and 30.0 GB of disk'
        """
        workers = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        each = " each" if self.workers > 1 else ""
        memory, disk = self.memory / GIGABYTE, self.disk / GIGABYTE
        return f"about {clock(self.seconds)} on {workers}, {memory:.1f} GB of memory{each} and {disk:.1f} GB of disk"


def cohort_bytes(sizes: Sizes, patients: float) -> float:
    """Bytes of the folder of so many patients like these: 4 a code, 12 a visit, 8 a patient.

    >>> cohort_bytes(Sizes(100, 200, 50, 3.0), 1000)
    56000.0
    """
    visits = patients * sizes.visits / max(sizes.patients, 1)
    return 8 * patients + (12 + 4 * sizes.codes_per_visit) * visits


def sampling_need(model: Model, n: int, seed: int, steering: Steering | None, rule: SampleRule, workers: int) -> Need:
    """What `n` patients take, by the first block of them, which is drawn and timed."""
    some = min(n, BLOCK)
    began = time.monotonic()
    drawn = join(list(stream(model, some, seed, steering, rule)))
    each = (time.monotonic() - began) / some
    arrays = sum(getattr(drawn, name).nbytes for name in Rolled.__dataclass_fields__)
    # A shard is in memory as patients, joined, and packed; on disk are all shards and the folder that they become.
    return Need(
        each * n / min(workers, -(-n // SHARD)),
        1e6 * peak_memory_mb() + 4 * arrays / some * min(n, SHARD),
        2 * arrays / some * n,
        workers,
    )


def writing_need(cohort: Cohort, to: str, options: WriteOptions, workers: int) -> Need:
    """What an export takes, by that of its first patients."""
    some = cohort.between(0, min(cohort.n_patients, _TRIED))
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        written = write(some, Path(folder) / "some", to, options=options)
        seconds = time.monotonic() - began
        disk = sum(path.stat().st_size for path in written.rglob("*") if path.is_file())
    times = cohort.n_patients / some.n_patients
    parts = -(-cohort.n_patients // PATIENTS_AT_ONCE) if to in IN_PARTS else 1
    # The tables of a part as the database holds them: ids, code and number of every entry, and the rows it sorts.
    entries = cohort.n_entries / parts
    return Need(seconds * times / min(workers, parts), 1e6 * peak_memory_mb() + 72 * entries, disk * times, workers)


def evaluation_need(asked: EvaluateSettings, sizes: Sizes, workers: int) -> Need:
    """What an evaluation takes; metrics are spread over workers."""
    memory = _EVALUATED + _PATIENT_EVALUATED * sizes.patients
    return Need(evaluation_seconds(asked, sizes) / workers, memory, 0.0, workers)


def steps_need(steps: Sequence[Step], sizes: Sizes, patients: int, workers: int) -> Need:
    """What the steps of a release or a study take that are left: of the data, what is learned from, and each sample."""
    samples = sum(step.stage == "sample" for step in steps)
    whole = cohort_bytes(sizes, sizes.patients / _TRAINING_SHARE)
    disk = 2 * whole + 2 * samples * cohort_bytes(sizes, patients or sizes.patients)
    return Need(seconds_on(steps, workers), _EVALUATED + _PATIENT_EVALUATED * sizes.patients, disk, workers)


def clock(seconds: float) -> str:
    """Seconds as people say them.

    >>> clock(42), clock(120), clock(9000)
    ('42 s', '2 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
