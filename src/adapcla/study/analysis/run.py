"""The analyses of an experiment: watched fits, then each part as a folder of tables, figures and captions."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from adapcla import files
from adapcla.console import say
from adapcla.data import Cohort, Strata
from adapcla.data.split_folder import open_splits
from adapcla.generation.generator import Generator, generator_for, load
from adapcla.scaffold import schedule
from adapcla.study.analysis.bound import FAMILY, schedule_tables
from adapcla.study.analysis.probes import NextVisits, Trajectory, probe_set, require_one_shot
from adapcla.study.analysis.watched import NEVER, SavedTrajectory, open_trajectory, probed_fit, save_trajectory
from adapcla.study.spec import ANALYSES, SUMMARY, AnalysisSettings
from adapcla.training.settings import METHODS


# ---- the folder of results -----------------------------------------------------------------------------------
class ResultFolder:
    """A folder that results are added to one by one; a populated one is refused before anything is computed."""

    def __init__(self, out: str | Path, overwrite: bool = False) -> None:
        self.out = Path(out)
        files.refuse_populated(self.out, overwrite)
        self.out.mkdir(parents=True, exist_ok=True)
        self.captions: dict[str, str] = {}
        #: What is worth telling at the end, by name.
        self.facts: dict[str, Any] = {}

    def table(self, name: str, frame: pl.DataFrame, **notes: Any) -> None:
        """Write a tidy table as NAME.csv and, with notes on how to read it, as NAME.json."""
        stem = self.out / name
        stem.parent.mkdir(parents=True, exist_ok=True)
        plain = frame.with_columns(pl.col(pl.Float64, pl.Float32).fill_nan(None))
        files.write_bytes(stem.with_name(stem.name + ".csv"), plain.write_csv().encode())
        content = {"notes": notes, "columns": plain.columns, "rows": plain.to_dicts()}
        files.write_json(stem.with_name(stem.name + ".json"), content)

    def figure(self, name: str, drawn: tuple[Any, str]) -> None:
        """Write a figure as NAME.svg and NAME.png and keep its caption."""
        from adapcla.report.style import save_both

        save_both(drawn[0], self.out / name)
        self.captions[name] = drawn[1]

    def text(self, name: str, content: str) -> None:
        """Write a page."""
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(path, content.encode())

    def close(self) -> Path:
        """Write captions and facts as the summary."""
        path = self.out / SUMMARY
        files.write_json(path, {"captions": self.captions, **self.facts})
        return path


# ---- pages of cases ------------------------------------------------------------------------------------------
#: Where single real patients go: the name says what it holds, and the page of an experiment leaves folders out.
REAL = "examples-of-real-patients"


def write_examples(
    folder: ResultFolder,
    cases: NextVisits,
    runs: dict[str, Generator],
    strata: Strata,
    n: int,
    made_up: bool,
) -> None:
    """Write the examples as table, page and figures; single real patients get a folder and a warning of their own."""
    from adapcla.study.analysis.cases import example_markdown, example_table
    from adapcla.study.analysis.figures import example_figure

    before = "" if made_up else f"{REAL}/"
    if not made_up:
        say(f"warning: {folder.out / REAL} holds single real patients; never share it")
    table = example_table(cases, runs, strata, n)
    folder.table(f"{before}examples", table, rule="smallest hash of seed and history; what followed plays no part")
    folder.text(f"{before}examples.md", example_markdown(table))
    for number in range(table["example"].n_unique()):
        folder.figure(f"{before}example-{number + 1}", example_figure(table, number))


def write_neighbours(folder: ResultFolder, train: Cohort, test: Cohort, samples: dict[str, Cohort]) -> None:
    """Write the shared neighbours of all tail codes as table and figure."""
    from adapcla.study.analysis.cases import overlap_table
    from adapcla.study.analysis.figures import neighbour_overlap

    overlap = overlap_table(train, test, samples)
    folder.table("neighbours", overlap)
    folder.figure("neighbours", neighbour_overlap(overlap))


def write_code_page(
    folder: ResultFolder,
    token: str,
    train: Cohort,
    test: Cohort,
    samples: dict[str, Cohort],
    runs: dict[str, Generator],
    cases: NextVisits,
    trajectory: Trajectory | None,
) -> None:
    """Write the page of one code, with its probability along the annealing where a trajectory was recorded.

    Such a page shows small counts, so that it lies in a folder that the page of an experiment leaves out.
    """
    from adapcla.study.analysis.cases import code_page
    from adapcla.study.analysis.figures import code_trend

    one_shot = [run for run in runs.values() if run.settings.architecture.one_shot]
    page = code_page(token, train, test, samples, trajectory, one_shot[0] if one_shot else None, cases)
    name = f"codes/{token.replace('/', '-')}"
    folder.text(f"{name}.md", page.markdown())
    if page.trend is not None:
        folder.figure(name, code_trend(page.trend, f"{token} {page.description}".strip()))


# ---- the parts -----------------------------------------------------------------------------------------------
#: Contexts of a quick analysis, and single patients that are shown of a made-up cohort; none of a real one.
_QUICK_CONTEXTS, _EXAMPLES = (30,), 2
_TRAJECTORIES = "trajectories"
#: Parts that need a watched fit, and parts that look at the fits of all rows.
_WATCHED, OF_ROWS = ("probes", "kernel", "schedules"), ("cases", "law", "diseases")


class Watched(NamedTuple):
    """A fit that is watched along training."""

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
        if set(self.spec.parts) & set(_WATCHED):
            require_one_shot(generator_for(self.method, **self.settings).settings)
        for name in self.spec.schedules:
            schedule(name)
        if self.spec.trajectory:
            files.verify_manifest(Path(self.spec.trajectory).expanduser())

    @property
    def contexts(self) -> tuple[int, ...]:
        """Numbers of probed contexts."""
        return _QUICK_CONTEXTS if self.spec.quick else self.spec.contexts

    def parts(self) -> dict[str, Cohort]:
        """Train, validation, test and control patients."""
        return open_splits(self.data)

    def runs(self) -> dict[str, Generator]:
        """The first fit of every row."""
        return {row: load(folder) for row, folder in self.fits.items()}

    def samples(self) -> dict[str, Cohort]:
        """The first sample of every row."""
        return {row: Cohort.open(folder) for row, folder in self.drawn.items()}

    # ---- fits that are watched ------------------------------------------------------------------------------
    @property
    def main(self) -> Watched:
        """The fit of the method itself."""
        return Watched(generator_for(self.method, **self.settings).settings.schedule, self.seeds[0])

    def compared(self) -> list[Watched]:
        """The fits of the schedules, by schedule and then by seed."""
        names = [schedule(name).name for name in self.spec.schedules] or FAMILY
        return [Watched(name, seed) for name in names for seed in self.seeds]

    def watched(self) -> list[Watched]:
        """Every fit that the parts need, once."""
        parts = self.spec.parts
        needed = "kernel" in parts or ("probes" in parts and not self.spec.trajectory)
        return list(dict.fromkeys([self.main] * needed + self.compared() * ("schedules" in parts)))

    def watched_folder(self, fit: Watched) -> Path:
        """Where a trajectory lies."""
        return self.folder / _TRAJECTORIES / fit.schedule.replace(":", "-").replace(",", "-") / f"seed{fit.seed}"

    def watched_inputs(self, fit: Watched) -> dict[str, Any]:
        """What a trajectory depends on beside the patients."""
        settings = generator_for(self.method, **{"patience": NEVER, **self._changes(fit)}).settings
        kernels = self._has_kernels(fit)
        return {"settings": settings.fingerprint(), "contexts": max(self.contexts), "kernels": kernels}

    def _changes(self, fit: Watched) -> dict[str, Any]:
        return {**self.settings, "schedule": fit.schedule, "seed": fit.seed}

    def _has_kernels(self, fit: Watched) -> bool:
        return "kernel" in self.spec.parts and fit == self.main

    def watch(self, folder: Path, fit: Watched) -> dict[str, Any]:
        """Train with probes, and kernels where the spec asks for them, and save the trajectory."""
        parts = self.parts()
        probes = probe_set(parts["train"], parts["test"], max(self.contexts))
        if probes.n_contexts < max(self.contexts):
            say(f"only {probes.n_contexts} held-out histories have a related and an unrelated tail code")
        kernels = self._has_kernels(fit)
        seen = probed_fit(parts["train"], parts["valid"], probes, self.method, self._changes(fit), kernels)
        save_trajectory(folder, probes, seen.trajectory, seen.kernels, overwrite=True)
        return {}

    def trajectory(self) -> SavedTrajectory:
        """The trajectory that probes and pages of codes look at: the one that was named, else the method's own."""
        given = self.spec.trajectory
        return open_trajectory(Path(given).expanduser() if given else self.watched_folder(self.main))

    # ---- the parts ------------------------------------------------------------------------------------------
    def inputs(self, part: str) -> dict[str, Any]:
        """What an analysis depends on beside the patients, fits and trajectories."""
        chosen = self.spec.model_dump(mode="json", exclude={"parts", "trajectory"})
        given = Path(self.spec.trajectory).expanduser() / files.MANIFEST
        return {"part": part, **chosen} | ({"trajectory": files.sha256_of(given)} if self.spec.trajectory else {})

    def analyse(self, folder: Path, part: str) -> dict[str, Any]:
        """Do one analysis in its folder, and print its main results."""
        shutil.rmtree(folder, ignore_errors=True)
        results = ResultFolder(folder)
        PARTS[part](self, results)
        results.close()
        for name, value in results.facts.items():
            say(f"{name}: {value}")
        return {}


