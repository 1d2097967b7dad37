"""One real browser for the tests of pages."""

from __future__ import annotations

import shutil

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1280,1600",
)  # fmt: skip


@pytest.fixture(scope="package")
def browser(tmp_path_factory):
    place = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if place is None or driver is None:
        pytest.skip(f"no browser to look with: chromium {place or 'absent'}, chromedriver {driver or 'absent'}")
    selenium = pytest.importorskip("selenium.webdriver")
    options = selenium.ChromeOptions()
    options.binary_location = place
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    window = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    yield window
    window.quit()
