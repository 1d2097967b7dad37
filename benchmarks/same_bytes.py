"""Hashes of what every method writes and of all scores of one, for fixed seeds: the same before and after a change.

Run it before a change with `--out before.json`, and after it with `--against before.json`: rows that differ are named,
and the exit code is 1. A file whose bytes differ is written only once the revision of fits, samples or scores was
raised (`adapcla/pipeline/tasks.py`), so that releases and studies in working folders are made again, too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
from polars import selectors

from adapcla import Cohort, evaluate
from adapcla.generation.generator import generator_for
from adapcla.io import simulator
from adapcla.pipeline import tasks
from adapcla.training.settings import METHODS

#: Decimals of a score that are hashed.
_DECIMALS = 9
#: The method whose samples are scored: scores do not depend on the method.
SCORED = "adapcla"
SMALL = {"width": 16, "heads": 2, "layers": 1, "passes": 2, "batch_size": 32}


def environment() -> dict[str, str]:
    """What bytes depend on beside the settings."""
    return {"torch": torch.__version__, "processor": torch.backends.cpu.get_cpu_capability(), "numpy": np.__version__}


def revisions() -> dict[str, int]:
    """The revisions that keys of fits, samples and scores hold."""
    return {"train": tasks.TRAIN, "sample": tasks.SAMPLE, "evaluate": tasks.EVALUATE}


Parts = tuple[Cohort, Cohort, Cohort, Cohort]


def parts(whole: bool = False) -> Parts:
    """Train, validation, test and control patients of a small made-up world; of whole records if asked for."""
    return simulator.simulate(400, 150, seed=5, whole=whole).split(seed=4, control=0.2)


def cohort_hash(cohort: Cohort) -> str:
    digest = hashlib.sha256()
    for array in (cohort.codes, cohort.visit_starts, cohort.patient_starts, cohort.days):
        digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    if cohort.values is not None:
        digest.update(np.ascontiguousarray(cohort.values).tobytes())
    for name, attribute in sorted(cohort.attributes.items()):
        digest.update(name.encode() + np.ascontiguousarray(attribute.values).tobytes())
    return digest.hexdigest()[:16]


def settings_of(method: str) -> dict[str, object]:
    known = METHODS[method].settings.model_dump()
    names = {*known, *known["architecture"], *known["budget"]}
    given: dict[str, object] = {name: value for name, value in SMALL.items() if name in names}
    # The rate of rows that have none of their own follows from the patients; bytes are compared at one rate.
    return given if METHODS[method].settings.budget.learning_rate else {**given, "learning_rate": 3e-3}


def whole_hashes(method: str, cohorts: Parts) -> dict[str, str]:
    """The same for patients with stays, values and ends, where a method can learn them."""
    if not METHODS[method].settings.architecture.chooses:
        return {}
    return {f"whole records: {name}": value for name, value in hashes(method, cohorts, scores=False).items()}


def hashes(method: str, cohorts: Parts, scores: bool) -> dict[str, str]:
    train, valid, test, control = cohorts
    generator = generator_for(method, **settings_of(method)).fit(train, valid)
    synthetic = generator.sample(300, seed=3)
    found = {"sample": cohort_hash(synthetic)}
    row = METHODS[method]
    if "likelihood" in row.supports:
        found["likelihood"] = hashlib.sha256(generator.log_likelihood(test).tobytes()).hexdigest()[:16]
    if "toward" in row.supports:
        found["steered"] = cohort_hash(generator.sample(200, seed=4, toward=test.prevalence()))
    if "continue_" in row.supports:
        alive = test.subset(np.flatnonzero(~test.died())[:20])
        found["continued"] = cohort_hash(generator.continue_(alive, draws=5, seed=2).drawn)
    if scores:
        table = evaluate(train, test, synthetic, control=control, quick=True).table()
        # Products of matrices differ in their last digits from one processor to another; adding 0 makes −0 a 0.
        table = table.with_columns(selectors.float().round(_DECIMALS) + 0.0)
        for metric in table["metric"].unique(maintain_order=True):
            text = table.filter(table["metric"] == metric).write_ndjson()
            found[f"scores: {metric}"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return found


def differing(before: dict[str, dict[str, str]], found: dict[str, dict[str, str]]) -> list[str]:
    """The methods and results whose bytes differ."""
    return [
        f"{name} {what}"
        for name, row in found.items()
        for what, value in row.items()
        if before.get(name, {}).get(what, value) != value
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", default="", help="names with commas; all but the paper sizes if left out")
    parser.add_argument("--no-scores", action="store_true", help="hash samples and likelihoods alone")
    parser.add_argument("--out", type=Path, help="write the hashes here")
    parser.add_argument("--against", type=Path, help="compare with the hashes in this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cohorts, whole = parts(), parts(whole=True)
    names = options.methods.split(",") if options.methods else [n for n in METHODS if not n.endswith("paper-size")]
    found = {}
    for name in names:
        scores = name == SCORED and not options.no_scores
        found[name] = hashes(name, cohorts, scores) | whole_hashes(name, whole)
        print(name, found[name], file=sys.stderr, flush=True)
    if options.out:
        content = {"environment": environment(), "revisions": revisions(), "rows": found}
        before = json.loads(options.out.read_text()) if options.out.is_file() else {}
        same = [before.get(name) == content[name] for name in ("environment", "revisions")]
        if all(same) and differing(before["rows"], found):
            print("other bytes under the same revisions: raise TRAIN, SAMPLE or EVALUATE of adapcla/pipeline/tasks.py")
            return 1
        options.out.write_text(json.dumps(content, indent=1) + "\n")
    if not options.against:
        return 0
    differ = differing(json.loads(options.against.read_text())["rows"], found)
    print(json.dumps({"compared": len(found), "differ": differ}))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
