"""What the cases leave in a folder: examples of single patients, shared neighbours, and a page a code."""

from __future__ import annotations

from pathlib import Path

from adapcla.analysis.examples import example_markdown, example_table
from adapcla.analysis.histories import NextVisits
from adapcla.analysis.keeping import open_trajectory
from adapcla.analysis.neighbourhoods import code_page, overlap_table
from adapcla.console import say
from adapcla.generators import Generator
from adapcla.records import Cohort, Strata
from adapcla.records.split import Split
from adapcla.report.figures.cases import example_figure, neighbour_overlap
from adapcla.report.figures.dynamics import code_trend
from adapcla.report.folder import ResultFolder

#: Where examples go: the second name says what it holds.
MADE_UP, REAL = "examples", "examples-of-real-patients"


def write_examples(
    folder: ResultFolder,
    cases: NextVisits,
    runs: dict[str, Generator],
    strata: Strata,
    n: int,
    seed: int,
    made_up: bool,
) -> None:
    """Write the examples as table, page and figures; single real patients get a folder and a warning of their own."""
    place = MADE_UP if made_up else REAL
    if not made_up:
        say(f"warning: {folder.out / place} holds single real patients; never share it")
    table = example_table(cases, runs, strata, n, seed)
    folder.table(f"{place}/examples", table, rule="smallest hash of seed and history; what followed plays no part")
    folder.text(f"{place}/examples.md", example_markdown(table))
    for number in range(table["example"].n_unique()):
        folder.figure(f"{place}/example-{number + 1}", example_figure(table, number))


def write_neighbours(folder: ResultFolder, parts: Split[Cohort], samples: dict[str, Cohort], seed: int) -> None:
    """Write the shared neighbours of all tail codes as table and figure."""
    overlap = overlap_table(parts.train, parts.test, samples, seed=seed)
    folder.table("neighbours", overlap)
    folder.figure("neighbours", neighbour_overlap(overlap))


def write_code_page(
    folder: ResultFolder,
    token: str,
    parts: Split[Cohort],
    samples: dict[str, Cohort],
    runs: dict[str, Generator],
    cases: NextVisits,
    trajectory: Path | None,
) -> None:
    """Write the page of one code, with its probability along the annealing where a trajectory was recorded."""
    path = None if trajectory is None else open_trajectory(trajectory)[1]
    one_shot = [run for run in runs.values() if run.settings.architecture.one_shot]
    page = code_page(token, parts.train, parts.test, samples, path, one_shot[0] if one_shot else None, cases)
    name = f"code-{token.replace('/', '-')}"
    folder.text(f"{name}.md", page.markdown())
    if page.trend is not None:
        folder.figure(name, code_trend(page.trend, f"{token} {page.description}".strip()))
