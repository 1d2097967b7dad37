"""`adapcla analyse`: why the annealing works, or does not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapcla.commands.options import AsJson, Out, Overwrite, Seed, assignments, emit
from adapcla.console import say
from adapcla.errors import UsageError

if TYPE_CHECKING:
    from adapcla.analysis.probes import ProbeSet
    from adapcla.records.split import Split
    from adapcla.report.folder import ResultFolder

analyse = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

CohortFolder = Annotated[Path, typer.Argument(help="Cohort folder; split as `adapcla train` splits it.")]
SplitSeed = Annotated[int, typer.Option("--split-seed", help="Seed of the patient split.")]
Contexts = Annotated[str, typer.Option("--contexts", help="Numbers of probed contexts, with commas.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE of any setting of the method.")]
Seeds = Annotated[str, typer.Option("--seeds", help="Fit seeds, with commas.")]
Method = Annotated[str, typer.Option("--method", help="A row of `adapcla methods` with the independent head.")]
ScheduleName = Annotated[str | None, typer.Option("--schedule", help="base, fast, slow, cosine, … or ramp:H,R.")]


def register(app: typer.Typer) -> None:
    """Add the verb and what it can analyse."""
    app.add_typer(
        analyse, name="analyse", help="Say why the annealing works, or does not: probes, kernel, bound, cases."
    )


def _told(folder: ResultFolder, as_json: bool) -> None:
    """Close the folder and tell what was found."""
    folder.close()
    if as_json:
        emit({"out": str(folder.out), **folder.facts})
        return
    for name, value in folder.facts.items():
        say(f"{name}: {value}")
    say(f"tables and figures: {folder.out}")


def _numbers(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers with commas between them.

    >>> _numbers("30,100", "--contexts")
    (30, 100)
    """
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise UsageError(f"{option} {text}: expected whole numbers above 0 with commas between them")
    return found


def _changes(setting: list[str] | None, schedule: str | None, seed: int) -> dict[str, Any]:
    """The settings of a fit."""
    given = assignments(setting or [])
    return {"seed": seed, **given, **({"schedule": schedule} if schedule else {})}


def _probes(parts: Split, contexts: tuple[int, ...], seed: int, folder: ResultFolder) -> ProbeSet:
    """The probes, and what is worth saying about them."""
    from adapcla.analysis.probes import probe_set

    found = probe_set(parts.train, parts.test, max(contexts), seed)
    folder.facts["contexts"] = found.n_contexts
    if found.n_contexts < max(contexts):
        say(f"only {found.n_contexts} held-out histories have a related and an unrelated tail code")
    if found.n_without_wrong:
        folder.facts["contexts without a wrong code"] = found.n_without_wrong
    return found


