"""The page of a release, for somebody who has never read a paper on it: three lamps, pictures, then tables.

One file that opens offline: style, script and pictures are inside, and nothing is asked of the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

from adapcla.disclosure import format_count
from adapcla.evaluation.metric import has_stays
from adapcla.evaluation.scores import MATCHED
from adapcla.release import pictures
from adapcla.release.bars import bar_sections
from adapcla.release.dataset_card import UNSAFE, converged
from adapcla.release.summary import (
    GUESSING,
    NOT_APART,
    Attempt,
    Likeness,
    Release,
    lamps,
    likeness,
    likeness_share,
    usefulness,
)
from adapcla.report.gate_words import TO_DO, gate_table, in_words, words_of
from adapcla.report.timelines import timelines
from adapcla.tables import Cell, Line, Table, format_number
from adapcla.version import __version__


class Status(NamedTuple):
    """What became of the data, in two words and a sentence."""

    light: str
    word: str
    sentence: str


def rendered(release: Release) -> str:
    """The HTML of the page; text is escaped, style and script are the package's own."""
    from jinja2 import Environment
    from markupsafe import Markup

    sheets = files("adapcla.report") / "templates"
    read = {name: (sheets / f"release.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")}
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(read["html"])
    train, synthetic, k = release.train, release.synthetic.on(release.train.vocabulary), release.min_patients
    return template.render(
        release=release,
        status=status(release),
        lamps=lamps(release),
        facts=_facts(release),
        prevalences=pictures.prevalences(train, synthetic),
        company=pictures.company(train, synthetic, k),
        bar_sections=bar_sections(train, synthetic, k),
        timelines=timelines(synthetic, train),
        stays=has_stays(train.vocabulary),
        tables=list(_tables(release)),
        k=k,
        css=Markup(read["css"]),
        js=Markup(read["js"]),
        version=__version__,
    )


def status(release: Release) -> Status:
    """What became of the data."""
    accepted = [line for line in release.chosen.lines if line.accepted]
    if release.passed and accepted:
        named = ", ".join(words_of(line).title for line in accepted)
        return Status("amber", "Released", f"Not shown to be kept, and accepted: {named}. {accepted[0].accepted}")
    if release.passed:
        return Status("green", "Released", "The privacy gate let these synthetic patients pass.")
    failed = [line for line in release.chosen.lines if not line.passed]
    reasons = " ".join(in_words(line) for line in failed)
    if release.unsafe:
        return Status("red", UNSAFE, f"The privacy gate refused these data and they were written anyway. {reasons}")
    todo = "; ".join(TO_DO)
    return Status("red", "Not released", f"The privacy gate refused these data. {reasons} What helps: {todo}.")


def _facts(release: Release) -> list[tuple[str, str]]:
    """The sizes under the title."""
    synthetic = release.synthetic
    return [
        (f"{synthetic.n_patients:,}", "synthetic patients"),
        (f"{synthetic.n_visits:,}", "visits"),
        (f"{synthetic.n_codes:,}", "codes"),
        (format_count(release.train.n_patients, release.min_patients), "real patients learned from"),
    ]


def _tables(release: Release) -> Iterator[tuple[Table, str]]:
    """The tables in order, each with what good looks like."""
    attempt = release.chosen
    yield (
        _like_table(likeness(attempt.scores)),
        (
            "Synthetic near real, far from chance. The mark ◆ stands at what is nearest to real; where it stands at "
            "copies, the measure rewards memory."
        ),
    )
    if len(release.synthetic.vocabulary.domains) > 1:
        yield (
            _domain_table(release),
            "Synthetic near real, and an attack near 0.5. A domain of few codes says little.",
        )
    yield _useful_table(attempt), "The first number nearly as high as the second; guessing is 0.5."
    yield (
        gate_table(attempt.lines),
        (
            "Every line kept. A leak is not shown where a value is above its limit by no more than chance explains "
            "with so few patients. Excess and gap are 0 and an attack is 0.5 where nothing leaks, which is measured by "
            "patients whom nothing was learned from. Evidence, not a guarantee."
        ),
    )
    if attempt.model_lines:
        yield (
            gate_table(attempt.model_lines, "model", "Attacks on the model"),
            ("Every line kept: only then is the model written beside the data."),
        )
    yield _codes_table(release), "Most occurrences kept in full; what was left out close to nothing."
    if len(release.attempts) > 1:
        yield _tries_table(release.attempts), "The gate met with as little changed as possible."
    yield _made_table(release), "Training that had converged; if it had not, more minutes help."


