"""Which pictures a study gets, each with its key, its section and its caption."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from adapcla.data import Cohort
from adapcla.evaluation import Reference
from adapcla.evaluation.comparison import ALL
from adapcla.evaluation.numeric import ValueScales
from adapcla.evaluation.references import Beside
from adapcla.files import read_json
from adapcla.report.figures import (
    cooccurrence,
    differences,
    frequency,
    privacy,
    scaffold,
    scorecard,
    utility,
    whole_record,
)
from adapcla.report.figures.knowledge import tail_knowledge
from adapcla.report.figures.longtail import longtail
from adapcla.report.figures.privacy import Point
from adapcla.report.figures.steering import requested_against_achieved
from adapcla.scaffold.schedule import SCHEDULES
from adapcla.study.analysis_folder import SUMMARY
from adapcla.study.results import Measured, Study
from adapcla.study.verdicts import gain, side

#: Rows drawn side by side at most; tables have them all.
MOST_ROWS = 7
#: Rows that are drawn before others where there are more: ours, the paper's and its baselines, then ablations.
_FIRST = ("adapcla", "tailwise", "halo", "lstm", "gpt", "eva", "synteg", "adapcla-no-scaffold", "static-pcla")
#: Patients behind a heat map at most: enough for its colours.
MOST_PATIENTS = 20_000
_SCORECARD = (
    ("pair_seen", "PairSeen"),
    ("tail_pair_seen", "TailPairSeen"),
    ("tail_ctx_jsd", "TailCtxJSD"),
    ("tail_topk_jac", "TailTopKJac"),
    ("pair_seen_heldout", "PairSeen, held out"),
    ("tail_pair_seen_heldout", "TailPairSeen, held out"),
    ("tail_ctx_jsd_heldout", "TailCtxJSD, held out"),
    ("tail_topk_jac_heldout", "TailTopKJac, held out"),
    ("tail_coverage", "tail coverage"),
    ("prevalence_log_r2", "log prevalence R²"),
)
_BARS = (
    ("tstr_acc", "Acc"),
    ("tstr_f1", "F1"),
    ("tstr_auprc", "AUPRC"),
    ("tstr_masked_auroc", "masked AUROC"),
    ("tstr_next_auprc", "next-visit AUPRC"),
    ("tstr_next_auroc", "next-visit AUROC"),
)
_COPIES = (
    ("copy_excess", "Exact copies"),
    ("rare_copy_excess", "Copies with rare codes"),
    ("near_copy_excess", "Near copies"),
)


#: What was taken from single patients.
_MEMORY = "unique_pair_gap"
#: What is known of the tail of other patients, the first that was judged.
_KNOWLEDGE = (
    ("tail_information_share", "all", "tail information (0: chance, 1: as many real patients)"),
    ("tail_pair_seen_heldout", "halves", "tail pairs that held-out patients hold"),
)


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with what the page says of it."""

    key: str
    section: str
    title: str
    caption: str
    #: The drawn figure, or the SVG file that holds it.
    figure: Figure | Path
    #: Whether it has so many marks that pixels are smaller than shapes.
    dense: bool = False


def drawn_rows(rows: Sequence[str], most: int = MOST_ROWS) -> list[str]:
    """The rows that figures show side by side, in their own order.

    >>> drawn_rows(["adapcla", "adapcla-reversed", "blockwise", "tailwise"], most=3)
    ['adapcla', 'adapcla-reversed', 'tailwise']
    """
    known = [row for row in _FIRST if row in rows]
    chosen = [*known, *(row for row in rows if row not in known)][:most]
    return [row for row in rows if row in chosen]


def pictures(study: Study) -> Iterator[Picture]:
    """The pictures of a study, in the order of the page."""
    rows = drawn_rows(study.rows)
    train = study.part("train")
    generated = {row: some(study.synthetic(row)) for row in rows}
    caption = "Visits of each code by rank with its strata, codes per visit, visits per patient; training patients."
    yield Picture("long-tail", "data", "The long tail of the training patients", caption, longtail(train))
    yield from _knowledge_pictures(study)
    yield from _memory_pictures(study)
    card = scorecard_values(study)
    if any(value is not None for cells in card.values() for value in cells):
        drawn, caption = scorecard.tail_scorecard(card, [heading for _, heading in _SCORECARD])
        yield Picture("scorecard", "tail", "Tail scorecard", caption, drawn)
    yield from _difference_pictures(study)
    yield from _cohort_pictures(train, {"real (test)": study.part("test"), **generated})
    yield from _whole_record_pictures(train, {"real (test)": study.part("test"), **generated})
    yield from _curve_pictures(study, rows)
    yield from _steering_pictures(study, train)
    yield from _analysis_pictures(study)