def reads_trajectories(part: str, asked: AnalysisSettings) -> bool:
    """Whether an analysis looks at fits that are watched along training."""
    return part in _WATCHED or bool(asked.codes)


def remove_unasked(folder: Path, parts: Sequence[str]) -> None:
    """Remove the analyses of an earlier run that the specification no longer lists."""
    for name in set(ANALYSES) - set(parts):
        shutil.rmtree(folder / name, ignore_errors=True)


def _probes(subject: Subject, folder: Any) -> None:
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


def _schedules(subject: Subject, folder: Any) -> None:
    """The paper's schedules and a family of ramps under the same seeds and steps."""
    from adapcla.study.analysis.figures import endpoint_deviation, schedule_comparison

    saved = {fit: open_trajectory(subject.watched_folder(fit)) for fit in subject.compared()}
    probes = next(iter(saved.values())).probes
    study = schedule_tables(probes, {fit: kept.trajectory for fit, kept in saved.items()})
    note = "related-rare probes; spread over probes"
    folder.table("schedules", study.summary, fit_seeds=len(subject.seeds), note=note)
    folder.table("schedules_explained", study.explained)
    folder.table("schedules_endpoint", study.endpoint)
    folder.figure("schedules", schedule_comparison(study.summary, study.explained))
    folder.figure("schedules_endpoint", endpoint_deviation(study.endpoint))
    for row in study.explained.to_dicts():
        if row["measure"] in ("auc", "mean_gain"):
            share = row["between"]
            explained = "not defined" if np.isnan(share) else round(share, 4)
            folder.facts[f"{row['measure']} explained by {row['by']}"] = explained


