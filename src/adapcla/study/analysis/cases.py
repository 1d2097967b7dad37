"""Case A, conditional generation: what each method expects at the last visit of held-out patients, given the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort, Strata
from adapcla.errors import UsageError
from adapcla.evaluation.bootstrap import DRAWS, LEVEL, bootstrap_sums
from adapcla.generation.generator import Generator
from adapcla.study.analysis.histories import NextVisits, true_next_visit

Array = NDArray[np.float64]
#: From histories to the chance of each code at the next visit (patients × codes).
Predictor = Callable[[Cohort], Array]
TRUTH, AGAIN = "truth", "last visit again"
#: Places of a ranking that count as found.
TOPS = (10, 20, 30)
#: Edges of the calibration bins: rare codes live at small probabilities, so the bins are equal in logarithm.
BINS = np.array([0.0, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
#: Patients whose probabilities are held at once.
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class _Group:
    """The codes that a row of the table is about; `new` leaves out the codes of the patient's own history."""

    name: str
    codes: NDArray[np.bool_]
    new: bool


def code_groups(strata: Strata) -> list[_Group]:
    """Every stratum, once with all codes and once with those that the history does not hold."""
    every = np.ones(len(strata.counts), dtype=bool)
    masks = {"all": every, "head": strata.head, "mid": strata.mid, "tail": strata.tail}
    return [
        _Group(name if not new else f"new {name}", mask, new) for new in (False, True) for name, mask in masks.items()
    ]


def predictors(runs: dict[str, Generator], draws: int, seed: int, histories: Cohort) -> dict[str, Predictor]:
    """One predictor for each run, one that repeats the last visit, and the true law where the patients are planted."""
    out: dict[str, Predictor] = {}
    for name, run in runs.items():
        if run.vocabulary_ != histories.vocabulary:
            raise UsageError(f"{name} was trained on another vocabulary than the held-out patients have")
        out[name] = _of_run(run, draws, seed)
    out[AGAIN] = lambda cohort: np.asarray(cohort.matrix()[cohort.last_visits].toarray(), float)
    if true_next_visit(histories.subset([0])) is not None:
        out[TRUTH] = lambda cohort: np.asarray(true_next_visit(cohort))
    return out


def _of_run(run: Generator, draws: int, seed: int) -> Predictor:
    """The run's own probabilities, exact or by draws."""
    exact = run.settings.architecture.one_shot
    return lambda cohort: run.continue_(cohort, visits=1, draws=1 if exact else draws, seed=seed).probabilities


