"""An experiment as one frozen specification, read from one TOML; defaults live here and only here."""

from __future__ import annotations

import difflib
import hashlib
import re
import tomllib
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_serializer, model_validator

from adapcla.data.split import SPLIT_SEED
from adapcla.disclosure import MIN_COUNT
from adapcla.errors import InputError, UsageError
from adapcla.evaluation.metric import PLAIN_SUITES, SUITES
from adapcla.files import json_bytes
from adapcla.io.losses import MOST_DROPPED
from adapcla.io.readers.open_data import data_folder

ANALYSES = ("probes", "schedules", "kernel", "bound", "cases", "law", "diseases")
#: Names that folders of a run use themselves.
RESERVED = (
    "data", "splits", "targets", "analysis", "references", "external", "tables", "figures", "cache", "tuning",
    "verdicts",
)  # fmt: skip
_NAME = re.compile(r"[a-z0-9][a-z0-9._+-]*")


class _Part(BaseModel):
    """A part of a specification: frozen, and a key that it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PlantedSpec(_Part):
    """Patients of the planted world."""

    patients: int = Field(12_000, ge=10)
    codes: int = Field(3000, ge=40)
    seed: int = 1
    population: Literal["base", "shifted", "deep"] = "base"
    law_seed: int = 7


class DataSpec(_Part):
    """Where patients come from."""

    source: str = Field("planted", description="planted, cohort, or a name from `adapcla import`.")
    path: str = Field("", description="File or folder, absolute or below the folder of data.")
    planted: PlantedSpec = PlantedSpec()
    options: dict[str, Any] = Field(default_factory=dict, description="Options of `adapcla import`.")
    where: dict[str, list[str]] = Field(default_factory=dict, description="Keep patients with these attributes.")
    min_patients: int = Field(0, ge=0, description="Leave out codes of fewer patients than this.")
    patients: int = Field(0, ge=0, description="Take this many patients at random; 0 takes all.")

    @model_validator(mode="after")
    def _has_path(self) -> DataSpec:
        if self.source != "planted" and not self.path:
            raise ValueError(f"source {self.source!r} needs a path: set data.path")
        return self


class SplitSpec(_Part):
    """How patients are divided."""

    seed: int = SPLIT_SEED
    control: float = Field(0.0, ge=0, lt=0.7, description="Share of patients reserved for privacy tests.")
    within: int | None = Field(
        None,
        description="Divide only the training part of the split of this seed, so that its test part is never seen.",
    )

    def of_fit(self, seed: int, first: int) -> SplitSpec:
        """The split of a fit seed: the first has this one, each other divides the patients anew.

        >>> SplitSpec(seed=4).of_fit(3, first=1).seed, SplitSpec(seed=4).of_fit(1, first=1).seed
        (6, 4)
        """
        return self.model_copy(update={"seed": self.seed + seed - first})


class VariantSpec(_Part):
    """A row that is another one under changed settings."""

    method: str
    settings: dict[str, Any] = Field(default_factory=dict)


class GridSpec(_Part):
    """The cells from which each row's own rate and passes are chosen by validation loss; the same for every row.

    Each cell, and then each fit, goes through the whole cosine and keeps its last weights. With one number of passes
    in the grid, all rows take the same number of steps.
    """

    learning_rates: tuple[float, ...] = Field((1e-3, 2e-3, 4e-3), min_length=1)
    passes: tuple[float, ...] = Field(
        (4.0, 8.0), min_length=1, description="Passes of a whole fit; a fit of two stages has half of them in each."
    )
    seed: int = Field(1, description="Fit seed of the cells.")
    patients: int = Field(0, ge=0, description="Training patients that cells are trained on; 0: all.")

    @field_validator("learning_rates", "passes")
    @classmethod
    def _positive(cls, numbers: tuple[float, ...]) -> tuple[float, ...]:
        if any(number <= 0 for number in numbers) or len(set(numbers)) < len(numbers):
            raise ValueError("expected numbers above 0, none of them twice")
        return numbers


class FitSpec(_Part):
    """What is trained."""

    methods: tuple[str, ...] = ("adapcla",)
    seeds: tuple[int, ...] = (1,)
    settings: dict[str, Any] = Field(default_factory=dict, description="Changes for every row.")
    variants: dict[str, VariantSpec] = Field(default_factory=dict, description="Further rows, by name.")
    grid: GridSpec | None = Field(None, description="Where each row's rate and passes are chosen from, if they are.")

    @model_validator(mode="after")
    def _chosen_once(self) -> FitSpec:
        places = {"fit.settings": self.settings}
        places |= {f"fit.variants.{name}.settings": variant.settings for name, variant in self.variants.items()}
        for place, settings in places.items() if self.grid is not None else ():
            for name in ("learning_rate", "passes", "last_weights"):
                if name in settings:
                    raise ValueError(f"{place}.{name}: fit.grid chooses it for every row; leave one of the two out")
        return self

    @field_validator("variants")
    @classmethod
    def _good_names(cls, variants: dict[str, VariantSpec]) -> dict[str, VariantSpec]:
        _check_names(variants)
        return variants


def _check_names(names: Iterable[str]) -> None:
    """Names of rows are names of folders."""
    for name in names:
        if not _NAME.fullmatch(name) or name in RESERVED:
            raise ValueError(f"row {name!r}: expected small letters, digits, - and ., none of {', '.join(RESERVED)}")


class SampleSpec(_Part):
    """What is drawn from each fit."""

    patients: int = Field(0, ge=0, description="Patients per sample; 0 draws as many as were trained on.")
    seeds: tuple[int, ...] = (1,)


class EvaluateSpec(_Part):
    """What is judged."""

    suites: tuple[str, ...] = PLAIN_SUITES
    leave_out: tuple[str, ...] = Field((), description="Metrics of these suites that are not computed.")
    quick: bool = False
    seed: int = 1
    population: int = Field(0, ge=0, description="People among whom an attacker looks for training patients.")

    @field_validator("suites")
    @classmethod
    def _known(cls, suites: tuple[str, ...]) -> tuple[str, ...]:
        for suite in suites:
            if suite not in SUITES or SUITES[suite].needs_target:
                raise ValueError(f"suite {suite!r}: expected some of {', '.join(PLAIN_SUITES)}")
        return suites


class TargetSpec(_Part):
    """A population that fitted rows are steered towards without training."""

    data: DataSpec
    methods: tuple[str, ...] = ("adapcla",)
    modes: tuple[Literal["none", "paper", "calibrated"], ...] = ("none", "paper", "calibrated")
    strength: float = Field(1.0, ge=0, le=1)
    min_cell: int = Field(0, ge=0, description="Prevalences of fewer visits than this are not passed on.")


class AnalyseSpec(_Part):
    """Which analyses are made, of which row, and how far they go."""

    parts: tuple[Literal["probes", "schedules", "kernel", "bound", "cases", "law", "diseases"], ...] = ()
    method: str = Field("adapcla", description="The row that is watched; a method needs no fit of its own for that.")
    quick: bool = Field(False, description="Fewer contexts and the shortest flow only.")
    contexts: tuple[int, ...] = Field((30, 100), min_length=1, description="Numbers of probed contexts.")
    seeds: tuple[int, ...] = Field((), description="Fit seeds of the schedules; the first of fit.seeds where empty.")
    schedules: tuple[str, ...] = Field((), description="Schedules to compare; the paper's and ramps where empty.")
    trajectory: str = Field("", description="Folder of a saved trajectory, in place of a watched fit for the probes.")
    draws: int = Field(100, ge=1, description="Draws of a next visit where a method has no exact probability.")
    examples: int | None = Field(None, ge=0, description="Single patients to show; none of real ones if not set.")
    codes: tuple[str, ...] = Field((), description="Codes that get a page of their own.")
    diseases: int = Field(2, ge=1, description="Rare codes that are pictured, real and written patients side by side.")
    asked_for: int = Field(200, ge=1, description="Patients that are written with each of these codes.")
    histories: int = Field(400, ge=1, description="Held-out patients whose next visit is compared with the law.")
    bound_codes: int = Field(30, ge=2, description="Codes of the exact setting of the bound.")
    bound_world: int = Field(300, ge=60, description="Codes of the planted world that they come from.")
    horizons: tuple[int, ...] = Field((30, 300, 3000), min_length=1, description="Lengths of training of the bound.")

    @field_validator("contexts", "horizons", "seeds")
    @classmethod
    def _positive(cls, numbers: tuple[int, ...]) -> tuple[int, ...]:
        if any(number < 1 for number in numbers):
            raise ValueError("expected whole numbers above 0")
        return numbers


class ReleaseSpec(_Part):
    """A data set that may be shared: what it must keep, and the forms that it is written in."""

    minutes: float = Field(10.0, gt=0, description="Time on two cores that sizes and passes are chosen for.")
    min_patients: int = Field(MIN_COUNT, ge=2, description="Fewest training patients of a code.")
    rollup: str = Field("icd", description="The way up for rarer codes: icd, ccs, or a CSV file code, parent.")
    formats: tuple[str, ...] = Field(("csv",), min_length=1, description="Formats of `adapcla export`.")
    birth_year: int | None = Field(None, description="OMOP: year of birth of patients of unknown age.")
    repair: bool = Field(False, description="Where the gate is not met, try again more carefully, three times at most.")
    anyway: bool = Field(False, description="Write what the gate refuses, marked UNSAFE.")
    model: bool = Field(False, description="Write the model too, where attacks on it fail.")
    accept: tuple[str, ...] = Field((), description="Lines of the gate that may be not shown, never exceeded.")
    reason: str = Field("", description="Why these lines are accepted; it stands on page and card.")
    allow_dropped: float = Field(
        MOST_DROPPED, ge=0, le=1, description="Share of visits, codes or patients that may be dropped while reading."
    )


class Spec(_Part):
    """Everything that an experiment asks for."""

    name: str
    title: str = ""
    summary: str = ""
    cohort: str = Field("", description="The paper's name of this cohort, where it is one of the paper's.")
    real: bool = Field(True, description="Whether the patients are real people.")
    data: DataSpec = DataSpec()
    split: SplitSpec = SplitSpec()
    fit: FitSpec = FitSpec()
    sample: SampleSpec = SampleSpec()
    external: dict[str, str] = Field(
        default_factory=dict, description="Further rows: cohort folders of synthetic patients that were made elsewhere."
    )
    evaluate: EvaluateSpec = EvaluateSpec()
    targets: dict[str, TargetSpec] = Field(default_factory=dict)
    analyse: AnalyseSpec = AnalyseSpec()
    release: ReleaseSpec | None = Field(None, description="A data set to be shared, in place of a comparison.")

    @model_serializer(mode="wrap")
    def _without_what_is_off(self, handler: Any) -> dict[str, Any]:
        """The fields; a comparison is written as it was before there were releases, so that its keys stay."""
        content: dict[str, Any] = handler(self)
        return {name: value for name, value in content.items() if name != "release" or value is not None}

    @field_validator("name")
    @classmethod
    def _good_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("expected small letters, digits, - and .")
        return name

    @model_validator(mode="after")
    def _names_apart(self) -> Spec:
        _check_names(self.external)
        for name in sorted(set(self.external) & {*self.fit.methods, *self.fit.variants}):
            raise ValueError(f"external.{name}: a row of fit has that name already")
        return self

    def fingerprint(self) -> str:
        """A hash of every setting.

        >>> Spec(name="a").fingerprint() == Spec(name="a", title="").fingerprint()
        True
        """
        return key_of(self.model_dump(mode="json"))

    def rows(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Row name → (row of the method table, changed settings).

        >>> Spec(name="a", fit=FitSpec(methods=("lstm",), settings={"passes": 2})).rows()
        {'lstm': ('lstm', {'passes': 2})}
        """
        out: dict[str, tuple[str, dict[str, Any]]] = {
            name: (name, dict(self.fit.settings)) for name in self.fit.methods
        }
        for name, variant in self.fit.variants.items():
            out[name] = (variant.method, {**self.fit.settings, **variant.settings})
        return out


