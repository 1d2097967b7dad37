"""What pages draw themselves, as HTML: patients in time, tables, bars, a curve, statuses and errors.

Every text is escaped. Colours lean on the colour of the page's own text, so that light and dark both are readable; what
a colour says is said by a word or a mark too.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from adapcla.report.timelines import Timeline

#: Hues of chapters, far apart for neighbours.
_HUES = (210, 25, 150, 285, 50, 330, 180, 0, 245, 95, 310, 120)
#: Okabe and Ito's blue and vermilion, which are readable on light and dark grounds.
_BLUE, _ORANGE, _GREY = "#3B93D2", "#E0702E", "#8A8A8A"
_LIGHTS = {"green": ("#1a9c6b", "●"), "amber": ("#c98a00", "▲"), "red": ("#d8452e", "■"), "grey": (_GREY, "○")}

STYLE = """<style>
.stMainBlockContainer{padding-top:3.75rem;padding-bottom:4rem}.stMain h1{font-size:2rem;padding:.3rem 0 .6rem}
.ad-table{border-collapse:collapse;width:100%;font-size:.92rem}.ad-scroll{overflow-x:auto;max-width:100%}
.ad-table th,.ad-table td{padding:.3rem .6rem;text-align:left;vertical-align:top;
 border-bottom:1px solid color-mix(in srgb,currentColor 18%,transparent)}
