"""The command line: its verbs, each made from its module when it is called."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from inspect import getdoc
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group, solve_typer_info_help

from adapcla.errors import AdapclaError
from adapcla.machine import thread_count
from adapcla.version import __version__

#: The verbs in the order in which `--help` shows them; each is a module of `adapcla.cli`.
VERBS = (
    "synthesize",
    "run",
    "report",
    "simulate",
    "import_",
    "describe",
    "split",
    "export",
    "prior",
    "methods",
    "train",
    "sample",
    "evaluate",
    "judge",
    "doctor",
    "studio",
)

#: Boxes and colours would more than double the time that `--help` takes.
PLAIN: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False, "add_completion": False}


@cache
def app_of(verb: str) -> typer.Typer:
    """A command line of this verb's module alone."""
    alone = typer.Typer(**PLAIN)
    import_module(f"adapcla.cli.{verb}").register(alone)
    return alone


def offers(verb: str) -> list[tuple[str, str]]:
    """The name and the first line of what a verb's module offers, without a look at its options.

    >>> [name for name, _ in offers("import_")]
    ['import']
    """
    alone = app_of(verb)
    found = [(info.name or "", info.help or getdoc(info.callback) or "") for info in alone.registered_commands]
    found += [(info.name or "", solve_typer_info_help(info)) for info in alone.registered_groups]
    return [(name, text.strip().partition("\n")[0]) for name, text in found]


class Verbs(TyperGroup):
    """The verbs, each made into a command only when it is called: `--help` needs no more than their first lines."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of `VERBS`."""
        return [name for verb in VERBS for name, _ in offers(verb)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; a name that is no verb makes all of them, to suggest the nearest."""
        for verb in [verb for verb in VERBS if verb.rstrip("_") == cmd_name] or VERBS:
            self.commands.update(get_group(app_of(verb)).commands)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs into the help."""
        with formatter.section("Commands"):
            formatter.write_dl([offer for verb in VERBS for offer in offers(verb)])


app = typer.Typer(
    help="Synthetic longitudinal health records that are right in the long tail.",
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
