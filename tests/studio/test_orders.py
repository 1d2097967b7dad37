"""Command lines: every one of them is understood by the verb that it names."""

from __future__ import annotations

import pytest

import adapcla.cli.main as cli
from adapcla.studio import orders

RELEASE = {
    "minutes": 1.0,
    "patients": 9,
    "format": "csv,meds",
    "min_patients": 20,
    "rollup": "ccs",
    "repair": True,
    "anyway": True,
    "model": True,
    "title": "--overwrite",
    "seed": 2,
    "method": "halo",
    "set": ["a=1", "b=2"],
}
ASKED = {"patients": 5, "having": ["A|B", "--overwrite"], "without": ["C"], "visits": "2..", "where": ["sex=F"]}
STEERED = {"patients": 5, "toward": "t.csv", "calibrate": True, "pilot": 500, "strength": 0.5, "missing": "drop"}
LINES = [
    orders.simulate("cohorts/a", 500, 60),
    orders.look("table", "-t.csv", {"patient": "who", "separator": ";", "max_visits": 3}),
    orders.read("omop", "data", "cohorts/a", {"domains": "dx,px", "level": "ccs", "labels": "auto", "system": "X"}),
    orders.describe("cohorts/a", ".studio/a.svg"),
    orders.synthesize("cohorts/a", "releases/a", RELEASE, dry_run=True),
    orders.sample("runs/a", "samples/a", {**ASKED, "at": "first"}),
    orders.sample("runs/a", "samples/a", {"continue": "histories/a", "draws": 5, "likeliest": 3}),
    orders.sample("runs/a", "samples/a", STEERED),
    orders.report(["runs/a"], "comparisons/a/report.html"),
    orders.run({"out": "runs", "cohort": "cohorts/a", "methods": "adapcla", "quick": True, "set": ["x=1"]}),
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line[:2]))
def test_the_verb_understands_every_word(line: list[str]) -> None:
    command = cli.get_group(cli.app_of(line[0] if line[0] != "import" else "import_")).commands[line[0]]
    asked = command.make_context(line[0], list(line[1:])).params
    assert asked["as_json"] is True or line[0] == "simulate"
    # A text that looks like an option stays a value.
    assert asked.get("overwrite") in (None, False)
