"""Differentially private training: the noise it takes, its steps, and its statement of what was spent.

Two mechanisms read the training patients, and their ε and δ add up: one noised count of codes, visits and attributes,
and the noised steps of training. Everything that a saved private model holds is made from their output or taken as
public. What else an ordinary fit reads (the longest record, the sizes of visits, the length of records after training,
the training prevalence after training, the validation loss that chooses weights) is switched off. Opacus does the
arithmetic of accounting.

A step is DP-SGD (Abadi et al., 2016) with the patient as the unit, as a strategy of the one loop: a random share of the
patients, each one's gradient cut to a bound, and noise on their sum. Who is drawn and the noise are keyed by a secret
and the step: a resumed run does the same, and nobody who has the weights and the settings can draw the noise again.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adapcla.console import say
from adapcla.data import Cohort, Prevalence
from adapcla.data.attributes import AttributeDistribution
from adapcla.errors import ExistsError, UsageError
from adapcla.files import read_json, write_json
from adapcla.models.base import Moment, Objective
from adapcla.models.batch import Records
from adapcla.seeds import random_stream, stream_key
from adapcla.training.checkpoint import Checkpoints
from adapcla.training.ghost_clipping import clipped_by_norms
from adapcla.training.settings import Budget, Privacy, Settings

#: Gap between the ε asked for and the one spent, at most.
_TOLERANCE = 0.01
Way = Literal["rdp", "prv"]


@dataclass(frozen=True)
class Spent:
    """One mechanism: Gaussian noise of `noise` times the bound on a patient, `steps` times, on a share of patients."""

    noise: float
    rate: float
    steps: int
    delta: float
    way: Way = "rdp"

    @property
    def epsilon(self) -> float:
        """The ε that Opacus gives for it."""
        return epsilon_of(self.noise, self.rate, self.steps, self.delta, self.way)


@dataclass(frozen=True)
class Account:
    """Everything that a private fit spends."""

    n_patients: int
    #: What counting codes and attributes spends; None where the prior is public and there is nothing else to count.
    counting: Spent | None
    training: Spent

    @property
    def epsilon(self) -> float:
        """ε of everything."""
        return self.training.epsilon + (self.counting.epsilon if self.counting else 0.0)

    @property
    def delta(self) -> float:
        """δ of everything."""
        return self.training.delta + (self.counting.delta if self.counting else 0.0)

    def statement(self) -> dict[str, Any]:
        """The parts and the whole, for cards."""
        parts = {"training": self.training} | ({"counting": self.counting} if self.counting else {})
        return {
            "epsilon": _up(self.epsilon),
            "delta": self.delta,
            "parts": {
                name: {
                    "epsilon": _up(part.epsilon),
                    "delta": part.delta,
                    "noise multiplier": round(part.noise, 6),
                    "sampling rate": round(part.rate, 8),
                    "steps": part.steps,
                }
                for name, part in sorted(parts.items())
            },
            "accountant": f"{self.training.way} of opacus {_opacus_version()}",
        }


def account_for(privacy: Privacy, budget: Budget, n_patients: int, counts: bool) -> Account:
    """The noise that keeps ε and δ over a whole budget; with `counts` a share of both is for counting."""
    rate, steps = sampling_rate(budget, n_patients), budget.steps(n_patients)
    delta, way = privacy.delta_of(n_patients), privacy.accountant
    if not counts:
        return Account(
            n_patients, None, Spent(noise_for(privacy.epsilon, delta, rate, steps, way), rate, steps, delta, way)
        )
    share = privacy.prior_share
    counting = Spent(noise_for(share * privacy.epsilon, delta / 2, 1.0, 1, way), 1.0, 1, delta / 2, way)
    left = privacy.epsilon - counting.epsilon
    return Account(
        n_patients, counting, Spent(noise_for(left, delta / 2, rate, steps, way), rate, steps, delta / 2, way)
    )


def sampling_rate(budget: Budget, n_patients: int) -> float:
    """The chance of each patient to be in a step.

    >>> sampling_rate(Budget(batch_size=50), 200)
    0.25
    """
    return min(1.0, budget.batch_size / n_patients)


@cache
def noise_for(epsilon: float, delta: float, rate: float, steps: int, way: Way = "rdp") -> float:
    """The smallest noise, as a multiple of the bound on a patient, that keeps ε."""
    _demand_opacus()
    from opacus.accountants.utils import get_noise_multiplier

    with warnings.catch_warnings():
        # The search begins with huge noise, where Opacus says that its orders end.
        warnings.simplefilter("ignore")
        try:
            multiplier = get_noise_multiplier(
                target_epsilon=epsilon,
                target_delta=delta,
                sample_rate=rate,
                steps=steps,
                accountant=way,
                epsilon_tolerance=min(_TOLERANCE, epsilon / 100),
            )
        except ValueError:
            raise UsageError(
                f"no amount of noise keeps ε = {epsilon:g} at δ = {delta:g}\n"
                "to do: ask for a larger ε or δ, or fewer passes"
            ) from None
    return float(multiplier)


@cache
def epsilon_of(noise: float, rate: float, steps: int, delta: float, way: Way = "rdp") -> float:
    """The ε of so many steps with this noise on a random share of the patients."""
    _demand_opacus()
    from opacus.accountants import create_accountant

    accountant = create_accountant(mechanism=way)
    accountant.history = [(noise, rate, steps)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(accountant.get_epsilon(delta=delta))


def _up(value: float) -> float:
    """A number rounded up, so that a card never says less than is spent.

    >>> _up(7.99991)
    8.0
    """
    return -(-value * 1e4 // 1) / 1e4


def _opacus_version() -> str:
    from importlib.metadata import version

    return version("opacus")


def _demand_opacus() -> None:
    from importlib.util import find_spec

    if find_spec("opacus") is None:
        raise UsageError("differential privacy needs Opacus\nto do: pip install 'adapcla[dp]' -c constraints.txt")


#: The file of a run that holds its secret; it goes when the run is complete, and is never part of a model.
SECRET = ".private.json"
_SECRET_BITS = 256


class PrivateStep:
    """How the gradient of a step is made when patients are protected."""

    def __init__(self, secret: int, noise: float, clip: float, rate: float, batch_size: int) -> None:
        self.secret, self.noise, self.clip, self.rate, self.batch_size = secret, noise, clip, rate, batch_size

    def drawn(self, step: int, n_patients: int) -> NDArray[np.int64]:
        """The patients of a step: each with the same chance, whatever the others do (Poisson sampling).

        >>> step = PrivateStep(secret=1, noise=1.0, clip=1.0, rate=0.5, batch_size=4)
        >>> all(0 <= i < 8 for i in step.drawn(0, 8))
        True
        """
        chance = random_stream(self.secret, "private draw", step).random(n_patients)
        return np.flatnonzero(chance < self.rate)

    def accumulate(
        self,
        objective: Objective,
        records: Records,
        patients: NDArray[np.int64],
        moment: Moment,
        parameters: Sequence[nn.Parameter],
    ) -> float:
        """Leave the sum of the patients' cut gradients in the parameters; their summed loss."""
        total = clipped_by_norms(objective, records, patients, moment, parameters, self.clip)
        if total is None:
            total = clipped_one_by_one(objective, records, patients, moment, parameters, self.clip)
        return total / self.batch_size

    def add_noise(self, parameters: Sequence[nn.Parameter], step: int) -> float:
        """Turn sums into a noisy mean over the expected number of patients; its norm."""
        stream = random_stream(self.secret, "private noise", step)
        sums = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        for parameter, value in zip(parameters, sums, strict=True):
            drawn = torch.from_numpy(stream.standard_normal(tuple(parameter.shape))).to(parameter.dtype)
            parameter.grad = value.add_(drawn, alpha=self.noise * self.clip).div_(self.batch_size)
        return float(torch.stack(torch._foreach_norm(sums)).norm())


