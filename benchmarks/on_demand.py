"""Patients on demand against prevalence steering and chance: the rarest codes that enough held-out patients have.

    python benchmarks/on_demand.py RUN COHORT [--codes 20] [--patients 1000] [--planted] [--out FILE.md]

RUN is a trained run, COHORT the cohort folder that it was trained on (split by seed 4). For each code a cohort of
patients with it is written, and its company (TailCtxJSD), what comes before and after, and the length of records are
compared with all held-out patients who have it. A divergence of counts is the larger the fewer patients there are, so
that every row is judged in groups of as many patients as training has with the code, and has the mean of its groups.
Rows:

- `real`: the training patients who have the code, whom the held-out ones differ from by chance alone. No generator
  can be expected to be nearer;
- `on demand`; `raised` and `steered` (see `generators.comparators`); `random`.

Differences of rows are taken code by code. Times are processor seconds. With `--planted` the company in first visits
is also compared with the planted law's own conditional probabilities. With `--effort` only what it takes is measured,
for the rarest codes of the training patients. Prints one JSON line; with `--out` writes a table.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.data.condition import Condition
from adapcla.data.parts import parts_at
from adapcla.evaluation.conditioned import FEWEST, REAL, divergence, holdings
from adapcla.evaluation.intervals import mean_half
from adapcla.files import write_bytes
from adapcla.generation.comparators import comparators
from adapcla.generation.conditional import sample_given
from adapcla.generation.generator import load
from adapcla.generation.model import Model
from adapcla.io.simulator import law
from adapcla.io.simulator.structure import GROUP_SHARE
from adapcla.report.figures.cohorts import rarest
from adapcla.tables import Table

PARTS = ("company", "before", "after", "length")
ON_DEMAND = "on demand"


def taken(model: Model, train: Cohort, test: Cohort, code: str, n: int, seed: int) -> tuple[dict[str, Any], Cohort]:
    """What patients with a code took, and the patients."""
    condition = Condition.of(code)
    began = time.process_time()
    written = sample_given(model, n, seed, condition)
    seconds = time.process_time() - began
    n_real, n_held_out = (condition.patients(cohort).n_patients for cohort in (train, test))
    facts = {"code": code, "held out": n_held_out, "training": n_real, "seconds": seconds}
    return facts | {"effort": written.card["effort"]}, written


def of_code(model: Model, train: Cohort, test: Cohort, code: str, n: int, seed: int) -> dict[str, Any]:
    """Scores of every row and what the patients took, for one code."""
    condition = Condition.of(code)
    facts, written = taken(model, train, test, code, n, seed)
    real, held_out = condition.patients(train), condition.patients(test)
    rows = {REAL: real, ON_DEMAND: written, **comparators(model, condition, train, n, seed)}
    values = {
        name: in_groups(held_out, cohort.on(test.vocabulary), condition, real.n_patients)
        for name, cohort in rows.items()
    }
    return facts | {"rows": values}


def in_groups(real: Cohort, judged: Cohort, condition: Condition, size: int) -> dict[str, float | None]:
    """The mean divergence of disjoint groups of so many judged patients, by part; None where a part is empty."""
    groups = np.array_split(np.arange(judged.n_patients), max(judged.n_patients // size, 1))
    theirs, own = holdings(real, condition), holdings(judged, condition)

    def counts(held: sparse.csr_matrix) -> NDArray[np.float64]:
        return np.asarray(held.sum(axis=0), dtype=float).ravel()

    out: dict[str, float | None] = {}
    for part in PARTS:
        values = [divergence(counts(theirs[part]), counts(own[part][group[:size]])) for group in groups]
        out[part] = float(np.mean(values)) if np.isfinite(values).all() else None
    return out


def lawful_company(codes: int, code: int) -> NDArray[np.float64]:
    """The planted law's chance of every code in a first visit that holds this one; 0 for itself."""
    world = law(codes)
    everyone, chosen = np.arange(codes), np.full(codes, code)
    both = GROUP_SHARE @ world.together(world.newcomers, chosen, everyone)
    share = np.clip(both / float(both[code]), 0.0, 1.0)  # rounding may leave a little less than nothing
    share[code] = 0.0
    return np.asarray(share)


