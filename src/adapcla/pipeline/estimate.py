"""A rough estimate of how long each stage takes on two cores, for people who read a plan before they start it."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from adapcla.evaluation.metric import SUITES
from adapcla.generation.fitting import stages
from adapcla.pipeline.settings import DataSettings, EvaluateSettings
from adapcla.training.settings import Settings
from adapcla.training.tuning import chosen

#: Multiplications and additions per second that training and sampling reach on one core of a common machine.
_SPEED = 6e10
#: The shares of a suite's seconds that a whole and a quick judgement take: always, and for every 10,000 training
#: patients. Seen on one thread for a whole one: 25 s with 1,800, 106 s with 36,000.
_WHOLE, _QUICK = (0.05, 0.06), (0.04, 0.02)
#: Seconds of the work by which machines are compared, on the one that these numbers were measured on.
_PROBE = 7e-4
#: Beyond this a short look at a busy machine says little of the minutes to come.
_SLOWEST = 8.0
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
    settings = chosen(settings, sizes.patients)
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


def clock(seconds: float) -> str:
    """Seconds as people say them.

    >>> clock(42), clock(120), clock(9000)
    ('42 s', '2 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