def _kernel(subject: Subject, folder: Any) -> None:
    """Whether the kernel before training says which probes gain."""
    from adapcla.study.analysis.figures import kernel_scatter
    from adapcla.study.analysis.kernel import correlation_table, eigenvalue_table, similarity_table

    seen = open_trajectory(subject.watched_folder(subject.main))
    similar, eigen = similarity_table(*seen), eigenvalue_table(*seen)
    correlations = correlation_table(similar, eigen, subject.contexts)
    note = "Spearman; spread_of_x near 0 means that x is nearly a constant"
    folder.table("kernel_correlations", correlations, note=note)
    folder.table("kernel_similarity", similar.drop("context"))
    folder.table("kernel_eigenvalues", eigen.drop("context"))
    folder.figure("kernel", kernel_scatter(similar, eigen, correlations))
    for row in correlations.filter(correlations["kind"] == "all").to_dicts():
        if row["contexts"] == max(subject.contexts):
            folder.facts[f"{row['x']} and {row['y']} ({row['group']})"] = f"{row['verdict']}, n = {row['n']}"


def _bound(subject: Subject, folder: Any) -> None:
    """The flow of a linear head in the planted world against the paper's bound."""
    import polars as pl

    from adapcla.io import simulator as planted
    from adapcla.study.analysis.bound import centring, flow, flow_table, planted_setting, prior_shift_gap
    from adapcla.study.analysis.figures import bound_against_error

    spec = subject.spec
    law, shifted = (planted.make_world(spec.bound_world, population=name) for name in ("base", "shifted"))
    horizons = sorted(spec.horizons)[: 1 if spec.quick else None]
    settings = [planted_setting(law, spec.bound_codes, horizon) for horizon in horizons]
    flows = [[flow(setting, schedule(name)) for name in FAMILY] for setting in settings]
    table = pl.concat([flow_table(runs) for runs in flows])
    folder.table("bound", table, norm="inverse kernel", curvature="smallest slope of the sigmoid along the path")
    folder.figure("bound", bound_against_error(flows[-1]))
    folder.facts |= {
        "bound crossed": int(table["violated"].sum()),
        "largest share of the bound used": float(table["largest_share_of_bound"].max()),  # type: ignore[arg-type]
        "scaffold off centre by": centring(law.prevalence(patients=400)).off_centre,
        "prior-shift identity off by": prior_shift_gap(law, shifted, law.newcomers),
    }


