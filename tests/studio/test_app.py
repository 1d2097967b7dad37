"""The whole of the pages: five of them, the first with the example cohort, and none with a real patient."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.studio.conftest import text_of

from adapcla.studio import server

PAGES = ("data", "release", "patients", "steer", "compare")


def test_the_first_visit_offers_the_example_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamlit.testing.v1 import AppTest

    monkeypatch.setenv(server.FOLDER, str(tmp_path))
    page = AppTest.from_file(str(Path(server.__file__).with_name("app.py")), default_timeout=60).run()
    assert not page.exception and page.title[0].value == "1 Data"
    assert [button.label for button in page.button] == ["Make the example cohort"]
    assert page.sidebar.caption[0].value == f"Working in {tmp_path.name}"


@pytest.mark.parametrize("name", PAGES)
def test_no_page_shows_a_real_patient(shown: Callable[..., Any], started: list[list[str]], name: str) -> None:
    """Ids and dates of the hospital's table, on pages that have all of it in their folder."""
    page = shown(name)
    assert not page.exception
    said = text_of(page)
    assert len(said) > 100 and "MRN7" not in said and "1931-" not in said


@pytest.mark.parametrize("name", PAGES[1:])
def test_a_page_without_anything_to_show_says_where_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from streamlit.testing.v1 import AppTest

    monkeypatch.setenv(server.FOLDER, str(tmp_path))
    page = AppTest.from_string(
        f"from adapcla.studio.screens import {name}\n{name}.{name}_screen()", default_timeout=60
    ).run()
    assert not page.exception and ("on the page" in text_of(page) or "none yet" in text_of(page))
