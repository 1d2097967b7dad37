"""The site of the documentation: all pages gathered, a reference of every package, nothing loaded from elsewhere."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def site(repository: Path) -> ModuleType:
    """The script that gathers the site."""
    spec = importlib.util.spec_from_file_location("site_script", repository / "scripts" / "site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_lie_as_in_the_repository_and_all_are_in_the_navigation(
    site: ModuleType, repository: Path, tmp_path: Path
) -> None:
    if not (repository / ".git").exists():
        pytest.skip("not a clone: git says which files belong to the project")
    site.gather(tmp_path / "source")
    config = (tmp_path / "mkdocs.yml").read_text(encoding="utf-8")
    entries = re.findall(r"^ +- (?:[\w ]+: )?([\w/-]+\.md)$", config, re.MULTILINE)
    assert [name for name in entries if not (tmp_path / "source" / name).is_file()] == []
    for path in (repository / "docs").glob("*.md"):
        assert (tmp_path / "source" / "docs" / path.name).read_bytes() == path.read_bytes()
        assert f"docs/{path.name}" in entries
    for package in ("data", "evaluation", "cli"):
        assert f"docs/reference/{package}.md" in entries
        assert f"::: adapcla.{package}\n" in (tmp_path / "source" / f"docs/reference/{package}.md").read_text()


@pytest.mark.parametrize(
    ("name", "text", "asks"),
    [
        ("a.html", '<script src="https://elsewhere/x.js"></script>', True),
        ("a.html", '<link rel="stylesheet" href="https://fonts/x.css">', True),
        ("a.html", '<img alt="x" src="//elsewhere/x.png">', True),
        ("a.css", '@import "https://elsewhere/x.css"', True),
        ("a.css", "b { background: url(https://elsewhere/x.png) }", True),
        ("a.html", '<a href="https://elsewhere/">a link to follow</a> <script src="assets/x.js"></script>', False),
    ],
)
def test_what_asks_another_machine_is_found(site: ModuleType, tmp_path: Path, name: str, text: str, asks: bool) -> None:
    (tmp_path / name).write_text(text)
    assert bool(site.outside(tmp_path)) == asks


def test_fonts_are_off_and_search_works_without_a_server(repository: Path) -> None:
    config = (repository / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in config and "- offline" in config and "docs/assets/iframe-worker.js" in config
    # The plugin takes its own place on the internet unless the name of ours has these letters in it.
    assert (repository / "docs" / "assets" / "iframe-worker.js").is_file()


@pytest.mark.browser
def test_the_site_searches_from_a_disk(site: ModuleType, repository: Path, tmp_path: Path) -> None:
    """A small site with the theme and the settings of ours, opened as a file, asked for a word."""
    import shutil
    import subprocess

    for name in ("material", "mkdocstrings"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"no {name}: pip install 'adapcla[docs]'")
    driver, place = shutil.which("chromedriver"), shutil.which("chromium")
    if driver is None or place is None:
        pytest.skip("no chromium to look with")
    selenium = pytest.importorskip("selenium.webdriver")
    (tmp_path / "source" / "docs" / "assets").mkdir(parents=True)
    shutil.copy(repository / "docs" / "assets" / "iframe-worker.js", tmp_path / "source" / "docs" / "assets")
    (tmp_path / "source" / "index.md").write_text("# Start\n\nThe word is scaffolding.\n")
    config = (repository / "mkdocs.yml").read_text(encoding="utf-8").split("nav:")[0]
    config = config.replace("docs_dir: build/site-source", f"docs_dir: {tmp_path / 'source'}")
    (tmp_path / "mkdocs.yml").write_text(config.replace("paths: [src]", "paths: []"))
    where = ["-f", str(tmp_path / "mkdocs.yml"), "-d", str(tmp_path / "site")]
    built = [sys.executable, "-m", "mkdocs", "build", "-q", *where]
    subprocess.run(built, check=True, timeout=120)
    assert site.outside(tmp_path / "site") == []
    options = selenium.ChromeOptions()
    options.binary_location = place
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    window = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    try:
        window.implicitly_wait(30)
        window.get((tmp_path / "site" / "index.html").as_uri())
        window.execute_script("document.querySelector('[data-md-toggle=search]').click()")
        window.find_element("css selector", "input.md-search__input").send_keys("scaffolding")
        assert "Start" in window.find_element("css selector", ".md-search-result__item").text
        asked = [line["message"] for line in window.get_log("performance") if "requestWillBeSent" in line["message"]]
        assert asked and not [message for message in asked if '"url":"http' in message]
    finally:
        window.quit()
