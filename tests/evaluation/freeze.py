"""The scores of two small evaluations, to be held equal: `python tests/evaluation/freeze.py` writes them again.

One is of codes, with control patients and a requested prevalence; the other is of whole records. What learns is left
out: `tests/behaviour/test_same_bytes.py` holds it, as it does privacy.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.evaluation.conftest import whole_world  # noqa: E402

from adapcla.data import LabelRule  # noqa: E402
from adapcla.evaluation import METRICS, Scores, evaluate  # noqa: E402
from adapcla.io.simulator import simulate  # noqa: E402

PATH = HERE / "frozen_scores.json"
#: What is kept of a row: the value with its interval, and the values of the references.
COLUMNS = ("value", "low", "high", "n", "real_test", "train_copy", "marginal", "real_train", "normalised")
SUITES = ["tail", "fidelity", "course"]
Frozen = dict[str, dict[str, list[float | None]]]


def evaluations() -> dict[str, Scores]:
    """The scores of both evaluations."""
    world = simulate(patients=700, codes=80, seed=1)
    train, _, test, control = world.split(seed=4, control=0.2)
    made = simulate(patients=160, codes=80, seed=2)
    target = simulate(patients=300, codes=80, seed=3).prevalence()
    codes = evaluate(train, test, made, SUITES, control, target, quick=True)
    trio = [whole_world(300, 1), whole_world(200, 2), whole_world(250, 3)]
    rule = LabelRule.of({"diabetes": ["diabetes"], "injury": ["fracture"], "infection": ["cold", "sepsis"]})
    slow = [key for key, metric in METRICS.items() if metric.cost == "slow"]
    whole = evaluate(*(rule.label(cohort) for cohort in trio), SUITES, quick=True, leave_out=slow)
    return {"codes": codes, "whole records": whole}


def frozen(scores: Scores) -> Frozen:
    """The columns of every row, by metric and stratum."""
    out: Frozen = {}
    for row in scores.rows:
        cells = (getattr(row, name) for name in COLUMNS)
        out.setdefault(row.metric, {})[row.stratum] = [
            None if cell is None else float(f"{cell:.12g}") for cell in cells
        ]
    return out


if __name__ == "__main__":
    content = {name: frozen(scores) for name, scores in evaluations().items()}
    PATH.write_text(json.dumps(content, separators=(",", ":")).replace('},"', '},\n"') + "\n")
