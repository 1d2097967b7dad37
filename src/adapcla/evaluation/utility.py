"""What a classifier trained on synthetic patients is worth on real ones (train on synthetic, test on real).

A `Task` says what is learned from (synthetic patients, for training and for the choice of the epoch) and what it is
evaluated on (test patients). The labels of the paper's task are ORs of input codes, so a classifier only has to find
the codes; the tasks of the next visit, of masked codes and of outcomes are about what is not in the input. Intervals
resample the test patients and hold the classifiers fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort, LabelRule, Vocabulary
from adapcla.data.fingerprints import code_keys, record_fingerprints
from adapcla.data.quantization import Quantizer
from adapcla.data.ragged import starts_from_sizes
from adapcla.data.vocabulary import DEATH, LENGTH_OF_STAY, READMITTED
from adapcla.evaluation.bootstrap import n_draws, percentile_interval
from adapcla.evaluation.classifier import (
    ClassifierSettings,
    ExampleSet,
    Measure,
    accuracy,
    average_precision,
    f1,
    fit_classifiers,
    predict,
    roc_area,
)
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.metric import Metric
from adapcla.evaluation.stays import Stays, synthetic_stays
from adapcla.seeds import random_stream

Floats = NDArray[np.float64]
Labels = NDArray[np.uint8]
#: The paper's balanced sets: training and validation patients (synthetic), test patients (real).
BALANCED_TRAIN, BALANCED_VALID, BALANCED_TEST = 5_000, 500, 1_000
#: Patients of the rarer class below which a label is not evaluated.
FEWEST = 10
#: Share of the synthetic patients that chooses the epoch in the natural and next-visit protocols.
VALID_SHARE = 0.1
#: Records longer than this are read from their last visits on.
LONGEST_RECORD = 20
N_LABELS = 25
#: The rarest labels, which make up the tail stratum.
N_TAIL_LABELS = 8
#: Examples of synthetic patients, where these are fewer, and the most labels for each.
EXAMPLES, MOST_LABELS = 20_000, 4
#: Most examples of test patients.
MOST_TESTED = 40_000
#: The first part of the codes that say which label is to be predicted.
QUESTION = "zz-question"
#: A quick look: every third label, a fifth of the balanced patients, fewer whole records and epochs.
QUICK_LABELS, QUICK_SCALE, QUICK_PATIENTS, QUICK_EPOCHS = 3, 0.2, 5_000, 8
#: Synthetic patients of two visits or more below which the next visit is not learned.
FEWEST_RETURNING = 50
_NOTHING_TO_LEARN = "no label, no test patient, or synthetic patients that are all alike"
#: Resamplings handled together, so that memory does not grow with their number.
_DRAWS_AT_ONCE = 50
#: A synthetic and a test cohort, the labels, the seed and the most synthetic patients → the task.
TaskOf = Callable[[Cohort, Cohort, LabelRule, int, int | None], "Task"]


# ---- tasks --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Task:
    """What to learn from (synthetic: train and valid) and what to be evaluated on (real: test)."""

    train: ExampleSet
    valid: ExampleSet
    test: ExampleSet


def label_rule(train: Cohort) -> LabelRule:
    """The rule in the training cohort's card where it was labelled when read, else 25 groups of its codes.

    >>> cohort = LabelRule.of({"heart": ["I10"]}).label(Cohort.of([[["I10"]], [["E11"]]]))
    >>> label_rule(cohort).names
    ('heart',)
    """
    return LabelRule.from_card(train.card) or LabelRule.auto(train, n=N_LABELS)


def tail_labels(labels: Labels, n: int = N_TAIL_LABELS) -> NDArray[np.bool_]:
    """True for the `n` rarest labels (of fewer than 3 × n labels, the rarest third); ties to the first.

    >>> tail_labels(np.array([[1, 1, 0], [1, 0, 0], [1, 0, 1]], dtype=np.uint8)).tolist()
    [False, True, False]
    """
    n_labels = labels.shape[1]
    out = np.zeros(n_labels, dtype=bool)
    out[np.argsort(labels.sum(axis=0), kind="stable")[: min(n, n_labels // 3)]] = True
    return out


def recent(cohort: Cohort, n_visits: int = LONGEST_RECORD) -> Cohort:
    """The cohort with only the last `n_visits` visits of each patient.

    >>> list(recent(Cohort.of([[["A"], ["B"], ["C"]]]), 2).patients())
    [[['B'], ['C']]]
    """
    stops = np.asarray(cohort.patient_starts[1:])
    return cohort.with_visits(np.maximum(cohort.first_visits, stops - n_visits), stops)


def last_visit_labels(cohort: Cohort, rule: LabelRule) -> Labels:
    """Labels of the last visit of each patient of two or more visits, patients × labels.

    >>> cohort = Cohort.of([[["A"], ["B"]], [["A"]]])
    >>> last_visit_labels(cohort, LabelRule.of({"a": ["A"], "b": ["B"]})).tolist()
    [[0, 1]]
    """
    several = cohort.visits_per_patient >= 2
    return rule.apply_visits(cohort)[cohort.last_visits[several]]


def draw_balanced(
    truth: Labels, n: int, random: np.random.Generator, among: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Up to `n` patients (of those `among`), half with the label and half without, without replacement, alternating.

    >>> drawn = draw_balanced(np.array([1, 0, 0, 0, 1, 0], dtype=np.uint8), 10, random_stream(1, "demo"))
    >>> len(drawn), sorted(drawn[::2].tolist())
    (4, [0, 4])
    """
    pool = np.arange(len(truth)) if among is None else among
    sides = [random.permutation(pool[truth[pool] == value]) for value in (1, 0)]
    half = min(n // 2, len(sides[0]), len(sides[1]))
    return np.stack([side[:half] for side in sides], axis=1).reshape(-1)


def apart(
    records: NDArray[np.uint64], rows: NDArray[np.int64], share: float, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows in two shuffled parts, about `share` of the distinct records in the second; no record is in both.

    A generator may repeat itself; were a repeat in both parts, the epoch that memorises would look like the best.

    >>> large, small = apart(np.array([7, 7, 8, 9], dtype=np.uint64), np.arange(4), 0.3, random_stream(1, "demo"))
    >>> bool(np.isin([7, 7, 8, 9], np.array([7, 7, 8, 9])[small]).any()), len(large) + len(small)
    (True, 4)
    """
    kinds, kind = np.unique(records[rows], return_inverse=True)
    n_small = min(max(1, round(share * len(kinds))), len(kinds) - 1)
    small = np.zeros(len(kinds), dtype=bool)
    small[random.permutation(len(kinds))[:n_small]] = True
    chosen = small[kind]
    return random.permutation(rows[~chosen]), random.permutation(rows[chosen])


def record_keys(cohort: Cohort) -> NDArray[np.uint64]:
    """A number for each patient, equal for equal sequences of visits.

    >>> keys = record_keys(Cohort.of([[["A"]], [["B"]], [["A"]]]))
    >>> bool(keys[0] == keys[2]), bool(keys[0] == keys[1])
    (True, False)
    """
    return record_fingerprints(cohort, code_keys(cohort.vocabulary))[:, 0]


class BalancedSizes(NamedTuple):
    """Numbers of patients of a balanced task."""

    train: int
    valid: int
    test: int

    @classmethod
    def times(cls, scale: float) -> BalancedSizes:
        """The paper's numbers times a factor.

        >>> BalancedSizes.times(0.2)
        BalancedSizes(train=1000, valid=100, test=200)
        """
        return cls(*(round(scale * n) for n in (BALANCED_TRAIN, BALANCED_VALID, BALANCED_TEST)))


@dataclass(frozen=True, eq=False)
class BalancedTask:
    """The paper's data sets: one classifier per label, for the labels that can be learned and evaluated."""

    task: Task | None
    #: The label of each classifier of the task.
    learned: tuple[int, ...]
    #: For every other label why it has no classifier.
    reasons: dict[int, str]
    #: Labels that the test patients can evaluate but the synthetic ones cannot teach: test patients and truth.
    untaught: dict[int, tuple[NDArray[np.int64], Labels]]


def balanced_task(synthetic: Cohort, test: Cohort, rule: LabelRule, seed: int, scale: float = 1.0) -> BalancedTask:
    """Balanced 5,000/500 synthetic and 1,000 test patients per label, or as many as there are in the same shares.

    The test patients depend on the real test cohort and the seed alone, so every method is evaluated on the same ones.
    """
    ours, theirs = rule.apply(synthetic), rule.apply(test)
    sizes = BalancedSizes.times(scale)
    records = record_keys(synthetic)
    learned: list[int] = []
    untaught: dict[int, tuple[NDArray[np.int64], Labels]] = {}
    reasons: dict[int, str] = {}
    rows: list[list[NDArray[np.int64]]] = [[], [], []]
    for label in range(len(rule.names)):
        tested = draw_balanced(theirs[:, label], sizes.test, random_stream(seed, "tstr-test", label))
        if len(tested) < 2 * FEWEST:
            reasons[label] = f"fewer than {FEWEST} test patients with or without the label"
            continue
        drawn = _balanced_parts(ours[:, label], records, sizes, random_stream(seed, "tstr-synthetic", label))
        if drawn is None:
            reasons[label] = f"fewer than {FEWEST} synthetic patients with or without the label"
            untaught[label] = tested, theirs[tested, label]
            continue
        learned.append(label)
        for part, drawn_rows in zip(rows, (*drawn, tested), strict=True):
            part.append(drawn_rows)
    if not learned:
        return BalancedTask(None, (), reasons, untaught)
    ours_recent, theirs_recent = recent(synthetic), recent(test)
    tasks = [
        ExampleSet(
            cohort, tuple(part), tuple(truth[row, label][:, None] for row, label in zip(part, learned, strict=True))
        )
        for cohort, truth, part in zip(
            (ours_recent, ours_recent, theirs_recent), (ours, ours, theirs), rows, strict=True
        )
    ]
    return BalancedTask(Task(*tasks), tuple(learned), reasons, untaught)


def _balanced_parts(
    truth: Labels, records: NDArray[np.uint64], sizes: BalancedSizes, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Balanced training and validation patients of one label, or None where there are too few."""
    share = sizes.valid / (sizes.train + sizes.valid)
    # Patients with the label and without are parted separately: a rare label must not miss the smaller part.
    sides = [apart(records, np.flatnonzero(truth == value), share, random) for value in (1, 0)]
    train, valid = (np.concatenate(parts) for parts in zip(*sides, strict=True))
    drawn = draw_balanced(truth, sizes.train, random, train), draw_balanced(truth, sizes.valid, random, valid)
    enough = len(drawn[0]) >= 2 * (FEWEST - 1) and len(drawn[1]) >= 2
    return drawn if enough else None


def natural_task(synthetic: Cohort, test: Cohort, rule: LabelRule, seed: int, most: int | None = None) -> Task:
    """All synthetic and all test patients at their natural prevalence; one classifier with an output for each label."""
    return _whole_task(
        synthetic, rule.apply(synthetic), test, rule.apply(test), random_stream(seed, "tstr-natural"), most
    )


def next_visit_task(synthetic: Cohort, test: Cohort, rule: LabelRule, seed: int, most: int | None = None) -> Task:
    """The labels of the last visit from the visits before it; one classifier with an output for each label."""
    inputs, questions = synthetic.without_last_visits(), test.without_last_visits()
    ours, theirs = last_visit_labels(synthetic, rule), last_visit_labels(test, rule)
    return _whole_task(inputs, ours, questions, theirs, random_stream(seed, "tstr-next"), most)


def _whole_task(
    synthetic: Cohort, ours: Labels, test: Cohort, theirs: Labels, random: np.random.Generator, most: int | None
) -> Task:
    """One classifier on all patients (at most `most` synthetic ones), a tenth of the synthetic ones for validation."""
    drawn = random.permutation(synthetic.n_patients)[:most]
    inputs = recent(synthetic)
    parts = apart(record_keys(synthetic), drawn, VALID_SHARE, random)
    train, valid = (ExampleSet(inputs, (rows,), (ours[rows],)) for rows in parts)
    return Task(train, valid, ExampleSet(recent(test), (np.arange(test.n_patients),), (theirs,)))


# ---- the last visit with a label's codes masked --------------------------------------------------------------
class MaskedTask(NamedTuple):
    """Examples to learn from and to be evaluated on, and for the latter the test patient of each row of examples."""

    task: Task
    #: Test patients, each with every label: example = position of the patient · labels + label.
    patients: NDArray[np.int64]


def masked_task(synthetic: Cohort, test: Cohort, rule: LabelRule, seed: int, most: int | None = None) -> MaskedTask:
    """The examples of a comparison, from at most `most` synthetic patients."""
    random, n_labels = random_stream(seed, "tstr-masked"), len(rule.names)
    chosen = random.permutation(synthetic.n_patients)[:most]
    n_each = int(np.clip(EXAMPLES // max(len(chosen), 1), 1, min(MOST_LABELS, max(n_labels, 1))))
    patient = np.repeat(chosen, n_each)
    label = random.integers(0, max(n_labels, 1), len(patient))
    inputs, truth = mask_label_codes(recent(synthetic), rule, patient, label)
    train, valid = apart(record_keys(synthetic)[patient], np.arange(len(patient)), VALID_SHARE, random)
    most_patients = MOST_TESTED // max(n_labels, 1)
    patients = np.sort(random_stream(seed, "tstr-masked-test").permutation(test.n_patients)[:most_patients])
    questions, answers = mask_label_codes(
        recent(test), rule, np.repeat(patients, n_labels), np.tile(np.arange(n_labels), len(patients))
    )
    learning, choosing = (ExampleSet(inputs, (rows,), (truth[rows, None],)) for rows in (train, valid))
    testing = ExampleSet(questions, (np.arange(len(answers)),), (answers[:, None],))
    return MaskedTask(Task(learning, choosing, testing), patients)


def mask_label_codes(
    cohort: Cohort, rule: LabelRule, patient: NDArray[np.int64], label: NDArray[np.int64]
) -> tuple[Cohort, Labels]:
    """Examples of a patient and a label each, and whether the last visit of each held a code of the label.

    >>> cohort, rule = Cohort.of([[["A"], ["A", "B"]], [["B"]]]), LabelRule.of({"a": ["A"]})
    >>> examples, truth = mask_label_codes(cohort, rule, np.array([0, 1]), np.array([0, 0]))
    >>> list(examples.patients()), truth.tolist()
    ([[['A'], ['B', 'zz-question/00']], [['B', 'zz-question/00']]], [1, 0])
    """
    questions = [f"{QUESTION}/{number:02d}" for number in range(len(rule.names))]
    wide = Vocabulary.of([*cohort.vocabulary.codes, *questions])
    examples = cohort.on(wide).subset(patient)
    of_label = np.zeros((len(wide), max(len(questions), 1)), dtype=bool)
    for number, group in enumerate(rule.codes):
        positions = wide.positions(group)
        of_label[positions[positions >= 0], number] = True
    owner = examples.patient_of_entry
    hidden = (examples.visit_of_entry == examples.last_visits[owner]) & of_label[examples.codes, label[owner]]
    truth = (np.bincount(owner[hidden], minlength=len(patient)) > 0).astype(np.uint8)
    return with_question(examples, hidden, wide.positions(questions)[label]), truth


def with_question(examples: Cohort, hidden: NDArray[np.bool_], question: NDArray[np.int64]) -> Cohort:
    """The examples without the hidden entries, with a code in the last visit of each that says what is to be predicted.

    >>> record = Cohort.of([[["A"], ["B"]]], ["A", "B", "question"])
    >>> list(with_question(record, np.array([False, True]), np.array([2])).patients())
    [[['A'], ['question']]]
    """
    codes = np.concatenate([examples.codes[~hidden], question]).astype(np.int32)
    visit = np.concatenate([examples.visit_of_entry[~hidden], examples.last_visits])
    order = np.lexsort((codes, visit))
    sizes = np.bincount(visit, minlength=examples.n_visits)
    return replace(examples, codes=codes[order], visit_starts=starts_from_sizes(sizes), labels=None, label_names=())


# ---- outcomes: who dies and who comes back -------------------------------------------------------------------
#: Bands of a number that classifiers read.
N_BANDS = 5
#: For each visit 1 or 0 where the outcome is to be predicted, −1 elsewhere.
Truth = NDArray[np.int8]


class Outcome(NamedTuple):
    """Something that a visit may end in: its name, its truth for each visit, and the systems of codes that tell it."""

    name: str
    truth: Callable[[Stays], Truth]
    telling: tuple[str, ...]


def died_at_last(stays: Stays) -> Truth:
    """Whether a record ends with death, for its last visit."""
    out = np.full(stays.cohort.n_visits, -1, dtype=np.int8)
    out[stays.cohort.last_visits] = stays.died[stays.cohort.last_visits]
    return out


def came_back(stays: Stays) -> Truth:
    """Whether another stay follows soon, for every stay of which it is known."""
    return stays.readmitted


MORTALITY = Outcome("death", died_at_last, (DEATH.system, LENGTH_OF_STAY.system, READMITTED.system))
READMISSION = Outcome("readmission", came_back, (READMITTED.system,))


def bands_of(train: Cohort) -> Quantizer:
    """The bands that classifiers read numbers in."""
    return Quantizer.of(train, n_bins=N_BANDS)


def readable(cohort: Cohort, bands: Quantizer) -> Cohort:
    """The cohort with a band in the place of each number that has bands; other numbers stay as plain codes.

    >>> from adapcla.data.vocabulary import Code
    >>> lab = Code.of("glucose", "LAB", domain="lab", unit="mg/dL")
    >>> train = Cohort.of([[["LAB/glucose"]]] * 44, [lab], values=np.arange(80, 124, dtype=np.float32))
    >>> list(readable(train.subset([0]), Quantizer.of(train, n_bins=2)).patients())
    [[['LAB/glucose/b00']]]
    """
    if cohort.values is None:
        return cohort
    plain, new = cohort.without_values(), [code for number in bands.numbers for code in number.codes()]
    wide = Vocabulary.of([*plain.vocabulary.codes, *new])
    codes = np.asarray(plain.on(wide).codes).copy()
    for number in bands.numbers:
        mine = np.flatnonzero(codes == wide.index[number.code.token])
        of_band = wide.positions([code.token for code in number.codes()])
        codes[mine] = of_band[number.bin_of(np.asarray(cohort.values)[mine])]
    order = np.lexsort((codes, cohort.visit_of_entry))
    return replace(plain, vocabulary=wide, codes=codes[order])


class Examples(NamedTuple):
    """Records with something to predict, one for each: its patient, the record itself, and the answer."""

    patient: NDArray[np.int64]
    inputs: Cohort
    truth: Labels


def examples_of(cohort: Cohort, truth: Truth, outcome: Outcome, most: int, seed: int) -> Examples:
    """The examples of a cohort, `most` of them at random where there are more."""
    visits = np.flatnonzero(truth >= 0)
    if len(visits) > most:
        visits = np.sort(random_stream(seed, f"outcomes of {outcome.name}").choice(visits, most, replace=False))
    patient = cohort.patient_of_visit[visits]
    wide = Vocabulary.of([*cohort.vocabulary.codes, f"{QUESTION}/00"])
    records = cohort.on(wide).subset(patient)
    first = records.first_visits
    records = recent(records.with_visits(first, first + cohort.visit_number[visits] + 1))
    telling = np.array([code.system in outcome.telling for code in wide.codes], dtype=bool)
    last = records.visit_of_entry == records.last_visits[records.patient_of_entry]
    question = np.full(len(visits), wide.index[f"{QUESTION}/00"], dtype=np.int64)
    inputs = with_question(records, last & telling[records.codes], question)
    return Examples(patient, inputs, (truth[visits] == 1).astype(np.uint8))


# ---- predictions --------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Prediction:
    """The predictions of one label: positions of test patients, the truth and the predicted probability."""

    label: int
    rows: NDArray[np.int64]
    truth: Labels
    probability: Floats
    #: Why there was nothing to learn from, where that is so; the probability is then 0 for everybody.
    reason: str = ""

    def among(self, keep: NDArray[np.bool_]) -> Prediction:
        """The predictions for some of the patients."""
        return replace(self, rows=self.rows[keep], truth=self.truth[keep], probability=self.probability[keep])


class LabelSet(NamedTuple):
    """The labels of a cohort: what each is made of, and which patients have it (patients × labels)."""

    rule: LabelRule
    present: Labels

    @classmethod
    def of(cls, train: Cohort) -> LabelSet:
        """The labels of a training cohort."""
        rule = label_rule(train)
        return cls(rule, rule.apply(train))


def _labels_of(comparison: Comparison) -> LabelSet:
    """The labels of a comparison: those of the training cohort, a few of them for a quick look."""
    rule, present = comparison.of_cohort(LabelSet.of, comparison.train)
    step = QUICK_LABELS if comparison.quick else 1
    return LabelSet(LabelRule(rule.names[::step], rule.codes[::step]), present[:, ::step])


def rule_of(comparison: Comparison) -> LabelRule:
    """What each label of a comparison is made of."""
    return _labels_of(comparison).rule


def tail_of(comparison: Comparison) -> NDArray[np.bool_]:
    """True for the rarest labels by the training patients."""
    return tail_labels(_labels_of(comparison).present)


def natural_predictions(comparison: Comparison) -> list[Prediction] | Missing:
    """Predictions for all test patients by one classifier of natural prevalence; or why there are none."""
    if comparison.synthetic.n_patients < FEWEST:
        return Missing(f"fewer than {FEWEST} synthetic patients")
    return _multi_label(comparison, natural_task, whole=True)


def next_visit_predictions(comparison: Comparison) -> list[Prediction] | Missing:
    """Predictions of the labels of the last visit from the visits before it; or why there are none."""
    for name, cohort in (("synthetic", comparison.synthetic), ("test", comparison.test)):
        if int((cohort.visits_per_patient >= 2).sum()) < FEWEST_RETURNING:
            return Missing(f"fewer than {FEWEST_RETURNING} {name} patients of two visits or more")
    return _multi_label(comparison, next_visit_task, whole=False)


def masked_predictions(comparison: Comparison) -> list[Prediction] | Missing:
    """Predictions of each label in the last visit with the label's codes masked; or why there are none."""
    if comparison.synthetic.n_patients < FEWEST_RETURNING:
        return Missing(f"fewer than {FEWEST_RETURNING} synthetic patients")
    rule, most = rule_of(comparison), QUICK_PATIENTS if comparison.quick else None
    task, patients = masked_task(comparison.synthetic, comparison.test, rule, comparison.seed, most)
    if not len(task.valid.rows[0]) or not task.test.targets[0].size:
        return Missing(_NOTHING_TO_LEARN)
    model = fit_classifiers(task.train, task.valid, comparison.seed, settings_of(comparison))
    shape = len(patients), len(rule.names)
    probability, truth = predict(model, task.test)[0].reshape(shape), task.test.targets[0].reshape(shape)
    return [Prediction(label, patients, truth[:, label], probability[:, label]) for label in range(shape[1])]


def _had_before(comparison: Comparison) -> Labels:
    """Test patients × labels, 1 where a visit before the last holds a code of the label."""
    test, rule = comparison.test, rule_of(comparison)
    by_visit = rule.apply_visits(test)
    by_visit[test.last_visits] = 0
    return np.maximum.reduceat(by_visit, test.first_visits, axis=0) if test.n_patients else by_visit


def balanced_predictions(comparison: Comparison) -> list[Prediction] | Missing:
    """Predictions of one classifier per label on its balanced test patients; or why there are none.

    A label that the test patients can evaluate and the synthetic ones cannot teach is predicted "no" for everybody:
    leaving it out would reward a generator that never writes it.
    """
    scale = QUICK_SCALE if comparison.quick else 1.0
    sets = balanced_task(comparison.synthetic, comparison.test, rule_of(comparison), comparison.seed, scale)
    if sets.task is None:
        return Missing(next(iter(sets.reasons.values()), "there is no label"))
    return _per_label(comparison, sets, sets.task)


def _outcome_prediction(comparison: Comparison, outcome: Outcome) -> Prediction | Missing:
    """What the classifier predicts for the test patients; or why there is nothing to predict.

    An outcome that test patients can evaluate and synthetic ones cannot teach is predicted "no" for everybody.
    """
    whole = comparison.whole
    bands = comparison.of_cohort(bands_of, whole.train)
    known = outcome.truth(comparison.of_cohort(Stays.of, whole.test))
    tested = examples_of(readable(whole.test, bands), known, outcome, MOST_TESTED, comparison.seed)
    few = _too_few(tested.truth, f"test visits with {outcome.name}")
    if few:
        return few
    most = min(EXAMPLES, QUICK_PATIENTS) if comparison.quick else EXAMPLES
    truth = outcome.truth(comparison.once(synthetic_stays))
    learned = examples_of(readable(whole.synthetic, bands), truth, outcome, most, comparison.seed)
    few = _too_few(learned.truth, f"synthetic visits with {outcome.name}")
    if few:
        return Prediction(0, tested.patient, tested.truth, np.zeros(len(tested.truth)), few.reason)
    random = random_stream(comparison.seed, f"parts for {outcome.name}")
    rows = apart(record_keys(learned.inputs), np.arange(len(learned.truth)), VALID_SHARE, random)
    train, valid = (ExampleSet(learned.inputs, (part,), (learned.truth[part, None],)) for part in rows)
    model = fit_classifiers(train, valid, comparison.seed, settings_of(comparison))
    testing = ExampleSet(tested.inputs, (np.arange(len(tested.truth)),), (tested.truth[:, None],))
    return Prediction(0, tested.patient, tested.truth, predict(model, testing)[0][:, 0])


def _too_few(truth: Labels, what: str) -> Missing | None:
    """Why an outcome cannot be learned or evaluated, or None."""
    positive = int(truth.sum())
    if min(positive, len(truth) - positive) >= FEWEST:
        return None
    return Missing(
        f"insufficient data: {positive} of {len(truth)} {what}, {FEWEST} with and without needed", len(truth)
    )


def settings_of(comparison: Comparison) -> ClassifierSettings:
    """Training settings of a result, or of a quick look."""
    return replace(ClassifierSettings(), epochs=QUICK_EPOCHS) if comparison.quick else ClassifierSettings()


def _multi_label(comparison: Comparison, task_of: TaskOf, whole: bool) -> list[Prediction] | Missing:
    """The predictions of one classifier with an output for each label; or why there are none.

    They are of all test patients (`whole`), or of those of two visits or more.
    """
    most = QUICK_PATIENTS if comparison.quick else None
    task = task_of(comparison.synthetic, comparison.test, rule_of(comparison), comparison.seed, most)
    if not len(task.train.rows[0]) or not len(task.valid.rows[0]) or not task.test.targets[0].size:
        return Missing(_NOTHING_TO_LEARN)
    model = fit_classifiers(task.train, task.valid, comparison.seed, settings_of(comparison))
    probability, truth = predict(model, task.test)[0], task.test.targets[0]
    rows = np.arange(comparison.test.n_patients) if whole else np.flatnonzero(comparison.test.visits_per_patient >= 2)
    return [Prediction(label, rows, truth[:, label], probability[:, label]) for label in range(truth.shape[1])]


def _per_label(comparison: Comparison, sets: BalancedTask, task: Task) -> list[Prediction]:
    """The predictions of one classifier for each label, trained side by side."""
    model = fit_classifiers(task.train, task.valid, comparison.seed, settings_of(comparison), sets.learned)
    probabilities = predict(model, task.test)
    out = [
        Prediction(label, rows, truth[:, 0], probability[:, 0])
        for label, rows, truth, probability in zip(
            sets.learned, task.test.rows, task.test.targets, probabilities, strict=True
        )
    ]
    for label, (rows, truth) in sets.untaught.items():
        out.append(Prediction(label, rows, truth, np.zeros(len(rows)), sets.reasons[label]))
    return sorted(out, key=lambda each: each.label)


# ---- scores of predictions ---------------------------------------------------------------------------------
def label_table(predictions: Iterable[Prediction], names: tuple[str, ...]) -> list[dict[str, object]]:
    """One row per label: its name, n, accuracy, F1, AUPRC and AUROC, or None and the reason."""
    out: list[dict[str, object]] = []
    for each in predictions:
        ones = np.ones((len(each.rows), 1), dtype=np.int64)
        row: dict[str, object] = {"label": names[each.label], "n": len(each.rows), "reason": each.reason}
        for name, measure in _MEASURES.items():
            value = float(measure(each.truth, each.probability, ones)[0])
            row[name] = value if np.isfinite(value) and not each.reason else None
        out.append(row)
    return out


_MEASURES: dict[str, Measure] = {
    "accuracy": accuracy,
    "f1": f1,
    "auprc": average_precision,
    "auroc": roc_area,
}


def mean_score(comparison: Comparison, predictions: list[Prediction], measure: Measure) -> Score:
    """The mean over labels with its bootstrap interval; labels that the test patients cannot evaluate are left out."""
    known = [each for each in predictions if 0 < int(each.truth.sum()) < len(each.truth)]
    if not known:
        return Missing("no label is both present and absent among the test patients").score
    n = sum(len(each.rows) for each in known)
    n_test = comparison.test.n_patients
    value = float(_means(known, measure, np.ones((n_test, 1), dtype=np.int64))[0])
    if not comparison.intervals:
        return Score(value, n)
    draws = n_draws(comparison)
    means = []
    for start in range(0, draws, _DRAWS_AT_ONCE):
        random = random_stream(comparison.seed, "utility-bootstrap", start)
        weights = random.poisson(1.0, size=(n_test, min(_DRAWS_AT_ONCE, draws - start)))
        means.append(_means(known, measure, weights))
    drawn = np.concatenate(means)
    return Score(value, n, *percentile_interval(drawn))


def _means(predictions: list[Prediction], measure: Measure, weights: NDArray[np.int64]) -> Floats:
    """The mean over labels for each weighting of the test patients, over the labels that these can evaluate."""
    values = np.stack([measure(each.truth, each.probability, weights[each.rows]) for each in predictions])
    known = np.isfinite(values)
    return np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)


# ---- metrics ------------------------------------------------------------------------------------------------
class LabelMetric(Metric):
    """The mean over labels of a measure of predictions for test patients, over all labels and the tail labels.

    With `onsets` also over patients who never had the label before the visit (`new`), and over those who had it
    (`repeat`): that what was there comes again is easy to predict, and tells nothing of who will fall ill.
    """

    suite, goal, cost = "utility", "up", "slow"
    predictions: ClassVar[Callable[[Comparison], list[Prediction] | Missing]]
    measure: ClassVar[Measure]
    onsets: ClassVar[bool] = False

    def compute(self, comparison: Comparison) -> dict[str, Score]:
        """The mean of each stratum."""
        comparison = comparison.sample
        predictions = comparison.once(type(self).predictions)
        names = (ALL, "tail", "new", "repeat") if self.onsets else (ALL, "tail")
        if isinstance(predictions, Missing):
            return dict.fromkeys(names, predictions.score)
        tail = tail_of(comparison)
        chosen = {ALL: predictions, "tail": [each for each in predictions if tail[each.label]]}
        if self.onsets:
            before = comparison.once(_had_before)
            for name, value in (("new", 0), ("repeat", 1)):
                chosen[name] = [each.among(before[each.rows, each.label] == value) for each in predictions]
        return {name: mean_score(comparison, some, type(self).measure) for name, some in chosen.items()}


class TstrAccuracy(LabelMetric):
    """Accuracy on balanced real patients, mean over the labels, one classifier per label trained on synthetic ones."""

    key, origin, version = "tstr_acc", "paper", 3
    predictions, measure = balanced_predictions, accuracy


class TstrF1(LabelMetric):
    """F1 on balanced real patients, mean over the labels, one classifier per label trained on synthetic ones."""

    key, origin, version = "tstr_f1", "paper", 3
    predictions, measure = balanced_predictions, f1


class TstrAUPRC(LabelMetric):
    """AUPRC on balanced real patients, mean over the labels, one classifier per label trained on synthetic ones."""

    key, origin, version = "tstr_auprc", "paper", 3
    predictions, measure = balanced_predictions, average_precision


class TstrNextAUPRC(LabelMetric):
    """AUPRC of the labels of the last visit, predicted from the visits before it, mean over the labels."""

    key, onsets, version = "tstr_next_auprc", True, 4
    predictions, measure = next_visit_predictions, average_precision


class TstrNextAUROC(LabelMetric):
    """AUROC of the labels of the last visit, predicted from the visits before it, mean over the labels."""

    key, onsets, version = "tstr_next_auroc", True, 4
    predictions, measure = next_visit_predictions, roc_area


class TstrMaskedAUROC(LabelMetric):
    """AUROC of the labels of the last visit with the label's codes masked there, mean over the labels."""

    key, onsets = "tstr_masked_auroc", True
    predictions, measure = masked_predictions, roc_area


class OutcomeAUROC(Metric):
    """AUROC of an outcome of visits, learned from synthetic patients and evaluated on test patients."""

    suite, goal, unit, cost, trained = "stays", "up", "AUC", "slow", True
    outcome: ClassVar[Outcome]

    def compute(self, comparison: Comparison) -> dict[str, Score]:
        """The area with its bootstrap interval."""
        comparison = comparison.sample
        predicted = comparison.once(_outcome_prediction, self.outcome)
        if isinstance(predicted, Missing):
            return {ALL: predicted.score}
        return {ALL: mean_score(comparison, [predicted], roc_area)}


class MortalityAUROC(OutcomeAUROC):
    """AUROC of death at the last visit, learned from synthetic patients and evaluated on test patients."""

    key, outcome = "mortality_auroc", MORTALITY


class ReadmissionAUROC(OutcomeAUROC):
    """AUROC of readmission within thirty days, learned from synthetic patients and evaluated on test patients."""

    key, outcome = "readmission_auroc", READMISSION
