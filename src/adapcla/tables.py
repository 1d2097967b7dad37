"""A table of cells that becomes Markdown, LaTeX, CSV or part of a page, and the one way in which numbers are shown."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

#: What LaTeX prints otherwise than it is written; the backslash comes first, since the others bring new ones.
_LATEX = {
    "\\": r"\textbackslash{}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#",
    "–": "--", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "±": r"$\pm$", "−": "$-$",
}  # fmt: skip
#: Lines from which a table is folded away on a page.
LONG = 24


class Cell(NamedTuple):
    """What a cell shows, what it is sorted by, what stands small beside it, whether it is the best of its column."""

    text: str
    value: float | None = None
    note: str = ""
    best: bool = False


class Line(NamedTuple):
    """A row of a table, its cells or texts, and how it is styled: a method, a reference, a status."""

    cells: Sequence[Any]
    kind: str = "method"


@dataclass(frozen=True)
class Table:
    """The titles of the columns and rows of as many cells; on a page also a key, a title and a caption.

    >>> table = Table(("method", "recall"), [("one_two", Cell("0.5", note="[0.4, 0.6]", best=True))])
    >>> print(table.markdown())
    | method | recall |
    |---|---|
    | one_two | **0.5** [0.4, 0.6] |
    <BLANKLINE>
    >>> print(table.csv())
    method,recall
    one_two,0.5
    <BLANKLINE>
    """

    columns: Sequence[str]
    rows: Sequence[Line | Sequence[Cell | str]]
    #: Name of its files.
    key: str = ""
    title: str = ""
    caption: str = ""
    #: What each column holds, shown where it is pointed at.
    hints: tuple[str, ...] = ()
    #: What a good result looks like.
    good: str = ""
    #: What people come for is never folded away, however long it is.
    always_open: bool = False

    @property
    def lines(self) -> list[Line]:
        """The rows as lines of cells."""
        rows = [row if isinstance(row, Line) else Line(row) for row in self.rows]
        return [Line(tuple(_cell(cell) for cell in row.cells), row.kind) for row in rows]

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Whether each column holds numbers, so that it is aligned to the right."""
        return tuple(
            any(_cell(line.cells[i]).value is not None for line in self.lines) for i in range(len(self.columns))
        )

    @property
    def long(self) -> bool:
        """Whether a page folds the table away."""
        return len(self.rows) > LONG and not self.always_open

    def markdown(self) -> str:
        """A Markdown table with the notes; the best cells are bold."""
        rows = [[_in_markdown(cell) for cell in row] for row in (self.columns, *(line.cells for line in self.lines))]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([lines[0], "|" + "---|" * len(self.columns), *lines[1:], ""])

    def latex(self, n_left: int = 1) -> str:
        r"""A LaTeX table (package booktabs) without the notes; all but the first `n_left` columns are set to the right.

        >>> print(Table(("a", "b"), [("x_y", "1")]).latex())
        \begin{tabular}{lr}
        \toprule
        a & b \\
        \midrule
        x\_y & 1 \\
        \bottomrule
        \end{tabular}
        <BLANKLINE>
        """
        rows = (self.columns, *(line.cells for line in self.lines))
        lines = [" & ".join(_in_latex(cell) for cell in row) + r" \\" for row in rows]
        alignment = "l" * n_left + "r" * (len(self.columns) - n_left)
        begin = [f"\\begin{{tabular}}{{{alignment}}}", r"\toprule", lines[0], r"\midrule"]
        return "\n".join([*begin, *lines[1:], r"\bottomrule", r"\end{tabular}", ""])

    def csv(self) -> str:
        """Comma-separated values, texts alone."""
        return _in_csv([list(self.columns), *([_cell(cell).text for cell in line.cells] for line in self.lines)])

    def exact_csv(self) -> str:
        """Comma-separated values for programs: the kind of a line, numbers with six digits, the note of each cell.

        >>> print(Table(("row", "x"), [("a", Cell("0.333", 1 / 3, "[0, 1]"))]).exact_csv())
        kind,row,row interval,x,x interval
        method,a,,0.333333,"[0, 1]"
        <BLANKLINE>
        """
        rows = [["kind", *(part for name in self.columns for part in (name, f"{name} interval"))]]
        for line in self.lines:
            cells = [_cell(cell) for cell in line.cells]
            rows.append([line.kind, *(text for cell in cells for text in (_exact(cell), cell.note))])
        return _in_csv(rows)

    def save(self, folder: Path) -> None:
        """Write KEY.csv, KEY.md and KEY.tex."""
        from adapcla.files import write_bytes

        folder.mkdir(parents=True, exist_ok=True)
        latex = f"% {self.title}\n{self.latex()}"
        for suffix, content in (("csv", self.exact_csv()), ("md", self.markdown()), ("tex", latex)):
            write_bytes(folder / f"{self.key}.{suffix}", content.encode())


def _cell(cell: Cell | str) -> Cell:
    return Cell(cell) if isinstance(cell, str) else cell


def _exact(cell: Cell) -> str:
    """The number of a cell with six digits, or its text where it has none."""
    return cell.text if cell.value is None else f"{cell.value:.6g}"


def _in_csv(rows: list[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _in_markdown(cell: Cell | str) -> str:
    text, _, note, best = _cell(cell)
    return f"{f'**{text}**' if best else text} {note}".strip().replace("|", r"\|")


def _in_latex(cell: Cell | str) -> str:
    text, _, _, best = _cell(cell)
    for plain, safe in _LATEX.items():
        text = text.replace(plain, safe)
    return f"\\textbf{{{text}}}" if best else text


def format_number(value: float | None) -> str:
    """A number with as many digits as a table needs, a dash for none.

    >>> format_number(0.123456), format_number(None), format_number(0.00012), format_number(1234.5), format_number(0.0)
    ('0.123', '–', '0.00012', '1,234', '0')
    """
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) >= 0.01 else f"{value:.2g}"


def number_cell(value: float | None, note: str = "") -> Cell:
    """A number as a cell.

    >>> number_cell(0.5, "n = 3")
    Cell(text='0.500', value=0.5, note='n = 3', best=False)
    """
    return Cell(format_number(value), value, note)


class Estimate(NamedTuple):
    """A number: the mean over fits and samples, its 95 % interval, and how many fits there were."""

    value: float
    low: float | None
    high: float | None
    n: int

    @property
    def half(self) -> float | None:
        """Half of the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def estimate_cell(estimate: Estimate | None, reason: str = "") -> Cell:
    """An estimate as a cell with its interval; a dash with the beginning of the reason where there is none.

    >>> estimate_cell(Estimate(0.5, 0.4, 0.6, 1))
    Cell(text='0.500', value=0.5, note='[0.400, 0.600]', best=False)
    """
    if estimate is None:
        # The beginning says what; the whole reason is in the scores' own files.
        return Cell("–", None, reason.partition(":")[0])
    low, high = estimate.low, estimate.high
    note = "" if low is None or high is None else f"[{format_number(low)}, {format_number(high)}]"
    return number_cell(estimate.value, note)


def facts_as_html(caption: str, facts: Mapping[str, str]) -> str:
    """A small table of names and values, as notebooks show an object.

    >>> facts_as_html("Cohort", {"patients": "3"})
    '<table><caption>Cohort</caption><tr><th>patients</th><td>3</td></tr></table>'
    """
    cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts.items())
    return f"<table><caption>{escape(caption)}</caption>{cells}</table>"
