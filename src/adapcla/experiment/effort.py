"""What a number of minutes buys: the size of the network, its passes and how thoroughly the result is judged.

Sizes come from the data first: a larger network or more passes than the patients can teach would only learn them by
heart. What does not fit into the time is then made smaller, width before passes. Times are those of two common cores,
never measured here, so that the same table and the same minutes give the same bytes everywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from adapcla.experiment.estimate import Sizes, evaluation_seconds, sampling_seconds, training_seconds
from adapcla.experiment.spec import EvaluateSpec
from adapcla.generators.methods import generator_for
from adapcla.generators.recommended import recommended
from adapcla.generators.settings import Settings

#: What a release is judged by, unless somebody asks for more.
JUDGED = ("tail", "fidelity", "utility", "privacy")
#: What its page does not show: the paper's protocol trains a classifier for each label, which takes most of the time.
NOT_JUDGED = ("tstr_acc", "tstr_f1", "tstr_auprc")
#: Widths and layers, largest first.
SIZES = ((256, 4), (128, 2), (96, 2), (64, 2), (48, 1), (32, 1))
#: The share of the time that judging in full may take, reading and writing leave, and training may use of the rest.
_JUDGING, _SPARE = 0.4, 0.9
#: What width counts beside the share of the passes that fit: twice the width is worth a quarter more passes.
_WIDTH_COUNTS = 0.3
#: Judging takes so many times the estimate of its suites: 48 s of a processor for 1,425 training patients, quickly.
_JUDGING_TAKES = 2.0
#: What judging models of real patients takes beside judging the synthetic ones, in a quick look.
REAL_SHARE = 0.5
#: What is left for training however short the time is.
_LEAST_SECONDS = 5.0
#: Seconds that a visit takes beside the multiplications of a wide network, in training and in sampling.
_VISIT_TRAINED, _VISIT_SAMPLED = 4e-4, 3e-4
#: Patients that a round of calibration draws at least, for each training patient, and at most.
_PILOT = (1_000, 2, 20_000)


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
    judged: EvaluateSpec = EvaluateSpec(suites=JUDGED, leave_out=NOT_JUDGED),
) -> Effort:
    """What fits into the minutes; settings that were given stay as they are.

    >>> short, long = (effort_for(m, "tailwise", {}, Sizes(20_000, 50_000, 1_000)) for m in (2, 60))
    >>> short.settings["passes"] < long.settings["passes"], short.quick, long.quick
    (True, True, False)
    """
    seconds, best = 60 * minutes * _SPARE, recommended(sizes.patients, sizes.visits, sizes.codes)
    asked = (judged.model_copy(update={"quick": short}) for short in (False, True))
    whole, quick = (_JUDGING_TAKES * evaluation_seconds(each, sizes) for each in asked)
    # In a quick look, models of real patients are judged by themselves.
    quick *= 1 + REAL_SHARE
    judging, is_quick = (whole, False) if whole <= _JUDGING * seconds else (quick, True)
    choices = []
    for width, layers in [size for size in SIZES if size[0] <= best.width]:
        chosen = {"width": width, "layers": layers, "passes": best.passes}
        chosen |= {"learning_rate": best.learning_rate, "batch_size": best.batch_size, **given}
        chosen.setdefault("heads", _heads(int(chosen["width"])))
        training, sampling, calibrating = _seconds(settings_of(method, chosen), sizes, patients)
        left = max(seconds - judging - sampling - calibrating, _LEAST_SECONDS)
        share = min(left / training, 1.0)
        choices.append((share * float(chosen["width"]) ** _WIDTH_COUNTS, share, chosen))
    # Passes that are missing are missed more than width, and width that costs little time is taken.
    _, share, chosen = max(choices, key=lambda choice: choice[0])
    if share < 1 and "passes" not in given:
        chosen["passes"] = max(round(share * best.passes, 2), 0.1)
    training, sampling, calibrating = _seconds(settings_of(method, chosen), sizes, patients)
    return Effort(chosen, is_quick, best.passes, training + calibrating, sampling, judging)


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
    least, each, most = _PILOT
    pilot = settings.calibration_rounds * min(max(each * sizes.patients, least), most)

    def drawing(n: int) -> float:
        return sampling_seconds(settings, sizes, n) + _VISIT_SAMPLED * n * visits

    return training, drawing(patients or sizes.patients), drawing(pilot) if pilot else 0.0


def settings_of(method: str, changes: dict[str, Any]) -> Settings:
    """The settings of a method with those changes that its networks know."""
    from adapcla.experiment.rows import known_settings

    return generator_for(method, **known_settings(method, changes)).settings