def clipped_one_by_one(
    objective: Objective,
    records: Records,
    patients: NDArray[np.int64],
    moment: Moment,
    parameters: Sequence[nn.Parameter],
    clip: float,
) -> float:
    """Leave the sum of cut gradients in the parameters, patient by patient: exact for any network; the summed loss."""
    sums = [torch.zeros_like(p) for p in parameters]
    total = 0.0
    for patient in patients:
        loss, gradient = one_gradient(objective, records, int(patient), moment, parameters)
        norm = float(torch.stack(torch._foreach_norm(gradient)).norm())
        torch._foreach_add_(sums, gradient, alpha=clip_factor(norm, clip))
        total += loss
    for parameter, value in zip(parameters, sums, strict=True):
        parameter.grad = value
    return total


def one_gradient(
    objective: Objective, records: Records, patient: int, moment: Moment, parameters: Sequence[nn.Parameter]
) -> tuple[float, list[Tensor]]:
    """The loss of one patient and its gradient, one tensor per parameter."""
    loss = objective.loss(records.batch(np.array([patient])), moment)
    parts = torch.autograd.grad(loss, list(parameters), allow_unused=True)
    gradient = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, parts, strict=True)]
    return float(loss.detach()), gradient


def clip_factor(norm: float, clip: float) -> float:
    """What a gradient of this norm is multiplied by; a gradient that is no number stays none, and stops the run.

    >>> clip_factor(4.0, 1.0), clip_factor(0.5, 1.0)
    (0.25, 1.0)
    """
    return 1.0 if norm <= clip else clip / norm


