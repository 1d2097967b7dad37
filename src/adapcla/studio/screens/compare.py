"""The page *Compare*: experiments in the folder side by side, chosen rows, tables and figures of their pages."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import streamlit as st

from adapcla.files import read_json
from adapcla.pipeline.options import assignments, options_of
from adapcla.pipeline.settings import RunOptions
from adapcla.report.charts import svg_image
from adapcla.studio import widgets
from adapcla.studio.jobs import command_words, jobs_in
from adapcla.tables import Cell, Line, Table, number_cell

_RUN, _REPORT = "run", "report"
_FIRST_TABLES = ("tail-glance", "fidelity", "utility", "privacy")


def compare_screen() -> None:
    """Choose runs, rows, tables and figures."""
    found = widgets.space().contents()
    _statuses()
    if not found.studies:
        st.write(
            "Experiments in this folder are shown here side by side: runs of several methods on the same patients, "
            "with their tables and figures. There is none yet."
        )
    else:
        _studies(found.studies)
    _run(found.sources)


def _statuses() -> None:
    """Releases of the folder side by side."""
    releases = [job for job in jobs_in(widgets.space().jobs, kind="release") if job.result.get("status")]
    if len(releases) > 1:
        st.header("Releases")
        heads = [status["title"] for status in releases[0].result["status"].values()]
        rows = [
            [
                job.about["out"],
                *(f"{status['value']} {status['unit']} ({status['tone']})" for status in job.result["status"].values()),
            ]
            for job in releases
        ]
        widgets.table(["release", *heads], rows)


def _studies(names: list[str]) -> None:
    """Tables and figures of some experiments."""
    root = widgets.space().root
    chosen = [str(name) for name in st.multiselect("Experiments", names, names[:2], key="studies")]
    if not chosen:
        return
    rows = list(dict.fromkeys(row for name in chosen for row in rows_of(root / name)))
    shown = [str(row) for row in st.multiselect("Rows", rows, rows, key="rows")]
    keys = list(dict.fromkeys(key for name in chosen for key in _keys(root / name / "tables", ".csv")))
    first = [key for key in _FIRST_TABLES if key in keys]
    for key in st.multiselect("Tables", keys, first, key="tables"):
        st.subheader(str(key).replace("-", " "))
        for place, name in zip(st.columns(len(chosen)), chosen, strict=True):
            path = root / name / "tables" / f"{key}.csv"
            if path.is_file():
                widgets.parts(table_of(path, shown, set(rows), name), place=place)
    figures = list(dict.fromkeys(key for name in chosen for key in _keys(root / name / "figures", ".svg")))
    for key in st.multiselect("Figures", figures, figures[:1], key="figures"):
        for place, name in zip(st.columns(len(chosen)), chosen, strict=True):
            path = root / name / "figures" / f"{key}.svg"
            if path.is_file():
                widgets.parts(svg_image(path.read_bytes(), f"{key} of {name}"), place=place)
                words = path.with_suffix(".md")
                place.caption(words.read_text(encoding="utf-8") if words.is_file() else name)
    _one_page(chosen)


def _keys(folder: Path, ending: str) -> list[str]:
    return sorted(path.stem for path in folder.glob(f"*{ending}")) if folder.is_dir() else []


def rows_of(study: Path) -> list[str]:
    """The rows of an experiment, in their order."""
    return list(dict.fromkeys(str(fit["row"]) for fit in read_json(study / "study.json").get("fits", ())))


def table_of(path: Path, shown: list[str], rows: set[str], title: str) -> Table:
    """A table as it was written beside its page, without rows that were not chosen; what stands beside rows stays."""
    head, *lines = csv.reader(io.StringIO(path.read_text(encoding="utf-8")))
    # The kind of each line comes first; then a number or text and its interval for each column.
    kept = [line for line in lines if line[1] in shown or line[1] not in rows]
    cells = [[_cell(*line[i : i + 2]) for i in range(1, len(line), 2)] for line in kept]
    return Table(head[1::2], [Line(some, line[0]) for some, line in zip(cells, kept, strict=True)], title=title)


def _cell(text: str, note: str = "") -> Cell:
    """A number with its interval, or text.

    >>> _cell("0.123456", "[0.1, 0.2]"), _cell("adapcla").value
    (Cell(text='0.123', value=0.123456, note='[0.1, 0.2]', best=False), None)
    """
    try:
        return number_cell(float(text), note)
    except ValueError:
        return Cell(text, None, note)


def _one_page(chosen: list[str]) -> None:
    """The whole page of the chosen experiments, as `adapcla report` writes it."""
    if st.button("Make one page of these", key="make-page"):
        out = widgets.fresh("comparisons", "-".join(Path(name).name for name in chosen))
        widgets.begin(command_words("report", *chosen, out=out), "One page", kind=_REPORT, out=out)
        st.rerun()
    job = widgets.newest_job(kind=_REPORT)
    if job is None:
        return
    widgets.show(job)
    path = widgets.space().root / job.about["out"] / "report.html"
    if job.code == 0 and path.is_file():
        st.download_button(
            "report.html", path.read_bytes, f"{path.parent.name}.html", key="comparison", on_click="ignore"
        )
        if st.toggle("Show the page", key="show-comparison"):
            widgets.show_page(path)


def _run(sources: list[str]) -> None:
    """A new experiment: several methods on one cohort."""
    if not sources:
        return
    with st.expander("A new experiment: several methods on the same patients"), st.form("run-form"):
        cohort = widgets.choose("Patients", sources, "run-cohort")
        methods = st.text_input("Methods, with commas", "adapcla, adapcla-no-scaffold", key="run-methods")
        quick = st.checkbox("A quick look: fewer draws, smaller classifiers", True, key="run-quick")
        settings = st.text_area("Other settings", "", key="run-settings", placeholder="fit.settings.width=64")
        if st.form_submit_button("Run it", type="primary"):
            lines = [line for line in settings.splitlines() if line.strip()]
            listed = tuple(part.strip() for part in methods.split(",") if part.strip())
            given = {
                "cohort": cohort,
                "methods": listed,
                "quick": quick,
                **assignments(lines),
            }
            words = command_words("run", options=options_of(RunOptions), given=given, out="runs")
            widgets.begin(words, f"Experiment on {cohort}", kind=_RUN)
            st.rerun()
    job = widgets.newest_job(kind=_RUN)
    if job is not None:
        widgets.show(job)