def _that_go_on(subject: Subject) -> dict[str, Generator]:
    """The rows that can write a next visit."""
    return {name: run for name, run in subject.runs().items() if "continue_" in METHODS[run.method].supports}


def _cases(subject: Subject, folder: Any) -> None:
    """The next visit of every held-out patient, and neighbours of tail codes, for every row that can go on."""
    from adapcla.study.analysis.cases import may_show_patients, next_visit_tables, predictors
    from adapcla.study.analysis.figures import next_visit_calibration, next_visit_scores
    from adapcla.study.analysis.probes import next_visits

    spec, parts, runs = subject.spec, subject.parts(), _that_go_on(subject)
    train, test, samples = parts["train"], parts["test"], subject.samples()
    shortest = min((run.settings.architecture.context for run in runs.values()), default=None)
    held_out = next_visits(test, None if shortest is None else shortest - 1)
    methods = predictors(runs, spec.draws, 1, held_out.histories)
    scores, bins = next_visit_tables(held_out, methods, train.strata(), 1)
    rule = "all held-out patients of two visits or more"
    folder.table("next_visit", scores, patients=len(held_out.patients), rule=rule)
    folder.table("next_visit_calibration", bins)
    folder.figure("next_visit", next_visit_scores(scores))
    folder.figure("next_visit_calibration", next_visit_calibration(bins))
    folder.facts["held-out patients"] = len(held_out.patients)
    made_up = may_show_patients(test)
    shown = (_EXAMPLES if made_up else 0) if spec.examples is None else spec.examples
    if shown:
        write_examples(folder, held_out, runs, train.strata(), shown, made_up)
    write_neighbours(folder, train, test, samples)
    has_trajectory = spec.trajectory or subject.main in subject.watched()
    trajectory = subject.trajectory().trajectory if spec.codes and has_trajectory else None
    for token in spec.codes:
        write_code_page(folder, token, train, test, samples, runs, held_out, trajectory)


def _law(subject: Subject, folder: Any) -> None:
    """How well each row's next-visit probabilities agree with the law of the planted world."""
    from adapcla.study.analysis.cases import law_table, predictors

    parts, runs = subject.parts(), _that_go_on(subject)
    histories = parts["test"].subset(np.arange(min(subject.spec.histories, parts["test"].n_patients)))
    methods = predictors(runs, subject.spec.draws, 1, histories)
    table = law_table(parts["train"], histories, {name: methods[name] for name in runs})
    note = "Spearman; prevalence is what the prevalences of training alone give, another is another world's law"
    folder.table("law", table, histories=histories.n_patients, note=note)


def _diseases(subject: Subject, folder: Any) -> None:
    """The rarest codes that enough held-out patients have: these beside patients who were asked to have them."""
    from adapcla.data.criteria import Criteria
    from adapcla.evaluation.conditioned import FEWEST
    from adapcla.generation.conditional import sample_given
    from adapcla.report.figures.cohorts import disease, rarest

    runs, test = subject.runs(), subject.parts()["test"]
    row = next((name for name in ("tailwise", subject.method) if name in runs), None)
    if row is None:
        say("no row can be asked for patients with a code: add tailwise, or the row of analyse.method, to fit.methods")
        return
    model = runs[row].model
    # What most patients have is no rare disease, however few patients there are.
    codes = [code for code in rarest(test, FEWEST, test.n_codes) if 2 * test.patient_counts[code] <= test.n_patients]
    seen = [code for code in codes if model.prevalence.on(test.vocabulary).share[code] > 0]
    for position in seen[: subject.spec.diseases]:
        code = test.vocabulary.codes[position]
        condition = Criteria.of(code.token)
        real, written = condition.patients(test), sample_given(model, subject.spec.asked_for, 1, condition)
        caption = (
            f"{code.token} {code.description}: {real.n_patients} held-out patients with it and {written.n_patients} "
            f"that {row} wrote when asked for it. Codes and visits of few real patients are left out."
        )
        folder.figure(code.token.replace("/", "-"), (disease(condition, real, written), caption))
    folder.facts["diseases"] = len(folder.captions)


PARTS: dict[str, Callable[[Subject, Any], None]] = {
    "probes": _probes,
    "schedules": _schedules,
    "kernel": _kernel,
    "bound": _bound,
    "cases": _cases,
    "law": _law,
    "diseases": _diseases,
}
