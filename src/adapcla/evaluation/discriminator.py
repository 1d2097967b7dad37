"""The discriminator: can a classifier tell synthetic from real test patients, and what gives them away?

Gradient boosting on sizes, gaps, codes and pairs, judged on patients that it did not learn from. ½ is a coin; what real
patients score against other real patients stands beside it in the stratum `matched`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.evaluation.contract import ALL, Comparison, Missing, Score
from adapcla.evaluation.curves import Floats, roc_area
from adapcla.evaluation.giveaways import KINDS, Columns, Giveaways
from adapcla.evaluation.intervals import DRAWS, LEVEL, QUICK_DRAWS, resampled
from adapcla.evaluation.references import some_patients
from adapcla.seeds import random_stream

#: Patients of each kind below which nothing is learned, and the most that are used.
FEWEST, MOST, QUICK_MOST = 50, 5_000, 1_000
#: Columns that are shuffled to see what the classifier loses without them.
N_SHUFFLED = 30


class Size(NamedTuple):
    """How much work the classifier gets."""

    folds: int
    rounds: int
    most: int


_FULL, _QUICK = Size(5, 100, MOST), Size(3, 40, QUICK_MOST)


@dataclass(frozen=True, eq=False)
class Bench:
    """As many test as synthetic patients: their columns, which of them are synthetic, and their parts."""

    seen: Giveaways
    synthetic: NDArray[np.uint8]
    #: The part of each patient; each part is judged by a classifier of the other parts.
    part: NDArray[np.int64]
    size: Size
    seed: int

    def said(self, columns: NDArray[np.int64]) -> Floats:
        """How synthetic each patient seems to the classifier of the other parts, by some of the columns."""
        out = np.zeros(len(self.synthetic))
        for k in range(self.size.folds):
            here = self.part == k
            model = self.fitted(k, columns)
            out[here] = model.predict_proba(self.seen.values[np.ix_(here, columns)])[:, 1]
        return out

    def fitted(self, k: int, columns: NDArray[np.int64]) -> Any:
        """The classifier of all parts but one."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        others = np.flatnonzero(self.part != k)
        model = HistGradientBoostingClassifier(
            max_iter=self.size.rounds,
            learning_rate=0.1,
            max_leaf_nodes=15,
            early_stopping=False,
            random_state=self.seed,
        )
        return model.fit(self.seen.values[np.ix_(others, columns)], self.synthetic[others])

    def area(self, said: Floats, weights: NDArray[np.int64]) -> Floats:
        """The area under the curve, mean over the parts, for each weighting of the patients."""
        parts = [self.part == k for k in range(self.size.folds)]
        return np.mean([roc_area(self.synthetic[here], said[here], weights[here]) for here in parts], axis=0)


def bench(comparison: Comparison) -> Bench | Missing:
    """What the classifier learns from and is judged on; or why there is none."""
    size = _QUICK if comparison.quick else _FULL
    for name, cohort in (("synthetic", comparison.synthetic), ("test", comparison.test)):
        if cohort.n_patients < FEWEST:
            return Missing(f"fewer than {FEWEST} {name} patients", cohort.n_patients)
    n = min(comparison.synthetic.n_patients, comparison.test.n_patients, size.most)
    cohorts = [some_patients(cohort, n, comparison.seed) for cohort in (comparison.test, comparison.synthetic)]
    columns = Columns.of(cohorts[0].followed_by(cohorts[1]))
    both = [Giveaways.of(cohort, columns) for cohort in cohorts]
    seen = Giveaways(both[0].names, both[0].kinds, np.concatenate([one.values for one in both]))
    synthetic = np.repeat(np.array([0, 1], dtype=np.uint8), n)
    draw = random_stream(comparison.seed, "discriminator parts")
    # Every part holds as many of either kind, so that its own share gives nothing away.
    part = np.concatenate([draw.permutation(np.arange(n, dtype=np.int64) % size.folds) for _ in cohorts])
    return Bench(seen, synthetic, part, size, comparison.seed)


def discriminator_auc(comparison: Comparison) -> dict[str, Score]:
    """Area under the curve of the classifier on all columns, and on the columns of each kind alone.

    References are scored on all columns only: each kind would cost as much again, and real patients score ½ on all.
    """
    made = comparison.once(bench)
    if isinstance(made, Missing):
        return {ALL: made.score}
    out = {ALL: _score(comparison, made, np.arange(len(made.seen.names), dtype=np.int64))}
    for kind in KINDS if comparison.intervals else ():
        columns = made.seen.of_kind(kind)
        why = Missing("no such column: a cohort without days, or without such codes")
        out[kind] = _score(comparison, made, columns) if len(columns) else why.score
    return out


def _score(comparison: Comparison, made: Bench, columns: NDArray[np.int64]) -> Score:
    """The area with its bootstrap interval over patients; the classifiers are held fixed."""
    said, n = made.said(columns), len(made.synthetic)
    value = float(made.area(said, np.ones((n, 1), dtype=np.int64))[0])
    if not comparison.intervals:
        return Score(value, n)
    weights = resampled(n, comparison.seed, QUICK_DRAWS if comparison.quick else DRAWS).astype(np.int64)
    areas = made.area(said, weights)
    low, high = np.nanquantile(areas, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Score(value, n, float(low), float(high))


def gave_away(comparison: Comparison) -> list[dict[str, Any]]:
    """The columns that tell synthetic from real best, one row each: what the classifier loses without them first.

    `alone` is the area under the curve of the column by itself (above ½: larger in synthetic patients); `lost` is what
    the classifier of one part loses when the column is shuffled among its patients. Columns that say most alone are
    shuffled, `N_SHUFFLED` of them.
    """
    made = comparison.once(bench)
    if isinstance(made, Missing):
        return []
    ones = np.ones((len(made.synthetic), 1), dtype=np.int64)
    alone = np.array([roc_area(made.synthetic, column, ones)[0] for column in made.seen.values.T])
    asked = np.argsort(-np.abs(alone - 0.5), kind="stable")[:N_SHUFFLED]
    real, synthetic = (made.seen.values[made.synthetic == kind].mean(axis=0) for kind in (0, 1))
    lost = _lost(made, asked)
    rows = [
        {
            "feature": made.seen.names[i],
            "kind": made.seen.kinds[i],
            "real": float(real[i]),
            "synthetic": float(synthetic[i]),
            "alone": float(alone[i]),
            "lost": lost[int(i)],
        }
        for i in asked
    ]
    return sorted(rows, key=lambda row: -row["lost"])


def _lost(made: Bench, asked: NDArray[np.int64]) -> dict[int, float]:
    """What the area of the first part loses when each column is shuffled."""
    here = np.flatnonzero(made.part == 0)
    every = np.arange(made.seen.values.shape[1], dtype=np.int64)
    model, truth = made.fitted(0, every), made.synthetic[here]
    ones = np.ones((len(here), 1), dtype=np.int64)
    values = made.seen.values[here]
    whole = float(roc_area(truth, model.predict_proba(values)[:, 1], ones)[0])
    order = random_stream(made.seed, "shuffled column").permutation(len(here))
    out = {}
    for i in asked:
        shuffled = values.copy()
        shuffled[:, i] = values[order, i]
        out[int(i)] = whole - float(roc_area(truth, model.predict_proba(shuffled)[:, 1], ones)[0])
    return out
