"""The page of a release in a real browser: statuses first, no request, light and dark, narrow, on paper."""

from __future__ import annotations

import base64
import re

import pytest

pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser, finished_release):
    browser.set_window_size(1280, 900)
    browser.get((finished_release.out / "report.html").as_uri())
    return browser


def test_it_opens_without_an_error_and_asks_for_nothing(page):
    assert page.title.startswith(("Released", "Written"))
    assert [entry["message"] for entry in page.get_log("browser")] == []
    asked = [line["message"] for line in page.get_log("performance") if "Network.requestWillBeSent" in line["message"]]
    assert not [message for message in asked if '"url":"http' in message]


def test_the_three_statuses_are_seen_without_scrolling(page):
    lowest = page.execute_script(
        "return Math.max(...[...document.querySelectorAll('.indicator .number')]"
        ".map(number => number.getBoundingClientRect().bottom))"
    )
    assert lowest <= page.execute_script("return window.innerHeight")
    numbers = page.execute_script(
        "return [...document.querySelectorAll('.indicator .number b')].map(b => b.textContent)"
    )
    assert len(numbers) == 3 and all(numbers)


def test_every_picture_has_a_size_and_every_dot_a_name(page):
    sizes = page.execute_script(
        "return [...document.querySelectorAll('svg.chart')].map(s => [s.clientWidth, s.clientHeight])"
    )
    assert len(sizes) >= 6 and all(width > 200 and height > 100 for width, height in sizes), sizes
    named = "return [...document.querySelectorAll('circle.dot')].every(dot => dot.querySelector('title').textContent)"
    assert page.execute_script(named)


def test_dark_and_light_are_both_readable(page):
    """Text against what is behind it, by the contrast of WCAG: 4.5 for text."""
    contrast = """
      const lum = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => v / 255)
        .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
      const behind = e => { while (e) { const c = getComputedStyle(e).backgroundColor;
        if (!/, 0\\)$/.test(c)) return c; e = e.parentElement; } return 'rgb(255,255,255)'; };
      return ['h1', '.indicator p', '.indicator .number', '.good', '.good b', '.status', 'td', 'th', '.chip', '.day',
        '.pill', 'footer']
        .map(q => { const e = document.querySelector(q), a = lum(getComputedStyle(e).color), b = lum(behind(e));
          return [q, (Math.max(a, b) + .05) / (Math.min(a, b) + .05)]; });
    """
    for _ in range(2):
        weak = [(what, round(ratio, 2)) for what, ratio in page.execute_script(contrast) if ratio < 4.5]
        assert not weak
        page.execute_script("document.getElementById('theme').click()")


def test_nothing_is_wider_than_the_window(page):
    for width in (1280, 760, 500):
        page.set_window_size(width, 1000)
        wide, window = page.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= window


def test_it_prints(page):
    pdf = base64.b64decode(page.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])
    assert pdf.startswith(b"%PDF") and 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 14
