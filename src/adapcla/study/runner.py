"""A study as steps: methods × seeds × targets, from one specification to its page; what is done is not done again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from adapcla import files
from adapcla.console import say
from adapcla.data import Cohort, Prevalence
from adapcla.data.split_folder import open_splits
from adapcla.errors import AdapclaError, InputError, InterruptedRun, UsageError
from adapcla.evaluation.metric import SUITES
from adapcla.evaluation.references import Beside, LawReference, Reference
from adapcla.files import FORMAT_VERSION
from adapcla.generation.bundle import environment
from adapcla.generation.fitting import stages
from adapcla.generation.generator import Generator, generator_for, load
from adapcla.pipeline import tasks
from adapcla.pipeline.estimate import Sizes, evaluation_seconds, sampling_seconds, sizes_of, training_seconds
from adapcla.pipeline.settings import DataSettings, EvaluateSettings, RowSettings, SplitSettings, data_path
from adapcla.pipeline.steps import RECORD, Failures, Step, code_of, forget_records, record, run_steps
from adapcla.pipeline.tasks import Row, checked_row
from adapcla.scaffold import Steering
from adapcla.study.analysis.run import OF_ROWS, ObservedRun, Subject, reads_trajectories, remove_other_parts
from adapcla.study.results import ABOUT
from adapcla.study.spec import StudySpec, TargetSettings
from adapcla.training.settings import METHODS, Settings
from adapcla.version import __version__

REPORT = "report.html"
#: Revisions of what the steps of a study write; those of fits, samples and scores are with the tasks.
CHOICE, WATCH = 1, 1
#: References that stand beside every row; a quick evaluation leaves their slow scores out, so they are scored once.
_SLOW = (Reference.TRAIN_COPY, Reference.MARGINAL, Reference.REAL_TRAIN)
#: Suites about populations, by which a steered sample is scored.
_OF_POPULATIONS = ("tail", "fidelity", "utility")
#: How much longer sampling takes whose steering is corrected by calibration samples.
_CALIBRATED = 12
_LOSS = "validation loss per visit"


# ---- rows -----------------------------------------------------------------------------------------------------
def method_names(text: str) -> tuple[str, ...]:
    """The rows that `all`, `none`, or names with commas stand for; an unknown name is refused with the nearest one.

    >>> method_names("halo, lstm"), method_names("none")
    (('halo', 'lstm'), ())
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["all"]:
        return tuple(name for name, row in METHODS.items() if row.row.usual)
    if names == ["none"]:
        return ()
    for name in names:
        generator_for(name)
    return tuple(dict.fromkeys(names))


def check_rows(fit: RowSettings) -> dict[str, Row]:
    """The rows of a study by name; what cannot be trained, or would be trained twice, is refused."""
    rows = {name: checked_row(method, settings) for name, (method, settings) in fit.rows().items()}
    for name, variant in fit.variants.items():
        # What is set for all rows reaches those that know it; what is set for one row must be known to it.
        for setting in sorted(set(variant.settings) - set(rows[name][1])):
            raise UsageError(f"fit.variants.{name}.settings: {variant.method} has no setting {setting!r}")
    same: dict[str, str] = {}
    for name, (method, settings) in rows.items():
        content = generator_for(method, **settings).settings.model_dump(exclude={"method"})
        first = same.setdefault(repr(content), name)
        if first != name:
            raise UsageError(
                f"rows {first!r} and {name!r} have the same settings, so that they are one row with two names\n"
                "to do: leave one out, or do not set for all rows what they differ in"
            )
    return rows


def modes_of(method: str, modes: tuple[str, ...]) -> tuple[str, ...]:
    """The ways in which a row is drawn for a target; one that cannot be steered stands there as it is.

    >>> modes_of("synteg", ("none", "paper")), modes_of("eva", ("paper",))
    (('none',), ('paper',))
    """
    return modes if "toward" in METHODS[method].supports else ("none",)


