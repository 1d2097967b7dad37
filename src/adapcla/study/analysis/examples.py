"""A few single patients of Case A, chosen by a rule that does not look at the outcome, drawn as the paper's table."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adapcla.data import Cohort, Kind, Strata
from adapcla.generation.generator import Generator
from adapcla.study.analysis.histories import NextVisits
from adapcla.tables import Table


class Role(StrEnum):
    """What a code of an example is."""

    HISTORY = "history"
    TRUTH = "truth"
    CORRECT = "correct"
    WRONG = "wrong"
    MISSED = "missed"


def chosen_examples(cases: NextVisits, n: int, seed: int = 1) -> NDArray[np.int64]:
    """The cases whose histories have the smallest hash with the seed, so that the outcome plays no part.

    >>> from adapcla.study.analysis.histories import next_visits
    >>> one = next_visits(Cohort.of([[["A"], ["B"]], [["B"], ["A"]], [["A", "B"], ["A"]]]))
    >>> two = next_visits(Cohort.of([[["A"], ["A"]], [["B"], ["B"]], [["A", "B"], ["B"]]]))
    >>> chosen_examples(one, 2).tolist() == chosen_examples(two, 2).tolist()
    True
    """
    hashes = [
        hashlib.blake2b(f"{seed}/{patient}".encode(), digest_size=16).hexdigest()
        for patient in cases.histories.patients()
    ]
    return np.argsort(np.array(hashes), kind="stable")[:n]


def may_show_patients(cohort: Cohort) -> bool:
    """Whether single patients of a cohort may be shown without asking: only made-up ones may.

    >>> from adapcla.data import Origin
    >>> drawn = Cohort.of([[["A"]]], card=Origin(Kind.SIMULATED).as_card())
    >>> may_show_patients(Cohort.of([[["A"]]])), may_show_patients(drawn)
    (False, True)
    """
    # A generator may have learned a patient by heart, so that its samples are not shown unasked either.
    return cohort.origin.kind == Kind.SIMULATED


def example_table(cases: NextVisits, runs: dict[str, Generator], strata: Strata, n: int, seed: int = 1) -> pl.DataFrame:
    """One row per code of the history, of the real next visit and of one visit drawn by each method."""
    rows: list[dict[str, Any]] = []
    for number, case in enumerate(chosen_examples(cases, n, seed).tolist()):
        history = cases.histories.subset([case])
        for visit in range(history.n_visits):
            held = history.codes_of(visit)
            rows += _coded(strata, number, f"visit {visit + 1}", Role.HISTORY, held)
        truth = np.sort(cases.following[[case]].indices)
        rows += _coded(strata, number, "real next visit", Role.TRUTH, truth)
        for name, run in runs.items():
            drawn = np.asarray(run.continue_(history, visits=1, draws=1, seed=seed).drawn.codes)
            rows += _coded(strata, number, name, Role.CORRECT, np.intersect1d(drawn, truth))
            rows += _coded(strata, number, name, Role.WRONG, np.setdiff1d(drawn, truth))
            rows += _coded(strata, number, name, Role.MISSED, np.setdiff1d(truth, drawn))
    return pl.DataFrame(rows, infer_schema_length=None)


def _coded(strata: Strata, example: int, source: str, role: Role, codes: NDArray[Any]) -> list[dict[str, Any]]:
    """Rows of some codes."""
    known = strata.vocabulary.codes
    return [
        {
            "example": example,
            "source": source,
            "role": role.value,
            "code": known[code].token,
            "description": known[code].description,
            "tail": bool(strata.tail[code]),
        }
        for code in codes.tolist()
    ]


def example_markdown(table: pl.DataFrame) -> str:
    """The examples as the paper's table: ✓ correct, ✗ wrong, ○ missed, ◆ a tail code."""
    marks = {Role.CORRECT: "✓ ", Role.WRONG: "✗ ", Role.MISSED: "○ "}
    lines = ["✓ correct · ✗ wrong · ○ missed · ◆ tail code", ""]
    for (example,), part in table.group_by(["example"], maintain_order=True):
        rows = []
        for (source,), mine in part.group_by(["source"], maintain_order=True):
            codes = [
                f"{marks.get(Role(row['role']), '')}{row['description'] or row['code']}{' ◆' if row['tail'] else ''}"
                for row in mine.to_dicts()
            ]
            rows.append((str(source), "; ".join(codes)))
        lines += [f"## Example {int(str(example)) + 1}", "", Table(("source", "codes"), rows).markdown()]
    return "\n".join(lines)
