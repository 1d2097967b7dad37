"""Verbs that read a source know the same options by the same names."""

from __future__ import annotations

import inspect

from adapcla.cli import import_, reading, synthesize
from adapcla.io import ReadOptions


def test_import_and_synthesize_have_every_option_of_a_source():
    known = set(inspect.signature(ReadOptions).parameters)
    for verb in (import_.import_, synthesize.synthesize):
        assert known <= set(inspect.signature(verb).parameters)
    types = {"Annotated", "Any", "Mapping"}
    assert len([name for name in vars(reading) if name[0].isupper() and name not in types]) == len(known)


def test_every_option_of_a_source_is_handed_on_and_nothing_else():
    given = dict.fromkeys(inspect.signature(ReadOptions).parameters, "x")
    assert set(reading.asked({**given, "out": "folder"})) == set(given)
