"""What a classifier trained on synthetic patients is worth on real ones (train on synthetic, test on real).

The labels of the paper's protocol are ORs of input codes, so a classifier only has to find the codes; the next-visit
protocol and the one of masked codes ask for what is not in the input. Intervals resample the real test patients and
hold the classifiers fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort, LabelRule
from adapcla.evaluation import curves
from adapcla.evaluation.classifiers import Settings, fit, predict
from adapcla.evaluation.contract import ALL, Comparison, Missing, Score
from adapcla.evaluation.curves import Floats, Statistic
from adapcla.evaluation.intervals import DRAWS, LEVEL, QUICK_DRAWS, draws_kept
from adapcla.evaluation.masking import masked_trial
from adapcla.evaluation.protocols import (
    FEWEST,
    BalancedTrial,
    Trial,
    balanced_trial,
    label_rule,
    natural_trial,
    next_visit_trial,
    tail_labels,
)
from adapcla.seeds import random_stream

#: Synthetic and test patients, labels, seed, most synthetic patients → what to learn from and to be judged on.
TrialOf = Callable[[Cohort, Cohort, LabelRule, int, int | None], Trial]
#: A quick look: every third label, a fifth of the balanced patients, fewer whole records and epochs.
QUICK_LABELS, QUICK_SCALE, QUICK_PATIENTS, QUICK_EPOCHS = 3, 0.2, 5_000, 8
#: Synthetic patients of two visits or more below which the next visit is not learned.
FEWEST_RETURNING = 50
_NOTHING_TO_LEARN = "no label, no test patient, or synthetic patients that are all alike"
#: Resamplings handled together, so that memory does not grow with their number.
_DRAWS_AT_ONCE = 50


@dataclass(frozen=True, eq=False)
class Judgement:
    """What was said of one label: positions of test patients, the truth and the predicted probability."""

    label: int
    rows: NDArray[np.int64]
    truth: NDArray[np.uint8]
    probability: Floats
    #: Why there was nothing to learn from, where that is so; the probability is then 0 for everybody.
    reason: str = ""

    def among(self, keep: NDArray[np.bool_]) -> Judgement:
        """What was said of some of the patients."""
        return replace(self, rows=self.rows[keep], truth=self.truth[keep], probability=self.probability[keep])


class Labels(NamedTuple):
    """The labels of a cohort: what each is made of, and which patients have it (patients × labels)."""

    rule: LabelRule
    present: NDArray[np.uint8]

    @classmethod
    def of(cls, train: Cohort) -> Labels:
        """The labels of a training cohort."""
        rule = label_rule(train)
        return cls(rule, rule.apply(train))


def _labels_of(comparison: Comparison) -> Labels:
    """The labels of a comparison: those of the training cohort, a few of them for a quick look."""
    rule, present = comparison.of_cohort(Labels.of, comparison.train)
    step = QUICK_LABELS if comparison.quick else 1
    return Labels(LabelRule(rule.names[::step], rule.codes[::step]), present[:, ::step])


def rule_of(comparison: Comparison) -> LabelRule:
    """What each label of a comparison is made of."""
    return _labels_of(comparison).rule


def tail_of(comparison: Comparison) -> NDArray[np.bool_]:
    """True for the rarest labels by the training patients."""
    return tail_labels(_labels_of(comparison).present)


def natural_judgements(comparison: Comparison) -> list[Judgement] | Missing:
    """Predictions for all test patients by one classifier of natural prevalence; or why there are none."""
    if comparison.synthetic.n_patients < FEWEST:
        return Missing(f"fewer than {FEWEST} synthetic patients")
    return _multi_label(comparison, natural_trial, whole=True)


def next_visit_judgements(comparison: Comparison) -> list[Judgement] | Missing:
    """Predictions of the labels of the last visit from the visits before it; or why there are none."""
    for name, cohort in (("synthetic", comparison.synthetic), ("test", comparison.test)):
        if int((cohort.visits_per_patient >= 2).sum()) < FEWEST_RETURNING:
            return Missing(f"fewer than {FEWEST_RETURNING} {name} patients of two visits or more")
    return _multi_label(comparison, next_visit_trial, whole=False)


def masked_judgements(comparison: Comparison) -> list[Judgement] | Missing:
    """Predictions of each label in the last visit with the label's codes masked; or why there are none."""
    if comparison.synthetic.n_patients < FEWEST_RETURNING:
        return Missing(f"fewer than {FEWEST_RETURNING} synthetic patients")
    rule, most = rule_of(comparison), QUICK_PATIENTS if comparison.quick else None
    trial, patients = masked_trial(comparison.synthetic, comparison.test, rule, comparison.seed, most)
    if not len(trial.valid.rows[0]) or not trial.test.targets[0].size:
        return Missing(_NOTHING_TO_LEARN)
    model = fit(trial.train, trial.valid, comparison.seed, settings_of(comparison))
    shape = len(patients), len(rule.names)
    said, truth = predict(model, trial.test)[0].reshape(shape), trial.test.targets[0].reshape(shape)
    return [Judgement(label, patients, truth[:, label], said[:, label]) for label in range(shape[1])]


def _had_before(comparison: Comparison) -> NDArray[np.uint8]:
    """Test patients × labels, 1 where a visit before the last holds a code of the label."""
    test, rule = comparison.test, rule_of(comparison)
    by_visit = rule.apply_visits(test)
    by_visit[test.last_visits] = 0
    return np.maximum.reduceat(by_visit, test.first_visits, axis=0) if test.n_patients else by_visit


