"""`adapcla doctor`: versions, free memory and disk, and a self-test, for a bug report or before a long run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from adapcla.cli.options import AsJson, emit
from adapcla.errors import AdapclaError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("doctor")(doctor)


def doctor(
    folder: Annotated[Path, typer.Option("--folder", exists=True, help="Where free disk is measured.")] = Path(),
    test: Annotated[bool, typer.Option("--test/--no-test", help="Train and sample a tiny model.")] = True,
    as_json: AsJson = False,
) -> None:
    """Show what is installed, free memory and disk, and whether training and sampling work; needs no network."""
    from adapcla.pipeline.doctor import examined, self_test

    report = examined(folder)
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
