"""Which patients a utility classifier learns from and is judged on: balanced, natural and next-visit data sets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort, LabelRule
from adapcla.data.fingerprints import code_keys, record_fingerprints
from adapcla.seeds import random_stream

#: The paper's balanced sets: training and validation patients (synthetic), test patients (real).
BALANCED_TRAIN, BALANCED_VALID, BALANCED_TEST = 5_000, 500, 1_000
#: Patients of the rarer class below which a label is not judged.
FEWEST = 10
#: Share of the synthetic patients that chooses the epoch in the natural and next-visit protocols.
VALID_SHARE = 0.1
#: Records longer than this are read from their last visits on.
LONGEST_RECORD = 20
N_LABELS = 25
#: The rarest labels, which make up the tail stratum.
N_TAIL_LABELS = 8


@dataclass(frozen=True, eq=False)
class Tasks:
    """Examples of several independent classifiers: for each the patients of `inputs` and what to say of them."""

    inputs: Cohort
    #: Positions in `inputs`, one array per classifier.
    rows: tuple[NDArray[np.int64], ...]
    #: 0 or 1, patients × outputs, one array per classifier.
    targets: tuple[NDArray[np.uint8], ...]

    def part(self, classifiers: list[int]) -> Tasks:
        """The tasks of some of the classifiers."""
        return replace(
            self,
            rows=tuple(self.rows[i] for i in classifiers),
            targets=tuple(self.targets[i] for i in classifiers),
        )


@dataclass(frozen=True, eq=False)
class Trial:
    """What to learn from (synthetic: train and valid) and what to be judged on (real: test)."""

    train: Tasks
    valid: Tasks
    test: Tasks


def label_rule(train: Cohort) -> LabelRule:
    """The rule in the training cohort's card where it was labelled when read, else 25 groups of its codes.

    >>> cohort = LabelRule.of({"heart": ["I10"]}).label(Cohort.of([[["I10"]], [["E11"]]]))
    >>> label_rule(cohort).names
    ('heart',)
    """
    return LabelRule.from_card(train.card) or LabelRule.auto(train, n=N_LABELS)


def tail_labels(labels: NDArray[np.uint8], n: int = N_TAIL_LABELS) -> NDArray[np.bool_]:
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


def last_visit_labels(cohort: Cohort, rule: LabelRule) -> NDArray[np.uint8]:
    """Labels of the last visit of each patient of two or more visits, patients × labels.

    >>> cohort = Cohort.of([[["A"], ["B"]], [["A"]]])
    >>> last_visit_labels(cohort, LabelRule.of({"a": ["A"], "b": ["B"]})).tolist()
    [[0, 1]]
    """
    several = cohort.visits_per_patient >= 2
    return rule.apply_visits(cohort)[cohort.last_visits[several]]


def balanced(
    truth: NDArray[np.uint8], n: int, random: np.random.Generator, among: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Up to `n` patients (of those `among`), half with the label and half without, without replacement, alternating.

    >>> drawn = balanced(np.array([1, 0, 0, 0, 1, 0], dtype=np.uint8), 10, random_stream(1, "demo"))
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
    """Numbers of patients of a balanced trial."""

    train: int
    valid: int
    test: int

    @classmethod
    def scaled(cls, scale: float) -> BalancedSizes:
        """The paper's numbers times a factor.

        >>> BalancedSizes.scaled(0.2)
        BalancedSizes(train=1000, valid=100, test=200)
        """
        return cls(*(round(scale * n) for n in (BALANCED_TRAIN, BALANCED_VALID, BALANCED_TEST)))


@dataclass(frozen=True, eq=False)
class BalancedTrial:
    """The paper's data sets: one classifier per label, for the labels that can be learned and judged."""

    trial: Trial | None
    #: The label of each classifier of the trial.
    learned: tuple[int, ...]
    #: For every other label why it has no classifier.
    reasons: dict[int, str]
    #: Labels that the test patients can judge but the synthetic ones cannot teach: test patients and truth.
    untaught: dict[int, tuple[NDArray[np.int64], NDArray[np.uint8]]]


