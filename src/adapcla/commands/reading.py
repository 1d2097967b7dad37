"""Options of what is read, shared by the verbs that read a source."""

from __future__ import annotations

from typing import Annotated

import typer

Patient = Annotated[str | None, typer.Option("--patient", help="Column of patient ids (table).")]
Visit = Annotated[str | None, typer.Option("--visit", help="Column of visit ids (table).")]
Codes = Annotated[str | None, typer.Option("--codes", help="Column of codes, or several with commas or * (table).")]
Date = Annotated[str | None, typer.Option("--date", help="Column of visit dates (table).")]
Day = Annotated[str | None, typer.Option("--day", help="Column of days since the first visit (table).")]
Separator = Annotated[str | None, typer.Option("--separator", help="What separates codes in a cell (table).")]
Domains = Annotated[str, typer.Option("--domains", help="Kinds of code: dx, px, rx, with commas.")]
Level = Annotated[str, typer.Option("--level", help="Level of codes: full, category or ccs.")]
Icd = Annotated[str, typer.Option("--icd", help="ICD revisions: apart, map9 or map10.")]
Attributes = Annotated[
    str, typer.Option("--attributes", help="Columns that become static attributes, with commas (table).")
]
Labels = Annotated[str | None, typer.Option("--labels", help="phenotypes, auto, or a CSV with columns code and label.")]
System = Annotated[str, typer.Option("--system", help="Name of the code system, where the data does not say it.")]
MaxVisits = Annotated[int | None, typer.Option("--max-visits", help="Keep at most the first N visits of a patient.")]
