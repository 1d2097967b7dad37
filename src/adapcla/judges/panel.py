"""Asking judges: about synthetic patients and about held-out real ones, with our own verdicts beside theirs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from adapcla.console import say
from adapcla.data import Cohort
from adapcla.data.provenance import require_apart, training_sources
from adapcla.evaluation.references import halves, some_patients
from adapcla.evaluation.runner import evaluate
from adapcla.files import fresh_folder, write_bytes, write_json
from adapcla.judges.environments import CannotInstall, Environments, clean_environment
from adapcla.judges.inputs import Trial
from adapcla.judges.table import Judge
from adapcla.tables import Table, format_number
from adapcla.version import __version__

#: The file of a folder of verdicts.
VERDICTS = "verdicts.json"
#: Patients of each cohort that judges are shown at most.
MOST = 2_000
#: Our own scores that stand first: metric and stratum.
OURS = (
    ("discriminator_auc", "matched"), ("prevalence_log_r2", "matched"), ("bigram_r2", "matched"),
    ("effect_corr", "matched"), ("onset_curves", "matched"), ("rule_breaks", "all"),
)  # fmt: skip
_SCRIPTS = Path(__file__).resolve().parent / "scripts"


@dataclass(frozen=True)
class Verdict:
    """One number or word of a judge about synthetic and about real patients; without either, the reason."""

    judge: str
    version: str
    metric: str
    synthetic: float | str | bool | None
    real: float | str | bool | None
    reason: str = ""


@dataclass(frozen=True)
class Answer:
    """What a judge said about one cohort, or why it said nothing."""

    version: str
    verdicts: dict[str, Any]
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


def ours(synthetic: Cohort, train: Cohort, test: Cohort, seed: int = 1) -> Iterator[Verdict]:
    """Our own scores, in quick form, with those of real patients."""
    scores = evaluate(train, test, synthetic, ["fidelity", "course", "discriminator"], seed=seed, quick=True)
    for metric, stratum in OURS:
        row = next((row for row in scores.rows if (row.metric, row.stratum) == (metric, stratum)), None)
        if row is None:
            yield Verdict("adapcla", __version__, metric, None, None, "too few patients")
        else:
            yield Verdict("adapcla", __version__, metric, row.value, row.real_test, row.reason)


def asked(
    judge: Judge, panel: Panel, environments: Environments, extras: Mapping[str, str], logs: Path
) -> list[Verdict]:
    """The verdicts of one judge; one that cannot be asked is one line that says why."""
    option = judge.needs.lstrip("-")
    if judge.needs and option not in extras:
        return [Verdict(judge.name, "", "", None, None, f"not asked: it needs {judge.needs}")]
    say(f"asking {judge.name}")
    try:
        python = environments.interpreter(judge)
    except CannotInstall as error:
        return [Verdict(judge.name, "", "", None, None, str(error))]
    answers = {
        name: answered(judge, python, trial, extras, logs / f"{judge.name}-{name}.txt")
        for name, trial in (("synthetic", panel.synthetic), ("real", panel.real))
    }
    return list(_together(judge, answers["synthetic"], answers["real"]))


def _together(judge: Judge, synthetic: Answer, real: Answer) -> Iterator[Verdict]:
    """The answers about both cohorts, one line for each thing that was said."""
    version = synthetic.version or real.version
    whys = {"synthetic": synthetic.reason, "real": real.reason}
    reason = "; ".join(f"{name} patients: {why}" for name, why in whys.items() if why)
    names = dict.fromkeys([*synthetic.verdicts, *real.verdicts])
    if not names:
        yield Verdict(judge.name, version, "", None, None, reason)
    for name in names:
        yield Verdict(judge.name, version, name, synthetic.verdicts.get(name), real.verdicts.get(name), reason)


def answered(judge: Judge, python: Path, trial: Trial, extras: Mapping[str, str], log: Path) -> Answer:
    """What a judge says of one trial: its script is run on exported files, with a time limit."""
    with tempfile.TemporaryDirectory(prefix="adapcla-judge-") as temporary:
        folder = Path(temporary) / "given"
        trial.write(folder, judge.form, extras)
        out = Path(temporary) / "said.json"
        command = [python, "-I", _SCRIPTS / "runner.py", judge.script, judge.package, folder, out]
        reason, written = _limited([str(word) for word in command], judge.seconds, Path(temporary))
        write_bytes(log, written)
        if reason:
            # What a judge writes may hold cells of patients: it stays in the log.
            return Answer("", {}, f"{reason}; see logs/{log.name}")
        said = json.loads(out.read_text(encoding="utf-8"))
    return Answer(said["version"], said["verdicts"])


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
        # A judge may have started programs of its own: all of its session end.
        os.killpg(process.pid, signal.SIGKILL)
        written, _ = process.communicate()
        return f"gave no answer in {seconds:,} s", written
    if process.returncode == 0:
        return "", written
    last = written.decode(errors="replace").strip().rpartition("\n")[2]
    kind = last.partition(":")[0].rpartition(".")[2]
    return f"failed ({kind if kind.isidentifier() else f'exit code {process.returncode}'})", written


def judged(
    synthetic: Cohort,
    train: Cohort,
    test: Cohort,
    judges: Iterable[Judge],
    environments: Environments,
    out: Path,
    *,
    subject: str = "synthetic",
    extras: Mapping[str, str] | None = None,
    seed: int = 1,
    most: int = MOST,
    overwrite: bool = False,
) -> list[Verdict]:
    """The verdicts of the judges and our own, written to a folder as JSON, CSV and Markdown with the judges' logs."""
    panel = Panel.of(synthetic, train, test, seed, most)
    with fresh_folder(out, overwrite) as folder:
        (folder / "logs").mkdir()
        verdicts = list(ours(synthetic, train, test, seed))
        for judge in judges:
            verdicts += asked(judge, panel, environments, extras or {}, folder / "logs")
        patients = {"shown": panel.synthetic.subject.n_patients, "held out": panel.real.subject.n_patients}
        about = {"subject": subject, "patients": patients, "seed": seed, "adapcla": __version__}
        write_json(folder / VERDICTS, {**about, "verdicts": [asdict(verdict) for verdict in verdicts]})
        table = table_of(verdicts)
        write_bytes(folder / "verdicts.md", table.markdown().encode())
        write_bytes(folder / "verdicts.csv", table.csv().encode())
    return verdicts


def table_of(verdicts: Iterable[Verdict]) -> Table:
    """The verdicts as a table.

    >>> print(table_of([Verdict("mirror", "1.0", "auc", 0.6, 0.5)]).csv())
    judge,version,verdict,synthetic,held-out real,reason
    mirror,1.0,auc,0.600,0.500,
    <BLANKLINE>
    """
    columns = ("judge", "version", "verdict", "synthetic", "held-out real", "reason")
    rows = [(v.judge, v.version, v.metric, _shown(v.synthetic), _shown(v.real), v.reason) for v in verdicts]
    return Table(columns, rows)


def _shown(value: float | str | bool | None) -> str:
    """A word as it is, a number with four digits, a dash for none."""
    return str(value) if isinstance(value, bool | str) else format_number(value)
