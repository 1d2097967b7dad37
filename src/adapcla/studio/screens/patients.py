"""The page *Patients*: synthetic patients in time, by code or word, on demand, and what follows one built by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from adapcla.data import Cohort
from adapcla.data.criteria import Criteria
from adapcla.errors import UsageError
from adapcla.pipeline.options import options_of
from adapcla.pipeline.settings import SampleOptions
from adapcla.report.charts import bar_table
from adapcla.report.html import Timelines
from adapcla.report.timelines import Album, matching
from adapcla.studio import widgets
from adapcla.studio.jobs import command_words
from adapcla.studio.workspace import Contents, Known, album_of, known_by

SAMPLE, CONTINUE = "sample", "continue"
#: Patients on a page, matching codes that are listed, likeliest codes that are listed, continuations that are drawn.
_A_PAGE, _LISTED, _LIKELIEST, _DRAWS = 8, 20, 20, 200
_MOST_VISITS = 6


def patients_screen() -> None:
    """Look, search, ask for patients, and continue one."""
    found = widgets.space().contents()
    if not found.synthetic and not found.models:
        st.write("There are no synthetic patients yet. Make some on the page Train and release.")
        return
    look, ask, build = st.tabs(["Look at patients", "Show me patients with …", "Continue a patient built by hand"])
    with look:
        _look(found)
    with ask:
        _on_demand(found)
    with build:
        _by_hand(found)


@st.cache_resource(max_entries=4, show_spinner=False)
def _album(root: str, name: str, model: str, stamp: float) -> tuple[Album, str]:
    """An opened cohort, kept as long as its folder does not change."""
    return album_of(widgets.space(), name, model)


@st.cache_resource(max_entries=4, show_spinner=False)
def _codes_of(root: str, model: str, stamp: float) -> Known:
    """What a model knows about codes, kept as long as its folder does not change."""
    return known_by(widgets.space().inside(model))


def album(name: str, model: str = "") -> tuple[Album, str]:
    """The patients of a cohort in the folder."""
    folder = widgets.space().inside(name)
    return _album(str(folder), name, model, folder.stat().st_mtime)


def known_codes(model: str) -> Known:
    """What a model in the folder knows about codes."""
    folder = widgets.space().inside(model)
    return _codes_of(str(folder), model, folder.stat().st_mtime)


# ---- look ---------------------------------------------------------------------------------------------------
def _look(found: Contents) -> None:
    """Patients of a cohort, all or those who have a code."""
    if not found.synthetic:
        st.write("There is a model, but no sample of it. Ask for patients on the next tab.")
        return
    newest = widgets.newest_job(kind=SAMPLE)
    first = "" if newest is None else newest.about["out"]
    name = widgets.choose("Cohort", found.synthetic, "look-cohort", first)
    made_by = widgets.newest_job(kind=SAMPLE, out=name)
    shown, who = album(name, "" if made_by is None else made_by.about.get("model", ""))
    cohort = shown.cohort
    text = st.text_input("Search by code or words of its description", key="search", placeholder="E84, cystic fibrosis")
    chosen, marked = np.arange(cohort.n_patients), []
    if text.strip():
        codes = _matches(shown, text)
        tokens = tuple(cohort.vocabulary.tokens[code] for code in codes)
        chosen = np.flatnonzero(Criteria((tokens,)).matches(cohort)) if codes else np.zeros(0, dtype=np.int64)
        marked = [shown.cohort.vocabulary.codes[code].bare for code in codes]
    _timelines(shown, chosen, marked, f"Marked ● is the rarest third of all codes, by {who}.")


def _matches(shown: Album, text: str) -> list[int]:
    """The codes that a text finds, listed with the number of synthetic patients who have each."""
    cohort = shown.cohort
    codes = matching(cohort, text)
    if not codes:
        st.write(f"No code and no description holds “{text}”.")
        return []
    held = cohort.patient_counts
    rows = [(cohort.vocabulary.tokens[c], shown.names[c], int(held[c])) for c in codes[:_LISTED]]
    more = f" The first {_LISTED} are listed." if len(codes) > _LISTED else ""
    widgets.table(["code", "name", "synthetic patients"], rows, f"{len(codes)} codes hold “{text}”.{more}")
    return codes


def _timelines(
    shown: Album, chosen: Any, marked: list[str], words: str, key: str = "look", who: str = "Synthetic patient"
) -> None:
    """Some patients, a page at a time."""
    if not len(chosen):
        st.write("Nobody here has it. Ask for such patients on the next tab.")
        return
    pages = -(-len(chosen) // _A_PAGE)
    number = int(st.number_input(f"Page of {pages:,}", 1, pages, 1, key=f"page-{key}")) if pages > 1 else 1
    st.caption(f"{len(chosen):,} of {shown.cohort.n_patients:,} synthetic patients. {words} Nobody here is real.")
    some = [int(patient) for patient in chosen[(number - 1) * _A_PAGE : number * _A_PAGE]]
    lines = [shown.timeline(patient) for patient in some]
    widgets.parts(Timelines(lines, [f"{who} {patient + 1:,}" for patient in some], marked, codes=True))


# ---- ask ----------------------------------------------------------------------------------------------------
def _on_demand(found: Contents) -> None:
    """Patients who fulfil a condition, by the model's own distribution given it."""
    if not found.models:
        st.write("There is no model to ask. Train one on the page Train and release.")
        return
    model = widgets.choose("Model", found.models, "ask-model")
    about = known_codes(model)
    with st.form("ask-form"):
        hint = "Several: all of them. E84* is a family, A|B any of them."
        having = widgets.codes("Patients with", about, "having", hint, typed=True)
        without = widgets.codes("Without", about, "without", "Nobody has any of these.", typed=True)
        left, middle, right = st.columns(3)
        patients = left.number_input("How many", 1, 1_000_000, 100, key="ask-patients")
        visits = middle.text_input("Visits", "", key="ask-visits", placeholder="3.. or 2..5")
        at = right.selectbox("In which visit", ["any", "first", "last"], key="ask-at")
        where = _where(about, st.columns(max(len(about.attributes), 1)))
        if st.form_submit_button("Show me patients", type="primary"):
            _order(
                model,
                having,
                {"without": tuple(without), "visits": visits.strip(), "where": tuple(where)},
                str(at),
                int(patients),
            )
    job = widgets.newest_job(kind=SAMPLE, way="on demand")
    if job is not None:
        widgets.show(job)
        if job.result.get("effort"):
            st.caption(f"{job.result['patients']:,} patients in {job.about['out']}: look at them on the first tab.")


