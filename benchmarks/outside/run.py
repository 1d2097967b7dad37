"""Evaluators that others wrote, on synthetic patients and on held-out real ones, with our own scores beside theirs.

    python benchmarks/outside/run.py SYNTHETIC --train TRAIN --test TEST --out OUT [--evaluators sdmetrics,anonymeter]

Each runs in a virtual environment of its own, made on first use, and sees exported files alone; the files beside this
one run there and import nothing of this package.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from adapcla.console import say
from adapcla.data import Cohort, storage
from adapcla.data.provenance import require_apart, training_sources
from adapcla.data.ragged import segment_sums
from adapcla.errors import AdapclaError, InputError, UsageError
from adapcla.evaluation.course import Watched
from adapcla.evaluation.references import halves, some_patients
from adapcla.evaluation.runner import evaluate
from adapcla.files import folder_lock, fresh_folder, read_json, refuse_populated, write_bytes, write_json
from adapcla.io import read
from adapcla.io import writers as export
from adapcla.io.options import WriteOptions
from adapcla.tables import Table, format_number
from adapcla.version import __version__

# ---- the evaluators ------------------------------------------------------------------------------------------
#: What an evaluator reads: one row per patient as CSV, a MEDS folder, or an OMOP folder.
Form = Literal["table", "meds", "omop"]


@dataclass(frozen=True)
class Evaluator:
    """A program that others wrote, and how it is asked."""

    name: str
    #: What pip installs, and what it may not choose by itself.
    requirements: tuple[str, ...]
    #: The package whose version is told.
    package: str
    python: str
    form: Form
    #: The file in `scripts` that runs inside its environment.
    script: str
    #: Seconds after which one question is given up.
    seconds: int
    summary: str
    constraints: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The name of its environment: another requirement or Python is another environment.

        >>> EVALUATORS["sdmetrics"].folder
        'sdmetrics==0.32.*-py3.11'
        """
        return "+".join(self.requirements) + f"-py{self.python}"


#: Without this pin pip takes the newest torch with gigabytes of CUDA packages.
_TORCH = ("torch==2.13.0",)

# fmt: off
_ROWS = (
    Evaluator("mostlyai-qa", ("mostlyai-qa==1.10.*",), "mostlyai-qa", "3.11", "table", "mostlyai_qa.py", 1800,
          "Accuracy, similarity with the area of its discriminator, distances to training.", _TORCH),
    Evaluator("sdmetrics", ("sdmetrics==0.32.*",), "sdmetrics", "3.11", "table", "sdmetrics_reports.py", 600,
          "Quality and diagnostic reports."),
    Evaluator("anonymeter", ("anonymeter==1.1.*",), "anonymeter", "3.11", "table", "anonymeter_risks.py", 900,
          "Risks of singling out, linkability and inference, less those of controls."),
    Evaluator("syntheval", ("syntheval==1.7.*",), "syntheval", "3.11", "table", "syntheval_scores.py", 900,
          "Utility and privacy scores of its fast evaluation."),
    Evaluator("es-aces", ("es-aces==0.7.*",), "es-aces", "3.11", "meds", "aces_tasks.py", 600,
          "Prevalence of two tasks: readmission within 30 days, and the commonest outcome after the commonest code."),
    Evaluator("meds-tab", ("meds-tab==0.2.*",), "meds-tab", "3.11", "meds", "meds_tab_features.py", 900,
          "Whether it describes the codes and builds its features."),
    Evaluator("pyhealth", ("pyhealth==2.1.*",), "pyhealth", "3.12", "meds", "pyhealth_models.py", 900,
          "Whether it loads the MEDS folder, and a small model that it trains.", _TORCH),
    Evaluator("pyhealth-omop", ("pyhealth==2.1.*",), "pyhealth", "3.12", "omop", "pyhealth_models.py", 900,
          "The same of the OMOP folder, in the same environment.", _TORCH),
)
# fmt: on
#: Every evaluator by name.
EVALUATORS: dict[str, Evaluator] = {evaluator.name: evaluator for evaluator in _ROWS}


def evaluators_of(names: Iterable[str]) -> list[Evaluator]:
    """The evaluators of these names; all where none is named.

    >>> [evaluator.name for evaluator in evaluators_of(["sdmetrics"])]
    ['sdmetrics']
    """
    chosen = list(dict.fromkeys(names)) or list(EVALUATORS)
    for name in chosen:
        if name not in EVALUATORS:
            raise UsageError(f"evaluator {name!r}\nexpected: {', '.join(EVALUATORS)}\nto do: choose some of these")
    return [EVALUATORS[name] for name in chosen]


