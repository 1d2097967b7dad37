"""How alike patients of a condition are to real patients of the same condition: company, course, people, length.

Every score is a Jensen–Shannon divergence in nats between what two cohorts hold: 0 for equal shares, ln 2 for nothing
in common. The company of a single code is its TailCtxJSD. All rows are judged with as many patients, against the same
real ones, since a divergence of counts is the larger the fewer there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.data.criteria import Criteria, clause_codes
from adapcla.errors import UsageError
from adapcla.evaluation.bootstrap import jackknife_score
from adapcla.evaluation.comparison import Missing, Score, patient_groups
from adapcla.evaluation.metric import LOG2
from adapcla.evaluation.references import halves, some_patients, train_copy
from adapcla.seeds import random_stream
from adapcla.tables import Cell, Table

#: Fewest real patients of a condition that anything is compared with.
FEWEST = 30
#: Lengths of records from here on are one.
_LONGEST = 20
#: The row of real patients and of copies of training patients; other rows are named by whoever judges.
REAL, COPIES = "real", "copies"


def marked_visits(cohort: Cohort, condition: Criteria, seed: int = 1) -> NDArray[np.bool_]:
    """The visits that hold a code that is asked for; of a patient without one, any one visit, by chance.

    >>> marked_visits(Cohort.of([[["A"], ["B"], ["B", "C"]], [["A"]]]), Criteria.of("B")).tolist()
    [False, True, True, True]
    """
    asked = clause_codes(cohort, condition)
    marked = np.zeros(cohort.n_visits, dtype=bool)
    marked[cohort.visit_of_entry[np.isin(np.asarray(cohort.codes), asked)]] = True
    none = np.setdiff1d(np.arange(cohort.n_patients), cohort.patient_of_visit[marked])
    share = random_stream(seed, "marked visits").random(cohort.n_patients)[none]
    marked[cohort.first_visits[none] + (share * cohort.visits_per_patient[none]).astype(np.int64)] = True
    return marked


def holdings(cohort: Cohort, condition: Criteria, seed: int = 1) -> dict[str, sparse.csr_matrix]:
    """What each patient holds, by score: patients × what is counted.

    `company`: codes of marked visits but the asked ones; `before` and `after`: codes of the visits before and after
    the first marked one; each static attribute by its category; `length`: the number of visits.

    >>> cohort = Cohort.of([[["A"], ["B", "C"], ["D"]]])
    >>> held = holdings(cohort, Criteria.of("B"))
    >>> [cohort.vocabulary.tokens[held[name].indices[0]] for name in ("before", "company", "after")]
    ['A', 'C', 'D']
    """
    marked, number = marked_visits(cohort, condition, seed), cohort.visit_number
    first = np.full(cohort.n_patients, np.iinfo(np.int64).max)
    np.minimum.at(first, cohort.patient_of_visit[marked], number[marked])
    at = first[cohort.patient_of_visit]
    visits, patients = cohort.matrix(), np.arange(cohort.n_patients)
    others = np.ones(cohort.n_codes)
    others[clause_codes(cohort, condition)] = 0
    out = {}
    for name, chosen in (("company", marked), ("before", number < at), ("after", number > at)):
        owner = cohort.patient_of_visit[chosen]
        shape = (cohort.n_patients, int(chosen.sum()))
        gather = sparse.csr_matrix((np.ones(shape[1]), (owner, np.arange(shape[1]))), shape=shape)
        held = gather @ visits[np.flatnonzero(chosen)]
        held = (held @ sparse.diags(others) if name == "company" else held).tocsr()
        held.eliminate_zeros()
        out[name] = held
    for name, attribute in sorted(cohort.attributes.items()):
        values = np.asarray(attribute.values).astype(np.int64) + 1
        shape = (cohort.n_patients, len(attribute.categories) + 1)
        out[name] = sparse.csr_matrix((np.ones(cohort.n_patients), (patients, values)), shape=shape)
    length = np.minimum(cohort.visits_per_patient, _LONGEST) - 1
    out["length"] = sparse.csr_matrix(
        (np.ones(cohort.n_patients), (patients, length)), shape=(cohort.n_patients, _LONGEST)
    )
    return out


def divergence(one: NDArray[np.float64], two: NDArray[np.float64]) -> float:
    """The Jensen–Shannon divergence of two rows of counts, in nats; NaN where either is empty.

    >>> round(divergence(np.array([1.0, 0.0]), np.array([0.0, 2.0])), 4), divergence(np.array([1.0]), np.array([3.0]))
    (0.6931, 0.0)
    """
    if not one.sum() or not two.sum():
        return float("nan")
    p, q = one / one.sum(), two / two.sum()
    middle = (p + q) / 2

    def towards_middle(share: NDArray[np.float64]) -> float:
        there = share > 0
        return float((share[there] * np.log(share[there] / middle[there])).sum())

    return min(max((towards_middle(p) + towards_middle(q)) / 2, 0.0), LOG2)


def condition_scores(real: Cohort, judged: Cohort, condition: Criteria, seed: int = 1) -> dict[str, Score]:
    """The divergence of each part, with a jackknife interval over the judged patients; both on one vocabulary."""
    theirs, own = holdings(real, condition, seed), holdings(judged, condition, seed)
    groups = patient_groups(judged.n_patients, seed)
    out: dict[str, Score] = {}
    for name, held in theirs.items():
        if name not in own or own[name].shape[1] != held.shape[1]:
            out[name] = Missing("the judged patients do not have it").score
            continue
        goal = np.asarray(held.sum(axis=0), dtype=float).ravel()
        counts = np.asarray(own[name].sum(axis=0), dtype=float).ravel()
        without = [
            divergence(goal, counts - np.asarray(own[name][groups == group].sum(axis=0), dtype=float).ravel())
            for group in range(int(groups.max()) + 1)
        ]
        reason = f"no code stands there among the {'real' if not goal.sum() else 'judged'} patients"
        out[name] = jackknife_score(divergence(goal, counts), judged.n_patients, without, (0.0, LOG2), reason)
    return out


@dataclass(frozen=True, eq=False)
class Judged:
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


def judge(condition: Criteria, train: Cohort, test: Cohort, others: Mapping[str, Cohort], seed: int = 1) -> Judged:
    """Every cohort of `others` against held-out real patients who fulfil the condition, beside real ones and copies.

    One half of the held-out patients is what all are compared with, the other half is the row `real`. Others are judged
    as they are: whoever wants only those who fulfil the condition takes them first. Rows with fewer patients than that
    half have fewer, and say so by their number.
    """
    have = condition.patients(test)
    if have.n_patients < FEWEST:
        raise UsageError(
            f"fewer than {FEWEST} held-out patients are {condition.text}\n"
            "to do: ask for a family of codes, or give more held-out patients"
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
    return Judged(condition, both.reference.n_patients, n, rows)