def key_of(*parts: Any) -> str:
    """A short hash of JSON-like parts.

    >>> key_of({"a": 1}) == key_of({"a": 1}), key_of(1) == key_of(2)
    (True, False)
    """
    return hashlib.sha256(json_bytes(list(parts))).hexdigest()[:16]


def read_spec(path: str | Path, changes: dict[str, Any] | None = None) -> Spec:
    """The specification in a TOML file, with some dotted keys changed (`{"data.path": "/mimic"}`)."""
    file = Path(path)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        shipped = ", ".join(sorted(toml.stem for toml in file.parent.glob("*.toml"))) or "none"
        raise UsageError(
            f"{file}: {error.strerror or 'not readable'}\nto do: name a TOML; beside it are: {shipped}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not valid TOML ({error})", path=file, remedy="correct that line") from None
    return spec_from(content, changes, str(file))


def spec_from(content: dict[str, Any], changes: dict[str, Any] | None = None, source: str = "specification") -> Spec:
    """The specification that a nested dictionary stands for; a key that is not known is named with the nearest one.

    >>> spec_from({"name": "a"}, {"fit.seeds": [1, 2]}).fit.seeds
    (1, 2)
    >>> spec_from({"name": "a", "splitt": {}})
    Traceback (most recent call last):
    ...
    adapcla.errors.UsageError: specification: no setting is called 'splitt'; did you mean 'split'?
    """
    content = deepcopy(content)
    for dotted, value in (changes or {}).items():
        _put(content, dotted.split("."), value)
    try:
        return Spec.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{source}: {_first_fault(error)}") from None


