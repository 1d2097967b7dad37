"""Generators with a network inside: AdaPCLA, its ablations and the neural baselines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from adapcla.errors import UsageError
from adapcla.files import folder_lock
from adapcla.generators import bundle
from adapcla.generators.calibration import fold_prevalence, settle_record_length
from adapcla.generators.contract import Continuation, SampleRule, Target
from adapcla.generators.families import network_for, plan_for
from adapcla.generators.fitted import Fitted
from adapcla.generators.protected import Protection, refuse_unprotectable
from adapcla.generators.room import demand_room
from adapcla.generators.sampling import BLOCK, AttributeLaw, Rolled, as_cohort, blocks, joined
from adapcla.generators.settings import Settings, settings_from
from adapcla.generators.targets import target_prevalence
from adapcla.networks.batch import Records
from adapcla.networks.contract import DrawRule, Network, Shape
from adapcla.records import Cohort, Kind, Origin, Prevalence, Vocabulary
from adapcla.records.origin import Group
from adapcla.scaffold import Scaffold, Steering, shift
from adapcla.seeds import generator as random_stream
from adapcla.seeds import stream_key
from adapcla.training.loop import Loop, Observer, Outcome


class NeuralGenerator:
    """A network, the way it is trained, and the way it writes patients.

    Parameters are stored, not used, by the constructor; what fitting makes ends in an underscore.
    """

    def __init__(self, settings: Settings | None = None, **changes: Any) -> None:
        self.settings = settings_from(settings or Settings(), changes)
        refuse_unprotectable(self.settings)
        self._protection: Protection | None = None
        self.fitted_: Fitted | None = None
        self.outcome_: Outcome | None = None

    @property
    def method(self) -> str:
        """The row of the method table."""
        return self.settings.method

    @property
    def fitted(self) -> Fitted:
        """What fitting made; an error before."""
        if self.fitted_ is None:
            raise UsageError("this generator is not fitted\nto do: call fit(train, valid), or load a saved one")
        return self.fitted_

    @property
    def vocabulary_(self) -> Vocabulary:
        """The vocabulary of the training cohort."""
        return self.fitted.prevalence.vocabulary

    @property
    def prevalence_(self) -> Prevalence:
        """π̂ of the training cohort."""
        return self.fitted.prevalence

    @property
    def network_(self) -> Network:
        """The trained network."""
        return self.fitted.network

    # ---- fitting ----------------------------------------------------------------------------------------
    def fit(
        self,
        train: Cohort,
        valid: Cohort,
        folder: str | Path | None = None,
        resume: bool = False,
        observers: Sequence[Observer] = (),
    ) -> NeuralGenerator:
        """The generator, fitted; with a folder, training leaves checkpoints and a journal there and can be resumed."""
        valid = valid.on(train.vocabulary)
        place = None if folder is None else Path(folder)
        guard = self._protection = Protection.begin(self.settings, train, valid, place, resume)
        if guard is not None:
            train, valid = guard.train, guard.valid
        self.fitted_ = self._untrained(train)
        plan = plan_for(self.settings, self.fitted_.network, self.scaffold_bias())
        context = self.settings.architecture.context
        loop = Loop(
            plan,
            Records(self._seen(train), context),
            Records(self._seen(valid), context),
            self.settings.budget,
            self.settings.seed,
            place,
            observers,
            None if guard is None else guard.step(),
        )
        if place is None:
            self.outcome_ = loop.run()
        else:
            with folder_lock(place):
                self.outcome_ = loop.run(resume=resume)
        if guard is not None:
            self.fitted_.facts = guard.facts(self._facts(train, valid))
            return self
        settle_record_length(self, train)
        self.fitted_.facts |= self._facts(train, valid)
        if self.settings.calibration_rounds:
            self.fitted_.facts["calibration"] = fold_prevalence(self, train, self.settings.calibration_rounds)
        return self

    def _untrained(self, train: Cohort) -> Fitted:
        """Network and statistics before the first step."""
        settings = self.settings
        seen = Records(self._seen(train), settings.architecture.context)
        rows = seen.attribute_rows(np.arange(train.n_patients))
        combinations, counts = np.unique(rows, axis=0, return_counts=True)
        names = seen.attribute_names
        law = AttributeLaw(names, tuple(train.attributes[n].categories for n in names), combinations, counts)
        shape = Shape(
            train.n_codes,
            settings.architecture.context,
            tuple(len(c) for c in law.categories),
            settings.architecture.use_days and train.days is not None,
        )
        guard = self._protection
        prevalence = train.prevalence()
        if guard is not None:
            prevalence, law = guard.counted(seen)
        demand_room(settings, shape, prevalence)
        torch.manual_seed(stream_key(settings.seed, "weights") % (1 << 63))
        network = network_for(settings, shape, prevalence)
        if settings.starts_from:
            warm = NeuralGenerator.load(settings.starts_from)
            if warm.vocabulary_ != train.vocabulary:
                raise UsageError(
                    f"{settings.starts_from} was trained on another vocabulary; a warm start needs the same"
                )
            network.load_state_dict(warm.fitted.modules.state_dict())  # type: ignore[attr-defined]
        return Fitted(
            network,
            prevalence,
            law,
            shape,
            np.bincount(train.codes_per_visit) if guard is None else np.zeros(0, dtype=np.int64),
            int(min(train.visits_per_patient.max(), shape.context)) if guard is None else shape.context,
            {"visits beyond the context": seen.n_cut},
        )

    def records(self, cohort: Cohort) -> Records:
        """The cohort ready for batches, as this generator sees it."""
        return Records(self._seen(cohort.on(self.vocabulary_)), self.settings.architecture.context)

    def _seen(self, cohort: Cohort) -> Cohort:
        """The cohort with only what the settings let the network see."""
        wanted = self.settings.architecture
        return replace(
            cohort,
            attributes=cohort.attributes if wanted.use_attributes else {},
            days=cohort.days if wanted.use_days else None,
        )

    def _facts(self, train: Cohort, valid: Cohort) -> dict[str, Any]:
        assert self.outcome_ is not None and self.fitted_ is not None
        parameters = sum(p.numel() for p in self.fitted_.modules.parameters())
        return {
            "patients": train.n_patients,
            "visits": train.n_visits,
            "codes": train.n_codes,
            "validation patients": valid.n_patients,
            "training data": train.fingerprint,
            **self._learned_from(train, valid).as_card(),
            "parameters": parameters,
            "steps": self.outcome_.steps,
            "passes": round(self.outcome_.steps * self.settings.budget.batch_size / train.n_patients, 2),
            "best step": self.outcome_.best_step,
            "validation loss a visit": self.outcome_.best_loss,
            "stopped early": self.outcome_.stopped_early,
        }

    def _learned_from(self, train: Cohort, valid: Cohort) -> Origin:
        """The origin of what this generator will write: kind, training and validation patients, and a warm start's."""
        groups = tuple(Group(role, c.fingerprint, c.origin) for role, c in (("train", train), ("valid", valid)))
        if self.settings.starts_from:
            before = NeuralGenerator.load(self.settings.starts_from).origin_
            groups += before.learned_from or (Group("warm start", "", before),)
        copies = getattr(self.network_, "holds_patients", False)
        return Origin(train.origin.kind if copies else Kind.SYNTHETIC, (), groups)

    @property
    def origin_(self) -> Origin:
        """Where the patients that this generator writes come from; a private model does not name its patients."""
        told = Origin.from_card(self.fitted.facts)
        unsaid = told.kind == Kind.UNKNOWN and not getattr(self.network_, "holds_patients", False)
        return replace(told, kind=Kind.SYNTHETIC) if unsaid else told

    def scaffold_bias(self) -> torch.Tensor:
        """The scaffold of the settings as a tensor (codes,), permuted where a control asks for it."""
        settings = self.settings
        bias = Scaffold(self.fitted.prevalence, settings.tempering, settings.epsilon).bias
        if settings.permuted:
            bias = bias[random_stream(settings.seed, "permuted").permutation(len(bias))]
        return torch.from_numpy(bias).float()

    # ---- sampling ---------------------------------------------------------------------------------------
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
        **options: Any,
    ) -> Cohort:
        """`n` new patients; patient i of a seed is the same for any n and batch size.

        Args:
            n: Number of patients.
            seed: Seed of the patients; other seeds give other people.
            toward: A prevalence, cohort or file to steer towards.
            strength: λ, from 0 (no control) to 1 (the full shift).
            missing: What happens to codes without a target: `keep` or `drop`.
            calibrate: Correct the shift by closed-loop rounds until the target is reached.
            batch_size: Patients held between two yields of the stream; never changes a patient.
            rule: How codes are drawn; or give its fields by name (`temperature`, `max_visits`, `min_codes`, …).
            options: Fields of `SampleRule`.
        """
        steering = self.steering(toward, strength, missing, calibrate, seed)
        rule = replace(rule or SampleRule(), **options)
        parts = list(self.stream(n, seed, steering, rule, batch_size))
        return self.cohort_of(joined(parts), self.sample_card(n, seed, rule, steering))

    def stream(
        self,
        n: int,
        seed: int,
        steering: Steering | None = None,
        rule: SampleRule | None = None,
        batch_size: int | None = None,
        first: int = 0,
    ) -> Iterator[Rolled]:
        """The same patients as `sample`, a batch at a time, from patient `first` (the beginning of a block) on."""
        if n < 1:
            raise UsageError(f"{n} patients: expected at least 1")
        rule = rule or SampleRule()
        fitted = self.fitted
        fitted.modules.eval()
        law = _conditioned(fitted.law, rule.where)
        draw = self.draw_rule(steering, rule)
        max_visits = min(rule.max_visits or fitted.longest, self.settings.architecture.context)
        waiting: list[Rolled] = []
        held = 0
        for part in blocks(fitted.network, law, draw, seed, n, max_visits, rule.min_codes, first):
            waiting.append(part)
            held += len(part.lengths)
            if held >= (batch_size or BLOCK):
                yield joined(waiting)
                waiting, held = [], 0
        if waiting:
            yield joined(waiting)

    def cohort_of(self, rolled: Rolled, card: dict[str, Any]) -> Cohort:
        """Rolled patients as a cohort of this generator's vocabulary."""
        fitted = self.fitted
        return as_cohort(rolled, self.vocabulary_, fitted.law, fitted.shape.with_days, card)

    def draw_rule(self, steering: Steering | None, rule: SampleRule) -> DrawRule:
        """What is added to the logits, and how they are tempered."""
        bias = self.scaffold_bias() if self.settings.bias_at_inference else None
        if steering is not None and steering.moves:
            delta = torch.from_numpy(steering.delta).float()
            bias = delta if bias is None else bias + delta
        if rule.codes_per_visit not in ("natural", "match"):
            raise UsageError(f"codes_per_visit={rule.codes_per_visit!r}: expected 'natural' or 'match'")
        if rule.temperature <= 0:
            raise UsageError(f"temperature {rule.temperature}: expected a positive number")
        counts = None
        if rule.codes_per_visit == "match":
            sizes = self.fitted.visit_sizes
            if not len(sizes):
                raise UsageError("a private model does not know the sizes of visits: codes_per_visit must be 'natural'")
            counts = np.repeat(np.arange(len(sizes)), sizes)
        return DrawRule(bias, rule.temperature, counts)

    def steering(
        self, toward: Target | Steering | None, strength: float, missing: str, calibrate: bool, seed: int
    ) -> Steering | None:
        """The shift towards a target; None where there is none."""
        if toward is None:
            return None
        first = self.steer(toward, strength, missing)
        if not calibrate or strength == 0:
            return first
        from adapcla.generators.control import closed_loop

        return closed_loop(self, first, seed)

    def steer(self, toward: Target | Steering, strength: float = 1.0, missing: str = "keep") -> Steering:
        """The paper's shift towards a target prevalence."""
        if not self.network_.steerable:
            raise UsageError(f"{self.method} has no logit for each code, so that it cannot be steered")
        if isinstance(toward, Steering):
            return toward
        return shift(self.prevalence_, target_prevalence(toward), strength, missing)

    def sample_card(self, n: int, seed: int, rule: SampleRule, steering: Steering | None) -> dict[str, Any]:
        """What a synthetic cohort says about itself."""
        card: dict[str, Any] = {
            "source": "synthetic",
            **self.origin_.as_card(),
            "method": self.method,
            "model": self.settings.fingerprint(),
            "seed": seed,
            "asked for": n,
            "rule": {"codes_per_visit": rule.codes_per_visit, "temperature": rule.temperature},
        }
        spent = self.fitted.facts.get("privacy")
        if spent is not None:
            card["privacy"] = {name: spent[name] for name in ("epsilon", "delta", "unit", "not covered")}
        if steering is not None:
            card["steering"] = {
                "strength": steering.strength,
                "unknown codes": len(steering.unknown),
                "codes never seen in training": len(steering.unreachable),
            }
        return card

    @torch.no_grad()
    def continue_(self, history: Cohort, visits: int = 1, draws: int = 100, seed: int = 1) -> Continuation:
        """What follows given histories: draws of the next visits and the probability of each code at the next one.

        Probabilities are exact where the head gives every logit at once, and frequencies of the draws elsewhere.
        """
        if not getattr(self.network_, "conditional", True):
            raise UsageError(f"{self.method} makes whole records at once; it cannot go on from a history")
        from adapcla.generators.continuing import continued

        return continued(self, history, visits, draws, seed)

    @torch.no_grad()
    def log_likelihood(self, cohort: Cohort) -> NDArray[np.float64]:
        """Log-likelihood of each patient's record, in nats."""
        self.fitted.modules.eval()
        records = self.records(cohort)
        bias = self.scaffold_bias() if self.settings.bias_at_inference else None
        out = []
        for low in range(0, cohort.n_patients, BLOCK):
            batch = records.batch(np.arange(low, min(low + BLOCK, cohort.n_patients)))
            out.append(-self.network_.likelihood(batch, bias).record.numpy())
        return np.concatenate(out)

    # ---- keeping ----------------------------------------------------------------------------------------
    def save(self, folder: str | Path, overwrite: bool = False, shareable: bool = False) -> Path:
        """Write the generator to a folder: safetensors, JSON, Parquet and hashes; nothing that runs when opened."""
        return bundle.save(self.settings, self.fitted, Path(folder), overwrite, shareable)

    @classmethod
    def load(cls, folder: str | Path) -> NeuralGenerator:
        """The generator in a folder, or in the `model` folder of a run."""
        generator = cls()
        generator.settings, generator.fitted_ = bundle.read(Path(folder))
        return generator


class AdaPCLA(NeuralGenerator):
    """The paper's method: a scaffold that training anneals away, so that sampling needs no bias.

    >>> AdaPCLA(schedule="fast").settings.schedule
    'fast'
    """


def _conditioned(law: AttributeLaw, where: Sequence[tuple[str, str]]) -> AttributeLaw:
    """The law of attributes given some of them."""
    keep = np.ones(len(law.counts), dtype=bool)
    for name, category in where:
        if name not in law.names:
            raise UsageError(f"no attribute {name!r}; this model knows {', '.join(law.names) or 'none'}")
        column = law.names.index(name)
        if category not in law.categories[column]:
            raise UsageError(f"{name}={category}: expected one of {', '.join(law.categories[column])}")
        keep &= law.combinations[:, column] == law.categories[column].index(category) + 1
    if not keep.any():
        raise UsageError("no training patient has these attributes together")
    return replace(law, combinations=law.combinations[keep], counts=law.counts[keep])
