"""The steps of a release: read, vocabulary, choose, train, sample, evaluate, gate, write; each kept and resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from adapcla import files
from adapcla.console import overall_progress, say
from adapcla.data import Cohort
from adapcla.data.code_systems import choose_ladder, ladder_fingerprint
from adapcla.data.rollup import CommonAttributes, roll_up
from adapcla.data.split_folder import open_splits, save_splits
from adapcla.errors import ExistsError, InputError, UsageError
from adapcla.evaluation import Reference, Scores
from adapcla.evaluation.privacy import LIMITS, MODEL_LIMITS, GateLine, accept, detectable, gate, require_known
from adapcla.evaluation.privacy.gate import CHANCE
from adapcla.generation.generator import generator_for, load
from adapcla.generation.model import has_choices
from adapcla.io.losses import MOST_DROPPED
from adapcla.io.writers import WriteOptions, check_format, writable
from adapcla.pipeline import tasks
from adapcla.pipeline.effort import BEGINNING, MOST_JUDGED, REAL_SHARE, Effort, Speed, around, effort_for, measure
from adapcla.pipeline.estimate import Sizes, clock, sizes_of
from adapcla.pipeline.settings import EvaluateSettings
from adapcla.pipeline.steps import RECORD, Step, code_of, record, run_steps
from adapcla.pipeline.tasks import checked_row, known_settings
from adapcla.release.card import PLAN, write_release
from adapcla.release.settings import ReleaseSettings
from adapcla.release.summary import (
    COMPARED,
    REQUIRED,
    Attempt,
    Comparisons,
    ReleaseSummary,
    WhatWasRead,
    compare,
    require_reason,
)
from adapcla.report.gate_words import detectable_words
from adapcla.training.settings import METHODS
from adapcla.version import __version__

#: Fewer patients than this cannot be learned from and evaluated at once.
FEWEST_PATIENTS = 500
#: Attack models for the attacks on a model that is to be released.
ATTACK_MODELS = 4
#: Repairs at most, and ε of the last one.
MOST_REPAIRS, EPSILON = 3, 8.0
MEASURED = "measured.json"
GATE, REFERENCE, PAGE = "gate.json", "real", "report.html"
#: Revisions of what the steps of a release write; those of fits, samples and scores are with the tasks.
VOCABULARY, CHOICE, DECISION = 2, 2, 1


# ---- attempts -------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class PlannedAttempt:
    """One way to make the release: how many patients a code needs, and what is changed in the method."""

    number: int
    #: What is different from the attempt before, for people.
    what: str
    min_patients: int
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    #: Share of the epochs that are trained.
    passes: float = 1.0


def planned_attempts(release: ReleaseSettings, method: str, settings: dict[str, Any]) -> tuple[PlannedAttempt, ...]:
    """The first attempt, and the repairs where they are asked for, each more careful than the one before.

    >>> [each.min_patients for each in planned_attempts(ReleaseSettings(repair=True), "tailwise", {})]
    [11, 22, 22, 22]
    >>> planned_attempts(ReleaseSettings(repair=True), "tailwise", {})[-1].settings["privacy"]
    {'epsilon': 8.0}
    """
    first = PlannedAttempt(1, "as asked", release.min_patients, dict(settings))
    if not release.repair:
        return (first,)
    more = 2 * release.min_patients
    second = PlannedAttempt(2, f"a code needs {more} patients", more, first.settings)
    limits = _stricter(method, settings)
    careful = " and ".join(
        [
            *(["twice the damping of pairs that few patients hold (in large cohorts)"] if limits else []),
            "half the passes",
        ]
    )
    third = PlannedAttempt(3, careful, more, {**settings, **limits}, 0.5)
    out = [first, second, third]
    private = {**third.settings, "privacy": {"epsilon": EPSILON}}
    if limits:
        # Pairs of codes are counted without noise, which ε would not cover.
        private |= {"prior": False, "damping": 0.0}
    if _can_be_private(method, private):
        out.append(PlannedAttempt(4, f"differential privacy, ε = {EPSILON:g}", more, private))
    return tuple(out[: MOST_REPAIRS + 1])


def _can_be_private(method: str, settings: dict[str, Any]) -> bool:
    """Whether a method can be trained with differential privacy.

    >>> _can_be_private("adapcla", {"privacy": {"epsilon": 8.0}}), _can_be_private("marginal", {"privacy": {}})
    (True, False)
    """
    try:
        generator_for(method, **settings)
    except UsageError:
        return False
    return True


def _stricter(method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Twice the damping of pairs that few patients hold, where the method has it.

    >>> _stricter("tailwise", {"damping": 0.5}), _stricter("adapcla", {})
    ({'damping': 1.0}, {})
    """
    usual = getattr(METHODS[method].settings.architecture, "damping", 0.0)
    return {"damping": 2 * float(settings.get("damping", usual))} if usual else {}