# ---- references -----------------------------------------------------------------------------------------------
def scored_references(settings: EvaluateSettings, data: DataSettings) -> dict[Beside, EvaluateSettings]:
    """The references that are scored by themselves: what a quick look leaves out, and simulated ones.

    A quick look trains no classifiers on the latter: these have real patients as their ceiling, and are slow.

    >>> found = scored_references(EvaluateSettings(suites=("tail", "utility"), quick=True), DataSettings())
    >>> {reference.value: some.suites for reference, some in found.items() if isinstance(reference, Reference)}
    {'train_copy': ('tail',), 'marginal': ('tail', 'utility'), 'real_train': ('utility',)}
    >>> {reference.value: some.suites for reference, some in found.items() if isinstance(reference, LawReference)}
    {'law_itself': ('tail',), 'family_only': ('tail',)}
    """
    out: dict[Beside, EvaluateSettings] = {}
    for reference in _SLOW if settings.quick else ():
        suites = tuple(name for name in settings.suites if reference in SUITES[name].references)
        if suites:
            out[reference] = settings.model_copy(update={"suites": suites})
    learned = {name for name in settings.suites if Reference.REAL_TRAIN in SUITES[name].references}
    suites = tuple(name for name in settings.suites if not (settings.quick and name in learned))
    if suites and _is_simulated(data):
        out |= dict.fromkeys(LawReference, settings.model_copy(update={"suites": suites}))
    return out


def reference_cohort(reference: Beside, parts: Mapping[str, Cohort], n_patients: int, seed: int) -> Cohort:
    """The patients of a reference, as many as a sample has."""
    from adapcla.io import simulator

    train, test = parts["train"], parts["test"]
    if isinstance(reference, Reference):
        return reference.cohort(train, test, n_patients, seed)
    make = simulator.ideal if reference is LawReference.LAW_ITSELF else simulator.family_only
    return make(train, n_patients, seed)


def _is_simulated(data: DataSettings) -> bool:
    """Whether the simulator's distribution is that of all patients: none chosen by what they are, no code left out."""
    if data.where or data.min_patients:
        return False
    if data.source != "cohort":
        return data.source == "planted"
    from adapcla.io import simulator

    folder = data_path(data)
    if not folder.is_dir():
        return False
    cohort = Cohort.open(folder)
    return simulator.world_of(cohort) is not None or simulator.whole_record_world_of(cohort) is not None


# ---- the grid -------------------------------------------------------------------------------------------------
#: Epochs of rows that take no multiple of those of a cell.
_USUAL_EPOCHS = 20.0


class GridCell(NamedTuple):
    """A learning rate, a number of epochs and, where it is not that of the settings, a width."""

    learning_rate: float
    passes: float
    width: int | None = None

    @property
    def name(self) -> str:
        """The name of its folder.

        >>> GridCell(0.003, 8.0).name, GridCell(0.003, 8.0, 256).name
        ('rate0.003-passes8', 'rate0.003-passes8-width256')
        """
        width = "" if self.width is None else f"-width{self.width}"
        return f"rate{self.learning_rate:g}-passes{self.passes:g}{width}"

    @property
    def changes(self) -> dict[str, Any]:
        """The settings of the cell, by name.

        >>> GridCell(0.003, 8.0).changes
        {'learning_rate': 0.003, 'passes': 8.0}
        """
        return {name: value for name, value in self._asdict().items() if value is not None}

    def of(self, row: Row) -> Row:
        """The row with this cell: the epochs are those of all its stages together, the last weights are kept.

        A method that by its nature takes a multiple of the usual epochs, as SynTEG does, takes it here too.

        >>> [GridCell(0.003, 8.0).of((method, {}))[1]["passes"] for method in ("halo", "adapcla-release", "synteg")]
        [8.0, 4.0, 24.0]
        """
        method, settings = row
        n_stages = len(stages(generator_for(method, **settings).settings))
        passes = self.passes / n_stages * METHODS[method].row.settings.get("passes", _USUAL_EPOCHS) / _USUAL_EPOCHS
        return method, {**settings, **self.changes, "passes": passes, "last_weights": True}


