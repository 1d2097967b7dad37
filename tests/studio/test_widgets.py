"""Pieces that pages share: jobs in every state, and names that are promised once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.studio.conftest import put, text_of

from adapcla.studio import widgets
from adapcla.studio.workspace import Workspace

SCRIPT = "from adapcla.studio import widgets\njob = widgets.newest_job(kind='x')\nwidgets.show(job)"


def of(script: str) -> Any:
    """A page of this script."""
    from streamlit.testing.v1 import AppTest

    return AppTest.from_string(script, default_timeout=60).run()


@pytest.mark.parametrize(("code", "label"), [(130, "Resume"), (3, "Try again")], ids=["stopped", "failed"])
def test_a_job_that_did_not_finish_shows_its_message_and_goes_on(
    folder: Path, started: list[list[str]], code: int, label: str
) -> None:
    jobs = Workspace(folder).jobs
    put(jobs, ["describe", "x"], "Title", {"kind": "x"}, folder, code=code, said="adapcla: found\nto do: this\n")
    page = of(SCRIPT)
    said = text_of(page)
    assert "found" in said and "to do: this" in said and "adapcla describe x" in said
    assert page.button[0].label == label
    page.button[0].click().run()
    assert started == [["describe", "x"]]


def test_a_job_that_ended_well_has_nothing_to_press(folder: Path) -> None:
    put(Workspace(folder).jobs, ["describe", "x"], "Title", {"kind": "x"}, folder)
    page = of(SCRIPT)
    assert not page.button and "Title: finished" in text_of(page)


def test_a_path_is_promised_to_one_job_only(folder: Path) -> None:
    assert widgets.fresh("samples", "first") == "samples/first-2"
    put(Workspace(folder).jobs, ["sample"], "a", {"out": "samples/first-2"}, folder)
    assert widgets.fresh("samples", "first") == "samples/first-3"
    assert widgets.fresh("releases", "first-2") == "releases/first-2"


def test_an_error_with_a_message_leaves_the_page_standing(folder: Path) -> None:
    page = of(
        "from adapcla.errors import UsageError\nfrom adapcla.studio import widgets\nimport streamlit as st\n"
        "def page():\n    st.write('before')\n    raise UsageError('found that\\nto do: this')\n"
        "widgets.run_guarded(page)\nst.write('after')"
    )
    assert not page.exception and "found that" in text_of(page) and "after" in text_of(page)
