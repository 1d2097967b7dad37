"""The steps of an experiment in order: which are done, which are still to do, and about how long they take."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path

from adapcla import files
from adapcla.console import say
from adapcla.data import Cohort, Prevalence
from adapcla.errors import InputError, UsageError
from adapcla.evaluation.references import Beside
from adapcla.generation.generator import Generator, generator_for
from adapcla.pipeline import stages
from adapcla.pipeline.driver import Driver
from adapcla.pipeline.estimate import Sizes, evaluation_seconds, sampling_seconds, sizes_of, training_seconds
from adapcla.pipeline.folder import STUDY, RunFolder, is_done, making, stamp
from adapcla.pipeline.references import judged_references, reference_cohort
from adapcla.pipeline.rows import checked_row, checked_rows, modes_of
from adapcla.pipeline.settings import EvaluateSettings, SplitSettings, key_of
from adapcla.pipeline.step import Step
from adapcla.pipeline.tuning import Tuning
from adapcla.scaffold import Steering
from adapcla.study.analyses import Subject, remove_unasked
from adapcla.study.index import study_index
from adapcla.study.spec import StudySpec, TargetSettings
from adapcla.version import __version__


class Plan(Driver):
    """All steps of a comparison in a folder."""

    def __init__(self, spec: StudySpec, out: str | Path) -> None:
        self.spec = spec
        self.folder = RunFolder(Path(out) / spec.name)
        #: The rows as asked for, and the choice of their rate and passes where there is a grid.
        asked = checked_rows(spec.fit)
        grid = spec.fit.grid
        self.tuning = None if grid is None else Tuning(grid, asked, self.folder, self.data_key, lambda: self.parts)
        self.rows = asked if self.tuning is None else self.tuning.chosen()
        self.failed = {}
        self._check()
        self.steps = tuple(self._steps())

    def _check(self) -> None:
        """Fail before the expensive part: what is steered or compared must be there."""
        for name in sorted({method for target in self.spec.targets.values() for method in target.methods}):
            if name not in self.rows:
                raise UsageError(f"{name!r} is to be steered, but fit.methods and fit.variants do not have it")
        for name, path in self.spec.external.items():
            if not Path(path).expanduser().is_dir():
                raise InputError(
                    "no folder there", path=path, expected="a cohort folder", remedy=f"correct external.{name}"
                )

    # ---- keys -----------------------------------------------------------------------------------------------
    @cached_property
    def data_key(self) -> str:
        """What the prepared cohort depends on."""
        return stages.data_key(self.spec.data, self._first_split)

    @cached_property
    def _data_keys(self) -> dict[int, str]:
        """What the cohort of each fit seed depends on; the source is read once for all of them."""
        splits = {seed: self.split_of(seed) for seed in self.spec.fit.seeds}
        return {seed: stages.data_key(self.spec.data, split) for seed, split in splits.items()}

    @property
    def _first_split(self) -> SplitSettings:
        """The split of the first fit seed, which references, targets and figures have too."""
        return self.spec.split

    def split_of(self, seed: int) -> SplitSettings:
        """The split of a fit seed."""
        return self.spec.split.of_fit(seed, self.spec.fit.seeds[0])

    def data_key_of(self, seed: int) -> str:
        """What the cohort of a fit seed depends on."""
        return self._data_keys[seed]

    def fit_key(self, row: str, seed: int) -> str:
        """What a fit depends on."""
        return stages.fit_key(self.data_key_of(seed), *self.rows[row], seed)

    def sample_key(self, row: str, seed: int, draw: int) -> str:
        """What a sample depends on."""
        return key_of(self.fit_key(row, seed), self.spec.sample.patients, draw)

    def target_key(self, name: str) -> str:
        """What a target population depends on."""
        return stages.data_key(self.spec.targets[name].data, self._first_split)

    def steered_key(self, row: str, seed: int, name: str, mode: str) -> str:
        """What a steered sample depends on."""
        target = self.spec.targets[name]
        settings = [mode, target.strength, target.min_cell, self.spec.sample.patients]
        return key_of(self.fit_key(row, seed), self.target_key(name), settings)

    # ---- things, opened when they are needed ----------------------------------------------------------------
    @cached_property
    def parts(self) -> dict[str, Cohort]:
        """The prepared cohort."""
        return stages.prepared(self.spec.data, self._first_split, self.folder.data, self.data_key)

    def parts_of(self, seed: int) -> dict[str, Cohort]:
        """The cohort as it is divided for a fit seed."""
        if self.data_key_of(seed) == self.data_key:
            return self.parts
        split = self.split_of(seed)
        return stages.prepared(self.spec.data, split, self.folder.split(split.seed), self.data_key_of(seed))

    def target_parts(self, name: str) -> dict[str, Cohort]:
        """A prepared target population."""
        target = self.spec.targets[name]
        return stages.prepared(target.data, self._first_split, self.folder.target(name), self.target_key(name))

    def generator(self, row: str, seed: int) -> Generator:
        """A fitted row."""
        method, settings = self.rows[row]
        results, key = self.folder.fit(row, seed), self.fit_key(row, seed)
        if self.tuning is not None:
            self.tuning.reuse(row, key, results)
        parts = self.parts_of(seed)
        return stages.trained(results, key, method, settings, seed, parts["train"], parts["valid"])

    @property
    def n_patients(self) -> int:
        """Patients of a sample."""
        return self.spec.sample.patients or self.parts["train"].n_patients

    # ---- the steps ------------------------------------------------------------------------------------------
    def _steps(self) -> Iterator[Step]:
        sizes = sizes_of(self.spec.data, stamp(self.folder.data))
        yield Step("prepare", self.spec.data.source, self.folder.data, self.data_key, 5.0, lambda: self.parts)
        for seed in self.spec.fit.seeds:
            key = self.data_key_of(seed)
            if key != self.data_key:
                split, work = self.split_of(seed).seed, partial(self.parts_of, seed)
                yield Step("prepare", f"split {split}", self.folder.split(split), key, 5.0, work)
        for name in self.spec.targets:
            results, key = self.folder.target(name), self.target_key(name)
            yield Step("prepare", name, results, key, 5.0, lambda name=name: self.target_parts(name))  # type: ignore[misc]
        for reference, judged in judged_references(self.spec.evaluate, self.spec.data).items():
            seconds = evaluation_seconds(judged, sizes)
            key = stages.scores_key(self.data_key, judged, reference.value, self.spec.sample.patients)
            results = self.folder.reference(reference)
            score = partial(self._score_reference, reference, judged, results, key)
            yield Step("evaluate", reference.value, results, key, seconds, score)
        yield from () if self.tuning is None else self.tuning.steps(sizes)
        for row in self.rows:
            for seed in self.spec.fit.seeds:
                yield from self._row_steps(row, seed, sizes)
        for name, path in self.spec.external.items():
            yield from self._external_steps(name, Path(path).expanduser(), sizes)
        yield from self._analysis_steps(sizes)

    def _row_steps(self, row: str, seed: int, sizes: Sizes) -> Iterator[Step]:
        """Train, then sample and evaluate for each draw, then the same towards each target."""
        folder, spec = self.folder, self.spec
        what, fit = f"{row} seed {seed}", (row, seed)
        settings = generator_for(self.rows[row][0], **self.rows[row][1]).settings
        cost, train = training_seconds(settings, sizes), partial(self.generator, row, seed)
        yield Step("train", what, folder.fit(row, seed), self.fit_key(row, seed), cost, train, row, fit)
        for draw in spec.sample.seeds:
            key, about = self.sample_key(row, seed, draw), f"{what} draw {draw}"
            cost = sampling_seconds(settings, sizes, spec.sample.patients)
            work = partial(self._sample, row, seed, draw)
            yield Step("sample", about, folder.sample(row, seed, draw), key, cost, work, row, fit)
            if spec.evaluate.suites:
                key, cost = stages.scores_key(key, spec.evaluate), evaluation_seconds(spec.evaluate, sizes)
                work = partial(self._score, row, seed, draw)
                yield Step("evaluate", about, folder.scores(row, seed, draw), key, cost, work, row, fit)
        for name, target in spec.targets.items():
            if row in target.methods:
                yield from self._target_steps(row, seed, name, target, sizes)

    def _external_steps(self, name: str, path: Path, sizes: Sizes) -> Iterator[Step]:
        """Copy patients that were made elsewhere, and judge them like those of a row."""
        folder = self.folder.external(name)
        key = key_of(self.data_key, Cohort.open(path).fingerprint)
        yield Step("copy", name, folder / "cohort", key, 1.0, partial(stages.copied, folder / "cohort", key, path))
        if self.spec.evaluate.suites:
            of_scores = stages.scores_key(key, self.spec.evaluate)
            seconds = evaluation_seconds(self.spec.evaluate, sizes)
            work = partial(self._score_external, name, of_scores)
            yield Step("evaluate", name, folder / "scores", of_scores, seconds, work)

    def _score_external(self, name: str, key: str) -> None:
        """The scores of patients that were made elsewhere."""
        folder = self.folder.external(name)
        synthetic = Cohort.open(folder / "cohort")
        stages.scored(folder / "scores", key, name, synthetic, self.parts, self.spec.evaluate, cache=self.folder.cache)

    def _sample(self, row: str, seed: int, draw: int) -> None:
        """Patients of a fit."""
        results, key = self.folder.sample(row, seed, draw), self.sample_key(row, seed, draw)
        stages.sampled(results, key, self.generator(row, seed), self.n_patients, draw)

    def _score_reference(self, reference: Beside, judged: EvaluateSettings, results: Path, key: str) -> None:
        """The scores of a reference in the place of a synthetic cohort."""
        cohort = reference_cohort(reference, self.parts, self.n_patients, judged.seed)
        stages.scored(results, key, reference.value, cohort, self.parts, judged, cache=self.folder.cache)

    def _score(self, row: str, seed: int, draw: int) -> None:
        """The scores of a sample."""
        key = stages.scores_key(self.sample_key(row, seed, draw), self.spec.evaluate)
        stages.scored(
            self.folder.scores(row, seed, draw),
            key,
            row,
            Cohort.open(self.folder.sample(row, seed, draw)),
            self.parts_of(seed),
            self.spec.evaluate,
            generator=self.generator(row, seed),
            cache=self.folder.cache,
        )

    def _target_steps(self, row: str, seed: int, name: str, target: TargetSettings, sizes: Sizes) -> Iterator[Step]:
        """Sample towards a target by each mode, and judge against the target's own patients."""
        settings = generator_for(self.rows[row][0], **self.rows[row][1]).settings
        for mode in modes_of(self.rows[row][0], target.modes):
            results = self.folder.steered(row, seed, name, mode) / "scores"
            key = stages.scores_key(self.steered_key(row, seed, name, mode), self._evaluated_of_steered, "target")
            cost = sampling_seconds(settings, sizes, self.spec.sample.patients) * (12 if mode == "calibrated" else 1)
            cost += evaluation_seconds(self._evaluated_of_steered, sizes)
            work = partial(self._steer, row, seed, name, mode, key)
            # Modes differ by twelve times in what they cost.
            what = f"{row} seed {seed} to {name}, {mode}"
            yield Step("steer", what, results, key, cost, work, f"{row} {mode}", (row, seed))

    @property
    def _evaluated_of_steered(self) -> EvaluateSettings:
        """What is judged of a steered sample: the suites that speak of populations."""
        judged = self.spec.evaluate
        suites = tuple(suite for suite in judged.suites if suite in ("tail", "fidelity", "utility"))
        return judged.model_copy(update={"suites": suites})

    def _steer(self, row: str, seed: int, name: str, mode: str, of_scores: str) -> None:
        """Patients towards a target, and their scores against the target's own patients."""
        target, parts = self.spec.targets[name], self.target_parts(name)
        results, prevalence = self.folder.steered(row, seed, name, mode), parts["train"].prevalence()
        key = self.steered_key(row, seed, name, mode)
        if is_done(results / "sample", key):
            cohort = Cohort.open(results / "sample")
        else:
            generator = self.generator(row, seed)
            steering = self._steering(generator, target, prevalence, mode, seed)
            cohort = stages.sampled(results / "sample", key, generator, self.n_patients, 1, steering)
        judged, cache = self._evaluated_of_steered, self.folder.cache
        stages.scored(results / "scores", of_scores, row, cohort, parts, judged, target=prevalence, cache=cache)

    def _steering(
        self, generator: Generator, target: TargetSettings, prevalence: Prevalence, mode: str, seed: int
    ) -> Steering | None:
        """The shift of a mode; None where nothing is steered."""
        from adapcla.generation.steering import closed_loop, steer

        if mode == "none":
            return None
        shared = prevalence.suppress_small_counts(target.min_cell) if target.min_cell else prevalence
        steering = steer(generator.model, _below_one(shared), target.strength)
        if mode == "paper":
            return steering
        return closed_loop(generator.model, steering, seed, pilot=min(20_000, 4 * self.n_patients))

    def _analysis_steps(self, sizes: Sizes) -> Iterator[Step]:
        """The fits that are watched, then each analysis."""
        analyses = self.spec.analyse
        if not analyses.parts:
            return
        subject = self._subject()
        cost = training_seconds(generator_for(subject.method, **subject.settings).settings, sizes)
        for watched in subject.watched():
            what = f"{analyses.method} {watched.schedule} seed {watched.seed}"
            key, work = subject.watched_key(watched), partial(subject.watch, watched)
            yield Step("probe", what, subject.watched_folder(watched), key, cost, work)
        for part in analyses.parts:
            yield Step("analyse", part, subject.folder / part, subject.key(part), 10.0, partial(subject.analyse, part))

    def _subject(self) -> Subject:
        """What the analyses look at: the first fit and sample of every row."""
        analyses, seed, draw = self.spec.analyse, self.spec.fit.seeds[0], self.spec.sample.seeds[0]
        if analyses.method in self.rows:
            method, settings = self.rows[analyses.method]
        else:
            method, settings = checked_row(analyses.method, self.spec.fit.settings)
        return Subject(
            analyses,
            method,
            settings,
            analyses.seeds or (seed,),
            self.folder.analysis,
            self.data_key,
            [self.sample_key(row, seed, draw) for row in self.rows],
            lambda: self.parts,
            lambda: {row: self.generator(row, seed) for row in self.rows if (row, seed) not in self.failed},
            lambda: {
                row: Cohort.open(self.folder.sample(row, seed, draw))
                for row in self.rows
                if (row, seed) not in self.failed
            },
        )

    # ---- doing it -------------------------------------------------------------------------------------------
    @property
    def report_key(self) -> str:
        """What the page depends on."""
        words = [self.spec.title, self.spec.summary, self.spec.cohort]
        return key_of([step.key for step in self.steps], words, sorted(self.failed.items()), __version__)

    def run(self) -> Path:
        """Do every step that is not done yet and return the page; a second process is refused meanwhile."""
        with files.folder_lock(self.folder.root):
            self.work()
            return self._page()

    def work(self) -> None:
        """Do every step that is not done yet; what the grid chooses comes before what depends on it."""
        if self.tuning is not None:
            self.carry_out(stages=("prepare", "tune"))
            self.rows = self.tuning.chosen()
            self.steps = tuple(self._steps())
        self.carry_out()

    def _page(self) -> Path:
        """The page, written unless it is there already."""
        if is_done(self.folder.root, self.report_key) and self.folder.report.is_file():
            say("nothing to do: everything is there already")
            return self.folder.report
        from adapcla.study.page import write_study_page
        from adapcla.study.results import Study

        with making(self.folder.root, self.report_key):
            remove_unasked(self.folder.analysis, self.spec.analyse.parts)
            self.write_index()
            say("report")
            return write_study_page([Study.open(self.folder.root)], self.folder.root)

    def write_index(self) -> None:
        """Write what the page and the verdicts read first."""
        index = study_index(self.spec, self.folder, self.rows, self.failed)
        if self.tuning is not None:
            index["tuning"] = self.tuning.table()
        files.write_json(self.folder.root / STUDY, index)


def _below_one(prevalence: Prevalence) -> Prevalence:
    """The prevalence without codes that every visit holds, because no finite shift reaches a share of 1."""
    share = prevalence.share.copy()
    share[share >= 1] = float("nan")
    return Prevalence(prevalence.vocabulary, share, prevalence.n_visits)
