"""The page of one or more studies: sections in order, each with its tables and figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adapcla.console import say
from adapcla.data import Cohort
from adapcla.evaluation import Reference
from adapcla.evaluation.comparison import ALL
from adapcla.evaluation.numeric import ValueScales
from adapcla.evaluation.references import Beside
from adapcla.files import read_json, write_bytes
from adapcla.report.aggregates import stay_groups
from adapcla.report.figures import cohorts, scores
from adapcla.report.html import Facts, Figure, Listing, Page, Part, Section, Text
from adapcla.scaffold.schedule import SCHEDULES
from adapcla.study import tables
from adapcla.study.comparison import (
    FEWEST_FITS,
    HELD,
    INCONCLUSIVE,
    NOT_HELD,
    ClaimResult,
    claims_not_evaluated,
    claims_table,
    evaluate_claims,
)
from adapcla.study.results import Study
from adapcla.study.spec import SUMMARY
from adapcla.tables import Table

_FOOTER = (
    "Aggregates only: no record of a patient is on this page. The privacy of synthetic records was tested; it is not "
    "guaranteed."
)


def write_study_page(studies: Sequence[Study], folder: Path) -> Path:
    """Write `report.html` of one or more studies into a folder, with the tables and figures of each beside it."""
    if len(studies) == 1:
        write_scores(studies[0], folder)
        return study_page(studies[0]).save(folder / "report.html")
    sections: list[Section] = []
    for study, name in zip(studies, distinct_names([study.name for study in studies]), strict=True):
        page = study_page(study, name)
        write_scores(study, folder / name)
        page.save(folder / name / "report.html")
        # Every figure lies in the folder of its study, from where the merged page takes it.
        top = [Text(text, kind) for text, kind in ((page.lead, ""), (page.warning, "warning")) if text]
        sections.append(Section(anchor(name), page.title, top, top=True))
        sections += [
            section._replace(parts=_with_saved_figures(section.parts, folder / name)) for section in page.sections
        ]
    page = Page(f"{len(studies)} experiments", (), sections, footer=_FOOTER)
    write_bytes(folder / "report.html", page.html().encode())
    return folder / "report.html"


def _with_saved_figures(parts: Sequence[Part], folder: Path) -> list[Part]:
    """The parts with figures that were saved in a folder taken from there."""
    return [
        part._replace(drawing=folder / "figures" / part.key) if isinstance(part, Figure) else part for part in parts
    ]


def study_page(study: Study, name: str = "") -> Page:
    """Everything that is shown of a study."""
    results = evaluate_claims(study)
    prefix = anchor(name or study.name)
    sections = [section._replace(id=f"{prefix}-{section.id}") for section in _sections(study, results) if section.parts]
    overview = Section(f"{prefix}-overview", "Overview", [_facts(study, results)])
    warning = _warning(study)
    return Page(study.title, (), [overview, *sections], lead=study.spec["summary"], warning=warning, footer=_FOOTER)


def write_scores(study: Study, folder: Path) -> None:
    """Write every score of every method, fit and sample as one long table."""
    if not study.scores.is_empty():
        (folder / "tables").mkdir(parents=True, exist_ok=True)
        content = study.scores.drop("redrawn", strict=False).write_csv().encode()
        write_bytes(folder / "tables" / "scores.csv", content)


def anchor(name: str) -> str:
    """A name as part of an address.

    >>> anchor("mimic4.small")
    'mimic4-small'
    """
    return re.sub(r"[^a-z0-9]+", "-", name)


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names, with a number behind each that occurs again.

    >>> distinct_names(["demo", "chile", "demo"])
    ['demo', 'chile', 'demo-2']
    """
    return [name if name not in names[:i] else f"{name}-{names[:i].count(name) + 1}" for i, name in enumerate(names)]


