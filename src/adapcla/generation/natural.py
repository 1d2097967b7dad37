"""Between the natural form of patients, which people read and write, and the banded form, which networks learn.

A model that learned numbers keeps their bands. Everything inside works on bands; whatever is asked for or given by
people names codes and numbers as the source has them.
"""

from __future__ import annotations

import numpy as np

from adapcla.data import Cohort, Prevalence, Vocabulary
from adapcla.data.criteria import Criteria
from adapcla.errors import InputError, UsageError
from adapcla.generation.model import Model
from adapcla.generation.settings import Settings


def has_choices(vocabulary: Vocabulary) -> bool:
    """Whether a network must draw one code of several: of a choice group, or of the bands of a number.

    >>> from adapcla.data.vocabulary import DEATH, LENGTH_OF_STAY
    >>> [has_choices(Vocabulary.of([code])) for code in (DEATH, LENGTH_OF_STAY, "A")]
    [True, True, False]
    """
    return bool(vocabulary.groups) or bool(vocabulary.numbers.any())


def refuse_unlearnable(settings: Settings, train: Cohort) -> None:
    """Raise where a cohort has choice groups or numbers that a method has no room for."""
    if not has_choices(train.vocabulary):
        return
    has = "choice groups (kind, length and ending of visits) or values"
    if settings.privacy is not None:
        raise UsageError(
            f"differential privacy: this cohort has {has}, whose bands and chances ε would not cover\n"
            "to do: read it without them (--domains dx,px,rx)"
        )
    if not settings.architecture.chooses:
        raise UsageError(
            f"{settings.method} has no way to draw one code of a group, and this cohort has {has}\n"
            "to do: read it without them (--domains dx,px,rx), or take adapcla, tailwise, lstm, gpt or marginal"
        )


def known_inside(model: Model, cohort: Cohort) -> Cohort:
    """The cohort as the network sees it, without the codes that the model does not know."""
    known = model.natural.positions(cohort.vocabulary.tokens) >= 0
    if cohort.vocabulary == model.vocabulary:
        return cohort
    return model.inside(cohort if known.all() else cohort.keep_codes(known))


def as_natural(model: Model, cohort: Cohort, seed: int, first: int = 0) -> Cohort:
    """Drawn patients with numbers in the place of bands; `first` is the number of the first of them."""
    return cohort if model.bands is None else model.bands.with_values(cohort, seed, first)


def prevalence_inside(model: Model, target: Cohort | Prevalence) -> Prevalence:
    """The prevalences of a cohort, or given ones, with bands in the place of numbers."""
    if model.bands is None:
        return target.prevalence() if isinstance(target, Cohort) else target
    if isinstance(target, Prevalence):
        return model.bands.spread(target, model.prevalence)
    have = zip(target.vocabulary.codes, target.prevalence().share, strict=True)
    shares = {code.token: (code, share) for code, share in have}
    for number in model.bands.numbers:
        position = target.vocabulary.index.get(number.code.token)
        if position is None or target.values is None:
            continue
        del shares[number.code.token]
        band = number.band(np.asarray(target.values)[np.asarray(target.codes) == position])
        counts = np.bincount(band, minlength=number.n_bands)
        found = zip(number.codes(), counts / max(target.n_visits, 1), strict=True)
        shares |= {code.token: (code, share) for code, share in found}
    vocabulary = Vocabulary.of(code for code, _ in shares.values())
    share = np.array([shares[token][1] for token in vocabulary.tokens], dtype=float)
    return Prevalence(vocabulary, share, target.n_visits)


def condition_inside(model: Model, condition: Criteria) -> Criteria:
    """The condition in the words of the network: a number is any of its bands."""
    return condition if model.bands is None else model.bands.asked(condition)


def refuse_the_dead(history: Cohort) -> None:
    """Raise where a history that is to be continued ends with death."""
    n_dead = int(history.died().sum())
    if n_dead:
        raise InputError(
            f"{n_dead} of {history.n_patients} histories end with death",
            expected="patients who may have another visit",
            remedy="leave these patients out",
        )
