"""The ordered set of codes that a cohort is written in, and the codes that describe a visit as a whole.

Kind of visit, length of stay and discharge are codes like all others, of the domain `stay`. Kind and discharge are
choice groups; the length is a number of days. A record ends with a visit that ends with death.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.errors import InputError

#: The revision that a system's name speaks of, where a source says nothing finer.
REVISIONS = {"ICD9CM": "9", "ICD9PROC": "9", "ICD10": "10", "ICD10CM": "10", "ICD10PCS": "10"}

#: The longest code, with its system.
LONGEST_CODE = 256
_BLANKS = re.compile(r"\s+")


def normalize_code(text: str) -> str:
    """The text of a code as it is kept: Unicode composed (NFC), no blanks at its ends, single blanks inside.

    >>> normalize_code(" Aspirin  81 mg "), normalize_code("Mu\u0308ller") == "M\xfcller"
    ('Aspirin 81 mg', True)
    """
    if text.isascii() and text.isalnum():
        return text
    return _BLANKS.sub(" ", unicodedata.normalize("NFC", text)).strip()


def is_code(text: str) -> bool:
    """Whether a text may be a code: all of it can be printed, without blanks at its ends, and it is not too long.

    >>> is_code("I10"), is_code("Aspirin 81 mg"), is_code(""), is_code("a\\x07b"), is_code(" a")
    (True, True, False, False, False)
    """
    return 0 < len(text) <= LONGEST_CODE and text.isprintable() and text == text.strip()


#: The number of fields that a code without a group and a unit has.
N_PLAIN = 6


class Code(NamedTuple):
    """One code: the token used everywhere, and what is known about it.

    >>> Code.of("4019", system="ICD9CM")[:4]
    ('ICD9CM/4019', 'ICD9CM', '9', '4019')
    """

    token: str
    system: str = ""
    version: str = ""
    code: str = ""
    description: str = ""
    domain: str = "diagnosis"
    #: The choice group of the code, of which a visit holds at most one code; empty for a code of its own.
    group: str = ""
    #: The unit of a code whose entries carry a number (UCUM; "1" where it has none); empty for any other code.
    unit: str = ""

    @classmethod
    def of(
        cls,
        code: str,
        system: str = "",
        version: str = "",
        description: str = "",
        domain: str = "diagnosis",
        group: str = "",
        unit: str = "",
    ) -> Code:
        """A code whose token is `system/code`, or the bare code where the system is unknown."""
        token = f"{system}/{code}" if system else code
        return cls(token, system, version or REVISIONS.get(system, ""), code, description, domain, group, unit)

    @property
    def in_use(self) -> tuple[str, ...]:
        """The fields up to the last that every code has, or all of them where the code has a group or a unit.

        Files of plain codes are the same as those from before there were groups and units.

        >>> len(Code.of("4019").in_use), len(Code.of("inpatient", "KIND", group="kind").in_use)
        (6, 8)
        """
        return tuple(self) if self.group or self.unit else tuple(self[:N_PLAIN])

    @property
    def bare(self) -> str:
        """The code without its system."""
        return self.code or self.token


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Codes in token order; the position of a code is its index in every array of the project.

    >>> vocabulary = Vocabulary.of(["I10", "E11"])
    >>> vocabulary.tokens, vocabulary.index["I10"], len(vocabulary)
    (('E11', 'I10'), 1, 2)
    """

    codes: tuple[Code, ...]

    def __post_init__(self) -> None:
        tokens = [code.token for code in self.codes]
        if any(a >= b for a, b in itertools.pairwise(tokens)):
            raise InputError(
                "vocabulary is not in strict token order",
                expected="each code once, sorted by its string",
                remedy="build it with Vocabulary.of(codes)",
            )
        for position, token in enumerate(tokens):
            if not is_code(token):
                raise InputError(
                    f"code number {position} of the vocabulary has a form that is not allowed",
                    expected=f"at most {LONGEST_CODE} characters that can be printed, no blanks at the ends",
                    remedy="drop or rename such codes when reading the source",
                )

    @classmethod
    def of(cls, codes: Iterable[Code | str]) -> Vocabulary:
        """The vocabulary of these codes, sorted; of equal tokens the first is kept."""
        unique: dict[str, Code] = {}
        for code in codes:
            full = Code.of(code) if isinstance(code, str) else code
            unique.setdefault(full.token, full)
        return cls(tuple(unique[token] for token in sorted(unique)))

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        """One line: how many codes, and the first of them.

        >>> Vocabulary.of(["A", "B", "C", "D"])
        Vocabulary(4 codes: A, B, C, …)
        """
        shown = ", ".join([*self.tokens[:3], *(["…"] if len(self) > 3 else [])])
        return f"Vocabulary({len(self):,} codes: {shown})" if shown else "Vocabulary(0 codes)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.codes == other.codes

    def __hash__(self) -> int:
        return hash(self.tokens)

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        """The code strings, in order."""
        return tuple(code.token for code in self.codes)

    @cached_property
    def index(self) -> dict[str, int]:
        """From code string to position."""
        return {token: position for position, token in enumerate(self.tokens)}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the code strings, groups and units: equal for equal meaning of every index."""
        lines = (
            code.token if len(code.in_use) == N_PLAIN else "\t".join((code.token, code.group, code.unit))
            for code in self.codes
        )
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The names of the choice groups, sorted.

        >>> Vocabulary.of([Code.of("home", "END", group="end"), Code.of("died", "END", group="end"), "A"]).groups
        ('end',)
        """
        return tuple(sorted({code.group for code in self.codes if code.group}))

    @cached_property
    def group_of_code(self) -> NDArray[np.int32]:
        """The number of each code's choice group, −1 for a code of its own.

        >>> Vocabulary.of(["A", Code.of("home", "END", group="end")]).group_of_code.tolist()
        [-1, 0]
        """
        number = {name: position for position, name in enumerate(self.groups)}
        return np.array([number.get(code.group, -1) for code in self.codes], dtype=np.int32)

    @cached_property
    def numbers(self) -> NDArray[np.bool_]:
        """True for the codes whose entries carry a number.

        >>> Vocabulary.of(["A", Code.of("glucose", "LAB", domain="lab", unit="mg/dL")]).numbers.tolist()
        [False, True]
        """
        return np.array([bool(code.unit) for code in self.codes], dtype=bool)

    def domain_mask(self, domain: str) -> NDArray[np.bool_]:
        """True for the codes of one domain.

        >>> Vocabulary.of(["A"]).domain_mask("drug").tolist()
        [False]
        """
        return np.array([code.domain == domain for code in self.codes], dtype=bool)

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains that occur, sorted."""
        return tuple(sorted({code.domain for code in self.codes}))

    def positions(self, tokens: Sequence[str], complete: bool = False) -> NDArray[np.int64]:
        """The position of each code string, −1 where unknown; with `complete` an unknown one is an error.

        >>> Vocabulary.of(["A", "B"]).positions(["B", "C"]).tolist()
        [1, -1]
        """
        out = np.array([self.index.get(token, -1) for token in tokens], dtype=np.int64)
        if complete and (out < 0).any():
            raise InputError("a code outside the vocabulary", remedy="add it to the vocabulary or drop it")
        return out

    def subset(self, keep: NDArray[np.bool_]) -> Vocabulary:
        """The vocabulary of the kept codes.

        >>> Vocabulary.of(["A", "B"]).subset(np.array([False, True])).tokens
        ('B',)
        """
        return Vocabulary(tuple(code for code, kept in zip(self.codes, keep, strict=True) if kept))

    def without_units(self) -> Vocabulary:
        """The vocabulary with numbers as plain codes.

        >>> bool(Vocabulary.of([Code.of("glucose", "LAB", unit="mg/dL")]).without_units().numbers.any())
        False
        """
        return Vocabulary(tuple(code._replace(unit="") for code in self.codes))


# ---- codes of a visit as a whole ------------------------------------------------------------------------
STAY = "stay"
VISIT_KIND, DISCHARGE = "kind", "end"
#: What kinds of visit and endings are called in every source, and what each means.
VISIT_KINDS = {
    "inpatient": "Inpatient stay",
    "emergency": "Emergency visit",
    "emergency-inpatient": "Inpatient stay that began in the emergency department",
    "elective": "Planned inpatient stay",
    "observation": "Observation stay",
    "outpatient": "Outpatient visit",
    "home": "Visit at home or by telephone",
    "other": "Visit of another kind",
}
DISCHARGES = {
    "home": "Discharged home",
    "home-care": "Discharged home with care",
    "facility": "Discharged to another facility",
    "hospice": "Discharged to hospice",
    "against-advice": "Left against advice",
    "died": "Died",
    "other": "Ended in another way",
}


def visit_kind_code(name: str) -> Code:
    """The code of a kind of visit.

    >>> visit_kind_code("inpatient").token, visit_kind_code("inpatient").group
    ('KIND/inpatient', 'kind')
    """
    return Code.of(name, "KIND", description=VISIT_KINDS.get(name, ""), domain=STAY, group=VISIT_KIND)


def discharge_code(name: str) -> Code:
    """The code of an ending.

    >>> discharge_code("died").token
    'END/died'
    """
    return Code.of(name, "END", description=DISCHARGES.get(name, ""), domain=STAY, group=DISCHARGE)


#: The days from the begin of a visit to its end.
LENGTH_OF_STAY = Code.of("days", "STAY", description="Length of stay", domain=STAY, unit="d")
#: After a visit with this code there is no other.
DEATH = discharge_code("died")
#: Where a source has no dates it may say itself that the patient came back within thirty days.
READMITTED = Code.of(
    "within-30", "READMITTED", description="Readmitted within 30 days", domain=STAY, group="readmitted"
)
#: Kinds of visit that are stays in hospital.
ADMISSION_KINDS = ("inpatient", "emergency-inpatient", "elective", "observation")