def _knowledge_pictures(study: Study) -> Iterator[Picture]:
    """The tail information of every row and of the references that have one."""
    rows, beside = (
        {name: study.measured(row, "tail_information_share", ALL) for name, row in some_rows.items()}
        for some_rows in ({row: row for row in study.rows}, {one.label: one for one in study.references})
    )
    beside = {name: share for name, share in beside.items() if share is not None}
    if any(share is not None for share in rows.values()):
        drawn, caption = tail_knowledge(rows, beside)
        yield Picture("tail-knowledge", "knowledge", "Knowledge of the tail", caption, drawn)


def _difference_pictures(study: Study) -> Iterator[Picture]:
    """What each row gains over AdaPCLA in the tail, where several rows have several fits to be paired."""
    others = [row for row in study.rows if row != "adapcla"]
    if len(others) < 2 or len(others) == len(study.rows) or len(study.spec["fit"]["seeds"]) < 2:
        return
    gains: dict[str, list[Measured | None]] = {}
    for row in others:
        cells = []
        for metric, stratum in differences.METRICS:
            one, two = (side(study, name, metric, stratum) for name in (row, "adapcla"))
            cells.append(None if one is None or two is None else gain(one, two, study.goal(metric)))
        gains[row] = cells
    if any(cell is not None for cells in gains.values() for cell in cells):
        drawn, caption = differences.tail_differences(gains, "adapcla")
        yield Picture("differences", "tail", "Differences to AdaPCLA", caption, drawn)


def _cohort_pictures(train: Cohort, generated: dict[str, Cohort]) -> Iterator[Picture]:
    """Pictures of counts."""
    drawn, caption = frequency.frequency_rank(train, generated)
    yield Picture("frequency-rank", "fidelity", "Frequency and rank by method", caption, drawn)
    drawn, caption = frequency.frequency_frequency(train, generated)
    yield Picture("frequency-frequency", "fidelity", "Frequency against frequency", caption, drawn, True)
    drawn, caption = frequency.rank_rank(train, generated)
    yield Picture("rank-rank", "fidelity", "Rank against rank", caption, drawn, True)
    drawn, caption = cooccurrence.ppmi_heatmaps(some(train), generated)
    yield Picture("ppmi", "tail", "Codes that stand together", caption, drawn, True)
    drawn, caption = cooccurrence.label_heatmaps(some(train), generated)
    yield Picture("given-label", "tail", "Codes given a label", caption, drawn, True)


def _whole_record_pictures(train: Cohort, generated: dict[str, Cohort]) -> Iterator[Picture]:
    """Pictures of numbers and stays, where the records have them."""
    if ValueScales.of(train).evaluated.any():
        drawn, caption = whole_record.quantile_panels(train, generated)
        yield Picture("quantiles", "numbers", "Values against values", caption, drawn)
    if whole_record.stay_groups(train):
        drawn, caption = whole_record.stay_bars(train, generated)
        yield Picture("stays", "stays", "Kinds and endings", caption, drawn)


def _curve_pictures(study: Study, rows: list[str]) -> Iterator[Picture]:
    """Pictures of utility, reliability and privacy, as far as these were judged."""
    bars = {row: [_cell(study, row, metric) for metric, _ in _BARS] for row in rows}
    if any(cell is not None for cells in bars.values() for cell in cells):
        best = [_cell(study, Reference.REAL_TRAIN, metric) for metric, _ in _BARS]
        drawn, caption = utility.downstream_bars(
            bars, [h for _, h in _BARS], [None if b is None else b[0] for b in best]
        )
        yield Picture("downstream", "utility", "Downstream utility", caption, drawn)
    curves: dict[str, Any] = {row: study.curves(row) for row in rows}
    reliable = {row: curve["reliability"] for row, curve in curves.items() if curve.get("reliability")}
    if reliable:
        drawn, caption = utility.reliability_diagrams(reliable)
        yield Picture("reliability", "reliability", "Reliability diagrams", caption, drawn)
    halved = {row: curve["reliability_balanced"] for row, curve in curves.items() if curve.get("reliability_balanced")}
    if halved:
        drawn, caption = utility.reliability_diagrams(halved)
        caption = f"The paper's form: classifiers trained and judged on sets in which half have the label. {caption}"
        yield Picture("reliability-balanced", "reliability", "Reliability diagrams, 50/50", caption, drawn)
    attacked = {row: curve["roc"] for row, curve in curves.items() if curve.get("roc")}
    if attacked:
        drawn, caption = privacy.roc_curves(attacked)
        yield Picture("roc", "privacy", "Membership attacks", caption, drawn)
    copies = {row: [_cell(study, row, metric) for metric, _ in _COPIES] for row in rows}
    copies[Reference.TRAIN_COPY.label] = [_cell(study, Reference.TRAIN_COPY, metric) for metric, _ in _COPIES]
    if any(cell is not None for cells in copies.values() for cell in cells):
        drawn, caption = privacy.copy_excess(copies, [heading for _, heading in _COPIES])
        yield Picture("copies", "privacy", "Copies beyond chance", caption, drawn)


