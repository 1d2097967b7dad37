"""Tables that are not scores by row: the data card, steering, the privacy gate, costs, settings and environment."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from adapcla.evaluation.contract import Score
from adapcla.report.tables import Line, Table, cell_of, naming_silent, shown
from adapcla.study.paper_numbers import III, IV, PROBES, SCHEDULES, TRANSFER, paper_number
from adapcla.study.results import Measured, Study
from adapcla.tables import Cell

_STEERING = (
    ("control_mae", "all", "gap MAE ↓"),
    ("control_floor", "all", "by sampling alone"),
    ("control_max_gap", "all", "largest gap ↓"),
    ("control_jsd", "all", "JSD ↓"),
    ("control_spearman", "all", "Spearman ↑"),
    ("tail_pair_seen", "all", "TailPairSeen ↑"),
    ("tail_ctx_jsd", "all", "TailCtxJSD ↓"),
    ("tstr_acc", "all", "Acc ↑"),
    ("tstr_f1", "all", "F1 ↑"),
    ("tstr_auprc", "all", "AUPRC ↑"),
)
_PARTS = ("train", "valid", "test", "control")
_MODES = {"none": "not steered", "paper": "paper's rule", "calibrated": "closed loop"}


def data_card(study: Study) -> Table:
    """The cohort in numbers."""
    description, parts = study.prepared["description"], study.prepared["parts"]
    visits, codes = description["visits_per_patient"], description["codes_per_visit"]
    tail = description["strata"]["tail"]
    lines = [
        ("source", description["source"]),
        ("patients", f"{description['patients']:,}"),
        ("visits", f"{description['visits']:,}"),
        ("codes", f"{description['codes_present']:,}"),
        *_whole_record(description),
        ("visits per patient", f"mean {visits['mean']:.2f}, median {visits['median']:g}, most {visits['max']:,}"),
        ("codes per visit", f"mean {codes['mean']:.2f}, median {codes['median']:g}, most {codes['max']:,}"),
        ("tail (rarest third)", f"{tail['codes']:,} codes, {100 * (tail['share_of_entries'] or 0):.2f} % of entries"),
        ("singletons", f"{description['strata']['singletons']['codes']:,} codes"),
        ("next-visit overlap", _overlap(description["overlap"])),
        ("dropped while reading", ", ".join(f"{n:,} {why}" for why, n in description["dropped"].items()) or "nothing"),
        *(
            (f"{name} part", f"{parts[name][0]:,} patients, {parts[name][1]:,} visits")
            for name in _PARTS
            if name in parts
        ),
    ]
    rows = tuple(Line((Cell(name), Cell(str(value)))) for name, value in lines)
    caption = "Counts of the whole cohort before the split, then of each part. Aggregates only."
    return Table("data-card", "The data", caption, ("what", "value"), rows)


def _whole_record(description: dict[str, Any]) -> list[tuple[str, str]]:
    """Domains, choice groups and numbers of whole records; nothing for records of one domain.

    >>> domains = {"diagnosis": {"codes": 9, "share_of_entries": 0.75}, "stay": {"codes": 4, "share_of_entries": 0.25}}
    >>> _whole_record({"domains": domains, "groups": {"end": {}}, "numbers": {"codes": 1}})[0]
    ('codes by domain', 'diagnosis 9 (75 % of entries), stay 4 (25 % of entries)')
    """
    domains, groups, numbers = (description.get(name) or {} for name in ("domains", "groups", "numbers"))
    told = [
        f"{name} {about['codes']:,} ({100 * (about['share_of_entries'] or 0):.0f} % of entries)"
        for name, about in domains.items()
    ]
    lines = [("codes by domain", ", ".join(told))] if len(domains) > 1 else []
    lines += [("choice groups", ", ".join(groups))] if groups else []
    return lines + ([("numbers", f"{numbers['codes']:,}")] if numbers.get("codes") else [])


def _overlap(overlap: dict[str, Any]) -> str:
    """How alike a patient's visit and the next one are, beside a visit of somebody else."""
    if overlap.get("next_visit") is None:
        return "not known"
    other = overlap.get("random_visit")
    return f"{overlap['next_visit']:.3f} (somebody else's visit: {'–' if other is None else f'{other:.3f}'})"


