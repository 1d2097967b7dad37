"""What studies and releases have in common: where patients come from, how they are divided, what is evaluated.

Every setting is declared once, in a group below: its name, default, bounds and help. TOML files, the command line,
Python and the studio all fill the same groups, so that they cannot differ.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from adapcla.data.split import SPLIT_SEED
from adapcla.defaults import DEFAULT_METHOD
from adapcla.disclosure import MIN_COUNT
from adapcla.errors import InputError, UsageError
from adapcla.evaluation.metric import PLAIN_SUITES, SUITES
from adapcla.io.readers.open_data import data_folder

#: Names that folders of a study use themselves.
RESERVED = (
    "data", "splits", "targets", "analysis", "references", "external", "tables", "figures", "cache", "tuning",
    "evaluators",
)  # fmt: skip
_NAME = re.compile(r"[a-z0-9][a-z0-9._+-]*")


class SettingsGroup(BaseModel):
    """Some settings that belong together: frozen, and a name that it does not have is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


Group = TypeVar("Group", bound=SettingsGroup)


def setting(default: Any, text: str, **about: Any) -> Any:
    """A setting with its default and help.

    Args:
        default: Its default.
        text: What it does.
        about: `flag`, `short` and `variable` name the option and a variable of the environment; `rare` has no option of
            its own; `repeated` is given several times; everything else is a bound, as pydantic names it.
    """
    option: Any = {name: about.pop(name) for name in ("flag", "short", "variable", "rare", "repeated") if name in about}
    return Field(default, description=text, json_schema_extra=option, **about)


class PlantedSettings(SettingsGroup):
    """Simulated patients."""

    patients: int = setting(12_000, "Number of patients, up to 100 million.", ge=10)
    codes: int = setting(3000, "Number of codes, 40 to 100,000.", ge=40)
    seed: int = setting(1, "Seed of the patients.", variable="ADAPCLA_SEED")
    population: Literal["base", "shifted", "deep"] = setting(
        "base", "shifted: with moved prevalences; deep: with another structure, too."
    )
    law_seed: int = setting(7, "Seed of the probabilities: another is another population on the same codes.", rare=True)


class DataSettings(SettingsGroup):
    """Where patients come from."""

    source: str = Field("planted", description="simulated (or planted), cohort, or a name from `adapcla import`.")
    path: str = Field("", description="File or folder, absolute or below the folder of data.")
    planted: PlantedSettings = PlantedSettings()
    options: dict[str, Any] = Field(default_factory=dict, description="Options of `adapcla import`.")
    where: dict[str, list[str]] = Field(default_factory=dict, description="Keep patients with these attributes.")
    min_patients: int = Field(0, ge=0, description="Leave out codes of fewer patients than this.")
    patients: int = Field(0, ge=0, description="Take this many patients at random; 0 takes all.")

    @field_validator("source")
    @classmethod
    def _by_one_name(cls, source: str) -> str:
        return "planted" if source == "simulated" else source

    @model_validator(mode="after")
    def _has_path(self) -> DataSettings:
        if self.source != "planted" and not self.path:
            raise ValueError(f"source {self.source!r} needs a path: set data.path")
        return self


class SplitSettings(SettingsGroup):
    """How patients are divided."""

    seed: int = SPLIT_SEED
    control: float = Field(0.0, ge=0, lt=0.7, description="Share of patients reserved for privacy tests.")
    within: int | None = Field(
        None,
        description="Divide only the training part of the split of this seed, so that its test part is never seen.",
    )

    def of_fit(self, seed: int, first: int) -> SplitSettings:
        """The split of a fit seed: the first has this one, each other divides the patients anew.

        >>> SplitSettings(seed=4).of_fit(3, first=1).seed, SplitSettings(seed=4).of_fit(1, first=1).seed
        (6, 4)
        """
        return self.model_copy(update={"seed": self.seed + seed - first})


class FitSettings(SettingsGroup):
    """What is trained."""

    settings: dict[str, Any] = Field(default_factory=dict, description="Changed settings of the method.")


class EvaluateSettings(SettingsGroup):
    """What is evaluated."""

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


