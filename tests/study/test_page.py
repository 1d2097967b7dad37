from __future__ import annotations

import re

from adapcla.study.page import rendered, write_page
from adapcla.study.results import Study


def test_the_page_asks_for_nothing_from_elsewhere(finished_run):
    page = (finished_run / "report.html").read_text(encoding="utf-8")
    addresses = re.findall(r"""(?:src|href|action)\s*=\s*["']([^"']*)""", page)
    assert addresses and all(address.startswith(("data:", "#")) for address in addresses)
    assert "@import" not in page and "url(" not in page and "Content-Security-Policy" in page


def test_every_section_is_there_in_order(finished_run):
    page = (finished_run / "report.html").read_text(encoding="utf-8")
    found = re.findall(r'<section id="tiny-([a-z]+)"', page)
    wanted = ["verdicts", "data", "tail", "fidelity", "course", "discriminator", "utility", "reliability", "control"]
    assert found == ["knowledge", *wanted, "privacy", "analysis", "cost", "settings", "environment"]


def test_tables_and_figures_lie_beside_the_page(finished_run):
    tables = {path.name for path in (finished_run / "tables").iterdir()}
    assert {"verdicts.csv", "verdicts.md", "verdicts.tex", "tail-plausibility.csv", "utility.tex"} <= tables
    figures = {path.name for path in (finished_run / "figures").iterdir()}
    for name in ("long-tail", "scorecard", "frequency-rank", "ppmi", "given-label", "roc", "reliability", "schedules"):
        # Whoever keeps a figure finds its caption beside it.
        assert {f"{name}.svg", f"{name}.png", f"{name}.md"} <= figures


def test_what_comes_from_outside_is_escaped():
    study = {"id": "a", "title": "<b>x</b>", "summary": "<script>", "tiles": [], "notice": "", "sections": []}
    page = rendered("<i>", [study])
    assert "<b>x" not in page and "&lt;b&gt;x" in page and page.count("<script>") == 1


def test_no_patient_is_on_the_page(finished_run):
    """A visit of several codes in a row would be a record; single codes in tables of codes are aggregates."""
    page = (finished_run / "report.html").read_text(encoding="utf-8")
    test = Study.open(finished_run).part("test")
    long = [visit for patient in test.patients() for visit in patient if len(visit) >= 4]
    assert long and not any(", ".join(visit) in page or " ".join(visit) in page for visit in long)


def test_several_experiments_become_one_page(finished_run, tmp_path):
    study = Study.open(finished_run)
    other = Study(study.folder, {**study.about, "spec": {**study.spec, "name": "second", "title": "The second"}})
    page = write_page([study, other], tmp_path / "both.html").read_text(encoding="utf-8")
    assert 'id="tiny-verdicts"' in page and 'id="second-verdicts"' in page and "2 experiments" in page
    assert (tmp_path / "second" / "tables" / "verdicts.csv").is_file()