def secret_of(privacy: Privacy, seed: int, folder: Path | None, resume: bool) -> int:
    """The secret of a run: drawn once, kept in the run's folder until it is complete.

    A fixed `noise_seed` makes it known, for tests and audits.
    """
    if privacy.noise_seed is not None:
        return stream_key(privacy.noise_seed, "secret", seed)
    if folder is None:
        return secrets.randbits(_SECRET_BITS)
    path = folder / SECRET
    if resume and path.exists():
        return int(read_json(path)["secret"], 16)
    if resume and Checkpoints(folder).latest() is not None:
        raise ExistsError(
            f"{folder}: the secret of this private run is gone, so that its noise cannot be drawn again\n"
            "to do: begin anew with --overwrite; what was published of this run before still counts"
        )
    folder.mkdir(parents=True, exist_ok=True)
    secret = secrets.randbits(_SECRET_BITS)
    write_json(path, {"secret": hex(secret)})
    path.chmod(0o600)
    return secret


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
        why = "it counts pairs of codes, which ε would not cover (--set prior=false --set damping=0 leaves them out)"
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

    def count(self, records: Records) -> tuple[Prevalence, AttributeDistribution]:
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
        raise UsageError(f"privacy.prior {path}: no such file")
    if Path(path).is_dir():
        raise UsageError(f"privacy.prior {path}: a cohort holds patients; expected a table of public prevalences")
    public = read_prevalence(Path(path))
    known = public.share[public.known & (public.share > 0)]
    if not len(known):
        raise UsageError(f"privacy.prior {path}: no code with a prevalence above 0")
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
    believed = smooth(noisy[:-1], _BELIEVED * deviation)
    return Prevalence(records.cohort.vocabulary, np.clip(believed / visits, 0.0, 0.999), max(1, round(visits)))


def smooth(noisy: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """Noisy counts in which those below the threshold are replaced by their mean, at least a tenth.

    >>> smooth(np.array([50.0, 3.0, -2.0, 1.1]), 10.0).round(3).tolist()
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
    believed = smooth(exact + deviation * stream.standard_normal(len(exact)), _BELIEVED * deviation)
    counts = np.round(np.minimum(believed, records.cohort.n_patients)).astype(np.int64)
    kept = np.flatnonzero(counts)
    if not len(kept):
        kept, counts = np.arange(len(exact)), np.ones(len(exact), dtype=np.int64)
    return AttributeDistribution(names, categories, np.stack(np.unravel_index(kept, sizes), axis=1), counts[kept])
