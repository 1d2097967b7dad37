"""The command line: its verbs, each made into a command only when it is called."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from adapcla.errors import AdapclaError
from adapcla.machine import thread_count
from adapcla.version import __version__

if TYPE_CHECKING:
    from adapcla.cli.options import Verb

#: Verbs in the order in which `--help` shows them, the first five for newcomers, and the module of each.
VERBS = {
    "synthesize": "release",
    "sample": "models",
    "evaluate": "evaluate",
    "studio": "system",
    "run": "study",
    "train": "models",
    "import": "data",
    "export": "data",
    "describe": "data",
    "split": "data",
    "simulate": "data",
    "report": "study",
    "methods": "models",
    "doctor": "system",
    "prior": "data",
    "judge": "system",
}
NEWCOMERS = 5

#: Boxes and colours would more than double the time that `--help` takes.
PLAIN: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False, "add_completion": False}


def verb_of(name: str) -> Verb:
    """The verb of this name, from its module."""
    verbs: tuple[Verb, ...] = import_module(f"adapcla.cli.{VERBS[name]}").VERBS
    return next(verb for verb in verbs if verb.name == name)


@cache
def commands_of(name: str) -> dict[str, Any]:
    """The command of a verb, with its options."""
    # With two commands typer makes a group of them, in which each has its name.
    alone = typer.Typer(**PLAIN)
    alone.command("-", hidden=True)(lambda: None)
    verb_of(name).add_to(alone)
    return {name: get_group(alone).commands[name]}


class Verbs(TyperGroup):
    """The verbs, each made into a command only when it is called: `--help` needs no more than their first lines."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of `VERBS`."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; a name that is no verb makes all of them, to suggest the nearest."""
        for name in [cmd_name] if cmd_name in VERBS else VERBS:
            self.commands.update(commands_of(name))
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs into the help."""
        shown = [verb for verb in map(verb_of, VERBS) if not verb.hidden]
        for title, some in (("First steps", shown[:NEWCOMERS]), ("Further commands", shown[NEWCOMERS:])):
            with formatter.section(title):
                formatter.write_dl([(verb.name, verb.summary) for verb in some])


app = typer.Typer(
    help="Synthetic longitudinal health records with realistic rare codes.",
    cls=Verbs,
    no_args_is_help=True,
    **PLAIN,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(wanted: bool) -> None:
    """Print the version and end, if asked to."""
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def settings(
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", envvar="ADAPCLA_QUIET", help="No bars, no log lines.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", envvar="ADAPCLA_DEBUG", help="Show the traceback of a failure.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Settings that every verb knows."""
    if quiet:
        os.environ["ADAPCLA_QUIET"] = "1"
    if debug:
        os.environ["ADAPCLA_DEBUG"] = "1"


def main() -> None:
    """Run a verb; a failure is one to three lines on stderr and its exit code, a traceback only with `--debug`."""
    # Before numpy and torch are loaded, which read it once.
    os.environ["OMP_NUM_THREADS"] = str(thread_count())
    try:
        app()
    except SystemExit:
        raise
    # Some readers of tables panic with an exception that is no `Exception`; a user must not see its traceback either.
    except BaseException as error:
        if os.environ.get("ADAPCLA_DEBUG", "") not in ("", "0"):
            raise
        text, code = explained(error)
        print(f"adapcla: {text}", file=sys.stderr)
        sys.exit(code)


def explained(error: BaseException) -> tuple[str, int]:
    """What to tell a user about a failure, and the exit code.

    >>> explained(FileNotFoundError(2, "No such file or directory", "cohort"))
    ('cohort: No such file or directory', 1)
    """
    if isinstance(error, AdapclaError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", 130
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", 1
    return f"unexpected {type(error).__name__}; run again with --debug to see where", 1


if __name__ == "__main__":
    main()