def against_law(model: Model, train: Cohort, code: str, n: int, seed: int) -> dict[str, float]:
    """Divergence of the company in first visits from the law's, for patients on demand, steered and random ones."""
    condition = Condition.of(code, at="first")
    truth = lawful_company(len(model.vocabulary), model.vocabulary.index[code])
    cohorts = {ON_DEMAND: sample_given(model, n, seed, condition), **comparators(model, condition, train, n, seed)}
    cohorts["the law's own numbers"] = Cohort.of([[["A"]]])
    out = {}
    for name, cohort in cohorts.items():
        if name == "the law's own numbers":
            # What a perfect generator of as many patients would score: draws of the law's shares.
            counts = np.random.default_rng(seed).binomial(n, truth).astype(float)
        else:
            first = cohort.with_visits(cohort.first_visits, cohort.first_visits + 1)
            counts = np.asarray(holdings(first, condition, seed)["company"].sum(axis=0), dtype=float).ravel()
        out[name] = divergence(truth, counts)
    return out


def mean_cell(values: list[float | None], signed: bool = False) -> str:
    """The mean over codes with its interval."""
    known = [value for value in values if value is not None and np.isfinite(value)]
    if len(known) < 2:
        return "–"
    return f"{np.mean(known):{'+' if signed else ''}.3f} ± {mean_half(known):.3f} ({len(known)})"


def differences(found: list[dict[str, Any]], row: str, part: str) -> list[float | None]:
    """On demand less another row, for each code that has both."""
    pairs = [(one["rows"][ON_DEMAND].get(part), one["rows"].get(row, {}).get(part)) for one in found]
    return [None if own is None or other is None else own - other for own, other in pairs]


def tables(found: list[dict[str, Any]], lawful: list[dict[str, float]]) -> str:
    """What was found, for people."""
    rows = list(dict.fromkeys(row for one in found for row in one["rows"]))
    means = [
        (row, *(mean_cell([one["rows"].get(row, {}).get(part) for one in found]) for part in PARTS)) for row in rows
    ]
    lines = [Table(("patients", *(f"{part} ↓" for part in PARTS)), means).markdown()]
    gaps = [
        (f"{ON_DEMAND} − {row}", *(mean_cell(differences(found, row, part), signed=True) for part in PARTS))
        for row in rows
        if row != ON_DEMAND
    ]
    lines += [Table(("difference, code by code", *PARTS), gaps).markdown(), effort_table(found)]
    if lawful:
        law_rows = [(row, mean_cell([one.get(row) for one in lawful])) for row in lawful[0]]
        lines.append(Table(("patients", "company in first visits, to the law ↓"), law_rows).markdown())
    return "\n".join(lines)


def effort_table(found: list[dict[str, Any]]) -> str:
    """What each code took."""
    efforts = [
        (
            str(one["code"]),
            f"{one['held out']}",
            f"{one['training']}",
            f"{effort['probability']:.2g}",
            f"{effort['proposals']:,}",
            f"{effort['effective'] / max(effort['fulfilled'], 1):.0%}",
            f"{effort['visits_by_rejection'] / effort['visits']:.0f}",
            f"{effort['clipped']:.2%}",
            f"{one['seconds']:.0f}",
        )
        for one in found
        for effort in [one["effort"]]
    ]
    heads = (
        "code",
        "held out",
        "in training",
        "probability",
        "proposals",
        "effective",
        "times fewer visits",
        "clipped",
        "processor s",
    )
    return Table(heads, efforts).markdown()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("cohort", type=Path)
    parser.add_argument("--codes", type=int, default=20)
    parser.add_argument("--patients", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--effort", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    model = load(options.run).model
    parts = parts_at(options.cohort, None, 0.0)
    train, test = parts["train"], parts["test"].on(parts["train"].vocabulary)
    found, lawful = [], []
    chosen = rarest(train, 1, options.codes) if options.effort else rarest(test, FEWEST, options.codes)
    for position in chosen:
        code = test.vocabulary.tokens[position]
        if options.effort:
            found.append(taken(model, train, test, code, options.patients, options.seed)[0])
        else:
            found.append(of_code(model, train, test, code, options.patients, options.seed))
        if options.planted:
            lawful.append(against_law(model, train, code, options.patients, options.seed))
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
        if options.out is not None:  # whatever is there already can be looked at
            command = "python benchmarks/on_demand.py " + " ".join(sys.argv[1:])
            shown = effort_table(found) if options.effort else tables(found, lawful)
            write_bytes(options.out, f"{shown}\n`{command}`\n".encode())
    print(json.dumps({"codes": found, "law": lawful}))


if __name__ == "__main__":
    main()
