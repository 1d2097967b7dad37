"""What the privacy gate lets pass: fresh draws of the distribution that must be released, and leaks that must not be.

    python benchmarks/gate_power.py                                   # two small worlds, some seconds
    python benchmarks/gate_power.py --worlds 50 --sizes 3000:750:1000 --out power.jsonl --table power.md
    python benchmarks/gate_power.py --worlds 50 --sizes 3000:250:1000,3000:2000:1000 --only fresh --out power.jsonl

A size is members, controls and codes. Every world is new simulated patients, divided into members, controls and fresh
patients, and rolled up to codes of at least eleven members, as a release is. Of each case it counts how many worlds are
released (every line met), and which lines were not. Of a leak the lines are looked at until one is not met, those first
that see it; so the lines of a leak that are named are the first ones. What is in `--out` is not measured again, so that
a run can be stopped and taken up. Ends with 1 where, of twenty worlds or more, less than 95 % of the fresh cohorts of a
size are released or more than 5 % of a leak are.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.console import meter, say
from adapcla.data import Code, Cohort, Vocabulary
from adapcla.data.ragged import expand_ranges, starts_from_sizes
from adapcla.data.rollup import roll_up
from adapcla.disclosure import MIN_COUNT
from adapcla.evaluation import METRICS, Comparison
from adapcla.evaluation.bootstrap import wilson
from adapcla.evaluation.comparison import Score
from adapcla.evaluation.privacy import LIMITS, GateLine, gate
from adapcla.evaluation.privacy.gate import error_of, gate_keys
from adapcla.io.simulator import simulate
from adapcla.seeds import random_stream
from adapcla.tables import Table

World = tuple[Cohort, Cohort, Cohort]
Size = tuple[int, int, int]
Row = dict[str, Any]
#: Patients that the memorising generator is shown: 1,000 members sixty times.
MEMBERS_SEEN = 60_000


def world(seed: int, members: int, controls: int, codes: int) -> World:
    """Members, controls and as many fresh patients as members, all drawn from one distribution."""
    everybody = simulate(patients=2 * members + controls, codes=codes, seed=seed)
    edges = np.cumsum([0, members, controls, members])
    parts = [everybody.subset(np.arange(a, b)) for a, b in pairwise(edges)]
    found = roll_up(parts[0], MIN_COUNT)
    one, two, three = (found.apply(part) for part in parts)
    return one, two, three


# ---- leaks --------------------------------------------------------------------------------------------------
def with_copies(members: Cohort, fresh: Cohort, share: float, seed: int) -> Cohort:
    """Fresh patients, a share of whom are members word for word."""
    n = round(share * fresh.n_patients)
    chosen = random_stream(seed, "copied").choice(members.n_patients, n, replace=False)
    return fresh.subset(np.arange(fresh.n_patients - n)).followed_by(members.subset(chosen))


def with_rare_copies(members: Cohort, fresh: Cohort, share: float) -> Cohort:
    """Fresh patients, a share of whom are the members with the rarest codes."""
    n = round(share * fresh.n_patients)
    rarest = np.minimum.reduceat(members.patient_counts[np.asarray(members.codes)], members.entry_starts[:-1])
    chosen = np.argsort(rarest, kind="stable")[:n]
    return fresh.subset(np.arange(fresh.n_patients - n)).followed_by(members.subset(chosen))


def with_visits(cohort: Cohort, place: NDArray[np.int64], source: Cohort, visit: NDArray[np.int64]) -> Cohort:
    """The cohort with some of its visits replaced by visits of another one."""
    rows = np.arange(cohort.n_visits)
    rows[place] = cohort.n_visits + visit
    both = cohort.followed_by(source)
    starts = np.asarray(both.visit_starts)
    codes = both.codes[expand_ranges(starts[rows], starts[rows + 1])]
    return Cohort(cohort.vocabulary, codes, starts_from_sizes(both.codes_per_visit[rows]), cohort.patient_starts)


def with_copied_visits(members: Cohort, fresh: Cohort, share: float, seed: int) -> Cohort:
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


def with_copied_triples(members: Cohort, fresh: Cohort, seed: int) -> Cohort:
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
    return cohort.keep_entries(stay)


def on_other_codes(cohort: Cohort) -> Cohort:
    """The same patients on codes that nobody else has."""
    codes = tuple(Code.of(f"OTHER/{number:05d}") for number in range(cohort.n_codes))
    return Cohort(Vocabulary(codes), cohort.codes, cohort.visit_starts, cohort.patient_starts)


class Case(NamedTuple):
    """What stands in the place of the synthetic patients, and the lines that are there to see it."""

    make: Callable[[World, int], World]
    #: The lines to look at first; none where it must be released, so that all lines are of interest.
    seen_by: tuple[str, ...] = ()

    @property
    def must_be_released(self) -> bool:
        """Whether nothing leaks."""
        return not self.seen_by


_COPIES = ("copy_excess", "rare_copy_excess")
CASES: dict[str, Case] = {
    "fresh": Case(lambda w, seed: w),
    "other codes": Case(lambda w, seed: (w[0], w[1], on_other_codes(w[2]))),
    "1 % copied patients": Case(lambda w, seed: (w[0], w[1], with_copies(w[0], w[2], 0.01, seed)), _COPIES),
    "5 % copied rare patients": Case(lambda w, seed: (w[0], w[1], with_rare_copies(w[0], w[2], 0.05)), _COPIES),
    "5 % copied visits": Case(
        lambda w, seed: (w[0], w[1], with_copied_visits(w[0], w[2], 0.05, seed)), ("singleton_visit_gap",)
    ),
    "copied triples": Case(lambda w, seed: _with_few_codes(w, seed), ("pair_holder_gap",)),
    "members": Case(lambda w, seed: (w[0], w[1], w[0]), ("copy_excess",)),
    "members without one code": Case(lambda w, seed: (w[0], w[1], without_one_code(w[0])), ("near_copy_excess",)),
    "memorising gpt": Case(
        lambda w, seed: (w[0], w[1], sample_memoriser(w[0], w[2].n_patients, seed)),
        ("copy_excess", "singleton_visit_gap", "pair_holder_gap"),
    ),
}
#: Cases that are not tried unless named: training takes a minute.
SLOW = ("memorising gpt",)


def sample_memoriser(members: Cohort, n_patients: int, seed: int) -> Cohort:
    """Patients of a small transformer that was trained until it writes members again."""
    from adapcla.generation import generator_for

    generator = generator_for(
        "gpt",
        seed=seed,
        architecture={"width": 64, "layers": 1, "heads": 4, "dropout": 0.0},
        budget={
            "passes": MEMBERS_SEEN / members.n_patients,
            "batch_size": 64,
            "learning_rate": 0.008,
            "weight_decay": 0.0,
            "table_decay": 0.0,
            "validations": 1,
            "threads": 1,
        },
        last_weights=True,
    )
    # The weights of the last epoch are kept, so that whom it is validated on decides nothing.
    return generator.fit(members, members.subset(np.arange(50))).sample(n_patients, seed=seed)


def _with_few_codes(given: World, seed: int) -> World:
    """Visits of at most five codes, of which three are a member's."""
    members, controls, fresh = (of_few_codes(cohort, seed) for cohort in given)
    return members, controls, with_copied_triples(members, fresh, seed)