.ad-table .n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.ad-table caption{caption-side:top;text-align:left;font-weight:600;padding:.2rem 0}
.ad-error{border-left:.35rem solid #d8452e;padding:.6rem .9rem;white-space:pre-wrap;overflow-wrap:anywhere;
 background:color-mix(in srgb,#d8452e 12%,transparent);border-radius:.3rem}
.ad-person{border:1px solid color-mix(in srgb,currentColor 18%,transparent);border-radius:.5rem;padding:.7rem .9rem;
 margin:0 0 .8rem 0}
.ad-person h4{margin:0;padding:0;font-size:1rem}.ad-person .span{opacity:.8;font-size:.9rem}
.ad-line{position:relative;height:1.1rem;margin:.5rem .6rem .3rem}
.ad-line::before{content:"";position:absolute;left:0;right:0;top:.5rem;height:2px;
 background:color-mix(in srgb,currentColor 30%,transparent)}
.ad-line i{position:absolute;top:.15rem;width:.75rem;height:.75rem;margin-left:-.37rem;border-radius:50%;
 background:currentColor}
.ad-visits{display:flex;flex-wrap:wrap;gap:.7rem}
.ad-visits>li{flex:1 1 13rem;min-width:0;max-width:26rem}.ad-visits .day{font-size:.85rem;opacity:.8}
.ad-visits,.ad-codes{padding:0!important;margin:.15rem 0 0!important;list-style:none!important}
.ad-visits>li{margin:0!important;padding:0!important}
.ad-chip{border-left:.35rem solid var(--c);background:color-mix(in srgb,var(--c) 13%,transparent);
 margin:.15rem 0!important;padding:.12rem .45rem;border-radius:.2rem;font-size:.88rem;overflow-wrap:anywhere}
.ad-chip b{font-variant-numeric:tabular-nums}.ad-chip.rare{outline:1.5px dashed var(--c);font-weight:600}
.ad-legend{display:flex;flex-wrap:wrap;gap:.4rem;font-size:.85rem;margin:.2rem 0 .6rem}
.ad-bar{height:.7rem;border-radius:.2rem;min-width:1px}.ad-cell{min-width:7rem}
.ad-statuses{display:grid;grid-template-columns:repeat(auto-fit,minmax(14rem,1fr));gap:.8rem}
.ad-status{border:1px solid color-mix(in srgb,currentColor 18%,transparent);border-radius:.5rem;padding:.7rem .9rem;
 border-top:.35rem solid var(--c)}.ad-status .number{font-size:1.5rem;font-weight:700}.ad-status p{margin:.2rem 0 0}
.ad-curve{width:100%;max-width:46rem;height:auto;display:block}.ad-small{font-size:.88rem;opacity:.85}
</style>"""


def hue(chapter: str, chapters: Sequence[str]) -> int:
    """The hue of a chapter among those that are shown.

    >>> hue("E", ["A", "E"]), hue("x", [])
    (25, 210)
    """
    known = sorted(set(chapters))
    return _HUES[known.index(chapter) % len(_HUES)] if chapter in known else _HUES[0]


def colour(chapter: str, chapters: Sequence[str]) -> str:
    """The colour of a chapter, of middling lightness.

    >>> colour("E", ["A", "E"])
    'hsl(25 65% 48%)'
    """
    return f"hsl({hue(chapter, chapters)} 65% 48%)"


def person(timeline: Timeline, title: str, chapters: Sequence[str], marked: Sequence[str] = ()) -> str:
    """A patient: the line with its visits, then the visits with their codes; `marked` codes are underlined."""
    dots = "".join(f'<i style="left:{100 * visit.place:.1f}%"></i>' for visit in timeline.visits)
    visits = []
    for number, visit in enumerate(timeline.visits, 1):
        when = f"visit {number}" + (f", day {visit.day:,}" if visit.day is not None else "")
        codes = "".join(_chip(code, chapters, code["code"] in marked) for code in visit.codes)
        more = f'<li class="ad-small">and {visit.n_more} more</li>' if visit.n_more else ""
        visits.append(f'<li><span class="day">{when}</span><ul class="ad-codes">{codes}{more}</ul></li>')
    later = f'<p class="ad-small">and {timeline.n_more} later visits</p>' if timeline.n_more else ""
    who = f" {escape(timeline.who)}" if timeline.who else ""
    return (
        f'<section class="ad-person" aria-label="{escape(title)}"><h4>{escape(title)}</h4>'
        f'<span class="span">{who} · {escape(timeline.span)}</span><div class="ad-line" aria-hidden="true">{dots}</div>'
        f'<ol class="ad-visits">{"".join(visits)}</ol>{later}</section>'
    )


def _chip(code: Mapping[str, Any], chapters: Sequence[str], marked: bool) -> str:
    name = "" if code["name"] == code["code"] else f" {escape(code['name'])}"
    words = f"<b>{escape(code['code'])}</b>{name}"
    words = f"<u>{words}</u>" if marked else words
    rare = ' <span title="one of the rarest third of all codes">◆ rare</span>' if code["rare"] else ""
    kind = "ad-chip rare" if code["rare"] else "ad-chip"
    return f'<li class="{kind}" style="--c:{colour(code["chapter"], chapters)}">{words}{rare}</li>'


def legend(shown: Sequence[str], chapters: Sequence[str]) -> str:
    """The colours of the chapters that are shown, among all that there are."""
    chips = "".join(
        f'<span class="ad-chip" style="--c:{colour(chapter, chapters)}">{escape(chapter)}</span>'
        for chapter in sorted(set(shown))
    )
    return f'<div class="ad-legend" aria-label="colours of chapters">{chips}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], caption: str = "") -> str:
    """A table; numbers stand right, None is a dash.

    >>> "<td>A&lt;B</td>" in table(["code"], [["A<B"]])
    True
    """
    numeric = [all(isinstance(row[i], int | float) or row[i] is None for row in rows) for i in range(len(head))]
    top = "".join(f'<th scope="col"{_right(n)}>{escape(h)}</th>' for h, n in zip(head, numeric, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{_right(n)}>{_text(cell)}</td>" for cell, n in zip(row, numeric, strict=True)) + "</tr>"
        for row in rows
    )
    words = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="ad-scroll" tabindex="0"><table class="ad-table">{words}<thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _right(numeric: bool) -> str:
    return ' class="n"' if numeric else ""


def _text(cell: Any) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, int) and not isinstance(cell, bool):
        return f"{cell:,}"
    return escape(f"{cell:.4g}" if isinstance(cell, float) else str(cell))


def share(value: float | None) -> str:
    """A share in percent with three digits that matter.

    >>> share(0.12345), share(0.00002), share(None)
    ('12.3 %', '0.002 %', '–')
    """
    return "–" if value is None else f"{float(f'{100 * value:.3g}'):g} %"


def chances(codes: Sequence[Mapping[str, Any]]) -> str:
    """Codes with their probabilities, as a table with bars."""
    rows = "".join(
        f"<tr><td>{escape(code['code'])}</td><td>{escape(code['name'])}</td>"
        f'<td class="n">{share(code["probability"])}</td>'
        f'<td class="ad-cell">{_bar(code["probability"], _BLUE)}</td></tr>'
        for code in codes
    )
    head = '<th scope="col">code</th><th scope="col">name</th><th scope="col" class="n">probability</th><th></th>'
    return (
        '<div class="ad-scroll" tabindex="0"><table class="ad-table"><caption>Likeliest codes of the next visit'
        f"</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def steered(lines: Sequence[Mapping[str, Any]]) -> str:
    """Requested prevalences beside what the paper's rule and the closed loop came to."""
    top = max([line[key] or 0.0 for line in lines for key in ("before", "requested", "paper", "loop")] or [1.0]) or 1.0
    ways = (("before", _GREY), ("requested", _BLUE), ("paper", _ORANGE), ("loop", "#1a9c6b"))
    rows = "".join(
        f"<tr><td>{escape(line['code'])}</td><td>{escape(line['name'])}</td>"
        + "".join(
            f'<td class="ad-cell">{share(line[key])}{_bar((line[key] or 0.0) / top, tone)}</td>' for key, tone in ways
        )
        + "</tr>"
        for line in lines
    )
    names = ("code", "name", "as trained", "requested", "the paper's rule", "closed loop")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return (
        '<div class="ad-scroll" tabindex="0"><table class="ad-table"><caption>Share of visits that hold the code'
        f"</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _bar(part: float, tone: str) -> str:
    width = 100 * min(max(part, 0.0), 1.0)
    return f'<div class="ad-bar" aria-hidden="true" style="width:{width:.1f}%;background:{tone}"></div>'


def statuses(shown: Sequence[Mapping[str, str]]) -> str:
    """The three statuses of a release: a colour with a shape, a number and a sentence."""
    cards = []
    for status in shown:
        tone, mark = _LIGHTS.get(status["tone"], _LIGHTS["grey"])
        cards.append(
            f'<div class="ad-status" style="--c:{tone}"><strong><span style="color:var(--c)" aria-hidden="true">{mark}'
            f'</span> {escape(status["title"])}</strong> <span class="ad-small">({escape(status["tone"])})</span>'
            f'<div class="number">{escape(status["value"])} <small>{escape(status["unit"])}</small></div>'
            f"<p>{escape(status['sentence'])}</p></div>"
        )
    return f'<div class="ad-statuses">{"".join(cards)}</div>'


def error(message: str) -> str:
    """The message of a command: what was found, what was expected and what to do."""
    return f'<div class="ad-error" role="alert">{escape(message)}</div>'


def curve(trained: Sequence[tuple[float, float]], checked: Sequence[tuple[float, float]]) -> str:
    """The loss over the steps: a line for training, dots for validation; nothing where there is no step yet."""
    both = [*trained, *checked]
    if len(both) < 2:
        return ""
    left, right = min(x for x, _ in both), max(x for x, _ in both)
    low, high = min(y for _, y in both), max(y for _, y in both)

    def at(point: tuple[float, float]) -> str:
        x = 46 + 540 * (point[0] - left) / ((right - left) or 1.0)
        y = 150 - 140 * (point[1] - low) / ((high - low) or 1.0)
        return f"{x:.1f},{y:.1f}"

    path = " ".join(map(at, trained))
    dots = "".join(
        f'<circle cx="{x}" cy="{y}" r="4" fill="{_ORANGE}"/>' for x, y in (at(p).split(",") for p in checked)
    )
    grid = "".join(
        f'<line x1="46" x2="586" y1="{y}" y2="{y}" stroke="{_GREY}" stroke-opacity=".4"/>'
        f'<text x="40" y="{y + 4}" text-anchor="end">{low + (150 - y) / 140 * (high - low):.3g}</text>'
        for y in (10, 80, 150)
    )
    drawing = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 178" font-family="sans-serif" font-size="12" '
        f'fill="{_GREY}">{grid}<polyline points="{path}" fill="none" stroke="{_BLUE}" stroke-width="2"/>{dots}'
        f'<text x="46" y="172">step {left:,.0f}</text>'
        f'<text x="586" y="172" text-anchor="end">step {right:,.0f}</text></svg>'
    )
    last = f", last {checked[-1][1]:.4g} in validation" if checked else ""
    words = f"Loss of training (line) and of validation (dots) up to step {right:,.0f}{last}"
    return f'{picture(drawing.encode(), words)}<p class="ad-small">{escape(words)}.</p>'


def picture(svg: bytes, words: str) -> str:
    """A drawing as an image, which can run nothing, with words for those who do not see it."""
    content = base64.b64encode(svg).decode()
    return f'<img class="ad-curve" alt="{escape(words)}" src="data:image/svg+xml;base64,{content}">'
