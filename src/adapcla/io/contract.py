"""What a source is: a module with `read(root, options)`, found by its name."""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, cast, get_args

from adapcla.data import Cohort
from adapcla.errors import UsageError, nearest

DomainName = Literal["dx", "px", "rx", "lab", "stay"]
LabValue = Literal["last", "first", "lowest", "highest"]
Level = Literal["full", "category", "ccs"]
IcdPolicy = Literal["apart", "map9", "map10"]

#: Source name → the module that reads it; importing happens when it is asked for.
SOURCES: dict[str, str] = {
    "mimic3": "adapcla.io.readers.mimic3",
    "mimic4": "adapcla.io.readers.mimic4",
    "eicu": "adapcla.io.readers.eicu",
    "omop": "adapcla.io.readers.omop",
    "meds": "adapcla.io.readers.meds",
    "fhir": "adapcla.io.readers.fhir",
    "table": "adapcla.io.readers.table",
    "diabetes130": "adapcla.io.readers.diabetes130",
    "halo": "adapcla.io.readers.halo",
}
#: Source name → what people call it.
TITLES: dict[str, str] = {
    "table": "a table (CSV, TSV, Parquet)",
    "mimic3": "MIMIC-III",
    "mimic4": "MIMIC-IV",
    "eicu": "eICU",
    "omop": "OMOP CDM",
    "meds": "MEDS",
    "fhir": "FHIR (NDJSON)",
    "halo": "HALO pickles",
    "diabetes130": "Diabetes 130-US hospitals (UCI)",
}
#: Domain as the command line names it → domain as a vocabulary names it.
DOMAIN_OF: dict[str, str] = {
    "dx": "diagnosis",
    "px": "procedure",
    "rx": "drug",
    "lab": "lab",
    "stay": "stay",
}


@dataclass(frozen=True)
class Options:
    """What the user asked of a source; each source uses what it understands.

    >>> Options(domains=("dx", "px")).record_domains
    ('diagnosis', 'procedure')
    """

    #: Kinds of code to read, by the names of the command line.
    domains: tuple[DomainName, ...] = ("dx",)
    level: Level = "full"
    icd: IcdPolicy = "apart"
    #: Column names, for sources whose columns are not fixed; None asks for a guess.
    patient: str | None = None
    visit: str | None = None
    codes: str | None = None
    date: str | None = None
    day: str | None = None
    #: Columns taken as static attributes of patients.
    attributes: tuple[str, ...] = ()
    #: What separates codes in one cell; None asks for a guess.
    separator: str | None = None
    #: Name of the code system, where the source does not say it itself.
    system: str = ""
    #: "phenotypes", "auto" or a CSV `code,label`; applied after reading.
    labels: str | None = None
    #: Visits of a patient beyond this number are dropped and counted; None keeps all.
    max_visits: int | None = None
    #: Which labs to read: a number (so many of the most used), `all`, items with commas, or a file with one a line.
    labs: str = "200"
    #: Which of several values of a lab in one visit are kept.
    lab_values: tuple[LabValue, ...] = ("last",)
    #: Columns of a table for numbers (value, unit, time of the value) and stays (kind, days, ending).
    value: str | None = None
    unit: str | None = None
    time: str | None = None
    kind: str | None = None
    length: str | None = None
    ending: str | None = None

    def __post_init__(self) -> None:
        for value, allowed, name in (
            *((domain, get_args(DomainName), "domains") for domain in self.domains),
            *((name, get_args(LabValue), "lab-values") for name in self.lab_values),
            (self.level, get_args(Level), "level"),
            (self.icd, get_args(IcdPolicy), "icd"),
        ):
            if value not in allowed:
                raise UsageError(f"--{name} {value!r}\nexpected: {', '.join(allowed)}\nto do: choose one of these")
        if not self.domains:
            raise UsageError(
                "--domains is empty\nexpected: one or more of dx, px, rx, lab, stay\nto do: leave it out for dx"
            )
        if not self.lab_values or not self.labs:
            raise UsageError("--labs or --lab-values is empty\nto do: leave it out for the last of the 200 most used")
        if self.max_visits is not None and self.max_visits < 1:
            raise UsageError(f"--max-visits {self.max_visits}\nexpected: 1 or more\nto do: leave it out to keep all")

    @property
    def record_domains(self) -> tuple[str, ...]:
        """The domains as a vocabulary names them."""
        return tuple(DOMAIN_OF[domain] for domain in self.domains)

    @property
    def labs_file(self) -> Path | None:
        """The file that lists the labs; None where the option itself says which.

        >>> Options(labs="50931,50912").labs_file is None
        True
        """
        # A long list is no name of a file, and some systems refuse to look.
        path = None if "," in self.labs else Path(self.labs)
        return path if path is not None and path.is_file() else None

    def for_card(self) -> dict[str, Any]:
        """The options that say how codes were read, as JSON for a cohort's card.

        >>> Options(system="ICD9CM").for_card()
        {'domains': ['dx'], 'level': 'full', 'icd': 'apart', 'system': 'ICD9CM'}
        """
        content: dict[str, Any] = {"domains": list(self.domains), "level": self.level, "icd": self.icd}
        for name in ("system", "max_visits"):
            if getattr(self, name):
                content[name] = getattr(self, name)
        if "lab" in self.domains:
            listed = self.labs_file
            content |= {"labs": self.labs if listed is None else listed.name, "lab_values": list(self.lab_values)}
        return content


class Source(Protocol):
    """A module that reads one kind of data."""

    def read(self, root: Path, options: Options) -> Cohort:
        """The cohort in a folder or file."""


def source_of(name: str) -> Source:
    """The source of that name, imported on demand.

    >>> source_of("table").__name__
    'adapcla.io.readers.table'
    """
    if name not in SOURCES:
        raise UsageError(f"no source {name!r}\nexpected: {', '.join(SOURCES)}\nto do: {nearest(name, SOURCES)}")
    return cast(Source, import_module(SOURCES[name]))


def options_from(content: dict[str, Any]) -> Options:
    """The options of these names; lists become tuples, and a name that does not exist is refused with the nearest.

    >>> options_from({"domains": ["dx", "px"]}).domains
    ('dx', 'px')
    """
    known = [field.name for field in fields(Options)]
    for name in content:
        if name not in known:
            raise UsageError(
                f"no option of a source is called {name!r}\nexpected: {', '.join(known)}\nto do: {nearest(name, known)}"
            )
    given: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in content.items()}
    return Options(**given)


def read(source: str, path: str | Path, **options: Any) -> Cohort:
    """The cohort that a source finds in a folder or file; `options` are the fields of `Options`."""
    asked = options_from(options)
    cohort = source_of(source).read(Path(path), asked)
    if asked.labels is None:
        return cohort
    from adapcla.data.labels import add_labels

    return add_labels(cohort, asked.labels)
