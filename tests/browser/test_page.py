"""The page in a real browser: no error, no request, tables that sort, pictures that have a size."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(browser, finished_run):
    browser.get((finished_run / "report.html").as_uri())
    return browser


def test_it_opens_without_an_error_and_asks_for_nothing(page):
    assert page.title == "A tiny experiment"
    assert [entry["message"] for entry in page.get_log("browser")] == []
    asked = [line["message"] for line in page.get_log("performance") if "Network.requestWillBeSent" in line["message"]]
    assert not [message for message in asked if '"url":"http' in message]


def test_every_picture_has_a_size(page):
    sizes = page.execute_script(
        "return [...document.querySelectorAll('main img')].map(i => [i.alt, i.naturalWidth, i.clientWidth])"
    )
    assert len(sizes) >= 13
    assert all(natural > 100 and shown > 100 for _, natural, shown in sizes), sizes


def test_a_table_sorts_both_ways_and_keeps_missing_numbers_last(page):
    script = """
      const table = document.querySelector('figure.tail-plausibility table');
      const head = table.tHead.rows[0].cells[2];
      head.querySelector('button').click();
      const cells = () => [...table.tBodies[0].rows].map(r => r.cells[2].dataset.v);
      const read = () => cells().filter(v => v !== undefined).map(Number);
      const down = read(); const state = head.getAttribute('aria-sort');
      head.querySelector('button').click();
      return [down, state, read(), head.getAttribute('aria-sort')];
    """
    down, first, up, second = page.execute_script(script)
    assert len(down) >= 4 and down == sorted(down, reverse=True) and up == sorted(up)
    assert (first, second) == ("descending", "ascending")


def test_a_picture_opens_large_and_closes(page):
    page.execute_script("document.querySelector('button.zoom').click()")
    opened = "const d = document.getElementById('large'); return [d.open, d.querySelector('img').clientWidth]"
    is_open, width = page.execute_script(opened)
    assert is_open and width > 1000
    page.execute_script("document.getElementById('large').click()")
    assert page.execute_script(opened)[0] is False


def test_dark_and_light(page):
    colour = "return getComputedStyle(document.body).backgroundColor"
    button = "document.getElementById('theme').click()"
    before = page.execute_script(colour)
    page.execute_script(button)
    after = page.execute_script(colour)
    assert before != after
    page.execute_script(button)
    assert page.execute_script(colour) == before


def test_nothing_is_wider_than_the_window(page):
    """Wide tables scroll inside their frame, also on a narrow screen."""
    for width in (1280, 480):
        page.set_window_size(width, 1200)
        wide, window = page.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= window
    page.set_window_size(1280, 1600)
