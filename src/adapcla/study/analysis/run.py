"""The analyses of a study: fits that are observed along training, then each part as a folder of tables and figures."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from adapcla import files
from adapcla.console import say
from adapcla.data import Cohort, Strata, Vocabulary, storage
from adapcla.data.split_folder import open_splits
from adapcla.errors import InputError
from adapcla.generation.generator import Generator, generator_for, load
from adapcla.scaffold import schedule
from adapcla.study.analysis.bound import FAMILY, schedule_tables
from adapcla.study.analysis.kernel import ContextKernel, KernelObserver
from adapcla.study.analysis.probes import (
    LOOKS,
    Probe,
    ProbeKind,
    ProbeObserver,
    ProbeSet,
    Trajectory,
    probe_set,
    require_one_shot,
)
from adapcla.study.spec import ANALYSES, SUMMARY, AnalysisSettings
from adapcla.training.settings import METHODS

# ---- fits that are observed ------------------------------------------------------------------------------------
#: Epochs without improvement before a fit ends: never, so that fits can be compared step by step.
NEVER = 1_000_000


@dataclass(frozen=True, eq=False)
class ObservedFit:
    """A fitted generator and what was recorded while it was fitted."""

    generator: Generator
    trajectory: Trajectory
    kernels: tuple[ContextKernel, ...] = ()


def observed_fit(
    train: Cohort,
    valid: Cohort,
    probes: ProbeSet,
    method: str = "adapcla",
    changes: dict[str, Any] | None = None,
    kernels: bool = False,
    looks: int = LOOKS,
) -> ObservedFit:
    """Fit a method over its whole budget with probes along the way and, with `kernels`, kernels before step one."""
    generator = generator_for(method, **{"patience": NEVER, **(changes or {})})
    observer = ProbeObserver(generator, probes, looks)
    before = KernelObserver(generator, probes) if kernels else None
    generator.fit(train, valid, observers=[observer] if before is None else [observer, before])
    return ObservedFit(generator, observer.trajectory(), () if before is None else tuple(before.kernels))


# ---- saved trajectories ----------------------------------------------------------------------------------------
PROBES, INDEX, COUNTS, KERNELS = "probes.csv", "trajectory.json", "counts.npy", "kernels.json"
_NOT_ARRAYS = ("schedule", "strata", "truth")
_ARRAYS = [field.name for field in fields(Trajectory) if field.name not in _NOT_ARRAYS]


class SavedTrajectory(NamedTuple):
    """What was recorded along one fit, with its probes (without patients) and kernels, where there are any."""

    probes: ProbeSet
    trajectory: Trajectory
    kernels: tuple[ContextKernel, ...] = ()


def save_trajectory(
    folder: str | Path, probes: ProbeSet, trajectory: Trajectory, kernels: Sequence[ContextKernel] = ()
) -> Path:
    """Write a trajectory with its probes and kernels, without any patient: contexts are numbers."""
    target = Path(folder)
    arrays = {name: getattr(trajectory, name) for name in _ARRAYS}
    arrays |= {f"stratum_{name}": values for name, values in trajectory.strata.items()}
    arrays |= {} if trajectory.truth is None else {"truth": trajectory.truth}
    with files.fresh_folder(target, overwrite=True) as fresh:
        for name, value in arrays.items():
            np.save(fresh / f"{name}.npy", value, allow_pickle=False)
        np.save(fresh / COUNTS, probes.strata.counts, allow_pickle=False)
        (fresh / PROBES).write_bytes(probes.table().write_csv().encode())
        storage.write_vocabulary(fresh / storage.VOCABULARY, probes.strata.vocabulary.codes)
        index = {"schedule": trajectory.schedule, "contexts": probes.n_contexts, "strata": list(trajectory.strata)}
        (fresh / INDEX).write_bytes(files.json_bytes(index | {"truth": trajectory.truth is not None}))
        (fresh / KERNELS).write_bytes(files.json_bytes({"kernels": [_kernel_json(kernel) for kernel in kernels]}))
        files.write_manifest(fresh)
    return target


def _kernel_json(kernel: ContextKernel) -> dict[str, Any]:
    """A kernel for JSON, which knows no NaN."""
    least = kernel.smallest_eigenvalue
    content = {**kernel._asdict(), "similarity": kernel.similarity.tolist()}
    return {**content, "smallest_eigenvalue": float(least) if np.isfinite(least) else None}


def _kernel_from(content: dict[str, Any]) -> ContextKernel:
    """A kernel as it was."""
    least = content["smallest_eigenvalue"]
    similarity = np.array(content["similarity"], dtype=np.float64)
    return ContextKernel(content["context"], content["group"], similarity, np.nan if least is None else least)


def open_trajectory(folder: str | Path) -> SavedTrajectory:
    """The trajectory in a folder."""
    path = Path(folder)
    files.verify_manifest(path)
    index = files.read_json(path / INDEX)
    try:
        arrays = {name: storage.read_array(path / f"{name}.npy") for name in _ARRAYS}
        strata = {name: storage.read_array(path / f"stratum_{name}.npy") for name in index["strata"]}
        truth = storage.read_array(path / "truth.npy") if index["truth"] else None
        counts = storage.read_array(path / COUNTS)
        vocabulary = Vocabulary(storage.read_vocabulary(path / storage.VOCABULARY))
        rows = pl.read_csv(path / PROBES).to_dicts()
        probes = tuple(
            Probe(row["context"], vocabulary.index[row["code"]], ProbeKind(row["kind"]), row["lift"], row["support"])
            for row in rows
        )
        probe_set = ProbeSet(probes, Strata.of(counts, vocabulary), int(index["contexts"]))
        kernels = tuple(_kernel_from(content) for content in files.read_json(path / KERNELS)["kernels"])
        return SavedTrajectory(probe_set, Trajectory(index["schedule"], **arrays, strata=strata, truth=truth), kernels)
    except (KeyError, ValueError, OSError, TypeError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"not a trajectory ({type(error).__name__})",
            path=path,
            remedy="make it again: a run with the analysis `probes` keeps one",
        ) from None


# ---- the folder of results -----------------------------------------------------------------------------------
class ResultFolder:
    """A folder that results are added to one by one."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.captions: dict[str, str] = {}
        #: What is said at the end, by name.
        self.facts: dict[str, Any] = {}

    def table(self, name: str, frame: pl.DataFrame, **notes: Any) -> None:
        """Write a tidy table as NAME.csv and, with notes on how to read it, as NAME.json."""
        plain = frame.with_columns(pl.col(pl.Float64, pl.Float32).fill_nan(None))
        self.text(f"{name}.csv", plain.write_csv())
        files.write_json(
            self.out / f"{name}.json", {"notes": notes, "columns": plain.columns, "rows": plain.to_dicts()}
        )

    def figure(self, name: str, drawn: tuple[Any, str]) -> None:
        """Write a figure as NAME.svg and NAME.png and keep its caption."""
        from adapcla.report.style import save_both

        save_both(drawn[0], self.out / name)
        self.captions[name] = drawn[1]

    def text(self, name: str, content: str) -> None:
        """Write a text file."""
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(path, content.encode())

    def close(self) -> None:
        """Write captions and facts as the summary."""
        self.out.mkdir(parents=True, exist_ok=True)
        files.write_json(self.out / SUMMARY, {"captions": self.captions, **self.facts})


