"""Knowledge against memory: what a generator knows of pairs of codes, and of whose pairs and triples it knows them.

    python benchmarks/frontier.py --data diabetes130/visits.csv.gz --out frontier.jsonl \\
        --point prior_strength=5 --point prior_strength=20 --point prior_strength=80 --splits 1,2 --samples 3
    python benchmarks/frontier.py --toy

The fifth of the patients that `split` keeps for tests is never opened. The others are divided anew by each split into
patients to learn from, patients to validate on, and controls, who take no part in the fit. A point is a set of
settings; it is fitted once a split, and every number is the mean over its samples, each as large as the training part.

- *share*: of the gap from independent codes (0) to training patients (1), how often a generated pair of codes is one
  that controls hold; *rare share*, the same for pairs with one of the rarest third of codes.
- *coverage*: how many of the controls' pairs are generated, over how many of them training patients hold.
- *gap at c*: how often a pair held by c training patients and no control is generated, less how often one held by
  c − 1 training patients and one control is. Who of its c holders were drawn for training is chance, so that whoever
  does not remember single patients has a gap of 0. *Mean* weights each c by its number of sets.
- *overlap*, *codes*, *visits*: next-visit overlap, codes a visit and visits a patient, over those of training patients.
- *rare R²*: of the visit prevalences of the rarest third of codes among controls, what generated ones explain.

A line that is already in OUT is not computed again. Ends with a table of means over splits and one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.data.rollup import roll_up
from adapcla.data.split import split_positions
from adapcla.disclosure import MIN_COUNT
from adapcla.evaluation.references import marginal
from adapcla.generation import generator_for
from adapcla.io import read
from adapcla.io.simulator import simulate
from adapcla.pipeline.options import assignments
from adapcla.tables import Table

Ints = NDArray[np.int64]
#: Holders at which memory is measured, by the number of codes of a set.
HOLDERS = {2: (1, 2, 3, 4, 5, 6), 3: (1, 2, 3)}
CONTROL = 0.15


class Sets(NamedTuple):
    """Sets of codes that visits hold: each as one number, once for each visit that holds it."""

    key: Ints
    patient: Ints
    rare: NDArray[np.bool_]

    @classmethod
    def of(cls, cohort: Cohort, size: int, rare: NDArray[np.bool_]) -> Sets:
        """All sets of `size` codes of one visit; `rare` says of each code whether it is."""
        sizes, starts = np.asarray(cohort.codes_per_visit), np.asarray(cohort.visit_starts)
        codes = np.asarray(cohort.codes).astype(np.int64)
        parts = [np.zeros((3, 0), dtype=np.int64)]
        for m in np.unique(sizes[sizes >= size]):
            visits = np.flatnonzero(sizes == m)
            held = np.sort(codes[starts[visits][:, None] + np.arange(m)], axis=1)
            for columns in combinations(range(m), size):
                some = held[:, columns]
                key = some @ (cohort.n_codes ** np.arange(size)[::-1])
                parts.append(np.stack([key, cohort.patient_of_visit[visits], rare[some].any(axis=1)]))
        key, patient, is_rare = np.concatenate(parts, axis=1)
        return cls(key, patient, is_rare.astype(bool))

    def holders(self) -> tuple[Ints, Ints]:
        """(sets, patients who hold each), the sets ascending."""
        each = np.unique(np.stack([self.key, self.patient]), axis=1)
        keys, counts = np.unique(each[0], return_counts=True)
        return keys, counts


def holders_of(keys: Ints, held: tuple[Ints, Ints]) -> Ints:
    """The holders of these sets."""
    known, counts = held
    place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[place] == keys, counts[place], 0)


def knowledge(train: Cohort, controls: Cohort, drawn: list[Cohort], rare: NDArray[np.bool_]) -> dict[str, float]:
    """What unseen patients confirm, each number as the module's description says."""
    known = np.unique(Sets.of(controls, 2, rare).key)
    wanted = controls.visit_counts[rare] / controls.n_visits

    def measure(cohort: Cohort) -> NDArray[np.float64]:
        pairs = Sets.of(cohort, 2, rare)
        hit = np.isin(pairs.key, known)
        first = cohort.visits_with_next
        error = ((cohort.visit_counts[rare] / cohort.n_visits - wanted) ** 2).sum()
        return np.array(
            [
                hit.mean(),
                hit[pairs.rare].mean(),
                np.isin(known, pairs.key).mean(),
                cohort.jaccard(first, first + 1).mean(),
                len(cohort.codes) / cohort.n_visits,
                cohort.n_visits / cohort.n_patients,
                1 - error / ((wanted - wanted.mean()) ** 2).sum(),
            ]
        )

    chance, real = measure(marginal(train, train.n_patients, 1)), measure(train)
    got = np.mean([measure(each) for each in drawn], axis=0)
    share, ratio = (got - chance) / (real - chance), got / real
    return {
        "share": float(share[0]),
        "rare share": float(share[1]),
        **dict(zip(("coverage", "overlap", "codes", "visits"), ratio[2:6].tolist(), strict=True)),
        "rare R²": float(got[6]),
        "rare R², independent codes": float(chance[6]),
    }