def balanced_judgements(comparison: Comparison) -> list[Judgement] | Missing:
    """Predictions of one classifier per label on its balanced test patients; or why there are none.

    A label that the test patients can judge and the synthetic ones cannot teach is answered "no" for everybody:
    leaving it out would reward a generator that never writes it.
    """
    scale = QUICK_SCALE if comparison.quick else 1.0
    sets = balanced_trial(comparison.synthetic, comparison.test, rule_of(comparison), comparison.seed, scale)
    if sets.trial is None:
        return Missing(next(iter(sets.reasons.values()), "there is no label"))
    return _per_label(comparison, sets, sets.trial)


def label_table(judgements: Iterable[Judgement], names: tuple[str, ...]) -> list[dict[str, object]]:
    """One row per label: its name, n, accuracy, F1, AUPRC and AUROC, or None and the reason."""
    out: list[dict[str, object]] = []
    for each in judgements:
        ones = np.ones((len(each.rows), 1), dtype=np.int64)
        row: dict[str, object] = {"label": names[each.label], "n": len(each.rows), "reason": each.reason}
        for name, statistic in _STATISTICS.items():
            value = float(statistic(each.truth, each.probability, ones)[0])
            row[name] = value if np.isfinite(value) and not each.reason else None
        out.append(row)
    return out


_STATISTICS: dict[str, Statistic] = {
    "accuracy": curves.accuracy,
    "f1": curves.f1,
    "auprc": curves.average_precision,
    "auroc": curves.roc_area,
}


def settings_of(comparison: Comparison) -> Settings:
    """Training settings of a result, or of a quick look."""
    return replace(Settings(), epochs=QUICK_EPOCHS) if comparison.quick else Settings()


def _multi_label(comparison: Comparison, trial_of: TrialOf, whole: bool) -> list[Judgement] | Missing:
    """The judgements of one classifier with an output for each label; or why there are none.

    They are of all test patients (`whole`), or of those of two visits or more.
    """
    most = QUICK_PATIENTS if comparison.quick else None
    trial = trial_of(comparison.synthetic, comparison.test, rule_of(comparison), comparison.seed, most)
    if not len(trial.train.rows[0]) or not len(trial.valid.rows[0]) or not trial.test.targets[0].size:
        return Missing(_NOTHING_TO_LEARN)
    model = fit(trial.train, trial.valid, comparison.seed, settings_of(comparison))
    said, truth = predict(model, trial.test)[0], trial.test.targets[0]
    rows = np.arange(comparison.test.n_patients) if whole else np.flatnonzero(comparison.test.visits_per_patient >= 2)
    return [Judgement(label, rows, truth[:, label], said[:, label]) for label in range(truth.shape[1])]


def _per_label(comparison: Comparison, sets: BalancedTrial, trial: Trial) -> list[Judgement]:
    """The judgements of one classifier for each label, trained side by side."""
    model = fit(trial.train, trial.valid, comparison.seed, settings_of(comparison), sets.learned)
    said = predict(model, trial.test)
    out = [
        Judgement(label, rows, truth[:, 0], probability[:, 0])
        for label, rows, truth, probability in zip(sets.learned, trial.test.rows, trial.test.targets, said, strict=True)
    ]
    for label, (rows, truth) in sets.untaught.items():
        out.append(Judgement(label, rows, truth, np.zeros(len(rows)), sets.reasons[label]))
    return sorted(out, key=lambda each: each.label)


def mean_over_labels(
    judgements_of: Callable[[Comparison], list[Judgement] | Missing],
    statistic: Statistic,
    comparison: Comparison,
    *,
    onsets: bool = False,
) -> dict[str, Score]:
    """The mean of a statistic over all labels, and over the tail labels.

    With `onsets` also over patients who never had the label before the judged visit (`new`), and over those who had it
    (`repeat`): that what was there comes again is easy to say, and tells nothing of who will fall ill.
    """
    judgements = comparison.once(judgements_of)
    names = (ALL, "tail", "new", "repeat") if onsets else (ALL, "tail")
    if isinstance(judgements, Missing):
        return dict.fromkeys(names, judgements.score)
    tail = tail_of(comparison)
    chosen = {ALL: judgements, "tail": [each for each in judgements if tail[each.label]]}
    if onsets:
        before = comparison.once(_had_before)
        for name, value in (("new", 0), ("repeat", 1)):
            chosen[name] = [each.among(before[each.rows, each.label] == value) for each in judgements]
    return {name: mean_score(comparison, some, statistic) for name, some in chosen.items()}


def mean_score(comparison: Comparison, judgements: list[Judgement], statistic: Statistic) -> Score:
    """The mean over labels with its bootstrap interval; labels that the test patients cannot judge are left out."""
    judged = [each for each in judgements if 0 < int(each.truth.sum()) < len(each.truth)]
    if not judged:
        return Missing("no label is both present and absent among the test patients").score
    n = sum(len(each.rows) for each in judged)
    n_test = comparison.test.n_patients
    value = float(_means(judged, statistic, np.ones((n_test, 1), dtype=np.int64))[0])
    if not comparison.intervals:
        return Score(value, n)
    draws = QUICK_DRAWS if comparison.quick else DRAWS
    means = []
    for start in range(0, draws, _DRAWS_AT_ONCE):
        random = random_stream(comparison.seed, "utility-bootstrap", start)
        weights = random.poisson(1.0, size=(n_test, min(_DRAWS_AT_ONCE, draws - start)))
        means.append(_means(judged, statistic, weights))
    drawn = np.concatenate(means)
    low, high = np.nanquantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Score(value, n, float(low), float(high), redrawn=draws_kept(drawn))


def _means(judged: list[Judgement], statistic: Statistic, weights: NDArray[np.int64]) -> Floats:
    """The mean over labels for each weighting of the test patients, over the labels that it leaves judgeable."""
    values = np.stack([statistic(each.truth, each.probability, weights[each.rows]) for each in judged])
    known = np.isfinite(values)
    return np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
