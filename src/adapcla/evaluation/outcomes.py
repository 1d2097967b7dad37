"""Who dies and who comes back: classifiers that learn it from synthetic patients and are judged on test patients.

An example is a record up to and with the visit that is asked about. Codes that tell the answer are taken out of that
visit; a code in their place says that it is asked about. Death is asked of a record's last visit, since none follows
it; readmission of every stay in hospital of which the answer is known. Numbers are read as bands, cut at the fifths of
the training values, so that what came out counts, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort, Vocabulary
from adapcla.data.quantization import Quantizer
from adapcla.data.vocabulary import DEATH, LENGTH_OF_STAY, READMITTED
from adapcla.evaluation.classifiers import fit, predict
from adapcla.evaluation.contract import ALL, Comparison, Missing, Score
from adapcla.evaluation.curves import Statistic
from adapcla.evaluation.masking import ASKED, EXAMPLES, MOST_JUDGED, with_question
from adapcla.evaluation.protocols import FEWEST, VALID_SHARE, Tasks, apart, recent, record_keys
from adapcla.evaluation.stays import Stays, synthetic_stays
from adapcla.evaluation.utility import QUICK_PATIENTS, Judgement, mean_score, settings_of
from adapcla.seeds import random_stream

#: Bands of a number that classifiers read.
N_BANDS = 5
#: For each visit 1 or 0 where the outcome is asked about, −1 where it is not.
Truth = NDArray[np.int8]


class Outcome(NamedTuple):
    """Something that a visit may end in: its name, its truth for each visit, and the systems of codes that tell it."""

    name: str
    truth: Callable[[Stays], Truth]
    telling: tuple[str, ...]


def died_at_last(stays: Stays) -> Truth:
    """Whether a record ends with death, asked of its last visit."""
    out = np.full(stays.cohort.n_visits, -1, dtype=np.int8)
    out[stays.cohort.last_visits] = stays.died[stays.cohort.last_visits]
    return out


def came_back(stays: Stays) -> Truth:
    """Whether another stay follows soon, asked of every stay of which it is known."""
    return stays.readmitted


MORTALITY = Outcome("death", died_at_last, (DEATH.system, LENGTH_OF_STAY.system, READMITTED.system))
READMISSION = Outcome("readmission", came_back, (READMITTED.system,))


def bands_of(train: Cohort) -> Quantizer:
    """The bands that classifiers read numbers in."""
    return Quantizer.of(train, n_bands=N_BANDS)


def readable(cohort: Cohort, bands: Quantizer) -> Cohort:
    """The cohort with a band in the place of each number that has bands; other numbers stay as plain codes.

    >>> from adapcla.data.vocabulary import Code
    >>> lab = Code.of("glucose", "LAB", domain="lab", unit="mg/dL")
    >>> train = Cohort.of([[["LAB/glucose"]]] * 44, [lab], values=np.arange(80, 124, dtype=np.float32))
    >>> list(readable(train.subset([0]), Quantizer.of(train, n_bands=2)).patients())
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
        codes[mine] = of_band[number.band(np.asarray(cohort.values)[mine])]
    order = np.lexsort((codes, cohort.visit_of_entry))
    return replace(plain, vocabulary=wide, codes=codes[order])


class Examples(NamedTuple):
    """Records that are asked about, one for each: its patient, the record itself, and the answer."""

    patient: NDArray[np.int64]
    inputs: Cohort
    truth: NDArray[np.uint8]


def examples_of(cohort: Cohort, truth: Truth, outcome: Outcome, most: int, seed: int) -> Examples:
    """The examples of a cohort, `most` of them at random where there are more."""
    visits = np.flatnonzero(truth >= 0)
    if len(visits) > most:
        visits = np.sort(random_stream(seed, f"outcomes of {outcome.name}").choice(visits, most, replace=False))
    patient = cohort.patient_of_visit[visits]
    wide = Vocabulary.of([*cohort.vocabulary.codes, f"{ASKED}/00"])
    records = cohort.on(wide).subset(patient)
    first = records.first_visits
    records = recent(records.with_visits(first, first + cohort.visit_number[visits] + 1))
    telling = np.array([code.system in outcome.telling for code in wide.codes], dtype=bool)
    judged = records.visit_of_entry == records.last_visits[records.patient_of_entry]
    question = np.full(len(visits), wide.index[f"{ASKED}/00"], dtype=np.int64)
    asked = with_question(records, judged & telling[records.codes], question)
    return Examples(patient, asked, (truth[visits] == 1).astype(np.uint8))


def outcome_scores(outcome: Outcome, statistic: Statistic, comparison: Comparison) -> dict[str, Score]:
    """A statistic of an outcome that was learned from the synthetic patients and asked of the test patients."""
    said = comparison.once(_judgement, outcome)
    return {ALL: said.score if isinstance(said, Missing) else mean_score(comparison, [said], statistic)}


def _judgement(comparison: Comparison, outcome: Outcome) -> Judgement | Missing:
    """What the classifier says of the test patients; or why there is nothing to say.

    Where synthetic patients cannot teach an outcome that test patients can judge, it is answered "no" for everybody.
    """
    whole = comparison.whole
    bands = comparison.of_cohort(bands_of, whole.train)
    known = outcome.truth(comparison.of_cohort(Stays.of, whole.test))
    asked = examples_of(readable(whole.test, bands), known, outcome, MOST_JUDGED, comparison.seed)
    few = _too_few(asked.truth, f"test visits with {outcome.name}")
    if few:
        return few
    most = min(EXAMPLES, QUICK_PATIENTS) if comparison.quick else EXAMPLES
    truth = outcome.truth(comparison.once(synthetic_stays))
    learned = examples_of(readable(whole.synthetic, bands), truth, outcome, most, comparison.seed)
    few = _too_few(learned.truth, f"synthetic visits with {outcome.name}")
    if few:
        return Judgement(0, asked.patient, asked.truth, np.zeros(len(asked.truth)), few.reason)
    random = random_stream(comparison.seed, f"parts for {outcome.name}")
    rows = apart(record_keys(learned.inputs), np.arange(len(learned.truth)), VALID_SHARE, random)
    train, valid = (Tasks(learned.inputs, (part,), (learned.truth[part, None],)) for part in rows)
    model = fit(train, valid, comparison.seed, settings_of(comparison))
    judging = Tasks(asked.inputs, (np.arange(len(asked.truth)),), (asked.truth[:, None],))
    return Judgement(0, asked.patient, asked.truth, predict(model, judging)[0][:, 0])


def _too_few(truth: NDArray[np.uint8], what: str) -> Missing | None:
    """Why an outcome cannot be learned or judged, or None."""
    positive = int(truth.sum())
    if min(positive, len(truth) - positive) >= FEWEST:
        return None
    return Missing(
        f"insufficient data: {positive} of {len(truth)} {what}, {FEWEST} with and without needed", len(truth)
    )
