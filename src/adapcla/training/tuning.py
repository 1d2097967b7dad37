"""How long, in which batches and how fast to train: one rule, which every fit goes through, whoever asks for it.

What settings say is done. What they leave open, with a 0, follows from the number of training patients alone, and so
does whether `tailwise` has its co-occurrence prior or damping: the same patients and settings give the same model from
Python, the command line, an experiment, a release or the studio. Epochs are the most that are trained: the weights of
the best validation loss are kept, and training ends early where validation has not improved for a while. Only a
release, which has a limit of time, may shorten them, and says so.
"""

from __future__ import annotations

from typing import Any

from adapcla.models.gpt import GptArchitecture
from adapcla.training.settings import Settings, settings_from

#: Patients a step, by the training patients from which on: small cohorts have small batches, for steps enough.
BATCHES = ((0, 64), (4_000, 128), (15_000, 256))
#: Epochs at least and at most, between which so many steps are aimed at. Too many cost time alone, because the weights
#: of the best validation loss are kept; too few leave small cohorts unlearned.
EPOCHS, STEPS = (6.0, 40.0), 1_500
#: Epochs where a scaffold is annealed away: weights are candidates only after that, so that training cannot end early.
SCAFFOLDED_EPOCHS = 8.0
#: Patients beyond which steps do not grow, though everybody is seen once at least.
MOST_PATIENTS = 100_000
LEARNING_RATE = 3e-3
#: What private training does: a look at the number of patients is not covered by ε.
_PRIVATE: dict[str, float] = {"passes": 20.0, "batch_size": 256, "learning_rate": 3e-3}


def choose_budget(settings: Settings, n_patients: int) -> Settings:
    """The settings with passes, batches and rate chosen where they leave them open, and with prior or damping.

    >>> budget = choose_budget(Settings(schedule="none"), 3_000).budget
    >>> budget.passes, budget.batch_size, budget.learning_rate
    (32.0, 64, 0.003)
    >>> [choose_budget(Settings(schedule="none"), n).budget.passes for n in (100_000, 200_000, 5_000_000)]
    [6.0, 3.0, 1.0]
    """
    rule = dict(_PRIVATE)
    if settings.privacy is None:
        n = max(n_patients, 1)
        batch = settings.budget.batch_size or max(size for least, size in BATCHES if n >= least)
        passes = min(max(STEPS * batch / n, EPOCHS[0]), EPOCHS[1])
        if settings.schedule != "none":
            passes = SCAFFOLDED_EPOCHS
        passes = max(round(passes * min(1.0, MOST_PATIENTS / n), 2), 1.0)
        rule = {"passes": passes, "batch_size": batch, "learning_rate": LEARNING_RATE}
    architecture = settings.architecture
    if isinstance(architecture, GptArchitecture) and architecture.prior_below:
        changes: dict[str, Any] = {"prior_below": 0}
        if settings.privacy is None and n_patients >= architecture.prior_below:
            usual = GptArchitecture()
            changes |= {"prior": False, "prior_strength": usual.prior_strength}
        elif settings.privacy is None:
            # In small cohorts few patients hold nearly every pair, so that damping would leave little of what is known.
            changes["damping"] = 0.0
        settings = settings_from(settings, changes)
    left_open = {name: value for name, value in rule.items() if not getattr(settings.budget, name)}
    return settings_from(settings, {"budget": left_open}) if left_open else settings


def epochs_within(seconds: float, seconds_an_epoch: float, wanted: float) -> float:
    """The epochs that fit into the seconds: those that are wanted, or as many as there is time for.

    >>> epochs_within(100, 5, 10), epochs_within(20, 5, 10)
    (10, 4.0)
    """
    return wanted if wanted * seconds_an_epoch <= seconds else max(round(seconds / seconds_an_epoch, 2), 0.1)