def _where(about: Known, places: Any) -> list[str]:
    """Attributes that patients must have."""
    out = []
    for place, (name, categories) in zip(places, about.attributes.items(), strict=False):
        chosen = place.selectbox(name.replace("_", " "), ["", *categories], key=f"where-{name}")
        out += [f"{name}={chosen}"] if chosen else []
    return out


def _order(model: str, having: list[str], more: dict[str, Any], at: str, patients: int) -> None:
    """Start a sample of patients who fulfil the condition."""
    out = widgets.fresh("samples", "-".join(code.rsplit("/", 1)[-1] for code in having) or "patients")
    given = {"patients": patients, "having": tuple(having), **more, "at": at if having else "any"}
    words = command_words("sample", model, options=options_of(SampleOptions), given=given, out=out)
    title = f"Patients with {', '.join(having)}" if having else "Patients"
    widgets.begin(words, title, kind=SAMPLE, way="on demand", out=out, model=model)
    st.rerun()


# ---- build --------------------------------------------------------------------------------------------------
def _by_hand(found: Contents) -> None:
    """A patient who is put together by hand, and what the model expects next."""
    if not found.models:
        st.write("There is no model to ask. Train one on the page Train and release.")
        return
    model = widgets.choose("Model", found.models, "build-model")
    about = known_codes(model)
    n_visits = int(st.number_input("Visits so far", 1, _MOST_VISITS, 1, key="build-visits"))
    with st.form("build-form"):
        visits, days = [], []
        for number in range(1, n_visits + 1):
            left, right = st.columns([4, 1])
            with left:
                visits.append(widgets.codes(f"Codes of visit {number}", about, f"visit-{number}"))
            days.append(int(right.number_input("Day", 0, 100_000, 90 * (number - 1), key=f"d{number}")))
        if st.form_submit_button("What comes next?", type="primary"):
            _go_on(model, visits, days)
    job = widgets.newest_job(kind=CONTINUE)
    if job is not None:
        widgets.show(job, quiet=True)
        if job.result.get("likeliest"):
            _futures(job.result["likeliest"][0], job.about["out"], job.about["model"])


def _go_on(model: str, visits: list[list[str]], days: list[int]) -> None:
    """Write the history to the folder and start its continuation."""
    if not all(visits) or days != sorted(set(days)):
        raise UsageError(
            "a visit without a code, or days that do not rise\n"
            "expected: at least one code in each visit, and each day after the one before\nto do: choose codes and days"
        )
    space = widgets.space()
    history = space.fresh("histories", "built by hand")
    since = np.array(days, dtype=np.int32) - days[0]
    Cohort.of([visits], days=since, card={"source": "built by hand"}).save(space.root / history)
    out = widgets.fresh("samples", f"after {Path(history).name}")
    given = {"histories": history, "draws": _DRAWS, "likeliest": _LIKELIEST}
    words = command_words("sample", model, options=options_of(SampleOptions), given=given, out=out)
    widgets.begin(words, "What comes next", kind=CONTINUE, out=out, model=model)
    st.rerun()


def _futures(codes: list[dict[str, Any]], out: str, model: str) -> None:
    """The likeliest next codes, and some continuations."""
    rows = [((code["code"], code["name"]), [code["probability"]]) for code in codes]
    widgets.parts(bar_table("Likeliest codes of the next visit", ("code", "name"), {"probability": ""}, rows))
    st.caption(f"Exact where the network gives all codes at once; elsewhere shares of {_DRAWS} draws.")
    shown, who = album(out, model)
    words = f"Each is one possible continuation, drawn by the model. ● is the rarest third of all codes, by {who}."
    _timelines(shown, np.arange(shown.cohort.n_patients), [], words, "futures", "Continuation")
