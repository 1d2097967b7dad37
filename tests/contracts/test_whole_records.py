"""What every source keeps that tells more than codes: numbers with units; kinds, lengths and endings of visits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.io.whole import WHOLES, Whole

from adapcla.data import Cohort
from adapcla.io import read

ALL = ("dx", "px", "rx", "lab", "stay")


def numbered(cohort: Cohort) -> list[list[dict[str, float | None]]]:
    """Patients as visits of tokens with their numbers."""
    values = np.full(cohort.n_entries, np.nan) if cohort.values is None else np.asarray(cohort.values, dtype=float)
    tokens = cohort.vocabulary.tokens
    visits = [
        {
            tokens[cohort.codes[entry]]: None if np.isnan(values[entry]) else values[entry]
            for entry in range(cohort.visit_starts[visit], cohort.visit_starts[visit + 1])
        }
        for visit in range(cohort.n_visits)
    ]
    return [visits[first : last + 1] for first, last in zip(cohort.first_visits, cohort.last_visits, strict=True)]


@pytest.fixture(params=list(WHOLES))
def named(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Whole]:
    return request.param, WHOLES[request.param](tmp_path / "data")


def load(name: str, data: Whole, **options: object) -> Cohort:
    return read(name, data.root, **{"domains": ALL, **data.options, **options})


def test_the_whole_record_comes_in(named: tuple[str, Whole]) -> None:
    name, data = named
    cohort = load(name, data)
    wanted = data.visits
    if name == "meds":
        # There a visit is what lies between admission and discharge, so that every one has a length.
        wanted[1][0]["STAY/days"] = 0.5
    assert numbered(cohort) == wanted
    dropped = cohort.card["dropped"]
    assert dropped["values in another unit than most of their kind"] == 1
    assert dropped["visits after a death"] == 1
    # A table tells rows of numbers by their values, so that a word there is a value that is none.
    assert dropped["values that are no number"] == 1
    unknown = cohort.card["stays"]
    assert unknown["rows of another kind of visit"] >= 1 and unknown["rows of another ending"] >= 1
    lab = cohort.vocabulary.codes[cohort.vocabulary.index[data.lab]]
    assert (lab.unit, lab.domain, lab.group) == ("mg/dL", "lab", "")
    assert cohort.vocabulary.groups == ("end", "kind")
    assert cohort.card["labs"] == {"items": 1, "values of a visit": ["last"]}


def test_several_values_of_a_visit_have_codes_of_their_own(named: tuple[str, Whole]) -> None:
    name, data = named
    cohort = load(name, data, domains=("lab",), lab_values=("first", "last", "lowest", "highest"))
    found = {"first": 100.0, "last": 140.0, "lowest": 100.0, "highest": 140.0}
    both = {f"{data.lab}.{which}": value for which, value in found.items()}
    one = dict.fromkeys(both, 90.0)
    assert numbered(cohort) == [[both], [one]]


def test_diagnoses_alone_know_nothing_of_it(named: tuple[str, Whole]) -> None:
    """The stay after the death is there, and neither numbers nor groups."""
    name, data = named
    columns = {key: value for key, value in data.options.items() if key == "date"}
    cohort = read(name, data.root, **columns) if name != "table" else load(name, data, domains=("dx",))
    assert cohort.values is None and cohort.vocabulary.groups == ()
    assert cohort.visits_per_patient.tolist() == [3, 1]


def test_stays_alone_are_a_cohort(named: tuple[str, Whole]) -> None:
    name, data = named
    cohort = load(name, data, domains=("stay",))
    assert cohort.vocabulary.domains == ("stay",)
    assert cohort.visits_per_patient.tolist() == [2, 1]


def test_only_the_labs_that_were_asked_for(named: tuple[str, Whole]) -> None:
    name, data = named
    cohort = load(name, data, domains=("dx", "lab"), labs="0")
    assert cohort.values is None
    assert cohort.card["dropped"]["values of labs that were not asked for"] == 4
