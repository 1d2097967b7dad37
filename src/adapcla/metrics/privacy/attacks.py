"""Membership attacks that need nothing but the synthetic patients, and their registration, strongest first.

Each attack gives every member and every control a score from the synthetic cohort. What it may know of the real
world is the union of both groups, in which nobody is marked: under no leak members and controls are exchangeable
and every attack is at chance, whatever the law, the sizes and the duplicates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

from adapcla.metrics.contract import Comparison, Score, metric
from adapcla.metrics.privacy.distances import code_sets, nearest, neighbours_within
from adapcla.metrics.privacy.fingerprints import identities, record_fingerprints
from adapcla.metrics.privacy.membership import auc, caught
from adapcla.metrics.privacy.strata import STRATA, Groups, assessed, groups, head, too_few
from adapcla.records import Cohort

#: The attacks on data alone, by name, with what each looks at.
DATA_ATTACKS = {
    "nearest": "distance to the nearest synthetic patient",
    "calibrated": "the same, less the distance to the nearest other real patient",
    "density": "synthetic against real patients within the distance to the nearest other real patient",
    "copies": "synthetic records equal to the patient's",
    "rare_codes": "synthetic against real holders of the patient's rare codes",
    "pairs": "how many of the pairs that the patient holds alone are emitted",
    "shadow": "logistic regression on all of these, trained on one half of the patients and used on the other",
}


@dataclass(frozen=True, eq=False)
class Attacked:
    """Scores of every attack on the same members (first) and controls, and who is in which stratum."""

    scores: dict[str, NDArray[np.float64]]
    n_members: int
    strata: dict[str, NDArray[np.bool_]]

    def split(self, attack: str, stratum: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The attack's scores of the stratum's members and controls."""
        chosen, scores = self.strata[stratum], self.scores[attack]
        n = self.n_members
        return scores[:n][chosen[:n]], scores[n:][chosen[n:]]


def attacked(comparison: Comparison) -> Attacked:
    """The data-only attacks on a comparison, made once."""
    return comparison.shared("privacy attacks", lambda: _attacked(groups(comparison)))


def _attacked(made: Groups) -> Attacked:
    """All attacks on the first members and controls, as many of each."""
    n = min(made.n_matched, made.most)
    features = patient_features(made, n)
    masks = {name: np.concatenate([m[:n], c[:n]]) for name, (m, c) in made.masks().items()}
    truth = np.arange(2 * n) < n
    scores = dict(features)
    scores["shadow"] = shadow(np.stack(list(features.values()), axis=1), truth)
    return Attacked(scores, n, masks)


def patient_features(made: Groups, n: int) -> dict[str, NDArray[np.float64]]:
    """The attack scores of the first `n` members and then of the first `n` controls; higher says member."""
    targets = [head(made.members, n), head(made.controls, n)]
    x = sparse.vstack([code_sets(cohort) for cohort in targets]).tocsr()
    y = code_sets(head(made.synthetic, 4 * made.most))
    to_synthetic = nearest(x, y).distance.astype(np.float64)
    to_real = nearest(x, x, same=True).distance
    crowd = [neighbours_within(x, x, to_real, same=True), neighbours_within(x, y, to_real)]
    share_of_synthetic = x.shape[0] / max(y.shape[0], 1)
    return {
        "nearest": -to_synthetic,
        "calibrated": to_real.astype(np.float64) - to_synthetic,
        "density": np.log1p(crowd[1] * share_of_synthetic) - np.log1p(crowd[0]),
        "copies": _equal_records(made, targets),
        "rare_codes": rare_code_scores(x, made.rare_codes, made.holders, made.synthetic.patient_counts),
        "pairs": _own_pairs_emitted(made, n),
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


def _equal_records(made: Groups, targets: list[Cohort]) -> NDArray[np.float64]:
    """Logarithm of one plus the number of synthetic records equal to each target's."""
    synthetic, *real = identities(*(record_fingerprints(c, made.keys) for c in (made.synthetic, *targets)))
    together = np.concatenate(real)
    times = np.bincount(synthetic, minlength=int(together.max(initial=0)) + 1)
    return np.log1p(times[together].astype(np.float64))


def _own_pairs_emitted(made: Groups, n: int) -> NDArray[np.float64]:
    """For each target how many of its own pairs are emitted beyond what their number lets expect, in deviations."""
    pairs, n_members = made.owned, made.members.n_patients
    found = made.emitted.holds(pairs.first, pairs.second).astype(np.float64)
    n_all = n_members + made.controls.n_patients
    sizes = np.bincount(pairs.owner, minlength=n_all).astype(np.float64)
    hits = np.bincount(pairs.owner, weights=found, minlength=n_all)
    share = found.mean() if len(found) else 0.0
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
        spread = QuantileTransformer(n_quantiles=min(200, int(learn.sum())), subsample=None).fit(features[learn])
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


def _by_stratum(hit: Attacked, judge: Callable[[str], Score]) -> dict[str, Score]:
    """One score for each stratum, null where it is too small."""
    out = {}
    for stratum in STRATA:
        members, controls = hit.split("nearest", stratum)
        reason = too_few(len(members), len(controls))
        out[stratum] = Score.missing(reason, len(members) + len(controls)) if reason else judge(stratum)
    return out


def _auc(hit: Attacked, attack: str, stratum: str) -> Score:
    return auc(*hit.split(attack, stratum), halves=attack == "shadow")


def _strongest_attack(hit: Attacked, stratum: str) -> tuple[str, Score]:
    return strongest({name: _auc(hit, name, stratum) for name in DATA_ATTACKS})


@metric("membership_auc", suite="privacy", goal="down", unit="AUC", origin="own", cost="slow")
@assessed
def membership_auc(comparison: Comparison, made: Groups) -> dict[str, Score]:
    """Area under the curve of the strongest membership attack on data alone; the reason names it."""
    hit = attacked(comparison)

    def judge(stratum: str) -> Score:
        name, score = _strongest_attack(hit, stratum)
        return Score(score.value, score.n, score.low, score.high, f"strongest attack: {name}")

    return _by_stratum(hit, judge)


@metric("membership_caught", suite="privacy", goal="down", origin="own", cost="slow")
@assessed
def membership_caught(comparison: Comparison, made: Groups) -> dict[str, Score]:
    """Share of members that the strongest attack on data alone catches at 1 % false alarms."""
    hit = attacked(comparison)
    return _by_stratum(hit, lambda stratum: caught(*hit.split(_strongest_attack(hit, stratum)[0], stratum)))


def _register(name: str, looks_at: str) -> None:
    """Register one attack on data alone as a metric of its own."""

    def compute(comparison: Comparison, made: Groups) -> dict[str, Score]:
        hit = attacked(comparison)
        return _by_stratum(hit, lambda stratum: _auc(hit, name, stratum))

    compute.__doc__ = f"Area under the curve of the membership attack by {looks_at}."
    origin = "own" if name != "nearest" else "Hayes et al., 2019"
    metric(f"membership_{name}_auc", suite="privacy", goal="down", unit="AUC", origin=origin, cost="slow")(
        assessed(compute)
    )


for _name, _looks_at in DATA_ATTACKS.items():
    _register(_name, _looks_at)