def _sections(study: Study, results: Sequence[ClaimResult]) -> Iterator[Section]:
    """The sections in order; one without parts is not shown."""
    shown = {layout.key: tables.score_table(study, layout) for layout in tables.SCORE_TABLES}
    drawn: dict[str, list[Figure]] = {}
    for place, figure in figures(study):
        say(f"figure {figure.key}")
        drawn.setdefault(place, []).append(figure)

    def section(name: str, title: str, *some: Table | None) -> Section:
        return Section(name, title, [*(table for table in some if table is not None), *drawn.get(name, [])])

    title = "Knowledge and memorisation of the tail"
    yield section("knowledge", title, shown["tail-glance"])._replace(short="Knowledge")
    claims = section("claims", "Claims", claims_table(study, results))
    unseen = claims_not_evaluated(study)
    if unseen:
        listing = Listing(f"{len(unseen)} claims whose methods this run does not have", unseen)
        claims = claims._replace(parts=[*claims.parts, listing])
    yield claims
    yield section("data", "Data", tables.data_card(study))
    yield section("tail", "The tail", shown["tail-plausibility"], shown["tail-plausibility-heldout"])
    yield section("disease", "Rare diseases")
    yield section("fidelity", "Fidelity", shown["fidelity"], shown["by-domain"])
    yield section("numbers", "Values", shown["numbers"])
    yield section("stays", "Stays and outcomes", shown["stays"])
    yield section("course", "Course of records", shown["course"])._replace(short="Course")
    yield section("discriminator", "Discriminator", shown["discriminator"], tables.discriminator_table(study))
    yield section("utility", "Utility", shown["utility"])
    yield section("reliability", "Reliability", shown["reliability"])
    yield section("control", "Steering", tables.steering_table(study))
    yield section("privacy", "Privacy", tables.privacy_table(study), shown["privacy"])
    yield section("others", "Other evaluators", *tables.evaluator_tables(study.folder))
    analyses = (*tables.analysis_tables(study), *tables.paper_analysis_tables(study))
    yield section("analysis", "Analysis", *analyses)
    yield section("cost", "Cost", tables.grid_table(study), tables.cost_table(study))
    yield section("settings", "Settings", tables.settings_table(study))
    yield section("environment", "Environment", tables.environment_table(study))


def _facts(study: Study, results: Sequence[ClaimResult]) -> Facts:
    """The numbers under the title."""
    verdicts = [one.verdict for one in results]
    description = study.data_record["description"]
    fits = len(study.about["fits"])
    return Facts(
        (
            (str(verdicts.count(HELD)), "claims held", "held"),
            (str(verdicts.count(NOT_HELD)), "did not hold", "did-not-hold"),
            (str(verdicts.count(INCONCLUSIVE)), "inconclusive", ""),
            (f"{description['patients']:,}", "patients", ""),
            (f"{description['codes_present']:,}", "codes", ""),
            (str(fits), f"fits of {len(study.rows)} methods", ""),
        )
    )


def _warning(study: Study) -> str:
    """What a reader must know before reading a number."""
    words = [f"{row}, {why}." for row, fits in study.failures.items() for why in fits]
    if study.quick:
        words.append("This is a quick evaluation: few draws and small classifiers. Not a result.")
    if study.rows and len(study.spec["fit"]["seeds"]) < FEWEST_FITS:
        words.append(f"Fewer than {FEWEST_FITS} fits of each method: no claim between methods can be decided.")
    return " ".join(words)


# ---- figures --------------------------------------------------------------------------------------------------
#: Rows drawn side by side at most; tables have them all.
MOST_ROWS = 7
#: Rows that are drawn before others where there are more: ours, the paper's and its baselines, then ablations.
_FIRST = ("adapcla", "tailwise", "halo", "lstm", "gpt", "eva", "synteg", "adapcla-no-scaffold", "static-pcla")
#: Patients behind a heat map at most: enough for its colours.
MOST_PATIENTS = 20_000
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
#: What is known of the tail of other patients, the first that was scored.
_KNOWLEDGE = (
    ("tail_information_share", "all", "tail information (0: chance, 1: as many real patients)"),
    ("tail_pair_seen_heldout", "halves", "tail pairs that held-out patients hold"),
)


def drawn_rows(rows: Sequence[str], most: int = MOST_ROWS) -> list[str]:
    """The rows that figures show side by side, in their own order.

    >>> drawn_rows(["adapcla", "adapcla-reversed", "blockwise", "tailwise"], most=3)
    ['adapcla', 'adapcla-reversed', 'tailwise']
    """
    known = [row for row in _FIRST if row in rows]
    chosen = [*known, *(row for row in rows if row not in known)][:most]
    return [row for row in rows if row in chosen]


