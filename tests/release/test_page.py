"""The page of a release: everything is in one file, and what stands there is escaped."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from adapcla.evaluation.privacy import GateLine
from adapcla.release.page import release_page
from adapcla.release.summary import ReleaseSummary


def rendered(release: ReleaseSummary) -> str:
    return release_page(release).html()


@pytest.fixture(scope="module")
def page(finished_release) -> str:
    return (finished_release.out / "report.html").read_text()


def test_everything_is_in_one_file(page):
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", page)
    assert "http" not in re.sub(r"http-equiv", "", page)


def test_the_three_statuses_come_before_everything_else(page):
    places = [page.index(f'id="status-{key}"') for key in ("similar", "useful", "private")]
    assert places == sorted(places) and places[-1] < page.index('id="prevalence"')


def test_every_status_says_what_use_it_permits_and_why(page):
    from html import unescape

    said = re.findall(r'class="permits">(.*?)</p>', unescape(page))
    assert len(said) == 3
    for one in said:
        assert re.match(
            r"Recommended use: (may go to|inside the|not at all|decided by the other two).*, because \w.*\.$", one
        ), one


def test_what_must_not_be_shared_is_not_called_released(finished_release):
    told = finished_release.summary()
    quality = told.chosen.comparisons.quality
    assert quality == "poor" and release_page(told).badge == ("Written, not recommended for use", "poor")


def test_every_chart_and_table_says_what_good_looks_like(page):
    """All sections but the tables, which say it one by one, and the limits."""
    sections, tables = page.count("<section"), page.count('<figure class="table') - 1
    assert page.count("What good looks like") == sections - 2 + tables


def test_every_comparison_is_on_the_page_with_its_status(page):
    from adapcla.release.summary import COMPARISONS

    table = page[page.index('<figure class="table comparisons">') :]
    table = table[: table.index("</figure>")]
    for _, title, _ in COMPARISONS:
        assert title in table
    assert table.count('class="pill') == len(COMPARISONS) and "these records have no values" in table.lower()


def test_the_page_says_what_the_source_held(page, finished_release):
    n = finished_release.summary().read.in_source["patients"]
    table = page[page.index('<figure class="table read">') :]
    assert f">{n:,}<" in table[: table.index("</figure>")].replace("<span>", "").replace("</span>", "")


def test_records_of_one_domain_have_no_table_of_domains(page):
    assert '<figure class="table domains">' not in page and '<figure class="table useful">' in page


def test_the_title_cannot_run(finished_release):
    told = replace(finished_release.summary(), title="<script>alert(1)</script>")
    assert "<script>alert" not in rendered(told)


def test_a_refused_release_says_so_in_plain_words_and_what_to_do(finished_release):
    told = finished_release.summary()
    failed = GateLine("singleton_visit_gap", "exceeded", 0.2, 0.1, 0.3, 0.05)
    tried = replace(told.chosen, lines=(failed,))
    refused = replace(told, attempts=(tried,))
    page = release_page(refused)
    assert page.badge == ("Not released", "exceeded") and page.lead.startswith("Recommended use: Not at all")
    assert "one training patient alone" in page.warning and "--min-patients" in page.warning
    assert 'class="pill red"' in page.html()


def test_all_attempts_are_shown(finished_release):
    told = finished_release.summary()
    failed = replace(told.chosen, lines=(GateLine("copy_excess", "exceeded", 0.2, 0.1, 0.3, 0.01),))
    assert '<figure class="table attempts">' in rendered(replace(told, attempts=(failed, told.chosen)))


def test_nothing_is_bold_because_it_is_largest(page):
    assert "closest to real" in page and 'class="best"' not in page
