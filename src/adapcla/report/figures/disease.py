"""What a disease looks like: the company of its code and its course over visits, real beside written patients."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.data.criteria import Criteria
from adapcla.disclosure import MIN_COUNT
from adapcla.evaluation.conditioned import holdings, marked_visits
from adapcla.report.style import PALETTE, panels

#: Codes shown at most, and visits before and after the first one with the code.
TOP, BACK, AHEAD = 12, 2, 3
_NAMES = ("real (held out)", "written")


def company_shares(cohort: Cohort, condition: Criteria) -> NDArray[np.float64]:
    """Share of patients who have each code in a visit with an asked one.

    >>> company_shares(Cohort.of([[["A", "B"]], [["A"], ["C"]]]), Criteria.of("A")).tolist()
    [0.0, 0.5, 0.0]
    """
    held = holdings(cohort, condition)["company"] > 0
    return np.asarray(held.sum(axis=0), dtype=float).ravel() / max(cohort.n_patients, 1)


def course(cohort: Cohort, condition: Criteria) -> NDArray[np.int64]:
    """Patients who have a visit at each distance from their first one with an asked code, and with the code there.

    Rows are distances from `BACK` visits before to `AHEAD` visits after.

    >>> course(Cohort.of([[["B"], ["A"], ["A"]]]), Criteria.of("A")).tolist()
    [[0, 0], [1, 0], [1, 1], [1, 1], [0, 0], [0, 0]]
    """
    marked, number = marked_visits(cohort, condition), cohort.visit_number
    first = np.full(cohort.n_patients, np.iinfo(np.int64).max)
    np.minimum.at(first, cohort.patient_of_visit[marked], number[marked])
    distance = number - first[cohort.patient_of_visit] + BACK
    near = (distance >= 0) & (distance <= BACK + AHEAD)
    both = [np.bincount(distance[near & which], minlength=BACK + AHEAD + 1) for which in (number >= 0, marked)]
    return np.stack(both, axis=1).astype(np.int64)


def disease(condition: Criteria, real: Cohort, written: Cohort) -> Figure:
    """Company on the left, course on the right; what fewer real patients have than may be told is left out.

    >>> cohort = Cohort.of([[["A", "B"], ["A"]]] * 30)
    >>> len(disease(Criteria.of("A"), cohort, cohort).axes)
    3
    """
    written = written.on(real.vocabulary)
    shares = [company_shares(cohort, condition) for cohort in (real, written)]
    told = np.flatnonzero(shares[0] * real.n_patients >= MIN_COUNT - 0.5)
    top = told[np.argsort(-shares[0][told], kind="stable")][:TOP][::-1]
    with panels(1, 3, width=3.6, height=0.9 + 0.24 * max(len(top), 8)) as (figure, axes):
        company, there, again = axes[0]
        for k, (name, of_codes) in enumerate(zip(_NAMES, shares, strict=True)):
            company.barh(np.arange(len(top)) + 0.2 - 0.4 * k, of_codes[top], 0.38, color=PALETTE[k], label=name)
        company.set_yticks(np.arange(len(top)), [_named(real, int(code)) for code in top])
        company.set(title="in the same visit", xlabel="share of patients", xlim=(0, None))
        counts = [course(cohort, condition) for cohort in (real, written)]
        enough = counts[0][:, 0] >= MIN_COUNT
        told_again = enough & ((counts[0][:, 1] == 0) | (counts[0][:, 1] >= MIN_COUNT))
        away = np.arange(-BACK, AHEAD + 1)
        for k, (name, cohort) in enumerate(zip(_NAMES, (real, written), strict=True)):
            seen = counts[k]
            there.plot(away[enough], seen[enough, 0] / cohort.n_patients, "o-", color=PALETTE[k], label=name)
            share = seen[:, 1] / np.maximum(seen[:, 0], 1)
            again.plot(away[told_again], share[told_again], "o-", color=PALETTE[k])
        distance = "visits from the first one with the code"
        there.set(title="patients with such a visit", xlabel=distance, ylim=(0, 1.25), xticks=away)
        there.legend(loc="upper left")
        again.set(title="share of them with the code", xlabel=distance, ylim=(-0.05, 1.25), xticks=away)
    return figure


def _named(cohort: Cohort, position: int) -> str:
    """A code with as much of its description as fits."""
    code = cohort.vocabulary.codes[position]
    return f"{code.token} {code.description[:24]}".strip()


def rarest(test: Cohort, fewest: int, most: int) -> list[int]:
    """The rarest codes that at least so many patients hold, rarest first.

    >>> rarest(Cohort.of([[["A", "B"]], [["A"]], [["A", "C"]]]), fewest=1, most=2)
    [1, 2]
    """
    counts = test.patient_counts
    order = np.lexsort((np.arange(len(counts)), counts))
    return [int(code) for code in order if counts[code] >= fewest][:most]
