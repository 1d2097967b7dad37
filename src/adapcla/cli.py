"""The command line: the verbs, one line each."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import typer

from adapcla.errors import AdapclaError
from adapcla.version import __version__

#: The verbs in the order in which `--help` shows them; each is a module of `adapcla.commands`.
VERBS = (
    "simulate",
    "import_",
    "describe",
    "split",
    "export",
    "prior",
    "train",
    "sample",
    "control",
    "evaluate",
)

app = typer.Typer(
    help="Synthetic longitudinal health records that are right in the long tail.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Boxes and colours would more than double the time that `--help` takes.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(wanted: bool) -> None:
    """Print the version and end, if asked to."""
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def settings(
    quiet: bool = typer.Option(False, "--quiet", "-q", envvar="ADAPCLA_QUIET", help="No bars, no log lines."),
    debug: bool = typer.Option(False, "--debug", envvar="ADAPCLA_DEBUG", help="Show the traceback of a failure."),
    version: bool = typer.Option(
        False, "--version", callback=show_version, is_eager=True, help="Print the version and end."
    ),
) -> None:
    """Settings that every verb knows."""
    if quiet:
        os.environ["ADAPCLA_QUIET"] = "1"
    if debug:
        os.environ["ADAPCLA_DEBUG"] = "1"


for _verb in VERBS:
    import_module(f"adapcla.commands.{_verb}").register(app)


def main() -> None:
    """Run a verb; a failure is one to three lines on stderr and its exit code, a traceback only with `--debug`."""
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
