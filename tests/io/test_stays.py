"""Where codes go that name a visit, an unknown visit, or none."""

from __future__ import annotations

import pyarrow as pa

from adapcla.io.stays import n_by_day, shape_visits
from adapcla.io.workbench import Workbench


def test_codes_go_to_their_visit_or_their_day() -> None:
    """Visit v is known; w is not and takes the date of its code; a code with neither visit nor date has no home."""
    rows = {
        "patient": ["1", "1", "1", "1"],
        "visit": ["v", "w", "", ""],
        "date": ["2020-01-09", "2020-02-01", "2020-03-01T10:00", ""],
        "code": ["A", "B", "C", "D"],
        "system": [""] * 4,
        "domain": ["diagnosis"] * 4,
    }
    with Workbench() as bench:
        bench.add("named", [pa.record_batch(rows)])
        bench.add("stays", [pa.record_batch({"patient": ["1"], "visit": ["v"], "date": ["2020-01-01"]})])
        shape_visits(bench)
        assert bench.query("SELECT visit, min(date) FROM visits WHERE visit <> '' GROUP BY visit ORDER BY 2") == [
            ("v", "2020-01-01"),
            ("w", "2020-02-01"),
            ("day 2020-03-01", "2020-03-01T10:00"),
        ]
        assert bench.query("SELECT code FROM entries WHERE visit = ''") == [("D",)]
        assert n_by_day(bench) == 1
