"""The version: one place, and the installed package agrees."""

from __future__ import annotations

import re
from importlib.metadata import version

from adapcla.version import __version__


def test_the_version_is_a_version_and_the_installed_one():
    assert re.fullmatch(r"\d+\.\d+\.\d+([ab]\d+|rc\d+|\.dev\d+)?", __version__)
    assert version("adapcla") == __version__


def test_the_changelog_knows_the_version(repository):
    text = (repository / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{__version__}]" in text or "## [Unreleased]" in text