class TrainOptions(SettingsGroup):
    """What `adapcla train` can be asked for, beside the settings of the method."""

    method: str = setting(DEFAULT_METHOD, "A row of `adapcla methods`.")
    epochs: float | None = setting(None, "Epochs at most; they follow from the patients if not given.", gt=0)
    device: str = setting("auto", "cpu or cuda; auto is cpu.", variable="ADAPCLA_DEVICE")
    epsilon: float | None = setting(None, "Train with differential privacy of this total ε; the unit is a patient.")
    shareable: bool = setting(False, f"No small counts in the model, no code of fewer than {MIN_COUNT} patients.")
    seed: int = setting(1, "Seed of the fit.", variable="ADAPCLA_SEED")
    min_support: int = setting(0, "Fewest patients of a code; rarer ones roll up.", rare=True, ge=0)
    split: SplitSettings = SplitSettings()


class SampleOptions(SettingsGroup):
    """What `adapcla sample` can be asked for."""

    patients: int | None = setting(None, "Number of patients.", short="-n", ge=1)
    toward: str | None = setting(None, "Prevalence file or cohort to steer towards.")
    strength: float = setting(1.0, "0: no steering; 1: the full shift.", ge=0, le=1)
    calibrate: bool = setting(False, "Correct the shift by calibration samples.")
    having: tuple[str, ...] = setting(
        (), "Code that all patients have; A|B: any of them; E84*: a family.", repeated=True
    )
    without: tuple[str, ...] = setting((), "Code that no patient has; as --having.", repeated=True)
    where: tuple[str, ...] = setting((), "ATTRIBUTE=CATEGORY, such as sex=F.", repeated=True)
    visits: str | None = setting(None, "Numbers of visits, such as 3.. or 2..5.")
    histories: str | None = setting(None, "Table or cohort of histories that are continued.", flag="--continue")
    draws: int = setting(20, "With --continue: continuations of each history.", ge=1)
    seed: int = setting(1, "Seed; patient i of a seed is always the same.", variable="ADAPCLA_SEED")
    missing: Literal["keep", "drop"] = setting("keep", "Codes without a target.", rare=True)
    pilot: int | None = setting(None, "With calibrate: patients of a calibration sample.", rare=True, ge=100)
    codes_per_visit: Literal["natural", "match"] = setting("natural", "match: as many as in training.", rare=True)
    temperature: float = setting(1.0, "Divides the logits.", rare=True, gt=0)
    max_visits: int | None = setting(None, "Most visits of a record.", rare=True, ge=1)
    min_codes: int = setting(0, "Fewest codes of a visit.", rare=True, ge=0)
    at: Literal["any", "first", "last"] = setting("any", "Visit that holds the codes of --having.", rare=True)
    within: int | None = setting(None, "First visits that hold the codes of --having.", rare=True, ge=1)
    train: str | None = setting(None, "Training cohort: refuses what none of its patients fulfils.", rare=True)
    rules: str | None = setting(None, "Training cohort: who breaks one of its rules is drawn again.", rare=True)
    likeliest: int = setting(0, "With --continue: the N likeliest codes of the next visit.", rare=True, ge=0)