# ---- what is analysed ------------------------------------------------------------------------------------------
#: Contexts of a quick analysis.
_QUICK_CONTEXTS = (30,)
_TRAJECTORIES = "trajectories"
#: Parts that need an observed fit, and parts that look at the fits of all rows.
_OBSERVED, OF_ROWS = ("probes", "kernel", "schedules"), ("cases", "law", "diseases")


class ObservedRun(NamedTuple):
    """A fit that is observed along training."""

    schedule: str
    seed: int


@dataclass(frozen=True, eq=False)
class Subject:
    """What is analysed: a method with its settings, and the folders of patients, fits and samples."""

    spec: AnalysisSettings
    method: str
    settings: dict[str, Any]
    seeds: tuple[int, ...]
    #: Of all analyses.
    folder: Path
    #: Of the prepared patients.
    data: Path
    #: Row → its first fit, and the first sample of it.
    fits: dict[str, Path]
    drawn: dict[str, Path]

    def __post_init__(self) -> None:
        """Check everything that can fail before the expensive part."""
        if set(self.spec.parts) & set(_OBSERVED):
            require_one_shot(generator_for(self.method, **self.settings).settings)
        for name in self.spec.schedules:
            schedule(name)

    @property
    def contexts(self) -> tuple[int, ...]:
        """Numbers of probed contexts."""
        return _QUICK_CONTEXTS if self.spec.quick else self.spec.contexts

    def parts(self) -> dict[str, Cohort]:
        """Train, validation, test and control patients."""
        return open_splits(self.data)

    def generators(self) -> dict[str, Generator]:
        """The first fit of every row."""
        return {row: load(folder) for row, folder in self.fits.items()}

    def next_visit_generators(self) -> dict[str, Generator]:
        """The rows that can draw the next visit of a history."""
        return {name: one for name, one in self.generators().items() if "continue_" in METHODS[one.method].supports}

    def samples(self) -> dict[str, Cohort]:
        """The first sample of every row."""
        return {row: Cohort.open(folder) for row, folder in self.drawn.items()}

    # ---- observed fits --------------------------------------------------------------------------------------
    @property
    def main(self) -> ObservedRun:
        """The fit of the method itself."""
        return ObservedRun(generator_for(self.method, **self.settings).settings.schedule, self.seeds[0])

    def schedule_runs(self) -> list[ObservedRun]:
        """The fits of the schedules, by schedule and then by seed."""
        names = [schedule(name).name for name in self.spec.schedules] or FAMILY
        return [ObservedRun(name, seed) for name in names for seed in self.seeds]

    def runs(self) -> list[ObservedRun]:
        """Every observed fit that the parts need, once."""
        parts = self.spec.parts
        needed = "kernel" in parts or "probes" in parts
        return list(dict.fromkeys([self.main] * needed + self.schedule_runs() * ("schedules" in parts)))

    def run_folder(self, run: ObservedRun) -> Path:
        """Where the trajectory of an observed fit lies."""
        return self.folder / _TRAJECTORIES / run.schedule.replace(":", "-").replace(",", "-") / f"seed{run.seed}"

    def run_inputs(self, run: ObservedRun) -> dict[str, Any]:
        """What a trajectory depends on beside the patients."""
        settings = generator_for(self.method, **{"patience": NEVER, **self._changes(run)}).settings
        kernels = self._has_kernels(run)
        return {"settings": settings.fingerprint(), "contexts": max(self.contexts), "kernels": kernels}

    def _changes(self, run: ObservedRun) -> dict[str, Any]:
        return {**self.settings, "schedule": run.schedule, "seed": run.seed}

    def _has_kernels(self, run: ObservedRun) -> bool:
        return "kernel" in self.spec.parts and run == self.main

    def observe(self, folder: Path, run: ObservedRun) -> dict[str, Any]:
        """Train with probes, and kernels where a part needs them, and save the trajectory."""
        parts = self.parts()
        probes = probe_set(parts["train"], parts["test"], max(self.contexts))
        if probes.n_contexts < max(self.contexts):
            say(f"only {probes.n_contexts} held-out histories have a related and an unrelated tail code")
        kernels = self._has_kernels(run)
        fit = observed_fit(parts["train"], parts["valid"], probes, self.method, self._changes(run), kernels)
        save_trajectory(folder, probes, fit.trajectory, fit.kernels)
        return {}

    def trajectory(self, run: ObservedRun | None = None) -> SavedTrajectory:
        """The trajectory of an observed fit, of the method's own where none is named."""
        return open_trajectory(self.run_folder(run or self.main))

    # ---- the parts ------------------------------------------------------------------------------------------
    def inputs(self, part: str) -> dict[str, Any]:
        """What an analysis depends on beside the patients, fits and trajectories."""
        return {"part": part, **self.spec.model_dump(mode="json", exclude={"parts"})}

    def analyse(self, folder: Path, part: str) -> dict[str, Any]:
        """Do one analysis in its folder, and print its main results."""
        shutil.rmtree(folder, ignore_errors=True)
        results = ResultFolder(folder)
        PARTS[part](self, results)
        results.close()
        for name, value in results.facts.items():
            say(f"{name}: {value}")
        return {}


