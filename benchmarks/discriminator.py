"""How well a classifier tells a method's patients from real test patients, and what gives them away.

    python benchmarks/discriminator.py [NAME ...] [--method tailwise] [--patients 5000] [--width 64] [--passes 0]
                                       [--kept FOLDER] [--quick] [--out FILE]

NAME is an experiment of `experiments/` (planted, diabetes130, synpuf if none is named), whose data and settings are
taken with the given width and at most the given number of patients. Each cohort is split by seed 4; the method is
fitted to the train part and draws as many patients. Prints one JSON line per cohort; with `--out` writes a table.
`--kept` keeps the drawn cohorts and takes up those that are there. The numbers before and after a change come from
the same command.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from adapcla.data import Cohort
from adapcla.evaluation.comparison import Comparison, Score
from adapcla.evaluation.discriminator import discriminator_auc, feature_importance
from adapcla.evaluation.references import halves, some_patients
from adapcla.files import write_bytes
from adapcla.generation import generator_for
from adapcla.pipeline.spec import Spec, read_spec
from adapcla.pipeline.stages import read_data
from adapcla.tables import Table, number

NAMES = ("planted", "diabetes130", "synpuf")


def drawn(spec: Spec, arguments: argparse.Namespace, train: Cohort, valid: Cohort) -> Cohort:
    """Patients of the method, fitted to the training patients."""
    settings: dict[str, Any] = {**spec.fit.settings, "width": arguments.width}
    if arguments.passes:
        settings["passes"] = arguments.passes
    return generator_for(arguments.method, **settings).fit(train, valid).sample(train.n_patients, seed=1)


def measured(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The areas of one cohort, what real patients score against other real ones, and the columns that told."""
    begun = time.perf_counter()
    spec = read_spec(Path("experiments") / f"{name}.toml")
    cohort = some_patients(read_data(spec.data), arguments.patients, seed=1)
    train, valid, test = cohort.split(seed=4)
    kept = None if arguments.kept is None else arguments.kept / name
    if kept is not None and kept.is_dir():
        synthetic = Cohort.open(kept)
    else:
        synthetic = drawn(spec, arguments, train, valid)
        if kept is not None:
            synthetic.save(kept)
    comparison = Comparison.of(train, test, synthetic, quick=arguments.quick)
    scores = discriminator_auc(comparison)
    reference, other = halves(comparison.test)
    real = discriminator_auc(comparison.with_synthetic(other, reference, intervals=True))["all"]
    return {
        "cohort": name,
        "patients": {"train": train.n_patients, "test": test.n_patients, "written": synthetic.n_patients},
        **{stratum: shown(score) for stratum, score in scores.items()},
        "real against real": shown(real),
        "larger than any real visit": float((synthetic.codes_per_visit > cohort.codes_per_visit.max()).mean()),
        "gave away": [(row["feature"], row["kind"], *told(row)) for row in feature_importance(comparison)[:6]],
        "seconds": round(time.perf_counter() - begun),
    }


def told(row: dict[str, Any]) -> list[float]:
    """Means on both sides, the area alone and what is lost without it, rounded."""
    return [round(row[name], 3) for name in ("real", "synthetic", "alone", "lost")]


def shown(score: Score) -> str:
    """A score with its interval, or why there is none."""
    return score.reason if score.value is None else f"{score.value:.3f} [{score.low:.3f}, {score.high:.3f}]"


def markdown(found: list[dict[str, Any]]) -> str:
    """The areas of all cohorts, then what gave each away."""
    columns = ("cohort", "all", "sizes", "gaps", "codes", "pairs", "real against real", "larger than any real visit")
    rows = [
        [one[name] if isinstance(one.get(name), str) else number(one.get(name)) for name in columns] for one in found
    ]
    parts = [Table(columns, rows).markdown()]
    for one in found:
        lines = [[str(cell) for cell in row] for row in one["gave away"]]
        table = Table(("column", "kind", "real", "written", "AUC alone", "lost without it"), lines)
        parts += [f"\n{one['cohort']}: {one['patients']}\n", table.markdown()]
    return "\n".join(parts)


def main() -> None:
    """Measure the named cohorts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(NAMES))
    parser.add_argument("--method", default="tailwise")
    parser.add_argument("--patients", type=int, default=5_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--passes", type=float, default=0.0)
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found = []
    for name in arguments.names:
        found.append(measured(name, arguments))
        print(json.dumps(found[-1]), flush=True)
    if arguments.out is not None:
        write_bytes(arguments.out, markdown(found).encode())


if __name__ == "__main__":
    main()
