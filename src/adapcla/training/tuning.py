"""How long, in which batches and how fast to train: one rule, which every fit goes through, whoever asks for it.

What settings say is done. What they leave open, with a 0, follows from the number of training patients alone, so that
the same patients and settings give the same model from Python, the command line, an experiment, a release or the
studio. Epochs are the most that are trained: the weights of the best validation loss are kept, and training ends early
where validation has not improved for a while. Only a release, which has a limit of time, may shorten them, and says so.
"""

from __future__ import annotations

from adapcla.training.settings import Settings, settings_from

#: Patients a step, by the training patients from which on: small cohorts have small batches, for steps enough.
BATCHES = ((0, 64), (4_000, 128), (15_000, 256))
#: Epochs of cohorts up to so many patients, beyond which steps do not grow, though everybody is seen once at least.
EPOCHS, MOST_PATIENTS = 6.0, 100_000
LEARNING_RATE = 1e-3
#: What private training does: a look at the number of patients is not covered by ε.
_PRIVATE = {"passes": 20.0, "batch_size": 256, "learning_rate": 3e-3}


def chosen(settings: Settings, n_patients: int) -> Settings:
    """The settings with passes, batches and learning rate chosen where they leave them open.

    >>> budget = chosen(Settings(), 1_500).budget
    >>> budget.passes, budget.batch_size, budget.learning_rate
    (6.0, 64, 0.001)
    >>> [chosen(Settings(), n).budget.passes for n in (100_000, 200_000, 5_000_000)]
    [6.0, 3.0, 1.0]
    """
    if settings.privacy is not None:
        rule: dict[str, float] = _PRIVATE
    else:
        batch = max(size for least, size in BATCHES if n_patients >= least)
        passes = max(round(EPOCHS * min(1.0, MOST_PATIENTS / max(n_patients, 1)), 2), 1.0)
        rule = {"passes": passes, "batch_size": batch, "learning_rate": LEARNING_RATE}
    left_open = {name: value for name, value in rule.items() if not getattr(settings.budget, name)}
    return settings_from(settings, {"budget": left_open}) if left_open else settings


def epochs_within(seconds: float, seconds_an_epoch: float, wanted: float) -> float:
    """The epochs that fit into the seconds: those that are wanted, or as many as there is time for.

    >>> epochs_within(100, 5, 10), epochs_within(20, 5, 10)
    (10, 4.0)
    """
    return wanted if wanted * seconds_an_epoch <= seconds else max(round(seconds / seconds_an_epoch, 2), 0.1)
