"""The page of a release, for a reader who knows no paper on it: statuses first, then comparisons, charts and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adapcla.disclosure import format_count
from adapcla.evaluation.metric import has_stays
from adapcla.evaluation.scores import MATCHED
from adapcla.release.summary import (
    CHANCE,
    Attempt,
    Measured,
    ReleaseSummary,
    advice,
    badge,
    converged,
    find_row,
    gap_closed,
    indicators,
    plain_reason,
    refusal,
    share_text,
    usefulness,
)
from adapcla.report import aggregates, charts
from adapcla.report.gate_words import beside_gate, gate_table, words_of
from adapcla.report.html import Bullets, Page, Part, Section, Status, Text, Timelines
from adapcla.report.timelines import timelines
from adapcla.tables import Cell, Line, Table, format_number

_QUICK = (
    "Evaluated quickly because the time was short: with fewer draws and smaller models than in full. "
    "More minutes evaluate in full."
)
_BEGINS = "the number under a bar is where it begins; + has no upper end"


def release_page(release: ReleaseSummary) -> Page:
    """Everything that is shown of a release."""
    word, outcome = badge(release)
    accepted = [line for line in release.chosen.lines if line.accepted]
    notes = [f"Accepted though not shown: {words_of(line).title}. Reason: {line.accepted}" for line in accepted]
    found = release.chosen.comparisons
    notes += [
        f"Accepted though poor: {found.misstated[key]} Reason: {found.accepted[key]}"
        for key in found.accepted
        if key in found.misstated
    ]
    return Page(
        release.title,
        indicators(release),
        list(_sections(release)),
        window=f"{word}: {release.title}",
        badge=(word, outcome),
        over="synthetic patients, not real people"
        + (" · a demonstration: “real” patients are simulated here, too" if release.simulated else ""),
        lead=f"Recommended use: {advice(release).sentence}",
        facts=_facts(release),
        warning=refusal(release),
        notes=[*_lost(release), *notes, *([_QUICK] if release.chosen.quick else [])],
        footer=(
            f"No record of a real patient is on this page, and no count of fewer than {release.min_patients} of them."
        ),
    )


def _lost(release: ReleaseSummary) -> list[str]:
    """What of the source is missing, where that is more than a hundredth of it."""
    rows = {row[0]: row for row in release.read.rows(release.min_patients)}
    lost = [
        f"{rows[loss.what][2]} of {rows[loss.what][1]} {loss.what} ({rows[loss.what][3]}): {rows[loss.what][4]}"
        for loss in release.read.too_much
    ]
    return [f"Not everything in the source could be used. Left out: {'; '.join(lost)}."] if lost else []


def _facts(release: ReleaseSummary) -> list[tuple[str, str]]:
    """The sizes under the title."""
    synthetic = release.synthetic
    return [
        (f"{synthetic.n_patients:,}", "synthetic patients"),
        (f"{synthetic.n_visits:,}", "visits"),
        (f"{synthetic.n_codes:,}", "codes"),
        (format_count(release.train.n_patients, release.min_patients), "real patients used for training"),
    ]


# ---- sections -----------------------------------------------------------------------------------------------
def _sections(release: ReleaseSummary) -> Iterator[Section]:
    """The sections in order."""
    train, synthetic, k = release.train, release.synthetic.on(release.train.vocabulary), release.min_patients

    def status(*keys: str) -> Status:
        """The status of the worst of some comparisons."""
        order = ("good", "unknown", "fair", "poor")
        some = [one for one in release.chosen.comparisons.each if one.key in keys and one.applies]
        if not some:
            return Status(keys[0], "", "unknown")
        worst = max(some, key=lambda one: order.index(one.quality))
        return Status(worst.key, worst.title, worst.quality, sentence=f"{worst.title}: {worst.sentence}.")

    yield Section(
        "comparisons",
        "Comparisons with real patients",
        [_comparisons_table(release.chosen)],
        good="Every comparison is good. The whole is no better than its weakest part.",
        short="Comparisons",
    )
    yield Section(
        "prevalence",
        "Are codes as frequent as in real data?",
        [charts.scatter(aggregates.prevalence_points(train, synthetic))],
        good="Dots on the line, rare codes too. Inside the band a code is at most twice too frequent or too rare.",
        status=status("prevalence", "rare_prevalence"),
        short="Prevalence",
    )
    yield Section(
        "cooccurrence",
        "Do the same codes occur together?",
        [charts.heatmaps(aggregates.cooccurrence_maps(train, synthetic, k), k)],
        good="Two maps that look alike: codes that occur together in real visits do so in synthetic visits.",
        status=status("cooccurrence", "rare_cooccurrence"),
        short="Co-occurrence",
    )
    ends = "Bars that end at their marks."
    yield Section(
        "lengths",
        "Are records as long as real ones?",
        [charts.bars(aggregates.lengths(train, synthetic, k), _BEGINS)],
        good=ends,
        status=status("codes_per_visit", "visits_per_patient"),
        short="Lengths",
    )
    bars = aggregates.values(train, synthetic, k)
    if bars:
        parts = [charts.bars(bars, _BEGINS)]
        yield Section("values", "Are values like real ones?", parts, good=ends, status=status("values"), short="Values")
    bars = aggregates.stays(train, synthetic, k)
    if bars:
        parts = [charts.bars(bars, "share of all visits")]
        title = "Do stays begin and end like real ones?"
        yield Section("stays", title, parts, good=ends, status=status("stays"), short="Stays")
    yield _patients(release)
    yield Section("tables", "The numbers", list(_tables(release)), short="Tables")
    yield Section("limits", "What this must not be used for", [Bullets(_must_not(k))], short="Limits")


def _patients(release: ReleaseSummary) -> Section:
    """The first synthetic patients as timelines."""
    first = ", after the kind and the end of the visit" if has_stays(release.train.vocabulary) else ""
    words = (
        "The first synthetic patients with several visits, not selected by hand. None of them exists. "
        f"Rare codes are marked with ● and come first{first}."
    )
    shown = timelines(release.synthetic.on(release.train.vocabulary), release.train)
    return Section(
        "patients",
        "Five synthetic patients",
        [Text(words), Timelines(shown)],
        good="Records that a clinician finds possible: visits that fit together, rare codes with the codes they "
        "belong to.",
        short="Patients",
    )


def _must_not(k: int) -> list[str]:
    return [
        "To decide about the care of a person: synthetic patients show what is usual, not what is true of one person.",
        "To learn about the people behind the source: the tests are evidence that this fails, not a guarantee.",
        f"To count rare events: codes of fewer than {k} patients were rolled up or left out.",
        "To report results as if they came from real patients: repeat important results on real patients.",
    ]


# ---- tables -------------------------------------------------------------------------------------------------
def _tables(release: ReleaseSummary) -> Iterator[Part]:
    """The tables in order, each with what good looks like."""
    attempt = release.chosen
    yield _measures_table(attempt)
    if len(release.synthetic.vocabulary.domains) > 1:
        yield _domain_table(release)
    yield _useful_table(attempt)
    yield gate_table(attempt.lines)
    beside = beside_gate(attempt.scores.by_stratum("privacy"))
    if beside:
        yield Bullets(beside)
    if attempt.model_lines:
        yield gate_table(attempt.model_lines, of_model=True)
    yield read_table(release)
    yield codes_table(release)
    if len(release.attempts) > 1:
        yield _attempts_table(release.attempts)
    yield _made_table(release)


def _comparisons_table(attempt: Attempt) -> Table:
    """The fixed list, always the same; what these records do not have is said, too."""
    rows = []
    for one in attempt.comparisons.each:
        permits = one.permits if one.applies else "–"
        cells = (Cell(one.title), Cell(f"{one.sentence[0].upper()}{one.sentence[1:]}"), Cell(permits))
        rows.append(Line((*cells, Cell(one.quality if one.applies else "not in these data")), one.quality))
    columns = ("comparison", "result", "recommended use", "status")
    caption = (
        "Independent codes: codes drawn one by one at their real frequency. Real data: other real patients, not used "
        "for training."
    )
    return Table(columns, tuple(rows), "comparisons", "", caption, always_open=True)


def _measures_table(attempt: Attempt) -> Table:
    """Every number behind the comparisons that has a gap from independent codes to real data."""
    rows = []
    for measured in [*(each for one in attempt.comparisons.each for each in one.measures), *_discriminator(attempt)]:
        found = measured.found
        if found.synthetic is None:
            continue
        values = (found.synthetic, found.independent, found.copies)
        nearest = _nearest(values, found.real)
        cells = [Cell(format_number(x), x, best=number == nearest) for number, x in enumerate(values)]
        share = Cell(share_text(found.share), found.share, found.text if found.quality == "unknown" else "")
        real = Cell(format_number(found.real), found.real)
        rows.append(Line((Cell(measured.what, note=measured.metric), cells[0], real, *cells[1:], share)))
    columns = ("measure", "synthetic", "real data", "independent codes", "copies", "share of the gap")
    caption = (
        "Share of the gap: from independent codes (0%) to real data (100%), where the two can be told apart. Copies: "
        "the training patients themselves, copied."
    )
    good = (
        "Synthetic near real data, far from independent codes. ◆ marks what is nearest to real data; where it marks "
        "copies, the measure rewards memorisation."
    )
    return Table(columns, tuple(rows), "like", "Similar to real patients", caption, good=good)


def _discriminator(attempt: Attempt) -> list[Measured]:
    """How well a model tells synthetic from real patients, where that was evaluated."""
    row = find_row(attempt.scores, "discriminator_auc", MATCHED, "all")
    if row is None or row.value is None:
        return []
    found = gap_closed(attempt.scores, None, "discriminator_auc")  # type: ignore[arg-type]
    return [Measured("discriminator_auc", "A model that tells them from real patients (AUROC, chance 0.5)", found)]


#: What is shown of each domain alone, at equal numbers of patients: the metric and its name.
_BY_DOMAIN = {"prevalence_log_r2": "prevalence", "bigram_r2": "pairs"}


def _domain_table(release: ReleaseSummary) -> Table:
    """Each domain with all other codes left out."""
    rows = {(row.metric, row.stratum): row for row in release.chosen.scores.rows}
    vocabulary, lines = release.synthetic.vocabulary, []
    for domain in vocabulary.domains:
        cells = [Cell(domain), Cell(f"{int(vocabulary.domain_mask(domain).sum()):,}")]
        for metric in _BY_DOMAIN:
            row = rows.get((metric, f"{MATCHED}:only:{domain}"))
            found = (None, None) if row is None else (row.value, row.real_test)
            why = "" if row is None else plain_reason(row.reason)
            cells += [Cell(format_number(x), x, why if x is None else "") for x in found]
        attack = rows.get(("membership_auc", f"only:{domain}"))
        value, why = (None, "") if attack is None else (attack.value, attack.reason)
        lines.append(Line((*cells, Cell(format_number(value), value, plain_reason(why) if value is None else ""))))
    names = [f"{name}, {who}" for name in _BY_DOMAIN.values() for who in ("synthetic", "real data")]
    caption = (
        "The records with the codes of one domain alone: agreement of log prevalence and of pairs in a visit with the "
        "training patients (R²; 1 is equal), at equal numbers of patients; and the AUROC of the strongest membership "
        "attack."
    )
    good = "Synthetic near real data, and an attack near 0.5. A domain of few codes says little."
    columns = ("domain", "codes", *names, "strongest attack")
    return Table(columns, tuple(lines), "domains", "Every domain alone", caption, good=good)


def _nearest(values: tuple[float | None, ...], real: float | None) -> int | None:
    """The position of the value nearest to real; None where several are.

    >>> _nearest((0.4, 0.1, 0.9), 0.5), _nearest((0.0, 0.0, None), 0.0)
    (0, None)
    """
    if real is None:
        return None
    known = sorted((abs(value - real), number) for number, value in enumerate(values) if value is not None)
    return known[0][1] if len(known) > 1 and known[0][0] < known[1][0] else None


def _useful_table(attempt: Attempt) -> Table:
    rows = []
    for line in usefulness(attempt):
        numbers = [
            Cell(format_number(x), x, "" if x is not None else plain_reason(why))
            for x, why in ((line.synthetic, line.why), (line.real, line.why_real))
        ]
        rows.append(Line((Cell(line.what), *numbers, Cell(share_text(line.share), line.share))))
    columns = ("what is predicted", "trained on synthetic", "trained on real", "share of the gap from chance")
    caption = (
        "Area under the ROC curve of models trained on synthetic patients and on as many real patients, evaluated on "
        "real patients not used for training; mean over groups of codes."
    )
    good = f"The first number nearly as high as the second; chance is {CHANCE:g}."
    return Table(columns, tuple(rows), "useful", "Useful", caption, good=good)


def read_table(release: ReleaseSummary) -> Table:
    """What the source held, and what was left out while it was read, by reason."""
    k, read = release.min_patients, release.read
    rows = read.rows(k)
    by_rule = ", ".join(f"{format_count(n, k)} {reason}" for reason, n in read.by_rule.items())
    caption = "Counted in the source as it was." if rows else "The source did not count what it held."
    caption += f" Left out by rule, which is no loss: {by_rule}." if by_rule else ""
    good = "Nothing or nearly nothing left out."
    columns = ("", "in the source", "left out", "share", "why")
    names = {"codes": "Code entries", "patients": "Patients", "visits": "Visits"}
    lines = tuple(Line(tuple(Cell(names.get(text, text) or "–") for text in row)) for row in rows)
    return Table(columns, lines, "read", "Read from the source", caption, good=good)


def codes_table(release: ReleaseSummary) -> Table:
    """How many codes and occurrences kept their full code, all and of the rarest third."""
    k, facts = release.min_patients, release.chosen.rollup
    codes, entries, tail = facts["codes"], facts["entries"], facts["tail"]

    def row(name: str, *cells: str) -> Line:
        return Line(tuple(Cell(text) for text in (name, *cells)))

    steps = ("category", "block", "chapter", "above")
    up = ", ".join(f"{n:,} to their {name}" for n, name in zip(facts["steps"], steps, strict=False) if n)
    share = tail["entries kept in full"] / tail["entries"] if tail["entries"] else 0.0
    kinds = ("kept in full", "rolled up", "not placed")
    rows = (
        row("Codes", f"{codes['before']:,}", *(f"{codes[kind]:,}" for kind in kinds)),
        row(
            "Occurrences in visits",
            format_count(entries["all"], k),
            *(format_count(entries[kind], k) for kind in kinds),
        ),
        row("Codes of the rarest third", f"{tail['codes']:,}", f"{tail['kept in full']:,}", "", ""),
        row("Occurrences of the rarest third", format_count(tail["entries"], k), f"{share:.0%}", "", ""),
    )
    caption = (
        f"Every code is held by at least {k} training patients; a rarer code is replaced by its category, section or "
        f"chapter, the first that has as many{f' ({up})' if up else ''}. A code without any was left out."
    )
    columns = ("", "of training patients", "kept in full", "rolled up", "left out")
    good = "Most occurrences kept in full; nearly none left out."
    return Table(columns, rows, "codes", "Codes", caption, good=good)


def _attempts_table(attempts: Sequence[Attempt]) -> Table:
    rows = []
    for attempt in attempts:
        failed = ", ".join(words_of(line).title for line in attempt.lines if not line.passed)
        useful = next((line.synthetic for line in usefulness(attempt) if line.synthetic is not None), None)
        cells = (
            Cell(str(attempt.number)),
            Cell(attempt.what),
            Cell(attempt.comparisons.quality),
            Cell(format_number(useful), useful),
            Cell("passed" if attempt.passed else "refused", None, failed),
        )
        rows.append(Line(cells, "met" if attempt.passed else "exceeded"))
    columns = ("attempt", "what was changed", "similar to real", "useful", "outcome")
    good = "Privacy checks passed with as little changed as possible."
    caption = "Each attempt is more careful than the one before."
    return Table(columns, tuple(rows), "attempts", "Attempts", caption, good=good, always_open=True)


def _made_table(release: ReleaseSummary) -> Table:
    attempt = release.chosen
    network = attempt.settings.get("architecture", {})
    private = attempt.settings.get("privacy")
    lines = [
        ("Method", release.method),
        ("Network", ", ".join(f"{name} {network[name]}" for name in ("width", "layers") if name in network)),
        ("Epochs", f"{attempt.costs.get('passes') or 0:.3g} of about {attempt.wanted_passes:.3g}"),
        ("Converged", converged(release)),
        ("Minutes allowed for each attempt", f"{release.minutes:g}"),
        ("Evaluation", _evaluation(attempt)),
    ]
    if private:
        covers = "it covers training, not the selection of codes by their counts"
        lines.append(("Differential privacy", f"ε = {private['epsilon']:g}; {covers}"))
    if attempt.n_drawn_again:
        why = f"a visit had more codes than a visit of {release.min_patients} real patients has"
        lines.append(("Drawn again", f"{attempt.n_drawn_again:,} patients: {why}"))
    if attempt.n_hidden_attributes:
        lines.append(("Attributes", f"combinations of fewer than {release.min_patients} patients were made unknown"))
    rows = tuple(Line((Cell(name), Cell(text))) for name, text in lines)
    good = "Training that had converged; if not, more minutes help."
    return Table(("what", "how"), rows, "made", "How it was made", "", good=good)


def _evaluation(attempt: Attempt) -> str:
    """How thoroughly, and by how many patients, in words."""
    words = "quick: fewer draws and smaller models than in a full evaluation" if attempt.quick else "in full"
    by_suite = attempt.scores.card.get("patients by suite", {})
    fewest = min((n for sizes in by_suite.values() for n in sizes.values()), default=0)
    return f"{words}; privacy with all patients, the rest with {fewest:,} of each part at most" if fewest else words