def steering_table(study: Study) -> Table | None:
    """Requested against achieved, the tail and utility on the target, for each way of steering; None without any."""
    lines = []
    for row in study.rows:
        for way in study.ways(row):
            where = {"target": way["target"], "mode": way["mode"]}
            cells = [cell_of(study.measured(row, metric, stratum, **where)) for metric, stratum, _ in _STEERING]
            lines.append(Line((Cell(row), Cell(way["target"]), Cell(_MODES[way["mode"]]), *cells)))
    if not lines:
        return None
    for row in ("lstm", "eva", "synteg", "gpt", "adapcla"):
        numbers = [paper_number(study.cohort, row, metric, stratum) for metric, stratum, _ in _STEERING]
        if study.cohort == TRANSFER and any(numbers):
            lines.append(
                Line((Cell(f"{row} (paper)"), Cell("MIMIC-III"), Cell("–"), *(Cell(shown(x), x) for x in numbers)))
            )
    caption = (
        "Table 3b of the paper and what it leaves out: how near the generated prevalences came to the requested ones, "
        "and what that did to the tail and to classifiers, judged on the target's own patients."
    )
    headings = ("method", "target", "way", *(heading for _, _, heading in _STEERING))
    told = [k for k in range(len(headings)) if k < 3 or any(line.cells[k].value is not None for line in lines)]
    silent = ", ".join(heading for k, heading in enumerate(headings) if k not in told)
    caption = naming_silent(caption, silent)
    lines = [line._replace(cells=tuple(line.cells[k] for k in told)) for line in lines]
    return Table("control", "Steering without training", caption, tuple(headings[k] for k in told), tuple(lines))


def gate_table(study: Study) -> Table | None:
    """Which rows pass the privacy gate, and where they fail; None without the privacy suite."""
    from adapcla.evaluation.privacy import gate

    lines = []
    for row in study.rows if not study.scores.is_empty() else ():
        scores: dict[str, dict[str, Score]] = {}
        table = study.scores.filter((study.scores["row"] == row) & (study.scores["suite"] == "privacy"))
        for one in table.iter_rows(named=True):
            score = Score(one["value"], one["n"], one["low"], one["high"], one["reason"])
            scores.setdefault(one["metric"], {}).setdefault(one["stratum"], score)
        if not scores:
            continue
        checked = gate(scores)
        failed = [line.name for line in checked if not line.passed]
        silent = [line.name for line in checked if line.value is None and not line.passed]
        cells = (
            Cell(row),
            Cell("failed" if failed else "passed"),
            Cell(", ".join(failed) or "–"),
            Cell(f"{len(silent)}"),
        )
        lines.append(Line(cells, "did-not-hold" if failed else "held"))
    if not lines:
        return None
    caption = "Evidence, not a guarantee: the limits are those of `adapcla evaluate --gate`."
    return Table("gate", "Privacy gate", caption, ("method", "gate", "failed lines", "not assessed"), tuple(lines))


def cost_table(study: Study) -> Table | None:
    """Parameters, passes, seconds and memory of each row, its start, and which fits failed; None without rows."""
    lines = [_costs(study, row) for row in dict.fromkeys([*study.rows, *study.failed])]
    if not lines:
        return None
    caption = (
        "Means over the fits of each row, the largest memory, the lowest and highest validation loss, on the machine "
        "named under Environment. Validation loss contains no scaffold; each method has its own."
    )
    numbers = ("parameters", "passes", "seconds", "peak MB", "validation loss", "stopped early")
    return Table("cost", "Cost", caption, ("method", *numbers, "starts from", "remark"), tuple(lines))


