"""The page: one self-contained HTML file that opens offline, with its tables and figures as files beside it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from adapcla.console import say
from adapcla.files import write_bytes
from adapcla.report import style
from adapcla.report.figures import gallery
from adapcla.report.tables import Table, ablation_table, score_table
from adapcla.study import cards, designs, others
from adapcla.study.layouts import SCORE_TABLES
from adapcla.study.results import Study
from adapcla.study.ruling import CANNOT_TELL, EXCLUDED, FEWEST_FITS, HELD, NOT_HELD
from adapcla.study.verdicts import not_assessed, verdict_table
from adapcla.version import __version__


@dataclass
class Section:
    """A heading with tables and pictures under it."""

    id: str
    title: str
    text: str = ""
    shown: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Shelf:
    """The folder of a study's tables and figures, and the path from the page to it."""

    folder: Path
    prefix: str

    def table(self, table: Table | None) -> Iterator[dict[str, Any]]:
        """The item of a table, written as CSV, Markdown and LaTeX; nothing for none."""
        if table is not None:
            table.save(self.folder / "tables")
            names = f"{self.prefix}tables/{table.key}.csv, .md, .tex"
            yield {"table": table, "files": names}

    def scores(self, study: Study) -> None:
        """Write every score of every row, fit and draw as one long table."""
        if not study.scores.is_empty():
            (self.folder / "tables").mkdir(parents=True, exist_ok=True)
            write_bytes(self.folder / "tables" / "scores.csv", study.scores.drop("redrawn").write_csv().encode())

    def picture(self, drawn: gallery.Picture) -> dict[str, Any]:
        """The item of a figure, written as SVG and PNG."""
        item: dict[str, Any] = {"title": drawn.title, "caption": drawn.caption}
        stem = self.folder / "figures" / drawn.key
        if isinstance(drawn.figure, Path):
            for suffix in style.FORMATS:
                stem.parent.mkdir(parents=True, exist_ok=True)
                write_bytes(stem.with_name(stem.name + suffix), drawn.figure.with_suffix(suffix).read_bytes())
        else:
            style.save_both(drawn.figure, stem)
            item["width"], item["height"] = (round(96 * side) for side in drawn.figure.get_size_inches())
        # Whoever keeps a figure keeps what it shows.
        write_bytes(stem.with_name(stem.name + ".md"), f"**{drawn.title}.** {drawn.caption}\n".encode())
        suffix, kind = (".png", "image/png") if drawn.dense else (".svg", "image/svg+xml")
        content = base64.b64encode(stem.with_name(stem.name + suffix).read_bytes()).decode()
        return {**item, "image": f"data:{kind};base64,{content}"}


