"""The public interface: a generator of one method, which is fitted, samples, and is saved and loaded.

`Generator` holds settings and, after fitting or loading, a model; `generator_for` and `train` make one by name.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort, Prevalence, Vocabulary
from adapcla.data.criteria import Criteria, Texts
from adapcla.data.split import ControlledSplit, Split
from adapcla.defaults import DEFAULT_METHOD
from adapcla.errors import UsageError
from adapcla.generation import bundle
from adapcla.generation.conditional import sample_given
from adapcla.generation.continuation import Continuation, continue_given, continue_records
from adapcla.generation.fitting import fit
from adapcla.generation.model import Model
from adapcla.generation.sampler import SampleRule, sample
from adapcla.generation.steering import Target, closed_loop, steer
from adapcla.models.base import Network, Shape
from adapcla.scaffold import Steering
from adapcla.tables import facts_as_html
from adapcla.training.loop import Observer, Outcome
from adapcla.training.privacy import refuse_unprotectable
from adapcla.training.settings import METHODS, Settings, settings_from


class Generator:
    """A method that can be fitted to patients and then writes new ones.

    Parameters are stored, not used, by the constructor; what fitting makes ends in an underscore. Every method is of
    this one class: what it is called and how it is fitted is in its settings.
    """

    def __init__(self, settings: Settings, model: Model | None = None) -> None:
        refuse_unprotectable(settings)
        self.settings = settings
        self.model_ = model
        self.outcome_: Outcome | None = None

    def __repr__(self) -> str:
        row = METHODS[self.method].settings if self.method in METHODS else Settings()
        usual, mine = _flat_settings(row), _flat_settings(self.settings)
        changed = [f"{name}={value!r}" for name, value in mine.items() if usual.get(name, value) != value]
        fitted = "not fitted"
        if self.model_ is not None:
            patients = self.model_.facts.get("patients")
            fitted = f"fitted to {patients:,} patients" if isinstance(patients, int) else "fitted"
        return f"Generator({', '.join([repr(self.method), *changed])}; {fitted})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the constructor takes, as scikit-learn asks for it; with `deep` every setting by name, too."""
        return {"settings": self.settings, **(_flat_settings(self.settings) if deep else {})}

    def set_params(self, **changes: Any) -> Generator:
        """The generator with some settings changed, by name; it is to be fitted again.

        >>> generator_for("adapcla").set_params(width=64, passes=3).get_params()["passes"]
        3.0
        """
        settings = changes.pop("settings", self.settings)
        self.settings = settings_from(settings, changes) if changes else settings
        refuse_unprotectable(self.settings)
        self.model_ = self.outcome_ = None
        return self

    def _repr_html_(self) -> str:
        """The same as a small table, for notebooks."""
        rows = {"method": self.method, "state": "not fitted" if self.model_ is None else "fitted"}
        if self.model_ is not None:
            loss = self.model_.facts.get("validation loss per visit")
            rows |= {"patients": str(self.model_.facts.get("patients", "unknown"))}
            rows |= {"codes": f"{len(self.vocabulary_):,}"}
            rows |= {} if loss is None else {"validation loss per visit": f"{loss:.4f}"}
        return facts_as_html("Generator", rows)

    @property
    def method(self) -> str:
        """The row of the method table."""
        return self.settings.method

    @property
    def model(self) -> Model:
        """What fitting made; an error before."""
        if self.model_ is None:
            raise UsageError("this generator is not fitted\nto do: call fit(train, valid), or load a saved one")
        return self.model_

    @property
    def vocabulary_(self) -> Vocabulary:
        """The vocabulary of the training cohort."""
        return self.model.raw_vocabulary

    @property
    def prevalence_(self) -> Prevalence:
        """π̂ of the training cohort."""
        return self.model.prevalence

    @property
    def network_(self) -> Network:
        """The trained network."""
        return self.model.network

    def fit(
        self,
        train: Cohort,
        valid: Cohort,
        folder: str | Path | None = None,
        resume: bool = False,
        observers: Sequence[Observer] = (),
    ) -> Generator:
        """The generator, fitted; with a folder, training leaves checkpoints and a journal there and can be resumed."""
        self.model_, self.outcome_ = fit(
            self.settings, train, valid, None if folder is None else Path(folder), resume, observers
        )
        return self

    def sample(
        self,
        n: int,
        seed: int = 1,
        *,
        toward: Target | Steering | None = None,
        strength: float = 1.0,
        missing: str = "keep",
        calibrate: bool = False,
        batch_size: int | None = None,
        rule: SampleRule | None = None,
        having: Texts | Criteria | None = None,
        without: Texts = (),
        visits: str | None = None,
        at: str = "any",
        within: int | None = None,
        train: Cohort | None = None,
        **options: Any,
    ) -> Cohort:
        """`n` new patients; patient i of a seed is the same for any n and batch size.

        Args:
            n: Number of patients.
            seed: Seed of the patients; other seeds give other people.
            toward: A prevalence, cohort or file to steer towards.
            strength: λ, from 0 (no steering) to 1 (the full shift).
            missing: What happens to codes without a target: `keep` or `drop`.
            calibrate: Correct the shift by closed-loop rounds until the target is reached.
            batch_size: Patients held between two yields of the stream; never changes a patient.
            having: Codes that every patient has (`A|B` any of them, `E84*` a family), or a whole `Condition`; the
                patients then follow the model's own law given the condition, and their card says what that took.
            without: Codes that no patient has.
            visits: Numbers of visits, such as `3..` or `2..5`.
            at: The visit that holds the asked codes: `any`, `first` or `last`.
            within: Number of first visits that hold the asked codes.
            train: The training patients, so that a condition which none of them fulfils is refused.
            rule: How codes are drawn; or give its fields by name (`temperature`, `max_visits`, `min_codes`, …).
            options: Fields of `SampleRule`.
        """
        steering = self.steering(toward, strength, missing, calibrate, seed)
        drawn_by = replace(rule or SampleRule(), **options)
        condition = None
        if isinstance(having, Criteria):
            condition = having
        elif having or without or visits or at != "any" or within is not None:
            condition = Criteria.of(having or (), without, (), visits, at, within)
        if condition is not None:
            # Attributes that are asked for are part of the condition.
            condition = replace(condition, where=tuple(dict.fromkeys((*condition.where, *drawn_by.where))))
            return sample_given(self.model, n, seed, condition, steering, replace(drawn_by, where=()), train)
        return sample(self.model, n, seed, steering, drawn_by, batch_size)

    def steering(
        self,
        toward: Target | Steering | None,
        strength: float = 1.0,
        missing: str = "keep",
        calibrate: bool = False,
        seed: int = 1,
        pilot: int | None = None,
    ) -> Steering | None:
        """The shift towards a target, by the paper's rule or by closed loop; None where there is no target."""
        if toward is None:
            return None
        first = steer(self.model, toward, strength, missing)
        sized = {} if pilot is None else {"pilot": pilot}
        return closed_loop(self.model, first, seed, **sized) if calibrate and strength else first

    def continue_(
        self,
        history: Cohort,
        visits: int = 1,
        draws: int = 100,
        seed: int = 1,
        toward: Target | Steering | None = None,
        strength: float = 1.0,
    ) -> Continuation:
        """What follows given histories: draws of the next visits and the probability of each code at the next one."""
        return continue_records(self.model, history, visits, draws, seed, self.steering(toward, strength))

    def continue_given(
        self, history: Cohort, condition: Criteria, draws: int = 20, seed: int = 1, toward: Steering | None = None
    ) -> Continuation:
        """Continuations that fulfil a condition: `draws` of each history by the model's law given the condition."""
        return continue_given(self.model, history, condition, draws, seed, toward)

    def log_likelihood(self, cohort: Cohort) -> NDArray[np.float64]:
        """Log-likelihood of each patient's record, in nats."""
        return self.model.log_likelihood(cohort)

    def save(self, folder: str | Path, overwrite: bool = False, shareable: bool = False) -> Path:
        """Write the generator to a folder: safetensors, JSON, Parquet and hashes; nothing that runs when opened."""
        return bundle.save(self.model, Path(folder), overwrite, shareable)


