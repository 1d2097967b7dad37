"""Options of what is read, shared by the verbs that read a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from adapcla.cli.options import listed

Patient = Annotated[str | None, typer.Option("--patient", help="Column of patient ids (table).")]
Visit = Annotated[str | None, typer.Option("--visit", help="Column of visit ids (table).")]
Codes = Annotated[str | None, typer.Option("--codes", help="Column of codes, or several with commas or * (table).")]
Date = Annotated[str | None, typer.Option("--date", help="Column of visit dates (table).")]
Day = Annotated[str | None, typer.Option("--day", help="Column of days since the first visit (table).")]
Separator = Annotated[str | None, typer.Option("--separator", help="What separates codes in a cell (table).")]
Domains = Annotated[str, typer.Option("--domains", help="Kinds of code: dx, px, rx, lab, stay, with commas.")]
Labs = Annotated[str, typer.Option("--labs", help="Labs to read: the N most used, all, items with commas, or a file.")]
LabValues = Annotated[
    str, typer.Option("--lab-values", help="Values of a lab in a visit: last, first, lowest, highest, with commas.")
]
Value = Annotated[str | None, typer.Option("--value", help="Column of numbers (table).")]
Unit = Annotated[str | None, typer.Option("--unit", help="Column of units of numbers (table).")]
Time = Annotated[str | None, typer.Option("--time", help="Column of the times of numbers (table).")]
Kind = Annotated[str | None, typer.Option("--kind", help="Column of kinds of visits (table).")]
Length = Annotated[str | None, typer.Option("--length", help="Column of lengths of visits in days (table).")]
Ending = Annotated[str | None, typer.Option("--ending", help="Column of how visits ended (table).")]
Level = Annotated[str, typer.Option("--level", help="Level of codes: full, category or ccs.")]
Icd = Annotated[str, typer.Option("--icd", help="ICD revisions: apart, map9 or map10.")]
Attributes = Annotated[
    str, typer.Option("--attributes", help="Columns that become static attributes, with commas (table).")
]
Labels = Annotated[str | None, typer.Option("--labels", help="phenotypes, auto, or a CSV with columns code and label.")]
System = Annotated[str, typer.Option("--system", help="Name of the code system, where the data does not say it.")]
MaxVisits = Annotated[int | None, typer.Option("--max-visits", help="Keep at most the first N visits of a patient.")]
Encoding = Annotated[str | None, typer.Option("--encoding", help="Encoding of text, such as windows-1252.")]
DateOrder = Annotated[str | None, typer.Option("--date-order", help="Dates such as 03/04/2020: dmy or mdy.")]
Decimal = Annotated[str | None, typer.Option("--decimal", help="Mark of decimals in numbers: comma or point.")]
Sheet = Annotated[str | None, typer.Option("--sheet", help="Sheet of a workbook (table).")]
#: The arguments of a verb that are options of a source, and those of them that are lists with commas.
_OPTIONS = (
    *("patient", "visit", "codes", "date", "day", "separator", "domains", "level", "icd", "attributes", "labels"),
    *("system", "max_visits", "labs", "lab_values", "value", "unit", "time", "kind", "length", "ending"),
    *("encoding", "date_order", "decimal", "sheet"),
)
_LISTS = ("domains", "attributes", "lab_values")
#: What stands for itself: who asks for nothing else asks for the same as one that does not ask.
_DEFAULTS = {
    "domains": "dx",
    "level": "full",
    "icd": "apart",
    "attributes": "",
    "system": "",
    "labs": "200",
    "lab_values": "last",
}


def asked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a source among the arguments of a verb, lists as lists.

    >>> asked({"domains": "dx,lab", "labs": "200", "out": "folder"})
    {'domains': ('dx', 'lab')}
    """
    found = {name: given[name] for name in _OPTIONS if name in given and given[name] != _DEFAULTS.get(name)}
    return {name: listed(value) if name in _LISTS else value for name, value in found.items()}
