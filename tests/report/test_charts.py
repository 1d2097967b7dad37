"""Charts as HTML: what they show is escaped, and a copy looks like the original."""

from __future__ import annotations

import base64
import re
from dataclasses import replace

import numpy as np

from adapcla.data import Code, Cohort, Vocabulary
from adapcla.io.simulator import simulate
from adapcla.report import aggregates, charts
from adapcla.report.charts import bar_table, loss_curve, svg_image
from adapcla.report.html import Indicators, Status, Text, Timelines, fragment, fragment_style
from adapcla.report.timelines import Album, ShownVisit, Timeline
from adapcla.tables import Table

EVIL = "<script>alert(1)</script>"


def test_names_and_labels_are_escaped():
    world = simulate(200, 40, seed=1)
    codes = tuple(Code.of(f"C{i:03}", description=EVIL) for i in range(world.n_codes))
    evil = replace(world, vocabulary=Vocabulary(codes))
    drawn = [
        charts.scatter(aggregates.prevalence_points(evil, evil)),
        charts.heatmaps(aggregates.cooccurrence_maps(evil, evil, 11), 11),
        charts.bars([aggregates.Bars(EVIL, EVIL, [EVIL], [1.0], [1.0], None, words) for words in (True, False)], EVIL),
    ]
    for chart in drawn:
        assert "<script" not in chart.html and "&lt;script" in chart.html


def test_a_bar_of_a_copy_ends_at_its_mark():
    world = simulate(200, 40, seed=1)
    html = charts.bars(aggregates.lengths(world, world, 11), "").html
    tops = re.findall(r'<rect class="bar"[^>]* y="([\d.]+)"', html)
    marks = re.findall(r'<line class="mark"[^>]* y1="([\d.]+)"', html)
    assert len(tops) > 3 and tops == marks


def test_records_without_pairs_are_drawn():
    lonely = Cohort.of([[["A"]]] * 30)
    assert "The 1 most frequent codes" in charts.heatmaps(aggregates.cooccurrence_maps(lonely, lonely, 11), 11).html


def test_names_cannot_become_markup_in_any_part_or_chart():
    status = Status(EVIL, EVIL, "met", EVIL, EVIL, EVIL)
    code = {"code": EVIL, "name": EVIL, "rare": True, "stay": False, "chapter": EVIL, "hue": 1}
    person = Timeline(EVIL, EVIL, [ShownVisit(0, 0.0, [code], 0)], 0)
    charts = [bar_table(EVIL, [EVIL], {EVIL: ""}, [((EVIL,), (0.5,))]), svg_image(b"<svg/>", EVIL)]
    some = [Indicators([status]), Text(EVIL, "refused"), Table((EVIL,), [(EVIL,)], title=EVIL), *charts]
    for part in (*some, Timelines([person], [EVIL], [EVIL], codes=True)):
        html = fragment(part)
        assert "<script" not in html and "&lt;script" in html


def test_bars_are_as_long_as_the_numbers_and_absent_ones_are_dashes():
    html = bar_table("t", ["code"], {"a": "", "b": "soft", "c": "", "d": ""}, [(("A",), (0.1, 0.2, 0.4, None))]).html
    assert re.findall(r"width:([0-9.]+)%", html) == ["25.0", "50.0", "100.0", "0.0"] and "–" in html


def test_the_loss_has_a_line_and_dots_and_words():
    """Two points of training from the upper left to the lower right, one of validation in the middle."""
    html = loss_curve([(0, 4.0), (10, 2.0)], [(5, 3.0)]).html
    svg = base64.b64decode(re.findall(r"base64,([^\"]+)", html)[0]).decode()
    assert 'points="46.0,10.0 586.0,150.0"' in svg and 'cx="316.0" cy="80.0"' in svg
    assert "up to step 10" in html and loss_curve([], []) is None


def test_a_status_says_its_colour_in_words_and_a_patient_has_visits_in_time():
    html = fragment(Indicators([Status("a", "A", outcome) for outcome in ("good", "fair", "poor", "unknown")]))
    assert re.findall(r'aria-label="(\w+)"', html) == ["green", "amber", "red", "grey"]
    cohort = Cohort.of([[["4019"], ["25000", "4019"]]], days=np.array([0, 30], dtype=np.int32))
    html = fragment(Timelines([Album(cohort, np.array([True, False])).timeline(0)], ["One"], ["401.9"]))
    assert re.findall(r"left:([0-9.]+)%", html) == ["0.0", "100.0"] and "day 30" in html
    assert html.count(" rare") == 1 and len(set(re.findall(r"--c:(hsl[^\"]+)", html))) == 2


def test_the_style_of_fragments_touches_nothing_outside_them():
    """Every rule lies inside the one for their own element, so that braces end where the style does."""
    style = fragment_style().removeprefix("<style>").removesuffix("</style>")
    depth = 0
    for place, mark in enumerate(style):
        depth += {"{": 1, "}": -1}.get(mark, 0)
        assert depth > 0 or place < len(".adapcla {") or place == len(style) - 1
    assert style.startswith(".adapcla {") and depth == 0
