"""Failures: their exit codes, and messages of one to three lines that say where, what and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapcla import errors
from adapcla.errors import AdapclaError, InputError


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("AdapclaError", 1),
        ("UsageError", 2),
        ("InputError", 3),
        ("ExistsError", 4),
        ("GateError", 5),
        ("InterruptedRun", 130),
    ],
)
def test_exit_codes_are_pinned(kind, code):
    error = getattr(errors, kind)
    assert error.exit_code == code
    assert issubclass(error, AdapclaError)


def test_no_two_kinds_share_a_code():
    kinds = [
        AdapclaError,
        *(kind for kind in AdapclaError.__subclasses__() if kind.__module__ == AdapclaError.__module__),
    ]
    assert len({kind.exit_code for kind in kinds}) == len(kinds)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({}, "found"),
        ({"path": "a.csv"}, "a.csv: found"),
        ({"path": Path("a.csv"), "row": 0}, "a.csv, row 0: found"),
        ({"row": 7, "column": "dx"}, "row 7, column 'dx': found"),
        (
            {"path": "a", "row": 1, "column": "c", "expected": "e", "remedy": "r"},
            "a, row 1, column 'c': found\nexpected: e\nto do: r",
        ),
        ({"remedy": "r"}, "found\nto do: r"),
    ],
)
def test_messages_by_hand(parts, text):
    assert str(InputError("found", **parts)) == text
