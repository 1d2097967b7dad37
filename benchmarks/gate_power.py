"""What the privacy gate lets pass: fresh draws of the distribution that must be released, and leaks that must not be.

    python benchmarks/gate_power.py                                   # two small worlds, some seconds
    python benchmarks/gate_power.py --worlds 50 --members 3000 --controls 750 --table results/gate_power.md
    python benchmarks/gate_power.py --worlds 50 --only fresh --members 1000 --controls 250

Every world is new simulated patients, divided into members, controls and fresh patients, and rolled up to codes of at
least eleven members, as a release is. Of each case it counts how many worlds are released (every line met), and which
lines were not. Ends with 1 where, of twenty worlds or more, less than 95 % of the fresh cohorts are released or more
than 5 % of a leak are.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.console import meter, say
from adapcla.data import Code, Cohort, Vocabulary
from adapcla.data.ragged import expand_ranges, starts_from_sizes
from adapcla.data.rollup import roll_up
from adapcla.disclosure import MIN_COUNT
from adapcla.evaluation import METRICS, Comparison
from adapcla.evaluation.privacy import GateLine, gate
from adapcla.evaluation.privacy.gate import error_of, gate_keys
from adapcla.io.simulator import simulate
from adapcla.seeds import random_stream
from adapcla.tables import Table

World = tuple[Cohort, Cohort, Cohort]


def world(seed: int, members: int, controls: int, codes: int) -> World:
    """Members, controls and as many fresh patients as members, all drawn from one distribution."""
    everybody = simulate(patients=2 * members + controls, codes=codes, seed=seed)
    edges = np.cumsum([0, members, controls, members])
    parts = [everybody.subset(np.arange(a, b)) for a, b in pairwise(edges)]
    found = roll_up(parts[0], MIN_COUNT)
    one, two, three = (found.apply(part) for part in parts)
    return one, two, three


# ---- leaks --------------------------------------------------------------------------------------------------
def joined(one: Cohort, other: Cohort) -> Cohort:
    """The patients of two cohorts on one vocabulary."""
    return Cohort(
        one.vocabulary,
        np.concatenate([one.codes, other.codes]),
        starts_from_sizes(np.concatenate([one.codes_per_visit, other.codes_per_visit])),
        starts_from_sizes(np.concatenate([one.visits_per_patient, other.visits_per_patient])),
    )


def copied(members: Cohort, fresh: Cohort, share: float, seed: int) -> Cohort:
    """Fresh patients, a share of whom are members word for word."""
    n = round(share * fresh.n_patients)
    chosen = random_stream(seed, "copied").choice(members.n_patients, n, replace=False)
    return joined(fresh.subset(np.arange(fresh.n_patients - n)), members.subset(chosen))


def copied_rare(members: Cohort, fresh: Cohort, share: float) -> Cohort:
    """Fresh patients, a share of whom are the members with the rarest codes."""
    n = round(share * fresh.n_patients)
    rarest = np.minimum.reduceat(members.patient_counts[np.asarray(members.codes)], members.entry_starts[:-1])
    return joined(fresh.subset(np.arange(fresh.n_patients - n)), members.subset(np.argsort(rarest, kind="stable")[:n]))


def with_visits(cohort: Cohort, place: NDArray[np.int64], source: Cohort, visit: NDArray[np.int64]) -> Cohort:
    """The cohort with some of its visits replaced by visits of another one."""
    rows = np.arange(cohort.n_visits)
    rows[place] = cohort.n_visits + visit
    both = joined(cohort, source)
    starts = np.asarray(both.visit_starts)
    codes = both.codes[expand_ranges(starts[rows], starts[rows + 1])]
    return Cohort(cohort.vocabulary, codes, starts_from_sizes(both.codes_per_visit[rows]), cohort.patient_starts)


def copied_visits(members: Cohort, fresh: Cohort, share: float, seed: int) -> Cohort:
    """Fresh patients, a share of whose visits are visits of members."""
    random = random_stream(seed, "copied visits")
    n = round(share * fresh.n_visits)
    place = random.choice(fresh.n_visits, n, replace=False)
    return with_visits(fresh, place, members, random.choice(members.n_visits, n, replace=n > members.n_visits))


def of_few_codes(cohort: Cohort, seed: int, most: int = 5) -> Cohort:
    """The same visits with at most so many of their codes, at random."""
    drawn = random_stream(seed, "few codes").random(cohort.n_entries)
    order = np.lexsort((drawn, cohort.visit_of_entry))
    rank = np.empty(cohort.n_entries, dtype=np.int64)
    rank[order] = np.arange(cohort.n_entries) - np.asarray(cohort.visit_starts)[cohort.visit_of_entry[order]]
    return cohort.keep_entries(rank < most)


def copied_triples(members: Cohort, fresh: Cohort, seed: int) -> Cohort:
    """Fresh patients, in each of whose visits of three codes or more stand three codes of a visit of a member."""
    random = random_stream(seed, "copied triples")
    sources = np.flatnonzero(members.codes_per_visit >= 3)
    place = np.flatnonzero(fresh.codes_per_visit >= 3)
    three = of_few_codes(members, seed, 3)
    return with_visits(fresh, place, three, random.choice(sources, len(place)))


def without_one_code(cohort: Cohort) -> Cohort:
    """Every patient without the first code of the first visit that has two or more."""
    large = np.flatnonzero(cohort.codes_per_visit >= 2)
    first = large[np.unique(cohort.patient_of_visit[large], return_index=True)[1]]
    stay = np.ones(cohort.n_entries, dtype=bool)
    stay[np.asarray(cohort.visit_starts)[first]] = False
    sizes = cohort.codes_per_visit.copy()
    sizes[first] -= 1
    return Cohort(cohort.vocabulary, cohort.codes[stay], starts_from_sizes(sizes), cohort.patient_starts)


def on_other_codes(cohort: Cohort) -> Cohort:
    """The same patients on codes that nobody else has."""
    codes = tuple(Code.of(f"OTHER/{number:05d}") for number in range(cohort.n_codes))
    return Cohort(Vocabulary(codes), cohort.codes, cohort.visit_starts, cohort.patient_starts)


Case = Callable[[World, int], World]
#: What stands in the place of the synthetic patients, and whether it must be released.
CASES: dict[str, tuple[bool, Case]] = {
    "fresh": (True, lambda w, seed: w),
    "other codes": (True, lambda w, seed: (w[0], w[1], on_other_codes(w[2]))),
    "1 % copied patients": (False, lambda w, seed: (w[0], w[1], copied(w[0], w[2], 0.01, seed))),
    "5 % copied rare patients": (False, lambda w, seed: (w[0], w[1], copied_rare(w[0], w[2], 0.05))),
    "5 % copied visits": (False, lambda w, seed: (w[0], w[1], copied_visits(w[0], w[2], 0.05, seed))),
    "copied triples": (False, lambda w, seed: _with_copied_triples(w, seed)),
    "members": (False, lambda w, seed: (w[0], w[1], w[0])),
    "members without one code": (False, lambda w, seed: (w[0], w[1], without_one_code(w[0]))),
}


def _with_copied_triples(given: World, seed: int) -> World:
    """Visits of at most five codes, of which three are a member's."""
    members, controls, fresh = (of_few_codes(cohort, seed) for cohort in given)
    return members, controls, copied_triples(members, fresh, seed)


