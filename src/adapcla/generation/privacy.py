"""What a differentially private fit uses instead of exact counts, and its statement of the privacy it spent.

Everything that a saved model holds is either made from noised numbers or taken as public. Two mechanisms read the
training patients: one noised count of codes, visits and attributes, and the noised steps of training. What else an
ordinary fit reads (the longest record, the sizes of visits, the length of records after training, the training
prevalence after training, the validation loss that chooses weights) is switched off.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.console import say
from adapcla.data import Cohort, Prevalence
from adapcla.data.attributes import AttributeDistribution
from adapcla.errors import UsageError
from adapcla.generation.settings import Settings
from adapcla.models.batch import Records
from adapcla.seeds import random_stream
from adapcla.training.accounting import Account, account_for
from adapcla.training.private_step import PrivateStep, secret_of

#: Share of the squared bound on a patient's counts that is for attributes, where there are codes to count too.
_FOR_ATTRIBUTES = 0.1
#: Combinations of attributes that can be counted, seen or not.
_COMBINATIONS = 10_000
#: Counts below this many deviations of the noise are believed together, not one by one.
_BELIEVED = 2.0
#: Facts of a fit that are exact numbers about single people (hashes are too), or about validation patients.
_EXACT = ("visits", "training data", "origin", "validation loss per visit", "visits beyond the context")


def refuse_unprotectable(settings: Settings) -> None:
    """Raise where privacy is requested and cannot be given."""
    if settings.privacy is None:
        return
    why = settings.family.traits.not_private
    if not why and (settings.first_stage or settings.starts_from):
        why = "it starts from weights that other steps learned from patients, which ε would not cover"
    if not why and settings.architecture.counts_pairs:
        why = "it counts pairs of codes, which ε would not cover (--set prior=false leaves them out)"
    if why:
        raise UsageError(
            f"{settings.method} cannot be trained with differential privacy: {why}\nto do: another --method"
        )


@dataclass(eq=False)
class Protection:
    """One private fit: its patients, what it may spend, and the secret behind its noise."""

    settings: Settings
    train: Cohort
    valid: Cohort
    prior: Prevalence | None
    account: Account
    secret: int

    @classmethod
    def begin(
        cls, settings: Settings, train: Cohort, valid: Cohort, folder: Path | None, resume: bool
    ) -> Protection | None:
        """The protection of this fit; None where no privacy was requested."""
        privacy = settings.privacy
        if privacy is None:
            return None
        refuse_unprotectable(settings)
        prior = public_prior(privacy.prior) if privacy.prior else None
        if prior is not None:
            train, valid = (_on_public(part, prior) for part in (train, valid))
            if getattr(settings.architecture, "shrinkage", 0.0) and prior.n_visits is None:
                raise UsageError(f"shrinkage needs the number of visits behind {privacy.prior}: a column `denominator`")
        attributes = bool(train.attributes) and settings.architecture.use_attributes
        account = account_for(privacy, settings.budget, train.n_patients, counts=prior is None or attributes)
        return cls(settings, train, valid, prior, account, secret_of(privacy, settings.seed, folder, resume))

    def step(self) -> PrivateStep:
        """The strategy of the loop."""
        assert self.settings.privacy is not None
        spent = self.account.training
        return PrivateStep(
            self.secret, spent.noise, self.settings.privacy.clip, spent.rate, self.settings.budget.batch_size
        )

    def counted(self, records: Records) -> tuple[Prevalence, AttributeDistribution]:
        """The prevalence and the law of attributes that the fit may use."""
        privacy, spent = self.settings.privacy, self.account.counting
        assert privacy is not None
        if spent is None:
            assert self.prior is not None
            return self.prior, noised_law(records, None, 0.0)
        stream = random_stream(self.secret, "private counts")
        share = 0.0 if not records.attribute_names else _FOR_ATTRIBUTES if self.prior is None else 1.0
        law = noised_law(records, stream, spent.noise / np.sqrt(share) if share else 0.0)
        if self.prior is not None:
            return self.prior, law
        deviation = spent.noise * privacy.prior_clip / np.sqrt(1 - share)
        return noised_prevalence(records, privacy.prior_clip, stream, float(deviation)), law

    def facts(self, exact: dict[str, Any]) -> dict[str, Any]:
        """The facts of a fit without those that are exact numbers about patients, and with what was spent."""
        kept = {name: value for name, value in exact.items() if name not in _EXACT}
        return kept | {"validation loss per visit": None, "privacy": self.statement()}

    def statement(self) -> dict[str, Any]:
        """What the card says."""
        privacy = self.settings.privacy
        assert privacy is not None
        return {
            **self.account.statement(),
            "unit": "one patient, added or removed",
            "gradient bound": privacy.clip,
            "prior": "public table" if self.prior is not None else "counted with noise",
            "noise": "from a secret that is thrown away"
            if privacy.noise_seed is None
            else "from a seed in the settings",
            "switched off": [
                "choosing weights and stopping by validation loss",
                "refitting the length of records",
                "folding the training prevalence into the bias",
                "sizes of visits (codes_per_visit='match')",
            ],
            "not covered": self._not_covered(),
        }

    def _not_covered(self) -> list[str]:
        lists = (
            "the lists of attribute categories" if self.prior is not None else "the lists of codes and of categories"
        )
        lines = [
            f"{lists}, taken as public",
            "the number of patients, taken as public",
            "settings that somebody chose after looking at these patients",
            "validation patients: other people, who change no number of this model",
            "the run folder beside the model (journal, checkpoints, settings with data hashes): not for release",
            "floating-point rounding, running time, and a noise generator that is not cryptographic",
        ]
        if self.settings.privacy is not None and self.settings.privacy.noise_seed is not None:
            lines.insert(0, "EVERYTHING: the noise can be drawn again from the seed in the settings; for tests alone")
        return lines


def public_prior(path: str) -> Prevalence:
    """The prevalences of a public table; codes without a value get half of the smallest one."""
    from adapcla.data.prevalence import read_prevalence

    if not Path(path).exists():
        raise UsageError(f"--prior {path}: no such file")
    if Path(path).is_dir():
        raise UsageError(f"--prior {path}: a cohort holds patients; expected a table of public prevalences")
    public = read_prevalence(Path(path))
    known = public.share[public.known & (public.share > 0)]
    if not len(known):
        raise UsageError(f"--prior {path}: no code with a prevalence above 0")
    share = np.where(public.known & (public.share > 0), public.share, known.min() / 2)
    return Prevalence(public.vocabulary, share, public.n_visits)


def _on_public(cohort: Cohort, prior: Prevalence) -> Cohort:
    """The patients on the codes of a public table; others are left out, so that the list of codes is public too."""
    keep = prior.vocabulary.positions(cohort.vocabulary.tokens) >= 0
    if not keep.all():
        say(f"{int((~keep).sum())} codes are not in the public table and are left out")
        cohort = cohort.keep_codes(keep)
    if not cohort.n_patients:
        raise UsageError("the public table has none of the cohort's codes\nto do: check how codes are written")
    return cohort.on(prior.vocabulary)


def bounded_counts(records: Records, bound: float) -> NDArray[np.float64]:
    """Visits with each code, and in the last place all visits, over patients each scaled down to a norm of `bound`.

    >>> records = Records(Cohort.of([[["A"], ["A", "B"]], [["B"]]]), context=48)
    >>> bounded_counts(records, bound=100).tolist()  # A in two visits, B in two, of three
    [2.0, 2.0, 3.0]
    >>> bounded_counts(records, bound=3).round(3).tolist()  # the first patient has the norm of (2, 1, 2): 3
    [2.0, 2.0, 3.0]
    """
    cohort, n_codes = records.cohort, records.cohort.n_codes
    inside = cohort.visit_number < records.context
    stays = np.repeat(inside, cohort.codes_per_visit)
    keys = cohort.patient_of_entry[stays] * n_codes + np.asarray(cohort.codes)[stays]
    cells, times = np.unique(keys, return_counts=True)
    owner, code = cells // n_codes, cells % n_codes
    visits = np.bincount(cohort.patient_of_visit[inside], minlength=cohort.n_patients)
    norms = np.sqrt(
        np.bincount(owner, times.astype(float) ** 2, minlength=cohort.n_patients) + visits.astype(float) ** 2
    )
    scale = np.minimum(1.0, bound / np.maximum(norms, 1e-12))
    counts = np.bincount(code, times * scale[owner], minlength=n_codes)
    return np.append(counts, (visits * scale).sum())


def noised_prevalence(records: Records, bound: float, stream: np.random.Generator, deviation: float) -> Prevalence:
    """The prevalence from bounded counts with noise; counts that the noise drowns share what they sum to."""
    counts = bounded_counts(records, bound)
    noisy = counts + deviation * stream.standard_normal(len(counts))
    visits = max(1.0, float(noisy[-1]))
    believed = smoothed(noisy[:-1], _BELIEVED * deviation)
    return Prevalence(records.cohort.vocabulary, np.clip(believed / visits, 0.0, 0.999), max(1, round(visits)))


def smoothed(noisy: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """Noisy counts in which those below the threshold are replaced by their mean, at least a tenth.

    >>> smoothed(np.array([50.0, 3.0, -2.0, 1.1]), 10.0).round(3).tolist()
    [50.0, 0.7, 0.7, 0.7]
    """
    small = noisy < threshold
    level = max(0.1, float(noisy[small].mean())) if small.any() else 0.0
    return np.where(small, level, noisy)


def noised_law(records: Records, stream: np.random.Generator | None, deviation: float) -> AttributeDistribution:
    """How attributes are distributed, from noisy counts of every combination that could be."""
    names = records.attribute_names
    if not names or stream is None:
        nobody = np.zeros((1, 0), dtype=np.int64)
        return AttributeDistribution((), (), nobody, np.array([records.cohort.n_patients]))
    categories = tuple(records.cohort.attributes[name].categories for name in names)
    sizes = tuple(len(part) + 1 for part in categories)
    if np.prod([float(size) for size in sizes]) > _COMBINATIONS:
        raise UsageError(
            f"{' × '.join(map(str, sizes))} combinations of attributes are too many to count with noise\n"
            "to do: --set use_attributes=false"
        )
    rows = records.attribute_rows(np.arange(records.cohort.n_patients))
    exact = np.bincount(np.ravel_multi_index(tuple(rows.T), sizes), minlength=int(np.prod(sizes)))
    believed = smoothed(exact + deviation * stream.standard_normal(len(exact)), _BELIEVED * deviation)
    counts = np.round(np.minimum(believed, records.cohort.n_patients)).astype(np.int64)
    kept = np.flatnonzero(counts)
    if not len(kept):
        kept, counts = np.arange(len(exact)), np.ones(len(exact), dtype=np.int64)
    return AttributeDistribution(names, categories, np.stack(np.unravel_index(kept, sizes), axis=1), counts[kept])