def _like_table(lines: list[Likeness]) -> Table:
    rows = []
    for line in lines:
        values = (line.synthetic, line.chance, line.copies)
        nearest = _nearest(values, line.real)
        cells = [Cell(format_number(x), x, best=number == nearest) for number, x in enumerate(values)]
        way = Cell(_way(line.way), line.way, _short(line.why) if line.way is None else "")
        rows.append(Line((Cell(line.what), cells[0], Cell(format_number(line.real), line.real), *cells[1:], way)))
    columns = ("what is compared", "synthetic", "real", "chance", "copies", "way from chance to real")
    caption = (
        "Real: other real patients whom nothing was learned from. Chance: codes drawn one by one at their real "
        "frequency. Copies: training patients photocopied."
    )
    return Table(columns, tuple(rows), "like", "Like real patients", caption)


#: What is told of each domain alone, at equal numbers of patients: the metric and its name.
_BY_DOMAIN = {"prevalence_log_r2": "frequencies", "bigram_r2": "pairs"}


def _domain_table(release: Release) -> Table:
    """Each domain with all other codes left out."""
    rows = {(row.metric, row.stratum): row for row in release.chosen.scores.rows}
    vocabulary, lines = release.synthetic.vocabulary, []
    for domain in vocabulary.domains:
        cells = [Cell(domain), Cell(f"{int(vocabulary.domain_mask(domain).sum()):,}")]
        for metric in _BY_DOMAIN:
            row = rows.get((metric, f"{MATCHED}:only:{domain}"))
            found = (None, None) if row is None else (row.value, row.real_test)
            why = "" if row is None else _short(row.reason)
            cells += [Cell(format_number(x), x, why if x is None else "") for x in found]
        attack = rows.get(("membership_auc", f"only:{domain}"))
        value, why = (None, "") if attack is None else (attack.value, attack.reason)
        lines.append(Line((*cells, Cell(format_number(value), value, _short(why) if value is None else ""))))
    names = [f"{name}, {who}" for name in _BY_DOMAIN.values() for who in ("synthetic", "real")]
    caption = (
        "The records with the codes of one domain alone: how near logarithms of frequencies, and pairs in a visit, "
        "come to those of the patients learned from (R²; 1 is equal), at equal numbers of patients; and how often "
        "the strongest attack picks the training patient out of a pair."
    )
    columns = ("domain", "codes", *names, "strongest attack")
    return Table(columns, tuple(lines), "domains", "Every domain alone", caption)


def _way(share: float | None) -> str:
    """A share of the way in percent; nothing is said of a sign that rounding leaves without a number.

    >>> _way(0.374), _way(-0.003), _way(None)
    ('37%', '0%', '–')
    """
    return "–" if share is None else f"{round(share, 2) + 0.0:.0%}"


def _nearest(values: tuple[float | None, ...], real: float | None) -> int | None:
    """The position of the value nearest to real.

    >>> _nearest((0.4, 0.1, 0.9), 0.5)
    0
    """
    if real is None:
        return None
    known = [(abs(value - real), number) for number, value in enumerate(values) if value is not None]
    return min(known)[1] if known else None


#: Reasons of the scores in words that need no other page.
_PLAIN = {
    "ceiling and floor are equal": "chance and real patients are equal here",
    "the floor is better than the ceiling": "chance is above real patients here",
    "ceiling and floor differ by less than the score's own interval": "too few patients to tell chance from real",
    NOT_APART: "too few patients to tell chance from real",
    "insufficient data": "too few patients",
}


