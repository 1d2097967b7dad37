"""One way to build pages: tables, charts, figures and text become an HTML file that opens offline, or part of a page.

Style, script and pictures are inside the file, text is escaped, and nothing is loaded from the network. Release, study
and studio hand over the same parts.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from adapcla.files import write_bytes
from adapcla.report.timelines import Timeline
from adapcla.tables import Table
from adapcla.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

#: What a status can say: of quality, of a privacy check, or that nothing can be said.
StatusOutcome = Literal["good", "fair", "poor", "met", "not shown", "exceeded", "unknown"]
Tone = Literal["green", "amber", "red", "grey"]
_TONES: dict[str, Tone] = {
    "good": "green", "met": "green", "fair": "amber", "not shown": "amber", "poor": "red", "exceeded": "red",
    "unknown": "grey", "held": "green", "did-not-hold": "red", "cannot-tell": "amber", "exploratory": "grey",
}  # fmt: skip
#: What the tone of a status permits, as advice.
PERMITS: dict[Tone, str] = {
    "green": "may go to partners under agreement",
    "amber": "inside the house",
    "red": "not at all",
    "grey": "inside the house, until this is known",
}


def tone_of(outcome: str) -> Tone:
    """The colour of an outcome.

    >>> tone_of("good"), tone_of("not shown"), tone_of("exceeded"), tone_of("unknown")
    ('green', 'amber', 'red', 'grey')
    """
    return _TONES.get(outcome, "grey")


class Status(NamedTuple):
    """One question with its outcome, the number it rests on and a sentence."""

    key: str
    title: str
    outcome: StatusOutcome
    value: str = ""
    unit: str = ""
    sentence: str = ""
    #: Why it permits no more and no less than it does.
    why: str = ""
    #: What it permits where that does not follow from the outcome alone.
    use: str = ""

    @property
    def tone(self) -> Tone:
        """The colour that it is shown in."""
        return tone_of(self.outcome)

    @property
    def permits(self) -> str:
        """What it permits, as advice."""
        return self.use or PERMITS[self.tone]


class Text(NamedTuple):
    """A paragraph."""

    text: str
    #: How it is styled: "", "note" or "warning".
    kind: str = ""


class Listing(NamedTuple):
    """Lines that are folded away under a title."""

    title: str
    lines: Sequence[str]


class Bullets(NamedTuple):
    """A list in the open."""

    lines: Sequence[str]


class Chart(NamedTuple):
    """Drawn HTML or SVG of `charts`, which has escaped what it shows."""

    html: str


class Facts(NamedTuple):
    """Numbers in a line of tiles: (number, what it counts, how it is styled)."""

    tiles: Sequence[tuple[str, str, str]]


class Figure(NamedTuple):
    """A picture of matplotlib, or the path of one without its suffix, with its title and caption."""

    key: str
    title: str
    caption: str
    drawing: Drawing | Path
    #: Whether it has so many marks that pixels are smaller than shapes.
    dense: bool = False

    def save(self, folder: Path) -> None:
        """Write the picture as KEY.svg and KEY.png, and its caption as KEY.md."""
        from adapcla.report import style

        stem = folder / self.key
        if isinstance(self.drawing, Path):
            folder.mkdir(parents=True, exist_ok=True)
            for suffix in style.FORMATS:
                content = self.drawing.with_name(self.drawing.name + suffix).read_bytes()
                write_bytes(stem.with_name(stem.name + suffix), content)
        else:
            style.save_both(self.drawing, stem)
        write_bytes(stem.with_name(stem.name + ".md"), f"**{self.title}.** {self.caption}\n".encode())

    def image(self, folder: Path | None) -> str:
        """The picture as an address of data, from the folder that it was saved in."""
        suffix, kind = (".png", "image/png") if self.dense else (".svg", "image/svg+xml")
        stem = self.drawing if isinstance(self.drawing, Path) else (folder or Path()) / self.key
        content = base64.b64encode(stem.with_name(stem.name + suffix).read_bytes()).decode()
        return f"data:{kind};base64,{content}"

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height in pixels; None where a file knows them."""
        if isinstance(self.drawing, Path):
            return None
        width, height = (round(96 * side) for side in self.drawing.get_size_inches())
        return width, height


class Timelines(NamedTuple):
    """Synthetic patients as timelines."""

    people: Sequence[Timeline]
    #: A title for each; they are numbered where there are none.
    titles: Sequence[str] = ()
    #: Codes that are underlined, because somebody searched for them.
    marked: Sequence[str] = ()
    #: Whether codes stand before their names.
    codes: bool = False

    @property
    def chapters(self) -> list[tuple[str, int]]:
        """The chapters that are shown, each with the hue of its codes."""
        shown = (code for one in self.people for visit in one.visits for code in visit.codes)
        return sorted({(code["chapter"], code["hue"]) for code in shown})