# ---- what the gate says -------------------------------------------------------------------------------------
def lines_of(members: Cohort, controls: Cohort, synthetic: Cohort) -> tuple[list[GateLine], Any]:
    """All lines of the gate, and the scores behind them."""
    comparison = Comparison.of(members, controls, synthetic, controls)
    scores = {key: METRICS[key].compute(comparison) for key in gate_keys()}
    return gate(scores), scores


def refusal(members: Cohort, controls: Cohort, synthetic: Cohort, seen_by: Sequence[str]) -> dict[str, str]:
    """The first lines that are not met, with their outcomes; empty where every line is met.

    Args:
        members: Whom a leak would be about.
        controls: Patients of the same distribution.
        synthetic: What would be released.
        seen_by: Metrics whose lines are decided together and first.
    """
    comparison = Comparison.of(members, controls, synthetic, controls)
    scores: dict[str, dict[str, Score]] = {}
    for keys in (seen_by, [key for key in gate_keys() if key not in seen_by]):
        scores |= {key: METRICS[key].compute(comparison) for key in (*keys, "value_attack")}
        named = [line for limit, line in zip(LIMITS, gate(scores), strict=True) if limit.key in keys]
        if failed := {line.name: line.outcome for line in named if not line.passed}:
            return failed
    return {}


def try_case(given: World, name: str, seed: int) -> dict[str, Any]:
    """Whether a case is released in a world, what was not met, and of honest data the standard errors."""
    case, started = CASES[name], time.monotonic()
    if not case.must_be_released:
        failed = refusal(*case.make(given, seed), case.seen_by)
        return {"released": not failed, "not met": failed, "seconds": round(time.monotonic() - started, 1)}
    lines, scores = lines_of(*case.make(given, seed))
    failed = {line.name: line.outcome for line in lines if not line.passed}
    found = {limit.name: scores[limit.key][limit.stratum] for limit in LIMITS}
    known = {name: [score.value, error_of(score)] for name, score in found.items() if score.value is not None}
    seconds = round(time.monotonic() - started, 1)
    return {"released": not failed, "not met": failed, "found": known, "seconds": seconds}


