"""What a classifier trained on synthetic patients is worth on real ones (train on synthetic, test on real).

The labels of the paper's protocol are ORs of input codes, so a classifier only has to find the codes; the next-visit
protocol asks for what is not in the input. Intervals resample the real test patients and hold the classifiers fixed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from adapcla.metrics import curves
from adapcla.metrics.classifiers import Settings, fit, predict
from adapcla.metrics.contract import ALL, Comparison, Score, metric
from adapcla.metrics.curves import Floats, Statistic
from adapcla.metrics.intervals import DRAWS, LEVEL, QUICK_DRAWS
from adapcla.metrics.protocols import (
    FEWEST,
    BalancedTrial,
    Trial,
    balanced_trial,
    label_rule,
    natural_trial,
    next_visit_trial,
    tail_labels,
)
from adapcla.records import LabelRule
from adapcla.seeds import generator

#: The best there is: classifiers trained on the real training patients (on test patients they would know the answers).
CEILING = "train"
#: A quick look: every third label, a fifth of the balanced patients, fewer whole records and epochs.
QUICK_LABELS, QUICK_SCALE, QUICK_PATIENTS, QUICK_EPOCHS = 3, 0.2, 5_000, 8
#: Synthetic patients of two visits or more below which the next visit is not learned.
FEWEST_RETURNING = 50
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


def rule_of(comparison: Comparison) -> LabelRule:
    """The labels of a comparison: from the training cohort, a few of them for a quick look."""

    def made(_: object) -> LabelRule:
        rule = label_rule(comparison.train)
        step = QUICK_LABELS if comparison.quick else 1
        return LabelRule(rule.names[::step], rule.codes[::step])

    return comparison.of_cohort("label rule", comparison.train, made)


def tail_of(comparison: Comparison) -> NDArray[np.bool_]:
    """True for the rarest labels by the training patients."""
    return comparison.of_cohort(
        "tail labels", comparison.train, lambda train: tail_labels(rule_of(comparison).apply(train))
    )


def natural_judgements(comparison: Comparison) -> list[Judgement] | str:
    """Predictions for all test patients by one classifier of natural prevalence; or why there are none."""

    def made() -> list[Judgement] | str:
        if comparison.synthetic.n_patients < FEWEST:
            return f"fewer than {FEWEST} synthetic patients"
        most = QUICK_PATIENTS if comparison.quick else None
        trial = natural_trial(comparison.synthetic, comparison.test, rule_of(comparison), comparison.seed, most)
        return _multi_label(comparison, trial)

    return comparison.shared("natural judgements", made)


def next_visit_judgements(comparison: Comparison) -> list[Judgement] | str:
    """Predictions of the labels of the last visit from the visits before it; or why there are none."""

    def made() -> list[Judgement] | str:
        for name, cohort in (("synthetic", comparison.synthetic), ("test", comparison.test)):
            if int((cohort.visits_per_patient >= 2).sum()) < FEWEST_RETURNING:
                return f"fewer than {FEWEST_RETURNING} {name} patients of two visits or more"
        most = QUICK_PATIENTS if comparison.quick else None
        trial = next_visit_trial(comparison.synthetic, comparison.test, rule_of(comparison), comparison.seed, most)
        return _multi_label(comparison, trial)

    return comparison.shared("next-visit judgements", made)


def balanced_judgements(comparison: Comparison) -> list[Judgement] | str:
    """Predictions of one classifier a label on its balanced test patients; or why there are none.

    A label that the test patients can judge and the synthetic ones cannot teach is answered "no" for everybody:
    leaving it out would reward a generator that never writes it.
    """

    def made() -> list[Judgement] | str:
        scale = QUICK_SCALE if comparison.quick else 1.0
        sets = balanced_trial(comparison.synthetic, comparison.test, rule_of(comparison), comparison.seed, scale)
        if sets.trial is None:
            return next(iter(sets.reasons.values()), "there is no label")
        return _per_label(comparison, sets, sets.trial)

    return comparison.shared("balanced judgements", made)


def label_table(judgements: Iterable[Judgement], names: tuple[str, ...]) -> list[dict[str, object]]:
    """One row a label: its name, n, accuracy, F1, AUPRC and AUROC, or None and the reason."""
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


def _settings(comparison: Comparison) -> Settings:
    """Training settings of a result, or of a quick look."""
    return replace(Settings(), epochs=QUICK_EPOCHS) if comparison.quick else Settings()


def _multi_label(comparison: Comparison, trial: Trial) -> list[Judgement] | str:
    """The judgements of one classifier with an output for each label; or why there are none."""
    if not len(trial.train.rows[0]) or not len(trial.valid.rows[0]) or not trial.test.targets[0].size:
        return "no label, no test patient, or synthetic patients that are all alike"
    model = fit(trial.train, trial.valid, comparison.seed, _settings(comparison))
    said, truth, rows = predict(model, trial.test)[0], trial.test.targets[0], trial.test.rows[0]
    return [Judgement(label, rows, truth[:, label], said[:, label]) for label in range(truth.shape[1])]


def _per_label(comparison: Comparison, sets: BalancedTrial, trial: Trial) -> list[Judgement]:
    """The judgements of one classifier for each label, trained side by side."""
    model = fit(trial.train, trial.valid, comparison.seed, _settings(comparison), sets.learned)
    said = predict(model, trial.test)
    out = [
        Judgement(label, rows, truth[:, 0], probability[:, 0])
        for label, rows, truth, probability in zip(sets.learned, trial.test.rows, trial.test.targets, said, strict=True)
    ]
    for label, (rows, truth) in sets.untaught.items():
        out.append(Judgement(label, rows, truth, np.zeros(len(rows)), sets.reasons[label]))
    return sorted(out, key=lambda each: each.label)


def _macro(comparison: Comparison, found: list[Judgement] | str, statistic: Statistic) -> dict[str, Score]:
    """The mean of a statistic over all labels, and over the tail labels."""
    if isinstance(found, str):
        return {ALL: Score.missing(found), "tail": Score.missing(found)}
    tail = tail_of(comparison)
    return {
        ALL: _mean_score(comparison, found, statistic),
        "tail": _mean_score(comparison, [each for each in found if tail[each.label]], statistic),
    }


def _mean_score(comparison: Comparison, found: list[Judgement], statistic: Statistic) -> Score:
    """The mean over labels with its bootstrap interval; labels that the test patients cannot judge are left out."""
    judged = [each for each in found if 0 < int(each.truth.sum()) < len(each.truth)]
    if not judged:
        return Score.missing("no label is both present and absent among the test patients")
    n = sum(len(each.rows) for each in judged)
    value = float(_means(judged, statistic, np.ones((comparison.test.n_patients, 1), dtype=np.int64))[0])
    if not comparison.intervals:
        return Score(value, n)
    draws = QUICK_DRAWS if comparison.quick else DRAWS
    drawn = np.concatenate(
        [
            _means(
                judged,
                statistic,
                generator(comparison.seed, "utility-bootstrap", start).poisson(
                    1.0, size=(comparison.test.n_patients, min(_DRAWS_AT_ONCE, draws - start))
                ),
            )
            for start in range(0, draws, _DRAWS_AT_ONCE)
        ]
    )
    low, high = np.nanquantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Score(value, n, float(low), float(high))


def _means(judged: list[Judgement], statistic: Statistic, weights: NDArray[np.int64]) -> Floats:
    """The mean over labels for each weighting of the test patients, over the labels that it leaves judgeable."""
    values = np.stack([statistic(each.truth, each.probability, weights[each.rows]) for each in judged])
    known = np.isfinite(values)
    return np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)


@metric("tstr_acc", suite="utility", goal="up", origin="paper", cost="slow")
def tstr_acc(comparison: Comparison) -> dict[str, Score]:
    """Accuracy on balanced real patients, mean over the labels, one classifier a label trained on synthetic ones."""
    return _macro(comparison, balanced_judgements(comparison), curves.accuracy)


@metric("tstr_f1", suite="utility", goal="up", origin="paper", cost="slow")
def tstr_f1(comparison: Comparison) -> dict[str, Score]:
    """F1 on balanced real patients, mean over the labels, one classifier a label trained on synthetic ones."""
    return _macro(comparison, balanced_judgements(comparison), curves.f1)


@metric("tstr_auprc", suite="utility", goal="up", origin="paper", cost="slow")
def tstr_auprc(comparison: Comparison) -> dict[str, Score]:
    """AUPRC on balanced real patients, mean over the labels, one classifier a label trained on synthetic ones."""
    return _macro(comparison, balanced_judgements(comparison), curves.average_precision)


@metric("tstr_natural_auprc", suite="utility", goal="up", cost="slow")
def tstr_natural_auprc(comparison: Comparison) -> dict[str, Score]:
    """AUPRC on all real test patients, mean over the labels, one classifier for all labels."""
    return _macro(comparison, natural_judgements(comparison), curves.average_precision)


@metric("tstr_natural_auroc", suite="utility", goal="up", cost="slow")
def tstr_natural_auroc(comparison: Comparison) -> dict[str, Score]:
    """AUROC on all real test patients, mean over the labels, one classifier for all labels."""
    return _macro(comparison, natural_judgements(comparison), curves.roc_area)


@metric("tstr_next_auprc", suite="utility", goal="up", cost="slow")
def tstr_next_auprc(comparison: Comparison) -> dict[str, Score]:
    """AUPRC of the labels of the last visit, predicted from the visits before it, mean over the labels."""
    return _macro(comparison, next_visit_judgements(comparison), curves.average_precision)


@metric("tstr_next_auroc", suite="utility", goal="up", cost="slow")
def tstr_next_auroc(comparison: Comparison) -> dict[str, Score]:
    """AUROC of the labels of the last visit, predicted from the visits before it, mean over the labels."""
    return _macro(comparison, next_visit_judgements(comparison), curves.roc_area)
