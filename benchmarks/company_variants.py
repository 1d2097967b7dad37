"""What a setting of `tailwise` does to pairs and to memory, judged by patients of the training part: for choosing.

    python benchmarks/company_variants.py [--experiment experiments/company.toml] [--set "hidden = 32"] [--seeds 1 2]

The training part of the experiment is divided again as by `pair_ceiling.py`: three quarters are learned from, the
validation part stops, the last quarter judges; test and control patients take no part. Prints one JSON object a fit,
with the settings, and first one for the validation patients themselves, one for patients by chance.

`pair_seen_way` and `tail_pair_seen_way` are how much of the way from chance to the learned-from patients written pairs
come. Written tail pairs are told apart by how many learned-from patients hold them: `known` (three or more), `few`
(one or two) and `never`, each as a share of all and, behind it, the share of them that the judging patients hold.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pair_ceiling import Division, Pairs, counted, division, table_of

from adapcla.data import Cohort
from adapcla.evaluation.comparison import ALL, Comparison
from adapcla.evaluation.privacy.pairs_gap import unique_pair_gap
from adapcla.evaluation.privacy.strata import BEYOND_PREVALENCE
from adapcla.evaluation.references import marginal
from adapcla.generation import generator_for
from adapcla.pipeline.spec import read_spec

#: Patients that are drawn, and the seed of the draw.
DRAWN, DRAW_SEED = 40_000, 7
#: Patients that hold a known pair.
_KNOWN = 3


def measured(drawn: Cohort, patients: Division, pairs: Pairs) -> dict[str, Any]:
    """Pairs and memory of a drawn cohort."""
    written = table_of(drawn, "visits")[np.triu_indices(drawn.n_codes, 1)]
    tail = np.where(pairs.tail, written, 0.0)
    kinds = {
        "known": pairs.patients >= _KNOWN,
        "few": (pairs.patients > 0) & (pairs.patients < _KNOWN),
        "never": pairs.patients == 0,
    }
    out: dict[str, Any] = {
        "pair_seen_way": round(pairs.way(written, tail=False), 3),
        "tail_pair_seen_way": round(pairs.way(written, tail=True), 3),
    }
    for name, chosen in kinds.items():
        held = tail[chosen & (pairs.judge_visits > 0)].sum() / max(tail[chosen].sum(), 1)
        out[name] = [round(float(tail[chosen].sum() / tail.sum()), 3), round(float(held), 3)]
    compared = Comparison.of(patients.learned_from, patients.judge, drawn, control=patients.judge)
    for name, stratum in (("one_patient_gap", ALL), ("beyond_prevalence", BEYOND_PREVALENCE)):
        gap = unique_pair_gap(compared)[stratum]
        out[name] = [None if x is None else round(x, 4) for x in (gap.value, gap.low, gap.high)]
    learned = patients.learned_from
    rare = learned.patient_counts <= np.quantile(learned.patient_counts, 1 / 3)
    shares = [float(each.visit_counts[rare].sum() / each.n_visits) for each in (drawn, learned)]
    out["tail_codes"] = round(shares[0] / shares[1], 3)
    out["codes_per_visit"] = round(float(drawn.codes_per_visit.mean() / learned.codes_per_visit.mean()), 4)
    return out


def fits(settings: dict[str, Any], seeds: list[int], patients: Division, pairs: Pairs) -> Iterator[dict[str, Any]]:
    """What each fit scores."""
    for seed in seeds:
        generator = generator_for("tailwise", **settings, seed=seed).fit(patients.learned_from, patients.valid)
        facts = generator.model.facts
        out: dict[str, Any] = {"settings": settings, "seed": seed, "matched": facts.get("pairs matched")}
        for name, cohort in (("loss_of_valid", patients.valid), ("loss_of_judges", patients.judge)):
            out[name] = round(-float(generator.model.log_likelihood(cohort).sum()) / cohort.n_visits, 4)
        yield out | measured(generator.sample(DRAWN, seed=DRAW_SEED), patients, pairs)


def main() -> None:
    """Fit, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiment", type=Path, default=Path("experiments/company.toml"))
    parser.add_argument("--set", default="", help="settings beyond those of the experiment, as lines of TOML")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    patients = division(asked.experiment)
    pairs = counted(patients.learned_from, patients.judge)
    references = {
        "validation patients": patients.valid,
        "chance": marginal(patients.learned_from, DRAWN, DRAW_SEED),
    }
    for name, cohort in references.items():
        print(json.dumps({"reference": name} | measured(cohort, patients, pairs)), flush=True)
    settings = {**read_spec(asked.experiment).fit.settings, **tomllib.loads(asked.set.replace(";", "\n"))}
    for row in fits(settings, asked.seeds, patients, pairs):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