# ---- the plan -------------------------------------------------------------------------------------------------
class StudyPlan:
    """All steps of a study in a folder."""

    def __init__(self, spec: StudySpec, out: str | Path) -> None:
        self.spec, self.root = spec, Path(out) / spec.name
        #: The rows of the specification; a grid chooses the rate and epochs of those that are trained.
        self.rows = check_rows(spec.fit)
        #: Row and fit seed → why the method failed, in this process.
        self.failed: Failures = {}
        for name in sorted({method for target in spec.targets.values() for method in target.methods}):
            if name not in self.rows:
                raise UsageError(f"{name!r} is to be steered, but fit.methods and fit.variants do not have it")
        for name, path in spec.external.items():
            if not Path(path).expanduser().is_dir():
                remedy = f"correct external.{name}"
                raise InputError("no folder there", path=path, expected="a cohort folder", remedy=remedy)
        self.sizes: Sizes = sizes_of(spec.data, record(self.data))
        self._choices: dict[str, Step] = {}
        self.steps = tuple(self._steps())

    # ---- where things are -------------------------------------------------------------------------------------
    @property
    def data(self) -> Path:
        """Train, validation, test and control patients of the first fit seed."""
        return self.root / "data"

    def parts(self, seed: int) -> Path:
        """The patients as they are divided for a fit seed; each after the first divides them anew."""
        split = self.split_of(seed)
        return self.data if split == self.spec.split else self.root / "splits" / f"seed{split.seed}"

    def split_of(self, seed: int) -> SplitSettings:
        """The split of a fit seed."""
        return self.spec.split.of_fit(seed, self.spec.fit.seeds[0])

    def fit(self, row: str, seed: int) -> Path:
        """A training run."""
        return self.root / row / f"seed{seed}"

    def sample(self, row: str, seed: int, draw: int) -> Path:
        """Patients drawn from a fit."""
        return self.fit(row, seed) / "samples" / f"seed{draw}"

    def scores(self, row: str, seed: int, draw: int) -> Path:
        """Their scores."""
        return self.fit(row, seed) / "scores" / f"seed{draw}"

    def toward(self, row: str, seed: int, target: str, mode: str) -> Path:
        """Patients drawn towards a target, and beside them their scores."""
        return self.fit(row, seed) / "toward" / target / mode

    def target(self, name: str) -> Path:
        """The patients of a population that rows are steered towards."""
        return self.root / "targets" / name

    def cell(self, row: str, cell: GridCell) -> Path:
        """A fit of a row with one cell of the grid."""
        return self.root / "tuning" / row / cell.name

    @property
    def report(self) -> Path:
        """The page."""
        return self.root / REPORT

    # ---- what the grid chooses ----------------------------------------------------------------------------------
    @property
    def cells(self) -> tuple[GridCell, ...]:
        """Every cell of the grid, the shortest fits first."""
        grid = self.spec.fit.grid
        if grid is None:
            return ()
        return tuple(GridCell(rate, passes) for passes in sorted(grid.passes) for rate in grid.learning_rates)

    def row(self, name: str) -> Row:
        """A row with the cell that was chosen for it; before that, with the longest of its cells."""
        if name not in self._choices:
            return self.rows[name]
        choice = self._choices[name]
        return (GridCell(**choice.facts["cell"]) if choice.done else self.cells[-1]).of(self.rows[name])

    def settings(self, name: str) -> Settings:
        """The settings of a row."""
        method, changes = self.row(name)
        return generator_for(method, **changes).settings

    # ---- the steps ----------------------------------------------------------------------------------------------
    def _steps(self) -> Iterator[Step]:
        """Prepare, score references, choose by the grid, then every row, patients from elsewhere and analyses."""
        spec = self.spec
        prepared = {self.data: self._prepare(spec.data.source, self.data, spec.data, spec.split)}
        for seed in spec.fit.seeds:
            folder, split = self.parts(seed), self.split_of(seed)
            if folder not in prepared:
                prepared[folder] = self._prepare(f"split {split.seed}", folder, spec.data, split)
        for name, target in spec.targets.items():
            prepared[self.target(name)] = self._prepare(name, self.target(name), target.data, spec.split)
        yield from prepared.values()
        for reference, settings in scored_references(spec.evaluate, spec.data).items():
            folder = self.root / "references" / reference.value
            run = partial(self._score_reference, reference, settings)
            inputs = tasks.evaluate_inputs(settings, reference=reference.value, patients=spec.sample.patients)
            seconds = evaluation_seconds(settings, self.sizes)
            yield Step(
                "evaluate", reference.value, folder, run, inputs, (prepared[self.data],),
                revision=tasks.EVALUATE, seconds=seconds,
            )  # fmt: skip
        yield from self._grid_steps(prepared[self.data])
        samples = []
        for row in self.rows:
            for seed in spec.fit.seeds:
                steps = list(self._row_steps(row, seed, prepared))
                yield from steps
                if seed == spec.fit.seeds[0]:
                    samples.append(steps[1])
        for name, path in spec.external.items():
            yield from self._external_steps(name, Path(path).expanduser(), prepared[self.data])
        yield from self._analysis_steps(prepared[self.data], samples)

    def _prepare(self, what: str, folder: Path, data: DataSettings, split: SplitSettings) -> Step:
        """Read, select and divide patients."""
        run, inputs = partial(tasks.prepare, data=data, split=split), tasks.data_inputs(data, split)
        return Step("prepare", what, folder, run, inputs, revision=tasks.PREPARE, seconds=5.0)

    def _grid_steps(self, prepared: Step) -> Iterator[Step]:
        """A fit for each cell of each row that is trained, then the choice of the row's cell by validation loss.

        Cells are the same for all rows, learn from training patients, are compared on validation patients without any
        scaffold, and never see test or control patients.
        """
        grid = self.spec.fit.grid
        if grid is None:
            return
        share = min(1.0, grid.patients / self.sizes.patients) if grid.patients else 1.0
        for name, row in self.rows.items():
            if generator_for(row[0], **row[1]).settings.family.objective is None:
                continue
            tried = []
            for cell in self.cells:
                method, settings = cell.of(row)
                # Calibration comes after the loss is known.
                plain = (method, {**settings, "calibration_rounds": 0})
                inputs = tasks.fit_inputs(plain, grid.seed, patients=grid.patients)
                seconds = share * training_seconds(generator_for(method, **plain[1]).settings, self.sizes)
                step = Step(
                    "tune", f"{name} {cell.name}", self.cell(name, cell), partial(self._tune, plain), inputs,
                    (prepared,), revision=tasks.TRAIN, seconds=seconds, kind=f"{name} {cell.passes:g}",
                )  # fmt: skip
                tried.append(step)
            yield from tried
            folder, inputs = self.root / "tuning" / name / "choice", {"cells": [cell.name for cell in self.cells]}
            self._choices[name] = Step(
                "choose", name, folder, partial(self._choose, name), inputs, tuple(tried),
                revision=CHOICE, seconds=0.1, by_result=True,
            )  # fmt: skip
            yield self._choices[name]

    def _row_steps(self, row: str, seed: int, prepared: Mapping[Path, Step]) -> Iterator[Step]:
        """Train, then sample and evaluate for each draw, then the same towards each target."""
        spec, what, parts = self.spec, f"{row} seed {seed}", prepared[self.parts(seed)]
        train = Step(
            "train", what, self.fit(row, seed), partial(self._train, row, seed), tasks.fit_inputs(self.rows[row], seed),
            (parts, self._choices[row]) if row in self._choices else (parts,),
            revision=tasks.TRAIN, seconds=training_seconds(self.settings(row), self.sizes), kind=row, row=(row, seed),
        )  # fmt: skip
        yield train
        seconds = sampling_seconds(self.settings(row), self.sizes, spec.sample.patients)
        for draw in spec.sample.seeds:
            about, inputs = f"{what} draw {draw}", {"patients": spec.sample.patients, "seed": draw}
            sample = Step(
                "sample", about, self.sample(row, seed, draw), partial(self._sample, row, seed, draw), inputs, (train,),
                revision=tasks.SAMPLE, seconds=seconds, kind=row, row=train.row,
            )  # fmt: skip
            yield sample
            if spec.evaluate.suites:
                yield self._evaluate(row, about, self.scores(row, seed, draw), parts, sample, train, kind=row)
        for name, target in spec.targets.items():
            if row in target.methods:
                yield from self._target_steps(row, train, name, target, prepared[self.target(name)])

    def _target_steps(
        self, row: str, train: Step, name: str, target: TargetSettings, population: Step
    ) -> Iterator[Step]:
        """Sample towards a target in each mode, and compare with the target's own patients."""
        assert train.row is not None
        seed, patients = train.row[1], self.spec.sample.patients
        seconds = sampling_seconds(self.settings(row), self.sizes, patients)
        for mode in modes_of(self.rows[row][0], target.modes):
            what, place = f"{train.what} to {name}, {mode}", self.toward(row, seed, name, mode)
            inputs = {"mode": mode, "strength": target.strength, "min_cell": target.min_cell, "patients": patients}
            steer = Step(
                "steer", what, place / "sample", partial(self._steer, row, seed, name, mode), inputs,
                (train, population), revision=tasks.SAMPLE,
                seconds=seconds * (_CALIBRATED if mode == "calibrated" else 1), kind=f"{row} {mode}", row=train.row,
            )  # fmt: skip
            yield steer
            kind = f"{row} to a target"
            yield self._evaluate(row, what, place / "scores", population, steer, toward=True, kind=kind)

    def _external_steps(self, name: str, path: Path, prepared: Step) -> Iterator[Step]:
        """Copy patients that were generated elsewhere, and score them like those of a row."""
        place, inputs = self.root / "external" / name, {"cohort": Cohort.open(path).fingerprint}
        copy = Step("copy", name, place / "cohort", partial(tasks.copy, source=path), inputs)
        yield copy
        if self.spec.evaluate.suites:
            yield self._evaluate(name, name, place / "scores", prepared, copy)

    def _evaluate(
        self,
        row: str,
        what: str,
        folder: Path,
        parts: Step,
        sample: Step,
        fit: Step | None = None,
        *,
        toward: bool = False,
        kind: str = "",
    ) -> Step:
        """The scores of a sample against the patients of some parts; with its fit, attacks on the model, too."""
        settings = self.spec.evaluate
        if toward:
            suites = tuple(suite for suite in settings.suites if suite in _OF_POPULATIONS)
            settings = settings.model_copy(update={"suites": suites})
        run = partial(
            tasks.evaluate, name=row, synthetic=sample.folder, parts=parts.folder, asked=settings,
            fit=None if fit is None else fit.folder, toward=toward, cache=self.root / "cache",
        )  # fmt: skip
        inputs = tasks.evaluate_inputs(settings, name=row, **({"toward": True} if toward else {}))
        after = (parts, sample) if fit is None else (parts, fit, sample)
        seconds = evaluation_seconds(settings, self.sizes)
        return Step(
            "evaluate", what, folder, run, inputs, after,
            revision=tasks.EVALUATE, seconds=seconds, kind=kind, row=sample.row,
        )  # fmt: skip

    def _analysis_steps(self, prepared: Step, samples: list[Step]) -> Iterator[Step]:
        """The fits that are observed, then each analysis."""
        settings = self.spec.analyse
        if not settings.parts:
            return
        # What the grid chooses comes with the step that chooses it.
        subject = self.subject(self.rows.get(settings.method))
        chosen = (self._choices[settings.method],) if settings.method in self._choices else ()
        seconds = training_seconds(generator_for(subject.method, **subject.settings).settings, self.sizes)
        observed = [
            Step(
                "probe", f"{settings.method} {run.schedule} seed {run.seed}", subject.run_folder(run),
                partial(self._observe, run), subject.run_inputs(run), (prepared, *chosen),
                revision=WATCH, seconds=seconds,
            )
            for run in subject.runs()
        ]  # fmt: skip
        yield from observed
        for part in settings.parts:
            after = [*(observed if reads_trajectories(part, settings) else ())]
            after += [prepared, *samples] if part in OF_ROWS else []
            yield Step(
                "analyse", part, subject.folder / part, partial(self._analyse, part), subject.inputs(part),
                tuple(after), revision=code_of("study/analysis", "report/figures"), seconds=10.0,
            )  # fmt: skip

    def subject(self, row: Row | None = None) -> Subject:
        """What the analyses look at: a row (the one that is named, as it was chosen), the first fits and samples."""
        settings, seed, draw = self.spec.analyse, self.spec.fit.seeds[0], self.spec.sample.seeds[0]
        if row is None and settings.method in self.rows:
            row = self.row(settings.method)
        method, changes = row or checked_row(settings.method, self.spec.fit.settings)
        rows = [row for row in self.rows if (row, seed) not in self.failed]
        return Subject(
            settings,
            method,
            changes,
            settings.seeds or (seed,),
            self.root / "analysis",
            self.data,
            {row: self.fit(row, seed) for row in rows},
            {row: self.sample(row, seed, draw) for row in rows},
        )

    # ---- what the steps do ----------------------------------------------------------------------------------------
    @property
    def _n_patients(self) -> int:
        """Patients of a sample."""
        return self.spec.sample.patients or int(record(self.data)["parts"]["train"][0])

    def _tune(self, row: Row, folder: Path) -> Mapping[str, Any]:
        """The fit of a cell; a rate at which training fails is a cell without a loss."""
        grid = self.spec.fit.grid
        assert grid is not None
        try:
            return tasks.train(folder, self.data, row, grid.seed, patients=grid.patients)
        except InterruptedRun:
            raise
        except AdapclaError as error:
            # Wrong settings, unreadable data and full disks have other exit codes: they are no method's fault.
            if error.exit_code != 1:
                raise
            say(f"{folder.name} failed: {error}")
            return {"why": str(error).partition("\n")[0]}

    def _choose(self, name: str, folder: Path) -> Mapping[str, Any]:
        """The cell of the least loss, of equal ones the shortest."""
        best = min(self.cells, key=lambda cell: self._loss(name, cell))
        return {"cell": best.changes}

    def _loss(self, name: str, cell: GridCell) -> float:
        """The validation loss of a cell that was tried; infinite where training failed."""
        loss = record(self.cell(name, cell)).get("costs", {}).get(_LOSS)
        return math.inf if loss is None else float(loss)

    def _train(self, row: str, seed: int, folder: Path) -> Mapping[str, Any]:
        """The fit of a row; the cell that was chosen is taken where it is the same fit."""
        same = None
        if row in self._choices:
            same = self.cell(row, GridCell(**self._choices[row].facts["cell"]))
        return tasks.train(folder, self.parts(seed), self.row(row), seed, same_as=same)

    def _sample(self, row: str, seed: int, draw: int, folder: Path) -> Mapping[str, Any]:
        """Patients of a fit."""
        return tasks.sample(folder, self.fit(row, seed), self._n_patients, draw)

    def _score_reference(self, reference: Beside, settings: EvaluateSettings, folder: Path) -> Mapping[str, Any]:
        """The scores of a reference in the place of a synthetic cohort."""
        parts = open_splits(self.data)
        cohort = reference_cohort(reference, parts, self._n_patients, settings.seed)
        tasks.evaluate_cohort(folder, reference.value, cohort, parts, settings, cache=self.root / "cache")
        return {}

    def _steer(self, row: str, seed: int, name: str, mode: str, folder: Path) -> Mapping[str, Any]:
        """Patients towards a target."""
        fit, prevalence = self.fit(row, seed), open_splits(self.target(name))["train"].prevalence()
        steering = self._steering(load(fit), self.spec.targets[name], prevalence, mode, seed)
        return tasks.sample(folder, fit, self._n_patients, 1, steering=steering)

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
        return closed_loop(generator.model, steering, seed, pilot=min(20_000, 4 * self._n_patients))

    def _observe(self, run: ObservedRun, folder: Path) -> Mapping[str, Any]:
        """A fit that is observed along training."""
        return self.subject().observe(folder, run)

    def _analyse(self, part: str, folder: Path) -> Mapping[str, Any]:
        """One analysis."""
        return self.subject().analyse(folder, part)

    # ---- the whole ------------------------------------------------------------------------------------------------
    def run(self) -> Path:
        """Do every step that is not done yet and return the page; a second process is refused meanwhile."""
        with files.folder_lock(self.root):
            self.run_steps()
            page = self._page_step()
            if page.done and self.report.is_file():
                say("nothing to do: everything is there already")
            else:
                (page.folder / RECORD).unlink(missing_ok=True)
                run_steps([page], self.root)
            return self.report

    def run_steps(self) -> None:
        """Do every step that is not done yet, without the page."""
        self.failed = run_steps(self.steps, self.root)
        for step in self.steps if self.failed else ():
            # A method that failed is tried again by the next call, and then these look at it, too.
            if step.stage == "analyse" and step.what in OF_ROWS:
                (step.folder / RECORD).unlink(missing_ok=True)

    def forget(self) -> None:
        """Take away the records, so that every step is done again."""
        forget_records([*self.steps, self._page_step()])

    def _page_step(self) -> Step:
        """The page, which depends on every step and on what failed."""
        words = [self.spec.title, self.spec.summary, self.spec.cohort]
        failed = sorted([*fit, why] for fit, why in self.failed.items())
        inputs = {"words": words, "failed": failed, "version": __version__}
        revision = code_of("study", "report")
        return Step("report", "", self.root / "page", self._write_page, inputs, self.steps, revision=revision)

    def _write_page(self, folder: Path) -> Mapping[str, Any]:
        """Write the index and the page."""
        from adapcla.study.page import write_study_page
        from adapcla.study.results import Study

        remove_other_parts(self.root / "analysis", self.spec.analyse.parts)
        self.write_index()
        write_study_page([Study.open(self.root)], self.root)
        return {}

    def write_index(self) -> None:
        """Write what the page reads first: the specification, and the folder of each result below the study's own."""
        spec, failed = self.spec, self.failed

        def below(path: Path) -> str:
            return path.relative_to(self.root).as_posix()

        def draw_of(draw: int, cohort: Path, scores: Path) -> dict[str, Any]:
            scored = {"scores": below(scores)} if spec.evaluate.suites else {}
            return {"draw": draw, "cohort": below(cohort), **scored}

        fits: list[dict[str, Any]] = []
        for row, (method, _) in self.rows.items():
            for seed in spec.fit.seeds:
                draws = [draw_of(n, self.sample(row, seed, n), self.scores(row, seed, n)) for n in spec.sample.seeds]
                toward = [
                    {"target": name, "mode": mode, "cohort": below(place / "sample"), "scores": below(place / "scores")}
                    for name, target in spec.targets.items()
                    if row in target.methods
                    for mode in modes_of(method, target.modes)
                    for place in [self.toward(row, seed, name, mode)]
                ]
                fit = {"row": row, "method": method, "seed": seed, "place": below(self.fit(row, seed))}
                fits.append({**fit, "draws": draws, "toward": toward})
        for name in spec.external:
            place = self.root / "external" / name
            draws = [draw_of(1, place / "cohort", place / "scores")]
            fits.append({"row": name, "method": None, "seed": None, "place": None, "draws": draws, "toward": []})
        index = {
            "format": FORMAT_VERSION,
            "version": __version__,
            "spec": spec.model_dump(mode="json"),
            "fingerprint": spec.fingerprint(),
            "data": below(self.data),
            "targets": {name: below(self.target(name)) for name in spec.targets},
            "analysis": "analysis" if spec.analyse.parts else None,
            "references": {one.value: f"references/{one.value}" for one in scored_references(spec.evaluate, spec.data)},
            "fits": [fit for fit in fits if (fit["row"], fit["seed"]) not in failed],
            "failed": [{"row": row, "seed": seed, "why": why} for (row, seed), why in failed.items()],
            "environment": environment(),
            **({} if spec.fit.grid is None else {"tuning": self.tuning_table()}),
        }
        files.write_json(self.root / ABOUT, index)

    def tuning_table(self) -> list[dict[str, Any]]:
        """Every cell of every row with its loss and what it took, for the page."""
        lines = []
        for row, choice in self._choices.items():
            best = GridCell(**choice.facts["cell"]) if choice.done else None
            for cell in self.cells:
                costs = record(self.cell(row, cell)).get("costs", {})
                found = {"loss": costs.get(_LOSS), "steps": costs.get("steps"), "chosen": cell == best}
                lines.append({"row": row, **cell._asdict(), **found})
        return lines


def _below_one(prevalence: Prevalence) -> Prevalence:
    """The prevalence without codes that every visit holds, because no finite shift reaches a share of 1."""
    share = prevalence.share.copy()
    share[share >= 1] = float("nan")
    return Prevalence(prevalence.vocabulary, share, prevalence.n_visits)