def measure(sizes: Sequence[Size], worlds: int, only: Sequence[str] = (), out: Path | None = None) -> list[Row]:
    """Try every case in so many worlds of each size, world by world; rows that `out` holds are not tried again."""
    names = [name for name in CASES if (name in only if only else name not in SLOW)]
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()] if out and out.exists() else []
    done = {(tuple(row["size"]), row["seed"], row["case"]) for row in rows}
    with meter("worlds", worlds * len(sizes)) as bar:
        for seed, size in product(range(1001, 1001 + worlds), sizes):
            left = [name for name in names if (size, seed, name) not in done]
            given = world(seed, *size) if left else None
            for name in left:
                assert given is not None
                row = {"size": size, "seed": seed, "case": name, **try_case(given, name, seed)}
                rows.append(row)
                if out is not None:
                    with out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
            bar.advance(1)
    return rows


# ---- the tables ---------------------------------------------------------------------------------------------
def table(rows: Sequence[Row]) -> str:
    """For so many members and codes, by the number of controls: how many worlds of each case are released, with the
    95 % interval of the share, and of honest data the standard error of each line.
    """
    parts = []
    for members, codes in sorted({(row["size"][0], row["size"][2]) for row in rows}):
        some = [row for row in rows if (row["size"][0], row["size"][2]) == (members, codes)]
        controls = sorted({row["size"][1] for row in some})
        names = [name for name in CASES if any(row["case"] == name for row in some)]
        head = (f"{members:,} members, {codes:,} codes", *(f"{n:,} controls" for n in controls), "not met")
        released = [
            (name, *(_released(_rows_of(some, n, name)) for n in controls), _not_met(some, name)) for name in names
        ]
        parts.append(Table(head, released).markdown())
        if honest := [n for n in controls if _rows_of(some, n, "fresh")]:
            by_line = [_errors(_rows_of(some, n, "fresh")) for n in honest]
            errors = [(line, *(each[line] for each in by_line)) for line in by_line[0]]
            parts.append(Table(("error of fresh", *(f"{n:,} controls" for n in honest)), errors).markdown())
    return "\n\n".join(parts)


def _rows_of(rows: Sequence[Row], controls: int, name: str) -> list[Row]:
    return [row for row in rows if row["size"][1] == controls and row["case"] == name]


def _released(rows: Sequence[Row]) -> str:
    """How many of the worlds are released; of the others, how many with a line that is shown to be exceeded."""
    if not rows:
        return "–"
    n, k = len(rows), sum(row["released"] for row in rows)
    low, high = wilson(k, n)
    exceeded = sum("exceeded" in row["not met"].values() for row in rows)
    return f"{k} of {n} ({100 * low:.0f}–{100 * high:.0f} %)" + (f", {exceeded} exceeded" if k < n else "")


def _not_met(rows: Sequence[Row], name: str) -> str:
    """The line that most often stands in the way of a case."""
    found = Counter(line for row in rows if row["case"] == name for line in row["not met"])
    return f"`{found.most_common(1)[0][0]}`" if found else "–"


def _errors(rows: Sequence[Row]) -> dict[str, str]:
    """Of each line the mean standard error, and how far values lie from no leak in errors: 1 where they are right."""
    no_leak = {limit.name: limit.no_leak for limit in LIMITS}
    out = {}
    for line in rows[0]["found"]:
        value, error = np.array([row["found"][line] for row in rows]).T
        out[line] = f"{error.mean():.4f} ({np.sqrt((((value - no_leak[line]) / error) ** 2).mean()):.2f})"
    return out


def sizes_of(text: str) -> list[Size]:
    """Sizes from words.

    >>> sizes_of("3000:750:1000, 5500:1200:400")
    [(3000, 750, 1000), (5500, 1200, 400)]
    """
    out = []
    for each in text.split(","):
        members, controls, codes = (int(number) for number in each.split(":"))
        out.append((members, controls, codes))
    return out


def main() -> int:
    """Measure, print, and say whether honest cohorts pass and leaks do not."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=2)
    parser.add_argument("--sizes", type=sizes_of, default=sizes_of("1000:400:600"), help="members:controls:codes, …")
    parser.add_argument("--only", default="", help="cases with commas; all but the slow ones if left out")
    parser.add_argument("--out", type=Path, help="a file of rows, which is taken up where it ends")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    only = [name.strip() for name in options.only.split(",") if name.strip()]
    rows = measure(options.sizes, options.worlds, only, options.out)
    if options.table is not None:
        options.table.write_text(table(rows), encoding="utf-8")
    if options.json:
        print(json.dumps(rows))
    else:
        say(table(rows))
    shares: dict[tuple[Any, ...], list[bool]] = {}
    for row in rows:
        shares.setdefault((*row["size"], row["case"]), []).append(row["released"])
    known = [(CASES[place[-1]].must_be_released, np.mean(each)) for place, each in shares.items() if len(each) >= 20]
    return int(any(share < 0.95 if honest else share > 0.05 for honest, share in known))


if __name__ == "__main__":
    raise SystemExit(main())
