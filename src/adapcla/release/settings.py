"""Everything that a release can be asked for; the command line, Python and the studio fill the same settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import field_validator

from adapcla.defaults import DEFAULT_METHOD
from adapcla.disclosure import MIN_COUNT
from adapcla.errors import UsageError
from adapcla.io import ReadOptions
from adapcla.io.losses import MOST_DROPPED
from adapcla.pipeline.effort import JUDGED, NOT_JUDGED
from adapcla.pipeline.settings import (
    DataSettings,
    EvaluateSettings,
    FitSettings,
    SettingsGroup,
    SplitSettings,
    check_name,
    setting,
    settings_from,
)

#: The built-in simulated patients, and how many they are here.
DEMONSTRATION = {"patients": 8_000, "codes": 400, "seed": 1}
#: Share of all patients that nothing is learned from, for the privacy tests.
CONTROL = 0.15
METHOD = DEFAULT_METHOD


class ReleaseSettings(SettingsGroup):
    """A data set that may be shared: where its patients come from, what it must keep, its formats."""

    minutes: float = setting(10.0, "Time limit for everything, on two cores.", gt=0)
    patients: int = setting(0, "Synthetic patients; 0: as many as real ones were learned from.", ge=0)
    formats: tuple[str, ...] = setting(
        ("csv",), "csv, parquet, xlsx, meds, omop, fhir, with commas.", flag="--format", min_length=1
    )
    method: str = setting(METHOD, "A row of `adapcla methods`.")
    title: str = setting("", "Heading of page and card; the file's name if not given.")
    min_patients: int = setting(MIN_COUNT, "Fewest training patients of a code; rarer ones roll up.", ge=2)
    model: bool = setting(False, "Write the model too, where attacks on it fail; takes longer.")
    repair: bool = setting(False, "Where the gate is not met, try more carefully, three times at most.")
    accept: tuple[str, ...] = setting(
        (), "A privacy line that may stay not shown, or a comparison that may be poor, with --reason.", repeated=True
    )
    reason: str = setting("", "Why these lines are accepted; it stands on page and card.")
    allow_dropped: float = setting(
        MOST_DROPPED, "Share of visits, codes or patients that may be dropped while reading.", ge=0, le=1
    )
    plan: str = setting("", "plan.json of an earlier run: the same epochs and evaluation, so the same bytes.")
    seed: int = setting(1, "Seed of the fit and of the sample.", variable="ADAPCLA_SEED")
    name: str = setting("release", "Name of the release on its page.", rare=True)
    rollup: str = setting("icd", "The way up for rarer codes: icd, ccs, or a CSV file code, parent.", rare=True)
    birth_year: int | None = setting(None, "OMOP: year of birth of patients of unknown age.", rare=True)
    data: DataSettings = DataSettings()
    split: SplitSettings = SplitSettings(control=CONTROL)
    fit: FitSettings = FitSettings()
    evaluate: EvaluateSettings = EvaluateSettings(suites=JUDGED, leave_out=NOT_JUDGED)

    _good_name = field_validator("name")(check_name)


def release_settings(
    source: str,
    path: str = "",
    *,
    options: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    **more: Any,
) -> ReleaseSettings:
    """The settings of a release from a source and its path.

    Args:
        source: simulated, cohort, or a name from `adapcla import`.
        path: File or folder of the source.
        options: Options for reading it.
        changes: Changed settings by their dotted names, as `--set` has them.
        more: Changed settings by their names.

    >>> release_settings("simulated", minutes=5, changes={"fit.settings.width": 64}).fit.settings
    {'width': 64}
    """
    source = "planted" if source == "simulated" else source
    given = {name: value for name, value in (options or {}).items() if value not in (None, "", ())}
    refuse_unknown(given, source)
    stem = Path(path).resolve().name
    content: dict[str, Any] = {"title": stem.partition(".")[0] or stem if path else "Simulated patients"}
    if path:
        content["name"] = re.sub(r"[^a-z0-9.]+", "-", stem.lower()).strip("-.") or "release"
    data = {"path": str(Path(path).expanduser().resolve()), "options": given} if path else {"planted": DEMONSTRATION}
    # Defaults of groups of which only some settings are changed.
    content |= {"split": {"control": CONTROL}, "evaluate": {"suites": JUDGED, "leave_out": NOT_JUDGED}}
    known = {name: value for name, value in more.items() if value is not None}
    asked = {**content, "data": {"source": source, **data}, **known}
    return settings_from(ReleaseSettings, asked, changes, "options")


def refuse_unknown(options: Mapping[str, Any], source: str) -> None:
    """Raise where an option is none of `synthesize`, or one for reading a source where nothing is read."""
    reading = [field.name for field in fields(ReadOptions)]
    settings = list(ReleaseSettings.model_fields)
    for name in options:
        near = get_close_matches(name, [*settings, *reading], n=1)
        if name not in reading and near and near[0] in settings:
            raise UsageError(f"synthesize has no option {name!r}\nto do: did you mean {near[0]!r}?")
    # A name that is none for reading either is refused with the nearest one.
    ReadOptions.of(dict(options))
    if source in ("planted", "cohort") and options:
        raise UsageError(
            f"{', '.join(options)}: for reading a table, and {'a cohort' if source == 'cohort' else source} is none\n"
            "to do: leave it out, or give the table itself"
        )
