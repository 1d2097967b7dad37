"""The scores of one synthetic cohort beside those of its references, as rows, tables and files."""

from __future__ import annotations

import io
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adapcla import files
from adapcla.data.frames import Backend, build_frame
from adapcla.data.provenance import SEPARATED
from adapcla.errors import InputError
from adapcla.evaluation.comparison import ALL, Score
from adapcla.evaluation.metric import ARROWS, Goal
from adapcla.evaluation.references import Reference
from adapcla.tables import Table, facts_as_html
from adapcla.tables import format_number as number

if TYPE_CHECKING:
    import polars

#: The stratum of scores at matched numbers of patients.
MATCHED = "matched"
#: The stratum of scores of all synthetic patients against halves of the test patients.
HALVES = "halves"
#: The same after codes and tail codes per visit were matched too.
MATCHED_CODES = "matched_codes"
TABLE, CSV, SUMMARY, MARKDOWN, LATEX = "scores.parquet", "scores.csv", "summary.json", "scores.md", "scores.tex"


@dataclass(frozen=True)
class Row:
    """One score and what stands beside it."""

    metric: str
    suite: str
    goal: Goal
    stratum: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    #: Why there is no value, or what else must be said of it.
    reason: str
    real_test: float | None = None
    train_copy: float | None = None
    marginal: float | None = None
    normalised: float | None = None
    #: Why there is no normalised value beside a value.
    normalised_reason: str = ""
    real_train: float | None = None
    #: The intervals of the references, and the value under other draws of the test patients.
    real_test_low: float | None = None
    real_test_high: float | None = None
    train_copy_low: float | None = None
    train_copy_high: float | None = None
    marginal_low: float | None = None
    marginal_high: float | None = None
    real_train_low: float | None = None
    real_train_high: float | None = None


def normalise(score: Score, floor: float | None, ceiling: float | None, goal: Goal = "up") -> tuple[float | None, str]:
    """(value − floor)/(ceiling − floor), or None and why; a scale shorter than the score's own interval is none.

    Where the goal is to match the ceiling, what lies beyond it is as wrong as what lies as far before it.

    >>> normalise(Score(0.3, 10), 0.2, 0.6)
    (0.25, '')
    >>> normalise(Score(0.3, 10), 1.0, 0.5, goal="match")
    (0.6, '')
    >>> normalise(Score(0.3, 10), 0.2, 0.6, goal="down")
    (None, 'the floor is better than the ceiling')
    """
    if score.value is None:
        return None, ""
    if floor is None or ceiling is None:
        return None, f"no {'floor' if floor is None else 'ceiling'}"
    if math.isclose(floor, ceiling, rel_tol=1e-9, abs_tol=1e-15):
        return None, "ceiling and floor are equal"
    if (goal == "up" and floor > ceiling) or (goal == "down" and floor < ceiling):
        return None, "the floor is better than the ceiling"
    if score.low is not None and score.high is not None and abs(ceiling - floor) < (score.high - score.low) / 2:
        return None, "ceiling and floor differ by less than the score's own interval"
    share = (score.value - floor) / (ceiling - floor)
    return round(1 - abs(1 - share) if goal == "match" else share, 12), ""