def balanced_trial(synthetic: Cohort, test: Cohort, rule: LabelRule, seed: int, scale: float = 1.0) -> BalancedTrial:
    """Balanced 5,000/500 synthetic and 1,000 test patients per label, or as many as there are in the same shares.

    The test patients depend on the real test cohort and the seed alone, so every method is judged on the same ones.
    """
    ours, theirs = rule.apply(synthetic), rule.apply(test)
    sizes = BalancedSizes.scaled(scale)
    records = record_keys(synthetic)
    learned: list[int] = []
    untaught: dict[int, tuple[NDArray[np.int64], NDArray[np.uint8]]] = {}
    reasons: dict[int, str] = {}
    rows: list[list[NDArray[np.int64]]] = [[], [], []]
    for label in range(len(rule.names)):
        tested = balanced(theirs[:, label], sizes.test, random_stream(seed, "tstr-test", label))
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
        return BalancedTrial(None, (), reasons, untaught)
    inputs, judges = recent(synthetic), recent(test)
    tasks = [
        Tasks(cohort, tuple(part), tuple(truth[row, label][:, None] for row, label in zip(part, learned, strict=True)))
        for cohort, truth, part in zip((inputs, inputs, judges), (ours, ours, theirs), rows, strict=True)
    ]
    return BalancedTrial(Trial(*tasks), tuple(learned), reasons, untaught)


def _balanced_parts(
    truth: NDArray[np.uint8], records: NDArray[np.uint64], sizes: BalancedSizes, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Balanced training and validation patients of one label, or None where there are too few."""
    share = sizes.valid / (sizes.train + sizes.valid)
    # Patients with the label and without are parted separately: a rare label must not miss the smaller part.
    sides = [apart(records, np.flatnonzero(truth == value), share, random) for value in (1, 0)]
    train, valid = (np.concatenate(parts) for parts in zip(*sides, strict=True))
    drawn = balanced(truth, sizes.train, random, train), balanced(truth, sizes.valid, random, valid)
    enough = len(drawn[0]) >= 2 * (FEWEST - 1) and len(drawn[1]) >= 2
    return drawn if enough else None


def natural_trial(synthetic: Cohort, test: Cohort, rule: LabelRule, seed: int, most: int | None = None) -> Trial:
    """All synthetic and all test patients at their natural prevalence; one classifier with an output for each label."""
    return _whole_trial(synthetic, rule.apply(synthetic), test, rule.apply(test), seed, "tstr-natural", most)


def next_visit_trial(synthetic: Cohort, test: Cohort, rule: LabelRule, seed: int, most: int | None = None) -> Trial:
    """The labels of the last visit from the visits before it; one classifier with an output for each label."""
    return _whole_trial(
        synthetic.without_last_visits(),
        last_visit_labels(synthetic, rule),
        test.without_last_visits(),
        last_visit_labels(test, rule),
        seed,
        "tstr-next",
        most,
    )


def _whole_trial(
    synthetic: Cohort,
    ours: NDArray[np.uint8],
    test: Cohort,
    theirs: NDArray[np.uint8],
    seed: int,
    stream: str,
    most: int | None,
) -> Trial:
    """One classifier on all patients (at most `most` synthetic ones), a tenth of the synthetic ones for validation."""
    random = random_stream(seed, stream)
    drawn = random.permutation(synthetic.n_patients)[:most]
    inputs = recent(synthetic)
    parts = apart(record_keys(synthetic), drawn, VALID_SHARE, random)
    train, valid = (Tasks(inputs, (rows,), (ours[rows],)) for rows in parts)
    return Trial(train, valid, Tasks(recent(test), (np.arange(test.n_patients),), (theirs,)))