# ---- their environments --------------------------------------------------------------------------------------
#: Written last: an environment without it is unfinished and is made again.
READY = "ready.json"
#: Seconds that an installation may take.
INSTALL_SECONDS = 1800
#: What must not reach a program in another environment.
_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


class CannotInstall(AdapclaError):
    """An evaluator whose environment cannot be made; the text says why."""


def default_folder() -> Path:
    """Where environments are kept: below ADAPCLA_EVALUATORS, else in the user's cache."""
    given = os.environ.get("ADAPCLA_EVALUATORS")
    return (
        Path(given)
        if given
        else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "adapcla" / "evaluators"
    )


def python_of(version: str, given: Path | None = None) -> Path:
    """The interpreter of a version such as 3.11: the given one if it is that, this one, or the first on PATH.

    >>> python_of(f"{sys.version_info.major}.{sys.version_info.minor}") == Path(sys.executable)
    True
    """
    candidates = [given, Path(sys.executable), *_on_path(version)]
    for candidate in candidates:
        if candidate is not None and _version_of(candidate) == version:
            return candidate
    raise CannotInstall(f"needs Python {version}, which was not found (python{version} on PATH, or --python PATH)")


def _on_path(version: str) -> list[Path]:
    """Programs called pythonX.Y in the folders of PATH."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    return [path for folder in folders if (path := Path(folder) / f"python{version}").is_file()]


def _version_of(python: Path) -> str:
    """The version that an interpreter says it is; nothing where it does not run, as launchers without a version do."""
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        ran = subprocess.run([python, "-I", "-c", ask], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.strip() if ran.returncode == 0 else ""


@dataclass(frozen=True)
class Environments:
    """The environments below one folder."""

    folder: Path
    #: An interpreter that the user named, for evaluators of its version.
    python: Path | None = None
    seconds: int = INSTALL_SECONDS

    def interpreter(self, evaluator: Evaluator) -> Path:
        """The interpreter of an evaluator's environment, which is made if it is not there."""
        home = self.folder / evaluator.folder
        self.folder.mkdir(parents=True, exist_ok=True)
        with folder_lock(home):
            if not self._ready(home, evaluator):
                self._make(home, evaluator)
        return home / "venv" / "bin" / "python"

    @staticmethod
    def _ready(home: Path, evaluator: Evaluator) -> bool:
        """Whether the environment is complete and of these requirements."""
        if not (home / READY).is_file():
            return False
        known = read_json(home / READY)
        return known.get("requirements") == list(evaluator.requirements) and known.get("constraints") == list(
            evaluator.constraints
        )

    def _make(self, home: Path, evaluator: Evaluator) -> None:
        """Make the environment and install the evaluator, whole or not at all."""
        python = python_of(evaluator.python, self.python)
        say(f"{evaluator.name}: making its environment with Python {evaluator.python}, once")
        shutil.rmtree(home / "venv", ignore_errors=True)
        pins = home / "constraints.txt"
        write_bytes(pins, "".join(f"{pin}\n" for pin in evaluator.constraints).encode())
        try:
            bare = [] if evaluator.requirements else ["--without-pip"]
            _run([str(python), "-m", "venv", *bare, str(home / "venv")], self.seconds)
            if evaluator.requirements:
                pip = [str(home / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "-c", str(pins)]
                _run([*pip, *evaluator.requirements], self.seconds)
        except CannotInstall:
            shutil.rmtree(home / "venv", ignore_errors=True)
            raise
        asked = {"requirements": list(evaluator.requirements), "constraints": list(evaluator.constraints)}
        write_json(home / READY, {**asked, "python": evaluator.python})


def clean_environment(**more: str) -> dict[str, str]:
    """The variables of this process without those that would lead another interpreter to our packages."""
    return {**{name: value for name, value in os.environ.items() if name not in _OURS}, **more}


def _run(command: list[str], seconds: int) -> None:
    """Run a step of an installation; a failure says the last line that names an error."""
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False, env=clean_environment()
        )
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"could not be installed in {seconds:,} s") from None
    except OSError as error:
        raise CannotInstall(f"could not be installed: {error.strerror}") from None
    if ran.returncode != 0:
        lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no reason given"]
        raise CannotInstall(f"could not be installed: {errors[-1][:200]}")


