"""How alike patients of a condition are to real patients of the same condition: other codes, course, people, length.

Every score is a Jensen–Shannon divergence in nats between what two cohorts hold: 0 for equal shares, ln 2 for nothing
in common. That of the codes in the same visit is, for a single code, its TailCtxJSD. All rows have as many patients and
are compared with the same real ones, since a divergence of counts is the larger the fewer there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import jensenshannon

from adapcla.data import Cohort
from adapcla.data.criteria import Criteria, clause_codes
from adapcla.errors import UsageError
from adapcla.evaluation.bootstrap import jackknife_score
from adapcla.evaluation.comparison import Missing, Score, patient_groups
from adapcla.evaluation.metric import NATS
from adapcla.evaluation.references import halves, some_patients, train_copy
from adapcla.seeds import random_stream
from adapcla.tables import Cell, Table

#: Fewest real patients of a condition that anything is compared with.
FEWEST = 30
#: Lengths of records from here on are one.
_LONGEST = 20
#: The row of real patients and of copies of training patients; other rows are named by the caller.
REAL, COPIES = "real", "copies"


def marked_visits(cohort: Cohort, condition: Criteria, seed: int = 1) -> NDArray[np.bool_]:
    """The visits that hold a code of the condition; of a patient without one, any one visit, by chance.

    >>> marked_visits(Cohort.of([[["A"], ["B"], ["B", "C"]], [["A"]]]), Criteria.of("B")).tolist()
    [False, True, True, True]
    """
    marked = np.zeros(cohort.n_visits, dtype=bool)
    marked[cohort.visit_of_entry[np.isin(np.asarray(cohort.codes), clause_codes(cohort, condition))]] = True
    none = np.setdiff1d(np.arange(cohort.n_patients), cohort.patient_of_visit[marked])
    share = random_stream(seed, "marked visits").random(cohort.n_patients)[none]
    marked[cohort.first_visits[none] + (share * cohort.visits_per_patient[none]).astype(np.int64)] = True
    return marked


def holdings(cohort: Cohort, condition: Criteria, seed: int = 1) -> dict[str, sparse.csr_matrix]:
    """What each patient holds, by score: patients × what is counted.

    `same_visit`: codes of marked visits but those of the condition; `before` and `after`: codes of the visits before
    and after the first marked one; each static attribute by its category; `length`: the number of visits.

    >>> cohort = Cohort.of([[["A"], ["B", "C"], ["D"]]])
    >>> held = holdings(cohort, Criteria.of("B"))
    >>> [cohort.vocabulary.tokens[held[name].indices[0]] for name in ("before", "same_visit", "after")]
    ['A', 'C', 'D']
    """
    marked, number, owner = marked_visits(cohort, condition, seed), cohort.visit_number, cohort.patient_of_visit
    first = np.full(cohort.n_patients, np.iinfo(np.int64).max)
    np.minimum.at(first, owner[marked], number[marked])
    others = np.ones(cohort.n_codes)
    others[clause_codes(cohort, condition)] = 0
    chosen = {"same_visit": marked, "before": number < first[owner], "after": number > first[owner]}
    out = {}
    for name, visits in chosen.items():
        held = _by_patient(owner[visits], np.flatnonzero(visits), cohort.n_patients, cohort.n_visits) @ cohort.matrix()
        held = (held @ sparse.diags(others) if name == "same_visit" else held).tocsr()
        held.eliminate_zeros()
        out[name] = held
    patients = np.arange(cohort.n_patients)
    for name, attribute in sorted(cohort.attributes.items()):
        values = np.asarray(attribute.values).astype(np.int64) + 1
        out[name] = _by_patient(patients, values, cohort.n_patients, len(attribute.categories) + 1)
    length = np.minimum(cohort.visits_per_patient, _LONGEST) - 1
    out["length"] = _by_patient(patients, length, cohort.n_patients, _LONGEST)
    return out


def _by_patient(patient: NDArray[np.int64], column: NDArray[np.int64], n: int, width: int) -> sparse.csr_matrix:
    """Patients × columns with a 1 at these places."""
    return sparse.csr_matrix((np.ones(len(patient)), (patient, column)), shape=(n, width))


def divergence(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """The Jensen–Shannon divergence of two rows of counts, in nats; NaN where either is empty.

    >>> round(divergence(np.array([1.0, 0.0]), np.array([0.0, 2.0])), 4), divergence(np.array([1.0]), np.array([3.0]))
    (0.6931, 0.0)
    """
    # scipy gives the square root of the divergence.
    return float(jensenshannon(one, two)) ** 2 if one.sum() and two.sum() else float("nan")


def condition_scores(real: Cohort, synthetic: Cohort, condition: Criteria, seed: int = 1) -> dict[str, Score]:
    """The divergence of each part, with a jackknife interval over the synthetic patients; both on one vocabulary."""
    theirs, own = holdings(real, condition, seed), holdings(synthetic, condition, seed)
    groups = patient_groups(synthetic.n_patients, seed)
    out: dict[str, Score] = {}
    for name, held in theirs.items():
        if name not in own or own[name].shape[1] != held.shape[1]:
            out[name] = Missing("the patients compared do not have it").score
            continue
        goal, counts = (np.asarray(part.sum(axis=0), dtype=float).ravel() for part in (held, own[name]))
        without = [
            divergence(goal, counts - np.asarray(own[name][groups == group].sum(axis=0), dtype=float).ravel())
            for group in range(int(groups.max()) + 1)
        ]
        reason = f"no code stands there among the {'real patients' if not goal.sum() else 'patients compared'}"
        out[name] = jackknife_score(divergence(goal, counts), synthetic.n_patients, without, NATS, reason)
    return out


@dataclass(frozen=True, eq=False)
class ConditionScores:
    """The scores of every row against the real patients of a condition."""

    condition: Criteria
    n_real: int
    n_each: int
    rows: dict[str, dict[str, Score]]

    @property
    def table(self) -> Table:
        """A row for each cohort, a column for each score."""
        names = list(dict.fromkeys(name for scores in self.rows.values() for name in scores))
        return Table(
            ("patients", "n", *(f"{name} ↓" for name in names)),
            [
                (row, f"{max(s.n for s in scores.values()):,}", *(_cell(scores.get(name)) for name in names))
                for row, scores in self.rows.items()
            ],
        )

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        return {
            "condition": self.condition.as_card(),
            "real patients compared with": self.n_real,
            "patients of a row": self.n_each,
            "rows": {row: {name: vars(score) for name, score in scores.items()} for row, scores in self.rows.items()},
        }


def _cell(score: Score | None) -> Cell:
    if score is None or score.value is None:
        return Cell("–", None, "" if score is None else score.reason)
    note = f"[{score.low:.3f}, {score.high:.3f}]" if score.low is not None and score.high is not None else ""
    return Cell(f"{score.value:.3f}", score.value, note)


def compare_condition(
    condition: Criteria, train: Cohort, test: Cohort, others: Mapping[str, Cohort], seed: int = 1
) -> ConditionScores:
    """Every cohort of `others` against held-out real patients who fulfil the condition, beside real ones and copies.

    One half of the held-out patients is what all are compared with, the other half is the row `real`. Others are taken
    as they are: whoever wants only those who fulfil the condition takes them first. Rows with fewer patients than that
    half have fewer, and say so by their number.
    """
    have = condition.patients(test)
    if have.n_patients < FEWEST:
        raise UsageError(
            f"fewer than {FEWEST} held-out patients are {condition.text}\n"
            "to do: name a family of codes, or give more held-out patients"
        )
    both = halves(have)
    n = both.ceiling.n_patients
    learned = condition.patients(train.on(test.vocabulary) if train.vocabulary != test.vocabulary else train)
    cohorts = {REAL: both.ceiling, COPIES: train_copy(learned, n, seed), **others}
    rows = {
        name: condition_scores(both.reference, some_patients(cohort.on(test.vocabulary), n, seed), condition, seed)
        for name, cohort in cohorts.items()
        if cohort.n_patients
    }
    return ConditionScores(condition, both.reference.n_patients, n, rows)
