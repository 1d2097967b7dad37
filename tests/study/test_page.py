"""The page of a study: sections, figures, files beside it."""

from __future__ import annotations

import re

from adapcla.data import Cohort
from adapcla.report.figures.scores import schedule_curves
from adapcla.report.html import Figure, Page, Section, Text
from adapcla.study import page as pages
from adapcla.study.page import write_study_page
from adapcla.study.results import Study
from adapcla.tables import Estimate


def test_the_page_asks_for_nothing_from_elsewhere(finished_run):
    page = (finished_run / "report.html").read_text(encoding="utf-8")
    addresses = re.findall(r"""(?:src|href|action)\s*=\s*["']([^"']*)""", page)
    assert addresses and all(address.startswith(("data:", "#")) for address in addresses)
    assert "@import" not in page and "url(" not in page and "Content-Security-Policy" in page


def test_every_section_is_there_in_order(finished_run):
    page = (finished_run / "report.html").read_text(encoding="utf-8")
    found = re.findall(r'<section id="tiny-([a-z]+)"', page)
    wanted = ["claims", "data", "tail", "fidelity", "course", "discriminator", "utility", "reliability", "control"]
    assert found == ["overview", "knowledge", *wanted, "privacy", "analysis", "cost", "settings", "environment"]


def test_tables_and_figures_lie_beside_the_page(finished_run):
    tables = {path.name for path in (finished_run / "tables").iterdir()}
    assert {"claims.csv", "claims.md", "claims.tex", "tail-plausibility.csv", "utility.tex"} <= tables
    figures = {path.name for path in (finished_run / "figures").iterdir()}
    for name in ("long-tail", "frequency-rank", "ppmi", "given-label", "roc", "reliability", "schedules"):
        # Whoever keeps a figure finds its caption beside it.
        assert {f"{name}.svg", f"{name}.png", f"{name}.md"} <= figures


def test_what_comes_from_outside_is_escaped():
    page = Page("<i>", (), [Section("a", "<b>x</b>", [Text("<script>")])]).html()
    assert "<b>x" not in page and "&lt;b&gt;x" in page and page.count("<script>") == 1


def test_no_patient_is_on_the_page(finished_run):
    """A visit of several codes in a row would be a record; single codes in tables of codes are aggregates."""
    page = (finished_run / "report.html").read_text(encoding="utf-8")
    test = Study.open(finished_run).part("test")
    long = [visit for patient in test.patients() for visit in patient if len(visit) >= 4]
    assert long and not any(", ".join(visit) in page or " ".join(visit) in page for visit in long)


def test_several_experiments_become_one_page(finished_run, tmp_path, monkeypatch):
    drawing = schedule_curves(["base"])[0]
    monkeypatch.setattr(pages, "figures", lambda study: iter([("analysis", Figure("one", "One", "", drawing))]))
    study = Study.open(finished_run)
    other = Study(study.folder, {**study.about, "spec": {**study.spec, "name": "second", "title": "The second"}})
    page = write_study_page([study, other], tmp_path / "both").read_text(encoding="utf-8")
    assert 'id="tiny-claims"' in page and 'id="second-claims"' in page and "2 experiments" in page
    assert (tmp_path / "both" / "second" / "tables" / "claims.csv").is_file()
    assert (tmp_path / "both" / "tiny" / "figures" / "one.svg").is_file()


WANTED = {
    "long-tail", "frequency-rank", "frequency-frequency", "rank-rank", "ppmi", "given-label", "downstream",
    "reliability", "reliability-balanced", "tail-knowledge", "roc", "copies", "control-adapcla-shifted", "schedules",
    "analysis-bound",
}  # fmt: skip


def test_a_study_gets_every_picture_once_with_a_caption_that_says_what_to_see(finished_run):
    found = [figure for _, figure in pages.figures(Study.open(finished_run))]
    assert len(found) == len(WANTED)
    assert {figure.key for figure in found} == WANTED
    assert all(len(figure.caption) > 60 for figure in found)


def test_heat_maps_look_at_the_first_patients_only(monkeypatch):
    monkeypatch.setattr(pages, "MOST_PATIENTS", 2)
    assert pages.some(Cohort.of([[["A"]], [["B"]], [["C"]]])).n_visits == 2


def test_memory_is_drawn_against_the_tail_where_both_were_scored(finished_run, monkeypatch):
    """The tiny run has too few patients for the gap of pairs: none is drawn until it is there."""
    study = Study.open(finished_run)
    assert list(pages._memory_figures(study)) == []
    monkeypatch.setattr(Study, "estimate", lambda self, row, metric, stratum="all": Estimate(0.1, 0.0, 0.2, 1))
    ((_, drawn),) = pages._memory_figures(study)
    assert len(drawn.drawing.axes[0].get_legend().get_texts()) == 2