def reads_trajectories(part: str, settings: AnalysisSettings) -> bool:
    """Whether an analysis looks at fits that are observed along training."""
    return part in _OBSERVED or bool(settings.codes)


def remove_other_parts(folder: Path, parts: Sequence[str]) -> None:
    """Remove the analyses of an earlier run that the specification no longer lists."""
    for name in set(ANALYSES) - set(parts):
        shutil.rmtree(folder / name, ignore_errors=True)


# ---- the parts -------------------------------------------------------------------------------------------------
def _probes(subject: Subject, folder: ResultFolder) -> None:
    """Log-probabilities of probes along training, and what separates their kinds."""
    from adapcla.study.analysis.figures import probe_dynamics
    from adapcla.study.analysis.probes import curve_table, endpoint_table, separation_table, summary_table

    contexts, (probes, path, _) = subject.contexts, subject.trajectory()
    curves = curve_table(probes, path, max(contexts))
    separation = separation_table(probes, path, contexts)
    summary = summary_table(probes, path, contexts)
    folder.table("probe_summary", summary, checkpoints=len(path.steps) - 1, schedule=path.schedule)
    folder.table("probe_separation", separation, test="Wilcoxon signed rank over context means, two-sided")
    folder.table("probe_curves", curves)
    folder.table("endpoint", endpoint_table(path, probes.strata))
    folder.figure("probe_dynamics", probe_dynamics(curves))
    folder.facts["contexts"] = probes.n_contexts
    if probes.n_without_wrong:
        folder.facts["contexts without a wrong code"] = probes.n_without_wrong
    for row in separation.to_dicts():
        if row["contexts_asked"] == max(contexts) and row["measure"] == "final_gain":
            difference = f"{row['difference']:+.3f} log p, p = {row['p']:.2g}, n = {row['n']}"
            folder.facts[f"{row['first']} over {row['second']}"] = difference