def _memory_pictures(study: Study) -> Iterator[Picture]:
    """Memory against what is known of the tail, where both were judged."""
    for metric, stratum, knows in _KNOWLEDGE:

        def points(rows: Sequence[str | Beside], metric: str = metric, stratum: str = stratum) -> dict[str, Point]:
            pairs = {row: (study.measured(row, _MEMORY), study.measured(row, metric, stratum)) for row in rows}
            return {str(getattr(row, "label", row)): (x, y) for row, (x, y) in pairs.items() if x and y}

        methods, beside = points(study.rows), points(study.references)
        memory, real = study.real(_MEMORY), study.real(metric, stratum)
        if memory and real:
            beside = {"real": (memory, real), **beside}
        if methods:
            beside.pop(Reference.REAL_TEST.label, None)
            drawn, caption = privacy.memory_against_tail(methods, beside, real, knows)
            yield Picture("memory", "knowledge", "Knowledge of the tail against memory of patients", caption, drawn)
            return


def _steering_pictures(study: Study, train: Cohort) -> Iterator[Picture]:
    """Requested against achieved prevalence for each steered row and target; schedules beside the analysis."""
    for row in study.rows:
        ways = study.ways(row)
        for target in dict.fromkeys(way["target"] for way in ways):
            goal = Cohort.open(study.folder / study.about["targets"][target] / "train").prevalence()
            steered = {w["mode"]: Cohort.open(study.folder / w["cohort"]) for w in ways if w["target"] == target}
            achieved = {_WAYS[mode]: cohort.prevalence() for mode, cohort in steered.items()}
            n_visits = min(cohort.n_visits for cohort in steered.values())
            drawn = requested_against_achieved(train.prevalence(), goal, achieved, n_visits)
            caption = (
                "Every dot is a code: what was asked for and what came out. Grey: the population that was trained on. "
                "The band is three standard errors of sampling."
            )
            title = f"{row} towards “{target}”: requested and achieved prevalence"
            yield Picture(f"control-{row}-{target}", "control", title, caption, drawn, True)
    used = [str(settings.get("schedule", "none")) for settings in study.settings.values()]
    drawn, caption = scaffold.schedule_curves(
        list(dict.fromkeys([*scaffold.NAMED, *(u for u in used if u not in SCHEDULES)]))
    )
    yield Picture("schedules", "analysis", "Schedules", caption, drawn)


_WAYS = {"none": "not steered", "paper": "paper's rule", "calibrated": "closed loop"}


def _analysis_pictures(study: Study) -> Iterator[Picture]:
    """The pictures that the analyses left, with their captions."""
    if not study.about.get("analysis"):
        return
    for summary in sorted((study.folder / study.about["analysis"]).glob(f"*/{SUMMARY}")):
        for name, caption in read_json(summary).get("captions", {}).items():
            if "/" in name:  # single real patients and small counts stay where the data may be
                continue
            picture = summary.parent / f"{name}.svg"
            if summary.parent.name == "diseases":  # named by their codes, whose letters stay as they are
                yield Picture(f"disease-{name}", "disease", caption.partition(":")[0], caption, picture)
            else:
                title = name.replace("_", " ").capitalize()
                yield Picture(f"analysis-{name}", "analysis", title, caption, picture)


def scorecard_values(study: Study) -> dict[str, list[float | None]]:
    """Normalised scores by row, from the matched stratum where the plain one cannot be normalised; means over fits."""
    out: dict[str, list[float | None]] = {}
    table = study.scores
    for row in study.rows:
        cells: list[float | None] = []
        for metric, _ in _SCORECARD:
            mine = (
                pl.DataFrame()
                if table.is_empty()
                else table.filter((pl.col("row") == row) & (pl.col("metric") == metric))
            )
            mean = None
            for stratum in ("all", "matched", "halves"):
                if mean is None and not mine.is_empty():
                    known = mine.filter(pl.col("stratum") == stratum)["normalised"].drop_nulls()
                    mean = float(np.mean(known.to_numpy())) if len(known) else None
            cells.append(mean)
        out[row] = cells
    return out


def some(cohort: Cohort) -> Cohort:
    """The first patients of a cohort, at most `MOST_PATIENTS`.

    >>> some(Cohort.of([[["A"]]] * 3)).n_patients
    3
    """
    return cohort if cohort.n_patients <= MOST_PATIENTS else cohort.subset(np.arange(MOST_PATIENTS))


def _cell(study: Study, row: str | Reference, metric: str) -> tuple[float, float | None, float | None] | None:
    """A number with its interval."""
    measured = study.measured(row, metric)
    return None if measured is None else (measured.value, measured.low, measured.high)
