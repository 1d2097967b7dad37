"""The steps of an experiment in order: which are done, which are still to do, and about how long they take."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from adapcla import files
from adapcla.console import say
from adapcla.errors import UsageError
from adapcla.experiment import stages
from adapcla.experiment.compare import known_settings
from adapcla.experiment.estimate import (
    Sizes,
    Timed,
    as_seen,
    evaluation_seconds,
    sampling_seconds,
    sizes_of,
    training_seconds,
)
from adapcla.experiment.folder import STAMP, STUDY, RunFolder, is_done, making, stamp
from adapcla.experiment.spec import EvaluateSpec, Spec, TargetSpec, key_of
from adapcla.generators.bundle import environment
from adapcla.generators.generator import Generator
from adapcla.generators.methods import generator_for
from adapcla.machine import forget_peak_memory
from adapcla.metrics.references import marginal, train_copy
from adapcla.records import Cohort, Prevalence
from adapcla.scaffold import Steering
from adapcla.version import __version__


@dataclass(frozen=True)
class Step:
    """One thing to do, unless it was done with the same settings."""

    stage: str
    what: str
    place: Path
    key: str
    #: Rough seconds on two cores.
    seconds: float
    work: Callable[[], Any] = field(repr=False)
    #: The row it belongs to; steps of one row and stage take about as long.
    row: str = ""

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return is_done(self.place, self.key)


#: References that stand beside every row; a quick evaluation leaves their slow scores out, so they are judged once.
REFERENCES = {"train_copy": train_copy, "marginal": marginal}


class Plan:
    """All steps of a specification in a folder."""

    def __init__(self, spec: Spec, out: str | Path) -> None:
        self.spec = spec
        self.folder = RunFolder(Path(out) / spec.name)
        asked = spec.rows()
        for method, _ in asked.values():
            # A row that does not exist is named before its settings are looked at.
            generator_for(method)
        self.rows = {name: (method, known_settings(method, settings)) for name, (method, settings) in asked.items()}
        self._check()
        self.steps = tuple(self._steps())

    def _check(self) -> None:
        """Fail before the expensive part: rows, settings, targets and analyses must exist."""
        for method, settings in self.rows.values():
            generator_for(method, **settings)
        for name, variant in self.spec.fit.variants.items():
            # What is set for all rows reaches those that know it; what is set for one row must be known to it.
            for setting in sorted(set(variant.settings) - set(self.rows[name][1])):
                raise UsageError(f"fit.variants.{name}.settings: {variant.method} has no setting {setting!r}")
        wanted = {method for target in self.spec.targets.values() for method in target.methods}
        wanted |= {self.spec.analyse.method} if self.spec.analyse.parts else set()
        for name in sorted(wanted - set(self.rows)):
            raise UsageError(f"{name!r} is to be steered or analysed, but fit.methods and fit.variants do not have it")

    # ---- keys -----------------------------------------------------------------------------------------------
    @cached_property
    def data_key(self) -> str:
        """What the prepared cohort depends on."""
        return stages.data_key(self.spec.data, self.spec.split)

    def fit_key(self, row: str, seed: int) -> str:
        """What a fit depends on."""
        return stages.fit_key(self.data_key, *self.rows[row], seed)

    def sample_key(self, row: str, seed: int, draw: int) -> str:
        """What a sample depends on."""
        return key_of(self.fit_key(row, seed), self.spec.sample.patients, draw)

    def target_key(self, name: str) -> str:
        """What a target population depends on."""
        return stages.data_key(self.spec.targets[name].data, self.spec.split)

    def steered_key(self, row: str, seed: int, name: str, mode: str) -> str:
        """What a steered sample depends on."""
        target = self.spec.targets[name]
        asked = [mode, target.strength, target.min_cell, self.spec.sample.patients]
        return key_of(self.fit_key(row, seed), self.target_key(name), asked)

    # ---- things, opened when they are needed ----------------------------------------------------------------
    @cached_property
    def parts(self) -> dict[str, Cohort]:
        """The prepared cohort."""
        return stages.prepared(self.spec.data, self.spec.split, self.folder.data, self.data_key)

    def target_parts(self, name: str) -> dict[str, Cohort]:
        """A prepared target population."""
        target = self.spec.targets[name]
        return stages.prepared(target.data, self.spec.split, self.folder.target(name), self.target_key(name))

    def generator(self, row: str, seed: int) -> Generator:
        """A fitted row."""
        method, settings = self.rows[row]
        place, key = self.folder.fit(row, seed), self.fit_key(row, seed)
        if not is_done(place, key):
            forget_peak_memory()
        return stages.trained(place, key, method, settings, seed, self.parts["train"], self.parts["valid"])

    @property
    def n_patients(self) -> int:
        """Patients of a sample."""
        return self.spec.sample.patients or self.parts["train"].n_patients

    # ---- the steps ------------------------------------------------------------------------------------------
    def _steps(self) -> Iterator[Step]:
        sizes = sizes_of(self.spec, stamp(self.folder.data))
        yield Step("prepare", self.spec.data.source, self.folder.data, self.data_key, 5.0, lambda: self.parts)
        for name in self.spec.targets:
            place, key = self.folder.target(name), self.target_key(name)
            yield Step("prepare", name, place, key, 5.0, lambda name=name: self.target_parts(name))  # type: ignore[misc]
        for name in REFERENCES if self.spec.evaluate.quick else ():
            seconds = evaluation_seconds(self.spec.evaluate, sizes)
            key = stages.scores_key(self.data_key, self.spec.evaluate, name, self.spec.sample.patients)
            place = self.folder.reference(name)
            yield Step("evaluate", name, place, key, seconds, partial(self._score_reference, name, place, key))
        for row in self.rows:
            for seed in self.spec.fit.seeds:
                yield from self._row_steps(row, seed, sizes)
        if self.spec.analyse.parts:
            yield self._analysis_step(sizes)

    def _row_steps(self, row: str, seed: int, sizes: Sizes) -> Iterator[Step]:
        """Train, then sample and evaluate for each draw, then the same towards each target."""
        folder, spec = self.folder, self.spec
        what = f"{row} seed {seed}"
        settings = generator_for(self.rows[row][0], **self.rows[row][1]).settings
        cost = training_seconds(settings, sizes)
        yield Step(
            "train", what, folder.fit(row, seed), self.fit_key(row, seed), cost, lambda: self.generator(row, seed), row
        )
        for draw in spec.sample.seeds:
            place, key = folder.sample(row, seed, draw), self.sample_key(row, seed, draw)
            drawn = sampling_seconds(settings, sizes, spec.sample.patients)

            def sample(place: Path = place, key: str = key, draw: int = draw) -> None:
                stages.sampled(place, key, self.generator(row, seed), self.n_patients, draw)

            def score(draw: int = draw) -> None:
                self._score(row, seed, draw)

            yield Step("sample", f"{what} draw {draw}", place, key, drawn, sample, row)
            judged = stages.scores_key(key, spec.evaluate)
            seconds = evaluation_seconds(spec.evaluate, sizes)
            yield Step("evaluate", f"{what} draw {draw}", folder.scores(row, seed, draw), judged, seconds, score, row)
        for name, target in spec.targets.items():
            if row in target.methods:
                yield from self._target_steps(row, seed, name, target, sizes)

    def _score_reference(self, name: str, place: Path, key: str) -> None:
        """The scores of a reference in the place of a synthetic cohort."""
        made = REFERENCES[name](self.parts["train"], self.n_patients, self.spec.evaluate.seed)
        stages.scored(place, key, name, made, self.parts, self.spec.evaluate, cache=self.folder.cache)

    def _score(self, row: str, seed: int, draw: int) -> None:
        """The scores of a sample."""
        key = stages.scores_key(self.sample_key(row, seed, draw), self.spec.evaluate)
        stages.scored(
            self.folder.scores(row, seed, draw),
            key,
            row,
            Cohort.open(self.folder.sample(row, seed, draw)),
            self.parts,
            self.spec.evaluate,
            generator=self.generator(row, seed),
            cache=self.folder.cache,
        )

    def _target_steps(self, row: str, seed: int, name: str, target: TargetSpec, sizes: Sizes) -> Iterator[Step]:
        """Sample towards a target by each mode, and judge against the target's own patients."""
        settings = generator_for(self.rows[row][0], **self.rows[row][1]).settings
        for mode in target.modes:
            place = self.folder.steered(row, seed, name, mode) / "scores"
            key = stages.scores_key(self.steered_key(row, seed, name, mode), self._asked_of_steered, "target")
            cost = sampling_seconds(settings, sizes, self.spec.sample.patients) * (12 if mode == "calibrated" else 1)
            cost += evaluation_seconds(self._asked_of_steered, sizes)
            work = partial(self._steer, row, seed, name, mode, key)
            # Modes differ by twelve times in what they cost.
            yield Step("steer", f"{row} seed {seed} to {name}, {mode}", place, key, cost, work, f"{row} {mode}")

    @property
    def _asked_of_steered(self) -> EvaluateSpec:
        """What is judged of a steered sample: the suites that speak of populations."""
        asked = self.spec.evaluate
        suites = tuple(suite for suite in asked.suites if suite in ("tail", "fidelity", "utility"))
        return asked.model_copy(update={"suites": suites})

    def _steer(self, row: str, seed: int, name: str, mode: str, of_scores: str) -> None:
        """Patients towards a target, and their scores against the target's own patients."""
        target, parts = self.spec.targets[name], self.target_parts(name)
        place, wanted = self.folder.steered(row, seed, name, mode), parts["train"].prevalence()
        key = self.steered_key(row, seed, name, mode)
        if is_done(place / "sample", key):
            made = Cohort.open(place / "sample")
        else:
            generator = self.generator(row, seed)
            steering = self._steering(generator, target, wanted, mode, seed)
            made = stages.sampled(place / "sample", key, generator, self.n_patients, 1, steering)
        asked, cache = self._asked_of_steered, self.folder.cache
        stages.scored(place / "scores", of_scores, row, made, parts, asked, target=wanted, cache=cache)

    def _steering(
        self, generator: Generator, target: TargetSpec, wanted: Prevalence, mode: str, seed: int
    ) -> Steering | None:
        """The shift of a mode; None where nothing is steered."""
        from adapcla.generators.steering import closed_loop, steer

        if mode == "none":
            return None
        told = wanted.suppressed(target.min_cell) if target.min_cell else wanted
        steering = steer(generator.model, _below_one(told), target.strength)
        if mode == "paper":
            return steering
        return closed_loop(generator.model, steering, seed, pilot=min(20_000, 4 * self.n_patients))

    def _analysis_step(self, sizes: Sizes) -> Step:
        """All analyses that were asked for."""
        asked = self.spec.analyse
        seed = self.spec.fit.seeds[0]
        samples = [self.sample_key(row, seed, self.spec.sample.seeds[0]) for row in self.rows]
        key = key_of(self.fit_key(asked.method, seed), samples, asked.model_dump(mode="json"), __version__)
        settings = generator_for(self.rows[asked.method][0], **self.rows[asked.method][1]).settings
        cost = training_seconds(settings, sizes) * (1 + 6 * ("schedules" in asked.parts))

        def work() -> None:
            from adapcla.experiment.analyses import Subject, analyse

            method, changes = self.rows[asked.method]
            runs = {row: self.generator(row, seed) for row in self.rows}
            draw = self.spec.sample.seeds[0]
            samples = {row: Cohort.open(self.folder.sample(row, seed, draw)) for row in self.rows}
            with making(self.folder.analysis, key):
                subject = Subject(method, {**changes, "seed": seed}, self.parts, runs, samples, asked.quick)
                analyse(subject, asked.parts, self.folder.analysis)

        return Step("analyse", ", ".join(asked.parts), self.folder.analysis, key, cost, work)

    def expected(self) -> list[float]:
        """Rough seconds of each step, from what like steps took in this folder where some are done."""
        return as_seen(
            [
                Timed(s.stage, s.row or s.what, s.seconds, stamp(s.place).get("seconds") if s.done else None)
                for s in self.steps
            ]
        )

    # ---- doing it -------------------------------------------------------------------------------------------
    @property
    def report_key(self) -> str:
        """What the page depends on."""
        words = [self.spec.title, self.spec.summary, self.spec.cohort]
        return key_of([step.key for step in self.steps], words, __version__)

    def run(self) -> Path:
        """The page, after everything that is not done yet was done; a second process is refused meanwhile."""
        with files.folder_lock(self.folder.root):
            for number, step in enumerate(self.steps, 1):
                if not step.done:
                    say(f"[{number}/{len(self.steps)}] {step.stage} {step.what}")
                    step.work()
            return self._page()

    def _page(self) -> Path:
        """The page, written unless it is there already."""
        if is_done(self.folder.root, self.report_key) and self.folder.report.is_file():
            say("nothing to do: everything is there already")
            return self.folder.report
        from adapcla.report.page import write_page
        from adapcla.report.study import Study

        with making(self.folder.root, self.report_key):
            files.write_json(self.folder.root / STUDY, self.about())
            say("report")
            return write_page([Study.open(self.folder.root)], self.folder.report)

    def forget(self) -> None:
        """Take away the stamps, so that every step is done again; results stay until they are replaced."""
        for path in self.folder.root.rglob(STAMP):
            path.unlink()
        shutil.rmtree(self.folder.cache, ignore_errors=True)

    def about(self) -> dict[str, Any]:
        """What the page needs to know: what was asked, and where each result lies below the folder."""
        spec, folder = self.spec, self.folder
        fits = []
        for row, (method, _) in self.rows.items():
            for seed in spec.fit.seeds:
                fits.append({"row": row, "method": method, "seed": seed, **self._places(row, seed)})
        return {
            "format": files.FORMAT_VERSION,
            "version": __version__,
            "spec": spec.model_dump(mode="json"),
            "fingerprint": spec.fingerprint(),
            "data": self._below(folder.data),
            "targets": {name: self._below(folder.target(name)) for name in spec.targets},
            "analysis": self._below(folder.analysis) if spec.analyse.parts else None,
            "references": {n: self._below(folder.reference(n)) for n in REFERENCES if spec.evaluate.quick},
            "fits": fits,
            "environment": environment(),
        }

    def _places(self, row: str, seed: int) -> dict[str, Any]:
        """Where the results of a fit lie."""
        spec, folder = self.spec, self.folder
        draws = [
            {
                "draw": n,
                "cohort": self._below(folder.sample(row, seed, n)),
                "scores": self._below(folder.scores(row, seed, n)),
            }
            for n in spec.sample.seeds
        ]
        toward = [
            {"target": name, "mode": mode, "cohort": self._below(at / "sample"), "scores": self._below(at / "scores")}
            for name, target in spec.targets.items()
            if row in target.methods
            for mode in target.modes
            for at in [folder.steered(row, seed, name, mode)]
        ]
        return {"place": self._below(folder.fit(row, seed)), "draws": draws, "toward": toward}

    def _below(self, place: Path) -> str:
        return place.relative_to(self.folder.root).as_posix()


def _below_one(prevalence: Prevalence) -> Prevalence:
    """The prevalence without codes of every visit, towards which no finite shift leads."""
    share = prevalence.share.copy()
    share[share >= 1] = float("nan")
    return Prevalence(prevalence.vocabulary, share, prevalence.n_visits)
