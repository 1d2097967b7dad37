"""The page *Train and release*: the choices of `synthesize`, its progress, its statuses, its page and its files."""

from __future__ import annotations

import io
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from adapcla.pipeline.estimate import clock
from adapcla.pipeline.options import assignments, options_of
from adapcla.release.settings import ReleaseSettings
from adapcla.report.charts import loss_curve
from adapcla.report.html import Indicators, Status
from adapcla.studio import widgets
from adapcla.studio.jobs import Job, command_words, jobs_in
from adapcla.studio.workspace import Contents, plain_name

_RELEASE, _PLAN = "release", "plan"
FORMATS = ("csv", "parquet", "xlsx", "meds", "omop", "fhir")
OPTIONS = options_of(ReleaseSettings)
#: Options that stand before the others, and one that the name of the folder gives.
_FIRST = ("minutes", "patients", "formats", "name")


def release_screen() -> None:
    """Ask, start, watch, and look at what came of it."""
    found = widgets.space().contents()
    if not found.sources:
        st.write(
            "There are no patients to learn from yet. Begin on the page Data; the example cohort is one click away."
        )
        return
    _choices(found)
    releases = _releases(found)
    if releases:
        st.header("Releases")
        newest = widgets.newest_job(kind=_RELEASE)
        first = "" if newest is None else newest.about["out"]
        _show_release(widgets.choose("Release", releases, "release", first))


# ---- the choices -- ------------------------------------------------------------------------------------------
def _choices(found: Contents) -> None:
    """The choices of `synthesize`, each with its default and a sentence."""
    newest = widgets.newest_job(kind="read")
    with st.form("release-form"):
        first = "" if newest is None else newest.about["cohort"]
        cohort = widgets.choose("Learn from", found.sources, "train-cohort", first)
        left, right = st.columns(2)
        minutes = left.number_input("Minutes", 0.1, 10_000.0, OPTIONS["minutes"].default, key="minutes")
        left.caption("Time on two quiet cores for the whole. The network and its epochs are made to fit.")
        patients = right.number_input("Synthetic patients", 0, 100_000_000, 0, key="patients")
        right.caption("0: as many as were learned from.")
        formats = left.multiselect("Formats", FORMATS, ["csv"], key="formats")
        left.caption("The release holds the patients in each of these.")
        name = right.text_input("Name", plain_name(Path(cohort).name), key="release-name")
        right.caption("The folder of the release, in releases.")
        with st.expander("More choices"):
            given = _more()
        start = st.form_submit_button("Train and release", type="primary")
        plan = st.form_submit_button("Show the plan with rough times")
    given |= {"minutes": float(minutes), "patients": int(patients), "formats": tuple(formats)}
    if start or plan:
        out = widgets.fresh("releases", name)
        words = command_words("synthesize", "cohort", cohort, options=OPTIONS, given=given, out=out, dry_run=plan)
        widgets.begin(
            words, f"Plan of {name}" if plan else f"Release {name}", kind=_PLAN if plan else _RELEASE, out=out
        )
        st.rerun()
    _plan()


def _more() -> dict[str, Any]:
    """Choices that most people leave as they are: every other option of `synthesize`, with its default and help."""
    out: dict[str, Any] = {}
    places = st.columns(2)
    for number, option in enumerate(option for name, option in OPTIONS.items() if name not in _FIRST):
        out[option.name] = widgets.option_field(places[number % 2], option, None, "release")
    settings = st.text_area("Other settings", "", key="settings", placeholder="fit.settings.width=64")
    st.caption("NAME=VALUE, one on each line, as for --set.")
    return out | assignments([line.strip() for line in settings.splitlines() if line.strip()])


def _plan() -> None:
    """The newest plan: its steps with rough times."""
    job = widgets.newest_job(kind=_PLAN)
    release = widgets.newest_job(kind=_RELEASE)
    if job is None or (release is not None and release.started > job.started):
        return
    widgets.show(job, quiet=True)
    if job.result:
        rows = [(step["stage"], step["what"], clock(step["seconds"])) for step in job.result["steps"]]
        widgets.table(["step", "", "roughly"], rows)


# ---- what came of it ----------------------------------------------------------------------------------------
def _releases(found: Contents) -> list[str]:
    """Releases that were begun, here or on the command line: the newest of the studio first."""
    begun = [job.about["out"] for job in jobs_in(widgets.space().jobs, kind=_RELEASE)]
    return list(dict.fromkeys([*begun, *(work.removesuffix("-work") for work in found.works)]))


def _show_release(out: str) -> None:
    """A release: its job, its curve, its statuses, its page and its files."""
    job = widgets.newest_job(kind=_RELEASE, out=out)
    if job is not None:
        widgets.show(job, beside=partial(_curve, out))
        if job.running:
            return
        if job.result.get("status"):
            widgets.parts(Indicators([_status(one) for one in job.result["status"].values()]))
        for reason in job.result.get("reasons", ()):
            st.write(f"- {reason}")
    _curve(out)
    root = widgets.space().root
    if (root / out).is_dir():
        _downloads(root / out)
    pages = (root / out / "report.html", root / f"{out}-work" / "report.html")
    written = [path for path in pages if path.is_file()]
    if written and st.toggle("Show the page of the release", key=f"page-{out}"):
        widgets.show_page(written[0])
    if written:
        st.caption(f"{out}-work holds real patients; delete it when you no longer need to resume.")


def _status(content: dict[str, Any]) -> Status:
    """A status as the command printed it."""
    return Status(**{name: content[name] for name in Status._fields if name in content})


def _curve(out: str, job: Job | None = None) -> None:
    """The loss of the newest try, as far as it is written."""
    from adapcla.training.checkpoint import loss_curves

    tries = sorted((widgets.space().root / f"{out}-work" / "tries").glob("*/fit/journal.jsonl"))
    if tries:
        drawn = loss_curve(*loss_curves(tries[-1]))
        if drawn is not None:
            widgets.parts(drawn)


def _downloads(folder: Path) -> None:
    """Buttons for each format, for the page and for the card."""
    st.subheader("Download")
    parts = [path for path in sorted(folder.iterdir()) if path.is_dir() or path.suffix in (".html", ".md", ".json")]
    places = st.columns(4)
    for number, path in enumerate(parts):
        name = f"{folder.name}-{path.name}" + (".zip" if path.is_dir() else "")
        places[number % 4].download_button(
            f"{path.name}{' (zip)' if path.is_dir() else ''}",
            data=partial(zip_of, path),
            file_name=name,
            key=f"download-{folder.name}-{path.name}",
            on_click="ignore",
        )


def zip_of(path: Path) -> bytes:
    """A file as it is, or a folder as a zip file whose bytes depend on its files alone."""
    if path.is_file():
        return path.read_bytes()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(file for file in path.rglob("*") if file.is_file()):
            archive.writestr(zipfile.ZipInfo(f"{path.name}/{file.relative_to(path).as_posix()}"), file.read_bytes())
    return content.getvalue()
