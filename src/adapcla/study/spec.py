"""One experiment as frozen settings, read from one TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from adapcla.pipeline.settings import (
    DataSettings,
    EvaluateSettings,
    RowSettings,
    SettingsGroup,
    SplitSettings,
    check_name,
    check_row_names,
    read_toml,
    settings_from,
)
from adapcla.pipeline.steps import key_of

#: The file of captions in the folder of an analysis.
SUMMARY = "summary.json"
Analysis = Literal["probes", "schedules", "kernel", "bound", "cases", "law", "diseases"]
ANALYSES: tuple[Analysis, ...] = get_args(Analysis)


class SampleSettings(SettingsGroup):
    """What is drawn from each fit."""

    patients: int = Field(0, ge=0, description="Patients per sample; 0 draws as many as were trained on.")
    seeds: tuple[int, ...] = (1,)


class TargetSettings(SettingsGroup):
    """A population that fitted rows are steered towards without training."""

    data: DataSettings
    methods: tuple[str, ...] = ("adapcla",)
    modes: tuple[Literal["none", "paper", "calibrated"], ...] = ("none", "paper", "calibrated")
    strength: float = Field(1.0, ge=0, le=1)
    min_cell: int = Field(0, ge=0, description="Prevalences of fewer visits than this are not passed on.")


class AnalysisSettings(SettingsGroup):
    """Which analyses are made, of which row, and how far they go."""

    parts: tuple[Analysis, ...] = ()
    method: str = Field("adapcla", description="The row that is observed; a method needs no fit of its own for that.")
    quick: bool = Field(False, description="Fewer contexts and the shortest flow only.")
    contexts: tuple[int, ...] = Field((30, 100), min_length=1, description="Numbers of probed contexts.")
    seeds: tuple[int, ...] = Field((), description="Fit seeds of the schedules; the first of fit.seeds where empty.")
    schedules: tuple[str, ...] = Field((), description="Schedules to compare; the paper's and ramps where empty.")
    codes: tuple[str, ...] = Field((), description="Codes that get a page of their own.")

    @field_validator("contexts", "seeds")
    @classmethod
    def _positive(cls, numbers: tuple[int, ...]) -> tuple[int, ...]:
        if any(number < 1 for number in numbers):
            raise ValueError("expected whole numbers above 0")
        return numbers


class StudySpec(SettingsGroup):
    """All settings of a study."""

    name: str
    title: str = ""
    summary: str = ""
    cohort: str = Field("", description="The paper's name of this cohort, where it is one of the paper's.")
    real: bool = Field(True, description="Whether the patients are real people.")
    data: DataSettings = DataSettings()
    split: SplitSettings = SplitSettings()
    fit: RowSettings = RowSettings()
    sample: SampleSettings = SampleSettings()
    external: dict[str, str] = Field(
        default_factory=dict, description="Further rows: cohort folders of synthetic patients that were made elsewhere."
    )
    evaluate: EvaluateSettings = EvaluateSettings()
    targets: dict[str, TargetSettings] = Field(default_factory=dict)
    analyse: AnalysisSettings = AnalysisSettings()

    _good_name = field_validator("name")(check_name)

    @model_validator(mode="after")
    def _names_apart(self) -> StudySpec:
        check_row_names(self.external)
        for name in sorted(set(self.external) & {*self.fit.methods, *self.fit.variants}):
            raise ValueError(f"external.{name}: a row of fit has that name already")
        return self

    def fingerprint(self) -> str:
        """A hash of every setting.

        >>> StudySpec(name="a").fingerprint() == StudySpec(name="a", title="").fingerprint()
        True
        """
        return key_of(self.model_dump(mode="json"))


def study_from(content: dict[str, Any], changes: dict[str, Any] | None = None, source: str = "study") -> StudySpec:
    """The study that a nested dictionary stands for, with some dotted names changed.

    >>> study_from({"name": "a"}, {"fit.seeds": [1, 2]}).fit.seeds
    (1, 2)
    """
    return settings_from(StudySpec, content, changes, source)


def read_study(path: str | Path, changes: dict[str, Any] | None = None) -> StudySpec:
    """The study in a TOML file, with some dotted names changed (`{"data.path": "/mimic"}`)."""
    return study_from(read_toml(path), changes, str(path))
