"""From a source to a release in one call: what was asked becomes settings, and the plan carries them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from adapcla.console import say
from adapcla.data import Cohort, Kind, Origin
from adapcla.data.frames import is_frame
from adapcla.errors import InputError, UsageError, nearest
from adapcla.evaluation import Scores
from adapcla.files import MANIFEST
from adapcla.io.readers.open_data import data_folder
from adapcla.pipeline.settings import read_toml, settings_from
from adapcla.release.settings import ReleaseSettings, release_settings
from adapcla.tables import facts_as_html

#: The built-in simulated patients by name.
BUILT_IN = ("simulated", "planted", "demo")
#: Characters of a path at most; what is longer is a table and must not be shown.
_LONGEST_NAME = 4096


@dataclass(frozen=True, eq=False)
class Release:
    """What came of it; where the gate was not met, `folder` is None."""

    folder: Path | None
    #: The page: in the release, or beside the working files where nothing was released.
    page: Path
    cohort: Cohort
    scores: Scores
    passed: bool
    #: Why the gate was not met, in plain words; empty where it was.
    reasons: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line: whether it was released, and where it lies."""
        outcome = f"released to {self.folder}" if self.passed else "not released: the privacy gate is not met"
        return f"Release({outcome}; {self.cohort.n_patients:,} synthetic patients; page {self.page})"

    def _repr_html_(self) -> str:
        """The same as a small table, for notebooks."""
        rows = {
            "released": str(self.folder) if self.passed else "no",
            "synthetic patients": f"{self.cohort.n_patients:,}",
            "page": str(self.page),
            **{f"reason {number}": reason for number, reason in enumerate(self.reasons, 1)},
        }
        return facts_as_html("Release", rows)


def source_of(first: str, second: str = "") -> tuple[str, str]:
    """(source, path) of what stands on the command line: a source and its path, or a path alone.

    >>> source_of("mimic4", "path/to/mimic-iv"), source_of("simulated")
    (('mimic4', 'path/to/mimic-iv'), ('planted', ''))
    """
    from adapcla.io import READERS, reader_of

    if second:
        if first != "cohort":
            reader_of(first)  # an unknown name is refused now, with the nearest one
        return first, second
    if first in BUILT_IN:
        return "planted", ""
    if "\n" in first or len(first) > _LONGEST_NAME:
        raise UsageError("a text that is no name of a file\nto do: write the table to a file and name that")
    path = Path(first).expanduser()
    if not path.exists():
        more = "; a source needs a path behind its name" if first in READERS else ""
        raise InputError(
            f"no such file{more}", path=first, expected="a table, or a source and its path", remedy="check it"
        )
    if (path / MANIFEST).is_file():
        return "cohort", first
    if path.is_dir() and not (path / "adapcla.json").is_file():
        raise UsageError(
            f"{first} is a folder, and its source is not named\nexpected: one of {', '.join(READERS)}\n"
            f"to do: name it, such as: adapcla synthesize omop {first} --out release"
        )
    say(f"{first}: read as a table, its columns guessed")
    return "table", first


def settings_of(
    data: str,
    path: str = "",
    *,
    options: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    **given: Any,
) -> ReleaseSettings:
    """The settings of a release, the same for Python, the command line and a TOML file with the same content.

    Args:
        data: A source (with its path), a file, a cohort folder, `simulated`, or a TOML file of settings.
        path: File or folder of the source.
        options: Options for reading the source.
        changes: Changed settings by their dotted names, as `--set` has them.
        given: Changed settings by their names; what is None was not said.
    """
    if path or not data.lower().endswith(".toml"):
        source, place = source_of(data, path)
        return release_settings(source, place, options=options, changes=changes, **given)
    content = read_toml(data)
    part = dict(content.get("data", {}))
    file = str(data_folder() / Path(str(part["path"])).expanduser()) if part.get("path") else ""
    read = {**part.pop("options", {}), **{name: value for name, value in (options or {}).items() if value}}
    # What the file leaves out is what it is everywhere else.
    base = release_settings(str(part.get("source", "planted")), file, options=read).model_dump(exclude_unset=True)
    for name, value in {**content, "data": {**part, "path": base["data"].get("path", "")}}.items():
        base[name] = {**base.get(name, {}), **value} if isinstance(value, Mapping) else value
    defaults = {name: field.default for name, field in ReleaseSettings.model_fields.items()}
    said = {name: value for name, value in given.items() if value is not None and value != defaults[name]}
    return settings_from(ReleaseSettings, {**base, **said}, changes, data)