def figures(study: Study) -> Iterator[tuple[str, Figure]]:
    """The figures of a study, each with the section it belongs to, in the order of the page."""
    rows = drawn_rows(study.rows)
    train = study.part("train")
    generated = {row: some(study.synthetic(row)) for row in rows}
    caption = "Visits of each code by rank with its strata, codes per visit, visits per patient; training patients."
    yield "data", Figure("long-tail", "The long tail of the training patients", caption, cohorts.longtail(train))
    yield from _knowledge_figures(study)
    yield from _memory_figures(study)
    yield from _cohort_figures(train, {"real (test)": study.part("test"), **generated})
    yield from _whole_record_figures(train, {"real (test)": study.part("test"), **generated})
    yield from _curve_figures(study, rows)
    yield from _steering_figures(study, train)
    yield from _analysis_figures(study)


def _knowledge_figures(study: Study) -> Iterator[tuple[str, Figure]]:
    """The tail information of every row and of the references that have one."""
    rows, beside = (
        {name: study.estimate(row, "tail_information_share", ALL) for name, row in some_rows.items()}
        for some_rows in ({row: row for row in study.rows}, {one.label: one for one in study.references})
    )
    if any(share is not None for share in rows.values()):
        known = {name: share for name, share in beside.items() if share is not None}
        drawn, caption = scores.tail_knowledge(rows, known)
        yield "knowledge", Figure("tail-knowledge", "Knowledge of the tail", caption, drawn)


def _cohort_figures(train: Cohort, generated: dict[str, Cohort]) -> Iterator[tuple[str, Figure]]:
    """Figures of counts."""
    drawn, caption = cohorts.frequency_rank(train, generated)
    yield "fidelity", Figure("frequency-rank", "Frequency and rank by method", caption, drawn)
    drawn, caption = cohorts.frequency_frequency(train, generated)
    yield "fidelity", Figure("frequency-frequency", "Frequency against frequency", caption, drawn, True)
    drawn, caption = cohorts.rank_rank(train, generated)
    yield "fidelity", Figure("rank-rank", "Rank against rank", caption, drawn, True)
    drawn, caption = cohorts.ppmi_heatmaps(some(train), generated)
    yield "tail", Figure("ppmi", "Codes that occur together", caption, drawn, True)
    drawn, caption = cohorts.label_heatmaps(some(train), generated)
    yield "tail", Figure("given-label", "Codes given a label", caption, drawn, True)


def _whole_record_figures(train: Cohort, generated: dict[str, Cohort]) -> Iterator[tuple[str, Figure]]:
    """Figures of numbers and stays, where the records have them."""
    if ValueScales.of(train).evaluated.any():
        drawn, caption = cohorts.quantile_panels(train, generated)
        yield "numbers", Figure("quantiles", "Values against values", caption, drawn)
    if stay_groups(train):
        drawn, caption = cohorts.stay_bars(train, generated)
        yield "stays", Figure("stays", "Kinds and endings", caption, drawn)


def _curve_figures(study: Study, rows: list[str]) -> Iterator[tuple[str, Figure]]:
    """Figures of utility, reliability and privacy, as far as these were evaluated."""
    bars = {row: [_cell(study, row, metric) for metric, _ in _BARS] for row in rows}
    if any(cell is not None for cells in bars.values() for cell in cells):
        best = [_cell(study, Reference.REAL_TRAIN, metric) for metric, _ in _BARS]
        drawn, caption = scores.downstream_bars(
            bars, [h for _, h in _BARS], [None if b is None else b[0] for b in best]
        )
        yield "utility", Figure("downstream", "Downstream utility", caption, drawn)
    curves: dict[str, Any] = {row: study.curves(row) for row in rows}
    reliable = {row: curve["reliability"] for row, curve in curves.items() if curve.get("reliability")}
    if reliable:
        drawn, caption = scores.reliability_diagrams(reliable)
        yield "reliability", Figure("reliability", "Reliability diagrams", caption, drawn)
    halved = {row: curve["reliability_balanced"] for row, curve in curves.items() if curve.get("reliability_balanced")}
    if halved:
        drawn, caption = scores.reliability_diagrams(halved)
        caption = f"The paper's form: classifiers trained and evaluated on sets in which half have the label. {caption}"
        yield "reliability", Figure("reliability-balanced", "Reliability diagrams, 50/50", caption, drawn)
    attacked = {row: curve["roc"] for row, curve in curves.items() if curve.get("roc")}
    if attacked:
        drawn, caption = scores.roc_curves(attacked)
        yield "privacy", Figure("roc", "Membership attacks", caption, drawn)
    copies = {row: [_cell(study, row, metric) for metric, _ in _COPIES] for row in rows}
    copies[Reference.TRAIN_COPY.label] = [_cell(study, Reference.TRAIN_COPY, metric) for metric, _ in _COPIES]
    if any(cell is not None for cells in copies.values() for cell in cells):
        drawn, caption = scores.copy_excess(copies, [heading for _, heading in _COPIES])
        yield "privacy", Figure("copies", "Copies beyond chance", caption, drawn)


