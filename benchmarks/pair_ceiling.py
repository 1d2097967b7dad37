"""How near to real patients can tail pairs come, if pairs of at least k patients are known and all others are not?

    python benchmarks/pair_ceiling.py [--experiment experiments/company.toml]

The training part of the experiment is divided again: three quarters are counted, one quarter judges; test, validation
and control patients take no part. Nothing is trained and nothing is drawn: a sampler is the table of how often it
writes each pair, and its score is the share of that mass on pairs that the judging patients hold. Prints the tables of
`results/company/ceiling.md`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from adapcla.models.pair_counts import pair_counts
from numpy.typing import NDArray

from adapcla.data import Cohort, Hierarchy, Strata
from adapcla.data.split import parts
from adapcla.pipeline.spec import read_spec
from adapcla.pipeline.stages import read_data
from adapcla.tables import Table

Floats = NDArray[np.float64]
#: Patients that a pair must have to be known.
LEAST = (1, 2, 3, 5)


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs of two codes with at least one of the tail, or with any: one element for each."""

    visits: Floats
    patients: Floats
    chance: Floats
    of_sections: Floats
    judge_visits: Floats
    tail: NDArray[np.bool_]

    def score(self, written: Floats, tail: bool) -> float:
        """The share of what is written that the judging patients hold."""
        mass = np.where(self.tail, written, 0.0) if tail else written
        return float(mass[self.judge_visits > 0].sum() / mass.sum())

    def way(self, written: Floats, tail: bool) -> float:
        """How much of the way from chance to real patients."""
        chance, real = self.score(self.chance, tail), self.score(self.visits, tail)
        return (self.score(written, tail) - chance) / (real - chance)

    def known(self, least: int, kept: Floats, rest: Floats) -> Floats:
        """Pairs of enough patients as often as `kept` says; all others share what is left as `rest` says.

        Tail pairs and other pairs keep their totals.
        """
        out = np.where(self.patients >= least, kept, 0.0)
        for side in (self.tail, ~self.tail):
            others = side & (self.patients < least)
            left = self.visits[side].sum() - out[side].sum()
            out[others] = rest[others] * left / max(rest[others].sum(), 1e-12)
        return out

    def expected_in_others(self) -> Floats:
        """How often a pair of so many patients is expected in as many other patients (Good and Turing).

        By number of patients, tail pairs and others apart; from thirty patients on a count is taken as it is.
        """
        out = self.visits.copy()
        for side in (self.tail, ~self.tail):
            n = np.bincount(self.patients[side].astype(int), minlength=33)
            for k in range(1, 30):
                mine = side & (self.patients == k)
                if n[k] and n[k + 1]:
                    out[mine] = self.visits[mine] / k * min((k + 1) * n[k + 1] / n[k], k)
        return out


def table_of(cohort: Cohort, what: str) -> Floats:
    """Codes × codes: the visits, or the patients, of each pair."""
    counts = pair_counts(cohort)
    out = np.zeros((cohort.n_codes, cohort.n_codes))
    out[counts.first, counts.second] = getattr(counts, what)
    return out + out.T


def counted(cohort: Cohort, judge: Cohort) -> Pairs:
    """The pairs of some patients, beside those of the patients who judge."""
    upper = np.triu_indices(cohort.n_codes, 1)
    visits, own = table_of(cohort, "visits"), cohort.visit_counts.astype(np.float64)
    chance = np.outer(own, own)
    tree = Hierarchy.of(cohort.vocabulary)
    section = np.zeros(cohort.n_codes, dtype=np.int64) if tree is None else tree.section
    member = np.eye(int(section.max()) + 1)[section]
    lift = (member.T @ visits @ member) / np.maximum(member.T @ chance @ member, 1e-12)
    tail = Strata.of(cohort.visit_counts, cohort.vocabulary).tail
    return Pairs(
        visits[upper],
        table_of(cohort, "patients")[upper],
        chance[upper] * visits[upper].sum() / chance[upper].sum(),
        (chance * lift[section][:, section])[upper],
        table_of(judge, "visits")[upper],
        (tail[:, None] | tail[None])[upper],
    )


def samplers(pairs: Pairs) -> Iterator[tuple[str, Floats]]:
    """Each sampler by name, as what it writes."""
    yield "real patients: every pair as often as counted", pairs.visits
    yield "chance: codes of a visit know nothing of each other", pairs.chance
    yield "sections of codes alone", pairs.of_sections
    expected = pairs.expected_in_others()
    ways = {
        "as counted, others by chance": (pairs.visits, pairs.chance),
        "as counted, others by sections": (pairs.visits, pairs.of_sections),
        "as expected in others, others by sections": (expected, pairs.of_sections),
    }
    for name, (kept, rest) in ways.items():
        for least in LEAST:
            yield f"pairs of ≥ {least} patients {name}", pairs.known(least, kept, rest)


def tables(pairs: Pairs) -> Iterator[Table]:
    """What samplers reach, and where the tail pairs of counted and of judging patients lie."""
    rows = [
        [name, *(f"{number:.3f}" for tail in (False, True) for number in (pairs.score(x, tail), pairs.way(x, tail)))]
        for name, x in samplers(pairs)
    ]
    yield Table(["sampler", "PairSeen", "of the way", "TailPairSeen", "of the way"], rows)
    scale = pairs.visits.sum() / pairs.judge_visits.sum()
    lines = []
    for low, high in ((0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 9), (10, np.inf)):
        mine = pairs.tail & (pairs.patients >= low) & (pairs.patients <= high)
        name = f"{low}" if high == low else f"{low} and more" if high == np.inf else f"{low}–{high:.0f}"
        shares = [float(x[mine].sum() / x[pairs.tail].sum()) for x in (pairs.visits, pairs.judge_visits)]
        each = [float(x[mine].mean()) if mine.any() else 0.0 for x in (pairs.visits, pairs.judge_visits * scale)]
        lines.append([name, f"{mine.sum():,}", *(f"{x:.3f}" for x in shares), *(f"{x:.2f}" for x in each)])
    yield Table(
        ["patients", "tail pairs", "share of all, counted", "judging", "visits of each, counted", "judging, scaled"],
        lines,
    )


class Division(NamedTuple):
    """Patients to learn from, to stop on and to judge; test and control patients are not among them."""

    learned_from: Cohort
    valid: Cohort
    judge: Cohort


def division(experiment: Path) -> Division:
    """The training part of an experiment, divided again, and its validation part."""
    spec = read_spec(experiment)
    whole = read_data(spec.data)
    rows = parts(whole.n_patients, spec.split.seed, spec.split.control)
    train = whole.subset(rows.train)
    order = np.random.default_rng(77).permutation(train.n_patients)
    cut = train.n_patients // 4
    judge, learned_from = (train.subset(np.sort(some)) for some in (order[:cut], order[cut:]))
    return Division(learned_from, whole.subset(rows.valid), judge)


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiment", type=Path, default=Path("experiments/company.toml"))
    cohort, _, judge = division(parser.parse_args().experiment)
    print(f"{cohort.n_patients:,} patients are counted and {judge.n_patients:,} judge; {cohort.n_codes:,} codes.")
    for table in tables(counted(cohort, judge)):
        print("\n" + table.markdown())


if __name__ == "__main__":
    main()