class EvaluateOptions(SettingsGroup):
    """What `adapcla evaluate` can be asked for, beside the cohorts."""

    control: str | None = setting(None, "Cohort of real patients used for nothing else, for privacy tests.")
    target: str | None = setting(None, "Requested prevalence (code, prevalence); adds the suite control.")
    suites: tuple[str, ...] = setting((), "Suites such as tail,fidelity,privacy; all if not given.")
    model: str | None = setting(None, "Trained run behind SYNTHETIC: adds scores that need the model.")
    gate: bool = setting(False, "End with exit code 5 if the privacy gate is not met.")
    accept: tuple[str, ...] = setting((), "A line of the gate that may stay not shown, with --reason.", repeated=True)
    reason: str = setting("", "Why these lines are accepted.")
    population: int = setting(0, "People among whom an attacker looks for the training patients.", ge=0)
    having: tuple[str, ...] = setting((), "SYNTHETIC has this code: compare with real patients of it.", repeated=True)
    where: tuple[str, ...] = setting((), "ATTRIBUTE=CATEGORY, such as sex=F, as --having.", repeated=True)
    quick: bool = setting(False, "Fewer draws, smaller classifiers: a quick look.")
    seed: int = setting(1, "Seed of everything that is drawn.", variable="ADAPCLA_SEED")
    method: str = setting("", "Name in the tables; the synthetic folder's if empty.", rare=True)
    attack_models: int = setting(4, "Models trained to attack --model; 0 for likelihood alone.", rare=True, ge=0)
    cache: str | None = setting(None, "Folder of cached scores; the user's cache if not given.", rare=True)
    without: tuple[str, ...] = setting((), "Code that no patient has; as --having.", rare=True)
    visits: str | None = setting(None, "Numbers of visits, such as 3.. or 2..5.", rare=True)
    at: Literal["any", "first", "last"] = setting("any", "Visit that holds the codes of --having.", rare=True)
    within: int | None = setting(None, "First visits that hold the codes of --having.", rare=True, ge=1)


class SimulateOptions(PlantedSettings):
    """What `adapcla simulate` can be asked for."""

    whole: bool = setting(False, "Visits with kind, length, ending, drugs, a procedure and values, too.")


class ExportOptions(SettingsGroup):
    """What `adapcla export` can be asked for, beside the format."""

    birth_year: int | None = setting(None, "OMOP: year for patients of unknown age; without it, they are left out.")
    vocabulary: str | None = setting(None, "OMOP: folder of an Athena download, to map codes by.")
    for_excel: bool = setting(False, "CSV: an apostrophe before codes that a spreadsheet would change (0389).")
    min_cell: int = setting(MIN_COUNT, "Prevalence: leave out codes of fewer visits than this.", ge=0)
    split: Literal["train", "tuning", "held_out"] | None = setting(None, "MEDS: split of all patients.", rare=True)
    visit_type: Literal["inpatient", "outpatient", "emergency"] | None = setting(
        None, "OMOP, FHIR: what kind of visits these are; without it, unknown.", rare=True
    )


class RunOptions(SettingsGroup):
    """What `adapcla run` can be asked for beside its TOML file, any setting of which `--set` changes."""

    cohort: str | None = setting(None, "Cohort folder, in place of the data of a file.")
    methods: tuple[str, ...] = setting((), "Methods, all, or none; as the file says if not given.")
    seeds: tuple[int, ...] = setting((), "Fit seeds; as the file says if not given.")
    quick: bool = setting(False, "Fewer draws, smaller classifiers: a quick look.")


class GridSettings(SettingsGroup):
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


def check_row_names(names: Iterable[str]) -> None:
    """Raise unless every name of a row can be the name of its folder."""
    for name in names:
        if not _NAME.fullmatch(name) or name in RESERVED:
            raise ValueError(f"row {name!r}: expected small letters, digits, - and ., none of {', '.join(RESERVED)}")


class VariantSettings(SettingsGroup):
    """A row that is another one under changed settings."""

    method: str
    settings: dict[str, Any] = Field(default_factory=dict)


