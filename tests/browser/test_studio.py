"""The studio in a real browser, the whole way: from the example cohort to a release and its patients."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ACCEPTED, write_hospital_table

pytest.importorskip("streamlit")
pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

#: Settings with which a release takes seconds.
TINY = (
    'fit.settings={"width": 16, "layers": 1, "heads": 2, "passes": 600, "patience": 100000, "batch_size": 64}\n'
    'evaluate.suites=["privacy"]\nevaluate.quick=true\n'
)
#: Seconds to wait for anything at most; a busy machine is slow.
PATIENCE = 240


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """One studio in an empty folder."""
    folder = tmp_path_factory.mktemp("studio")
    call = [sys.executable, "-m", "adapcla", "studio", str(folder), "--json"]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        yield {**told, "folder": folder}
        server.send_signal(signal.SIGINT)
        said = server.communicate(timeout=60)[1]
    assert "Traceback" not in said, said


class Visitor:
    """Somebody who reads and presses; everything seen is kept, to be searched for real patients."""

    def __init__(self, window: Any, downloads: Path) -> None:
        self.window, self.downloads, self.seen = window, downloads, [""]
        behaviour = {"behavior": "allow", "downloadPath": str(downloads)}
        window.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)

    def text(self) -> str:
        words = str(self.window.execute_script("return document.body.innerText"))
        source = str(self.window.execute_script("return document.body.outerHTML"))
        if source != self.seen[-1]:
            self.seen.append(source)
        return words

    def until(self, *words: str) -> str:
        """What is shown, once it holds all of some words; a page that is drawn anew lacks some for a moment."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(Exception):
                said = self.text()
                if all(each in said for each in words):
                    return said
            time.sleep(0.1)
        raise AssertionError(f"{[each for each in words if each not in self.text()]} did not come:\n{self.text()}")

    def _retry(self, act: Callable[[], Any], what: str) -> Any:
        """What an act gives; the page may be drawn anew in the middle of it."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return act()
            except Exception as error:
                if time.monotonic() > end:
                    raise AssertionError(f"{what}: {error}\n{self.text()}") from None
                time.sleep(0.1)

    def press(self, label: str, kind: str = "button") -> None:
        def act() -> None:
            # The name of an icon may stand before the words.
            found = [e for e in self.window.find_elements("css selector", kind) if e.text.split("\n")[-1] == label]
            shown = [e for e in found if e.is_displayed() and e.is_enabled()]
            self.window.execute_script("arguments[0].scrollIntoView({block: 'center'})", shown[0])
            shown[0].click()

        self._retry(act, f"press {label}")

    def go(self, title: str) -> None:
        self.press(title, "a")
        end = time.monotonic() + PATIENCE
        while self.window.execute_script("return document.querySelector('h1')?.innerText") != title:
            assert time.monotonic() < end, self.text()
            time.sleep(0.1)

    def field(self, label: str, kind: str = "input") -> Any:
        return self._retry(
            lambda: next(
                e
                for e in self.window.find_elements("css selector", f"{kind}[aria-label^='{label}']")
                if e.is_displayed()
            ),
            f"field {label}",
        )

    def fill(self, label: str, text: str, kind: str = "input") -> None:
        def act() -> None:
            field = self.field(label, kind)
            self.window.execute_script("arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", field)
            field.send_keys("\ue009a\ue000")  # select all
            field.send_keys(text)
            if kind == "input":
                field.send_keys("\ue004")  # tab

        self._retry(act, f"fill {label}")

    def pick(self, label: str, text: str) -> None:
        """Choose the first code that a text finds."""
        field = self.field(label)
        self.window.execute_script("arguments[0].scrollIntoView({block: 'center'})", field)
        field.click()
        field.send_keys(text)
        self._retry(lambda: self.window.find_elements("css selector", "[role=option]")[0].click(), f"pick {text}")
        field.send_keys("\ue00c")  # escape

    def drop(self, path: Path) -> None:
        self._retry(
            lambda: self.window.find_elements("css selector", "input[type=file]")[0].send_keys(str(path)), "drop a file"
        )

    def is_within(self, width: int) -> bool:
        """Whether nothing is wider than a window of this width."""
        self.window.set_window_size(width, 1200)
        time.sleep(0.3)
        wide, window = self.window.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
        self.window.set_window_size(1280, 1600)
        return bool(wide <= window)


@pytest.fixture
def visitor(browser: Any, studio: dict[str, Any], tmp_path: Path) -> Visitor:
    browser.set_window_size(1280, 1600)
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(studio["address"])
    return Visitor(browser, tmp_path)


def asked_outside(window: Any, port: int) -> list[str]:
    """Requests that went to any other place than the studio."""
    messages = [json.loads(line["message"])["message"] for line in window.get_log("performance")]
    urls = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    urls += [m["params"]["url"] for m in messages if m["method"] == "Network.webSocketCreated"]
    assert urls, "nothing was listened to"
    own = (f"http://127.0.0.1:{port}/", f"ws://127.0.0.1:{port}/", "data:", "blob:", "about:")
    return [url for url in urls if not url.startswith(own)]


def test_the_whole_way(visitor: Visitor, studio: dict[str, Any]) -> None:
    visitor.until("Where are the patients?")
    assert "token" not in visitor.window.current_url
    _make_a_world(visitor)
    _drop_tables(visitor, studio["folder"])
    _train_stop_and_go_on(visitor, studio)
    _look_at_patients(visitor)
    _steer(visitor)
    visitor.go("5 Compare")
    visitor.until("There is none yet")
    assert visitor.is_within(500)
    # Nothing was asked of anybody else, nothing went wrong, and nobody real was seen.
    assert asked_outside(visitor.window, studio["port"]) == []
    # (Streamlit looks for its own health beside a page that is reloaded, before it looks above it.)
    wrong = [entry["message"] for entry in visitor.window.get_log("browser") if entry["level"] == "SEVERE"]
    assert [message for message in wrong if "/_stcore/" not in message] == []
    assert len(visitor.seen) > 20
    for mark in ("MRN7", "1931-", studio["address"].partition("token=")[2]):
        assert not [page for page in visitor.seen if mark in page], mark


def _make_a_world(visitor: Visitor) -> None:
    """The example world, smaller than it would be, and its description."""
    visitor.press("Its size", "summary")
    visitor.fill("Patients", "560")
    visitor.fill("Codes", "60")
    visitor.press("Make the example cohort")
    visitor.until("How the codes are used", "560")
    assert visitor.is_within(500) and visitor.is_within(640)


def _drop_tables(visitor: Visitor, folder: Path) -> None:
    """A wrong table shows the error and keeps the session; a right one shows its columns and no cell."""
    wrong, right = visitor.downloads / "wrong.csv", visitor.downloads / "hospital.csv"
    wrong.write_text("who,what\n" + "MRN7,I10\n" * 30)
    write_hospital_table(right)
    visitor.press("Drop a table", "label")
    visitor.drop(wrong)
    visitor.until("no column 'patient_id'", "to do:", "How the codes are used")
    visitor.press("Drop a table", "label")
    visitor.drop(right)
    visitor.until("Nothing would be left out", "codes (dx)")
    assert (folder / "uploads" / "hospital.csv").is_file()


def _train_stop_and_go_on(visitor: Visitor, studio: dict[str, Any]) -> None:
    """A small release: reloaded and seen in a second tab while it runs, stopped, gone on with, downloaded."""
    visitor.go("2 Train and release")
    visitor.until("Learn from")
    visitor.press("More choices", "summary")
    visitor.fill("Minutes", "1")
    visitor.fill("Accept", ",".join(ACCEPTED["accept"]))
    visitor.fill("Reason", ACCEPTED["reason"])
    visitor.fill("Other settings", TINY, "textarea")
    visitor.press("Train and release")
    visitor.until("train loss")
    visitor.window.refresh()
    visitor.until("Running: Release")
    first = visitor.window.current_window_handle
    visitor.window.switch_to.new_window("tab")
    visitor.window.get(f"http://127.0.0.1:{studio['port']}/")
    visitor.until("Where are the patients?")
    visitor.go("2 Train and release")
    visitor.press("Stop")
    visitor.until("stopped; what was finished is kept")
    visitor.window.close()
    visitor.window.switch_to.window(first)
    visitor.until("stopped; what was finished is kept")
    visitor.press("Resume")
    visitor.until("Download", "Private", "privacy checks passed", "Loss of training")
    visitor.press("csv (zip)")
    end = time.monotonic() + PATIENCE
    while not list(visitor.downloads.glob("*-csv.zip")):
        assert time.monotonic() < end, sorted(visitor.downloads.iterdir())
        time.sleep(0.1)
    release = next((studio["folder"] / "releases").glob("*/report.html")).parent
    assert (release / "SHA256SUMS").is_file() and visitor.is_within(500)


def _look_at_patients(visitor: Visitor) -> None:
    """Timelines, and a search by a word of a description."""
    visitor.go("3 Patients")
    visitor.until("Synthetic patient 1")
    sizes = visitor.window.execute_script(
        "return [...document.querySelectorAll('.chip')].map(c => [c.clientWidth, c.innerText])"
    )
    assert len(sizes) > 5 and all(width > 20 and words for width, words in sizes)
    visitor.fill("Search by code", "visit")
    visitor.until("codes hold “visit”", "Nobody here is real")
    assert visitor.is_within(500) and visitor.is_within(640)
    # The tabs are reached and moved between by keyboard.
    visitor.window.execute_script("document.querySelector('[role=tab]').focus()")
    visitor.window.switch_to.active_element.send_keys("\ue014")  # right
    assert visitor.window.switch_to.active_element.get_attribute("role") == "tab"


def _steer(visitor: Visitor) -> None:
    """A code is requested; both ways are tried and stand side by side."""
    visitor.go("4 Steer")
    visitor.until("What is requested?")
    visitor.pick("Codes", "visit")
    visitor.until("% of visits (now")
    visitor.fill("Patients of each trial", "100")
    visitor.fill("Patients of a pilot", "100")
    visitor.press("See both ways")
    visitor.until("Share of visits that hold the code", "Draw them", "requested", "the paper's rule")
    assert visitor.is_within(500)


def test_without_the_token_there_is_nothing_to_see(browser: Any, studio: dict[str, Any]) -> None:
    browser.delete_all_cookies()
    browser.get(f"http://127.0.0.1:{studio['port']}/")
    assert "403" in browser.find_element("tag name", "body").text
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"http://127.0.0.1:{studio['port']}/patients", timeout=60)


def test_light_and_dark_follow_the_system(visitor: Visitor) -> None:
    colour = "return getComputedStyle(document.querySelector('.stApp')).backgroundColor"
    seen = {}
    for scheme in ("dark", "light"):
        features = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        visitor.window.execute_cdp_cmd("Emulation.setEmulatedMedia", features)
        visitor.window.refresh()
        visitor.until("Where are the patients?")
        seen[scheme] = visitor.window.execute_script(colour)
    visitor.window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert seen["dark"] != seen["light"]
