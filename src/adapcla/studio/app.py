"""The pages of the studio; Streamlit runs this file anew at every change."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType

import streamlit as st

from adapcla.report.html import fragment_style
from adapcla.studio import jobs, widgets

#: Module of a page → its title, in order.
PAGES = {
    "data": "1 Data",
    "release": "2 Train and release",
    "patients": "3 Patients",
    "steer": "4 Steer",
    "compare": "5 Compare",
}


def page_function(name: str) -> Callable[[], None]:
    """The page of this name, loaded when it is shown."""

    def page() -> None:
        module: ModuleType = import_module(f"adapcla.studio.screens.{name}")
        widgets.run_guarded(partial(getattr(module, f"{name}_screen")))

    return page


def main() -> None:
    """Show the chosen page, and what runs beside it."""
    st.set_page_config(page_title="AdaPCLA studio", layout="wide")
    st.html(fragment_style())
    st.html("<style>.stMainBlockContainer{padding-top:3.75rem;padding-bottom:4rem}.stMain h1{font-size:2rem}</style>")
    pages = [
        st.Page(page_function(name), title=title, url_path=name, default=name == "data")
        for name, title in PAGES.items()
    ]
    chosen = st.navigation(pages)
    space = widgets.space()
    with st.sidebar:
        st.caption(f"Working in {space.root.name}", help=str(space.root))
        running = [job for job in jobs.jobs_in(space.jobs) if job.running]
        for job in running:
            st.caption(f"Running: {job.title}")
        st.caption("Everything stays on this computer. Real patients are never shown.")
    st.title(chosen.title)
    chosen.run()


if __name__ == "__main__":
    main()