@analyse.command("probes")
def probes(
    out: Out,
    cohort: Annotated[Path | None, typer.Argument(help="Cohort folder; or give --from.")] = None,
    saved: Annotated[
        Path | None, typer.Option("--from", help="Trajectory of an earlier run, in place of a fit.")
    ] = None,
    method: Method = "adapcla",
    schedule: ScheduleName = None,
    contexts: Contexts = "30,100",
    seed: Seed = 1,
    split_seed: SplitSeed = 4,
    setting: Settings = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Follow bias-free log-probabilities of related, unrelated and wrong codes along training."""
    from adapcla.analysis.keeping import open_trajectory, save_trajectory
    from adapcla.analysis.probing import probed_fit
    from adapcla.records import Cohort
    from adapcla.report.folder import ResultFolder

    wanted = _numbers(contexts, "--contexts")
    if (cohort is None) == (saved is None):
        raise UsageError("expected either a cohort folder to fit on, or --from a saved trajectory")
    if saved is not None:
        probed, trajectory = open_trajectory(saved)
        folder = ResultFolder(out, overwrite)
    else:
        parts = Cohort.open(Path(str(cohort))).split(seed=split_seed)
        folder = ResultFolder(out, overwrite)
        probed = _probes(parts, wanted, seed, folder)
        run = probed_fit(parts.train, parts.valid, probed, method, _changes(setting, schedule, seed))
        trajectory = run.trajectory
        save_trajectory(out / "trajectory", probed, trajectory, overwrite)
    _write_probes(folder, probed, trajectory, wanted)
    _told(folder, as_json)


def _write_probes(folder: ResultFolder, probed: Any, trajectory: Any, contexts: tuple[int, ...]) -> None:
    """Tables and figure of one trajectory."""
    from adapcla.analysis.endpoint import endpoint_table
    from adapcla.analysis.trajectories import curve_table, separation_table, summary_table
    from adapcla.report.figures.dynamics import probe_dynamics

    summary = summary_table(probed, trajectory, contexts)
    folder.table("probe_summary", summary, checkpoints=len(trajectory.steps) - 1, schedule=trajectory.schedule)
    separation = separation_table(probed, trajectory, contexts)
    folder.table("probe_separation", separation, test="Wilcoxon signed rank over context means, two-sided")
    curves = curve_table(probed, trajectory, max(contexts))
    folder.table("probe_curves", curves)
    folder.table("endpoint", endpoint_table(trajectory, probed.strata))
    folder.figure("probe_dynamics", probe_dynamics(curves))
    for row in separation.to_dicts():
        if row["contexts_asked"] == max(contexts) and row["measure"] == "final_gain":
            name = f"{row['first']} over {row['second']}"
            folder.facts[name] = f"{row['difference']:+.3f} log p, p = {row['p']:.2g}, n = {row['n']}"


@analyse.command("schedules")
def schedules(
    cohort: CohortFolder,
    out: Out,
    names: Annotated[
        str, typer.Option("--schedules", help="Names with semicolons; the paper's and a family of ramps.")
    ] = "",
    seeds: Seeds = "1",
    contexts: Annotated[int, typer.Option("--contexts", min=1, help="Number of probed contexts.")] = 100,
    split_seed: SplitSeed = 4,
    setting: Settings = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Compare schedules with the same seeds and steps, and say how much is only time without a scaffold."""
    from adapcla.analysis.probing import schedule_study
    from adapcla.analysis.schedules import FAMILY
    from adapcla.records import Cohort
    from adapcla.report.figures.bound import endpoint_deviation
    from adapcla.report.figures.schedules import schedule_comparison
    from adapcla.report.folder import ResultFolder
    from adapcla.scaffold import schedule as known

    chosen = tuple(known(name.strip()).name for name in names.split(";") if name.strip()) or FAMILY
    fits = _numbers(seeds, "--seeds")
    parts = Cohort.open(cohort).split(seed=split_seed)
    folder = ResultFolder(out, overwrite)
    probed = _probes(parts, (contexts,), 1, folder)
    study = schedule_study(parts.train, parts.valid, probed, chosen, fits, assignments(setting or []))
    folder.table("schedules", study.summary, fit_seeds=len(fits), note="related-rare probes; spread over probes")
    folder.table("schedules_explained", study.explained)
    folder.table("schedules_endpoint", study.endpoint)
    folder.figure("schedules", schedule_comparison(study.summary, study.explained))
    folder.figure("schedules_endpoint", endpoint_deviation(study.endpoint))
    for row in study.explained.to_dicts():
        if row["measure"] in ("auc", "mean_gain"):
            share = row["between"]
            told = "not defined" if share != share else round(share, 4)
            folder.facts[f"{row['measure']} explained by {row['by']}"] = told
    _told(folder, as_json)


@analyse.command("kernel")
def kernel(
    cohort: CohortFolder,
    out: Out,
    method: Method = "adapcla",
    schedule: ScheduleName = None,
    contexts: Contexts = "30,100",
    seed: Seed = 1,
    split_seed: SplitSeed = 4,
    setting: Settings = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Ask whether the kernel before training says which probes gain: similarity and smallest eigenvalue."""
    from adapcla.analysis.coupling import correlation_table, eigenvalue_table, similarity_table
    from adapcla.analysis.probing import probed_fit
    from adapcla.records import Cohort
    from adapcla.report.figures.kernel import kernel_scatter
    from adapcla.report.folder import ResultFolder

    wanted = _numbers(contexts, "--contexts")
    parts = Cohort.open(cohort).split(seed=split_seed)
    folder = ResultFolder(out, overwrite)
    probed = _probes(parts, wanted, seed, folder)
    run = probed_fit(parts.train, parts.valid, probed, method, _changes(setting, schedule, seed), kernels=True)
    similar = similarity_table(probed, run.trajectory, run.kernels)
    eigen = eigenvalue_table(probed, run.trajectory, run.kernels)
    told = correlation_table(similar, eigen, wanted)
    folder.table("kernel_correlations", told, note="Spearman; spread_of_x near 0 means that x is nearly a constant")
    folder.table("kernel_similarity", similar.drop("context"))
    folder.table("kernel_eigenvalues", eigen.drop("context"))
    folder.figure("kernel", kernel_scatter(similar, eigen, told))
    for row in told.filter(told["kind"] == "all").to_dicts():
        if row["contexts"] == max(wanted):
            folder.facts[f"{row['x']} and {row['y']} ({row['group']})"] = f"{row['verdict']}, n = {row['n']}"
    _told(folder, as_json)


@analyse.command("bound")
def bound(
    out: Out,
    codes: Annotated[int, typer.Option("--codes", min=2, help="Codes of the exact setting.")] = 30,
    world: Annotated[int, typer.Option("--world", min=60, help="Codes of the planted world they come from.")] = 300,
    horizons: Annotated[
        str, typer.Option("--horizons", help="Lengths of training in units of flow, with commas.")
    ] = "30,300,3000",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Integrate the flow of a linear head in the planted world and hold the error against the paper's bound."""
    import polars as pl

    from adapcla.analysis.identities import centring, prior_shift_gap
    from adapcla.analysis.internalization import flow, flow_table, planted_setting
    from adapcla.analysis.schedules import FAMILY
    from adapcla.report.figures.bound import bound_against_error
    from adapcla.report.folder import ResultFolder
    from adapcla.scaffold import schedule
    from adapcla.sources import planted

    lengths = _numbers(horizons, "--horizons")
    law = planted.law(world)
    folder = ResultFolder(out, overwrite)
    settings = [planted_setting(law, codes, length) for length in lengths]
    flows = [[flow(setting, schedule(name)) for name in FAMILY] for setting in settings]
    table = pl.concat([flow_table(runs) for runs in flows])
    folder.table("bound", table, norm="K⁻¹", curvature="smallest slope of the sigmoid along the path")
    folder.figure("bound", bound_against_error(flows[lengths.index(max(lengths))]))
    shifted = planted.law(world, population="shifted")
    centred = centring(law.prevalence(patients=400).prevalence)
    folder.facts = {
        "bound crossed": int(table["violated"].sum()),
        "largest share of the bound used": float(table["largest_share_of_bound"].max()),  # type: ignore[arg-type]
        "scaffold off centre by": centred.off_centre,
        "prior-shift identity off by": prior_shift_gap(law, shifted, law.newcomers),
    }
    _told(folder, as_json)


@analyse.command("cases")
def cases(
    cohort: CohortFolder,
    runs: Annotated[list[Path], typer.Argument(help="Folders of trained runs.")],
    out: Out,
    draws: Annotated[int, typer.Option("--draws", min=1, help="Draws where a method has no exact probability.")] = 100,
    patients: Annotated[
        int, typer.Option("--patients", min=0, help="Synthetic patients for neighbourhoods; 0: as train.")
    ] = 0,
    examples: Annotated[
        int | None, typer.Option("--examples", min=0, help="Single patients to show; 0 for real data if not given.")
    ] = None,
    code: Annotated[list[str] | None, typer.Option("--code", help="A page about this code; several allowed.")] = None,
    trajectory: Annotated[
        Path | None, typer.Option("--trajectory", help="From `analyse probes`, for the pages.")
    ] = None,
    seed: Seed = 1,
    split_seed: SplitSeed = 4,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Generate the next visit of every held-out patient, and compare neighbours of tail codes, for every run."""
    from adapcla.analysis.cases import next_visit_tables, predictors
    from adapcla.analysis.examples import may_show_patients
    from adapcla.analysis.histories import next_visits
    from adapcla.generators.generator import load
    from adapcla.records import Cohort
    from adapcla.report.case_pages import write_code_page, write_examples, write_neighbours
    from adapcla.report.figures.cases import next_visit_calibration, next_visit_scores
    from adapcla.report.folder import ResultFolder

    whole = Cohort.open(cohort)
    parts = whole.split(seed=split_seed)
    loaded = _named_runs([load(run) for run in runs], runs)
    folder = ResultFolder(out, overwrite)
    shortest = min(run.settings.architecture.context for run in loaded.values())
    held_out = next_visits(parts.test, shortest - 1)
    strata = parts.train.strata()
    methods = predictors(loaded, draws, seed, held_out.histories)
    scores, bins = next_visit_tables(held_out, methods, strata, seed)
    folder.table(
        "next_visit", scores, patients=len(held_out.patients), rule="all held-out patients of two visits or more"
    )
    folder.table("next_visit_calibration", bins)
    folder.figure("next_visit", next_visit_scores(scores))
    folder.figure("next_visit_calibration", next_visit_calibration(bins))
    folder.facts["held-out patients"] = len(held_out.patients)
    shown = (2 if may_show_patients(whole) else 0) if examples is None else examples
    if shown:
        write_examples(folder, held_out, loaded, strata, shown, seed, may_show_patients(whole))
    samples = {name: run.sample(patients or parts.train.n_patients, seed=seed) for name, run in loaded.items()}
    write_neighbours(folder, parts, samples, seed)
    for token in code or []:
        write_code_page(folder, token, parts, samples, loaded, held_out, trajectory)
    _told(folder, as_json)


def _named_runs(loaded: list[Any], places: list[Path]) -> dict[str, Any]:
    """Runs by method, or by folder where two runs have one method."""
    names = [run.method for run in loaded]
    if len(set(names)) < len(names):
        names = [str(place) for place in places]
    return dict(zip(names, loaded, strict=True))
