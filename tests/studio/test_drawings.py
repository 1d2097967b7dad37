"""What pages draw: everything is there, and no text can become markup."""

from __future__ import annotations

import base64
import re

import numpy as np

from adapcla.data import Cohort
from adapcla.report.timelines import Album
from adapcla.studio import drawings

EVIL = "<script>alert(1)</script>"


def test_a_person_has_visits_in_time_codes_with_names_colours_and_marks():
    cohort = Cohort.of([[["4019"], ["25000", "4019"]]], days=np.array([0, 30], dtype=np.int32))
    album = Album(cohort, np.array([True, False]))
    html = drawings.person(album.timeline(0), "Synthetic patient 1", album.chapters, ["401.9"])
    assert re.findall(r"left:([0-9.]+)%", html) == ["0.0", "100.0"]
    assert "visit 2, day 30" in html and "<b>25000</b>" in html and html.count("◆ rare") == 1
    colours = re.findall(r"--c:(hsl[^\"]+)", html)
    assert len(colours) == 3 and len(set(colours)) == 2


def test_names_and_messages_cannot_become_markup():
    code = {"code": EVIL, "name": EVIL, "probability": 0.5, "rare": False, "chapter": EVIL}
    line = {"code": EVIL, "name": EVIL, "before": 0.1, "requested": 0.2, "paper": None, "loop": 0.2}
    status = {"title": EVIL, "tone": EVIL, "value": EVIL, "unit": EVIL, "sentence": EVIL}
    drawn = [
        drawings.chances([code]),
        drawings.steered([line]),
        drawings.statuses([status]),
        drawings.error(EVIL),
        drawings.table([EVIL], [[EVIL]], EVIL),
        drawings.legend([EVIL], [EVIL]),
        drawings.picture(b"<svg/>", EVIL),
    ]
    assert not [html for html in drawn if "<script" in html] and all("&lt;script" in html for html in drawn)


def test_a_lamp_says_its_colour_in_words_and_shape():
    marks = {
        light: drawings.statuses([{"title": "a", "tone": light, "value": "1", "unit": "", "sentence": ""}])
        for light in ("green", "amber", "red", "grey")
    }
    assert all(f"({light})" in html for light, html in marks.items())
    assert len({re.findall("[●▲■○]", html)[0] for html in marks.values()}) == 4


def test_bars_are_as_long_as_the_numbers_and_absent_ones_are_dashes():
    line = {"code": "A", "name": "", "before": 0.1, "requested": 0.2, "paper": 0.4, "loop": None}
    html = drawings.steered([line])
    assert re.findall(r"width:([0-9.]+)%", html) == ["25.0", "50.0", "100.0", "0.0"] and "–" in html


def test_the_curve_has_a_line_and_dots_and_words():
    """Two points of training from the upper left to the lower right, one of validation in the middle."""
    html = drawings.curve([(0, 4.0), (10, 2.0)], [(5, 3.0)])
    svg = base64.b64decode(re.findall(r"base64,([^\"]+)", html)[0]).decode()
    assert 'points="46.0,10.0 586.0,150.0"' in svg and 'cx="316.0" cy="80.0"' in svg
    assert "up to step 10" in html and drawings.curve([], []) == ""


def test_numbers_stand_right_and_whole_ones_have_commas():
    html = drawings.table(["name", "n"], [["a", 12345], ["b", None]])
    assert '<td class="n">12,345</td>' in html and '<td class="n">–</td>' in html and "<td>a</td>" in html
