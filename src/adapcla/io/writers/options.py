"""What formats ask for and a cohort cannot say; the user may."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from adapcla.errors import UsageError

MedsSplit = Literal["train", "tuning", "held_out"]
VisitType = Literal["inpatient", "outpatient", "emergency"]
#: Nobody who was alive on the first day of the calendar was born outside these years.
_BIRTH_YEARS = range(1880, 2001)


@dataclass(frozen=True)
class WriteOptions:
    """What the user says about a cohort; each format uses what it understands.

    >>> WriteOptions(visit_type="inpatient").visit_type
    'inpatient'
    """

    #: MEDS: the split of all patients; None follows the origin of the cohort.
    split: MedsSplit | None = None
    #: OMOP, FHIR: what kind of visits these are; None leaves it unknown.
    visit_type: VisitType | None = None
    #: OMOP: the year of birth of patients whose age is not known; None leaves them out.
    birth_year: int | None = None
    #: OMOP: folder of an Athena download with CONCEPT.csv and CONCEPT_RELATIONSHIP.csv.
    vocabulary: Path | None = None
    #: CSV: mark codes that a spreadsheet would change, such as 0389 or 1E10, with an apostrophe.
    for_excel: bool = False

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("split", self.split, get_args(MedsSplit)),
            ("visit-type", self.visit_type, get_args(VisitType)),
        ):
            if value is not None and value not in allowed:
                raise UsageError(f"--{name} {value!r}\nexpected: {', '.join(allowed)}\nto do: choose one of these")
        if self.birth_year is not None and self.birth_year not in _BIRTH_YEARS:
            raise UsageError(
                f"--birth-year {self.birth_year}\nexpected: {_BIRTH_YEARS[0]} to {_BIRTH_YEARS[-1]}, because every "
                "patient's first visit is on 1 January 2000\nto do: choose one of these"
            )
