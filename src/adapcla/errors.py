"""The failures a user can meet, each with the exit code that the command line returns for it.

An error says what was found (file, row, column; never the cell itself), what was expected and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class AdapclaError(Exception):
    """A failure with a message for people; anything else that reaches the command line is a bug."""

    exit_code = 1


class UsageError(AdapclaError):
    """A wrong option, setting or combination of them."""

    exit_code = 2


class InputError(AdapclaError):
    """Input data that cannot be read as what it claims to be.

    >>> print(InputError("no column 'icd9_code'", path="D.csv", row=1, expected="a header", remedy="name it"))
    D.csv, row 1: no column 'icd9_code'
    expected: a header
    to do: name it
    """

    exit_code = 3

    def __init__(
        self,
        found: str,
        *,
        path: str | Path | None = None,
        row: int | None = None,
        column: str | None = None,
        expected: str | None = None,
        remedy: str | None = None,
    ) -> None:
        place = ", ".join(
            part
            for part in (
                str(path) if path is not None else "",
                f"row {row}" if row is not None else "",
                f"column {column!r}" if column is not None else "",
            )
            if part
        )
        lines = [f"{place}: {found}" if place else found]
        if expected:
            lines.append(f"expected: {expected}")
        if remedy:
            lines.append(f"to do: {remedy}")
        super().__init__("\n".join(lines))


def nearest(name: str, known: Iterable[str]) -> str:
    """What to do about an unknown name: the nearest known one, if any is near.

    >>> nearest("adapcal", ["adapcla", "halo"]), nearest("x", ["adapcla"])
    ("did you mean 'adapcla'?", 'choose one of these')
    """
    near = get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else "choose one of these"


class ExistsError(AdapclaError):
    """The output exists, is in use, or belongs to a run with other settings."""

    exit_code = 4


class GateError(AdapclaError):
    """A quality or privacy gate was not met."""

    exit_code = 5


class InterruptedRun(AdapclaError):
    """Stopped by a signal after a checkpoint was written."""

    exit_code = 130
