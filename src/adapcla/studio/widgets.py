"""Pieces that several pages show: a job with its progress, errors, commands, and pictures of folders."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from adapcla.errors import AdapclaError
from adapcla.pipeline.estimate import clock
from adapcla.pipeline.options import Option
from adapcla.report.html import Part, Text, fragment
from adapcla.studio import jobs
from adapcla.studio.jobs import Job
from adapcla.studio.server import FOLDER
from adapcla.studio.workspace import Known, Workspace
from adapcla.tables import Cell, Table, number_cell

#: Seconds between two looks at a job that runs.
REFRESH = 1.0
_WORDS = {
    "done": "finished",
    "stopped": "stopped; what was finished is kept",
    "failed": "ended with an error",
    "lost": "was ended from outside",
}


def space() -> Workspace:
    """The folder that the studio works in."""
    return Workspace(Path(os.environ[FOLDER]))


def parts(*some: Part, place: Any = st) -> None:
    """Parts of a page, drawn as on the pages of releases and studies."""
    place.html(fragment(*some))


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "", place: Any = st) -> None:
    """A table; numbers stand right, None is a dash."""
    parts(Table(head, [[_cell(value) for value in row] for row in rows], title=title, always_open=True), place=place)


def _cell(value: Any) -> Cell:
    if isinstance(value, int) and not isinstance(value, bool):
        return Cell(f"{value:,}", value)
    return number_cell(value) if value is None or isinstance(value, float) else Cell(str(value))


def error(message: str) -> None:
    """The message of a command: what was found, what was expected and what to do."""
    parts(Text(message, "refused"))


def run_guarded(page: Callable[[], None]) -> None:
    """Show a page; a failure that has a message for people is shown as that message, and the rest stays usable."""
    try:
        page()
    except AdapclaError as problem:
        error(str(problem))


def begin(command: list[str], title: str, **about: str) -> Job:
    """Start a job of the folder."""
    here = space()
    return jobs.start(here.jobs, command, title, about, here.root)


def fresh(kind: str, wish: str) -> str:
    """A path in the folder that nothing has, and that no job is to write."""
    here = space()
    outs = {job.about.get(key, "") for job in jobs.jobs_in(here.jobs) for key in ("out", "cohort")}
    return here.fresh(kind, wish, promised=frozenset(out for out in outs if out.startswith(f"{kind}/")))


def newest_job(**about: str) -> Job | None:
    """The newest job of the folder with these keys."""
    return jobs.newest(space().jobs, **about)


def show(job: Job, beside: Callable[[Job], None] | None = None, quiet: bool = False) -> None:
    """A job: its progress while it runs, its message when it has ended; `beside` draws more while it runs.

    A quiet job says nothing when all is well: its result is shown by the page.
    """
    if job.running:
        _watch(str(job.folder), beside)
        return
    state = job.state
    if state == "done" and quiet and not job.message:
        return
    st.caption(f"{job.title}: {_WORDS[state]} after {clock(job.seconds)}.")
    if job.message:
        error(job.message)
    if state in ("stopped", "failed", "lost"):
        label = "Resume" if state != "failed" else "Try again"
        if st.button(label, key=f"again-{job.name}", type="primary"):
            job.again()
            st.rerun()
    if not quiet:
        command(job)


@st.fragment(run_every=REFRESH)
def _watch(folder: str, beside: Callable[[Job], None] | None) -> None:
    """A job that runs, looked at again every second; when it has ended, the page is drawn anew."""
    job = jobs.job_at(Path(folder))
    if job is None or not job.running:
        st.rerun()
    progress = job.progress
    left = f", about {clock(progress['left'])} left" if progress else ""
    st.progress(float(progress.get("share", 0.0)), text=f"{job.title}: {progress.get('what', 'starting')}{left}")
    if beside is not None:
        beside(job)
    if st.button(
        "Stop", key=f"stop-{job.name}", help="As Ctrl-C does: what is finished is kept, and Resume continues from it."
    ):
        job.stop()
        st.caption("Stopping …")
    command(job)


def command(job: Job) -> None:
    """The command behind a job, to be typed by whoever wants to, and what it said."""
    with st.expander("Command and log"):
        st.caption(f"In the folder {job.where}; it can be resumed there, too:")
        st.code(job.line, language="bash", wrap_lines=True)
        if job.said:
            st.code(job.said[-4000:], language=None, wrap_lines=True)


def show_page(path: Path) -> None:
    """A page that lies in the folder, in a frame of its own.

    As an address of data it has an origin of its own: whoever wrote it, its scripts cannot reach the studio.
    """
    content = base64.b64encode(path.read_bytes()).decode()
    st.iframe(f"data:text/html;charset=utf-8;base64,{content}", height=900, alt=f"The page {path.name}")


def choose(label: str, names: list[str], key: str, first: str = "", words: str = "") -> str:
    """One of some things in the folder; `first` is chosen before anybody has."""
    index = names.index(first) if first in names else 0
    chosen = st.selectbox(label, names, index=index, key=key, help=words or None)
    return str(chosen)


def codes(title: str, about: Known, key: str, hint: str = "", typed: bool = False, most: int = 20) -> list[str]:
    """Codes of a model, found by code or words of their names; with `typed`, patterns such as E84* too."""
    chosen = st.multiselect(
        title,
        list(about.vocabulary.tokens),
        format_func=about.label,
        key=key,
        help=hint or None,
        max_selections=most,
        accept_new_options=typed,
        filter_mode="contains",
        select_all=False,
        placeholder="Type a code or a word",
    )
    return [str(code) for code in chosen]


def option_field(place: Any, option: Option, before: Any, key: str) -> Any:
    """A field for an option, with its choices, default and help; None where it is left as it is."""
    title = option.name.replace("_", " ").capitalize()
    name, default = f"{key}-{option.name}", option.default if before is None else before
    words = {"key": name, "help": option.help or None}
    if option.kind is bool:
        value: Any = place.checkbox(title, bool(default), **words)
    elif option.many and option.choices:
        value = tuple(place.multiselect(title, option.choices, list(default), **words))
    elif option.choices:
        listed = [*([""] if option.default is None else []), *option.choices]
        value = place.selectbox(title, listed, listed.index(default or listed[0]), **words)
    elif option.kind in (int, float):
        value = place.number_input(title, value=default, **words)
    else:
        text = ",".join(map(str, default or ())) if option.many else str(default or "")
        value = place.text_input(title, text, **words).strip()
        value = option.value(value) if option.many else value
    return None if value in ("", (), None) else value
