"""Case A, conditional generation of next visits, and Case B, the codes that occur with a tail code."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import rankdata, spearmanr

from adapcla.data import Cohort, Kind, Strata
from adapcla.data.cooccurrence import PairSet, cooccurrence_counts
from adapcla.errors import InputError, UsageError
from adapcla.evaluation.bootstrap import DRAWS, LEVEL, bootstrap_sums
from adapcla.evaluation.statistics import top_neighbours
from adapcla.generation.model import seen_records
from adapcla.study.analysis.correlation import estimate
from adapcla.study.analysis.kernel import label_kernels
from adapcla.study.analysis.probes import NextVisits, Trajectory, require_one_shot, true_next_visit
from adapcla.tables import Table

if TYPE_CHECKING:
    from adapcla.generation.generator import Generator

# ---- case A: next visits -------------------------------------------------------------------------------------
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
    """One predictor for each run, one that repeats the last visit, and the true one of simulated patients."""
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
    seen, scores, bins = cases.history_codes, [], []
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


# ---- against the true distribution ---------------------------------------------------------------------------
#: The row that says what the prevalences of training alone give.
PREVALENCE = "prevalence"


def mean_correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The mean Spearman correlation of the rows of two matrices; rows without variation are left out.

    >>> mean_correlation(np.array([[1.0, 2, 3], [1, 2, 3]]), np.array([[2.0, 4, 9], [3, 2, 1]]))
    0.0
    >>> mean_correlation(np.ones((1, 3)), np.array([[2.0, 4, 9]]))
    nan
    """
    ranks = [rankdata(matrix, axis=1) for matrix in (first, second)]
    left, right = (r - r.mean(axis=1, keepdims=True) for r in ranks)
    size = np.sqrt((left**2).sum(1) * (right**2).sum(1))
    varied = size > 0
    return float(((left * right).sum(1)[varied] / size[varied]).mean()) if varied.any() else float("nan")


def agreements(learned: NDArray[np.float64], truth: NDArray[np.float64]) -> dict[str, float]:
    """How well two (histories, codes) matrices of probabilities agree.

    Over all cells they can agree by prevalences alone, and inside a history too; inside a code they cannot.
    """
    return {
        "all_cells": float(spearmanr(learned.ravel(), truth.ravel()).statistic),
        "inside_a_history": mean_correlation(learned, truth),
        "inside_a_code": mean_correlation(learned.T, truth.T),
    }


def law_table(train: Cohort, histories: Cohort, methods: Mapping[str, Predictor]) -> pl.DataFrame:
    """Spearman's correlation of next-visit probabilities with the true ones, by method, stratum and population.

    Those of another population with the same codes are the counter-example.
    """
    truths = {
        "own": true_next_visit(histories),
        "another": true_next_visit(histories, other_world=True),
    }
    strata = train.strata()
    codes = {"head": strata.head, "mid": strata.mid, "tail": strata.tail, "head and mid": strata.head | strata.mid}
    prevalence = np.nan_to_num(train.prevalence().share)
    known: dict[str, Predictor] = {PREVALENCE: lambda cohort: np.tile(prevalence, (cohort.n_patients, 1))}
    rows = []
    for method, predictor in {**known, **methods}.items():
        learned = np.asarray(predictor(histories), dtype=np.float64)
        for stratum, mask in codes.items():
            for world, truth in truths.items():
                if truth is None:
                    raise UsageError(
                        "the true probabilities of these patients are not known\nto do: analyse patients of `simulate`"
                    )
                agreement = agreements(learned[:, mask], truth[:, mask])
                rows.append(
                    {"method": method, "stratum": stratum, "codes": int(mask.sum()), "world": world, **agreement}
                )
    return pl.DataFrame(rows)


# ---- single examples -----------------------------------------------------------------------------------------
class Role(StrEnum):
    """What a code of an example is."""

    HISTORY = "history"
    TRUTH = "truth"
    CORRECT = "correct"
    WRONG = "wrong"
    MISSED = "missed"