@dataclass(eq=False)
class _Tally:
    """Sums over patients for one method and one group of codes; `sums` has one row per patient."""

    group: _Group
    sums: list[Array] = field(default_factory=list)
    bins: Array = field(default_factory=lambda: np.zeros((len(BINS) - 1, 3)))

    def add(self, chance: Array, present: Array, seen: NDArray[np.bool_], rank: NDArray[np.int64]) -> None:
        """Count a block of patients; `rank` is the rank of each code by its chance."""
        allowed = self.group.codes[None, :] & ~seen if self.group.new else np.broadcast_to(self.group.codes, seen.shape)
        p, y = np.where(allowed, chance, 0.0), np.where(allowed, present, 0.0)
        within = np.argsort(np.argsort(np.where(allowed, -chance, np.inf), axis=1, kind="stable"), axis=1)
        safe = np.clip(p, 1e-6, 1 - 1e-6)
        loss = np.where(allowed, -np.where(y > 0, np.log(safe), np.log1p(-safe)), 0.0)
        columns = [(p * y).sum(1), p.sum(1), y.sum(1), allowed.sum(1), ((p - y) ** 2).sum(1), loss.sum(1)]
        columns += [(y * (rank < top)).sum(1) for top in TOPS]
        columns += [(y * (within < top)).sum(1) for top in TOPS]
        self.sums.append(np.stack(columns, axis=1))
        where = np.clip(np.searchsorted(BINS, p[allowed], side="right") - 1, 0, len(BINS) - 2)
        for column, weights in enumerate((np.ones(len(where)), p[allowed], y[allowed])):
            self.bins[:, column] += np.bincount(where, weights=weights, minlength=len(BINS) - 1)

    def rows(self, seed: int) -> list[dict[str, Any]]:
        """One row per measure, with an interval over patients."""
        sums = np.concatenate(self.sums)
        hit, drawn, true, cells, squares, loss = range(6)
        ratios = {"hit_rate": (hit, drawn), "chance_of_true_code": (hit, true), "expected_to_observed": (drawn, true)}
        ratios |= {f"recall_at_{top}": (6 + i, true) for i, top in enumerate(TOPS)}
        ratios |= {f"recall_at_{top}_within": (6 + len(TOPS) + i, true) for i, top in enumerate(TOPS)}
        ratios |= {"brier": (squares, cells), "nll": (loss, cells)}
        resampled = bootstrap_sums(sums, seed, DRAWS)
        total = sums.sum(axis=0)
        out = []
        for name, (top, bottom) in ratios.items():
            low = high = value = None
            if total[bottom] > 0:
                value = float(total[top] / total[bottom])
                good = resampled[resampled[:, bottom] > 0]
                low, high = np.quantile(good[:, top] / good[:, bottom], [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
            out.append({"measure": name, "value": value, "low": low, "high": high, "n": int(total[true])})
        gap = np.abs(self.bins[:, 1] - self.bins[:, 2]).sum() / max(self.bins[:, 0].sum(), 1)
        return [
            *out,
            {"measure": "calibration_error", "value": float(gap), "low": None, "high": None, "n": int(total[true])},
        ]

    def bin_rows(self) -> list[dict[str, Any]]:
        """One row for each bin that is not empty."""
        return [
            {
                "low": low,
                "high": high,
                "n": int(n),
                "expected": float(p / n),
                "observed": float(y / n),
                "events": int(y),
            }
            for low, high, (n, p, y) in zip(BINS[:-1].tolist(), BINS[1:].tolist(), self.bins, strict=True)
            if n > 0
        ]


def next_visit_tables(
    cases: NextVisits, methods: dict[str, Predictor], strata: Strata, seed: int = 1
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Hit rates, recall and losses by method and stratum over all cases, and the calibration bins behind them.

    - hit_rate: share of the drawn codes that really came; chance_of_true_code: share of the real ones that are drawn
    - recall_at_k: real codes among the k likeliest of all codes; `_within`: among the k likeliest of the stratum
    - expected_to_observed: number of codes promised over number that came; 1 is calibrated in the large
    """
    if len(cases.patients) == 0:
        raise UsageError("no held-out patient has two visits, so that there is no next visit to generate")
    seen, scores, bins = cases.seen, [], []
    for name, predictor in methods.items():
        tallies = [_Tally(group) for group in code_groups(strata)]
        for low in range(0, len(cases.patients), _BLOCK):
            rows = np.arange(low, min(low + _BLOCK, len(cases.patients)))
            _count(tallies, predictor(cases.histories.subset(rows)), cases.following[rows], seen[rows])
        for tally in tallies:
            about = {"method": name, "stratum": tally.group.name, "patients": len(cases.patients)}
            scores += [{**about, **row} for row in tally.rows(seed)]
            bins += [{**about, **row} for row in tally.bin_rows()]
    return pl.DataFrame(scores, infer_schema_length=None), pl.DataFrame(bins, infer_schema_length=None)


def _count(tallies: Sequence[_Tally], chance: Array, following: sparse.csr_matrix, seen: sparse.csr_matrix) -> None:
    """Add a block of patients to every tally."""
    rank = np.argsort(np.argsort(-chance, axis=1, kind="stable"), axis=1)
    present, known = following.toarray().astype(np.float64), seen.toarray() > 0
    for tally in tallies:
        tally.add(chance, present, known, rank)
