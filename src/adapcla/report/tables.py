"""Tables as data: defined once by metric and stratum, written as HTML rows, CSV, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from adapcla import tables
from adapcla.evaluation.metric import ARROWS
from adapcla.evaluation.references import Beside, Reference
from adapcla.files import write_bytes
from adapcla.study.layouts import ABLATED, ABLATION, Column, ScoreTable
from adapcla.study.paper_numbers import paper_number
from adapcla.study.results import Measured, Study
from adapcla.tables import Cell

#: Lines from which a table is folded away on the page.
LONG = 24


class Line(NamedTuple):
    """A row of a table: its cells, and whether it is a method, a reference or from the paper."""

    cells: tuple[Cell, ...]
    kind: str = "method"


@dataclass(frozen=True)
class Table:
    """A table with its heading and a caption that says what to see."""

    key: str
    title: str
    caption: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    hints: tuple[str, ...] = field(default=())
    #: What people come for is never folded away, however long it is.
    always_open: bool = False

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Whether each column holds numbers, so that it is set to the right."""
        return tuple(any(line.cells[i].value is not None for line in self.lines) for i in range(len(self.columns)))

    @property
    def long(self) -> bool:
        """Whether the page folds the table away."""
        return len(self.lines) > LONG and not self.always_open

    def csv(self) -> str:
        """Comma-separated values: numbers as numbers, the interval as text beside them."""
        columns = ["kind", *(part for name in self.columns for part in (name, f"{name} interval"))]
        rows = [
            [line.kind, *(text for cell in line.cells for text in (_exact(cell), cell.note))] for line in self.lines
        ]
        return tables.Table(columns, rows).csv()

    def markdown(self) -> str:
        """A Markdown table, marked values of methods in bold.

        >>> print(Table("t", "T", "C", ("row", "x"), (Line((Cell("a"), Cell("0.5", 0.5, "", True))),)).markdown())
        | row | x |
        |---|---|
        | a | **0.5** |
        <BLANKLINE>
        """
        return tables.Table(self.columns, [line.cells for line in self.lines]).markdown()

    def latex(self) -> str:
        """A LaTeX table (package booktabs)."""
        return f"% {self.title}\n" + tables.Table(self.columns, [line.cells for line in self.lines]).latex()

    def save(self, folder: Path) -> None:
        """Write the table in all three forms."""
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, content in (("csv", self.csv()), ("md", self.markdown()), ("tex", self.latex())):
            write_bytes(folder / f"{self.key}.{suffix}", content.encode())


def _exact(cell: Cell) -> str:
    """The number of a cell with six digits, or its text where it has none."""
    return cell.text if cell.value is None else f"{cell.value:.6g}"


def shown(value: float | None) -> str:
    """A number with as many digits as a table needs.

    >>> shown(0.123456), shown(None), shown(0.00012), shown(1234.5), shown(0.0)
    ('0.123', '–', '0.00012', '1,234', '0')
    """
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) >= 0.01 else f"{value:.2g}"


def cell_of(measured: Measured | None, reason: str = "") -> Cell:
    """A measured number as a cell.

    >>> cell_of(Measured(0.5, 0.4, 0.6, 1))
    Cell(text='0.500', value=0.5, note='[0.400, 0.600]', best=False)
    """
    if measured is None:
        # The beginning says what; the whole reason is in the scores' own files.
        return Cell("–", None, reason.partition(":")[0])
    note = "" if measured.low is None else f"[{shown(measured.low)}, {shown(measured.high)}]"
    return Cell(shown(measured.value), measured.value, note)


def ablation_table(study: Study) -> Table | None:
    """The paper's Table 3a; None where no static row was run."""
    rows = [row for row in ABLATED if row in study.rows]
    return score_table(study, ABLATION, rows) if any(row.startswith("static") for row in rows) else None


def score_table(study: Study, layout: ScoreTable, rows: Sequence[str] | None = None) -> Table | None:
    """The table of a study; None where the study has none of its scores.

    A column in which nobody has a number is not shown; the caption names it and says why.
    """
    scored = [c for c in layout.columns if _has(study, c)]
    columns = [c for c in scored if _is_told(study, c, rows or study.rows)] or scored
    if not columns:
        return None
    lines = [_line(study, row, columns) for row in rows or study.rows]
    lines = _with_nearest(lines, [_real_value(study, c) for c in columns])
    lines += [line for line in _beside(study, layout, columns) if any(cell.value is not None for cell in line.cells)]
    for row in rows or study.rows:
        numbers = [paper_number(study.cohort, row, c.metric, c.stratum) for c in columns]
        if any(number is not None for number in numbers):
            lines.append(Line((Cell(f"{row} (paper)"), *(Cell(shown(x), x) for x in numbers)), "paper"))
    headings = tuple(f"{c.heading} {ARROWS[study.goal(c.metric)]}".strip() for c in columns)
    hints = ("method", *(f"{c.metric}, stratum {c.stratum}" for c in columns))
    silent = _silent(study, [c for c in scored if c not in columns], (rows or study.rows)[0])
    caption = naming_silent(layout.caption, silent)
    return Table(layout.key, layout.title, caption, ("method", *headings), tuple(lines), hints)


