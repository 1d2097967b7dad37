"""Membership: can somebody who knows a person's record tell whether that person was trained on?

Each attack gives every member and every control a number; higher says member. Attacks on data know the synthetic
patients and, of the real world, members and controls together, in which nobody is marked: under no leak both are
exchangeable and every attack is at chance, whatever the sizes and the duplicates. Attacks on a model know likelihoods.
Metrics know no generator, so its maker hands these over in `Comparison.evidence`, one row for each patient of the
training cohort ("member_") and of the control cohort ("control_"), in the cohorts' order:

- `member_log_likelihood`, `control_log_likelihood`: under the model that made the synthetic patients; shape (n,)
- `member_attack_models`, `control_attack_models`: under the attack models, one column for each; shape (n, models)
- `member_included`, `control_included`: whether the attack model was trained on the patient; optional, same shape
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

from adapcla.disclosure import format_count
from adapcla.errors import InputError
from adapcla.evaluation.bootstrap import normal_score, wilson
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.metric import SIGNED
from adapcla.evaluation.privacy.groups import (
    FEWEST,
    MOST,
    NOBODY,
    STRATA,
    Groups,
    Mask,
    PrivacyMetric,
    Values,
    first_patients,
    too_few,
)
from adapcla.evaluation.privacy.nearest import code_sets, nearest
from adapcla.evaluation.privacy.singletons import held_by_few, is_written, pairs, people_of

#: The attacks on data alone: nearest synthetic patient; synthetic against real holders of the patient's rare codes; how
#: many of the pairs that the patient holds alone are written. A regression on these three (`shadow`) is scored beside
#: them: it learns from the people whom it is tried on, so that its interval is wider by √2.
DATA_ATTACKS = ("nearest", "rare_codes", "pairs")
#: False alarms among controls at which the share of caught members is reported.
FALSE_ALARMS = 0.01
#: Attack models below which per-patient means are too rough.
FEWEST_ATTACK_MODELS = 4


# ---- how well an attack does --------------------------------------------------------------------------------
def auc(members: NDArray[np.float64], controls: NDArray[np.float64], halves: bool = False) -> Score:
    """The chance that a member scores above a control (ties count half), with DeLong's interval.

    With `halves` the scores come from two models, each trained on the half that the other is tried on. What looks
    like a leak by chance in one half then looks so in both, so the variance is taken twice.

    >>> auc(np.array([3.0, 2.0]), np.array([1.0, 2.0])).value
    0.875
    """
    n, m = len(members), len(controls)
    ranks = stats.rankdata(np.concatenate([members, controls]))
    # The share of the other group below each patient: DeLong's placements.
    above = (ranks[:n] - stats.rankdata(members)) / m
    below = 1 - (ranks[n:] - stats.rankdata(controls)) / n
    value = float(above.mean())
    variance = (float(above.var(ddof=1)) / n if n > 1 else 0.0) + (float(below.var(ddof=1)) / m if m > 1 else 0.0)
    # Where every member beats every control the placements do not vary; half a comparison's doubt is left.
    variance = max(variance * (2 if halves else 1), 1 / (4.0 * n * m))
    return normal_score(value, n + m, float(np.sqrt(variance)), (0.0, 1.0))


def share_caught(
    members: NDArray[np.float64], controls: NDArray[np.float64], false_alarms: float = FALSE_ALARMS
) -> Score:
    """The share of members above the highest scores of controls, at most `false_alarms` of which lie above too.

    >>> share_caught(np.array([9.0, 8.0, 1.0, 0.0]), np.arange(8.0), 0.01).value
    0.5
    """
    highest = np.sort(controls)[::-1]
    threshold = highest[min(int(false_alarms * len(controls)), len(controls) - 1)]
    hits = int((members > threshold).sum())
    low, high = wilson(hits, len(members))
    return Score(hits / len(members), len(members) + len(controls), low, high)


def f1_in_population(members: Values, controls: Values, share: float) -> tuple[float, float]:
    """The best F1 of an attack where this share of the people are members, and that of calling everybody a member.

    >>> best, everybody = f1_in_population(np.array([3.0, 3.0]), np.array([1.0, 1.0]), 0.5)
    >>> round(best, 3), round(everybody, 3)
    (1.0, 0.667)
    """
    cuts = np.unique(np.concatenate([members, controls]))
    caught_share, alarms = (
        1 - np.searchsorted(np.sort(side), cuts, side="left") / len(side) for side in (members, controls)
    )
    top = 2 * share * caught_share
    best = float((top / (share * caught_share + (1 - share) * alarms + share)).max())
    return best, 2 * share / (1 + share)


# ---- attacks on data ----------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Attacked:
    """Numbers of every attack for some members (first) and controls, and who is in which stratum."""

    scores: dict[str, Values]
    n_members: int
    strata: dict[str, Mask]

    @classmethod
    def of(cls, comparison: Comparison) -> Attacked:
        """All attacks on the first members and controls of a comparison."""
        groups = comparison.once(Groups.of)
        rows = groups.real.first(MOST)
        features = patient_features(groups, rows)
        is_member = groups.real.is_member[rows]
        by_all = shadow(np.stack(list(features.values()), axis=1), is_member)
        people = {name: mask[rows] for name, mask in people_of(groups.real).items()}
        return cls({**features, "shadow": by_all}, int(is_member.sum()), people)

    def split(self, attack: str, stratum: str) -> tuple[Values, Values]:
        """The attack's numbers of the stratum's members and controls."""
        chosen, scores, n = self.strata[stratum], self.scores[attack], self.n_members
        return scores[:n][chosen[:n]], scores[n:][chosen[n:]]


def patient_features(groups: Groups, rows: NDArray[np.int64]) -> dict[str, Values]:
    """The attack numbers of some of the real patients."""
    real = groups.real
    x = code_sets(real.pool.subset(rows))
    y = code_sets(first_patients(groups.synthetic, 4 * MOST))
    return {
        "nearest": -nearest(x, y).distance.astype(np.float64),
        "rare_codes": rare_code_scores(x, real.rare_codes, real.holders, groups.synthetic.patient_counts),
        "pairs": _own_pairs_written(groups)[rows],
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


def _own_pairs_written(groups: Groups) -> Values:
    """How many of each real patient's own pairs are written beyond what their number lets expect, in deviations."""
    held = held_by_few(pairs, groups.real)
    alone = held.only(held.holders == 1)
    written = is_written(alone, pairs(groups.synthetic, held.census)).astype(np.float64)
    n = groups.real.pool.n_patients
    sizes = np.bincount(alone.patient, minlength=n).astype(np.float64)
    hits = np.bincount(alone.patient, weights=written, minlength=n)
    share = written.mean() if len(written) else 0.0
    spread = np.sqrt(np.maximum(sizes * share * (1 - share), 1e-12))
    return np.where(sizes > 0, (hits - share * sizes) / spread, 0.0)


