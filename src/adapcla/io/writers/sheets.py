"""CSV files that grow block by block."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

#: A cell that begins so is a formula to a spreadsheet; an apostrophe is marked too, so that the mark can be undone.
_FORMULA = ("=", "+", "-", "@", "'")


# How months begin in English, German, French, Spanish, Italian and Portuguese.
_MONTH = (
    "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|jän|mär|mai|okt|dez|fév|fev|avr|jui|aoû|aou|déc|ene|abr|ago|dic|"
    r"gen|mag|giu|lug|set|ott|out)[^\W\d_]*\.?"
)
_BETWEEN = r"[ ./,-]*"
#: What spreadsheets change: numbers, dates and times in digits, dates with the name of a month, truth values.
_CHANGED = re.compile(
    rf"[0-9.,][0-9e.,:/% +-]*|[0-9]+{_BETWEEN}{_MONTH}{_BETWEEN}[0-9]*|{_MONTH}{_BETWEEN}[0-9]+{_BETWEEN}[0-9]*"
    "|true|false|wahr|falsch|vrai|faux|verdadero|falso|vero",
    re.IGNORECASE,
)


def plain_cell(text: str) -> str:
    """Free text that no spreadsheet takes for a formula; an apostrophe is put before one that it would.

    >>> plain_cell("=1+1"), plain_cell("Cholera")
    ("'=1+1", 'Cholera')
    """
    return f"'{text}" if text.startswith(_FORMULA) else text


def text_cell(text: str) -> str:
    """Text that a spreadsheet shows as it is: an apostrophe goes before what it would take for something else.

    That is a formula, a number (`0389`, `1E10`), a date (`10-19`, `MAR1`) or a truth value.

    >>> [text_cell(text) for text in ("0389", "1E10", "10-19", "MAR1", "E119", "ICD9CM/0389")]
    ["'0389", "'1E10", "'10-19", "'MAR1", 'E119', 'ICD9CM/0389']
    """
    return f"'{text}" if text.startswith(_FORMULA) or _CHANGED.fullmatch(text) else text


class Sheets:
    """CSV files of a folder, each opened at its first block and closed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writers: dict[str, Any] = {}

    def __enter__(self) -> Sheets:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            writer.close()

    def add(self, name: str, columns: dict[str, Any]) -> None:
        """Append rows to `name`.csv; a missing value becomes an empty cell."""
        import pyarrow as pa
        import pyarrow.csv as pc

        table: pa.Table = pa.table(columns)
        if name not in self._writers:
            self._writers[name] = pc.CSVWriter(str(self.folder / f"{name}.csv"), table.schema)
        self._writers[name].write_table(table)