class RowSettings(FitSettings):
    """What is trained: methods, seeds, and variants of methods."""

    methods: tuple[str, ...] = (DEFAULT_METHOD,)
    seeds: tuple[int, ...] = (1,)
    variants: dict[str, VariantSettings] = Field(default_factory=dict, description="Further rows, by name.")
    grid: GridSettings | None = Field(
        None, description="Where each row's rate and passes are chosen from, if they are."
    )

    @model_validator(mode="after")
    def _chosen_once(self) -> RowSettings:
        places = {"fit.settings": self.settings}
        places |= {f"fit.variants.{name}.settings": variant.settings for name, variant in self.variants.items()}
        for place, settings in places.items() if self.grid is not None else ():
            for name in ("learning_rate", "passes", "last_weights"):
                if name in settings:
                    raise ValueError(f"{place}.{name}: fit.grid chooses it for every row; leave one of the two out")
        return self

    @field_validator("variants")
    @classmethod
    def _good_names(cls, variants: dict[str, VariantSettings]) -> dict[str, VariantSettings]:
        check_row_names(variants)
        return variants

    def rows(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Row name → (row of the method table, changed settings).

        >>> RowSettings(methods=("lstm",), settings={"passes": 2}).rows()
        {'lstm': ('lstm', {'passes': 2})}
        """
        out: dict[str, tuple[str, dict[str, Any]]] = {name: (name, dict(self.settings)) for name in self.methods}
        for name, variant in self.variants.items():
            out[name] = (variant.method, {**self.settings, **variant.settings})
        return out


def check_name(name: str) -> str:
    """The name of a study or release, which is a name of a folder; any other is refused."""
    if not _NAME.fullmatch(name):
        raise ValueError("expected small letters, digits, - and .")
    return name


def read_toml(path: str | Path) -> dict[str, Any]:
    """The content of a TOML file; a file that is not there is named with those beside it."""
    file = Path(path)
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        shipped = ", ".join(sorted(toml.stem for toml in file.parent.glob("*.toml"))) or "none"
        raise UsageError(
            f"{file}: {error.strerror or 'not readable'}\nto do: name a TOML; beside it are: {shipped}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not valid TOML ({error})", path=file, remedy="correct that line") from None


def settings_from(
    group: type[Group], content: Mapping[str, Any], changes: Mapping[str, Any] | None = None, source: str = "settings"
) -> Group:
    """The settings that a nested mapping stands for, with some dotted names changed.

    A name that is not known is refused with the nearest one that is.

    >>> settings_from(SplitSettings, {"control": 0.1}, {"seed": 5})
    SplitSettings(seed=5, control=0.1, within=None)
    >>> settings_from(SplitSettings, {"sede": 4})
    Traceback (most recent call last):
    ...
    adapcla.errors.UsageError: settings: no setting is called 'sede'; did you mean 'seed'?
    """
    whole = deepcopy(dict(content))
    for dotted, value in (changes or {}).items():
        _put(whole, dotted.split("."), value)
    try:
        return group.model_validate(whole)
    except ValidationError as error:
        raise UsageError(f"{source}: {_first_fault(group, error)}") from None


def _put(content: dict[str, Any], names: list[str], value: Any) -> None:
    """Set a nested key."""
    for name in names[:-1]:
        content = content.setdefault(name, {})
        if not isinstance(content, dict):
            raise UsageError(f"--set {'.'.join(names)}: {name!r} is not a group of settings")
    content[names[-1]] = value


def _first_fault(group: type[SettingsGroup], error: ValidationError) -> str:
    """The first thing that is wrong, by the key that a person wrote."""
    first = error.errors()[0]
    keys = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(keys[-1], _fields_at(group, keys[:-1]), n=1, cutoff=0.4)
        hint = f"; did you mean {'.'.join([*keys[:-1], near[0]])!r}?" if near else ""
        return f"no setting is called {'.'.join(keys)!r}{hint}"
    return f"{'.'.join(keys) or 'settings'}: {first['msg'].removeprefix('Value error, ')}"


def _fields_at(group: Any, names: list[str]) -> list[str]:
    """The names that are allowed at a place of nested settings."""
    names = list(names)
    while names:
        field = group.model_fields.get(names.pop(0))
        if field is None:
            return []
        group = field.annotation
        if get_origin(group) is dict:
            # A dictionary of groups by name: the next name is the user's own.
            group = get_args(group)[1]
            names = names[1:]
        if get_origin(group) in (Union, UnionType):
            group = get_args(group)[0]
    return list(getattr(group, "model_fields", {}))


def data_path(data: DataSettings) -> Path:
    """The file or folder that patients come from; an error that says what to set where it is absent."""
    path = data_folder() / Path(data.path).expanduser()
    if not path.exists():
        raise InputError(
            "no data there",
            path=path,
            expected=f"what `adapcla import {data.source}` reads",
            remedy="add --set data.path=/where/it/is, or set ADAPCLA_DATA to the folder of data (docs/data.md)",
        )
    return path
