"""Options of verbs: made from settings when a verb is called, and read back from what was typed."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.models import ArgumentInfo

from adapcla.errors import UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from adapcla.pipeline.estimate import Need
    from adapcla.pipeline.options import Option

Out = Annotated[Path, typer.Option("--out", help="Folder to write; refused if it holds something.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done and end.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE of any other setting, named below.")]
Read = Annotated[
    list[str] | None, typer.Option("--read", help="NAME=VALUE of any other option of reading, named below.")
]
Cluster = Annotated[
    str, typer.Option("--cluster", help="Where tasks run: local, auto (RAY_ADDRESS, else all cores), ray://host:port.")
]
CohortFolder = Annotated[Path, typer.Argument(metavar="COHORT", help="Cohort folder.")]


class Given(NamedTuple):
    """What was typed, beside the options that a verb reads itself; what was not typed is not in it."""

    #: Settings by name, those of `--set` by their dotted names.
    settings: dict[str, Any]
    #: Options of reading a source by name.
    reading: dict[str, Any]


@dataclass(frozen=True)
class Verb:
    """A verb of the command line."""

    name: str
    #: A function whose argument `given`, where it has one, stands for options that are made from settings.
    function: Callable[..., None]
    #: The group of settings whose fields are options; a function, so that it is loaded when the verb is called.
    group: Callable[[], type[BaseModel]] | None = None
    #: Whether a source is read.
    reads: bool = False
    #: Former option → what to type now.
    former: Mapping[str, str] | None = None
    hidden: bool = False
    #: Whether any words may follow, which are not looked at.
    any_words: bool = False

    @property
    def summary(self) -> str:
        """The first line of its help."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def add_to(self, app: typer.Typer) -> None:
        """Make the verb a command."""
        settings, reading = self._options()
        rare = {option.flag: f"--set {name}=VALUE" for name, option in settings.items() if option.rare}
        rare |= {option.flag: f"--read {name}=VALUE" for name, option in reading.items() if option.rare}
        former = {**rare, **(self.former or {})}

        class Command(TyperCommand):
            """A command that answers former options with what to type now."""

            def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
                try:
                    return super().parse_args(ctx, args)
                except Exception as error:
                    name = getattr(error, "option_name", None)
                    if name in former:
                        raise UsageError(f"no option {name}\nto do: {former[name]}") from None
                    raise

        has_options = "given" in inspect.signature(self.function).parameters
        function = _with_options(self.function, settings, reading) if has_options else self.function
        further = "\n\n".join([*_listed("--set", settings), *_listed("--read", reading)])
        context = {"ignore_unknown_options": True} if self.any_words else None
        about: dict[str, Any] = {"epilog": further or None, "hidden": self.hidden, "context_settings": context}
        app.command(self.name, cls=Command, **about)(function)

    def _options(self) -> tuple[dict[str, Option], dict[str, Option]]:
        """The options that are made from settings, and those of reading."""
        if self.group is None and not self.reads:
            return {}, {}
        from adapcla.pipeline.options import options_of, reading_options

        return options_of(self.group()) if self.group else {}, reading_options() if self.reads else {}


def _listed(flag: str, options: Mapping[str, Option]) -> list[str]:
    """What has no option of its own, for the end of the help."""
    rare = [f"  {name}: {option.help} [{_shown(option.default)}]" for name, option in options.items() if option.rare]
    return ["\b\n" + "\n".join([f"{flag} NAME=VALUE:", *rare])] if rare else []


def _shown(default: Any) -> str:
    """A default for people.

    >>> _shown(("csv",)), _shown(None), _shown(10.0)
    ('csv', 'not given', '10')
    """
    if default is None or default in ("", ()):
        return "not given"
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    return f"{default:g}" if isinstance(default, float) else str(default)


