"""A table of text that becomes Markdown, LaTeX or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

#: What LaTeX prints otherwise than it is written; the backslash comes first, since the others bring new ones.
_LATEX = {
    "\\": r"\textbackslash{}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#",
    "–": "--", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "±": r"$\pm$", "−": "$-$",
}  # fmt: skip


class Cell(NamedTuple):
    """What a cell shows, what it is sorted by, what stands small beside it, whether it is the best of its column."""

    text: str
    value: float | None = None
    note: str = ""
    best: bool = False


@dataclass(frozen=True)
class Table:
    """The titles of the columns, and rows of as many cells.

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
    rows: Sequence[Sequence[Cell | str]]

    def markdown(self) -> str:
        """A Markdown table with the notes; the best cells are bold."""
        rows = [[_in_markdown(cell) for cell in row] for row in (self.columns, *self.rows)]
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
        lines = [" & ".join(_in_latex(cell) for cell in row) + r" \\" for row in (self.columns, *self.rows)]
        alignment = "l" * n_left + "r" * (len(self.columns) - n_left)
        begin = [f"\\begin{{tabular}}{{{alignment}}}", r"\toprule", lines[0], r"\midrule"]
        return "\n".join([*begin, *lines[1:], r"\bottomrule", r"\end{tabular}", ""])

    def csv(self) -> str:
        """Comma-separated values, texts alone."""
        out = io.StringIO()
        rows = ([_cell(cell).text for cell in row] for row in (self.columns, *self.rows))
        csv.writer(out, lineterminator="\n").writerows(rows)
        return out.getvalue()


def _cell(cell: Cell | str) -> Cell:
    return Cell(cell) if isinstance(cell, str) else cell


def _in_markdown(cell: Cell | str) -> str:
    text, _, note, best = _cell(cell)
    return f"{f'**{text}**' if best else text} {note}".strip().replace("|", r"\|")


def _in_latex(cell: Cell | str) -> str:
    text, _, _, best = _cell(cell)
    for plain, safe in _LATEX.items():
        text = text.replace(plain, safe)
    return f"\\textbf{{{text}}}" if best else text


def number(value: float | None) -> str:
    """A number with four digits that matter, a dash for none.

    >>> number(0.123456), number(None), number(0.0), number(12345.6)
    ('0.1235', '–', '0', '1.235e+04')
    """
    return "–" if value is None else f"{value:.4g}"
