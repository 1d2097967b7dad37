"""The discriminator: can a classifier tell synthetic from real test patients, and by what?

Gradient boosting on sizes, gaps, codes and pairs, evaluated on patients that it did not learn from. ½ is chance; what
real patients score against other real patients stands beside it in the stratum `matched`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.data.cooccurrence import cooccurrence_counts
from adapcla.data.ragged import segment_sums
from adapcla.evaluation.bootstrap import n_draws, percentile_interval, poisson_weights
from adapcla.evaluation.classifier import roc_area
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.metric import Metric
from adapcla.evaluation.references import some_patients
from adapcla.seeds import random_stream

Floats = NDArray[np.float64]
#: Codes and pairs that have a column of their own: those that most patients and visits hold.
N_CODES, N_PAIRS = 100, 50
#: The kinds of columns.
KINDS = ("sizes", "gaps", "codes", "pairs")
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
class Experiment:
    """As many test as synthetic patients: their columns, which of them are synthetic, and their parts."""

    features: PatientFeatures
    synthetic: NDArray[np.uint8]
    #: The part of each patient; each part is scored by a classifier of the other parts.
    part: NDArray[np.int64]
    size: Size
    seed: int

    def scores(self, columns: NDArray[np.int64]) -> Floats:
        """How synthetic each patient seems to the classifier of the other parts, by some of the columns."""
        out = np.zeros(len(self.synthetic))
        for k in range(self.size.folds):
            here = self.part == k
            model = self.fit(k, columns)
            out[here] = model.predict_proba(self.features.values[np.ix_(here, columns)])[:, 1]
        return out

    def fit(self, k: int, columns: NDArray[np.int64]) -> Any:
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
        return model.fit(self.features.values[np.ix_(others, columns)], self.synthetic[others])

    def area(self, scores: Floats, weights: NDArray[np.int64]) -> Floats:
        """The area under the curve, mean over the parts, for each weighting of the patients."""
        parts = [self.part == k for k in range(self.size.folds)]
        return np.mean([roc_area(self.synthetic[here], scores[here], weights[here]) for here in parts], axis=0)


def experiment(comparison: Comparison) -> Experiment | Missing:
    """What the classifier learns from and is evaluated on; or why there is none."""
    size = _QUICK if comparison.quick else _FULL
    for name, cohort in (("synthetic", comparison.synthetic), ("test", comparison.test)):
        if cohort.n_patients < FEWEST:
            return Missing(f"fewer than {FEWEST} {name} patients", cohort.n_patients)
    n = min(comparison.synthetic.n_patients, comparison.test.n_patients, size.most)
    cohorts = [some_patients(cohort, n, comparison.seed) for cohort in (comparison.test, comparison.synthetic)]
    columns = Columns.of(cohorts[0].followed_by(cohorts[1]))
    both = [PatientFeatures.of(cohort, columns) for cohort in cohorts]
    features = PatientFeatures(both[0].names, both[0].kinds, np.concatenate([one.values for one in both]))
    synthetic = np.repeat(np.array([0, 1], dtype=np.uint8), n)
    draw = random_stream(comparison.seed, "discriminator parts")
    # Every part holds as many of either kind, so that its own share tells nothing.
    part = np.concatenate([draw.permutation(np.arange(n, dtype=np.int64) % size.folds) for _ in cohorts])
    return Experiment(features, synthetic, part, size, comparison.seed)


class DiscriminatorAUC(Metric):
    """Area under the curve of gradient boosting that tells synthetic from test patients: ½ is chance.

    As near to ½ as real patients come is best: a lower value is no better, it tells synthetic patients apart as well.
    The strata are the columns of one kind alone. Real patients are scored on all columns only: each kind would cost as
    much again, and they score ½ on all.
    """

    key, suite, goal, unit, cost, against = "discriminator_auc", "discriminator", "match", "AUC", "slow", ("test",)
    sized, version = True, 2

    def compute(self, comparison: Comparison) -> dict[str, Score]:
        """The area of the classifier on all columns, and on the columns of each kind alone."""
        made = comparison.once(experiment)
        if isinstance(made, Missing):
            return {ALL: made.score}
        out = {ALL: _score(comparison, made, np.arange(len(made.features.names), dtype=np.int64))}
        for kind in KINDS if comparison.intervals else ():
            columns = made.features.of_kind(kind)
            why = Missing("no such column: a cohort without days, or without such codes")
            out[kind] = _score(comparison, made, columns) if len(columns) else why.score
        return out


def _score(comparison: Comparison, made: Experiment, columns: NDArray[np.int64]) -> Score:
    """The area with its bootstrap interval over patients; the classifiers are held fixed."""
    scores, n = made.scores(columns), len(made.synthetic)
    value = float(made.area(scores, np.ones((n, 1), dtype=np.int64))[0])
    if not comparison.intervals:
        return Score(value, n)
    weights = poisson_weights(n, comparison.seed, n_draws(comparison)).astype(np.int64)
    return Score(value, n, *percentile_interval(made.area(scores, weights)))


def feature_importance(comparison: Comparison) -> list[dict[str, Any]]:
    """The columns that tell synthetic from real best, one row each: what the classifier loses without them first.

    `alone` is the area under the curve of the column by itself (above ½: larger in synthetic patients); `lost` is what
    the classifier of one part loses when the column is shuffled among its patients. Columns that tell most alone are
    shuffled, `N_SHUFFLED` of them.
    """
    made = comparison.once(experiment)
    if isinstance(made, Missing):
        return []
    ones = np.ones((len(made.synthetic), 1), dtype=np.int64)
    alone = np.array([roc_area(made.synthetic, column, ones)[0] for column in made.features.values.T])
    chosen = np.argsort(-np.abs(alone - 0.5), kind="stable")[:N_SHUFFLED]
    real, synthetic = (made.features.values[made.synthetic == kind].mean(axis=0) for kind in (0, 1))
    lost = _lost(made, chosen)
    rows = [
        {
            "feature": made.features.names[i],
            "kind": made.features.kinds[i],
            "real": float(real[i]),
            "synthetic": float(synthetic[i]),
            "alone": float(alone[i]),
            "lost": lost[int(i)],
        }
        for i in chosen
    ]
    return sorted(rows, key=lambda row: -row["lost"])


def _lost(made: Experiment, chosen: NDArray[np.int64]) -> dict[int, float]:
    """What the area of the first part loses when each column is shuffled."""
    here = np.flatnonzero(made.part == 0)
    every = np.arange(made.features.values.shape[1], dtype=np.int64)
    model, truth = made.fit(0, every), made.synthetic[here]
    ones = np.ones((len(here), 1), dtype=np.int64)
    values = made.features.values[here]
    whole = float(roc_area(truth, model.predict_proba(values)[:, 1], ones)[0])
    order = random_stream(made.seed, "shuffled column").permutation(len(here))
    out = {}
    for i in chosen:
        shuffled = values.copy()
        shuffled[:, i] = values[order, i]
        out[int(i)] = whole - float(roc_area(truth, model.predict_proba(shuffled)[:, 1], ones)[0])
    return out


# ---- features -----------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class PatientFeatures:
    """Patients × columns, with the name and the kind of each column.

    >>> features = PatientFeatures.of(Cohort.of([[["A", "B"], ["A"]], [["B"]]]), Columns.of(Cohort.of([[["A", "B"]]])))
    >>> dict(zip(features.names[:2], features.values[0, :2].tolist()))
    {'visits': 2.0, 'codes': 3.0}
    >>> [features.values[:, features.names.index(name)].tolist() for name in ("A", "A + B")]
    [[2.0, 0.0], [1.0, 0.0]]
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    values: Floats

    @classmethod
    def of(cls, cohort: Cohort, columns: Columns) -> PatientFeatures:
        """The columns of every patient."""
        parts = {
            "sizes": _sizes(cohort),
            "gaps": _gaps(cohort) if columns.with_days else {},
            "codes": _codes(cohort, columns),
            "pairs": _pairs(cohort, columns),
        }
        named = [(name, kind, values) for kind, part in parts.items() for name, values in part.items()]
        table = np.stack([values for _, _, values in named], axis=1)
        return cls(tuple(name for name, _, _ in named), tuple(kind for _, kind, _ in named), table)

    def of_kind(self, kind: str) -> NDArray[np.int64]:
        """The positions of the columns of one kind."""
        return np.flatnonzero(np.array(self.kinds) == kind)