def memory(train: Cohort, controls: Cohort, drawn: list[Cohort], rare: NDArray[np.bool_]) -> dict[str, Any]:
    """The gap at each number of holders with its standard error, their mean, and the largest for pairs."""
    found: dict[str, Any] = {}
    for size, numbers in HOLDERS.items():
        members, others = (Sets.of(each, size, rare).holders() for each in (train, controls))
        keys = np.union1d(members[0], others[0])
        inside, outside = holders_of(keys, members), holders_of(keys, others)
        emitted = np.mean([np.isin(keys, Sets.of(each, size, rare).key) for each in drawn], axis=0)
        gaps, errors, n_sets = [], [], []
        for c in numbers:
            one, two = emitted[(inside == c) & (outside == 0)], emitted[(inside == c - 1) & (outside == 1)]
            enough = min(len(one), len(two)) > 1
            gap = float(one.mean() - two.mean()) if enough else float("nan")
            error = float(np.sqrt(one.var() / len(one) + two.var() / len(two))) if enough else float("nan")
            found |= {f"{size} codes, c = {c}": gap, f"{size} codes, c = {c}, error": error}
            gaps.append(gap)
            errors.append(error)
            n_sets.append(len(one) + len(two) if enough else 0)
        weight = np.array(n_sets) / max(sum(n_sets), 1)
        found[f"{size} codes, mean"] = float(np.nansum(weight * gaps))
        found[f"{size} codes, mean, error"] = float(np.sqrt(np.nansum((weight * errors) ** 2)))
        found[f"{size} codes, largest"] = float(np.nanmax(gaps))
    return found


def rarest_third(train: Cohort) -> NDArray[np.bool_]:
    """True for the rarest third of the codes of training."""
    rare = np.zeros(train.n_codes, dtype=bool)
    rare[np.argsort(train.visit_counts, kind="stable")[: train.n_codes // 3]] = True
    return rare


def divide(cohort: Cohort, split: int) -> tuple[Cohort, Cohort, Cohort]:
    """(train, valid, controls) of a split, on codes that enough training patients hold."""
    opened = split_positions(cohort.n_patients)
    kept = cohort.subset(np.sort(np.concatenate([opened.train, opened.valid])))
    parts = split_positions(kept.n_patients, 100 + split, CONTROL)
    train = kept.subset(parts.train)
    rolled = roll_up(train, MIN_COUNT)
    controls = kept.subset(np.sort(np.concatenate([parts.test, parts.control])))
    return rolled.apply(train), rolled.apply(kept.subset(parts.valid)), rolled.apply(controls)


def one_fit(cohort: Cohort, method: str, settings: dict[str, Any], split: int, samples: int) -> dict[str, Any]:
    """The numbers of a point at a split."""
    train, valid, controls = divide(cohort, split)
    begun = time.process_time()
    fitted = generator_for(method, **{**settings, "seed": split}).fit(train, valid)
    drawn = [fitted.sample(train.n_patients, seed=seed) for seed in range(1, samples + 1)]
    rare, facts = rarest_third(train), fitted.model.facts
    found = {"loss": facts["validation loss per visit"], "epochs": facts["passes"], "patients": train.n_patients}
    found |= {"seconds": round(time.process_time() - begun)}
    return {**found, **knowledge(train, controls, drawn, rare), **memory(train, controls, drawn, rare)}


def table(lines: list[dict[str, Any]]) -> str:
    """The means over splits, a row for each point."""
    names = ["loss", "share", "rare share", "coverage", "overlap", "rare R²", "2 codes, mean", "2 codes, largest"]
    names += [f"{size} codes, c = {c}" for size, numbers in HOLDERS.items() for c in numbers]
    rows = []
    for point in dict.fromkeys(line["point"] for line in lines):
        some = [line for line in lines if line["point"] == point]
        means = [np.nanmean([line[name] for line in some]) for name in names]
        rows.append([point or "as it is", str(len(some)), *(f"{mean:.3f}" for mean in means)])
    return Table(("point", "splits", *names), rows).markdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a table of visits; simulated patients if left out")
    parser.add_argument("--codes", default="dx", help="the column of codes")
    parser.add_argument("--method", default="tailwise")
    parser.add_argument("--point", action="append", help="settings of a point, NAME=VALUE with commas between")
    parser.add_argument("--splits", default="1", help="numbers of splits, with commas between")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--out", type=Path, help="file of the lines that are done, one JSON object each")
    parser.add_argument("--toy", action="store_true", help="few simulated patients, to see that it runs")
    options = parser.parse_args()
    if options.data:
        cohort = read("table", Path(options.data), codes=options.codes)
    else:
        cohort = simulate(patients=600 if options.toy else 20_000, codes=40 if options.toy else 800, seed=1)
    shared = {"passes": 1, "width": 16, "calibration_rounds": 1} if options.toy else {}
    done = options.out.read_text().splitlines() if options.out and options.out.exists() else []
    lines: list[dict[str, Any]] = [json.loads(line) for line in done]
    for split in map(int, options.splits.split(",")):
        for point in options.point or [""]:
            if any(line["point"] == point and line["split"] == split for line in lines):
                continue
            settings = {**shared, **assignments([word for word in point.split(",") if word])}
            lines.append(
                {"point": point, "split": split, **one_fit(cohort, options.method, settings, split, options.samples)}
            )
            if options.out:
                with options.out.open("a") as out:
                    out.write(json.dumps(lines[-1]) + "\n")
            print(json.dumps(lines[-1]), file=sys.stderr)
    print(table(lines))
    print(json.dumps({"lines": lines}))


if __name__ == "__main__":
    main()