class Indicators(NamedTuple):
    """Statuses side by side."""

    statuses: Sequence[Status]


Part = Table | Text | Listing | Bullets | Chart | Facts | Figure | Timelines | Indicators


class Section(NamedTuple):
    """A heading with what stands under it."""

    id: str
    title: str
    parts: Sequence[Part]
    #: What a good result looks like.
    good: str = ""
    status: Status | None = None
    #: Name in the navigation; the title where it has none.
    short: str = ""
    #: Whether it begins one of several reports on a page.
    top: bool = False


class Page(NamedTuple):
    """A page: title, statuses at first sight, and sections."""

    title: str
    indicators: Sequence[Status]
    sections: Sequence[Section]
    #: Title of the browser window, and a word with its outcome and a sentence above the title.
    window: str = ""
    badge: tuple[str, StatusOutcome] | None = None
    over: str = ""
    lead: str = ""
    facts: Sequence[tuple[str, str]] = ()
    #: Warnings that come before any number, and remarks that follow the statuses.
    warning: str = ""
    notes: Sequence[str] = ()
    footer: str = ""

    def html(self, pictures: Path | None = None) -> str:
        """The page as one HTML file; figures are taken from the folder in which they were saved."""
        return _render(
            "page.html",
            page=self,
            sections=[section for section in self.sections if section.parts or section.top],
            image=lambda figure: figure.image(pictures),
            saved=pictures is not None,
            sortable=True,
            css=_template("parts.css") + _template("page.css"),
            js=_template("page.js"),
        )

    def save(self, path: Path, beside: Path | None = None) -> Path:
        """Write the page and, in its folder (or another), `tables/` and `figures/`.

        The folder is the page's own: files of the same names in it are replaced.
        """
        folder = path.parent if beside is None else beside
        for part in self._parts():
            if isinstance(part, Table) and part.key:
                part.save(folder / "tables")
            elif isinstance(part, Figure):
                part.save(folder / "figures")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, self.html(folder / "figures").encode())
        return path

    def _parts(self) -> Iterator[Part]:
        for section in self.sections:
            yield from section.parts


# ---- templates ------------------------------------------------------------------------------------------------
def _template(name: str) -> str:
    return (files("adapcla.report") / "templates" / name).read_text(encoding="utf-8")


def _render(template: str, css: str = "", js: str = "", **content: Any) -> str:
    """A template with its content, of which every text is escaped."""
    from jinja2 import DictLoader, Environment
    from markupsafe import Markup

    sources = {name: _template(name) for name in ("page.html", "parts.html")}
    each = "{% for one in some %}{{ parts.part(one) }}{% endfor %}"
    sources["fragment.html"] = '{% import "parts.html" as parts with context %}' + each
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=DictLoader(sources))
    environment.filters["kind"] = lambda part: type(part).__name__
    known = {"tone_of": tone_of, "outcomes": _TONES, "raw": Markup, "version": __version__}
    return environment.get_template(template).render(**known, **content, css=Markup(css), js=Markup(js))


#: Colours of parts inside another page, which follow that page's own: light or dark.
_COLOURS = """
  --paper: Canvas; --card: transparent; --ink: currentColor; --link: #2a78b8; --accent: #3b93d2;
  --sunk: color-mix(in srgb, currentColor 7%, transparent); --soft: color-mix(in srgb, currentColor 75%, transparent);
  --line: color-mix(in srgb, currentColor 18%, transparent);
  --green: #1a9c6b; --amber: #c98a00; --red: #d8452e; --grey: #8a8a8a;
  --head: #2f6fb3; --mid: #2a9d8f; --tail: #e0702e;
  --green-back: color-mix(in srgb, #1a9c6b 15%, transparent);
  --amber-back: color-mix(in srgb, #c98a00 15%, transparent);
  --red-back: color-mix(in srgb, #d8452e 12%, transparent); --grey-back: color-mix(in srgb, #8a8a8a 15%, transparent);
"""
#: Parts of another page stand closer, because that page has its own space between them.
_CLOSER = "figure.table { margin: .3rem 0 1rem; } .indicators { margin: .3rem 0; }"


def fragment(*some: Part) -> str:
    """Parts for another page, in an element that `fragment_style` styles.

    >>> "<p>1 &lt; 2</p>" in fragment(Text("1 < 2"))
    True
    """
    content = _render("fragment.html", some=some, image=lambda figure: figure.image(None), saved=False, sortable=False)
    return f'<div class="adapcla">{content}</div>'


def fragment_style() -> str:
    """The style of fragments, which touches nothing else on the page that holds them."""
    return f"<style>.adapcla {{{_COLOURS}{_template('parts.css')}{_CLOSER}}}</style>"
