"""The page of a release."""

from __future__ import annotations

from adapcla.report.release import Release, lamps


def rendered(release: Release) -> str:
    """The HTML of the page."""
    return "<html>" + "".join(f"<p>{lamp}</p>" for lamp in lamps(release)) + "</html>"
