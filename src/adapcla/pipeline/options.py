"""Settings as options of a command line, and back: which options a group offers, and the words that ask for settings.

Names, defaults, choices and help are taken from the fields of the groups, where alone they are declared.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from adapcla.errors import UsageError, nearest

#: Options of reading that have a name of their own; the others are asked for by `--read NAME=VALUE`.
READING = ("patient", "visit", "codes", "date", "domains", "attributes", "system")


@dataclass(frozen=True)
class Option:
    """One setting as an option of the command line."""

    name: str
    flag: str
    #: The type of one value.
    kind: type
    #: How several values are given: not at all, with commas, or by repeating the option.
    many: Literal["", "commas", "repeated"]
    choices: tuple[str, ...]
    default: Any
    help: str
    #: Only asked for by NAME=VALUE.
    rare: bool = False
    #: A second, short flag.
    short: str = ""
    #: The variable of the environment that sets it, too.
    variable: str = ""

    def value(self, text: Any) -> Any:
        """What a text (or several) stands for; what is no text already is taken as it is.

        >>> Option("formats", "--format", str, "commas", (), (), "").value("csv, omop")
        ('csv', 'omop')
        """
        if self.many and isinstance(text, str):
            parts = [part.strip() for part in text.split(",") if part.strip()]
            if text and not parts:
                raise UsageError(f"{self.flag} {text}: expected values with commas between them")
            return tuple(self._one(part) for part in parts)
        if self.many:
            return tuple(self._one(part) for part in text)
        return self._one(text)

    def _one(self, text: Any) -> Any:
        if not isinstance(text, str) or self.kind is str:
            value = text if self.kind is not str or isinstance(text, str) else json.dumps(text)
        elif self.kind is bool:
            value = {"true": True, "false": False}.get(text.lower(), text)
        else:
            try:
                value = self.kind(text)
            except ValueError:
                words = {int: "a whole number", float: "a number"}.get(self.kind, self.kind.__name__)
                raise UsageError(f"{self.flag} {text}: expected {words}") from None
        if self.choices and value not in self.choices:
            raise UsageError(
                f"{self.flag} {text!r}\nexpected: {', '.join(self.choices)}\nto do: {nearest(str(text), self.choices)}"
            )
        return value

    def words(self, value: Any) -> list[str]:
        """The words that give the setting this value; a value is joined to its option, so that it cannot be another.

        >>> Option("formats", "--format", str, "commas", (), (), "").words(("csv", "omop"))
        ['--format=csv,omop']
        """
        if self.kind is bool and not self.many:
            return [self.flag] if value else []
        if self.many == "repeated":
            return [f"{self.flag}={each}" for each in value]
        return [f"{self.flag}={','.join(map(str, value)) if self.many else value}"]


def options_of(group: type[Any]) -> dict[str, Option]:
    """The options of a group of settings (pydantic or dataclass) by setting; groups inside it are left out.

    >>> from adapcla.pipeline.settings import SampleOptions
    >>> options_of(SampleOptions)["histories"].flag
    '--continue'
    """
    hints = get_type_hints(group)
    if issubclass(group, BaseModel):
        found = {
            name: (PydanticUndefined if field.default is PydanticUndefined else field.default, field.description or "")
            for name, field in group.model_fields.items()
        }
        more: Mapping[str, Any] = {n: f.json_schema_extra or {} for n, f in group.model_fields.items()}
    else:
        found = {field.name: (field.default, field.metadata.get("help", "")) for field in dataclasses.fields(group)}
        more = {}
    out = {}
    for name, (default, text) in found.items():
        kind, many, choices = _shape(hints[name])
        about = more.get(name, {})
        if kind is None or default is PydanticUndefined:
            continue
        flag = about.get("flag") or "--" + name.replace("_", "-")
        many = "repeated" if about.get("repeated") else many
        rest = {key: about[key] for key in ("rare", "short", "variable") if key in about}
        out[name] = Option(name, flag, kind, many, choices, default, text, **rest)
    return out


def _shape(hint: Any) -> tuple[type | None, Literal["", "commas", "repeated"], tuple[str, ...]]:
    """The type of one value, whether there are several, and the choices; None for what is no plain setting."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = [each for each in arguments if each is not type(None)]
        return _shape(inner)
    if origin is tuple:
        kind, _, choices = _shape(arguments[0])
        return kind, "commas", choices
    if origin is Literal:
        return str, "", tuple(map(str, arguments))
    return (hint if hint in (bool, int, float, str, Path) else None), "", ()


def reading_options() -> dict[str, Option]:
    """The options of reading a source by name; those that are not in `READING` are rare."""
    from adapcla.io import ReadOptions

    return {
        name: dataclasses.replace(option, rare=name not in READING) for name, option in options_of(ReadOptions).items()
    }


def assignments(items: list[str] | tuple[str, ...], flag: str = "--set") -> dict[str, Any]:
    """`NAME=VALUE` as a dictionary, values read as JSON where they can be.

    >>> assignments(["width=64", "schedule=fast"])
    {'width': 64, 'schedule': 'fast'}
    """
    out: dict[str, Any] = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{flag} {item}: expected NAME=VALUE")
        try:
            out[name.strip()] = json.loads(text)
        except ValueError:
            out[name.strip()] = text
    return out


def reading_from(items: list[str] | tuple[str, ...]) -> dict[str, Any]:
    """The options of reading that `--read NAME=VALUE` asks for; an unknown name is refused with the nearest.

    >>> reading_from(["lab_values=first,last", "max_visits=3"])
    {'lab_values': ('first', 'last'), 'max_visits': 3}
    """
    known = reading_options()
    out = {}
    for item in items:
        name, equals, text = item.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in known:
            raise UsageError(
                f"--read {item.partition('=')[0]}\nexpected: NAME=VALUE, of {', '.join(known)}\n"
                f"to do: {nearest(name, known)}"
            )
        out[name] = known[name].value(text)
    return out


def arguments_of(options: Mapping[str, Option], given: Mapping[str, Any], rare: str = "--set") -> list[str]:
    """The words that ask for these settings; what is as usual needs none, and what has no option is set by name.

    >>> from adapcla.release.settings import ReleaseSettings
    >>> arguments_of(options_of(ReleaseSettings), {"minutes": 5.0, "patients": 0, "fit.settings.width": 16})
    ['--minutes=5.0', '--set=fit.settings.width=16']
    """
    out: list[str] = []
    for name, value in given.items():
        option = options.get(name)
        if value is None or (option is not None and value in (option.default, "", ())):
            continue
        if option is not None and not option.rare:
            out += option.words(value)
        elif option is not None and rare == "--read":
            out.append(f"{rare}={name}={','.join(map(str, value)) if option.many else value}")
        else:
            out.append(f"{rare}={name}={value if isinstance(value, str) else json.dumps(value)}")
    return out