def chosen_examples(cases: NextVisits, n: int, seed: int = 1) -> NDArray[np.int64]:
    """The cases whose histories have the smallest hash with the seed, so that the outcome plays no part.

    >>> from adapcla.study.analysis.probes import next_visits
    >>> one = next_visits(Cohort.of([[["A"], ["B"]], [["B"], ["A"]], [["A", "B"], ["A"]]]))
    >>> two = next_visits(Cohort.of([[["A"], ["A"]], [["B"], ["B"]], [["A", "B"], ["B"]]]))
    >>> chosen_examples(one, 2).tolist() == chosen_examples(two, 2).tolist()
    True
    """
    hashes = [
        hashlib.blake2b(f"{seed}/{patient}".encode(), digest_size=16).hexdigest()
        for patient in cases.histories.patients()
    ]
    return np.argsort(np.array(hashes), kind="stable")[:n]


def may_show_patients(cohort: Cohort) -> bool:
    """Whether single patients of a cohort may be shown: only made-up ones may.

    >>> from adapcla.data import Origin
    >>> drawn = Cohort.of([[["A"]]], card=Origin(Kind.SIMULATED).as_card())
    >>> may_show_patients(Cohort.of([[["A"]]])), may_show_patients(drawn)
    (False, True)
    """
    # A generator may have learned a patient by heart, so that its samples are not shown either.
    return cohort.origin.kind == Kind.SIMULATED


def example_table(cases: NextVisits, runs: dict[str, Generator], strata: Strata, n: int, seed: int = 1) -> pl.DataFrame:
    """One row per code of the history, of the real next visit and of one visit drawn by each method."""
    rows: list[dict[str, Any]] = []
    for number, case in enumerate(chosen_examples(cases, n, seed).tolist()):
        history = cases.histories.subset([case])
        for visit in range(history.n_visits):
            held = history.codes_of(visit)
            rows += _code_rows(strata, number, f"visit {visit + 1}", Role.HISTORY, held)
        truth = np.sort(cases.following[[case]].indices)
        rows += _code_rows(strata, number, "real next visit", Role.TRUTH, truth)
        for name, run in runs.items():
            drawn = np.asarray(run.continue_(history, visits=1, draws=1, seed=seed).drawn.codes)
            rows += _code_rows(strata, number, name, Role.CORRECT, np.intersect1d(drawn, truth))
            rows += _code_rows(strata, number, name, Role.WRONG, np.setdiff1d(drawn, truth))
            rows += _code_rows(strata, number, name, Role.MISSED, np.setdiff1d(truth, drawn))
    return pl.DataFrame(rows, infer_schema_length=None)


def _code_rows(strata: Strata, example: int, source: str, role: Role, codes: NDArray[Any]) -> list[dict[str, Any]]:
    """Rows of some codes."""
    known = strata.vocabulary.codes
    return [
        {
            "example": example,
            "source": source,
            "role": role.value,
            "code": known[code].token,
            "description": known[code].description,
            "tail": bool(strata.tail[code]),
        }
        for code in codes.tolist()
    ]


def example_markdown(table: pl.DataFrame) -> str:
    """The examples as the paper's table: ✓ correct, ✗ wrong, ○ missed, ◆ a tail code."""
    marks = {Role.CORRECT: "✓ ", Role.WRONG: "✗ ", Role.MISSED: "○ "}
    lines = ["✓ correct · ✗ wrong · ○ missed · ◆ tail code", ""]
    for (example,), part in table.group_by(["example"], maintain_order=True):
        rows = []
        for (source,), mine in part.group_by(["source"], maintain_order=True):
            codes = [
                f"{marks.get(Role(row['role']), '')}{row['description'] or row['code']}{' ◆' if row['tail'] else ''}"
                for row in mine.to_dicts()
            ]
            rows.append((str(source), "; ".join(codes)))
        lines += [f"## Example {int(str(example)) + 1}", "", Table(("source", "codes"), rows).markdown()]
    return "\n".join(lines)


# ---- case B: neighbourhoods ----------------------------------------------------------------------------------
#: Neighbours that are compared.
TOP = 10
#: The real patients in the tables.
REAL = "real (training)"
HELD_OUT = "real (held out)"


