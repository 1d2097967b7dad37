"""Membership attacks that need nothing but the synthetic patients, and the strongest of them.

Each attack gives every member and every control a score from the synthetic cohort. What it may know of the real
world is the union of both groups, in which nobody is marked: under no leak members and controls are exchangeable
and every attack is at chance, whatever the law, the sizes and the duplicates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

from adapcla.data import Cohort
from adapcla.data.fingerprints import identities, record_fingerprints
from adapcla.evaluation.comparison import Comparison, Score
from adapcla.evaluation.privacy.distances import code_sets, nearest, neighbours_within
from adapcla.evaluation.privacy.membership import auc, caught
from adapcla.evaluation.privacy.strata import Groups, assessed, by_stratum, first_patients

#: The attacks on data alone; the table of metrics says what each looks at.
DATA_ATTACKS = ("nearest", "calibrated", "density", "copies", "rare_codes", "pairs", "shadow")


@dataclass(frozen=True, eq=False)
class Attacked:
    """Scores of every attack on the same members (first) and controls, and who is in which stratum."""

    scores: dict[str, NDArray[np.float64]]
    n_members: int
    strata: dict[str, NDArray[np.bool_]]

    @classmethod
    def of(cls, comparison: Comparison) -> Attacked:
        """All attacks on the first members and controls of a comparison, as many of each."""
        groups = comparison.once(Groups.of)
        n = min(groups.n_matched, groups.most)
        features = patient_features(groups, n)
        masks = {name: np.concatenate([m[:n], c[:n]]) for name, (m, c) in groups.masks().items()}
        by_all = shadow(np.stack(list(features.values()), axis=1), np.arange(2 * n) < n)
        return cls({**features, "shadow": by_all}, n, masks)

    def split(self, attack: str, stratum: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The attack's scores of the stratum's members and controls."""
        chosen, scores = self.strata[stratum], self.scores[attack]
        n = self.n_members
        return scores[:n][chosen[:n]], scores[n:][chosen[n:]]


def patient_features(groups: Groups, n: int) -> dict[str, NDArray[np.float64]]:
    """The attack scores of the first `n` members and then of the first `n` controls; higher says member."""
    targets = [first_patients(groups.members, n), first_patients(groups.controls, n)]
    x = sparse.vstack([code_sets(cohort) for cohort in targets]).tocsr()
    y = code_sets(first_patients(groups.synthetic, 4 * groups.most))
    to_synthetic = nearest(x, y).distance.astype(np.float64)
    to_real = nearest(x, x, same=True).distance
    crowd = [neighbours_within(x, x, to_real, same=True), neighbours_within(x, y, to_real)]
    share_of_synthetic = x.shape[0] / max(y.shape[0], 1)
    return {
        "nearest": -to_synthetic,
        "calibrated": to_real.astype(np.float64) - to_synthetic,
        "density": np.log1p(crowd[1] * share_of_synthetic) - np.log1p(crowd[0]),
        "copies": _equal_records(groups, targets),
        "rare_codes": rare_code_scores(x, groups.rare_codes, groups.holders, groups.synthetic.patient_counts),
        "pairs": _own_pairs_emitted(groups, n),
    }


def rare_code_scores(
    x: sparse.csr_matrix, rare: NDArray[np.bool_], real: NDArray[np.int64], synthetic: NDArray[np.int64]
) -> NDArray[np.float64]:
    """For each patient the sum over its rare codes of log (1 + synthetic holders) − log (1 + real holders).

    >>> x = sparse.csr_matrix(np.array([[1.0, 1.0], [0.0, 1.0]]))
    >>> rare_code_scores(x, np.array([True, False]), np.array([1, 99]), np.array([3, 99])).round(3).tolist()
    [0.693, 0.0]
    """
    return np.asarray(x @ np.where(rare, np.log1p(synthetic) - np.log1p(real), 0.0), dtype=np.float64)


def _equal_records(groups: Groups, targets: list[Cohort]) -> NDArray[np.float64]:
    """Logarithm of one plus the number of synthetic records equal to each target's."""
    synthetic, *real = identities(*(record_fingerprints(c, groups.keys) for c in (groups.synthetic, *targets)))
    together = np.concatenate(real)
    times = np.bincount(synthetic, minlength=int(together.max(initial=0)) + 1)
    return np.log1p(times[together].astype(np.float64))