@dataclass(frozen=True, eq=False)
class Columns:
    """Which codes and pairs have a column, and how much likelier than by chance each pair of these codes is."""

    codes: NDArray[np.int64]
    pairs: NDArray[np.int64]
    #: Codes × codes: log of the visits that hold both, divided by what independence would give.
    lift: Floats
    with_days: bool

    @classmethod
    def of(cls, everybody: Cohort) -> Columns:
        """The columns that patients call for, real and synthetic ones together, so that neither side chose them.

        >>> Columns.of(Cohort.of([[["A", "B"]], [["B"]]])).pairs.tolist()
        [[0, 1]]
        """
        order = np.argsort(-everybody.patient_counts, kind="stable")[:N_CODES]
        codes = np.sort(order[everybody.patient_counts[order] > 0])
        # Half a visit gives a pair that never occurs a finite place.
        both = cooccurrence_counts(everybody)[codes][:, codes].toarray().astype(np.float64)
        alone = everybody.visit_counts[codes].astype(np.float64)
        lift = np.log((both + 0.5) / (np.outer(alone, alone) / max(everybody.n_visits, 1) + 0.5))
        first, second = np.triu_indices(len(codes), 1)
        most = np.argsort(-both[first, second], kind="stable")[:N_PAIRS]
        most = most[both[first, second][most] > 0]
        return cls(codes, np.stack([codes[first[most]], codes[second[most]]], axis=1), lift, everybody.days is not None)