def _schedules(subject: Subject, folder: ResultFolder) -> None:
    """The paper's schedules and a family of ramps under the same seeds and steps."""
    from adapcla.study.analysis.figures import endpoint_deviation, schedule_comparison

    saved = {run: subject.trajectory(run) for run in subject.schedule_runs()}
    probes = next(iter(saved.values())).probes
    summary, explained, endpoint = schedule_tables(probes, {run: kept.trajectory for run, kept in saved.items()})
    note = "related-rare probes; spread over probes"
    folder.table("schedules", summary, fit_seeds=len(subject.seeds), note=note)
    folder.table("schedules_explained", explained)
    folder.table("schedules_endpoint", endpoint)
    folder.figure("schedules", schedule_comparison(summary, explained))
    folder.figure("schedules_endpoint", endpoint_deviation(endpoint))
    for row in explained.to_dicts():
        if row["measure"] in ("auc", "mean_gain"):
            share = row["between"]
            percentage = "not defined" if np.isnan(share) else round(share, 4)
            folder.facts[f"{row['measure']} explained by {row['by']}"] = percentage


def _kernel(subject: Subject, folder: ResultFolder) -> None:
    """Whether the kernel before training says which probes gain."""
    from adapcla.study.analysis.figures import kernel_scatter
    from adapcla.study.analysis.kernel import correlation_table, eigenvalue_table, similarity_table

    saved = subject.trajectory()
    similar, eigen = similarity_table(*saved), eigenvalue_table(*saved)
    correlations = correlation_table(similar, eigen, subject.contexts)
    note = "Spearman; spread_of_x near 0 means that x is nearly a constant"
    folder.table("kernel_correlations", correlations, note=note)
    folder.table("kernel_similarity", similar.drop("context"))
    folder.table("kernel_eigenvalues", eigen.drop("context"))
    folder.figure("kernel", kernel_scatter(similar, eigen, correlations))
    for row in correlations.filter(correlations["kind"] == "all").to_dicts():
        if row["contexts"] == max(subject.contexts):
            folder.facts[f"{row['x']} and {row['y']} ({row['group']})"] = f"{row['verdict']}, n = {row['n']}"


