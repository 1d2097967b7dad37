"""Case B: which codes stand beside a tail code, in reality and in what each method wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.data.cooccurrence import PairSet, cooccurrence_counts
from adapcla.errors import InputError
from adapcla.evaluation.statistics import top_neighbours
from adapcla.generation.generator import Generator
from adapcla.generation.model import seen_records
from adapcla.study.analysis.histories import NextVisits
from adapcla.study.analysis.kernel import label_kernels
from adapcla.study.analysis.statistics import estimate
from adapcla.study.analysis.trajectories import Trajectory, require_one_shot
from adapcla.tables import Table

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
            judged = strata.tail & ~np.isnan(share)
            weight = cohort.visit_counts[judged].astype(np.float64)
            interval = estimate(share[judged], seed=seed)
            rows.append(
                {
                    "reference": reference,
                    "method": name,
                    "top": top,
                    **interval._asdict(),
                    "weighted": float(np.average(share[judged], weights=weight)) if weight.sum() else float("nan"),
                    "never_written": float((cohorts[name].visit_counts[judged] == 0).mean())
                    if judged.any()
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


def supported_tail_codes(train: Cohort, held_out: Cohort, n: int) -> list[str]:
    """The tail codes with the most training visits among those that held-out patients have: chosen by support alone.

    >>> train = Cohort.of([[["A", "B", "C"], ["B", "C"], ["C"]]])
    >>> supported_tail_codes(train, train, 1)
    ['A']
    """
    both = train.strata().tail & (held_out.on(train.vocabulary).visit_counts > 0)
    chosen = np.flatnonzero(both)
    order = chosen[np.argsort(-train.visit_counts[chosen], kind="stable")]
    return [train.vocabulary.tokens[code] for code in order[:n]]


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


def _named(train: Cohort, code: int) -> dict[str, str]:
    known = train.vocabulary.codes[code]
    return {"code": known.token, "description": known.description}


def _neighbour_rows(
    counts: dict[str, sparse.csr_matrix], code: int, real: NDArray[np.int64], train: Cohort
) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for name, table in counts.items():
        for rank, other in enumerate(_top(table, code).tolist(), 1):
            real_one = "" if name == REAL else ("yes" if other in real else "no")
            rows.append({"source": name, "rank": rank, **_named(train, other), "in real top": real_one})
    return pl.DataFrame(rows)


def _before(train: Cohort, code: int) -> pl.DataFrame:
    """The most frequent codes of the visit before one with this code."""
    matrix = train.matrix()
    holds = np.flatnonzero(np.asarray(matrix[:, [code]].todense()).ravel())
    follows = holds[train.visit_number[holds] > 0]
    sums = np.asarray(matrix[follows - 1].sum(axis=0)).ravel()
    order = np.argsort(-sums, kind="stable")[:TOP]
    return pl.DataFrame([{**_named(train, int(c)), "visits": int(sums[c])} for c in order if sums[c] > 0])


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
            {**_named(train, int(other)), **{group: float(values[i]) for group, values in rows.items()}}
            for i, other in enumerate(real.tolist())
        ]
    )