def _sizes(cohort: Cohort) -> dict[str, Floats]:
    """Lengths of the record and of its visits, and how much of it repeats."""
    starts, sizes = np.asarray(cohort.patient_starts), cohort.codes_per_visit.astype(np.float64)
    visits = cohort.visits_per_patient.astype(np.float64)
    codes = segment_sums(sizes, starts)
    mean = codes / visits
    different = np.asarray((cohort.patient_matrix() > 0).sum(axis=1), dtype=np.float64).ravel()
    spread = np.maximum(segment_sums(sizes**2, starts) / visits - mean**2, 0.0)
    step = cohort.visits_with_next
    owner, shared = cohort.patient_of_visit[step], cohort.jaccard(step, step + 1)
    steps = np.maximum(visits - 1, 1)
    return {
        "visits": visits,
        "codes": codes,
        "different codes": different,
        "codes held again": 1 - different / codes,
        "codes per visit": mean,
        "smallest visit": np.minimum.reduceat(sizes, starts[:-1]),
        "largest visit": np.maximum.reduceat(sizes, starts[:-1]),
        "spread of visit sizes": np.sqrt(spread),
        "first visit": sizes[cohort.first_visits],
        "last visit": sizes[cohort.last_visits],
        "overlap with the next visit": np.bincount(owner, shared, minlength=cohort.n_patients) / steps,
    }


def _gaps(cohort: Cohort) -> dict[str, Floats]:
    """Days between visits; −1 where there is no second visit."""
    days, step = np.asarray(cohort.days, dtype=np.float64), cohort.visits_with_next
    gap, owner, n = days[step + 1] - days[step], cohort.patient_of_visit[step], cohort.n_patients
    several = cohort.visits_per_patient > 1
    total, steps = np.bincount(owner, gap, minlength=n), np.maximum(cohort.visits_per_patient - 1, 1)
    longest, shortest = np.full(n, -1.0), np.full(n, np.inf)
    np.maximum.at(longest, owner, gap)
    np.minimum.at(shortest, owner, gap)
    columns = {
        "days in all": total,
        "mean gap": total / steps,
        "longest gap": longest,
        "shortest gap": shortest,
        "gaps of 0 days": np.bincount(owner, gap == 0, minlength=n),
    }
    return {name: np.where(several, values, -1.0) for name, values in columns.items()}


def _codes(cohort: Cohort, columns: Columns) -> dict[str, Floats]:
    """Visits that hold each of the codes."""
    counts = cohort.patient_matrix()[:, columns.codes].toarray().astype(np.float64)
    tokens = cohort.vocabulary.tokens
    return {tokens[code]: counts[:, i] for i, code in enumerate(columns.codes)}


def _pairs(cohort: Cohort, columns: Columns) -> dict[str, Floats]:
    """Visits that hold each of the pairs, and how usual the pairs of the patient's common codes are."""
    starts, visits = np.asarray(cohort.patient_starts), cohort.matrix().tocsc()
    common = visits[:, columns.codes].tocsr().astype(np.float64)
    n_common = np.asarray(common.sum(axis=1)).ravel()
    n_pairs = segment_sums(n_common * (n_common - 1) / 2, starts)
    off_diagonal = columns.lift - np.diag(np.diag(columns.lift))
    lift = segment_sums(np.asarray(common.multiply(common @ off_diagonal).sum(axis=1)).ravel() / 2, starts)
    out = {"mean log lift of pairs": np.where(n_pairs > 0, lift / np.maximum(n_pairs, 1), 0.0)}
    tokens = cohort.vocabulary.tokens
    for first, second in columns.pairs:
        both = np.asarray(visits[:, [first]].multiply(visits[:, [second]]).todense(), dtype=np.float64).ravel()
        out[f"{tokens[first]} + {tokens[second]}"] = segment_sums(both, starts)
    return out