@dataclass(frozen=True, eq=False)
class Scores:
    """Every score of a synthetic cohort.

    >>> row = Row("pair_seen", "tail", "up", "all", 0.5, 0.4, 0.6, 10, "", 0.9, 1.0, 0.1, 0.5)
    >>> scores = Scores("demo", 1, (row,))
    >>> scores.values(), scores["pair_seen"].value
    ({'pair_seen': 0.5}, 0.5)
    """

    method: str
    seed: int
    rows: tuple[Row, ...]
    #: Sizes, suites and settings that the scores rest on.
    card: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """One line: whose scores they are and how many."""
        suites = ", ".join(dict.fromkeys(row.suite for row in self.rows))
        return f"Scores({self.method!r}, {len(self.rows):,} scores of {suites or 'no suite'})"

    def _repr_html_(self) -> str:
        """The scores over all codes with their intervals, for notebooks."""
        facts = {
            row.metric: number(row.value) + ("" if row.low is None else f" ({number(row.low)} to {number(row.high)})")
            for row in self.rows
            if row.stratum == ALL
        }
        return facts_as_html(f"Scores of {self.method}", facts)

    def __getitem__(self, key: str | tuple[str, str]) -> Score:
        """The score of a metric, or of (metric, stratum)."""
        row = self.row(*((key, ALL) if isinstance(key, str) else key))
        return Score(row.value, row.n, row.low, row.high, row.reason)

    def beside(self, *others: Scores) -> Scores:
        """All rows of these scores; the card says how many patients each suite rests on.

        >>> row = Row("pair_seen", "tail", "up", "all", 0.5, 0.4, 0.6, 10, "")
        >>> first = Scores("demo", 1, (row,), {"suites": ["tail"], "patients": {"train": 5}})
        >>> both = first.beside(Scores("demo", 1, (), {"suites": ["privacy"], "patients": {"train": 9}}))
        >>> both.card["suites"], both.card["patients by suite"]["privacy"]
        (['tail', 'privacy'], {'train': 9})
        """
        if not others:
            return self
        parts = (self, *others)
        suites = [(suite, part.card) for part in parts for suite in part.card["suites"]]
        sizes = {suite: card["patients"] for suite, card in suites}
        card = {**self.card, "suites": [suite for suite, _ in suites], "patients by suite": sizes}
        return Scores(self.method, self.seed, tuple(row for part in parts for row in part.rows), card)

    def row(self, metric: str, stratum: str = ALL) -> Row:
        """The row of a metric and stratum."""
        for row in self.rows:
            if (row.metric, row.stratum) == (metric, stratum):
                return row
        raise KeyError(f"no score of {metric!r} in stratum {stratum!r}")

    def values(self) -> dict[str, float | None]:
        """Metric key → value at the default tail cut; None where it could not be computed."""
        return {row.metric: row.value for row in self.rows if row.stratum == ALL}

    def by_stratum(self, suite: str) -> dict[str, dict[str, Score]]:
        """The scores of a suite by metric and stratum, as the gate reads them.

        >>> Scores("demo", 1, (Row("a", "privacy", "up", "all", 0.5, None, None, 9, ""),)).by_stratum("privacy")
        {'a': {'all': Score(value=0.5, n=9, low=None, high=None, reason='')}}
        """
        out: dict[str, dict[str, Score]] = {}
        for row in self.rows:
            if row.suite == suite:
                out.setdefault(row.metric, {})[row.stratum] = Score(row.value, row.n, row.low, row.high, row.reason)
        return out

    def normalised(self) -> dict[str, float | None]:
        """Metric key → normalised value, from the matched stratum where the plain one cannot be normalised."""
        out: dict[str, float | None] = {}
        for stratum in (MATCHED, HALVES, ALL):
            for row in self.rows:
                if row.stratum == stratum and (row.normalised is not None or row.metric not in out):
                    out[row.metric] = row.normalised
        return {key: out[key] for key in self.values()}

    def to_frame(self, backend: Backend = "polars") -> Any:
        """All rows as a data frame of polars, pandas or pyarrow.

        >>> row = Row("pair_seen", "tail", "up", "all", 0.5, 0.4, 0.6, 10, "")
        >>> Scores("demo", 1, (row,)).to_frame()["value"].to_list()
        [0.5]
        """
        return build_frame(self.table().to_dict(as_series=False), backend)

    def table(self) -> polars.DataFrame:
        """One row per score: method, seed, metric, stratum, value, low, high, n, reason, references and the rest."""
        import polars

        schema = {"method": polars.String, "seed": polars.Int64, **_column_types()}
        rows = [{"method": self.method, "seed": self.seed, **asdict(row)} for row in self.rows]
        return polars.DataFrame(rows, schema=schema)

    def summary(self) -> dict[str, Any]:
        """What `--json` prints: values, normalised values, reasons for missing ones, sizes and settings."""
        missing = {row.metric: row.reason for row in self.rows if row.stratum == ALL and row.value is None}
        return {
            "format": files.FORMAT_VERSION,
            "method": self.method,
            "seed": self.seed,
            "values": self.values(),
            "normalised": self.normalised(),
            "missing": missing,
            **self.card,
        }

    # ---- files ----------------------------------------------------------------------------------------------
    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write the scores as Parquet, CSV, JSON, Markdown and LaTeX, whole or not at all."""
        target = Path(folder)
        table = self.table()
        parquet = io.BytesIO()
        table.write_parquet(parquet)
        with files.fresh_folder(target, overwrite) as temporary:
            (temporary / TABLE).write_bytes(parquet.getvalue())
            (temporary / CSV).write_bytes(table.write_csv().encode())
            (temporary / SUMMARY).write_bytes(files.json_bytes(self.summary()))
            (temporary / MARKDOWN).write_bytes(self.markdown().encode())
            (temporary / LATEX).write_bytes(self.latex().encode())
        return target

    @classmethod
    def open(cls, folder: str | Path) -> Scores:
        """The scores in a folder."""
        import polars

        path = Path(folder)
        summary = files.read_json(path / SUMMARY)
        try:
            table = polars.read_parquet(path / TABLE)
            # Tables of before lack what came later; its default stands for it.
            known_columns = [name for name in _column_types() if name in table.columns]
            rows = tuple(Row(**content) for content in table.select(known_columns).to_dicts())
        except (OSError, polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
            remedy = "evaluate again"
            raise InputError(f"not readable ({type(error).__name__})", path=path / TABLE, remedy=remedy) from None
        known = {"format", "method", "seed", "values", "normalised", "missing"}
        card = {key: value for key, value in summary.items() if key not in known}
        return cls(str(summary.get("method", "")), int(summary.get("seed", 1)), rows, card)

    def markdown(self) -> str:
        """The headline scores as Markdown tables, one per suite."""
        lines = [f"# Scores of {self.method} (seed {self.seed})", ""]
        lines += [f"{SEPARATED}: {self.card[SEPARATED]}", ""] if SEPARATED in self.card else []
        for suite, rows in self._headlines().items():
            lines += [f"## {suite}", "", _table(rows).markdown()]
        return "\n".join(lines)

    def latex(self) -> str:
        """The headline scores as LaTeX tables (package booktabs), one per suite."""
        tables = {suite: _table(rows).latex(n_left=2) for suite, rows in self._headlines().items()}
        return "\n".join(f"% suite: {suite}\n{table}" for suite, table in tables.items())

    def _headlines(self) -> dict[str, list[Row]]:
        """Rows of the headline strata by suite."""
        out: dict[str, list[Row]] = {}
        for row in self.rows:
            if row.stratum in (ALL, MATCHED, HALVES, MATCHED_CODES):
                out.setdefault(row.suite, []).append(row)
        return out


_BESIDE = tuple(Reference)
_TITLES = ("metric", "stratum", "value", "low", "high", "n", *(one.label for one in _BESIDE), "normalised")


def _column_types() -> dict[str, Any]:
    """The columns of a row with their types on disk."""
    import polars

    text = dict.fromkeys(("metric", "suite", "goal", "stratum"), polars.String)
    numbers = dict.fromkeys(("value", "low", "high"), polars.Float64)
    beside = dict.fromkeys(("real_test", "train_copy", "marginal", "normalised"), polars.Float64)
    why = {"normalised_reason": polars.String, "real_train": polars.Float64}
    ends = {f"{one.value}_{end}": polars.Float64 for one in Reference for end in ("low", "high")}
    return {**text, **numbers, "n": polars.Int64, "reason": polars.String, **beside, **why, **ends}


def _table(rows: list[Row]) -> Table:
    """Rows of scores as a table of text."""
    return Table(_TITLES, [_cells(row) for row in rows])


def _cells(row: Row) -> list[str]:
    """A row as text."""
    value = [f"– ({row.reason})"] if row.value is None else [number(row.value)]
    name = f"{row.metric} {ARROWS[row.goal]}".strip()
    beside = [_with_interval(row, one) for one in _BESIDE]
    return [name, row.stratum, *value, number(row.low), number(row.high), f"{row.n}", *beside, number(row.normalised)]


def _with_interval(row: Row, reference: Reference) -> str:
    """The number of a reference and its interval, where it has one."""
    value, low, high = (getattr(row, f"{reference.value}{end}") for end in ("", "_low", "_high"))
    return number(value) if low is None else f"{number(value)} [{number(low)}, {number(high)}]"