def _put(content: dict[str, Any], names: list[str], value: Any) -> None:
    """Set a nested key."""
    for name in names[:-1]:
        content = content.setdefault(name, {})
        if not isinstance(content, dict):
            raise UsageError(f"--set {'.'.join(names)}: {name!r} is not a group of settings")
    content[names[-1]] = value


def _first_fault(error: ValidationError) -> str:
    """The first thing that is wrong, by the key that a person wrote."""
    first = error.errors()[0]
    keys = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(keys[-1], _fields_at(keys[:-1]), n=1, cutoff=0.4)
        hint = f"; did you mean {'.'.join([*keys[:-1], near[0]])!r}?" if near else ""
        return f"no setting is called {'.'.join(keys)!r}{hint}"
    return f"{'.'.join(keys) or 'specification'}: {first['msg'].removeprefix('Value error, ')}"


def _fields_at(keys: list[str]) -> list[str]:
    """The names that are allowed at a place of the specification."""
    model: Any = Spec
    names = list(keys)
    while names:
        field = model.model_fields.get(names.pop(0))
        if field is None:
            return []
        model = field.annotation
        if get_origin(model) is dict:
            # A dictionary of parts by name: the next name is the user's own.
            model = get_args(model)[1]
            names = names[1:]
        if get_origin(model) in (Union, UnionType):
            model = get_args(model)[0]
    return list(getattr(model, "model_fields", {}))


def data_path(data: DataSpec) -> Path:
    """The file or folder of a data specification; an error that says what to set where it is absent."""
    path = data_folder() / Path(data.path).expanduser()
    if not path.exists():
        raise InputError(
            "no data there",
            path=path,
            expected=f"what `adapcla import {data.source}` reads",
            remedy="add --set data.path=/where/it/is, or set ADAPCLA_DATA to the folder of data (docs/data.md)",
        )
    return path