def _short(reason: str) -> str:
    """The beginning of a reason, which says what, in plain words.

    >>> _short("insufficient data: 12 members")
    'too few patients'
    """
    beginning = reason.partition(":")[0].partition(";")[0]
    return _PLAIN.get(beginning, beginning)


def _useful_table(attempt: Attempt) -> Table:
    rows = []
    for line in usefulness(attempt):
        way = None
        if line.synthetic is not None and line.real is not None and line.real > GUESSING:
            way = (line.synthetic - GUESSING) / (line.real - GUESSING)
        numbers = [
            Cell(format_number(x), x, "" if x is not None else _short(why))
            for x, why in ((line.synthetic, line.why), (line.real, line.why_real))
        ]
        rows.append(Line((Cell(line.what), *numbers, Cell(_way(way), way))))
    columns = ("what is predicted", "trained on synthetic", "trained on real", "way from guessing to real")
    caption = (
        "Area under the ROC curve of models that learned from synthetic patients and from as many real ones, judged on "
        "real patients whom neither has seen; mean over groups of codes."
    )
    return Table(columns, tuple(rows), "useful", "Useful", caption)


def _codes_table(release: Release) -> Table:
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
        f"Every code is held by at least {k} of the patients learned from; a rarer one stands as the nearest of its "
        f"category, section or chapter that has as many{f' ({up})' if up else ''}. What has none was left out."
    )
    return Table(("", "in the source", "kept in full", "rolled up", "left out"), rows, "codes", "Codes", caption)


def _tries_table(attempts: tuple[Attempt, ...]) -> Table:
    rows = []
    for attempt in attempts:
        failed = ", ".join(words_of(line).title for line in attempt.lines if not line.passed)
        share = likeness_share(likeness(attempt.scores))
        useful = next((line.synthetic for line in usefulness(attempt) if line.synthetic is not None), None)
        cells = (
            Cell(str(attempt.number)),
            Cell(attempt.what),
            Cell("–" if share is None else f"{share:.0%}", share),
            Cell(format_number(useful), useful),
            Cell("kept" if attempt.passed else "exceeded", None, failed),
        )
        rows.append(Line(cells, "held" if attempt.passed else "did-not-hold"))
    columns = ("try", "what was changed", "like real", "useful", "gate")
    return Table(columns, tuple(rows), "tries", "Tries", "Each more careful than the one before.", always_open=True)


def _made_table(release: Release) -> Table:
    attempt = release.chosen
    network = attempt.settings.get("architecture", {})
    private = attempt.settings.get("privacy")
    lines = [
        ("Method", release.method),
        ("Network", ", ".join(f"{name} {network[name]}" for name in ("width", "layers") if name in network)),
        ("Passes over the patients", f"{attempt.costs.get('passes') or 0:.3g} of about {attempt.wanted_passes:.3g}"),
        ("Converged", converged(release)),
        ("Minutes allowed for each try", f"{release.minutes:g}"),
        ("Judged", _judged(attempt)),
    ]
    if private:
        covers = "it covers training, not the choice of codes by their counts"
        lines.append(("Differential privacy", f"ε = {private['epsilon']:g}; {covers}"))
    if attempt.n_drawn_again:
        why = f"a visit held more codes than a visit of {release.min_patients} real patients does"
        lines.append(("Drawn again", f"{attempt.n_drawn_again:,} patients: {why}"))
    if attempt.n_hidden_attributes:
        lines.append(("Attributes", f"combinations of fewer than {release.min_patients} patients were made unknown"))
    rows = tuple(Line((Cell(name), Cell(text))) for name, text in lines)
    return Table(("what", "how"), rows, "made", "How it was made", "")


def _judged(attempt: Attempt) -> str:
    """How thoroughly, and by how many patients, in words."""
    words = "quickly: fewer draws and smaller models than in a full judgement" if attempt.quick else "in full"
    by_suite = attempt.scores.card.get("patients by suite", {})
    fewest = min((n for sizes in by_suite.values() for n in sizes.values()), default=0)
    return f"{words}; privacy by all patients, the rest by {fewest:,} of each part at most" if fewest else words