def synthesize(
    data: Any,
    path: str | Path = "",
    *,
    out: str | Path = "release",
    minutes: float | None = None,
    patients: int | None = None,
    formats: tuple[str, ...] | None = None,
    min_patients: int | None = None,
    repair: bool | None = None,
    accept: tuple[str, ...] | None = None,
    reason: str | None = None,
    allow_dropped: float | None = None,
    overwrite: bool = False,
    work: str | Path | None = None,
    method: str | None = None,
    plan: str | Path | None = None,
    seed: int | None = None,
    title: str | None = None,
    model: bool | None = None,
    rollup: str | None = None,
    birth_year: int | None = None,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Release:
    """A data set that may be shared, from a data frame, a table, a source with its path, or a cohort.

    A second call with the same arguments resumes what the first has finished. Where the privacy gate is not met,
    nothing is released and `passed` is false; the working folder, which holds real patients, has the page.

    Args:
        data: A data frame (pandas, polars, pyarrow), a file, the name of a source (with `path`), a cohort folder, a
            cohort, `simulated`, or a TOML file of settings.
        path: File or folder of the source.
        out: Folder of the release.
        minutes: Time on two cores that the size of the network and its epochs are chosen for; 10 if not given.
        patients: Synthetic patients; as many as were learned from if not given.
        formats: Some of csv, parquet, xlsx, meds, omop, fhir; csv if not given.
        min_patients: Fewest training patients of a code; rarer ones are rolled up. 11 if not given.
        repair: Where the gate is not met, try again more carefully, three times at most.
        accept: Lines of the gate that may be not shown, with a reason.
        reason: Why they are accepted; it stands on page and card.
        allow_dropped: Share of visits, codes or patients of the source that may be dropped while reading.
        overwrite: Replace what is in `out`.
        work: Folder for what real patients are in; beside `out` if not given.
        method: A row of `adapcla methods`.
        plan: The plan.json of an earlier release: the same epochs and evaluation, so the same bytes.
        seed: Seed of the fit and of the sample.
        title: Heading of page and card; the file's name if not given.
        model: Write the model too, where attacks on it fail.
        rollup: The way up for rarer codes: icd, ccs, or a CSV file code, parent.
        birth_year: OMOP: year of birth of patients of unknown age.
        settings: Any other setting by its dotted name, such as `{"evaluate.quick": True}`.
        options: Columns of a data frame, as for `Cohort.from_frame`, or options of the source, as for `read`.
    """
    from adapcla.release.plan import ReleasePlan

    given = {
        "minutes": minutes,
        "patients": patients,
        "formats": None if formats is None else tuple(formats),
        "min_patients": min_patients,
        "repair": repair,
        "accept": None if accept is None else tuple(accept),
        "reason": reason,
        "allow_dropped": allow_dropped,
        "method": method,
        "plan": None if plan is None else str(plan),
        "seed": seed,
        "title": title,
        "model": model,
        "rollup": rollup,
        "birth_year": birth_year,
    }
    if is_frame(data):
        data, options = _cohort_of_frame(data, options), {}
    if not isinstance(data, (str, Path, Cohort)):
        # Never the thing itself, of which a part may be rows of patients.
        raise UsageError(
            f"data of type {type(data).__name__}\n"
            "expected: a data frame, a file, the name of a source with its path, or a cohort"
        )
    if isinstance(data, Cohort):
        # Nothing is read from a folder: the plan gets the patients themselves.
        asked = release_settings("cohort", "cohort", options=options, changes=settings, **given)
        steps = ReleasePlan(asked, out, work, overwrite, cohort=data)
    else:
        asked = settings_of(str(data), str(path), options=options, changes=settings, **given)
        steps = ReleasePlan(asked, out, work, overwrite)
    steps.run()
    return released(steps)


def _cohort_of_frame(frame: Any, options: Mapping[str, Any]) -> Cohort:
    """The real patients of a data frame, whose columns the options name."""
    known = [name for name in signature(Cohort.from_frame).parameters if name not in ("frame", "card")]
    for name in options:
        if name not in known:
            raise UsageError(f"synthesize has no option {name!r} for a data frame; {nearest(name, known)}")
    missing = [name for name in ("patient", "codes") if not options.get(name)]
    if missing:
        raise UsageError(
            f"which column of the data frame is {missing[0]}?\n"
            "to do: synthesize(frame, patient=…, codes=…, and visit=… or date=…)"
        )
    given = {name: value for name, value in options.items() if value not in (None, "", ())}
    return Cohort.from_frame(frame, **given, card=Origin(Kind.REAL).as_card())


def released(plan: Any) -> Release:
    """What a finished plan made."""
    about = plan.summary()
    folder = plan.out if about.passed else None
    page = plan.page if folder is None else folder / "report.html"
    return Release(folder, page, about.synthetic, about.chosen.scores, about.passed, about.chosen.reasons)