def _memory_figures(study: Study) -> Iterator[tuple[str, Figure]]:
    """Memory against what is known of the tail, where both were scored."""
    for metric, stratum, knows in _KNOWLEDGE:

        def points(
            rows: Sequence[str | Beside], metric: str = metric, stratum: str = stratum
        ) -> dict[str, scores.Point]:
            pairs = {row: (study.estimate(row, _MEMORY), study.estimate(row, metric, stratum)) for row in rows}
            return {str(getattr(row, "label", row)): (x, y) for row, (x, y) in pairs.items() if x and y}

        methods, beside = points(study.rows), points(study.references)
        memory, real = study.real(_MEMORY), study.real(metric, stratum)
        if memory and real:
            beside = {"real": (memory, real), **beside}
        if methods:
            beside.pop(Reference.REAL_TEST.label, None)
            drawn, caption = scores.memory_against_tail(methods, beside, real, knows)
            yield (
                "knowledge",
                Figure("memory", "Tail knowledge against memorisation of patients", caption, drawn),
            )
            return


def _steering_figures(study: Study, train: Cohort) -> Iterator[tuple[str, Figure]]:
    """Requested against achieved prevalence for each steered row and target; schedules beside the analysis."""
    for row in study.rows:
        ways = study.ways(row)
        for target in dict.fromkeys(way["target"] for way in ways):
            goal = Cohort.open(study.folder / study.about["targets"][target] / "train").prevalence()
            steered = {w["mode"]: Cohort.open(study.folder / w["cohort"]) for w in ways if w["target"] == target}
            achieved = {_WAYS[mode]: cohort.prevalence() for mode, cohort in steered.items()}
            n_visits = min(cohort.n_visits for cohort in steered.values())
            drawn = scores.requested_against_achieved(train.prevalence(), goal, achieved, n_visits)
            caption = (
                "Every dot is a code: requested and achieved prevalence. Grey: the training population. "
                "The band is three standard errors of sampling."
            )
            title = f"{row} towards “{target}”: requested and achieved prevalence"
            yield "control", Figure(f"control-{row}-{target}", title, caption, drawn, True)
    used = [str(settings.get("schedule", "none")) for settings in study.settings.values()]
    drawn, caption = scores.schedule_curves(
        list(dict.fromkeys([*scores.NAMED, *(u for u in used if u not in SCHEDULES)]))
    )
    yield "analysis", Figure("schedules", "Schedules", caption, drawn)


_WAYS = {"none": "not steered", "paper": "paper's rule", "calibrated": "calibrated"}


def _analysis_figures(study: Study) -> Iterator[tuple[str, Figure]]:
    """The pictures that the analyses left, with their captions."""
    if not study.about.get("analysis"):
        return
    for summary in sorted((study.folder / study.about["analysis"]).glob(f"*/{SUMMARY}")):
        for name, caption in read_json(summary).get("captions", {}).items():
            if "/" in name:  # single real patients and small counts stay where the data may be
                continue
            picture = summary.parent / name
            if summary.parent.name == "diseases":  # named by their codes, whose letters stay as they are
                yield "disease", Figure(f"disease-{name}", caption.partition(":")[0], caption, picture)
            else:
                title = name.replace("_", " ").capitalize()
                yield "analysis", Figure(f"analysis-{name}", title, caption, picture)


def some(cohort: Cohort) -> Cohort:
    """The first patients of a cohort, at most `MOST_PATIENTS`.

    >>> some(Cohort.of([[["A"]]] * 3)).n_patients
    3
    """
    return cohort if cohort.n_patients <= MOST_PATIENTS else cohort.subset(np.arange(MOST_PATIENTS))


def _cell(study: Study, row: str | Reference, metric: str) -> tuple[float, float | None, float | None] | None:
    """A number with its interval."""
    found = study.estimate(row, metric)
    return None if found is None else (found.value, found.low, found.high)