def shadow(features: NDArray[np.float64], truth: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Out-of-fold scores of a logistic regression, as ranks within each half so that the halves compare.

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
        found = model.decision_function(spread.transform(features[~learn]))
        out[~learn] = stats.rankdata(found.round(9)) / len(found)
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


def _by_stratum(
    groups: Groups, split: Callable[[str], tuple[Values, Values]], score: Callable[[str], Score]
) -> dict[str, Score]:
    """One score for each stratum; people of a stratum that is hardly anybody are in the stratum of all anyway."""
    out = {}
    for stratum in STRATA:
        n_members, n_controls = map(len, split(stratum))
        missing = too_few(n_members, n_controls)
        if missing and stratum != ALL and 0 < n_members + n_controls < 2 * FEWEST:
            found = f"{format_count(n_members)} members and {format_count(n_controls)} controls count in `all` alone"
            missing = Missing(f"{NOBODY} apart: {found}", n_members + n_controls)
        out[stratum] = missing.score if missing else score(stratum)
    return out


# ---- attacks on a model -------------------------------------------------------------------------------------
def likelihood_per_code(log_likelihoods: NDArray[np.float64], n_codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Attack B: each patient's log-likelihood under the model, over the number of codes, so that length says nothing.

    >>> likelihood_per_code(np.array([-4.0, -4.0]), np.array([2, 4])).tolist()
    [-2.0, -1.0]
    """
    return np.asarray(log_likelihoods, dtype=np.float64) / np.maximum(n_codes, 1)


def likelihood_ratio(
    target: NDArray[np.float64], attack_models: NDArray[np.float64], included: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """LiRA (Carlini et al., 2022): is the target's likelihood like that of models with or without x?

    `attack_models` holds one column per attack model; `included` says which of them were trained on the patient.
    Normal distributions with each patient's own means and one pooled variance for all. Without models that were trained
    on the patient, the distance from the models without, in standard deviations.

    >>> attack_models = np.array([[-3.0, -1.0, 1.0, 3.0], [1.0, 3.0, -3.0, -1.0]])
    >>> included = np.array([[False, False, True, True], [True, True, False, False]])
    >>> likelihood_ratio(np.array([2.0, -2.0]), attack_models, included).round(6).tolist()
    [4.0, -4.0]
    >>> likelihood_ratio(np.array([1.0]), np.array([[-1.0, -1.0, 1.0, 1.0]])).round(3).tolist()
    [0.866]
    """
    attack_models = np.asarray(attack_models, dtype=np.float64)
    if attack_models.shape[1] < FEWEST_ATTACK_MODELS:
        raise InputError(
            f"{attack_models.shape[1]} attack models",
            expected=f"at least {FEWEST_ATTACK_MODELS}",
            remedy="train more attack models, or use the calibrated attack",
        )
    inside = np.zeros(attack_models.shape, dtype=bool) if included is None else np.asarray(included, dtype=bool)
    mean_out, out_spread = _means(attack_models, ~inside)
    if not inside.any():
        return (target - mean_out) / out_spread
    mean_in, in_spread = _means(attack_models, inside)
    return stats.norm.logpdf(target, mean_in, in_spread) - stats.norm.logpdf(target, mean_out, out_spread)


def _means(values: NDArray[np.float64], chosen: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
    """Each row's mean over the chosen columns (the mean of all rows where none is), and the pooled deviation."""
    n = chosen.sum(axis=1)
    sums = np.where(chosen, values, 0.0).sum(axis=1)
    mean = np.where(n > 0, sums / np.maximum(n, 1), sums.sum() / max(int(n.sum()), 1))
    squares = np.where(chosen, (values - mean[:, None]) ** 2, 0.0).sum()
    freedom = max(int(np.maximum(n - 1, 0).sum()), 1)
    return mean, max(float(np.sqrt(squares / freedom)), 1e-12)


SIDES = ("member", "control")
NO_MODEL = Missing("no likelihoods were given: this attack needs the model that made the synthetic patients")
NO_ATTACK_MODELS = Missing("no attack models were given")


def model_scores(comparison: Comparison, attack: str) -> list[NDArray[np.float64]] | Missing:
    """The attack's scores of all training and of all control patients, or why there are none.

    >>> from adapcla.data import Cohort
    >>> cohort = Cohort.of([[["A", "B"]], [["A"]]])
    >>> given = {f"{side}_log_likelihood": np.array([-4.0, -1.0]) for side in SIDES}
    >>> pair = Comparison.of(cohort, cohort, cohort, evidence=given)
    >>> [scores.tolist() for scores in model_scores(pair, "likelihood")]
    [[-2.0, -1.0], [-2.0, -1.0]]
    >>> model_scores(pair, "lira").reason
    'no attack models were given'
    """
    given = comparison.evidence
    if any(f"{side}_log_likelihood" not in given for side in SIDES):
        return NO_MODEL
    cohorts = (comparison.train, comparison.test if comparison.control is None else comparison.control)
    sizes = [np.diff(cohort.entry_starts) for cohort in cohorts]
    targets = [
        likelihood_per_code(_rows(given, f"{side}_log_likelihood", len(size)), size)
        for side, size in zip(SIDES, sizes, strict=True)
    ]
    if attack == "likelihood":
        return targets
    if any(f"{side}_attack_models" not in given for side in SIDES):
        return NO_ATTACK_MODELS
    by_attack_model = [
        _rows(given, f"{side}_attack_models", len(size)) / np.maximum(size, 1)[:, None]
        for side, size in zip(SIDES, sizes, strict=True)
    ]
    if by_attack_model[0].shape[1] < FEWEST_ATTACK_MODELS:
        return Missing(f"{by_attack_model[0].shape[1]} attack models, {FEWEST_ATTACK_MODELS} needed")
    included = None
    if all(f"{side}_included" in given for side in SIDES):
        included = np.concatenate([np.asarray(given[f"{side}_included"], dtype=bool) for side in SIDES])
    # Both groups share one variance: an attacker does not know who is who.
    ratios = likelihood_ratio(np.concatenate(targets), np.concatenate(by_attack_model), included)
    return [ratios[: len(targets[0])], ratios[len(targets[0]) :]]


def _rows(given: dict[str, NDArray[np.float64]], name: str, n: int) -> NDArray[np.float64]:
    """The named array, checked to have one finite row per patient."""
    values = np.asarray(given[name], dtype=np.float64)
    if len(values) != n or not np.isfinite(values).all():
        raise InputError(
            f"evidence {name!r} with {len(values)} rows, {int((~np.isfinite(values)).sum())} values not finite",
            expected=f"{n} rows of finite numbers, one per patient in the cohort's order",
            remedy="compute the likelihoods again for exactly these patients",
        )
    return values


# ---- metrics ------------------------------------------------------------------------------------------------
class DataAttack(PrivacyMetric):
    """An attack on the synthetic patients alone."""

    #: One attack, or the strongest of them where it is empty.
    attack: str = ""
    cost = "slow"

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        attacked = comparison.once(Attacked.of)
        # Every attack has a number for everybody, so that any of them knows the size of a stratum.
        return _by_stratum(
            groups, lambda name: attacked.split("nearest", name), lambda name: self._score(attacked, name, comparison)
        )

    def _score(self, attacked: Attacked, stratum: str, comparison: Comparison) -> Score:
        return _auc(attacked, self.attack, stratum)


class MembershipAUC(DataAttack):
    """Area under the curve of the strongest membership attack on data alone; the reason names it."""

    key, unit, by_domain, version = "membership_auc", "AUC", True, 2

    def _score(self, attacked: Attacked, stratum: str, comparison: Comparison) -> Score:
        name, score = strongest_attack(attacked, stratum)
        return replace(score, reason=f"strongest attack: {name}")


class MembershipCaught(DataAttack):
    """Share of members that the strongest attack on data alone catches at 1 % false alarms."""

    key, version = "membership_caught", 2

    def _score(self, attacked: Attacked, stratum: str, comparison: Comparison) -> Score:
        return share_caught(*attacked.split(strongest_attack(attacked, stratum)[0], stratum))


class MembershipF1(DataAttack):
    """Best F1 of the strongest attack on data alone among as many people as there are; the reason says how many."""

    key, unit = "membership_f1", "F1"

    def _score(self, attacked: Attacked, stratum: str, comparison: Comparison) -> Score:
        best, everybody, reason, n = _in_population(attacked, stratum, comparison)
        return Score(best, n, reason=f"{reason}; {everybody:.3g} by calling everybody a member")


class MembershipAdvantage(DataAttack):
    """What the strongest attack adds to calling everybody a member, of F1: (F − F₀)/(1 − F₀); usual limit .2."""

    key, bounds, origin = "membership_advantage", SIGNED, "El Emam et al., 2022"

    def _score(self, attacked: Attacked, stratum: str, comparison: Comparison) -> Score:
        best, everybody, reason, n = _in_population(attacked, stratum, comparison)
        return Score((best - everybody) / (1 - everybody), n, reason=reason)


def _in_population(attacked: Attacked, stratum: str, comparison: Comparison) -> tuple[float, float, str, int]:
    """F1 of the strongest attack and of calling everybody a member, among whom, and the patients it rests on."""
    members, controls = attacked.split(strongest_attack(attacked, stratum)[0], stratum)
    n, people = comparison.train.n_patients, comparison.population
    # Where nobody says among how many people the attacker looks, every second of them is a member.
    share, who = (n / max(people, n + 1), f"{people:,} people") if people else (0.5, "as many others as members")
    return (*f1_in_population(members, controls, share), f"among {who}", len(members) + len(controls))


class MembershipNearestAUC(DataAttack):
    """Area under the curve of the membership attack by distance to the nearest synthetic patient."""

    key, attack, unit, origin = "membership_nearest_auc", "nearest", "AUC", "Hayes et al., 2019"


class MembershipRareCodesAUC(DataAttack):
    """Area under the curve of the membership attack by synthetic against real holders of the patient's rare codes."""

    key, attack, unit = "membership_rare_codes_auc", "rare_codes", "AUC"


class MembershipPairsAUC(DataAttack):
    """Area under the curve of the membership attack by how many pairs that the patient holds alone are written."""

    key, attack, unit = "membership_pairs_auc", "pairs", "AUC"


class MembershipShadowAUC(DataAttack):
    """Area under the curve of the membership attack by logistic regression on the other attacks, trained on one half
    of the patients and used on the other.
    """

    key, attack, unit, version = "membership_shadow_auc", "shadow", "AUC", 2


class ModelAttack(PrivacyMetric):
    """An attack on the model: a number for each member and each control."""

    attack: str
    summary_of: ClassVar[Callable[..., Score]]

    def _scores(self, groups: Groups, comparison: Comparison) -> dict[str, Score]:
        found = model_scores(comparison, self.attack)
        if isinstance(found, Missing):
            return {ALL: found.score}
        real = groups.real
        numbers = np.concatenate([found[0][real.member_rows], found[1][real.control_rows]])
        people = people_of(real)

        def split(stratum: str) -> tuple[Values, Values]:
            chosen = people[stratum]
            return numbers[chosen & real.is_member], numbers[chosen & ~real.is_member]

        return _by_stratum(groups, split, lambda stratum: self.summary_of(*split(stratum)))


class MembershipLikelihoodAUC(ModelAttack):
    """Area under the curve of the membership attack by the model's likelihood per code."""

    key, attack, unit, summary_of = "membership_likelihood_auc", "likelihood", "AUC", staticmethod(auc)


class MembershipLikelihoodCaught(ModelAttack):
    """Share of members caught at 1 % false alarms by the membership attack by the model's likelihood per code."""

    key, attack, summary_of = "membership_likelihood_caught", "likelihood", staticmethod(share_caught)


class MembershipLiraAUC(ModelAttack):
    """Area under the curve of the membership attack by the likelihood ratio over attack models."""

    key, attack, unit, summary_of = "membership_lira_auc", "lira", "AUC", staticmethod(auc)
    origin = "Carlini et al., 2022"


class MembershipLiraCaught(ModelAttack):
    """Share of members caught at 1 % false alarms by the membership attack by the likelihood ratio of attack models."""

    key, attack, origin, summary_of = (
        "membership_lira_caught",
        "lira",
        "Carlini et al., 2022",
        staticmethod(share_caught),
    )