# ---- the plan -------------------------------------------------------------------------------------------------
def open_plan(settings: ReleaseSettings) -> dict[str, Any]:
    """The content of the plan that was given; empty where none was."""
    if not settings.plan:
        return {}
    content = files.read_json(Path(settings.plan))
    attempts = content.get("attempts")
    if not isinstance(attempts, dict) or content.get("format") != files.FORMAT_VERSION:
        raise InputError(
            "not a plan", path=settings.plan, expected=f"{PLAN} of a release or of its working folder", remedy="name it"
        )
    methods = {each["method"] for each in attempts.values()}
    if methods - {settings.method}:
        raise UsageError(f"{settings.plan}: a plan for {', '.join(methods)}\nto do: add --method {methods.pop()}")
    return dict(content)


class ReleasePlan:
    """All steps from a source to a folder that may be shared, in a working folder that may not."""

    def __init__(
        self,
        settings: ReleaseSettings,
        out: str | Path,
        work: str | Path | None = None,
        overwrite: bool = False,
        cohort: Cohort | None = None,
    ) -> None:
        self.given_plan = open_plan(settings)
        # What a page says of the time is that of the plan.
        settings = settings.model_copy(update={"minutes": self.given_plan.get("minutes", settings.minutes)})
        self.settings, self.out, self.overwrite, self.cohort = settings, Path(out), overwrite, cohort
        self.root = Path(work) if work is not None else self.out.with_name(f"{self.out.name}-work")
        self.method, self.given = checked_row(settings.method, settings.fit.settings)
        for name in settings.formats:
            check_format(name)
        require_known([name for name in settings.accept if name not in REQUIRED], settings.reason)
        require_reason(settings.accept, settings.reason)
        self.export_options = WriteOptions(birth_year=settings.birth_year)
        self.attempts = planned_attempts(settings, self.method, self.given)
        self._effort_of = cache(self._effort_for)
        #: (attempt, stage) → its step.
        self._of: dict[tuple[int, str], Step] = {}
        self.steps = tuple(self._steps())
        self._refuse_populated()

    def __getstate__(self) -> dict[str, Any]:
        """The plan for a worker of a cluster: patients in memory stay in this process."""
        return {**self.__dict__, "cohort": None, "_effort_of": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._effort_of = cache(self._effort_for)

    # ---- where things are -----------------------------------------------------------------------------------
    @property
    def data(self) -> Path:
        """Train, validation, test and control patients as they were read."""
        return self.root / "data"

    def place(self, attempt: PlannedAttempt, name: str) -> Path:
        """The folder of something that an attempt made."""
        return self.root / "tries" / str(attempt.number) / name

    @property
    def page(self) -> Path:
        """The page beside the working files; a release holds another copy."""
        return self.root / PAGE

    def _refuse_populated(self) -> None:
        """Raise before the work if another thing is in the way of the release."""
        if record(self.root / "write").get("out") != str(self.out.resolve()):
            files.refuse_populated(self.out, self.overwrite)
        if self.root.exists() and not self.root.is_dir():
            raise ExistsError(f"{self.root} is not a folder\nto do: name another --work")

    # ---- the steps ------------------------------------------------------------------------------------------
    def _steps(self) -> Iterator[Step]:
        asked, allowed = self.settings, self.settings.allow_dropped
        inputs = tasks.data_inputs(asked.data, asked.split, self.cohort)
        # What was read while more might be dropped is checked again.
        inputs |= {} if allowed == MOST_DROPPED else {"allow dropped": allowed}
        read = Step(
            "read",
            "simulated" if asked.data.source == "planted" else asked.data.source,
            self.data,
            self._read,
            inputs,
            revision=tasks.PREPARE,
            seconds=lambda: self._around().reading,
            in_memory=self.cohort is not None,
        )
        yield read
        before: tuple[Step, ...] = ()
        shown: tuple[Step, ...] = ()
        for attempt in self.attempts:
            steps = self._attempt_steps(attempt, read, before)
            yield from steps
            self._of |= {(attempt.number, step.stage): step for step in steps}
            real, evaluate, decide = steps[-3:]
            before, shown = (*before, evaluate, decide), (*shown, real, evaluate, decide)
        written = asked.model_dump(mode="json", exclude={"data", "split", "fit", "evaluate", "plan"})
        yield Step(
            "write",
            "",
            self.root / "write",
            self._write,
            {"settings": written, "out": str(self.out.resolve()), "version": __version__},
            (read, *shown),
            revision=code_of("release", "report"),
            seconds=lambda: self._around().writing,
        )

    def _attempt_steps(self, attempt: PlannedAttempt, read: Step, before: tuple[Step, ...]) -> tuple[Step, ...]:
        """From the vocabulary of an attempt to the decision of the gate; `before`: scores and gates of earlier ones."""
        asked, patients = self.settings, self.settings.patients
        what = "" if attempt.number == 1 else f"again: {attempt.what}"

        def step(stage: str, folder: str, run: Callable[..., Mapping[str, Any]], **more: Any) -> Step:
            more.setdefault("wanted", partial(self._still_wanted, attempt))
            return Step(stage, what, self.place(attempt, folder), partial(run, attempt), **more)

        vocabulary = step(
            "vocabulary",
            "patients",
            self._roll_up,
            inputs={"min_patients": attempt.min_patients, "rollup": ladder_fingerprint(asked.rollup)},
            after=(read,),
            revision=VOCABULARY,
            seconds=lambda: self._around().rolling_up,
            waits=before[-1:],
        )
        fit = tasks.fit_inputs((self.method, known_settings(self.method, attempt.settings)), asked.seed)
        planned = self._planned(attempt)
        choose = step(
            "choose",
            "choice",
            self._choose,
            inputs={
                # Evaluation and attacks take from the time for training, so that they change the epochs.
                **fit,
                "given": attempt.settings,
                "passes": attempt.passes,
                "minutes": asked.minutes,
                "patients": patients,
                "evaluate": asked.evaluate.model_dump(mode="json", exclude={"seed", "population"}),
                "attack models": self._attack_models,
                **({"plan": planned} if planned else {}),
            },
            after=(vocabulary,),
            revision=CHOICE,
            seconds=5.0,
            by_result=True,
        )
        train = step(
            "train",
            "fit",
            self._train,
            inputs=fit,
            after=(vocabulary, choose),
            revision=tasks.TRAIN,
            seconds=lambda: self.effort(attempt).training,
        )
        sample = step(
            "sample",
            "sample",
            self._sample,
            inputs={"patients": patients, "seed": asked.seed, "visits reached by": attempt.min_patients},
            after=(vocabulary, train),
            revision=tasks.SAMPLE,
            seconds=lambda: self.effort(attempt).sampling,
        )
        utility = asked.evaluate.model_copy(update={"suites": ("utility",)})
        real = step(
            "evaluate real",
            REFERENCE,
            self._evaluate_real,
            inputs=tasks.evaluate_inputs(utility, patients=patients, most=MOST_JUDGED),
            after=(vocabulary, choose),
            revision=tasks.EVALUATE,
            seconds=lambda: self._evaluating(attempt) * REAL_SHARE,
            wanted=partial(self._real_wanted, attempt),
        )
        of_scores = tasks.evaluate_inputs(asked.evaluate, most=MOST_JUDGED, attack_models=self._attack_models)
        evaluate = step(
            "evaluate",
            "scores",
            self._evaluate,
            inputs={**of_scores, "method": self.method},
            after=(vocabulary, choose, train, sample),
            revision=tasks.EVALUATE,
            seconds=lambda: self._evaluating(attempt),
        )
        limits = [list(limit) for limit in (*LIMITS, *(MODEL_LIMITS if asked.model else ()))]
        decide = step(
            "gate",
            "gate",
            self._decide,
            inputs={
                "limits": limits,
                "chances": [CHANCE, len(self.attempts)],
                "accept": asked.accept,
                "reason": asked.reason,
                # A decision that was written with other fields cannot be read.
                "fields": list(GateLine.__dataclass_fields__),
            },
            after=(vocabulary, *before, evaluate),
            revision=DECISION + COMPARED,
            seconds=0.5,
        )
        return vocabulary, choose, train, sample, real, evaluate, decide

    # ---- what is known before and between steps ---------------------------------------------------------------
    def _around(self) -> Any:
        """Rough seconds of reading, rolling up and writing."""
        return around(self._sizes(self.attempts[0]), self.settings.patients, self.settings.formats)

    def _sizes(self, attempt: PlannedAttempt) -> Sizes:
        """The sizes of the training part of an attempt: exact when its vocabulary is known, else from what is known."""
        about = record(self.place(attempt, "patients"))
        return Sizes(*about["sizes"]) if "sizes" in about else sizes_of(self.settings.data, record(self.data))

    def effort(self, attempt: PlannedAttempt) -> Effort:
        """What fits into the time, by what is known of the patients at this moment."""
        return self._effort_of(attempt, self._sizes(attempt), self._measured(attempt))

    def _effort_for(self, attempt: PlannedAttempt, sizes: Sizes, measured: Speed) -> Effort:
        """What fits into the time for patients of these numbers."""
        asked, given = self.settings, known_settings(self.method, attempt.settings)
        found = effort_for(
            asked.minutes, self.method, given, sizes, asked.patients, asked.evaluate, self._attack_models, measured
        )
        passes = max(round(found.settings["passes"] * attempt.passes, 2), 0.1)
        return found._replace(
            settings={**found.settings, "passes": passes}, training=max(found.training * attempt.passes, 1.0)
        )

    def _evaluating(self, attempt: PlannedAttempt) -> float:
        """Rough seconds of evaluating the synthetic patients."""
        effort = self.effort(attempt)
        return effort.judging / (1 + REAL_SHARE) if effort.quick else effort.judging

    @property
    def _attack_models(self) -> int:
        """Models that are trained to attack the one that is to be written."""
        return ATTACK_MODELS if self.settings.model else 0

    def decision(self, attempt: PlannedAttempt) -> dict[str, Any] | None:
        """What the gate decided on an attempt; None before."""
        step = self._of[attempt.number, "gate"]
        return files.read_json(step.folder / GATE) if step.done else None

    @property
    def accepted(self) -> PlannedAttempt | None:
        """The first attempt that met the gate."""
        return next((each for each in self.attempts if (self.decision(each) or {}).get("passed")), None)

    def _still_wanted(self, attempt: PlannedAttempt) -> bool:
        """Whether no earlier attempt met the gate, as far as is known, and the patients can be learned in this way."""
        accepted = self.accepted
        if accepted is not None and accepted.number < attempt.number:
            return False
        first = self.place(self.attempts[0], "patients")
        if "privacy" not in attempt.settings or not record(first):
            return True
        # Bands of numbers and chances of choices are counted without noise, which ε would not cover.
        return not has_choices(open_splits(first)["train"].vocabulary)

    def asked(self, attempt: PlannedAttempt) -> EvaluateSettings:
        """What is evaluated, and whether quickly."""
        chosen = record(self.place(attempt, "choice"))
        quick = chosen["quick"] if chosen else self.effort(attempt).quick or self.settings.evaluate.quick
        return self.settings.evaluate.model_copy(update={"quick": quick})

    def _real_wanted(self, attempt: PlannedAttempt) -> bool:
        """Whether models of real patients are evaluated by themselves: a quick look leaves them out."""
        asked = self.asked(attempt)
        return asked.quick and "utility" in asked.suites and self._still_wanted(attempt)

    # ---- what the steps do ------------------------------------------------------------------------------------
    def _read(self, folder: Path) -> Mapping[str, Any]:
        """The patients as they were read, in parts."""
        asked = self.settings
        return tasks.prepare(folder, asked.data, asked.split, asked.allow_dropped, self.cohort)

    def _roll_up(self, attempt: PlannedAttempt, folder: Path) -> Mapping[str, Any]:
        """The patients with codes and attributes that enough training patients share."""
        parts = open_splits(self.data)
        _demand_patients(sum(part.n_patients for part in parts.values()))
        found = roll_up(parts["train"], attempt.min_patients, choose_ladder(self.settings.rollup))
        common = CommonAttributes.of(parts["train"], attempt.min_patients)
        rolled = {name: common.apply(found.apply(part)) for name, part in parts.items()}
        train = rolled["train"]
        if min(part.n_patients for part in rolled.values()) == 0:
            raise InputError(
                f"no code is held by {attempt.min_patients} patients in every part",
                expected="codes that several patients share",
                remedy="check that the column of codes holds no identifiers; or take a smaller --min-patients",
            )
        if "omop" in self.settings.formats:
            writable(train, "omop", self.export_options)
        save_splits(rolled, folder, overwrite=True)
        control, seed = rolled.get("control", rolled["test"]), self.settings.evaluate.seed
        can_show = detectable(train, control, rolled["valid"], seed, len(self.attempts))
        say(detectable_words(can_show))
        return {
            "can be shown": {name: each._asdict() for name, each in can_show.items()},
            "roll-up": found.facts(parts["train"]),
            "attributes hidden": common.n_hidden(parts["train"]),
            "sizes": [train.n_patients, train.n_visits, train.n_codes, train.n_entries / train.n_visits],
        }

    def _choose(self, attempt: PlannedAttempt, folder: Path) -> Mapping[str, Any]:
        """Epochs and how thoroughly is evaluated, by the patients, the minutes and the speed of this machine.

        They are those of a plan where one is given. The record holds nothing of the time that was measured, so that
        what comes after is the same wherever the same was chosen.
        """
        sizes, planned = self._patients_known(attempt), self._planned(attempt)
        if planned:
            if planned["sizes"] != sizes:
                raise UsageError(
                    f"{self.settings.plan}: a plan for {planned['sizes']} training patients, visits and codes; "
                    f"found {sizes}\nto do: give the same data and options, or leave --plan out"
                )
            return {name: value for name, value in planned.items() if name not in ("sizes", "method")}
        before = sum(record(place).get("seconds", 0.0) for place in (self.data, self.place(attempt, "patients")))
        train = open_splits(self.place(attempt, "patients"))["train"]
        given = known_settings(self.method, attempt.settings)
        measured = measure(self.method, given, train, BEGINNING + before)
        folder.mkdir(parents=True, exist_ok=True)
        files.write_json(folder / MEASURED, measured.as_json())
        effort = self.effort(attempt)
        rest = self._around().writing * measured.slowness + (measured.before or 0.0)
        seconds = effort.training + effort.sampling + effort.judging + rest
        if seconds > 60 * self.settings.minutes:
            short = f"--minutes {self.settings.minutes:g} is too short; fewer --patients take less"
            say(f"{clock(seconds)} will be needed for so many patients; {short}")
        if effort.shortened:
            say(effort.shortened)
        return {
            "settings": known_settings(self.method, effort.settings),
            "quick": effort.quick or self.settings.evaluate.quick,
            "wanted passes": effort.wanted_passes,
        }

    def _planned(self, attempt: PlannedAttempt) -> dict[str, Any]:
        """What the plan that was given says of an attempt; empty where there is none."""
        return dict(self.given_plan.get("attempts", {}).get(str(attempt.number), {}))

    def as_plan(self) -> dict[str, Any]:
        """What the time allowed in each attempt, which makes the same bytes where it is given again."""
        chosen = {}
        for attempt in self.attempts:
            found = self._of[attempt.number, "choose"]
            if found.done:
                chosen[str(attempt.number)] = {
                    "method": self.method,
                    "sizes": self._patients_known(attempt),
                    **found.facts,
                }
        about = {"format": files.FORMAT_VERSION, "made by": f"adapcla {__version__}", "minutes": self.settings.minutes}
        return {**about, "attempts": chosen}

    def _patients_known(self, attempt: PlannedAttempt) -> list[int]:
        """Training patients, visits and codes of an attempt whose vocabulary is known."""
        return [int(n) for n in record(self.place(attempt, "patients"))["sizes"][:3]]

    def _measured(self, attempt: PlannedAttempt) -> Speed:
        """How fast this machine was found to be; where it was not looked at, as the numbers of the estimate say."""
        place = self.place(attempt, "choice") / MEASURED
        return Speed.from_json(files.read_json(place)) if place.is_file() else Speed()

    def _train(self, attempt: PlannedAttempt, folder: Path) -> Mapping[str, Any]:
        """The fitted method."""
        chosen = record(self.place(attempt, "choice"))["settings"]
        parts = self.place(attempt, "patients")
        return tasks.train(folder, parts, (self.method, chosen), self.settings.seed)

    def _sample(self, attempt: PlannedAttempt, folder: Path) -> Mapping[str, Any]:
        """The synthetic patients."""
        train = open_splits(self.place(attempt, "patients"))["train"]
        most = tasks.most_codes_of(train, attempt.min_patients)
        n = self.settings.patients or train.n_patients
        return tasks.sample(folder, self.place(attempt, "fit"), n, self.settings.seed, most_codes=most)

    def _evaluate_real(self, attempt: PlannedAttempt, folder: Path) -> Mapping[str, Any]:
        """What models reach that learn from as many real patients."""
        parts = open_splits(self.place(attempt, "patients"))
        asked = self.asked(attempt).model_copy(update={"suites": ("utility",)})
        n = min(self.settings.patients or parts["train"].n_patients, MOST_JUDGED)
        real = Reference.REAL_TRAIN.cohort(parts["train"], parts["test"], n, asked.seed)
        tasks.evaluate_cohort(folder, "real", real, parts, asked, cache=self.root / "cache", most=MOST_JUDGED)
        return {}

    def _evaluate(self, attempt: PlannedAttempt, folder: Path) -> Mapping[str, Any]:
        """The scores of the synthetic patients."""
        return tasks.evaluate(
            folder,
            self.method,
            self.place(attempt, "sample"),
            self.place(attempt, "patients"),
            self.asked(attempt),
            fit=self.place(attempt, "fit"),
            cache=self.root / "cache",
            attack_models=self._attack_models,
            most=MOST_JUDGED,
        )

    def compared(self, attempt: PlannedAttempt) -> Comparisons:
        """How similar the patients of an attempt are to real ones."""
        accepted = {name: self.settings.reason for name in self.settings.accept if name in REQUIRED}
        train = open_splits(self.place(attempt, "patients"))["train"]
        return compare(Scores.open(self.place(attempt, "scores")), train, accepted)

    def _decide(self, attempt: PlannedAttempt, folder: Path) -> Mapping[str, Any]:
        """The decision of the gate, on the data and, where the model is to be written too, on the model."""
        scores = Scores.open(self.place(attempt, "scores")).by_stratum("privacy")
        lines = gate(scores, tries=len(self.attempts))
        lines = accept(lines, self.settings.accept, self.settings.reason)
        of_model = gate(scores, MODEL_LIMITS, len(self.attempts)) if self.settings.model else []
        of_model = accept(of_model, self.settings.accept, self.settings.reason)
        comparisons = self.compared(attempt)
        content = {
            "passed": all(line.passed for line in lines) and comparisons.releasable,
            "quality": comparisons.quality,
            "misstated": list(comparisons.reasons),
            "lines": [asdict(line) for line in lines],
            "model": [asdict(line) for line in of_model],
            "model passed": bool(of_model) and all(line.passed for line in of_model),
        }
        folder.mkdir(parents=True, exist_ok=True)
        files.write_json(folder / GATE, content)
        return {}

    def _write(self, folder: Path) -> Mapping[str, Any]:
        """The page, and the release where the gate is met."""
        release = self.summary()
        target = self.out if release.passed else None
        files.write_json(self.root / PLAN, self.as_plan())
        chosen = self.attempts[release.chosen.number - 1]
        model = load(self.place(chosen, "fit")).model if release.model_passed and target is not None else None
        write_release(release, self.page, target, self.settings, self.export_options, model, self.as_plan())
        return {"out": None if target is None else str(target.resolve())}

    # ---- the whole ------------------------------------------------------------------------------------------
    def run(self) -> ReleaseSummary:
        """Do what is not done yet and say what came of it; a second process is refused meanwhile."""
        with files.folder_lock(self.root):
            if self._missing():
                (self.root / "write" / RECORD).unlink(missing_ok=True)
            with overall_progress("synthesize") as progress:
                run_steps(self.steps, self.root, progress)
            return self.summary()

    def _missing(self) -> bool:
        """Whether a release that was written is not there any more, or never was."""
        out = record(self.root / "write").get("out")
        return (out is not None and not Path(out).is_dir()) or not self.page.is_file()

    def summary(self) -> ReleaseSummary:
        """Everything that the page and the card say, from the folders of the attempts."""
        done = [each for each in self.attempts if self.decision(each) is not None]
        chosen = self.accepted or done[-1]
        return ReleaseSummary(
            self.settings.title or self.settings.name,
            record(self.data)["description"],
            self.settings.data.source,
            self.method,
            self.settings.minutes,
            tuple(self._attempt(each) for each in done if each.number <= chosen.number),
            open_splits(self.place(chosen, "patients"))["train"],
            Cohort.open(self.place(chosen, "sample")),
            WhatWasRead.of(record(self.data)),
        )

    def _attempt(self, attempt: PlannedAttempt) -> Attempt:
        """What one attempt found."""
        decided = self.decision(attempt) or {}
        lines, of_model = (tuple(GateLine(**line) for line in decided[name]) for name in ("lines", "model"))
        names = ("patients", "choice", "fit", "sample", "scores", REFERENCE)
        about = {name: record(self.place(attempt, name)) for name in names}
        real = self._of[attempt.number, "evaluate real"]
        return Attempt(
            attempt.number,
            attempt.what,
            attempt.min_patients,
            Scores.open(self.place(attempt, "scores")),
            Scores.open(real.folder) if real.done else None,
            lines,
            of_model,
            about["patients"]["roll-up"],
            int(about["patients"]["attributes hidden"]),
            about["fit"].get("costs", {}),
            about["fit"].get("settings", {}),
            float(about["choice"]["wanted passes"]) * attempt.passes,
            {name: float(found.get("seconds", 0.0)) for name, found in about.items()},
            self.compared(attempt),
            int(about["sample"].get("drawn again", 0)),
        )


def _demand_patients(n: int) -> None:
    """Raise where there are too few patients for a release."""
    if n < FEWEST_PATIENTS:
        raise InputError(
            f"{n:,} patients are too few for a release",
            expected=f"at least {FEWEST_PATIENTS}: fewer can neither teach a generator nor show that nobody leaks",
            remedy="add patients, or look at a generator without releasing it: adapcla import, train, sample",
        )
