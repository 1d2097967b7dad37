"""Verbs about this computer: `studio`, `doctor`, and `judge`, which has moved."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from adapcla.cli.options import AsJson, Verb, emit
from adapcla.console import say
from adapcla.errors import AdapclaError, UsageError


def studio(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Folder to work in; what is made lies there.")
    ] = Path(),
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="Port; 8765, or a free one, if left out.")
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the page in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve pages for all of it in a browser of this computer; the address is printed. Ctrl-C ends it."""
    from adapcla.studio.server import open_studio

    served = open_studio(folder, port)

    def ready() -> None:
        if as_json:
            emit({"address": served.address, "folder": str(served.folder), "port": served.port})
        else:
            typer.echo(served.address)
        sys.stdout.flush()
        say(f"{served.folder}: open the address above in a browser of this computer; Ctrl-C ends, jobs go on")
        # Whoever does not sit in front of a terminal has no browser there, either.
        if not no_open and sys.stdin.isatty():
            import webbrowser

            webbrowser.open(served.address)

    served.serve(ready)


def doctor(
    test: Annotated[bool, typer.Option("--test/--no-test", help="Train and sample a tiny model.")] = True,
    as_json: AsJson = False,
) -> None:
    """Show what is installed, free memory and disk, and whether training and sampling work; needs no network."""
    from adapcla.pipeline.doctor import examined, self_test

    report = examined(Path())
    # The bars of the tiny runs would say nothing that the table below does not.
    os.environ["ADAPCLA_QUIET"] = "1"
    checks = self_test() if test else []
    if as_json:
        emit({**report, "checks": [check._asdict() for check in checks]})
    else:
        for name, value in report.items():
            for line in _lines(name, value):
                typer.echo(line)
        for check in checks:
            typer.echo(f"{'ok  ' if check.passed else 'FAIL'} {check.name}: {check.found} [{check.seconds:.1f} s]")
    failed = [check.name for check in checks if not check.passed]
    if failed:
        raise AdapclaError(f"the self-test failed: {', '.join(failed)}\nto do: report it with `adapcla doctor --json`")


def _lines(name: str, value: object) -> list[str]:
    """A finding as lines for people.

    >>> _lines("extras", {"dp": True, "fhir": False})
    ['extras: dp yes, fhir no']
    """
    words = {True: "yes", False: "no", None: "not installed"}
    if isinstance(value, dict):
        items = ", ".join(f"{key} {words.get(item, item)}" for key, item in value.items())
        return [f"{name}: {items}"]
    if isinstance(value, list):
        return [f"{name}: {item}" for item in value]
    return [f"{name}: {value}"]


def judge(words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
    """Say where the outside evaluators are now."""
    raise UsageError(
        "outside evaluators are no part of the package any more\n"
        "to do: in a checkout of the repository: python benchmarks/outside/run.py SYNTHETIC --train … --test … --out …"
    )


VERBS = (
    Verb("studio", studio, former={"--open": "leave it out: the page is opened unless --no-open is given"}),
    Verb("doctor", doctor, former={"--folder": "run it in that folder"}),
    Verb("judge", judge, hidden=True, any_words=True),
)