def naming_silent(caption: str, silent: str) -> str:
    """A caption that names the columns that are not shown, because nobody has a number in them.

    >>> naming_silent("Scores.", "AUPRC ↑")
    'Scores. Nobody has a number in: AUPRC ↑.'
    """
    return f"{caption} Nobody has a number in: {silent}." if silent else caption


def _has(study: Study, column: Column) -> bool:
    """Whether any row was scored on it."""
    table = study.scores
    if table.is_empty():
        return False
    return not table.filter((table["metric"] == column.metric) & (table["stratum"] == column.stratum)).is_empty()


def _is_told(study: Study, column: Column, rows: Sequence[str]) -> bool:
    """Whether any row or reference has a number on it."""
    return any(study.measured(each, column.metric, column.stratum) is not None for each in (*rows, *study.references))


def _silent(study: Study, columns: Sequence[Column], row: str) -> str:
    """The headings of columns without a number, by what the scores of a row say why."""
    by_reason: dict[str, list[str]] = {}
    for column in columns:
        reason = study.reason(row, column.metric, column.stratum).partition(":")[0]
        by_reason.setdefault(reason, []).append(column.heading)
    return "; ".join(" · ".join(names) + (f" ({reason})" if reason else "") for reason, names in by_reason.items())


def _line(study: Study, row: str, columns: Sequence[Column]) -> Line:
    """The line of a row."""
    cells = []
    for c in columns:
        measured = study.measured(row, c.metric, c.stratum)
        cells.append(cell_of(measured, study.reason(row, c.metric, c.stratum) if measured is None else ""))
    return Line((Cell(row), *cells), "method")


def _beside(study: Study, layout: ScoreTable, columns: Sequence[Column]) -> list[Line]:
    """The lines of the references."""
    if not layout.one_real:
        return [_reference_line(study, reference, columns) for reference in study.references]
    others = [one for one in study.references if one not in (Reference.REAL_TEST, Reference.REAL_TRAIN)]
    real = (cell_of(study.real(c.metric, c.stratum), "") for c in columns)
    return [Line((Cell("real"), *real), "reference"), *(_reference_line(study, one, columns) for one in others)]


def _reference_line(study: Study, reference: Beside, columns: Sequence[Column]) -> Line:
    """The line of a reference."""
    cells = (_reference_cell(study, reference, c) for c in columns)
    return Line((Cell(reference.label), *cells), "reference")


def _reference_cell(study: Study, reference: Beside, column: Column) -> Cell:
    """The number of a reference."""
    return cell_of(study.measured(reference, column.metric, column.stratum))


def _real_value(study: Study, column: Column) -> float | None:
    """What real patients score: the number that a method should come near to; None where there is none."""
    measured = study.real(column.metric, column.stratum)
    return None if measured is None else measured.value


def _with_nearest(lines: list[Line], real: Sequence[float | None]) -> list[Line]:
    """The lines with the value of each column marked that is nearest to real patients, never the largest as such.

    Above real patients lies memory or luck, not more quality. Without a number of real patients nothing is marked.

    >>> lines = [Line((Cell(name), Cell("", value))) for name, value in (("a", 0.9), ("b", 0.6), ("c", 0.1))]
    >>> [line.cells[1].best for line in _with_nearest(lines, [0.5])], _with_nearest(lines, [None]) == lines
    ([False, True, False], True)
    """
    marked = [list(line.cells) for line in lines]
    for column, aim in enumerate(real, 1):
        known = [cells[column].value for cells in marked]
        distances = [abs(value - aim) for value in known if value is not None and aim is not None]
        if len(distances) < 2 or aim is None:
            continue
        for cells, value in zip(marked, known, strict=True):
            if value is not None and abs(value - aim) == min(distances):
                cells[column] = cells[column]._replace(best=True)
    return [Line(tuple(cells), line.kind) for cells, line in zip(marked, lines, strict=True)]