#: The simulated population whose codes the bound is computed for, how many of them, and lengths of training.
BOUND_CODES, SETTING_CODES, HORIZONS = 300, 30, (30, 300, 3000)


def _gradient_flow(subject: Subject, folder: ResultFolder) -> None:
    """The flow of a linear head on simulated patients against the paper's bound."""
    from adapcla.io import simulator
    from adapcla.study.analysis.bound import centring, exact_setting, flow, flow_table, prior_shift_gap
    from adapcla.study.analysis.figures import bound_against_error

    law, shifted = (simulator.make_world(BOUND_CODES, population=name) for name in ("base", "shifted"))
    settings = [exact_setting(law, SETTING_CODES, horizon) for horizon in HORIZONS[: 1 if subject.spec.quick else None]]
    flows = [[flow(setting, schedule(name)) for name in FAMILY] for setting in settings]
    table = pl.concat([flow_table(some) for some in flows])
    folder.table("bound", table, norm="inverse kernel", curvature="smallest slope of the sigmoid along the path")
    folder.figure("bound", bound_against_error(flows[-1]))
    folder.facts |= {
        "bound crossed": int(table["violated"].sum()),
        "largest share of the bound used": float(table["largest_share_of_bound"].max()),  # type: ignore[arg-type]
        "scaffold off centre by": centring(simulator.true_prevalence(law, patients=400)).off_centre,
        "prior-shift identity off by": prior_shift_gap(law, shifted, law.newcomers),
    }


#: Draws of a next visit where a method has no exact probability, and simulated patients that are shown as examples.
DRAWS, EXAMPLES = 100, 2


