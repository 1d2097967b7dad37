"""Charts drawn as HTML and inline SVG from numbers of `aggregates`; every text in them is escaped here.

Colours are classes of the style sheet of pages, so that a chart follows light, dark and paper.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

from adapcla.report.aggregates import Bars, CooccurrenceMaps, PrevalencePoints
from adapcla.report.html import Chart

#: Width and height of the scatter plot, side of a cell of a heat map, and widths of letters of labels.
_WIDTH, _HEIGHT, _CELL, _LETTER, _WORD_LETTER = 480, 400, 13, 5.6, 6.6
#: Levels of colour of a heat map.
_LEVELS = 7


def scatter(points: PrevalencePoints) -> Chart:
    """The prevalence of each code, real against synthetic, with the band within a factor of two."""
    band, grid = _HEIGHT * points.double, []
    for place, label in points.ticks:
        x, y = _WIDTH * place, _HEIGHT * (1 - place)
        grid.append(
            f'<line class="grid" x1="{x:g}" x2="{x:g}" y1="0" y2="{_HEIGHT}"/>'
            f'<line class="grid" x1="0" x2="{_WIDTH}" y1="{y:g}" y2="{y:g}"/>'
            f'<text class="tick" x="{x:g}" y="{_HEIGHT + 18}" text-anchor="middle">{escape(label)}</text>'
            f'<text class="tick" x="-8" y="{y + 4:g}" text-anchor="end">{escape(label)}</text>'
        )
    dots = (
        f'<circle class="dot {dot.kind}" cx="{_WIDTH * dot.x:.1f}" cy="{_HEIGHT * (1 - dot.y):.1f}" r="3.2">'
        f"<title>{escape(dot.title)}</title></circle>"
        for dot in points.dots
    )
    corners = f"0,{_HEIGHT - band:g} {_WIDTH},{-band:g} {_WIDTH},{band:g} 0,{_HEIGHT + band:g}"
    svg = (
        '<svg class="chart" viewBox="0 0 560 470" role="img" '
        'aria-label="Share of visits with each code, real against synthetic"><g transform="translate(64,12)">'
        f'<rect class="plane" width="{_WIDTH}" height="{_HEIGHT}"/><svg x="0" y="0" width="{_WIDTH}" '
        f'height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"><polygon class="band" points="{corners}"/></svg>'
        f'{"".join(grid)}<line class="same" x1="0" y1="{_HEIGHT}" x2="{_WIDTH}" y2="0"/>{"".join(dots)}'
        f'<text class="axis" x="{_WIDTH / 2:g}" y="{_HEIGHT + 46}" text-anchor="middle">'
        "share of visits, real patients</text>"
        f'<text class="axis" transform="translate(-50,{_HEIGHT / 2:g}) rotate(-90)" text-anchor="middle">'
        "share of visits, synthetic patients</text></g></svg>"
    )
    drawn = len(points.dots)
    fewer = f" {drawn:,} codes are drawn, from the most frequent to the rarest." if points.n_codes > drawn else ""
    aside = (
        f'<div class="aside"><p class="big"><b>{points.inside:.0%}</b> of {points.n_codes:,} codes are inside the '
        'band</p><ul class="legend"><li><i class="dot head"></i>frequent third</li><li><i class="dot mid"></i>middle '
        'third</li><li><i class="dot tail"></i>rarest third</li></ul><p>Each dot is a code; point at one to see its '
        f"name. Dots at the bottom were never generated.{fewer}</p></div>"
    )
    return Chart(f'<div class="split">{svg}{aside}</div>')


def heatmaps(maps: CooccurrenceMaps, smallest: int) -> Chart:
    """Two maps of the co-occurrence of the most frequent codes, real and synthetic."""
    n = len(maps.labels)
    agreement = (
        ""
        if maps.agreement is None
        else f'<p class="big"><b>{maps.agreement:.2f}</b> correlation over {maps.n_pairs:,} pairs</p>'
    )
    levels = "".join(f'<li><i class="l{level}"></i></li>' for level in range(_LEVELS))
    return Chart(
        f'<div class="maps">{_heatmap(maps, maps.real, "Real")}{_heatmap(maps, maps.synthetic, "Synthetic")}</div>'
        f'<div class="under">{agreement}<ul class="legend scale"><li>chance</li>{levels}<li>8 × chance or more</li>'
        f'<li class="gap"><i class="none"></i>fewer than {smallest} patients: not shown</li></ul>'
        f"<p>The {n} most frequent codes, similar ones side by side. Point at a cell to see both names.</p></div>"
    )


def _heatmap(maps: CooccurrenceMaps, levels: Sequence[Sequence[int | None]], title: str) -> str:
    """One of the two maps."""
    n, left = len(maps.labels), max(66.0, 10 + _LETTER * max(map(len, maps.labels), default=0))
    cells = []
    for i, row in enumerate(levels):
        y = i * _CELL
        cells.append(
            f'<text class="tick code" x="{left - 6:g}" y="{y + 10}" text-anchor="end">{escape(maps.labels[i])}</text>'
        )
        for j, level in enumerate(row):
            name = "none" if level is None else f"l{level}"
            words = f"<title>{escape(maps.titles[i][j])}</title>" if maps.titles[i][j] else ""
            place = f'x="{left + j * _CELL:g}" y="{y}" width="{_CELL - 1}" height="{_CELL - 1}"'
            cells.append(f'<rect class="{name}" {place}>{words}</rect>')
    return (
        f'<figure><figcaption>{title}</figcaption><svg class="chart map" viewBox="0 0 {left + n * _CELL:g} '
        f'{n * _CELL + 4}" role="img" aria-label="Co-occurrence of codes, {title}">{"".join(cells)}</svg></figure>'
    )


def bars(some: Sequence[Bars], legend: str) -> Chart:
    """Distributions side by side: a bar for synthetic and a mark for real patients."""
    figures = []
    for one in some:
        means = "" if one.means is None else f" <span>mean {one.means[1]:.3g}, real {one.means[0]:.3g}</span>"
        drawn = _lying_bars(one) if one.words else _standing_bars(one)
        figures.append(f"<figure><figcaption>{escape(one.title)}{means}</figcaption>{drawn}</figure>")
    return Chart(
        f'<div class="bars">{"".join(figures)}</div><ul class="legend"><li><i class="bar"></i>synthetic</li>'
        f'<li><i class="mark"></i>real</li><li>{escape(legend)}</li></ul>'
    )


def _highest(one: Bars) -> float:
    return max([*one.real, *one.synthetic, 0.0]) or 1.0


def _title(one: Bars, i: int) -> str:
    label = f"{one.labels[i]} {one.unit}".strip()
    return f"<title>{escape(label)}: synthetic {one.synthetic[i]:.1%}, real {one.real[i]:.1%}</title>"


def _standing_bars(one: Bars) -> str:
    """Bars for labels that are numbers."""
    width, top, drawn = 360 / len(one.labels), _highest(one), []
    for i, label in enumerate(one.labels):
        x, height, mark = 32 + i * width, 168 * one.synthetic[i] / top, 180 - 168 * one.real[i] / top
        drawn.append(
            f'<rect class="bar" x="{x + width * 0.14:.1f}" width="{width * 0.72:.1f}" y="{180 - height:.1f}" '
            f'height="{height:.1f}">{_title(one, i)}</rect><line class="mark" x1="{x + width * 0.04:.1f}" '
            f'x2="{x + width * 0.96:.1f}" y1="{mark:.1f}" y2="{mark:.1f}"/><text class="tick" '
            f'x="{x + width / 2:.1f}" y="197" text-anchor="middle">{escape(label.partition("–")[0])}</text>'
        )
    return (
        f'<svg class="chart" viewBox="0 0 400 220" role="img" aria-label="{escape(one.title)}"><line class="grid" '
        'x1="30" x2="392" y1="180" y2="180"/>'
        f'<text class="tick" x="26" y="16" text-anchor="end">{top:.0%}</text>'
        f'<text class="tick" x="26" y="184" text-anchor="end">0</text>{"".join(drawn)}</svg>'
    )


def _lying_bars(one: Bars) -> str:
    """Bars for labels that are words, which need space beside the bars."""
    left, top, n, drawn = 12 + _WORD_LETTER * max(map(len, one.labels)), _highest(one), len(one.labels), []
    for i, label in enumerate(one.labels):
        y, length, mark = 26 * i, (392 - left) * one.synthetic[i] / top, left + (392 - left) * one.real[i] / top
        drawn.append(
            f'<text class="tick" x="{left - 6:g}" y="{22 + y}" text-anchor="end">{escape(label)}</text>'
            f'<rect class="bar" x="{left:g}" width="{length:.1f}" y="{9 + y}" height="18">{_title(one, i)}</rect>'
            f'<line class="mark" x1="{mark:.1f}" x2="{mark:.1f}" y1="{6 + y}" y2="{30 + y}"/>'
        )
    return (
        f'<svg class="chart" viewBox="0 0 400 {28 + 26 * n}" role="img" aria-label="{escape(one.title)}">'
        f'<line class="grid" x1="{left:g}" x2="{left:g}" y1="4" y2="{8 + 26 * n}"/>'
        f'<text class="tick" x="{left:g}" y="{22 + 26 * n}" text-anchor="middle">0</text>'
        f'<text class="tick" x="394" y="{22 + 26 * n}" text-anchor="end">{top:.0%}</text>{"".join(drawn)}</svg>'
    )


# ---- charts of the studio --------------------------------------------------------------------------------------
def bar_table(
    title: str,
    names: Sequence[str],
    ways: Mapping[str, str],
    rows: Sequence[tuple[Sequence[str], Sequence[float | None]]],
) -> Chart:
    """A table of texts and shares, each share with a bar; the longest bar is that of the largest share.

    Args:
        title: What the shares are.
        names: Titles of the columns of texts.
        ways: Title of each column of shares and the style of its bars: "", "soft", "mid" or "tail".
        rows: Texts and shares of each row.
    """
    top = max([share or 0.0 for _, shares in rows for share in shares] or [1.0]) or 1.0
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in (*names, *ways))
    body = []
    for texts, shares in rows:
        cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
        for share, style in zip(shares, ways.values(), strict=True):
            width = 100 * (share or 0.0) / top
            bar = f'<i class="cell-bar {style}" aria-hidden="true" style="width:{width:.1f}%"></i>'
            cells += f'<td class="bars">{format_share(share)}{bar}</td>'
        body.append(f"<tr>{cells}</tr>")
    return Chart(
        f'<figure class="table"><h3>{escape(title)}</h3><div class="scroll" tabindex="0"><table><thead><tr>{head}</tr>'
        f"</thead><tbody>{''.join(body)}</tbody></table></div></figure>"
    )


def format_share(value: float | None) -> str:
    """A share in percent with three digits that matter.

    >>> format_share(0.12345), format_share(0.00002), format_share(None)
    ('12.3 %', '0.002 %', '–')
    """
    return "–" if value is None else f"{float(f'{100 * value:.3g}'):g} %"


def loss_curve(trained: Sequence[tuple[float, float]], validated: Sequence[tuple[float, float]]) -> Chart | None:
    """The loss over the steps: a line for training, dots for validation; None before the second point."""
    both = [*trained, *validated]
    if len(both) < 2:
        return None
    left, right = min(x for x, _ in both), max(x for x, _ in both)
    low, high = min(y for _, y in both), max(y for _, y in both)

    def at(point: tuple[float, float]) -> str:
        x = 46 + 540 * (point[0] - left) / ((right - left) or 1.0)
        y = 150 - 140 * (point[1] - low) / ((high - low) or 1.0)
        return f"{x:.1f},{y:.1f}"

    dots = "".join(
        f'<circle cx="{x}" cy="{y}" r="4" fill="#E0702E"/>' for x, y in (at(one).split(",") for one in validated)
    )
    grid = "".join(
        f'<line x1="46" x2="586" y1="{y}" y2="{y}" stroke="#8A8A8A" stroke-opacity=".4"/>'
        f'<text x="40" y="{y + 4}" text-anchor="end">{low + (150 - y) / 140 * (high - low):.3g}</text>'
        for y in (10, 80, 150)
    )
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 178" font-family="sans-serif" font-size="12" '
        f'fill="#8A8A8A">{grid}<polyline points="{" ".join(map(at, trained))}" fill="none" stroke="#3B93D2" '
        f'stroke-width="2"/>{dots}<text x="46" y="172">step {left:,.0f}</text>'
        f'<text x="586" y="172" text-anchor="end">step {right:,.0f}</text></svg>'
    )
    last = f", last {validated[-1][1]:.4g} in validation" if validated else ""
    words = f"Loss of training (line) and of validation (dots) up to step {right:,.0f}{last}"
    return Chart(f'{svg_image(svg.encode(), words).html}<p class="note">{escape(words)}.</p>')


def svg_image(svg: bytes, words: str) -> Chart:
    """A drawing as an image, which can run nothing, with words for those who do not see it."""
    content = base64.b64encode(svg).decode()
    return Chart(f'<img class="loss" alt="{escape(words)}" src="data:image/svg+xml;base64,{content}">')
