"""The analyses of an experiment: each part in a folder of its own, with tables, figures and captions."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adapcla.generators.generator import Generator
from adapcla.records import Cohort
from adapcla.report.folder import ResultFolder

#: Contexts of a full and of a quick analysis, codes and horizons of the exact setting, draws of cases.
CONTEXTS, QUICK_CONTEXTS = (30, 100), (30,)
_BOUND_CODES, _BOUND_WORLD, _HORIZONS = 30, 300, (30, 300, 3000)
_DRAWS = 100
#: Single patients shown of a made-up cohort; none of a real one.
_EXAMPLES = 2


@dataclass(frozen=True, eq=False)
class Subject:
    """What is analysed: a row with its settings, the cohort's parts, and the fits and samples of all rows."""

    method: str
    changes: dict[str, Any]
    parts: dict[str, Cohort]
    runs: dict[str, Generator]
    samples: dict[str, Cohort]
    quick: bool = False

    @property
    def contexts(self) -> tuple[int, ...]:
        """Numbers of probed contexts."""
        return QUICK_CONTEXTS if self.quick else CONTEXTS


def analyse(subject: Subject, parts: Sequence[str], out: Path) -> None:
    """Do the named analyses, each into its folder below `out`; those of an earlier run that are not named go."""
    for name in set(PARTS) - set(parts):
        shutil.rmtree(out / name, ignore_errors=True)
    for name in parts:
        folder = ResultFolder(out / name, overwrite=True)
        PARTS[name](subject, folder)
        folder.close()


def _probes(subject: Subject, folder: ResultFolder) -> None:
    """Log-probabilities of probes along training, and what separates their kinds."""
    from adapcla.analysis.endpoint import endpoint_table
    from adapcla.analysis.probes import probe_set
    from adapcla.analysis.probing import probed_fit
    from adapcla.analysis.trajectories import curve_table, separation_table, summary_table
    from adapcla.report.figures.dynamics import probe_dynamics

    contexts, parts = subject.contexts, subject.parts
    probed = probe_set(parts["train"], parts["test"], max(contexts))
    path = probed_fit(parts["train"], parts["valid"], probed, subject.method, subject.changes).trajectory
    curves = curve_table(probed, path, max(contexts))
    folder.table("probe_summary", summary_table(probed, path, contexts), schedule=path.schedule)
    test = "Wilcoxon signed rank over context means, two-sided"
    folder.table("probe_separation", separation_table(probed, path, contexts), test=test)
    folder.table("probe_curves", curves)
    folder.table("endpoint", endpoint_table(path, probed.strata))
    folder.figure("probe_dynamics", probe_dynamics(curves))
    folder.facts["contexts"] = probed.n_contexts


def _schedules(subject: Subject, folder: ResultFolder) -> None:
    """The paper's schedules and a family of ramps under the same seed and steps."""
    from adapcla.analysis.probes import probe_set
    from adapcla.analysis.probing import schedule_study
    from adapcla.analysis.schedules import FAMILY
    from adapcla.report.figures.bound import endpoint_deviation
    from adapcla.report.figures.schedules import schedule_comparison

    parts = subject.parts
    probed = probe_set(parts["train"], parts["test"], max(subject.contexts))
    changes = {name: value for name, value in subject.changes.items() if name not in ("schedule", "seed")}
    study = schedule_study(parts["train"], parts["valid"], probed, FAMILY, (subject.changes.get("seed", 1),), changes)
    folder.table("schedules", study.summary, note="related-rare probes; spread over probes")
    folder.table("schedules_explained", study.explained)
    folder.table("schedules_endpoint", study.endpoint)
    folder.figure("schedules", schedule_comparison(study.summary, study.explained))
    folder.figure("schedules_endpoint", endpoint_deviation(study.endpoint))


def _kernel(subject: Subject, folder: ResultFolder) -> None:
    """Whether the kernel before training says which probes gain."""
    from adapcla.analysis.coupling import correlation_table, eigenvalue_table, similarity_table
    from adapcla.analysis.probes import probe_set
    from adapcla.analysis.probing import probed_fit
    from adapcla.report.figures.kernel import kernel_scatter

    contexts, parts = subject.contexts, subject.parts
    probed = probe_set(parts["train"], parts["test"], max(contexts))
    run = probed_fit(parts["train"], parts["valid"], probed, subject.method, subject.changes, kernels=True)
    similar = similarity_table(probed, run.trajectory, run.kernels)
    eigen = eigenvalue_table(probed, run.trajectory, run.kernels)
    told = correlation_table(similar, eigen, contexts)
    folder.table("kernel_correlations", told, note="Spearman; spread_of_x near 0 means that x is nearly a constant")
    folder.figure("kernel", kernel_scatter(similar, eigen, told))


def _bound(subject: Subject, folder: ResultFolder) -> None:
    """The flow of a linear head in the planted world against the paper's bound."""
    import polars as pl

    from adapcla.analysis.internalization import bound_table, flow, planted_setting
    from adapcla.analysis.schedules import FAMILY
    from adapcla.report.figures.bound import bound_against_error
    from adapcla.scaffold import schedule
    from adapcla.sources import planted

    law = planted.law(_BOUND_WORLD)
    horizons = _HORIZONS[:1] if subject.quick else _HORIZONS
    tables = [bound_table(planted_setting(law, _BOUND_CODES, length), FAMILY) for length in horizons]
    folder.table("bound", pl.concat(tables), norm="inverse kernel")
    longest = planted_setting(law, _BOUND_CODES, max(horizons))
    folder.figure("bound", bound_against_error([flow(longest, schedule(name)) for name in FAMILY]))


def _cases(subject: Subject, folder: ResultFolder) -> None:
    """The next visit of every held-out patient, and neighbours of tail codes, for every row that can go on."""
    from adapcla.analysis.cases import next_visit_tables, predictors
    from adapcla.analysis.examples import example_markdown, example_table, may_show_patients
    from adapcla.analysis.histories import next_visits
    from adapcla.analysis.neighbourhoods import overlap_table
    from adapcla.generators.methods import METHODS
    from adapcla.report.figures.cases import example_figure, next_visit_calibration, next_visit_scores

    parts = subject.parts
    runs = {name: run for name, run in subject.runs.items() if "continue_" in METHODS[run.method].supports}
    shortest = min(run.settings.architecture.context for run in runs.values())
    held_out = next_visits(parts["test"], shortest - 1)
    strata = parts["train"].strata()
    scores, bins = next_visit_tables(held_out, predictors(runs, _DRAWS, 1, held_out.histories), strata, 1)
    folder.table("next_visit", scores, patients=len(held_out.patients))
    folder.table("next_visit_calibration", bins)
    folder.figure("next_visit", next_visit_scores(scores))
    folder.figure("next_visit_calibration", next_visit_calibration(bins))
    folder.table("neighbours", overlap_table(parts["train"], parts["test"], subject.samples))
    if may_show_patients(parts["test"]):
        table = example_table(held_out, runs, strata, _EXAMPLES)
        folder.text("examples.md", example_markdown(table))
        folder.figure("example", example_figure(table, 0))


PARTS: dict[str, Callable[[Subject, ResultFolder], None]] = {
    "probes": _probes,
    "schedules": _schedules,
    "kernel": _kernel,
    "bound": _bound,
    "cases": _cases,
}