def _with_options(
    function: Callable[..., None], settings: Mapping[str, Option], reading: Mapping[str, Option]
) -> Callable[..., None]:
    """The function with options in the place of its argument `given`."""
    named = [*((f"set_{n}", o) for n, o in settings.items() if not o.rare)]
    named += [(f"read_{n}", o) for n, o in reading.items() if not o.rare]

    @wraps(function)
    def call(**typed: Any) -> None:
        from adapcla.pipeline.options import assignments, reading_from

        found = {name: typed.pop(name) for name, _ in named}
        said = {
            name: option.value(found[name]) for name, option in named if found[name] is not None and found[name] != []
        }
        asked = {name[4:]: value for name, value in said.items() if name.startswith("set_")}
        for name, value in assignments(typed.pop("assigned", None) or []).items():
            option = settings.get(name)
            asked[name] = option.value(value) if option is not None and isinstance(value, str) else value
        read = {name[5:]: value for name, value in said.items() if name.startswith("read_")}
        read |= reading_from(typed.pop("assigned_reading", None) or [])
        function(**typed, given=Given(asked, read))

    signature = inspect.signature(function, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "given"]
    # Required arguments and options first; then what settings declare, and the options of every verb.
    first = [each for each in own if each.default is each.empty or isinstance(_about(each), ArgumentInfo)]
    keyword = inspect.Parameter.KEYWORD_ONLY
    made = [_parameter(name, option) for name, option in named]
    if settings:
        made.append(inspect.Parameter("assigned", keyword, annotation=Set, default=None))
    if reading:
        made.append(inspect.Parameter("assigned_reading", keyword, annotation=Read, default=None))
    parameters = [*first, *made, *(each for each in own if each not in first)]
    parameters = [each.replace(kind=keyword) for each in parameters]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _about(parameter: inspect.Parameter) -> Any:
    """What typer is told of a parameter."""
    return next(iter(getattr(parameter.annotation, "__metadata__", ())), None)


def _parameter(name: str, option: Option) -> inspect.Parameter:
    """A parameter that is None, or an empty list, where the option is not typed."""
    flags = [option.flag, *([option.short] if option.short else [])]
    kind: Any = option.kind if not option.many else list[str] if option.many == "repeated" else str
    words = f" ({', '.join(option.choices)})" if option.choices and option.choices[0] not in option.help else ""
    text = option.help.removesuffix(".") + words + "."
    plain = option.kind is bool or option.default in (None, "", ())
    shown = False if plain else _shown(option.default)
    about = typer.Option(*flags, help=text, show_default=shown, envvar=option.variable or None)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind | None, about], default=None
    )


def show_need(need: Need, as_json: bool) -> None:
    """Say what a command would take."""
    if as_json:
        emit({**need._asdict(), "seconds": round(need.seconds, 3)})
    else:
        typer.echo(need.sentence)


def emit(content: dict[str, Any]) -> None:
    """Print one JSON object as the last line of stdout; of several processes that a launcher started, one prints."""
    if os.environ.get("RANK", "0") != "0":
        return
    sys.stdout.write(json.dumps(content, ensure_ascii=False, default=_plain) + "\n")


def _plain(value: Any) -> Any:
    """Numpy scalars and paths as JSON knows them."""
    return value.item() if hasattr(value, "item") else str(value)


def pairs(items: Sequence[str], option: str, expected: str) -> tuple[tuple[str, str], ...]:
    """Names and values with an equals sign between them.

    >>> pairs(["sex=F"], "--where", "ATTRIBUTE=CATEGORY")
    (('sex', 'F'),)
    """
    parted = [item.partition("=") for item in items]
    if any(not (name and equals and value) for name, equals, value in parted):
        raise UsageError(f"{option}: expected {expected}")
    return tuple((name, value) for name, _, value in parted)


def attributes_of(where: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The attributes that `--where` asks for.

    >>> attributes_of(["sex=F"]), attributes_of(())
    ((('sex', 'F'),), ())
    """
    return pairs(where, "--where", "ATTRIBUTE=CATEGORY, such as sex=F")
