"""Charts as HTML: what they show is escaped, and a copy looks like the original."""

from __future__ import annotations

import re
from dataclasses import replace

from adapcla.data import Code, Cohort, Vocabulary
from adapcla.io.simulator import simulate
from adapcla.report import aggregates, charts

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
