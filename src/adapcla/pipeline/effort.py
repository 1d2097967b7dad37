"""What a number of minutes buys: the epochs of the fit and how thoroughly the result is judged.

Sizes and epochs are those that every fit has (`training/tuning.py`); epochs that the time has no room for are left out.
How long a fit takes is measured on this machine by real steps on these patients, and all else is reckoned from the
numbers here (`benchmarks/releases.py`) and from how fast this machine is beside the one they were measured on. What is
chosen is written to `plan.json`, so that the same plan gives the same bytes everywhere.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from adapcla.data import Cohort
from adapcla.generation.fitting import Pace, measure_pace
from adapcla.generation.generator import generator_for
from adapcla.pipeline.estimate import Sizes, evaluation_seconds, sampling_seconds, slowness, training_seconds
from adapcla.pipeline.settings import EvaluateSettings
from adapcla.training.settings import Settings, calibration_size
from adapcla.training.tuning import choose_budget, epochs_within

#: What a release is judged by, unless somebody asks for more.
JUDGED = ("tail", "fidelity", "utility", "privacy")
#: What its page does not show: the paper's protocol trains a classifier for each label, which takes most of the time.
NOT_JUDGED = ("tstr_acc", "tstr_f1", "tstr_auprc")
#: The share of the time that judging in full may take, and the share of all of it that is planned.
_JUDGING, _PLANNED = 0.4, 0.9
#: Judging takes so many times the estimate of its suites: 20 s of a processor for 4,560 training patients, quickly.
_JUDGING_TAKES = 1.0
#: What judging models of real patients takes beside judging the synthetic ones, in a quick look.
REAL_SHARE = 0.5
#: Patients of each part that likeness and usefulness are judged by at most; privacy is judged by all.
MOST_JUDGED = 50_000
#: Seconds that judging the privacy of one more training patient takes.
_PATIENT_JUDGED = 1e-3
#: Attack models have about this share of the training patients: half of members and controls together.
_ATTACK_SHARE = 0.65
#: Training with its looks at validation patients, beside its steps alone.
_LOOKS = 1.1
#: What is left for training however short the time is.
_LEAST_SECONDS = 5.0
#: Seconds that a visit takes beside the multiplications of a wide network, in training and in sampling; a visit is
#: drawn code by code.
_VISIT_TRAINED, _VISIT_SAMPLED, _CODE_SAMPLED = 1e-4, 5e-5, 1e-7
#: Seconds to begin, to read and to roll up each training patient.
BEGINNING, _PATIENT_READ, _PATIENT_ROLLED = 4.0, 1e-4, 8e-5
#: Seconds to write a code of a visit in a format.
_ENTRY_WRITTEN = {"csv": 4e-6, "parquet": 4e-6, "xlsx": 4e-5, "meds": 4e-6, "omop": 1e-5, "fhir": 4e-5}


#: Formats that are reckoned with when the network is chosen, so that another format needs no other network.
_WRITTEN = ("csv",)


class Around(NamedTuple):
    """Rough seconds of what is done before training and after judging."""

    reading: float
    rolling_up: float
    writing: float


def around(sizes: Sizes, patients: int, formats: Sequence[str]) -> Around:
    """Rough seconds of reading, rolling up and writing.

    >>> around(Sizes(600_000, 1_200_000, 3_000, 10.0), 0, ("csv",)).writing
    52.0
    """
    entries = (patients or sizes.patients) * sizes.visits / max(sizes.patients, 1) * sizes.codes_per_visit
    each = sum(_ENTRY_WRITTEN[name] for name in formats)
    reading, rolling = _PATIENT_READ * sizes.patients, _PATIENT_ROLLED * sizes.patients
    return Around(BEGINNING + reading, 1.0 + rolling, BEGINNING + entries * each)


class Speed(NamedTuple):
    """How fast this machine is."""

    #: Of a fit; None where it is reckoned.
    pace: Pace | None = None
    #: How many times longer all else takes than the numbers here say.
    slowness: float = 1.0
    #: Seconds that went by before training, where they are known.
    before: float | None = None

    def as_json(self) -> dict[str, Any]:
        """For a plan.

        >>> Speed.from_json(Speed(Pace(1.0, 2.0), 3.0).as_json())
        Speed(pace=Pace(beginning=1.0, epoch=2.0), slowness=3.0, before=None)
        """
        return {**self._asdict(), "pace": None if self.pace is None else self.pace._asdict()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Speed:
        """The same again."""
        pace = content["pace"]
        return cls(None if pace is None else Pace(**pace), content["slowness"], content["before"])


def measure(method: str, given: dict[str, Any], train: Cohort, before: float) -> Speed:
    """How fast this machine is at this moment, by real steps of training on these patients.

    Args:
        method: A row of `METHODS`.
        given: Its settings; a number of epochs among them leaves nothing to measure.
        train: The training patients.
        before: Seconds that went by before.
    """
    began = time.monotonic()
    pace = None if "passes" in given else measure_pace(settings_of(method, given), train)
    slow = slowness()
    return Speed(pace, slow, before + time.monotonic() - began)


class Effort(NamedTuple):
    """What is done in the time."""

    settings: dict[str, Any]
    #: Judge with fewer draws and smaller classifiers.
    quick: bool
    #: Passes that training takes at most where there is time for them, and minutes that they need for that.
    wanted_passes: float
    minutes: int
    #: Rough seconds.
    training: float
    sampling: float
    judging: float

    @property
    def shortened(self) -> str:
        """What to say before training where time ends it before it has converged; empty where it does not.

        >>> Effort({"passes": 2.0}, True, 8.0, 12, 100, 10, 10).shortened
        'time for 2 of 8 epochs: training will end before it has converged; --minutes 12 has room for all of them'
        """
        if self.settings["passes"] >= self.wanted_passes:
            return ""
        return (
            f"time for {self.settings['passes']:g} of {self.wanted_passes:g} epochs: training will end before it has "
            f"converged; --minutes {self.minutes} has room for all of them"
        )


def effort_for(
    minutes: float,
    method: str,
    given: dict[str, Any],
    sizes: Sizes,
    patients: int = 0,
    judged: EvaluateSettings = EvaluateSettings(suites=JUDGED, leave_out=NOT_JUDGED),
    attack_models: int = 0,
    measured: Speed = Speed(),
) -> Effort:
    """What fits into the minutes; settings that were given stay as they are.

    Args:
        minutes: Minutes for the whole.
        method: A row of `METHODS`.
        given: Settings that are not chosen here.
        sizes: Of the training patients.
        patients: Synthetic patients; 0 for as many as training patients.
        judged: What is judged.
        attack_models: Models that are trained to attack the model, where it is to be written too.
        measured: How fast this machine is, where that was measured.

    >>> short, long = (effort_for(m, "tailwise", {}, Sizes(20_000, 50_000, 1_000)) for m in (2, 60))
    >>> short.settings["passes"] < long.settings["passes"], short.quick, long.quick
    (True, True, False)
    """
    settings = choose_budget(settings_of(method, given), sizes.patients)
    wanted = settings.budget.passes
    slow, pace, before = measured.slowness, measured.pace, measured.before
    training, sampling, calibrating = (slow * seconds for seconds in _seconds(settings, sizes, patients))
    if pace is not None:
        # Looks at the validation loss take a part of an epoch each.
        training, calibrating = wanted * pace.epoch * _LOOKS, calibrating + pace.beginning
    whole, quick = (
        slow * _judging_seconds(judged.model_copy(update={"quick": short}), sizes) for short in (False, True)
    )
    reading, rolling_up, writing = around(sizes, patients, _WRITTEN)
    rest = (slow * (reading + rolling_up) if before is None else before) + slow * writing
    fits = 1 + _ATTACK_SHARE * attack_models

    def left_for_training(minutes: float) -> tuple[float, bool]:
        """Seconds for the steps of one fit, and whether judging is quick."""
        seconds = 60 * minutes * _PLANNED - rest - sampling
        is_quick = whole > _JUDGING * seconds
        return (seconds - (quick if is_quick else whole)) / fits - calibrating, is_quick

    left, is_quick = left_for_training(minutes)
    passes = wanted
    if "passes" not in given and settings.family.objective is not None:
        passes = epochs_within(max(left, _LEAST_SECONDS), training / max(wanted, 1e-9), wanted)
        if passes < wanted:
            # Two digits, so that machines that differ little choose alike.
            passes = float(f"{passes:.2g}")
    needed = math.ceil(minutes)
    while passes < wanted and left_for_training(needed)[0] < training:
        needed += math.ceil(needed / 20)
    fitting = training * passes / max(wanted, 1e-9) + calibrating
    judging = (quick if is_quick else whole) + (fits - 1) * fitting
    return Effort({**given, "passes": passes}, is_quick, wanted, needed, fitting, sampling, judging)


def _judging_seconds(judged: EvaluateSettings, sizes: Sizes) -> float:
    """Rough seconds of judging: likeness and usefulness by some patients, privacy by all."""
    some = sizes._replace(patients=min(sizes.patients, MOST_JUDGED))
    seconds = _JUDGING_TAKES * evaluation_seconds(judged, some)
    # In a quick look, models of real patients are judged by themselves.
    seconds *= 1 + REAL_SHARE if judged.quick else 1.0
    return seconds + _PATIENT_JUDGED * (sizes.patients - some.patients)


def _seconds(settings: Settings, sizes: Sizes, patients: int) -> tuple[float, float, float]:
    """Rough seconds of training, of sampling, and of setting prevalences after training."""
    visits = sizes.visits / max(sizes.patients, 1)
    passes = settings.budget.passes if settings.family.objective is not None else 0.0
    training = training_seconds(settings, sizes) + _VISIT_TRAINED * passes * sizes.visits
    pilot = settings.calibration_rounds * calibration_size(sizes.patients)

    def drawing(n: int) -> float:
        return sampling_seconds(settings, sizes, n) + (_VISIT_SAMPLED + _CODE_SAMPLED * sizes.codes) * n * visits

    return training, drawing(patients or sizes.patients), drawing(pilot) if pilot else 0.0


def settings_of(method: str, changes: dict[str, Any]) -> Settings:
    """The settings of a method with those changes that its networks know."""
    from adapcla.pipeline.tasks import known_settings

    return generator_for(method, **known_settings(method, changes)).settings
