"""From a source to a release in one call: what was asked becomes settings, and the one engine carries them out."""

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
from adapcla.io.losses import MOST_DROPPED, require_kept
from adapcla.release.settings import METHOD, refuse_unknown, release_settings

#: The built-in simulated patients by name.
BUILT_IN = ("planted", "demo")
#: Characters of a path at most; what is longer is a table and must not be shown.
_LONGEST_NAME = 4096


@dataclass(frozen=True, eq=False)
class Synthesised:
    """What came of it; where the gate was not met, `folder` is None unless it was to be written anyway."""

    folder: Path | None
    #: The page: in the release, or beside the working files where nothing was released.
    page: Path
    cohort: Cohort
    scores: Scores
    passed: bool
    #: Why the gate was not met, in plain words; empty where it was.
    reasons: tuple[str, ...] = ()


def source_of(first: str, second: str = "") -> tuple[str, str]:
    """(source, path) of what stands on the command line: a source and its path, or a path alone.

    >>> source_of("mimic4", "path/to/mimic-iv"), source_of("planted")
    (('mimic4', 'path/to/mimic-iv'), ('planted', ''))
    """
    from adapcla.io import SOURCES, contract

    if second:
        if first != "cohort":
            contract.source_of(first)  # an unknown name is refused now, with the nearest one
        return first, second
    if first in BUILT_IN:
        return "planted", ""
    if "\n" in first or len(first) > _LONGEST_NAME:
        raise UsageError("a text that is no name of a file\nto do: write the table to a file and name that")
    path = Path(first).expanduser()
    if not path.exists():
        more = "; a source needs a path behind its name" if first in SOURCES else ""
        raise InputError(
            f"no such file{more}", path=first, expected="a table, or a source and its path", remedy="check it"
        )
    if (path / MANIFEST).is_file():
        return "cohort", first
    if path.is_dir() and not (path / "adapcla.json").is_file():
        raise UsageError(
            f"{first} is a folder, and its source is not named\nexpected: one of {', '.join(SOURCES)}\n"
            f"to do: name it, such as: adapcla synthesize omop {first} --out release"
        )
    say(f"{first}: read as a table, its columns guessed")
    return "table", first


def synthesize(
    data: Any,
    path: str | Path = "",
    *,
    out: str | Path = "release",
    minutes: float = 10.0,
    patients: int = 0,
    formats: tuple[str, ...] = ("csv",),
    min_patients: int | None = None,
    repair: bool = False,
    anyway: bool = False,
    accept: tuple[str, ...] = (),
    reason: str = "",
    allow_dropped: float = MOST_DROPPED,
    overwrite: bool = False,
    work: str | Path | None = None,
    method: str = METHOD,
    seed: int = 1,
    **options: Any,
) -> Synthesised:
    """A data set that may be shared, from a data frame, a table, a source with its path, or a cohort.

    A second call with the same arguments takes up what the first has finished. Where the privacy gate is not met,
    nothing is released and `passed` is false; the working folder, which holds real patients, has the page.

    Args:
        data: A data frame (pandas, polars, pyarrow), a file, the name of a source (with `path`), a cohort folder, a
            cohort, or `planted`.
        path: File or folder of the source.
        out: Folder of the release.
        minutes: Time on two cores that the size of the network and its passes are chosen for.
        patients: Synthetic patients; 0 writes as many as were learned from.
        formats: Some of csv, parquet, xlsx, meds, omop, fhir.
        min_patients: Fewest training patients of a code; rarer ones are rolled up. 11 if not given.
        repair: Where the gate is not met, try again more carefully, three times at most.
        anyway: Write what the gate refuses, to a folder whose name ends with UNSAFE.
        accept: Lines of the gate that may be not shown, with a reason.
        reason: Why they are accepted; it stands on page and card.
        allow_dropped: Share of visits, codes or patients of the source that may be dropped while reading.
        overwrite: Replace what is in `out`.
        work: Folder for what real patients are in; beside `out` if not given.
        method: A row of `adapcla methods`.
        seed: Seed of the fit and of the sample.
        options: Columns of a data frame, as for `Cohort.from_frame`, or options of the source, as for `read`.
    """
    from adapcla.release.release import ReleasePlan

    folder = Path(work) if work is not None else Path(out).with_name(f"{Path(out).name}-work")
    if is_frame(data):
        data, options = _cohort_of_frame(data, options), {}
        require_kept(data, allow_dropped)
    if not isinstance(data, (str, Path, Cohort)):
        # Never the thing itself, of which a part may be rows of patients.
        raise UsageError(
            f"data of type {type(data).__name__}\n"
            "expected: a data frame, a file, the name of a source with its path, or a cohort"
        )
    if isinstance(data, Cohort):
        refuse_unknown(options, "cohort")
        place = folder / "cohort"
        data.save(place, overwrite=True)
        source, where = "cohort", str(place)
    else:
        source, where = source_of(str(data), str(path))
    settings = release_settings(
        source,
        where,
        options=options,
        minutes=minutes,
        patients=patients,
        formats=tuple(formats),
        method=method,
        min_patients=min_patients,
        repair=repair,
        anyway=anyway,
        accept=tuple(accept),
        reason=reason,
        allow_dropped=allow_dropped,
        seed=seed,
    )
    plan = ReleasePlan(settings, out, folder, overwrite)
    plan.run()
    return result(plan)


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


def result(plan: Any) -> Synthesised:
    """What a finished plan made."""
    from adapcla.report.gate_words import in_words

    told = plan.told()
    folder = plan.out if told.passed else plan.unsafe_out if told.unsafe else None
    page = plan.page if folder is None else folder / "report.html"
    reasons = tuple(in_words(line) for line in told.chosen.lines if not line.passed)
    return Synthesised(folder, page, told.synthetic, told.chosen.scores, told.passed, reasons)
