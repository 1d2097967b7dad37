"""Every table of a study: scores, data, steering, privacy gate, costs, settings, analyses, other evaluators."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from adapcla.evaluation.comparison import PAPER_CUT, Score
from adapcla.evaluation.metric import ARROWS
from adapcla.evaluation.references import Reference
from adapcla.evaluation.runner import N_HALVES
from adapcla.evaluation.scores import HALVES, MATCHED
from adapcla.files import read_json
from adapcla.study.paper import III, IV, PROBES, SCHEDULES, TRANSFER, paper_number
from adapcla.study.results import Study
from adapcla.tables import Cell, Estimate, Line, Table, estimate_cell, format_number, number_cell

# ---- scores by method -----------------------------------------------------------------------------------------


class ScoreColumn(NamedTuple):
    """A score column: metric, stratum, heading."""

    metric: str
    stratum: str
    heading: str


class ScoreTable(NamedTuple):
    """The definition of a table of scores."""

    key: str
    title: str
    caption: str
    columns: tuple[ScoreColumn, ...]
    #: Whether real patients are one line: test patients or, where these are compared with, training patients.
    one_real: bool = False


def _columns(*triples: tuple[str, str, str]) -> tuple[ScoreColumn, ...]:
    return tuple(ScoreColumn(*triple) for triple in triples)


def _tail(stratum: str, suffix: str = "") -> tuple[ScoreColumn, ...]:
    """The four tail metrics at one cut."""
    # Shares of pairs do not depend on the number of patients: against test patients all of them count.
    seen = stratum.replace(MATCHED, HALVES) if suffix else stratum
    pairs = {PAPER_CUT: "all"}.get(seen, seen.partition(":")[0])
    return _columns(
        (f"pair_seen{suffix}", pairs, "PairSeen"),
        (f"tail_pair_seen{suffix}", seen, "TailPairSeen"),
        (f"tail_ctx_jsd{suffix}", stratum, "TailCtxJSD"),
        (f"tail_topk_jac{suffix}", stratum, "TailTopKJac"),
        (f"tail_ctx_left_out{suffix}", stratum, "codes left out"),
    )


def _of_domains(*scores: tuple[str, bool, str]) -> tuple[ScoreColumn, ...]:
    """Columns of metrics, at equal numbers of patients or not, on the codes of each domain alone."""
    return tuple(
        ScoreColumn(metric, f"{'matched:' * matched}only:{domain}", f"{domain}: {heading}")
        for domain in DOMAINS
        for metric, matched, heading in scores
    )


#: The domains of codes, in the order of columns.
DOMAINS = ("diagnosis", "procedure", "drug", "lab", "stay")

SCORE_TABLES = (
    ScoreTable(
        "tail-glance",
        "At a glance",
        "Tail information: what co-occurrence with rare codes in the synthetic patients predicts on test visits; 0 is "
        "chance, 1 as many real patients. Held-out pairs: share of the generated pairs with a tail code that held-out "
        "patients have. Held-out neighbours: overlap of the top 20 neighbours of tail codes with those of held-out "
        "patients. The gap of singleton pairs and exact copies measure memorisation of single training patients; both "
        "are 0 without it. A model that knows the tail is high on the left and at 0 on the right; one that copied it "
        "is high on both sides. Real: test patients or, where these are the reference, training patients.",
        _columns(
            ("tail_information_share", "all", "tail information"),
            ("tail_information_share", "1-5", "information, codes of 1–5 visits"),
            ("tail_information_previous_share", "all", "information, visit before"),
            ("tail_pair_seen_heldout", "halves", "held-out pairs"),
            ("tail_topk_jac_heldout", "matched", "held-out neighbours"),
            ("unique_pair_gap", "all", "singleton pairs, gap"),
            ("copy_excess", "all", "exact copies"),
        ),
        one_real=True,
    ),
    ScoreTable(
        "tail-plausibility",
        "Tail plausibility, the paper's cut",
        "Tables 1 and 3a of the paper: tail codes are the rarest 20 %. Compare each number with real test (what other "
        "real patients score) and train copy (memorisation baseline): above real test lies memorisation, not quality. "
        "All but the first two scores depend on the number of patients, which differs between real and synthetic ones.",
        _tail("rare20"),
    ),
    ScoreTable(
        "tail-plausibility-heldout",
        "Tail plausibility against held-out patients",
        "Against pairs of real patients that no method has seen: copying training patients does not help. Means "
        f"over {N_HALVES} halves of the test patients; the other half is the real test row.",
        _tail("matched", "_heldout"),
    ),
    ScoreTable(
        "utility",
        "Downstream utility: train on synthetic, test on real",
        "Table 2 of the paper: the label's codes are in the input. Then labels without their codes: of the last visit "
        "with the label's codes masked, and of the next visit from those before it; new: patients who never had the "
        "label before. The real train row is the ceiling: classifiers trained on the training patients themselves.",
        _columns(
            ("tstr_acc", "all", "Acc"),
            ("tstr_f1", "all", "F1"),
            ("tstr_auprc", "all", "AUPRC"),
            ("tstr_auprc", "tail", "AUPRC tail labels"),
            ("tstr_masked_auroc", "all", "masked AUROC"),
            ("tstr_masked_auroc", "new", "masked AUROC, new"),
            ("tstr_next_auprc", "all", "next-visit AUPRC"),
            ("tstr_next_auroc", "all", "next-visit AUROC"),
            ("tstr_next_auroc", "new", "next-visit AUROC, new"),
            ("tstr_next_auroc", "repeat", "next-visit AUROC, repeat"),
        ),
    ),
    ScoreTable(
        "reliability",
        "Reliability of predicted probabilities",
        "On one and the same real test set, over all labels and over the rarest. First the natural form: one "
        "classifier of all patients as they come. Then (50/50) the paper's: a classifier for each label, trained and "
        "evaluated on sets in which half have it.",
        _columns(
            ("ece", "all", "ECE"),
            ("brier", "all", "Brier"),
            ("nll", "all", "NLL"),
            ("ece", "tail", "ECE tail"),
            ("brier", "tail", "Brier tail"),
            ("nll", "tail", "NLL tail"),
            ("ece_balanced", "all", "ECE 50/50"),
            ("brier_balanced", "all", "Brier 50/50"),
            ("nll_balanced", "all", "NLL 50/50"),
            ("ece_balanced", "tail", "ECE tail 50/50"),
        ),
    ),
    ScoreTable(
        "fidelity",
        "Fidelity: prevalence, lengths, sequences",
        "How close counts and lengths are to the training patients; what depends on the number of patients is computed "
        "at equal numbers.",
        _columns(
            ("prevalence_log_r2", "matched", "log prevalence R²"),
            ("unigram_r2", "matched", "unigram R²"),
            ("bigram_r2", "matched", "bigram R²"),
            ("tail_mass", "all", "tail mass"),
            ("tail_coverage", "matched", "tail coverage"),
            ("codes_per_visit_diff", "all", "codes per visit, difference"),
            ("visits_per_patient_diff", "all", "visits per patient, difference"),
            ("next_visit_jaccard", "all", "next-visit overlap"),
        ),
    ),
    ScoreTable(
        "course",
        "Course of records: gaps, trajectories, rules",
        "Distances from the training patients at equal numbers of patients: days between visits, in all and after each "
        "code; new cases by age; Kaplan–Meier curves and log odds ratios of ten outcomes after ten index codes; then "
        "the share of patients who break a rule that no training patient breaks.",
        _columns(
            ("gap_w1", "matched", "gaps, days apart"),
            ("incidence_by_age", "matched", "incidence by age"),
            ("onset_curves", "matched", "onset curves"),
            ("effect_corr", "matched", "effects, correlation"),
            ("rule_breaks", "all", "break a rule"),
        ),
    ),
    ScoreTable(
        "numbers",
        "Numbers: labs and other values",
        "Good: distance and errors as small as those of the real test row, correlations as high. Quantile distance is "
        "in interquartile ranges of training; independent codes have it right, too. The effect of a code on a number "
        "is how far the mean is shifted where the code is present, in standard deviations (glucose with diabetes); "
        "independent codes have none. Last, how well a value predicts the same patient's next one.",
        _columns(
            ("value_w1", "matched", "quantile distance"),
            ("value_in_range", "all", "in the usual range"),
            ("value_effect_corr", "matched", "effects, correlation"),
            ("value_autocorr_error", "matched", "the same, error"),
        ),
    ),
    ScoreTable(
        "stays",
        "Stays: length, kind, ending, death and return",
        "Good: as the real test row; distances near 0. Length in days, kinds and endings as total variation of their "
        "shares, then means and shares as they are. Classifiers are trained on synthetic patients and evaluated on "
        "test patients; their ceiling is the real train row, guessing has an AUROC of one half.",
        _columns(
            ("stay_length_w1", "matched", "length, days apart"),
            ("stay_kind_tv", "matched", "kinds"),
            ("stay_end_tv", "matched", "endings"),
            ("death_rate", "all", "die"),
            ("death_by_age", "matched", "death by age, error"),
            ("readmission_30", "all", "readmitted within 30 days"),
            ("mortality_auroc", "all", "death, AUROC"),
            ("readmission_auroc", "all", "readmission, AUROC"),
        ),
    ),
    ScoreTable(
        "by-domain",
        "Every domain alone: prevalence and pairs",
        "Good: as the real test row. The same scores on the codes of one domain, at equal numbers of patients; a "
        "domain of few codes is uninformative.",
        _of_domains(("prevalence_log_r2", True, "log prevalence R²"), ("bigram_r2", True, "bigram R²")),
    ),
    ScoreTable(
        "discriminator",
        "Discriminator: can a classifier tell them from real patients?",
        "Area under the curve of gradient boosting between synthetic and real test patients; one half is chance. At "
        "equal numbers the real test row is real against other real patients. Then by the features of one kind alone.",
        _columns(
            ("discriminator_auc", "matched", "AUC"),
            ("discriminator_auc", "all", "AUC, all test patients"),
            ("discriminator_auc", "sizes", "sizes alone"),
            ("discriminator_auc", "gaps", "gaps alone"),
            ("discriminator_auc", "codes", "codes alone"),
            ("discriminator_auc", "pairs", "pairs alone"),
        ),
    ),
    ScoreTable(
        "privacy",
        "Privacy: copies, pairs, membership",
        "Excess means: more often of training patients than of control patients of the same distribution. An attack "
        "at 0.5 guesses. The train copy row shows that the tests detect memorisation.",
        _columns(
            ("copy_excess", "all", "exact copies, excess"),
            ("rare_copy_excess", "all", "rare copies, excess"),
            ("near_copy_excess", "all", "near copies, excess"),
            ("unique_pair_gap", "all", "singleton pairs, gap"),
            ("pair_holder_gap", "all", "… of 1 to 6 holders, gap"),
            ("triple_holder_gap", "all", "three codes, gap"),
            ("singleton_visit_gap", "all", "singleton visits, gap"),
            ("membership_auc", "all", "membership AUC"),
            ("membership_auc", "rare", "membership AUC, rare"),
            ("membership_likelihood_auc", "all", "with the model, AUC"),
            ("attribute_residual", "all", "attribute, residual"),
        ),
    ),
)


def score_table(study: Study, layout: ScoreTable) -> Table | None:
    """The table of a study; None where the study has none of its scores.

    A column in which nobody has a number is not shown; the caption names it and says why.
    """
    everybody = [*study.rows, *study.references]
    scored = [c for c in layout.columns if study.has_score(c.metric, c.stratum)]
    columns = [c for c in scored if any(study.estimate(each, *c[:2]) is not None for each in everybody)] or scored
    if not columns:
        return None
    lines = [
        Line((Cell(row), *(estimate_cell(study.estimate(row, *c[:2]), study.reason(row, *c[:2])) for c in columns)))
        for row in study.rows
    ]
    real = [study.real(*c[:2]) for c in columns]
    lines = _with_nearest(lines, [None if one is None else one.value for one in real])
    beside: list[tuple[str, list[Estimate | None]]] = []
    for reference in study.references:
        if not layout.one_real or reference not in (Reference.REAL_TEST, Reference.REAL_TRAIN):
            beside.append((reference.label, [study.estimate(reference, *c[:2]) for c in columns]))
    for name, numbers in [*([("real", real)] if layout.one_real else []), *beside]:
        if any(number is not None for number in numbers):
            lines.append(Line((Cell(name), *map(estimate_cell, numbers)), "reference"))
    for row in study.rows:
        paper = [paper_number(study.cohort, row, *c[:2]) for c in columns]
        if any(number is not None for number in paper):
            lines.append(Line((Cell(f"{row} (paper)"), *map(number_cell, paper)), "paper"))
    headings = tuple(f"{c.heading} {ARROWS[study.goal(c.metric)]}".strip() for c in columns)
    hints = ("method", *(f"{c.metric}, stratum {c.stratum}" for c in columns))
    caption = with_missing(layout.caption, _missing_columns(study, [c for c in scored if c not in columns]))
    return Table(("method", *headings), lines, layout.key, layout.title, caption, hints)


def with_missing(caption: str, missing: str) -> str:
    """A caption that names the columns that are not shown, because nobody has a number in them.

    >>> with_missing("Scores.", "AUPRC ↑")
    'Scores. No value for any method: AUPRC ↑.'
    """
    return f"{caption} No value for any method: {missing}." if missing else caption


def _missing_columns(study: Study, columns: Sequence[ScoreColumn]) -> str:
    """The headings of columns without a number, by what the scores of the first row say why."""
    by_reason: dict[str, list[str]] = {}
    for column in columns:
        reason = study.reason(study.rows[0], *column[:2]).partition(":")[0]
        by_reason.setdefault(reason, []).append(column.heading)
    return "; ".join(" · ".join(names) + (f" ({reason})" if reason else "") for reason, names in by_reason.items())


def _with_nearest(lines: list[Line], real: Sequence[float | None]) -> list[Line]:
    """The lines with the value of each column marked that is nearest to real patients, never the largest as such.

    Above real patients lies memory or luck, not more quality. Without a number of real patients nothing is marked.

    >>> lines = [Line((Cell(name), Cell("", value))) for name, value in (("a", 0.9), ("b", 0.6), ("c", 0.1))]
    >>> [line.cells[1].best for line in _with_nearest(lines, [0.5])], _with_nearest(lines, [None]) == lines
    ([False, True, False], True)
    """
    marked = [list(line.cells) for line in lines]
    for column, aim in enumerate(real, 1):
        known = [cells[column].value for cells in marked]
        distances = [abs(value - aim) for value in known if value is not None and aim is not None]
        if len(distances) < 2 or aim is None:
            continue
        for cells, value in zip(marked, known, strict=True):
            if value is not None and abs(value - aim) == min(distances):
                cells[column] = cells[column]._replace(best=True)
    return [Line(tuple(cells), line.kind) for cells, line in zip(marked, lines, strict=True)]


# ---- data, steering, privacy, cost, settings, environment ----------------------------------
_STEERING = (
    ("control_mae", "all", "gap MAE ↓"),
    ("control_floor", "all", "by sampling alone"),
    ("control_max_gap", "all", "largest gap ↓"),
    ("control_spearman", "all", "Spearman ↑"),
    # The paper's names stand for the paper's cut.
    ("tail_pair_seen", PAPER_CUT, "TailPairSeen ↑"),
    ("tail_ctx_jsd", PAPER_CUT, "TailCtxJSD ↓"),
    ("tstr_acc", "all", "Acc ↑"),
    ("tstr_f1", "all", "F1 ↑"),
    ("tstr_auprc", "all", "AUPRC ↑"),
)
_PARTS = ("train", "valid", "test", "control")
_MODES = {"none": "not steered", "paper": "paper's rule", "calibrated": "calibrated"}


def data_card(study: Study) -> Table:
    """The cohort in numbers."""
    description, parts = study.data_record["description"], study.data_record["parts"]
    visits, codes = description["visits_per_patient"], description["codes_per_visit"]
    tail = description["strata"]["tail"]
    lines = [
        ("source", description["source"]),
        ("patients", f"{description['patients']:,}"),
        ("visits", f"{description['visits']:,}"),
        ("codes", f"{description['codes_present']:,}"),
        *_whole_record_lines(description),
        ("visits per patient", f"mean {visits['mean']:.2f}, median {visits['median']:g}, most {visits['max']:,}"),
        ("codes per visit", f"mean {codes['mean']:.2f}, median {codes['median']:g}, most {codes['max']:,}"),
        ("tail (rarest third)", f"{tail['codes']:,} codes, {100 * (tail['share_of_entries'] or 0):.2f} % of entries"),
        ("singletons", f"{description['strata']['singletons']['codes']:,} codes"),
        ("next-visit overlap", _overlap_text(description["overlap"])),
        ("dropped while reading", ", ".join(f"{n:,} {why}" for why, n in description["dropped"].items()) or "nothing"),
        *(
            (f"{name} part", f"{parts[name][0]:,} patients, {parts[name][1]:,} visits")
            for name in _PARTS
            if name in parts
        ),
    ]
    rows = tuple(Line((Cell(name), Cell(str(value)))) for name, value in lines)
    caption = "Counts of the whole cohort before the split, then of each part. Aggregates only."
    return Table(("what", "value"), rows, "data-card", "The data", caption)


def _whole_record_lines(description: dict[str, Any]) -> list[tuple[str, str]]:
    """Domains, choice groups and numbers of whole records; nothing for records of one domain.

    >>> domains = {"diagnosis": {"codes": 9, "share_of_entries": 0.75}, "stay": {"codes": 4, "share_of_entries": 0.25}}
    >>> _whole_record_lines({"domains": domains, "groups": {"end": {}}, "numbers": {"codes": 1}})[0]
    ('codes by domain', 'diagnosis 9 (75 % of entries), stay 4 (25 % of entries)')
    """
    domains, groups, numbers = (description.get(name) or {} for name in ("domains", "groups", "numbers"))
    by_domain = [
        f"{name} {about['codes']:,} ({100 * (about['share_of_entries'] or 0):.0f} % of entries)"
        for name, about in domains.items()
    ]
    lines = [("codes by domain", ", ".join(by_domain))] if len(domains) > 1 else []
    lines += [("choice groups", ", ".join(groups))] if groups else []
    return lines + ([("numbers", f"{numbers['codes']:,}")] if numbers.get("codes") else [])


def _overlap_text(overlap: dict[str, Any]) -> str:
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
            cells = [estimate_cell(study.estimate(row, metric, stratum, **where)) for metric, stratum, _ in _STEERING]
            lines.append(Line((Cell(row), Cell(way["target"]), Cell(_MODES[way["mode"]]), *cells)))
    if not lines:
        return None
    for row in ("lstm", "eva", "synteg", "gpt", "adapcla"):
        numbers = [paper_number(study.cohort, row, metric, stratum) for metric, stratum, _ in _STEERING]
        if study.cohort == TRANSFER and any(numbers):
            lines.append(
                Line((Cell(f"{row} (paper)"), Cell("MIMIC-III"), Cell("–"), *(number_cell(x) for x in numbers)))
            )
    caption = (
        "Table 3b of the paper and what it leaves out: how near the generated prevalences came to the requested ones, "
        "and what that did to the tail and to classifiers, evaluated on the target's own patients."
    )
    headings = ("method", "target", "way", *(heading for _, _, heading in _STEERING))
    known = Table(headings, lines).numeric
    shown = [k for k in range(len(headings)) if k < 3 or known[k]]
    caption = with_missing(caption, ", ".join(heading for k, heading in enumerate(headings) if k not in shown))
    lines = [line._replace(cells=tuple(line.cells[k] for k in shown)) for line in lines]
    return Table([headings[k] for k in shown], lines, "control", "Steering without training", caption)


def privacy_table(study: Study) -> Table | None:
    """Which methods meet the privacy gate, over all their fits and samples; None without the privacy suite."""
    from adapcla.evaluation.privacy import Outcome, gate
    from adapcla.report.gate_words import words_of

    if study.scores.is_empty():
        return None
    private = study.scores.filter(study.scores["suite"] == "privacy")
    lines = []
    for row in study.rows:
        met, failed, unknown, n = 0, Counter[str](), Counter[str](), 0
        for _, table in private.filter(private["row"] == row).group_by("fit", "draw", maintain_order=True):
            scores: dict[str, dict[str, Score]] = {}
            for one in table.iter_rows(named=True):
                score = Score(one["value"], one["n"], one["low"], one["high"], one["reason"])
                scores.setdefault(one["metric"], {})[one["stratum"]] = score
            checked, n = gate(scores), n + 1
            unknown.update(words_of(line).title for line in checked if line.outcome == Outcome.NOT_SHOWN)
            failed.update(words_of(line).title for line in checked if line.outcome == Outcome.EXCEEDED)
            met += all(line.passed for line in checked)
        if n:
            cells = (row, _format_counts(failed, n), _format_counts(unknown, n), Cell(f"{met} of {n}", met / n))
            lines.append(Line(cells, "held" if met == n else "did-not-hold"))
    caption = (
        "Evidence, not a guarantee. The limits are those of `adapcla evaluate --gate`, applied to each sample of each "
        "fit; a line counts the samples in which it was exceeded or could not be shown to be kept."
    )
    columns = ("method", "lines exceeded", "lines not shown", "samples that meet the gate")
    return Table(columns, lines, "gate", "Privacy gate", caption) if lines else None


def _format_counts(names: Counter[str], n: int) -> str:
    """Names with how often each was seen, where that is not always.

    >>> _format_counts(Counter({"Copies": 2, "Membership": 3}), 3), _format_counts(Counter(), 3)
    ('Membership, Copies (2 of 3)', '–')
    """
    each = (name if times == n else f"{name} ({times} of {n})" for name, times in names.most_common())
    return ", ".join(each) or "–"


def cost_table(study: Study) -> Table | None:
    """Parameters, passes, seconds and memory of each row, its start, and which fits failed; None without rows."""
    lines = [_costs(study, row) for row in dict.fromkeys([*study.rows, *study.failures])]
    if not lines:
        return None
    caption = (
        "Means over the fits of each row, the largest memory, the lowest and highest validation loss, on the machine "
        "named under Environment. Validation loss contains no scaffold; each method has its own."
    )
    numbers = ("parameters", "passes", "seconds", "peak MB", "validation loss", "stopped early")
    return Table(("method", *numbers, "starts from", "remark"), lines, "cost", "Cost", caption)


def _costs(study: Study, row: str) -> Line:
    """The line of a row; it has no numbers where all fits failed, or where the patients come from elsewhere."""
    from adapcla.training.settings import METHODS

    fits, remarks = study.costs.get(row, []), study.failures.get(row, [])
    if not fits:
        nothing = "made elsewhere" if not remarks else "–"
        return Line((Cell(row), *[Cell("–")] * 6, Cell(nothing), Cell("; ".join(remarks) or "–")))
    method = METHODS.get(str(study.settings[row].get("method", row)))
    means = [_over(fits, name, statistics.fmean) for name in ("parameters", "passes", "seconds")]
    numbers = [number_cell(x) for x in (*means, _over(fits, "peak memory MB", max))]
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
    return Cell(
        f"{format_number(mean)} ({format_number(low)} to {format_number(high)})" if several else format_number(mean),
        mean,
    )


def settings_table(study: Study) -> Table | None:
    """The settings in which rows differ from one another or from the method they are made of; None without a fit."""
    from adapcla.training.settings import METHODS

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
    return Table(("setting", *rows), lines, "settings", "Settings", caption)


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
    return Table(("what", "value"), lines, "environment", "Environment", "Where this was computed.")


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
            Line(tuple(number_cell(x) if isinstance(x, float) else Cell(_text(x), _number(x)) for x in row))
            for row in frame.head(_LONGEST).iter_rows()
        )
        cut = f" The first {_LONGEST} of {frame.height:,} rows." if frame.height > _LONGEST else ""
        notes = _notes(path.with_suffix(".json"))
        title = path.stem.replace("_", " ").replace("-", " ")
        out.append(Table(tuple(frame.columns), lines, f"analysis-{path.stem}", title, (notes + cut).strip()))
    return out


def next_visit_table(rows: Sequence[dict[str, Any]], notes: str) -> Table:
    """Next visits that every method generated for held-out patients: a line for each stratum and method."""
    row_of = {(row["stratum"], row["method"], row["measure"]): row for row in rows}
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = []
    for stratum in _NEXT_VISIT_STRATA:
        for method in methods:
            cells_of_method = [row_of.get((stratum, method, measure)) for measure in _NEXT_VISIT_MEASURES]
            n = next((one["n"] for one in cells_of_method if one), None)
            cells = [
                estimate_cell(None if one is None else Estimate(one["value"], one["low"], one["high"], 1))
                for one in cells_of_method
            ]
            lines.append(Line((Cell(stratum), Cell(method), Cell(_text(n), _number(n)), *cells)))
    columns = ("codes", "method", "n", *_NEXT_VISIT_MEASURES.values())
    return Table(columns, lines, "analysis-next_visit", "Next visits of held-out patients", notes)


def paper_analysis_tables(study: Study) -> list[Table]:
    """What the paper reports of schedules and probes, for the analyses of its own cohorts."""
    if study.cohort not in (III, IV) or not study.about.get("analysis"):
        return []
    schedules = tuple(
        Line((Cell(name), *(number_cell(x) for x in numbers)), "paper") for name, numbers in SCHEDULES.items()
    )
    probes = tuple(
        Line((Cell(str(n), float(n)), Cell(kind), *(number_cell(x) for x in numbers)), "paper")
        for (n, kind), numbers in PROBES.items()
    )
    caption = "The paper's own numbers, to be read beside the tables above."
    gains = ("schedule", "final gain", "AUC", "normalised AUC")
    return [
        Table(gains, schedules, "paper-schedules", "Schedules in the paper", caption),
        Table(("contexts", "kind", "AUC", "final gain"), probes, "paper-probes", "Probes in the paper", caption),
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
    notes = read_json(path).get("notes", {}) if path.is_file() else {}
    return " ".join(f"{name}: {value}." for name, value in notes.items() if isinstance(value, str | int | float))


# ---- other evaluators, features of the discriminator ------------------------------------------
#: The file that `benchmarks/outside/run.py` writes, and the folder for its results beside an experiment.
RESULTS, FOLDER = "results.json", "evaluators"
#: Features shown of each row in the table of the discriminator.
_MOST = 8


def evaluator_tables(folder: Path) -> Iterator[Table]:
    """The results of outside evaluators in the folder of an experiment or release; nothing where none ran."""
    for path in sorted((folder / FOLDER).rglob(RESULTS)):
        yield evaluator_table(read_json(path), "-".join(path.parent.relative_to(folder).parts))


def evaluator_table(content: dict[str, Any], key: str = FOLDER) -> Table:
    """One line for each number that an evaluator gave, or for the reason that it gave none.

    >>> said = {"evaluator": "e", "version": "1", "metric": "auc", "synthetic": 0.6, "real": 0.5, "reason": ""}
    >>> evaluator_table({"subject": "s", "results": [said]}).lines[0].cells[3].text
    '0.600'
    """
    lines = [
        Line(
            (
                Cell(said["evaluator"]),
                Cell(said["version"]),
                Cell(said["metric"]),
                *(_evaluator_cell(said[side], said["reason"]) for side in ("synthetic", "real")),
            )
        )
        for said in content["results"]
    ]
    caption = (
        "Programs of others, each in an environment of its own, on the synthetic patients and, as a reference, on as "
        "many held-out real ones. An evaluator that could not run says why."
    )
    columns = ("evaluator", "version", "score", "synthetic", "held-out real")
    return Table(columns, lines, key, f"Other evaluators on {content['subject']}", caption)


def _evaluator_cell(value: Any, reason: str) -> Cell:
    """The result of an evaluator: a number, words, or nothing and why."""
    if isinstance(value, bool | str):
        return Cell(str(value))
    return Cell("–", None, reason) if value is None else Cell(format_number(float(value)), float(value))


def discriminator_table(study: Study) -> Table | None:
    """The features by which the discriminator recognised patients of each row; None where it did not run."""
    lines = []
    for row in study.rows:
        for found in study.curves(row).get("feature_importance", [])[:_MOST]:
            numbers = (found[name] for name in ("real", "synthetic", "alone", "lost"))
            cells = (number_cell(value) for value in numbers)
            lines.append(Line((Cell(row), Cell(found["feature"]), Cell(found["kind"]), *cells)))
    if not lines:
        return None
    caption = (
        "The features by which the discriminator separated synthetic from real patients: means over real test patients "
        "and synthetic ones, the area under the curve of the feature alone (above one half: larger in synthetic "
        "patients), and what the classifier loses when the feature is shuffled."
    )
    columns = ("method", "feature", "kind", "real", "synthetic", "AUC alone", "lost without it")
    return Table(columns, lines, "gave-away", "Discriminator features", caption)


def grid_table(study: Study) -> Table | None:
    """The validation loss of every cell of the grid of each row, the chosen one marked; None without a grid."""
    cells: list[dict[str, Any]] = study.about.get("tuning", [])
    if not cells:
        return None
    names = list(dict.fromkeys((cell["learning_rate"], cell["passes"]) for cell in cells))
    lines = []
    for row in dict.fromkeys(cell["row"] for cell in cells):
        own = {(cell["learning_rate"], cell["passes"]): cell for cell in cells if cell["row"] == row}
        losses = [
            Cell("failed" if own[name]["loss"] is None else f"{own[name]['loss']:.3f}", own[name]["loss"], "", best)
            for name in names
            for best in [bool(own[name]["chosen"])]
        ]
        chosen = next(cell for cell in own.values() if cell["chosen"])
        took = f"{chosen['learning_rate']:g}, {chosen['passes']:g} passes"
        lines.append(Line((Cell(row), *losses, Cell(took), Cell(f"{chosen['steps'] or 0:,}", chosen["steps"]))))
    grid = study.spec["fit"]["grid"]
    fewer = f" on {grid['patients']:,} training patients" if grid["patients"] else ""
    caption = (
        f"Validation loss in nats a visit, without any bias, of one fit per cell (seed {grid['seed']}){fewer}; the "
        "mark is the cell that the row's fits have. Every cell and fit goes to the end of its cosine and keeps its "
        "last weights. Passes are those of all stages together. No test or control patient is seen here."
    )
    columns = ("method", *(f"{rate:g}, {passes:g} passes" for rate, passes in names), "chosen", "steps of the cell")
    return Table(columns, lines, "grid", "Learning rate and epochs of each method", caption)