def shared_neighbours(real: sparse.csr_matrix, generated: sparse.csr_matrix, top: int = TOP) -> NDArray[np.float64]:
    """For each code the share of its real top neighbours that are top neighbours in the other; NaN without any.

    >>> real = sparse.csr_matrix(np.array([[0, 2, 1], [2, 0, 0], [1, 0, 0]]))
    >>> generated = sparse.csr_matrix(np.array([[0, 0, 3], [0, 0, 0], [3, 0, 0]]))
    >>> shared_neighbours(real, generated).tolist()
    [0.5, 0.0, 1.0]
    """
    n = real.shape[0]
    real_top, generated_top = top_neighbours(real, top), top_neighbours(generated, top)
    both = np.intersect1d(real_top, generated_top, assume_unique=True)
    size = np.bincount(real_top // n, minlength=n)
    return np.where(size > 0, np.bincount(both // n, minlength=n) / np.maximum(size, 1), np.nan)


def overlap_table(
    train: Cohort, held_out: Cohort, samples: dict[str, Cohort], top: int = TOP, seed: int = 1
) -> pl.DataFrame:
    """Mean share of shared top neighbours over all tail codes, for held-out patients and every method.

    A tail code counts when it has a neighbour in the reference; one that a method never writes counts 0. `weighted` is
    by the number of visits of the code in the reference.
    """
    strata = train.strata()
    cohorts = {HELD_OUT: held_out.on(train.vocabulary), **{n: c.on(train.vocabulary) for n, c in samples.items()}}
    counts = {name: cooccurrence_counts(cohort) for name, cohort in {REAL: train, **cohorts}.items()}
    rows = []
    for reference, cohort in ((REAL, train), (HELD_OUT, cohorts[HELD_OUT])):
        for name in cohorts:
            if name == reference:
                continue
            share = shared_neighbours(counts[reference], counts[name], top)
            compared = strata.tail & ~np.isnan(share)
            weight = cohort.visit_counts[compared].astype(np.float64)
            interval = estimate(share[compared], seed=seed)
            rows.append(
                {
                    "reference": reference,
                    "method": name,
                    "top": top,
                    **interval._asdict(),
                    "weighted": float(np.average(share[compared], weights=weight)) if weight.sum() else float("nan"),
                    "never_written": float((cohorts[name].visit_counts[compared] == 0).mean())
                    if compared.any()
                    else np.nan,
                }
            )
    return pl.DataFrame(rows)


@dataclass(frozen=True, eq=False)
class CodePage:
    """Everything there is to say about one tail code."""

    code: int
    token: str
    description: str
    train_visits: int
    held_out_visits: int
    #: Top neighbours of each source: rank, code, count, and whether reality shares it.
    neighbours: pl.DataFrame
    #: Codes of the visit before, in training.
    before: pl.DataFrame
    #: Generated pairs with this code: seen in training, only held out, never seen; and the most frequent of each.
    pairs: pl.DataFrame
    #: Progress, α and bias-free mean log p over contexts along training, where a trajectory was given.
    trend: pl.DataFrame | None = None
    #: Kernel similarity with the real top neighbours, where a run was given.
    similarity: pl.DataFrame | None = None

    def markdown(self) -> str:
        """The page as Markdown."""
        lines = [f"# {self.token}: {self.description or 'no description'}", ""]
        lines += [f"{self.train_visits} training visits, {self.held_out_visits} held-out visits.", ""]
        parts = {
            "Top neighbours": self.neighbours,
            "Codes of the visit before, in training": self.before,
            "Generated pairs with this code": self.pairs,
            "Kernel similarity with the real neighbours": self.similarity,
        }
        for title, table in parts.items():
            if table is not None and len(table):
                lines += [f"## {title}", "", _markdown(table)]
        if self.trend is not None:
            first, last = self.trend["log_p"][0], self.trend["log_p"][-1]
            lines += ["## Along training", "", f"Mean log p {first:.2f} before training, {last:.2f} at its end.", ""]
        return "\n".join(lines)


def _markdown(table: pl.DataFrame) -> str:
    """The rows of a table as Markdown."""
    rows = [[f"{value:.3g}" if isinstance(value, float) else str(value) for value in row] for row in table.rows()]
    return Table(table.columns, rows).markdown()


def code_page(
    token: str,
    train: Cohort,
    held_out: Cohort,
    samples: dict[str, Cohort],
    trajectory: Trajectory | None = None,
    run: Generator | None = None,
    cases: NextVisits | None = None,
) -> CodePage:
    """The page of one code."""
    if token not in train.vocabulary.index:
        raise InputError(f"no code is called {token}", expected="a code of the cohort's vocabulary")
    code = train.vocabulary.index[token]
    sources = {REAL: train, HELD_OUT: held_out.on(train.vocabulary)}
    sources |= {name: cohort.on(train.vocabulary) for name, cohort in samples.items()}
    counts = {name: cooccurrence_counts(cohort) for name, cohort in sources.items()}
    real = _top(counts[REAL], code)
    similarity = None
    if run is not None and cases is not None and len(real):
        similarity = _similarities(run, cases, code, real, train)
    return CodePage(
        code,
        token,
        train.vocabulary.codes[code].description,
        int(train.visit_counts[code]),
        int(sources[HELD_OUT].visit_counts[code]),
        _neighbour_rows(counts, code, real, train),
        _before(train, code),
        _pair_rows({name: counts[name] for name in samples}, counts[REAL], counts[HELD_OUT], code, train),
        None if trajectory is None else _trend(trajectory, code),
        similarity,
    )


def _top(counts: sparse.csr_matrix, code: int, top: int = TOP) -> NDArray[np.int64]:
    """The top neighbours of a code, most frequent first, ties to the smaller position."""
    row = counts[[code]].tocsr()
    order = np.lexsort((row.indices, -row.data))
    return row.indices[order][:top].astype(np.int64)


def _code_columns(train: Cohort, code: int) -> dict[str, str]:
    known = train.vocabulary.codes[code]
    return {"code": known.token, "description": known.description}


def _neighbour_rows(
    counts: dict[str, sparse.csr_matrix], code: int, real: NDArray[np.int64], train: Cohort
) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for name, table in counts.items():
        for rank, other in enumerate(_top(table, code).tolist(), 1):
            real_one = "" if name == REAL else ("yes" if other in real else "no")
            rows.append({"source": name, "rank": rank, **_code_columns(train, other), "in real top": real_one})
    return pl.DataFrame(rows)


def _before(train: Cohort, code: int) -> pl.DataFrame:
    """The most frequent codes of the visit before one with this code."""
    matrix = train.matrix()
    holds = np.flatnonzero(np.asarray(matrix[:, [code]].todense()).ravel())
    follows = holds[train.visit_number[holds] > 0]
    sums = np.asarray(matrix[follows - 1].sum(axis=0)).ravel()
    order = np.argsort(-sums, kind="stable")[:TOP]
    return pl.DataFrame([{**_code_columns(train, int(c)), "visits": int(sums[c])} for c in order if sums[c] > 0])


def _pair_rows(
    generated: dict[str, sparse.csr_matrix],
    train: sparse.csr_matrix,
    held_out: sparse.csr_matrix,
    code: int,
    names: Cohort,
) -> pl.DataFrame:
    """How many generated pairs with this code training has, only held-out patients have, or nobody has."""
    seen, fresh = PairSet.of(train), PairSet.of(held_out)
    rows = []
    for name, counts in generated.items():
        row = counts[[code]].tocsr()
        here = np.full(len(row.indices), code)
        known, new = seen.holds(here, row.indices), fresh.holds(here, row.indices)
        for label, mask in (
            ("seen in training", known),
            ("only held out", new & ~known),
            ("never seen", ~known & ~new),
        ):
            best = row.indices[mask][np.argsort(-row.data[mask], kind="stable")][:3]
            examples = ", ".join(names.vocabulary.tokens[other] for other in best)
            rows.append({"source": name, "pairs": label, "visits": int(row.data[mask].sum()), "such as": examples})
    return pl.DataFrame(rows)


def _trend(trajectory: Trajectory, code: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "progress": trajectory.progress,
            "weight": trajectory.weight,
            "log_p": trajectory.code_log_p[:, code].astype(np.float64),
        }
    )


def _similarities(
    run: Generator, cases: NextVisits, code: int, real: NDArray[np.int64], train: Cohort, contexts: int = 8
) -> pl.DataFrame:
    """Mean cosine of the code's gradient with its real neighbours', over the first held-out histories."""
    require_one_shot(run.settings)
    records = seen_records(run.settings, cases.histories)
    codes = np.concatenate([[code], real])
    some = range(min(contexts, cases.histories.n_patients))
    kernels_of_history = [label_kernels(run.model.network, records.batch(np.array([i])), codes) for i in some]
    rows = {
        group: np.mean([kernels[group].cosine[0, 1:] for kernels in kernels_of_history], axis=0)
        for group in kernels_of_history[0]
    }
    return pl.DataFrame(
        [
            {**_code_columns(train, int(other)), **{group: float(values[i]) for group, values in rows.items()}}
            for i, other in enumerate(real.tolist())
        ]
    )