# ---- what they are given -------------------------------------------------------------------------------------
#: Codes that have a column of their own in flat tables.
N_CODES = 30
#: Year of birth of patients whose age is not known, which OMOP demands.
_BIRTH_YEAR = 1950
#: Exports of a release, and the source that reads each back.
_READ_BACK = {"meds": "meds", "omop": "omop", "csv": "table", "fhir": "fhir"}
#: The files that scripts read.
COLUMNS, TASK, SUBJECT = "columns.json", "task.json", "subject"


@dataclass(frozen=True, eq=False)
class Trial:
    """One question to an evaluator: the patients it is about, and the real ones it may compare them with."""

    subject: Cohort
    train: Cohort
    test: Cohort

    def write(self, folder: Path, form: Form) -> None:
        """Write the files of one form."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / TASK, task_of(self.train))
        if form == "table":
            self._write_tables(folder)
        else:
            options = WriteOptions(visit_type="inpatient", birth_year=_BIRTH_YEAR if form == "omop" else None)
            export.write(self.subject, folder / SUBJECT, form, options=options)

    def _write_tables(self, folder: Path) -> None:
        """Three tables with the same columns, and what kind each column is of."""
        watched = np.argsort(-self.train.patient_counts, kind="stable")[:N_CODES]
        codes = [self.train.vocabulary.tokens[code] for code in watched if self.train.patient_counts[code] > 0]
        names = [name for name in self.train.attributes if name in self.subject.attributes]
        days = self.train.days is not None and self.subject.days is not None
        for name, cohort in ((SUBJECT, self.subject), ("train", self.train), ("test", self.test)):
            columns = flat(cohort, codes, names, days)
            with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(columns)
                writer.writerows(zip(*columns.values(), strict=True))
        kinds = {name: "number" if isinstance(values[0], int) else "category" for name, values in columns.items()}
        write_json(folder / COLUMNS, kinds)


def subject_in(folder: Path) -> Cohort:
    """The patients of a cohort folder, or of a release: the first of its exports that reads back to the same cohort."""
    if (folder / storage.CARD).is_file():
        return Cohort.open(folder)
    for name, source in _READ_BACK.items():
        if (folder / name).is_dir():
            return read(source, folder / name)
    raise InputError(
        "neither a cohort nor a release",
        path=folder,
        expected=f"{storage.CARD}, or one of the folders {', '.join(_READ_BACK)}",
        remedy="name the folder that `sample` or `synthesize` wrote",
    )


def flat(cohort: Cohort, codes: list[str], attributes: list[str], days: bool) -> dict[str, list[Any]]:
    """One value per patient and column: sizes, days, attributes, and whether the patient ever had each code.

    >>> flat(Cohort.of([[["A", "B"], ["A"]]]), ["B", "Z"], [], days=False)
    {'visits': [2], 'codes': [3], 'largest_visit': [2], 'first_visit': [2], 'different_codes': [2],
     'code_B': ['yes'], 'code_Z': ['no']}
    """
    starts, sizes = np.asarray(cohort.patient_starts), cohort.codes_per_visit
    held = cohort.patient_matrix() > 0
    columns = {
        "visits": cohort.visits_per_patient,
        "codes": segment_sums(sizes, starts),
        "largest_visit": np.maximum.reduceat(sizes, starts[:-1]),
        "first_visit": sizes[cohort.first_visits],
        "different_codes": np.asarray(held.sum(axis=1)).ravel(),
    }
    if days and cohort.days is not None:
        columns["days"] = np.asarray(cohort.days)[cohort.last_visits]
    out: dict[str, list[Any]] = {name: [int(value) for value in values] for name, values in columns.items()}
    for name in attributes:
        values, categories = cohort.attributes[name]
        out[name] = [categories[value] if value >= 0 else "unknown" for value in values]
    for code, place in zip(codes, cohort.vocabulary.positions(codes), strict=True):
        has = held[:, [place]].toarray().ravel() if place >= 0 else np.zeros(cohort.n_patients, dtype=bool)
        out[f"code_{code.replace('/', '_')}"] = ["yes" if one else "no" for one in has]
    return out


def task_of(train: Cohort) -> dict[str, str]:
    """The index code that most training patients hold, and the outcome that most of them get later.

    >>> task_of(Cohort.of([[["A"], ["B"]]]))
    {'index': 'A', 'outcome': 'B'}
    """
    watched, tokens = Watched.of(train), train.vocabulary.tokens
    pair = (*watched.index[:1], *watched.outcomes[:1])
    return dict(zip(("index", "outcome"), (tokens[code] for code in pair), strict=False))


# ---- asking them ---------------------------------------------------------------------------------------------
#: The file of a folder of results.
RESULTS = "results.json"
#: Patients of each cohort that evaluators are shown at most.
MOST = 2_000
#: Our own scores that stand first: metric and stratum.
OURS = (
    ("discriminator_auc", "matched"), ("prevalence_log_r2", "matched"), ("bigram_r2", "matched"),
    ("effect_corr", "matched"), ("onset_curves", "matched"), ("rule_breaks", "all"),
)  # fmt: skip
_SCRIPTS = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Result:
    """One number or word of an evaluator about synthetic and about real patients; without either, the reason."""

    evaluator: str
    version: str
    metric: str
    synthetic: float | str | bool | None
    real: float | str | bool | None
    reason: str = ""


@dataclass(frozen=True)
class Answer:
    """What an evaluator said about one cohort, or why it said nothing."""

    version: str
    results: dict[str, Any]
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Panel:
    """Two trials: of synthetic and of as many held-out real patients, with other real ones to compare with."""

    synthetic: Trial
    real: Trial

    @classmethod
    def of(cls, synthetic: Cohort, train: Cohort, test: Cohort, seed: int = 1, most: int = MOST) -> Panel:
        """The two trials; test patients are cut into those that stand for synthetic ones and those to compare with."""
        require_apart(training_sources(train, synthetic), {"test": test})
        compared, held_out = halves(test)
        n = min(synthetic.n_patients, held_out.n_patients, most)
        shown = some_patients(train, most, seed)
        others = some_patients(compared, most, seed)
        return cls(
            *(Trial(some_patients(cohort, n, seed), shown, others) for cohort in (synthetic, held_out)),
        )


def ours(synthetic: Cohort, train: Cohort, test: Cohort, seed: int = 1) -> Iterator[Result]:
    """Our own scores, in quick form, with those of real patients."""
    scores = evaluate(train, test, synthetic, ["fidelity", "course", "discriminator"], seed=seed, quick=True)
    for metric, stratum in OURS:
        row = next((row for row in scores.rows if (row.metric, row.stratum) == (metric, stratum)), None)
        if row is None:
            yield Result("adapcla", __version__, metric, None, None, "too few patients")
        else:
            yield Result("adapcla", __version__, metric, row.value, row.real_test, row.reason)


def results_of(evaluator: Evaluator, panel: Panel, environments: Environments, logs: Path) -> list[Result]:
    """The results of one evaluator; one that cannot be asked is one line that says why."""
    say(f"asking {evaluator.name}")
    try:
        python = environments.interpreter(evaluator)
    except CannotInstall as error:
        return [Result(evaluator.name, "", "", None, None, str(error))]
    answers = {
        name: answer_of(evaluator, python, trial, logs / f"{evaluator.name}-{name}.txt")
        for name, trial in (("synthetic", panel.synthetic), ("real", panel.real))
    }
    return list(_together(evaluator, answers["synthetic"], answers["real"]))


def _together(evaluator: Evaluator, synthetic: Answer, real: Answer) -> Iterator[Result]:
    """The answers about both cohorts, one line for each thing that was said."""
    version = synthetic.version or real.version
    whys = {"synthetic": synthetic.reason, "real": real.reason}
    reason = "; ".join(f"{name} patients: {why}" for name, why in whys.items() if why)
    names = dict.fromkeys([*synthetic.results, *real.results])
    if not names:
        yield Result(evaluator.name, version, "", None, None, reason)
    for name in names:
        yield Result(evaluator.name, version, name, synthetic.results.get(name), real.results.get(name), reason)


def answer_of(evaluator: Evaluator, python: Path, trial: Trial, log: Path) -> Answer:
    """What an evaluator says of one trial: its script is run on exported files, with a time limit."""
    with tempfile.TemporaryDirectory(prefix="adapcla-evaluator-") as temporary:
        folder = Path(temporary) / "given"
        trial.write(folder, evaluator.form)
        out = Path(temporary) / "said.json"
        command = [python, "-I", _SCRIPTS / "ask.py", evaluator.script, evaluator.package, folder, out]
        reason, written = _limited([str(word) for word in command], evaluator.seconds, Path(temporary))
        write_bytes(log, written)
        if reason:
            # What an evaluator writes may hold cells of patients: it stays in the log.
            return Answer("", {}, f"{reason}; see logs/{log.name}")
        said = json.loads(out.read_text(encoding="utf-8"))
    return Answer(said["version"], said["results"])


def _limited(command: list[str], seconds: int, home: Path) -> tuple[str, bytes]:
    """Why a program did not end well (nothing if it did), and all that it wrote; after `seconds` it is ended."""
    variables = clean_environment(
        HOME=str(home), OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", CUDA_VISIBLE_DEVICES=""
    )
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=home, env=variables, start_new_session=True
    )
    try:
        written, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        # An evaluator may have started programs of its own: all of its session end.
        os.killpg(process.pid, signal.SIGKILL)
        written, _ = process.communicate()
        return f"gave no answer in {seconds:,} s", written
    if process.returncode == 0:
        return "", written
    last = written.decode(errors="replace").strip().rpartition("\n")[2]
    kind = last.partition(":")[0].rpartition(".")[2]
    return f"failed ({kind if kind.isidentifier() else f'exit code {process.returncode}'})", written


def compare(
    synthetic: Cohort,
    train: Cohort,
    test: Cohort,
    evaluators: Iterable[Evaluator],
    environments: Environments,
    out: Path,
    *,
    subject: str = "synthetic",
    seed: int = 1,
    most: int = MOST,
    overwrite: bool = False,
) -> list[Result]:
    """The results of the evaluators and our own, written to a folder as JSON, CSV and Markdown, with logs."""
    panel = Panel.of(synthetic, train, test, seed, most)
    with fresh_folder(out, overwrite) as folder:
        (folder / "logs").mkdir()
        results = list(ours(synthetic, train, test, seed))
        for evaluator in evaluators:
            results += results_of(evaluator, panel, environments, folder / "logs")
        patients = {"shown": panel.synthetic.subject.n_patients, "held out": panel.real.subject.n_patients}
        about = {"subject": subject, "patients": patients, "seed": seed, "adapcla": __version__}
        write_json(folder / RESULTS, {**about, "results": [asdict(result) for result in results]})
        table = table_of(results)
        write_bytes(folder / "results.md", table.markdown().encode())
        write_bytes(folder / "results.csv", table.csv().encode())
    return results


def table_of(results: Iterable[Result]) -> Table:
    """The results as a table.

    >>> print(table_of([Result("mirror", "1.0", "auc", 0.6, 0.5)]).csv())
    evaluator,version,metric,synthetic,held-out real,reason
    mirror,1.0,auc,0.600,0.500,
    <BLANKLINE>
    """
    columns = ("evaluator", "version", "metric", "synthetic", "held-out real", "reason")
    rows = [(v.evaluator, v.version, v.metric, _shown(v.synthetic), _shown(v.real), v.reason) for v in results]
    return Table(columns, rows)


def _shown(value: float | str | bool | None) -> str:
    """A word as it is, a number with four digits, a dash for none."""
    return str(value) if isinstance(value, bool | str) else format_number(value)


def main(words: Sequence[str] | None = None) -> int:
    """Ask the evaluators and print the table; 0 where every one of them answered."""
    parser = argparse.ArgumentParser(description="Evaluators that others wrote, on synthetic and on real patients.")
    parser.add_argument("subject", type=Path, metavar="SYNTHETIC", help="synthetic cohort, or a release that holds one")
    parser.add_argument("--train", type=Path, required=True, help="cohort the generator learned from")
    parser.add_argument("--test", type=Path, required=True, help="cohort of real patients it did not see")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--evaluators", default="", help="names with commas; all if not given")
    parser.add_argument("--patients", type=int, default=MOST, help="most patients that evaluators are shown")
    parser.add_argument("--python", type=Path, help="interpreter for evaluators of its version, if not on PATH")
    parser.add_argument("--environments", type=Path, help="folder of the environments; the cache if not given")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--overwrite", action="store_true")
    asked_for = parser.parse_args(words)
    try:
        chosen = evaluators_of(name.strip() for name in asked_for.evaluators.split(",") if name.strip())
        refuse_populated(asked_for.out, asked_for.overwrite)
        results = compare(
            subject_in(asked_for.subject),
            Cohort.open(asked_for.train),
            Cohort.open(asked_for.test),
            chosen,
            Environments(asked_for.environments or default_folder(), asked_for.python),
            asked_for.out,
            subject=asked_for.subject.resolve().name,
            seed=asked_for.seed,
            most=asked_for.patients,
            overwrite=asked_for.overwrite,
        )
    except AdapclaError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(table_of(results).markdown())
    return 1 if any(not result.metric for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
