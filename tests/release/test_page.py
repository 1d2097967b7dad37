"""The page of a release: everything is in one file, and what stands there is escaped."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from adapcla.evaluation.privacy import GateLine
from adapcla.release.page import rendered, status


@pytest.fixture(scope="module")
def page(finished_release) -> str:
    return (finished_release.out / "report.html").read_text()


def test_everything_is_in_one_file(page):
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", page)
    assert "http" not in re.sub(r"http-equiv", "", page)


def test_the_three_lamps_come_before_everything_else(page):
    places = [page.index(f'id="lamp-{key}"') for key in ("like", "useful", "safe")]
    assert places == sorted(places) and places[-1] < page.index('id="prevalence"')


def test_every_picture_and_table_says_what_good_looks_like(page):
    assert page.count("What good looks like") == page.count("<section") - 3 + page.count('<figure class="table')


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
    found = status(refused)
    assert (
        found.word == "Not released"
        and "one training patient alone" in found.sentence
        and "--min-patients" in found.sentence
    )
    assert status(replace(refused, unsafe=True)).word == "UNSAFE"
    assert "✗" in rendered(refused) or "did-not-hold" in rendered(refused)


def test_all_tries_are_shown(finished_release):
    told = finished_release.summary()
    failed = replace(told.chosen, lines=(GateLine("copy_excess", "exceeded", 0.2, 0.1, 0.3, 0.01),))
    assert '<figure class="table tries">' in rendered(replace(told, attempts=(failed, told.chosen)))


def test_nothing_is_bold_because_it_is_largest(page):
    assert "nearest to real" in page and 'class="best"' not in page
