"""What a number of minutes buys: the size of the network, its passes and how thoroughly the result is judged.

Sizes come from the data first: a larger network or more passes than the patients can teach would only learn them by
heart. What does not fit into the time is then made smaller, width before passes. Seconds are those of one processor,
so that two leave some room; `benchmarks/releases.py` measures what steps take. Nothing is measured
here, so that the same table and the same minutes give the same bytes everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from adapcla.generation.generator import generator_for
from adapcla.generation.recommended import recommended
from adapcla.pipeline.estimate import Sizes, evaluation_seconds, sampling_seconds, training_seconds
from adapcla.pipeline.settings import EvaluateSettings
from adapcla.training.settings import Settings, calibration_size

#: What a release is judged by, unless somebody asks for more.
JUDGED = ("tail", "fidelity", "utility", "privacy")
#: What its page does not show: the paper's protocol trains a classifier for each label, which takes most of the time.
NOT_JUDGED = ("tstr_acc", "tstr_f1", "tstr_auprc")
#: Widths and layers, largest first.
SIZES = ((256, 4), (128, 2), (96, 2), (64, 2), (48, 1), (32, 1))
#: The share of the time that judging in full may take, and the share of all of it that is planned.
_JUDGING, _PLANNED = 0.4, 0.9
#: What width counts beside the share of the passes that fit: twice the width is worth a quarter more passes.
_WIDTH_COUNTS = 0.3
#: Judging takes so many times the estimate of its suites: 48 s of a processor for 1,425 training patients, quickly.
_JUDGING_TAKES = 2.0
#: What judging models of real patients takes beside judging the synthetic ones, in a quick look.
REAL_SHARE = 0.5
#: Patients of each part that likeness and usefulness are judged by at most; privacy is judged by all.
MOST_JUDGED = 50_000
#: Seconds that judging the privacy of one more training patient takes.
_PATIENT_JUDGED = 1e-3
#: Attack models have about this share of the training patients: half of members and controls together.
_ATTACK_SHARE = 0.65
#: Share of the time for training and what comes after it that pilots take at most; fewer rounds where they took more.
_CALIBRATING = 0.25
#: What is left for training however short the time is.
_LEAST_SECONDS = 5.0
#: Seconds that a visit takes beside the multiplications of a wide network, in training and in sampling; a visit is
#: drawn code by code.
_VISIT_TRAINED, _VISIT_SAMPLED, _CODE_SAMPLED = 4e-4, 3e-4, 3.5e-7
#: Seconds to begin, to read and to roll up each training patient.
_BEGINNING, _PATIENT_READ, _PATIENT_ROLLED = 4.0, 1e-4, 8e-5
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
    return Around(_BEGINNING + reading, 1.0 + rolling, _BEGINNING + entries * each)


class Effort(NamedTuple):
    """What is done in the time."""

    settings: dict[str, Any]
    #: Judge with fewer draws and smaller classifiers.
    quick: bool
    #: Passes that the data ask for.
    wanted_passes: float
    #: Rough seconds.
    training: float
    sampling: float
    judging: float


def effort_for(
    minutes: float,
    method: str,
    given: dict[str, Any],
    sizes: Sizes,
    patients: int = 0,
    judged: EvaluateSettings = EvaluateSettings(suites=JUDGED, leave_out=NOT_JUDGED),
    attack_models: int = 0,
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

    >>> short, long = (effort_for(m, "tailwise", {}, Sizes(20_000, 50_000, 1_000)) for m in (2, 60))
    >>> short.settings["passes"] < long.settings["passes"], short.quick, long.quick
    (True, True, False)
    """
    seconds = 60 * minutes * _PLANNED - sum(around(sizes, patients, _WRITTEN))
    best = recommended(sizes.patients, sizes.visits, sizes.codes)
    whole, quick = (_judging_seconds(judged.model_copy(update={"quick": short}), sizes) for short in (False, True))
    drawing = _seconds(settings_of(method, {"width": best.width, **given}), sizes, patients)[1]
    judging, is_quick = (whole, False) if whole <= _JUDGING * (seconds - drawing) else (quick, True)
    fits = 1 + _ATTACK_SHARE * attack_models
    choices = []
    for width, layers in [size for size in SIZES if size[0] <= best.width]:
        chosen = {"width": width, "layers": layers, "passes": best.passes}
        chosen |= {"learning_rate": best.learning_rate, "batch_size": best.batch_size, **given}
        chosen.setdefault("heads", _heads(int(chosen["width"])))
        rounds = settings_of(method, chosen).calibration_rounds
        training, sampling, calibrating = _seconds(settings_of(method, chosen), sizes, patients)
        most = _CALIBRATING * max(seconds - judging - sampling, _LEAST_SECONDS)
        if "calibration_rounds" not in given and fits * calibrating > most:
            chosen["calibration_rounds"] = max(int(rounds * most / (fits * calibrating)), 1)
            calibrating *= chosen["calibration_rounds"] / rounds
        left = max(seconds - judging - sampling - fits * calibrating, _LEAST_SECONDS)
        share = min(left / (fits * training), 1.0)
        choices.append((share * float(chosen["width"]) ** _WIDTH_COUNTS, share, chosen))
    # Passes that are missing are missed more than width, and width that costs little time is taken.
    _, share, chosen = max(choices, key=lambda choice: choice[0])
    if share < 1 and "passes" not in given:
        chosen["passes"] = max(round(share * best.passes, 2), 0.1)
    training, sampling, calibrating = _seconds(settings_of(method, chosen), sizes, patients)
    fitting = training + calibrating
    return Effort(chosen, is_quick, best.passes, fitting, sampling, judging + (fits - 1) * fitting)


def _judging_seconds(judged: EvaluateSettings, sizes: Sizes) -> float:
    """Rough seconds of judging: likeness and usefulness by some patients, privacy by all."""
    some = sizes._replace(patients=min(sizes.patients, MOST_JUDGED))
    seconds = _JUDGING_TAKES * evaluation_seconds(judged, some)
    # In a quick look, models of real patients are judged by themselves.
    seconds *= 1 + REAL_SHARE if judged.quick else 1.0
    return seconds + _PATIENT_JUDGED * (sizes.patients - some.patients)


def _heads(width: int) -> int:
    """Heads of 16 numbers each, or one head where the width cannot be shared like that.

    >>> _heads(128), _heads(50)
    (8, 1)
    """
    return width // 16 if width % 16 == 0 else 1


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