def _costs(study: Study, row: str) -> Line:
    """The line of a row; it has no numbers where all fits failed, or where the patients come from elsewhere."""
    from adapcla.generation.methods import METHODS

    fits, remarks = study.costs.get(row, []), study.failed.get(row, [])
    if not fits:
        nothing = "made elsewhere" if not remarks else "–"
        return Line((Cell(row), *[Cell("–")] * 6, Cell(nothing), Cell("; ".join(remarks) or "–")))
    method = METHODS.get(str(study.settings[row].get("method", row)))
    means = [_over(fits, name, statistics.fmean) for name in ("parameters", "passes", "seconds")]
    numbers = [Cell(shown(x), x) for x in (*means, _over(fits, "peak memory MB", max))]
    stopped = sum(bool(fit.get("stopped early")) for fit in fits)
    start, note = ("–", "") if method is None else (method.row.starts_from, method.row.note)
    remark = "; ".join(part for part in (note, *remarks) if part) or "–"
    ends = (Cell(f"{stopped} of {len(fits)}", stopped), Cell(start), Cell(remark))
    return Line((Cell(row), *numbers, _losses(fits), *ends))


def _over(
    fits: Sequence[dict[str, Any]], name: str, together: Callable[[list[float]], float] = statistics.fmean
) -> float | None:
    """A cost over the fits that know it.

    >>> _over([{"seconds": 2.0}, {"seconds": 4.0}, {}], "seconds")
    3.0
    """
    known = [float(fit[name]) for fit in fits if fit.get(name) is not None]
    return together(known) if known else None


def _losses(fits: Sequence[dict[str, Any]]) -> Cell:
    """The mean validation loss, with the lowest and the highest where there are several.

    >>> _losses([{"validation loss per visit": 2.0}, {"validation loss per visit": 3.0}]).text
    '2.500 (2.000 to 3.000)'
    """
    mean, low, high = (_over(fits, "validation loss per visit", together) for together in (statistics.fmean, min, max))
    several = mean is not None and len(fits) > 1
    return Cell(f"{shown(mean)} ({shown(low)} to {shown(high)})" if several else shown(mean), mean)


def settings_table(study: Study) -> Table | None:
    """The settings in which rows differ from one another or from the method they are made of; None without a fit."""
    from adapcla.generation.methods import METHODS

    rows = {row: _flat(settings) for row, settings in study.settings.items()}
    usual = {
        row: _flat(METHODS[method].settings.model_dump(mode="json")) if method in METHODS else {}
        for row, method in ((row, str(settings.get("method", row))) for row, settings in rows.items())
    }
    names = sorted({name for settings in rows.values() for name in settings})
    lines = []
    for name in names:
        values = [settings.get(name) for settings in rows.values()]
        changed = any(settings.get(name) != usual[row].get(name) for row, settings in rows.items())
        if changed or any(value != values[0] for value in values):
            lines.append(Line((Cell(name), *(Cell("–" if value is None else str(value)) for value in values))))
    if not rows:
        return None
    caption = (
        "Every setting in which rows differ from one another or from their own method's; all settings are in the "
        f"`stage.json` of each fit. The specification's fingerprint is {study.about['fingerprint']}."
    )
    return Table("settings", "Settings", caption, ("setting", *rows), tuple(lines))


