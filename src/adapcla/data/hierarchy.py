"""The family tree of codes: chapter → section → category → code, read off the form of codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapcla.data import icd
from adapcla.data.vocabulary import Code, Vocabulary

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
        bare = icd.system_of([code.bare for code in vocabulary.codes if not code.system])
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
        runs = [name[:-1] if len(name) <= icd.LONGEST_CATEGORY else name for name in self.categories]
        names = [
            f"{self.chapters[chapter]} {runs[category]}"
            for category, chapter in zip(self.category, self.chapter, strict=True)
        ]
        return np.unique(names, return_inverse=True)[1].astype(np.int64)


def _family(code: str, system: str) -> tuple[str, str] | None:
    """(category, chapter) of one code, or None if it has no known form."""
    if system == "PLANTED":
        return (code[:3], code[:1]) if len(code) >= 3 else None
    revision = icd.ICD10 if system.startswith("ICD10") else system
    if icd.is_range(code, revision):
        return code, icd.chapter(code.partition("-")[0], revision)
    return (icd.category(code, revision), icd.chapter(code, revision)) if icd.has_form(code, revision) else None


def chapters(vocabulary: Vocabulary) -> list[str]:
    """The chapter of each code; its domain where its form shows none.

    >>> chapters(Vocabulary.of(["4019", "aspirin"]))
    ['ICD9 07', 'diagnosis']
    """
    bare = icd.system_of([code.bare for code in vocabulary.codes if not code.system])
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
    bare = icd.system_of([code.bare for code in vocabulary.codes if not code.system])
    return [_ancestors(code, bare) for code in vocabulary.codes]


def _ancestors(code: Code, bare: str) -> tuple[Code, ...]:
    """The ancestors of one code, given the system of codes that name none."""
    plain = icd.undotted(code.bare)
    if code.system in _BEGINNINGS:
        names = [plain[:length] for length in _BEGINNINGS[code.system]]
    elif code.domain == "diagnosis":
        names = icd.ancestors(code.bare, code.system or bare)
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
