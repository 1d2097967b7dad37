"""What users say about what is read and what is written; each reader and format uses what it understands.

The fields are the options of the command line: the name with dashes, and the help from the metadata.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from adapcla.errors import UsageError, nearest

DomainName = Literal["dx", "px", "rx", "lab", "stay"]
LabValue = Literal["last", "first", "lowest", "highest"]
Level = Literal["full", "category", "ccs"]
IcdPolicy = Literal["apart", "map9", "map10"]
DateOrder = Literal["dmy", "mdy"]
DecimalMark = Literal["comma", "point"]
Encoding = Literal["utf-8", "utf-16", "latin-1", "windows-1252"]
MedsSplit = Literal["train", "tuning", "held_out"]
VisitType = Literal["inpatient", "outpatient", "emergency"]

#: Domain as the command line names it → domain as a vocabulary names it.
DOMAIN_OF: dict[str, str] = {
    "dx": "diagnosis",
    "px": "procedure",
    "rx": "drug",
    "lab": "lab",
    "stay": "stay",
}
#: Nobody who was alive on the first day of the calendar of exports was born outside these years.
_BIRTH_YEARS = range(1880, 2001)


def _help(text: str) -> dict[str, str]:
    """The metadata of a field with this help."""
    return {"help": text}


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about a source of patients.

    >>> ReadOptions(domains=("dx", "px")).record_domains
    ('diagnosis', 'procedure')
    """

    domains: tuple[DomainName, ...] = field(
        default=("dx",), metadata=_help("Kinds of code: dx, px, rx, lab, stay, with commas.")
    )
    level: Level = field(default="full", metadata=_help("Level of codes: full, category or ccs."))
    icd: IcdPolicy = field(default="apart", metadata=_help("ICD revisions: apart, map9 or map10."))
    patient: str | None = field(default=None, metadata=_help("Column of patient ids (table)."))
    visit: str | None = field(default=None, metadata=_help("Column of visit ids (table)."))
    codes: str | None = field(default=None, metadata=_help("Column of codes, or several with commas or * (table)."))
    date: str | None = field(default=None, metadata=_help("Column of visit dates (table)."))
    day: str | None = field(default=None, metadata=_help("Column of days since the first visit (table)."))
    attributes: tuple[str, ...] = field(
        default=(), metadata=_help("Columns that become static attributes, with commas (table).")
    )
    separator: str | None = field(default=None, metadata=_help("What separates codes in a cell (table)."))
    system: str = field(default="", metadata=_help("Name of the code system, where the data does not say it."))
    labels: str | None = field(default=None, metadata=_help("phenotypes, auto, or a CSV with columns code and label."))
    max_visits: int | None = field(default=None, metadata=_help("Keep at most the first N visits of a patient."))
    labs: str = field(
        default="200", metadata=_help("Labs to read: the N most used, all, items with commas, or a file.")
    )
    lab_values: tuple[LabValue, ...] = field(
        default=("last",), metadata=_help("Values of a lab in a visit: last, first, lowest, highest, with commas.")
    )
    value: str | None = field(default=None, metadata=_help("Column of numbers (table)."))
    unit: str | None = field(default=None, metadata=_help("Column of units of numbers (table)."))
    time: str | None = field(default=None, metadata=_help("Column of the times of numbers (table)."))
    kind: str | None = field(default=None, metadata=_help("Column of kinds of visits (table)."))
    length: str | None = field(default=None, metadata=_help("Column of lengths of visits in days (table)."))
    ending: str | None = field(default=None, metadata=_help("Column of how visits ended (table)."))
    encoding: Encoding | None = field(
        default=None, metadata=_help("Encoding of text: utf-8, utf-16, latin-1 or windows-1252.")
    )
    date_order: DateOrder | None = field(
        default=None, metadata=_help("Dates such as 03/04/2020: dmy (3 April) or mdy (4 March).")
    )
    decimal: DecimalMark | None = field(
        default=None, metadata=_help("Numbers such as 1,234: comma (about one) or point (over a thousand).")
    )
    sheet: str | None = field(default=None, metadata=_help("Sheet of a workbook (table)."))

    def __post_init__(self) -> None:
        for value, allowed, name in (
            *((domain, get_args(DomainName), "domains") for domain in self.domains),
            *((name, get_args(LabValue), "lab-values") for name in self.lab_values),
            (self.level, get_args(Level), "level"),
            (self.icd, get_args(IcdPolicy), "icd"),
            (self.encoding, (None, *get_args(Encoding)), "encoding"),
            (self.date_order, (None, *get_args(DateOrder)), "date-order"),
            (self.decimal, (None, *get_args(DecimalMark)), "decimal"),
        ):
            if value not in allowed:
                known = ", ".join(word for word in allowed if word)
                raise UsageError(f"--{name} {value!r}\nexpected: {known}\nto do: choose one of these")
        if not self.domains:
            raise UsageError(
                "--domains is empty\nexpected: one or more of dx, px, rx, lab, stay\nto do: leave it out for dx"
            )
        if not self.lab_values or not self.labs:
            raise UsageError("--labs or --lab-values is empty\nto do: leave it out for the last of the 200 most used")
        if self.max_visits is not None and self.max_visits < 1:
            raise UsageError(f"--max-visits {self.max_visits}\nexpected: 1 or more\nto do: leave it out to keep all")

    @classmethod
    def of(cls, content: dict[str, Any]) -> ReadOptions:
        """The options of these names; lists become tuples, and an unknown name is refused with the nearest.

        >>> ReadOptions.of({"domains": ["dx", "px"]}).domains
        ('dx', 'px')
        """
        known = [each.name for each in fields(cls)]
        for name in content:
            if name not in known:
                raise UsageError(
                    f"no option of a source is called {name!r}\n"
                    f"expected: {', '.join(known)}\nto do: {nearest(name, known)}"
                )
        given: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in content.items()}
        return cls(**given)

    @property
    def record_domains(self) -> tuple[str, ...]:
        """The domains as a vocabulary names them."""
        return tuple(DOMAIN_OF[domain] for domain in self.domains)

    @property
    def labs_file(self) -> Path | None:
        """The file that lists the labs; None where the option itself says which.

        >>> ReadOptions(labs="50931,50912").labs_file is None
        True
        """
        # A long list is no name of a file, and some systems refuse to look.
        path = None if "," in self.labs else Path(self.labs)
        return path if path is not None and path.is_file() else None

    def for_card(self) -> dict[str, Any]:
        """The options that say how codes were read, as JSON for a cohort's card.

        >>> ReadOptions(system="ICD9CM").for_card()
        {'domains': ['dx'], 'level': 'full', 'icd': 'apart', 'system': 'ICD9CM'}
        """
        content: dict[str, Any] = {"domains": list(self.domains), "level": self.level, "icd": self.icd}
        for name in ("system", "max_visits", "encoding", "date_order", "decimal"):
            if getattr(self, name):
                content[name] = getattr(self, name)
        if "lab" in self.domains:
            listed = self.labs_file
            content |= {"labs": self.labs if listed is None else listed.name, "lab_values": list(self.lab_values)}
        return content


@dataclass(frozen=True)
class WriteOptions:
    """What the user says about a cohort that is written.

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