def _flat(settings: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Nested settings by dotted name.

    >>> _flat({"a": 1, "b": {"c": 2}})
    {'a': 1, 'b.c': 2}
    """
    out: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            out |= _flat(value, f"{before}{name}.")
        else:
            out[before + name] = value
    return out


def environment_table(study: Study) -> Table:
    """Versions and machine."""
    versions = {"adapcla": study.about["version"], **study.about["environment"]}
    lines = tuple(Line((Cell(name), Cell(str(value)))) for name, value in sorted(versions.items()))
    return Table("environment", "Environment", "Where this was computed.", ("what", "value"), lines)


def analysis_tables(study: Study) -> list[Table]:
    """Every table that the analyses left, as it was written; long ones are cut and say so."""
    import polars as pl

    if not study.about.get("analysis"):
        return []
    out = []
    # Folders inside those of the analyses hold what is not for everybody: single real patients and small counts.
    for path in sorted((study.folder / study.about["analysis"]).glob("*/*.csv")):
        frame = pl.read_csv(path, infer_schema_length=None)
        if frame.height == 0 or frame.width > _WIDEST or path.stem in _NOT_SHOWN:
            continue
        if path.stem == "next_visit":
            out.append(next_visit_table(frame.to_dicts(), _notes(path.with_suffix(".json"))))
            continue
        lines = tuple(
            Line(tuple(Cell(shown(x), x) if isinstance(x, float) else Cell(_text(x), _number(x)) for x in row))
            for row in frame.head(_LONGEST).iter_rows()
        )
        cut = f" The first {_LONGEST} of {frame.height:,} rows." if frame.height > _LONGEST else ""
        notes = _notes(path.with_suffix(".json"))
        title = path.stem.replace("_", " ").replace("-", " ")
        out.append(Table(f"analysis-{path.stem}", title, (notes + cut).strip(), tuple(frame.columns), lines))
    return out


def next_visit_table(rows: Sequence[dict[str, Any]], notes: str) -> Table:
    """Next visits that every method wrote for held-out patients: a line for each stratum and method."""
    row_of = {(row["stratum"], row["method"], row["measure"]): row for row in rows}
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = []
    for stratum in _NEXT_VISIT_STRATA:
        for method in methods:
            cells_of_method = [row_of.get((stratum, method, measure)) for measure in _NEXT_VISIT_MEASURES]
            n = next((one["n"] for one in cells_of_method if one), None)
            cells = [
                cell_of(None if one is None else Measured(one["value"], one["low"], one["high"], 1))
                for one in cells_of_method
            ]
            lines.append(Line((Cell(stratum), Cell(method), Cell(_text(n), _number(n)), *cells)))
    columns = ("codes", "method", "n", *_NEXT_VISIT_MEASURES.values())
    return Table("analysis-next_visit", "Next visits of held-out patients", notes, columns, tuple(lines))


def paper_analysis_tables(study: Study) -> list[Table]:
    """What the paper reports of schedules and probes, for the analyses of its own cohorts."""
    if study.cohort not in (III, IV) or not study.about.get("analysis"):
        return []
    schedules = tuple(
        Line((Cell(name), *(Cell(shown(x), x) for x in numbers)), "paper") for name, numbers in SCHEDULES.items()
    )
    probes = tuple(
        Line((Cell(str(n), float(n)), Cell(kind), *(Cell(shown(x), x) for x in numbers)), "paper")
        for (n, kind), numbers in PROBES.items()
    )
    caption = "The paper's own numbers, to be read beside the tables above."
    gains = ("schedule", "final gain", "AUC", "normalised AUC")
    return [
        Table("paper-schedules", "Schedules in the paper", caption, gains, schedules),
        Table("paper-probes", "Probes in the paper", caption, ("contexts", "kind", "AUC", "final gain"), probes),
    ]


#: Analysis tables beyond these sizes are files for programs; the page shows their figures.
_WIDEST, _LONGEST = 20, 100
_NOT_SHOWN = ("probe_curves", "next_visit_calibration", "kernel_similarity", "kernel_eigenvalues", "examples")
_NEXT_VISIT_STRATA = ("all", "tail", "new all", "new tail")
_NEXT_VISIT_MEASURES = {
    "hit_rate": "drawn codes that came",
    "recall_at_10": "recall at 10",
    "recall_at_10_within": "recall at 10 within",
    "expected_to_observed": "expected / observed",
    "calibration_error": "calibration error",
    "nll": "log loss",
}


def _text(value: object) -> str:
    """A dash for nothing."""
    return "–" if value is None else str(value)


def _number(value: object) -> float | None:
    """Whole numbers sort as numbers."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _notes(path: Any) -> str:
    """The notes that stand beside an analysis table, as text."""
    from adapcla.files import read_json

    notes = read_json(path).get("notes", {}) if path.is_file() else {}
    return " ".join(f"{name}: {value}." for name, value in notes.items() if isinstance(value, str | int | float))