def write_page(studies: Sequence[Study], path: str | Path) -> Path:
    """The page of one or more experiments, written with its tables and figures beside it."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    shown = []
    for study, name in zip(studies, told_apart([study.name for study in studies]), strict=True):
        folder = target.parent if len(studies) == 1 else target.parent / name
        prefix = "" if len(studies) == 1 else f"{name}/"
        shown.append(_study(study, name, Shelf(folder, prefix)))
    title = shown[0]["title"] if len(shown) == 1 else f"{len(shown)} experiments"
    write_bytes(target, rendered(title, shown).encode())
    return target


def rendered(title: str, studies: list[dict[str, Any]]) -> str:
    """The HTML of a page from what it shows; text is escaped, style and script are the package's own.

    >>> "<script>alert" in rendered("<script>alert(1)</script>", [])
    False
    """
    from jinja2 import Environment
    from markupsafe import Markup

    sheets = files("adapcla.report") / "templates"
    read = {name: (sheets / f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")}
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(read["html"])
    return template.render(
        title=title, studies=studies, css=Markup(read["css"]), js=Markup(read["js"]), version=__version__
    )


def told_apart(names: Sequence[str]) -> list[str]:
    """The names, with a number behind each that occurs again.

    >>> told_apart(["demo", "chile", "demo"])
    ['demo', 'chile', 'demo-2']
    """
    return [name if name not in names[:i] else f"{name}-{names[:i].count(name) + 1}" for i, name in enumerate(names)]


def _study(study: Study, name: str, shelf: Shelf) -> dict[str, Any]:
    """Everything that is shown of an experiment."""
    anchor = re.sub(r"[^a-z0-9]+", "-", name)
    claims = verdict_table(study)
    shelf.scores(study)
    sections = [section for section in _sections(study, shelf, claims) if section.shown]
    for section in sections:
        section.id = f"{anchor}-{section.id}"
    return {
        "id": anchor,
        "title": study.title,
        "summary": study.spec["summary"],
        "tiles": _tiles(study, claims),
        "notice": _notice(study),
        "sections": [vars(section) for section in sections],
    }


def _sections(study: Study, shelf: Shelf, claims: Table | None) -> Iterator[Section]:
    """The sections in order; one without items is left out."""
    tables = {score_columns.key: score_table(study, score_columns) for score_columns in SCORE_TABLES}
    pictures: dict[str, list[dict[str, Any]]] = {}
    for drawn in gallery.pictures(study):
        say(f"figure {drawn.key}")
        pictures.setdefault(drawn.section, []).append(shelf.picture(drawn))

    def section(name: str, title: str, *some: Table | None, text: str = "") -> Section:
        items = [item for table in some for item in shelf.table(table)]
        return Section(name, title, text, items + pictures.get(name, []))

    yield section("knowledge", "Who knows the tail, and who copied it", tables["tail-glance"], tables["tail-knowledge"])
    first = section("verdicts", "Verdicts", claims, designs.power_table(study))
    unseen = not_assessed(study)
    if unseen:
        first.shown.append({"list": unseen, "title": f"{len(unseen)} claims that this run did not look at"})
    yield first
    yield section("data", "Data", cards.data_card(study))
    tails = [tables[key] for key in tables if key.startswith("tail") and key not in ("tail-glance", "tail-knowledge")]
    yield section("tail", "The tail", *tails, ablation_table(study))
    yield section("disease", "What a rare disease looks like")
    yield section("fidelity", "Fidelity", tables["fidelity"], tables["by-domain"], tables["by-domain-tail"])
    yield section("numbers", "Numbers", tables["numbers"])
    yield section("stays", "Stays and outcomes", tables["stays"])
    yield section("course", "Course of records", tables["course"])
    yield section("discriminator", "Discriminator", tables["discriminator"], others.gave_away_table(study))
    yield section("utility", "Utility", tables["utility"])
    yield section("reliability", "Reliability", tables["reliability"])
    yield section("control", "Steering", cards.steering_table(study))
    yield section("privacy", "Privacy", cards.gate_table(study), tables["privacy"])
    yield section("others", "What others say", *others.judge_tables(study.folder))
    yield section("analysis", "Analysis", *cards.analysis_tables(study), *cards.paper_analysis_tables(study))
    yield section("cost", "Cost", designs.grid_table(study), cards.cost_table(study))
    yield section("settings", "Settings", cards.settings_table(study))
    yield section("environment", "Environment", cards.environment_table(study))


def _tiles(study: Study, claims: Table | None) -> list[dict[str, str]]:
    """The numbers under the title."""
    kinds = [line.cells[-1].text for line in claims.lines] if claims else []
    description = study.prepared["description"]
    fits = len(study.about["fits"])
    return [
        {"value": str(kinds.count(HELD)), "label": "claims held", "kind": "held"},
        {"value": str(kinds.count(NOT_HELD)), "label": "did not hold", "kind": "did-not-hold"},
        {"value": str(kinds.count(EXCLUDED)), "label": "paper's gain excluded", "kind": ""},
        {"value": str(kinds.count(CANNOT_TELL)), "label": "cannot tell", "kind": ""},
        {"value": f"{description['patients']:,}", "label": "patients", "kind": ""},
        {"value": f"{description['codes_present']:,}", "label": "codes", "kind": ""},
        {"value": str(fits), "label": f"fits of {len(study.rows)} methods", "kind": ""},
    ]


def _notice(study: Study) -> str:
    """What a reader must know before reading a number."""
    words = [f"{row}, {why}." for row, fits in study.failed.items() for why in fits]
    if study.quick:
        words.append("This is a quick look: few draws and small classifiers. Not a result.")
    if study.rows and len(study.spec["fit"]["seeds"]) < FEWEST_FITS:
        words.append(f"Fewer than {FEWEST_FITS} fits of each method: no claim between methods is decided here.")
    return " ".join(words)