def _cases(subject: Subject, folder: ResultFolder) -> None:
    """The next visit of every held-out patient, and neighbours of tail codes, for every row that can predict one."""
    from adapcla.study.analysis import cases, figures
    from adapcla.study.analysis.probes import next_visits

    parts, generators = subject.parts(), subject.next_visit_generators()
    train, test, samples = parts["train"], parts["test"], subject.samples()
    shortest = min((one.settings.architecture.context for one in generators.values()), default=None)
    held_out = next_visits(test, None if shortest is None else shortest - 1)
    methods = cases.predictors(generators, DRAWS, 1, held_out.histories)
    scores, bins = cases.next_visit_tables(held_out, methods, train.strata(), 1)
    rule = "all held-out patients of two visits or more"
    folder.table("next_visit", scores, patients=len(held_out.patients), rule=rule)
    folder.table("next_visit_calibration", bins)
    folder.figure("next_visit", figures.next_visit_scores(scores))
    folder.figure("next_visit_calibration", figures.next_visit_calibration(bins))
    folder.facts["held-out patients"] = len(held_out.patients)
    if cases.may_show_patients(test):
        table = cases.example_table(held_out, generators, train.strata(), EXAMPLES)
        folder.table("examples", table, rule="smallest hash of seed and history; what followed plays no part")
        folder.text("examples.md", cases.example_markdown(table))
        for number in range(table["example"].n_unique()):
            folder.figure(f"example-{number + 1}", figures.example_figure(table, number))
    overlap = cases.overlap_table(train, test, samples)
    folder.table("neighbours", overlap)
    folder.figure("neighbours", figures.neighbour_overlap(overlap))
    one_shot = next((one for one in generators.values() if one.settings.architecture.one_shot), None)
    has_trajectory = bool(subject.spec.codes) and subject.main in subject.runs()
    trajectory = subject.trajectory().trajectory if has_trajectory else None
    for token in subject.spec.codes:
        page = cases.code_page(token, train, test, samples, trajectory, one_shot, held_out)
        # Such a page shows small counts, so that it lies in a folder that the page of a study leaves out.
        name = f"codes/{token.replace('/', '-')}"
        folder.text(f"{name}.md", page.markdown())
        if page.trend is not None:
            folder.figure(name, figures.code_trend(page.trend, f"{token} {page.description}".strip()))


#: Held-out patients whose next visit is compared with the true one.
HISTORIES = 400


def _true_probabilities(subject: Subject, folder: ResultFolder) -> None:
    """How well each row's next-visit probabilities agree with the true ones of simulated patients."""
    from adapcla.study.analysis.cases import law_table, predictors

    parts, generators = subject.parts(), subject.next_visit_generators()
    histories = parts["test"].subset(np.arange(min(HISTORIES, parts["test"].n_patients)))
    methods = predictors(generators, DRAWS, 1, histories)
    table = law_table(parts["train"], histories, {name: methods[name] for name in generators})
    note = "Spearman; prevalence is what the prevalences of training alone give, another is another population's truth"
    folder.table("law", table, histories=histories.n_patients, note=note)


#: Rare codes that are pictured, and patients that are generated with each.
DISEASES, PATIENTS_EACH = 2, 200


def _diseases(subject: Subject, folder: ResultFolder) -> None:
    """The rarest codes that enough held-out patients have: these beside patients generated to have them."""
    from adapcla.data.criteria import Criteria
    from adapcla.evaluation.conditioned import FEWEST
    from adapcla.generation.conditional import sample_given
    from adapcla.report.figures.cohorts import disease, rarest

    generators, test = subject.generators(), subject.parts()["test"]
    row = next((name for name in ("tailwise", subject.method) if name in generators), None)
    if row is None:
        say("no row generates patients with a code: add tailwise, or the row of analyse.method, to fit.methods")
        return
    model = generators[row].model
    # What most patients have is no rare disease, however few patients there are.
    codes = [code for code in rarest(test, FEWEST, test.n_codes) if 2 * test.patient_counts[code] <= test.n_patients]
    learned = [code for code in codes if model.prevalence.on(test.vocabulary).share[code] > 0]
    for position in learned[:DISEASES]:
        code = test.vocabulary.codes[position]
        condition = Criteria.of(code.token)
        real, written = condition.patients(test), sample_given(model, PATIENTS_EACH, 1, condition)
        caption = (
            f"{code.token} {code.description}: {real.n_patients} held-out patients with it and {written.n_patients} "
            f"that {row} generated with it. Codes and visits of few real patients are left out."
        )
        folder.figure(code.token.replace("/", "-"), (disease(condition, real, written), caption))
    folder.facts["diseases"] = len(folder.captions)


PARTS: dict[str, Callable[[Subject, ResultFolder], None]] = {
    "probes": _probes,
    "schedules": _schedules,
    "kernel": _kernel,
    "bound": _gradient_flow,
    "cases": _cases,
    "law": _true_probabilities,
    "diseases": _diseases,
}
