"""How ICD codes are written: systems and their revisions, the forms of diagnoses, their categories and chapters."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

ICD9, ICD10 = "ICD9CM", "ICD10CM"
#: The system of procedures that goes with a system of diagnoses.
PROCEDURES_OF = {ICD9: "ICD9PROC", ICD10: "ICD10PCS"}
#: The revision that a system's name speaks of, where a source says nothing finer.
REVISIONS = {ICD9: "9", "ICD9PROC": "9", "ICD10": "10", ICD10: "10", "ICD10PCS": "10"}
#: Diagnoses in capitals, with or without the dot: ICD-9 is three digits, V and two, or E and three; ICD-10 is a letter
#: and two. `V10.1` has both forms.
FORMS = {
    ICD9: re.compile(r"(?:[0-9]{3}|V[0-9]{2}|E[0-9]{3})(?:\.?[0-9]{1,2})?"),
    ICD10: re.compile(r"[A-Z][0-9][0-9A-Z](?:\.?[0-9A-Z]{1,4})?"),
}
#: The longest category has so many characters: an ICD-9 E-code.
LONGEST_CATEGORY = 4
# Last category of each ICD-9-CM chapter (CMS, ICD-9-CM volume 1, chapters 1 to 17).
_ICD9_CHAPTER_ENDS = (139, 239, 279, 289, 319, 389, 459, 519, 579, 629, 679, 709, 739, 759, 779, 799, 999)


def has_form(code: str, system: str) -> bool:
    """Whether a code is written as a diagnosis of this system is.

    >>> has_form("401.9", "ICD9CM"), has_form("i10", "ICD10CM"), has_form("I10", "ICD9CM")
    (True, True, False)
    """
    return system in FORMS and FORMS[system].fullmatch(code.upper()) is not None


def system_of(codes: Sequence[str]) -> str:
    """The system of diagnoses that do not name theirs; codes of both forms are decided by the others.

    >>> system_of(["E119", "I10"]), system_of(["E8497", "4019"])
    ('ICD10CM', 'ICD9CM')
    """
    forms = [(has_form(code, ICD9), has_form(code, ICD10)) for code in codes]
    return ICD10 if forms.count((False, True)) > forms.count((True, False)) else ICD9


def undotted(code: str) -> str:
    """The code as the tables write it: capitals, no dot.

    >>> undotted("e11.9"), undotted("0389")
    ('E119', '0389')
    """
    return code.replace(".", "").strip().upper()


def dotted(code: str, system: str) -> str:
    """The code as the classification prints it, with its dot; a code of another system or form stays as it is.

    >>> dotted("E119", "ICD10CM"), dotted("E8497", "ICD9CM"), dotted("9671", "ICD9PROC"), dotted("I10", "ICD10CM")
    ('E11.9', 'E849.7', '96.71', 'I10')
    """
    plain = undotted(code)
    if has_form(code, system):
        width = len(category(code, system))
    elif system == PROCEDURES_OF[ICD9] and re.fullmatch(r"[0-9]{3,4}", plain):
        width = 2
    else:
        return code
    return f"{plain[:width]}.{plain[width:]}" if len(plain) > width else plain


def category(code: str, system: str) -> str:
    """The category of a diagnosis: its first three characters, four for an ICD-9 E-code.

    >>> category("E11.9", "ICD10CM"), category("0389", "ICD9CM"), category("E8497", "ICD9CM")
    ('E11', '038', 'E849')
    """
    plain = undotted(code)
    return plain[:LONGEST_CATEGORY] if system == ICD9 and plain.startswith("E") else plain[:3]


def chapter(code: str, system: str) -> str:
    """The chapter of a diagnosis: a letter, or the number of the ICD-9 chapter.

    >>> chapter("E11.9", "ICD10CM"), chapter("4019", "ICD9CM"), chapter("V4581", "ICD9CM")
    ('ICD10 E', 'ICD9 07', 'ICD9 V')
    """
    name = category(code, system)
    if system == ICD10:
        return f"ICD10 {name[0]}"
    return f"ICD9 {name[0]}" if name[0] in "EV" else f"ICD9 {bisect_left(_ICD9_CHAPTER_ENDS, int(name)) + 1:02d}"


def section(code: str, system: str) -> str:
    """The range of the categories of one chapter that differ from a diagnosis in their last character alone.

    >>> section("I25.1", "ICD10CM"), section("41001", "ICD9CM"), section("E8497", "ICD9CM")
    ('I20-I29', '410-419', 'E840-E849')
    """
    run = category(code, system)[:-1]
    return f"{run}0-{run}9"


def chapter_range(code: str, system: str) -> str:
    """The chapter of a diagnosis as the range of its categories; a chapter with a letter is all of that letter.

    >>> chapter_range("4019", "ICD9CM"), chapter_range("I10", "ICD10CM"), chapter_range("V4581", "ICD9CM")
    ('390-459', 'I00-I99', 'V00-V99')
    """
    name = category(code, system)
    if system == ICD10 or name[0] in "EV":
        return f"{name[0]}{'0' * (len(name) - 1)}-{name[0]}{'9' * (len(name) - 1)}"
    number = bisect_left(_ICD9_CHAPTER_ENDS, int(name))
    first = _ICD9_CHAPTER_ENDS[number - 1] + 1 if number else 1
    return f"{first:03d}-{_ICD9_CHAPTER_ENDS[number]}"


def is_range(code: str, system: str) -> bool:
    """Whether a code is a range of categories, as sections and chapters are written.

    >>> is_range("410-419", "ICD9CM"), is_range("I10", "ICD10CM")
    (True, False)
    """
    first, dash, last = code.partition("-")
    return bool(dash) and all(has_form(end, system) and category(end, system) == undotted(end) for end in (first, last))


def ancestors(code: str, system: str) -> list[str]:
    """Category, section and chapter of a diagnosis, the code itself among them where it is one; else nothing.

    >>> ancestors("E11.9", "ICD10CM"), ancestors("410-419", "ICD9CM"), ancestors("aspirin", "ICD10CM")
    (['E11', 'E10-E19', 'E00-E99'], ['410-419', '390-459'], [])
    """
    revision = ICD10 if system == "ICD10" else ICD9 if system == "ICD9" else system
    if is_range(code, revision):
        first = code.partition("-")[0]
        return list(dict.fromkeys((code, chapter_range(first, revision))))
    if not has_form(code, revision):
        return []
    return [category(code, revision), section(code, revision), chapter_range(code, revision)]
