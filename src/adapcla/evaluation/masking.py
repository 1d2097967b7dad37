"""Labels that no single code gives away: the last visit is asked for a label after the label's codes were taken out.

A label is an OR of codes, so whoever sees them needs to know nothing. Here an example is a patient and one label: the
codes of that label are masked in the judged visit, the patient's last, and a code in their place says which label is
asked for, whether anything was masked or not. What is left is what stands with the label, in that visit and before it.
One classifier answers for all labels. A synthetic patient is asked for one label, or a few where patients are few; a
test patient for all of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort, LabelRule, Vocabulary
from adapcla.data.ragged import starts_from_sizes
from adapcla.evaluation.protocols import VALID_SHARE, Tasks, Trial, apart, recent, record_keys
from adapcla.seeds import random_stream

#: Examples of synthetic patients, where these are fewer, and the most labels that one patient is asked for.
EXAMPLES, MOST_LABELS = 20_000, 4
#: Most examples of test patients.
MOST_JUDGED = 40_000
#: The first part of the codes that say what is asked for.
ASKED = "zz-asked"


class MaskedTrial(NamedTuple):
    """Examples to learn from and to be judged on, and for the latter the test patient of each row of examples."""

    trial: Trial
    #: Test patients that are asked, each for every label: example = position of the patient · labels + label.
    patients: NDArray[np.int64]


def masked_trial(synthetic: Cohort, test: Cohort, rule: LabelRule, seed: int, most: int | None = None) -> MaskedTrial:
    """The examples of a comparison, from at most `most` synthetic patients."""
    random, n_labels = random_stream(seed, "tstr-masked"), len(rule.names)
    chosen = random.permutation(synthetic.n_patients)[:most]
    n_each = int(np.clip(EXAMPLES // max(len(chosen), 1), 1, min(MOST_LABELS, max(n_labels, 1))))
    patient = np.repeat(chosen, n_each)
    label = random.integers(0, max(n_labels, 1), len(patient))
    inputs, truth = masked(recent(synthetic), rule, patient, label)
    train, valid = apart(record_keys(synthetic)[patient], np.arange(len(patient)), VALID_SHARE, random)
    most_asked = MOST_JUDGED // max(n_labels, 1)
    asked = np.sort(random_stream(seed, "tstr-masked-test").permutation(test.n_patients)[:most_asked])
    judges, said = masked(recent(test), rule, np.repeat(asked, n_labels), np.tile(np.arange(n_labels), len(asked)))
    learning, choosing = (Tasks(inputs, (rows,), (truth[rows, None],)) for rows in (train, valid))
    judging = Tasks(judges, (np.arange(len(said)),), (said[:, None],))
    return MaskedTrial(Trial(learning, choosing, judging), asked)


def masked(
    cohort: Cohort, rule: LabelRule, patient: NDArray[np.int64], label: NDArray[np.int64]
) -> tuple[Cohort, NDArray[np.uint8]]:
    """Examples of patients asked for labels, and whether the last visit of each held a code of the label.

    >>> cohort, rule = Cohort.of([[["A"], ["A", "B"]], [["B"]]]), LabelRule.of({"a": ["A"]})
    >>> examples, truth = masked(cohort, rule, np.array([0, 1]), np.array([0, 0]))
    >>> list(examples.patients()), truth.tolist()
    ([[['A'], ['B', 'zz-asked/00']], [['B', 'zz-asked/00']]], [1, 0])
    """
    asked = [f"{ASKED}/{number:02d}" for number in range(len(rule.names))]
    wide = Vocabulary.of([*cohort.vocabulary.codes, *asked])
    examples = cohort.on(wide).subset(patient)
    of_label = np.zeros((len(wide), max(len(asked), 1)), dtype=bool)
    for number, group in enumerate(rule.codes):
        known = wide.positions(group)
        of_label[known[known >= 0], number] = True
    owner = examples.patient_of_entry
    judged = examples.visit_of_entry == examples.last_visits[owner]
    hidden = judged & of_label[examples.codes, label[owner]]
    truth = (np.bincount(owner[hidden], minlength=len(patient)) > 0).astype(np.uint8)
    return with_question(examples, hidden, wide.positions(asked)[label]), truth


def with_question(examples: Cohort, hidden: NDArray[np.bool_], question: NDArray[np.int64]) -> Cohort:
    """The examples without the hidden entries, with a code in the last visit of each that says what is asked for.

    >>> record = Cohort.of([[["A"], ["B"]]], ["A", "B", "asked"])
    >>> list(with_question(record, np.array([False, True]), np.array([2])).patients())
    [[['A'], ['asked']]]
    """
    codes = np.concatenate([examples.codes[~hidden], question]).astype(np.int32)
    visit = np.concatenate([examples.visit_of_entry[~hidden], examples.last_visits])
    order = np.lexsort((codes, visit))
    sizes = np.bincount(visit, minlength=examples.n_visits)
    return replace(examples, codes=codes[order], visit_starts=starts_from_sizes(sizes), labels=None, label_names=())
