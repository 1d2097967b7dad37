"""Files of the two cases: examples of single patients, shared neighbours, and a page for each code."""

from __future__ import annotations

from adapcla.console import say
from adapcla.data import Cohort, Strata
from adapcla.generation import Generator
from adapcla.report.figures.cases import example_figure, neighbour_overlap
from adapcla.report.figures.dynamics import code_trend
from adapcla.study.analysis.examples import example_markdown, example_table
from adapcla.study.analysis.histories import NextVisits
from adapcla.study.analysis.neighbourhoods import code_page, overlap_table
from adapcla.study.analysis.trajectories import Trajectory
from adapcla.study.analysis_folder import ResultFolder

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
    one_shot = [run for run in runs.values() if run.settings.architecture.one_shot]
    page = code_page(token, train, test, samples, trajectory, one_shot[0] if one_shot else None, cases)
    name = f"codes/{token.replace('/', '-')}"
    folder.text(f"{name}.md", page.markdown())
    if page.trend is not None:
        folder.figure(name, code_trend(page.trend, f"{token} {page.description}".strip()))
