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
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def settings(
    quiet: bool = typer.Option(False, "--quiet", "-q", envvar="ADAPCLA_QUIET", help="No bars, no log lines."),
    debug: bool = typer.Option(False, "--debug", envvar="ADAPCLA_DEBUG", help="Show the traceback of a failure."),
    version: bool = typer.Option(False, "--version", help="Print the version and end."),
) -> None:
    """Settings that every verb knows."""
    if quiet:
        os.environ["ADAPCLA_QUIET"] = "1"
    if debug:
        os.environ["ADAPCLA_DEBUG"] = "1"
    if version:
        typer.echo(__version__)
        raise typer.Exit


for _verb in VERBS:
    import_module(f"adapcla.commands.{_verb}").register(app)


def main() -> None:
    """Run a verb; a failure a user can meet is one to three lines and its exit code, never a traceback."""
    try:
        app()
    except AdapclaError as error:
        if os.environ.get("ADAPCLA_DEBUG"):
            raise
        print(f"adapcla: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("adapcla: interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if os.environ.get("ADAPCLA_DEBUG"):
            raise
        print(f"adapcla: unexpected {type(error).__name__}; run again with --debug to see where", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