def _own_pairs_emitted(groups: Groups, n: int) -> NDArray[np.float64]:
    """For each target how many of its own pairs are emitted beyond what their number lets expect, in deviations."""
    pairs, n_members = groups.owned, groups.members.n_patients
    emitted = groups.emitted.holds(pairs.first, pairs.second).astype(np.float64)
    n_all = n_members + groups.controls.n_patients
    sizes = np.bincount(pairs.owner, minlength=n_all).astype(np.float64)
    hits = np.bincount(pairs.owner, weights=emitted, minlength=n_all)
    share = emitted.mean() if len(emitted) else 0.0
    spread = np.sqrt(np.maximum(sizes * share * (1 - share), 1e-12))
    score = np.where(sizes > 0, (hits - share * sizes) / spread, 0.0)
    return np.concatenate([score[:n], score[n_members : n_members + n]])


def shadow(features: NDArray[np.float64], truth: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Attack F: out-of-fold scores of a logistic regression, as ranks within each half so that the halves compare.

    >>> values = np.concatenate([np.ones(40), np.zeros(40)])[:, None]
    >>> scores = shadow(values, values[:, 0] > 0)
    >>> bool(scores[:40].min() > scores[40:].max())
    True
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import QuantileTransformer

    # Rows stand in drawing order, so taking turns is a random half of either group.
    n_members = int(truth.sum())
    half = np.concatenate([np.arange(n_members), np.arange(len(truth) - n_members)]) % 2 == 0
    out = np.zeros(len(truth))
    for learn in (half, ~half):
        if len(np.unique(truth[learn])) < 2 or learn.all():
            continue
        # All rows are taken, said by their number: that nobody is left out by None is new in scikit-learn 1.5.
        n = int(learn.sum())
        spread = QuantileTransformer(n_quantiles=min(200, n), subsample=n).fit(features[learn])
        model = LogisticRegression(max_iter=1000).fit(spread.transform(features[learn]), truth[learn])
        judged = model.decision_function(spread.transform(features[~learn]))
        out[~learn] = stats.rankdata(judged.round(9)) / len(judged)
    return out


def strongest(attack_scores: dict[str, Score]) -> tuple[str, Score]:
    """The attack with the highest area under the curve.

    >>> strongest({"a": Score(0.5, 9), "b": Score(0.7, 9)})[0]
    'b'
    """
    return max(attack_scores.items(), key=lambda item: (item[1].value or 0.0, item[0]))


def strongest_attack(attacked: Attacked, stratum: str) -> tuple[str, Score]:
    """The attack with the highest area under the curve in a stratum, and that score."""
    return strongest({name: _auc(attacked, name, stratum) for name in DATA_ATTACKS})


def _auc(attacked: Attacked, attack: str, stratum: str) -> Score:
    """The area under the curve of one attack in one stratum."""
    return auc(*attacked.split(attack, stratum), halves=attack == "shadow")


def _by_stratum(comparison: Comparison, judge: Callable[[Attacked, str], Score]) -> dict[str, Score]:
    """One score of the attacks on a comparison for each stratum."""
    attacked = comparison.once(Attacked.of)
    # Every attack has a score for everybody, so that any of them tells the size of a stratum.
    return by_stratum(lambda stratum: attacked.split("nearest", stratum), lambda stratum: judge(attacked, stratum))


@assessed
def membership_auc(comparison: Comparison, groups: Groups) -> dict[str, Score]:
    """The area under the curve of the strongest attack, whose name is the reason."""

    def judge(attacked: Attacked, stratum: str) -> Score:
        name, score = strongest_attack(attacked, stratum)
        return replace(score, reason=f"strongest attack: {name}")

    return _by_stratum(comparison, judge)


@assessed
def membership_caught(comparison: Comparison, groups: Groups) -> dict[str, Score]:
    """The share of members that the strongest attack catches at 1 % false alarms."""

    def judge(attacked: Attacked, stratum: str) -> Score:
        return caught(*attacked.split(strongest_attack(attacked, stratum)[0], stratum))

    return _by_stratum(comparison, judge)


def attack_auc(attack: str, comparison: Comparison, groups: Groups) -> dict[str, Score]:
    """The area under the curve of one attack."""
    return _by_stratum(comparison, lambda attacked, stratum: _auc(attacked, attack, stratum))
