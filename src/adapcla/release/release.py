"""The steps of a release: read, divide, roll up, train, sample, judge, decide, write; each kept and taken up again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from adapcla import files
from adapcla.console import overall_progress, say
from adapcla.data import Cohort
from adapcla.data.code_systems import choose_ladder, ladder_fingerprint
from adapcla.data.rollup import CommonAttributes, roll_up
from adapcla.data.split_folder import open_splits, save_splits
from adapcla.errors import ExistsError, InputError
from adapcla.evaluation import Reference, Scores
from adapcla.evaluation.privacy import LIMITS, MODEL_LIMITS, GateLine, accept, gate, require_known
from adapcla.evaluation.privacy.gate import CHANCE
from adapcla.evaluation.references import some_patients
from adapcla.generation.generator import Generator
from adapcla.generation.model import has_choices
from adapcla.io.losses import MOST_DROPPED
from adapcla.io.writers import WriteOptions, check_format, writable
from adapcla.pipeline import stages
from adapcla.pipeline.driver import Driver
from adapcla.pipeline.effort import MOST_JUDGED, REAL_SHARE, Effort, around, effort_for
from adapcla.pipeline.estimate import Sizes, clock, sizes_of
from adapcla.pipeline.folder import RunFolder, making, stamp
from adapcla.pipeline.rows import checked_row, known_settings
from adapcla.pipeline.settings import EvaluateSettings, key_of
from adapcla.pipeline.step import Step
from adapcla.release.release_folder import write_release
from adapcla.release.settings import ReleaseSettings
from adapcla.release.summary import Attempt, Release
from adapcla.release.tries import Try, tries
from adapcla.version import __version__

#: Fewer patients than this cannot be learned from and judged at once.
FEWEST_PATIENTS = 500
#: Attack models for the attacks on a model that is to be released.
ATTACK_MODELS = 4
#: Validation patients that watch training; more would take longer to look at than training takes.
MOST_WATCHING = 10_000
GATE, REFERENCE, PAGE = "gate.json", "real", "report.html"


class ReleasePlan(Driver):
    """All steps from a source to a folder that may be shared, in a working folder that may not."""

    def __init__(
        self, settings: ReleaseSettings, out: str | Path, work: str | Path | None = None, overwrite: bool = False
    ) -> None:
        self.settings, self.out, self.overwrite = settings, Path(out), overwrite
        self.folder = RunFolder(Path(work) if work is not None else self.out.with_name(f"{self.out.name}-work"))
        self.failed = {}
        self.method, self.given = checked_row(settings.method, settings.fit.settings)
        self.seed = self.draw = settings.seed
        for name in self.settings.formats:
            check_format(name)
        require_known(self.settings.accept, self.settings.reason)
        self.export_options = WriteOptions(birth_year=self.settings.birth_year)
        self.tries = tries(self.settings, self.method, self.given)
        self.steps = tuple(self._steps())
        self._refuse_populated()

    # ---- where things are -----------------------------------------------------------------------------------
    def place(self, attempt: Try, name: str) -> Path:
        """The folder of something that a try made."""
        return self.folder.root / "tries" / str(attempt.number) / name

    @property
    def unsafe_out(self) -> Path:
        """The folder for what the gate refused and was asked for anyway."""
        return self.out.with_name(f"{self.out.name}-UNSAFE")

    @property
    def page(self) -> Path:
        """The page beside the working files; a release holds another copy."""
        return self.folder.root / PAGE

    def _refuse_populated(self) -> None:
        """Raise before the work if another thing is in the way of the release."""
        for folder in (self.out, *([self.unsafe_out] if self.settings.anyway else [])):
            ours = stamp(self.folder.root / "write").get("out") == str(folder.resolve())
            if not ours:
                files.refuse_populated(folder, self.overwrite)
        if self.folder.root.exists() and not self.folder.root.is_dir():
            raise ExistsError(f"{self.folder.root} is not a folder\nto do: name another --work")

    # ---- keys -----------------------------------------------------------------------------------------------
    @cached_property
    def data_key(self) -> str:
        """What the divided patients depend on."""
        key = stages.data_key(self.settings.data, self.settings.split)
        allowed = self.settings.allow_dropped
        # What was read while more might be dropped is checked again.
        return key if allowed == MOST_DROPPED else key_of(key, allowed)

    def vocabulary_key(self, attempt: Try) -> str:
        """What the patients of a try depend on."""
        return key_of(self.data_key, attempt.min_patients, ladder_fingerprint(self.settings.rollup), "roll-up 2")

    def fit_key(self, attempt: Try) -> str:
        """What a fit depends on; its sizes follow from the patients and the minutes."""
        asked: list[Any] = [self.method, attempt.settings, attempt.passes, self.settings.minutes, self.seed]
        # Attack models take from the time for training.
        asked += [self._attack_models] if self._attack_models else []
        # Evaluation takes from it too: the size of the network follows from what is left.
        asked.append(self.settings.evaluate.model_dump(mode="json", exclude={"seed", "population"}))
        return key_of(self.vocabulary_key(attempt), asked, self.settings.patients, "effort 3")

    def sample_key(self, attempt: Try) -> str:
        """What a sample depends on."""
        return key_of(self.fit_key(attempt), self.settings.patients, self.draw, "visits within 1")

    def scores_key(self, attempt: Try) -> str:
        """What the scores of a try depend on."""
        return stages.scores_key(self.sample_key(attempt), self.settings.evaluate, self.settings.model, MOST_JUDGED)

    def real_key(self, attempt: Try) -> str:
        """What the scores of models of real patients depend on."""
        asked = [self.settings.patients, MOST_JUDGED, REFERENCE]
        learned = self.settings.evaluate.model_copy(update={"suites": ("utility",)})
        return stages.scores_key(self.vocabulary_key(attempt), learned, *asked)

    def gate_key(self, attempt: Try) -> str:
        """What the decision on a try depends on: its scores, the limits, and how many tries there may be."""
        limits = [list(limit) for limit in (*LIMITS, *(MODEL_LIMITS if self.settings.model else ()))]
        accepted = [self.settings.accept, self.settings.reason]
        return key_of(self.scores_key(attempt), limits, CHANCE, len(self.tries), accepted)

    @cached_property
    def write_key(self) -> str:
        """What the folder depends on; its page shows what models of real patients reach, too."""
        asked = self.settings.model_dump(mode="json", exclude={"data", "split", "fit", "evaluate"})
        judged = [[self.gate_key(each), self.real_key(each)] for each in self.tries]
        return key_of(judged, asked, __version__)

    # ---- things, opened when they are needed ----------------------------------------------------------------
    def parts(self, attempt: Try) -> dict[str, Cohort]:
        """The patients of a try on its vocabulary."""
        return open_splits(self.place(attempt, "patients"))

    def effort(self, attempt: Try) -> Effort:
        """What fits into the time; known when the vocabulary is."""
        limits = known_settings(self.method, attempt.settings)
        found = effort_for(
            self.settings.minutes,
            self.method,
            limits,
            self._sizes(attempt),
            self.settings.patients,
            self.settings.evaluate,
            self._attack_models,
        )
        passes = max(round(found.settings["passes"] * attempt.passes, 2), 0.1)
        return found._replace(
            settings={**found.settings, "passes": passes}, training=max(found.training * attempt.passes, 1.0)
        )

    def _sizes(self, attempt: Try) -> Sizes:
        """The sizes of the training part of a try: exact when its vocabulary is known, else from what is known."""
        about = stamp(self.place(attempt, "patients"))
        return Sizes(*about["sizes"]) if "sizes" in about else sizes_of(self.settings.data, stamp(self.folder.data))

    @property
    def _attack_models(self) -> int:
        """Models that are trained to attack the one that is to be written."""
        return ATTACK_MODELS if self.settings.model else 0

    def expected(self) -> list[float]:
        """Rough seconds of each step, by what is known of the patients at this moment."""
        self.steps = tuple(self._steps())
        return super().expected()

    def generator(self, attempt: Try) -> Generator:
        """The fitted method of a try."""
        parts, settings = self.parts(attempt), known_settings(self.method, self.effort(attempt).settings)
        place, key = self.place(attempt, "fit"), self.fit_key(attempt)
        watching = some_patients(parts["valid"], MOST_WATCHING, self.seed)
        return stages.trained(place, key, self.method, settings, self.seed, parts["train"], watching)

    def decision(self, attempt: Try) -> dict[str, Any] | None:
        """What the gate said of a try; None while it has not spoken."""
        place = self.place(attempt, "gate")
        return files.read_json(place / GATE) if stamp(place).get("key") == self.gate_key(attempt) else None

    @property
    def accepted(self) -> Try | None:
        """The first try that the gate let pass."""
        return next((each for each in self.tries if (self.decision(each) or {}).get("passed")), None)

    # ---- the steps ------------------------------------------------------------------------------------------
    def _steps(self) -> Iterator[Step]:
        rough = around(self._sizes(self.tries[0]), self.settings.patients, self.settings.formats)
        data, split, allowed = self.settings.data, self.settings.split, self.settings.allow_dropped
        read = partial(stages.prepared, data, split, self.folder.data, self.data_key, allowed)
        yield Step("read", self.settings.data.source, self.folder.data, self.data_key, rough.reading, read)
        for attempt in self.tries:
            effort = self.effort(attempt)
            wanted = partial(self._still_wanted, attempt)
            what = "" if attempt.number == 1 else f"again: {attempt.what}"
            real = partial(self._real_wanted, attempt)
            judging = effort.judging / (1 + REAL_SHARE) if effort.quick else effort.judging
            for stage, name, key, seconds, work, when in (
                ("vocabulary", "patients", self.vocabulary_key(attempt), rough.rolling_up, self._roll_up, wanted),
                ("train", "fit", self.fit_key(attempt), effort.training, self.generator, wanted),
                ("sample", "sample", self.sample_key(attempt), effort.sampling, self._sample, wanted),
                ("judge real", REFERENCE, self.real_key(attempt), judging * REAL_SHARE, self._judge_real, real),
                ("judge", "scores", self.scores_key(attempt), judging, self._judge, wanted),
                ("gate", "gate", self.gate_key(attempt), 0.5, self._decide, wanted),
            ):
                place = self.place(attempt, name)
                yield Step(stage, what, place, key, seconds, partial(work, attempt), stage, wanted=when)
        yield Step("write", "", self.folder.root / "write", self.write_key, rough.writing, self._write)

    def _still_wanted(self, attempt: Try) -> bool:
        """Whether no earlier try was accepted, as far as is known, and the patients can be learned in this way."""
        accepted = self.accepted
        if accepted is not None and accepted.number < attempt.number:
            return False
        first = self.place(self.tries[0], "patients")
        if "privacy" not in attempt.settings or not stamp(first):
            return True
        # Bands of numbers and chances of choices are counted without noise, which ε would not cover.
        return not has_choices(open_splits(first)["train"].vocabulary)

    def _roll_up(self, attempt: Try) -> None:
        """The patients with codes and attributes that enough training patients share."""
        parts = open_splits(self.folder.data)
        _demand_patients(sum(part.n_patients for part in parts.values()))
        place = self.place(attempt, "patients")
        with making(place, self.vocabulary_key(attempt)) as facts:
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
            save_splits(rolled, place, overwrite=True)
            facts["roll-up"] = found.facts(parts["train"])
            facts["attributes hidden"] = common.n_hidden(parts["train"])
            facts["sizes"] = [train.n_patients, train.n_visits, train.n_codes, train.n_entries / train.n_visits]
        self._warn_of_time(attempt)

    def _warn_of_time(self, attempt: Try) -> None:
        """Say where so many patients need more time than was given, however small the network is."""
        effort = self.effort(attempt)
        rest = around(self._sizes(attempt), self.settings.patients, self.settings.formats)
        seconds = effort.training + effort.sampling + effort.judging + sum(rest)
        if seconds > 60 * self.settings.minutes:
            short = f"--minutes {self.settings.minutes:g} is too short; fewer --patients take less"
            say(f"{clock(seconds)} will be needed for so many patients; {short}")

    def _sample(self, attempt: Try) -> None:
        """The synthetic patients."""
        train = self.parts(attempt)["train"]
        most = stages.most_codes_of(train, attempt.min_patients)
        place, n = self.place(attempt, "sample"), self.settings.patients or train.n_patients
        stages.sampled_within(place, self.sample_key(attempt), self.generator(attempt), n, self.draw, most)

    def asked(self, attempt: Try) -> EvaluateSettings:
        """What is judged, and whether quickly."""
        quick = self.effort(attempt).quick or self.settings.evaluate.quick
        return self.settings.evaluate.model_copy(update={"quick": quick})

    def _real_wanted(self, attempt: Try) -> bool:
        """Whether models of real patients are judged by themselves: a quick look leaves them out."""
        asked = self.asked(attempt)
        return asked.quick and "utility" in asked.suites and self._still_wanted(attempt)

    def _judge_real(self, attempt: Try) -> None:
        """What models reach that learn from as many real patients."""
        parts, synthetic = self.parts(attempt), Cohort.open(self.place(attempt, "sample"))
        only = self.asked(attempt).model_copy(update={"suites": ("utility",)})
        n, cache = min(synthetic.n_patients, MOST_JUDGED), self.folder.cache
        real = Reference.REAL_TRAIN.cohort(parts["train"], parts["test"], n, only.seed)
        place = self.place(attempt, REFERENCE)
        stages.scored(place, self.real_key(attempt), "real", real, parts, only, cache=cache, most=MOST_JUDGED)

    def _judge(self, attempt: Try) -> None:
        """The scores of the synthetic patients."""
        parts, place, generator = self.parts(attempt), self.place(attempt, "scores"), self.generator(attempt)
        synthetic, attacks = Cohort.open(self.place(attempt, "sample")), self._attack_models
        key, asked, cache = self.scores_key(attempt), self.asked(attempt), self.folder.cache
        stages.scored(place, key, self.method, synthetic, parts, asked, None, generator, cache, attacks, MOST_JUDGED)

    def _decide(self, attempt: Try) -> None:
        """The decision of the gate, on the data and, where the model is to be written too, on the model."""
        place = self.place(attempt, "gate")
        scores = Scores.open(self.place(attempt, "scores")).by_stratum("privacy")
        with making(place, self.gate_key(attempt)):
            place.mkdir(parents=True, exist_ok=True)
            lines = gate(scores, tries=len(self.tries))
            lines = accept(lines, self.settings.accept, self.settings.reason)
            of_model = gate(scores, MODEL_LIMITS, len(self.tries)) if self.settings.model else []
            of_model = accept(of_model, self.settings.accept, self.settings.reason)
            content = {
                "passed": all(line.passed for line in lines),
                "lines": [asdict(line) for line in lines],
                "model": [asdict(line) for line in of_model],
                "accepted": {line.name: line.accepted for line in (*lines, *of_model) if line.accepted},
                "model passed": bool(of_model) and all(line.passed for line in of_model),
            }
            files.write_json(place / GATE, content)

    def _write(self) -> None:
        """The page, and the release where the gate lets it pass or somebody wants it anyway."""
        release = self.told()
        target = self.out if release.passed else self.unsafe_out if self.settings.anyway else None
        with making(self.folder.root / "write", self.write_key) as facts:
            facts["out"] = None if target is None else str(target.resolve())
            best = self.tries[release.chosen.number - 1]
            model = self.generator(best).model if release.model_passed and target is not None else None
            write_release(release, self.page, target, self.settings, self.export_options, model)

    # ---- the whole ------------------------------------------------------------------------------------------
    def told(self) -> Release:
        """Everything that the page and the card tell, from the folders of the tries."""
        done = [each for each in self.tries if self.decision(each) is not None]
        chosen = self.accepted or done[-1]
        attempts = tuple(self._told(each) for each in done if each.number <= chosen.number)
        return Release(
            self.settings.title or self.settings.name,
            stamp(self.folder.data)["description"],
            self.settings.data.source,
            self.method,
            self.settings.minutes,
            attempts,
            self.parts(chosen)["train"],
            Cohort.open(self.place(chosen, "sample")),
            self.accepted is None and self.settings.anyway,
        )

    def _told(self, attempt: Try) -> Attempt:
        """What one try found."""
        decided = self.decision(attempt) or {}
        lines, of_model = (tuple(GateLine(**line) for line in decided[name]) for name in ("lines", "model"))
        beside = self.place(attempt, REFERENCE)
        fit, patients = (stamp(self.place(attempt, name)) for name in ("fit", "patients"))
        names = ("patients", "fit", "sample", "scores", REFERENCE)
        return Attempt(
            attempt.number,
            attempt.what,
            attempt.min_patients,
            Scores.open(self.place(attempt, "scores")),
            Scores.open(beside) if (beside / "summary.json").is_file() else None,
            lines,
            of_model,
            patients["roll-up"],
            int(patients["attributes hidden"]),
            fit.get("costs", {}),
            fit.get("settings", {}),
            self.effort(attempt).wanted_passes * attempt.passes,
            {name: float(stamp(self.place(attempt, name)).get("seconds", 0.0)) for name in names},
            int(stamp(self.place(attempt, "sample")).get("drawn again", 0)),
        )

    def run(self) -> Release:
        """Do what is not done yet and tell what came of it; a second process is refused meanwhile."""
        with files.folder_lock(self.folder.root):
            if self._missing():
                (self.folder.root / "write" / "stage.json").unlink(missing_ok=True)
            with overall_progress("synthesize") as whole:
                self.carry_out(whole)
            return self.told()

    def _missing(self) -> bool:
        """Whether a release that was written is not there any more, or never was."""
        out = stamp(self.folder.root / "write").get("out")
        return (out is not None and not Path(out).is_dir()) or not self.page.is_file()


def _demand_patients(n: int) -> None:
    """Raise where there are too few patients for a release."""
    if n < FEWEST_PATIENTS:
        raise InputError(
            f"{n:,} patients are too few for a release",
            expected=f"at least {FEWEST_PATIENTS}: fewer can neither teach a generator nor show that nobody leaks",
            remedy="add patients, or look at a generator without releasing it: adapcla import, train, sample",
        )