def _flat_settings(settings: Settings) -> dict[str, Any]:
    """Every setting by its name alone."""
    content = settings.model_dump()
    parts = {**content.pop("architecture"), **content.pop("budget")}
    return {**content, **parts}


def load(folder: str | Path) -> Generator:
    """The saved generator in a folder, or in the `model` folder of a run; of the method that was saved."""
    model = bundle.read(Path(folder))
    return Generator(model.settings, model)


def generator_for(method: str, **changes: Any) -> Generator:
    """An unfitted generator of this row, with some settings changed.

    >>> generator_for("adapcla", width=64).settings.architecture.width
    64
    """
    if method not in METHODS:
        near = difflib.get_close_matches(method, METHODS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"no method is called {method!r}{hint} (see `adapcla methods`)")
    return Generator(settings_from(METHODS[method].settings, changes))


def AdaPCLA(**changes: Any) -> Generator:
    """The paper's method: a scaffold that training anneals away, so that sampling needs no bias.

    >>> AdaPCLA(schedule="fast").settings.schedule
    'fast'
    """
    return generator_for("adapcla", **changes)


#: The vocabulary that the sizes in the list of methods are for.
_LISTED_CODES = 1000


def describe_method(method: str, n_codes: int = _LISTED_CODES) -> dict[str, Any]:
    """What `adapcla methods` says of a row; parameters are those of a vocabulary of `n_codes` codes.

    >>> describe_method("marginal")["parameters"]
    0
    """
    row, settings = METHODS[method].row, METHODS[method].settings
    return {
        "name": method,
        "summary": row.summary,
        "paper": row.paper,
        "starts_from": row.starts_from,
        "supports": list(METHODS[method].supports),
        "note": row.note,
        "codes": n_codes,
        "parameters": _parameters(settings, n_codes),
        "passes": settings.budget.passes,
        "in all": row.usual,
        "settings": settings.model_dump(mode="json"),
    }


def _parameters(settings: Settings, n_codes: int) -> int:
    """How many numbers are learned; layers are alike, so that a deep network need not be made to be counted."""
    layers = settings.architecture.depth
    if layers > 2:
        one, two = (_parameters(settings_from(settings, {"layers": n}), n_codes) for n in (1, 2))
        return one + (layers - 1) * (two - one)
    prevalence = Prevalence(Vocabulary.of(f"{i:06d}" for i in range(n_codes)), np.full(n_codes, 1 / n_codes), n_codes)
    network = settings.network(Shape(n_codes, settings.architecture.context), prevalence)
    return sum(parameter.numel() for parameter in network.parameters())


def methods() -> dict[str, str]:
    """The name of every method → what it is.

    >>> methods()["marginal"][:17]
    'Independent draws'
    """
    return {name: method.row.summary for name, method in METHODS.items()}


def train(
    patients: Cohort | Split[Cohort] | ControlledSplit[Cohort], method: str = DEFAULT_METHOD, **settings: Any
) -> Generator:
    """A fitted generator of this method, with some settings changed.

    A whole cohort is split as `Cohort.split()` splits it; test and control patients take no part.
    """
    parts = patients.split() if isinstance(patients, Cohort) else patients
    return generator_for(method, **settings).fit(parts.train, parts.valid)