# ---- what the gate says -------------------------------------------------------------------------------------
def lines_of(members: Cohort, controls: Cohort, synthetic: Cohort, tries: int = 1) -> tuple[list[GateLine], Any]:
    """The lines of the gate, and the scores behind them."""
    comparison = Comparison.of(members, controls, synthetic, controls)
    scores = {key: METRICS[key].compute(comparison) for key in gate_keys()}
    return gate(scores, tries=tries), scores


def measure(worlds: int, members: int, controls: int, codes: int, only: Sequence[str] = ()) -> dict[str, Any]:
    """How many worlds of each case are released, which lines stand in the way, and the errors of honest data."""
    cases = {name: case for name, case in CASES.items() if not only or name in only}
    released: Counter[str] = Counter()
    failed: dict[str, Counter[str]] = {name: Counter() for name in cases}
    errors: dict[str, list[float]] = {}
    with meter("worlds", worlds) as bar:
        for seed in range(1001, 1001 + worlds):
            given = world(seed, members, controls, codes)
            for name, (_, case) in cases.items():
                lines, scores = lines_of(*case(given, seed))
                released[name] += all(line.passed for line in lines)
                failed[name].update(f"{line.name}: {line.outcome}" for line in lines if not line.passed)
                if name == "fresh":
                    for key, strata in scores.items():
                        if strata["all"].value is not None:
                            errors.setdefault(key, []).append(error_of(strata["all"]))
            bar.advance(1)
    rows = [
        {"case": name, "must be released": wanted, "released": released[name], "not met": dict(failed[name])}
        for name, (wanted, _) in cases.items()
    ]
    mean = {key: float(np.mean(each)) for key, each in errors.items()}
    sizes = {"worlds": worlds, "members": members, "controls": controls, "codes": codes}
    return {**sizes, "cases": rows, "standard errors of fresh": mean}


def table(found: dict[str, Any]) -> str:
    """The result in Markdown."""
    rows = []
    for row in found["cases"]:
        most = Counter(row["not met"]).most_common(4)
        why = ", ".join(f"{name} ({times})" for name, times in most) or "–"
        rows.append((row["case"], f"{row['released']} of {found['worlds']}", why))
    title = f"{found['members']:,} members, {found['controls']:,} controls, {found['codes']:,} codes\n\n"
    return title + Table(("in the place of synthetic patients", "released", "lines not met (worlds)"), rows).markdown()


def main() -> int:
    """Measure, print, and say whether honest cohorts pass and leaks do not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=2)
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--controls", type=int, default=400)
    parser.add_argument("--codes", type=int, default=600)
    parser.add_argument("--only", default="", help="cases with commas")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    only = [name.strip() for name in options.only.split(",") if name.strip()]
    found = measure(options.worlds, options.members, options.controls, options.codes, only)
    if options.table is not None:
        options.table.write_text(table(found), encoding="utf-8")
    if options.json:
        print(json.dumps(found))
    else:
        say(table(found))
        print(json.dumps(found["standard errors of fresh"]))
    if options.worlds < 20:
        return 0
    bad = [
        row["case"]
        for row in found["cases"]
        if (row["released"] < 0.95 * options.worlds) == row["must be released"]
        and (row["must be released"] or row["released"] > 0.05 * options.worlds)
    ]
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
