"""The family tree of codes: chapter → category → code, read off the form of ICD-like codes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapcla.records.vocabulary import Vocabulary

_ICD9 = re.compile(r"(?:[0-9]{3}|V[0-9]{2}|E[0-9]{3})(?:\.?[0-9]{1,2})?")
_ICD10 = re.compile(r"[A-Z][0-9][0-9A-Z](?:\.?[0-9A-Z]{1,4})?")
#: Length of the longest category; what is longer is a code outside the form, alone in its family.
_LONGEST = 4
#: Share of codes that must look alike before a prefix is taken for a family.
_ENOUGH = 0.9

# Last category of each ICD-9-CM chapter (CMS, ICD-9-CM volume 1, chapters 1 to 17).
_ICD9_CHAPTER_ENDS = np.array([139, 239, 279, 289, 319, 389, 459, 519, 579, 629, 679, 709, 739, 759, 779, 799, 999])


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
        bare = _system_of_bare([code.code or code.token for code in vocabulary.codes if not code.system])
        names = [_family(code.code or code.token, code.system or bare) for code in vocabulary.codes]
        known = sum(name is not None for name in names)
        if len(vocabulary) == 0 or known < _ENOUGH * len(vocabulary):
            return None
        # A code outside the form is its own family, so that nothing is borrowed wrongly.
        filled = [name or (code.token, code.domain) for name, code in zip(names, vocabulary.codes, strict=True)]
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
        names = [
            f"{self.chapters[chapter]} {name[:-1] if len(name := self.categories[category]) <= _LONGEST else name}"
            for category, chapter in zip(self.category.tolist(), self.chapter.tolist(), strict=True)
        ]
        return np.unique(names, return_inverse=True)[1].astype(np.int64)


def _system_of_bare(codes: Sequence[str]) -> str:
    """The system of codes that do not name theirs; forms that both systems have are decided by the others."""
    icd9 = sum(bool(_ICD9.fullmatch(code)) and not _ICD10.fullmatch(code) for code in codes)
    icd10 = sum(bool(_ICD10.fullmatch(code)) and not _ICD9.fullmatch(code) for code in codes)
    return "ICD10CM" if icd10 > icd9 else "ICD9CM"


def _family(code: str, system: str) -> tuple[str, str] | None:
    """(category, chapter) of one code, or None if it has no known form."""
    if system.startswith("ICD10"):
        return (code[:3], f"ICD10 {code[0]}") if _ICD10.fullmatch(code) else None
    if system == "PLANTED":
        return (code[:3], code[:1]) if len(code) >= 3 else None
    if system != "ICD9CM" or not _ICD9.fullmatch(code):
        return None
    if code[0] == "E":
        return code[:4], "ICD9 E"
    if code[0] == "V":
        return code[:3], "ICD9 V"
    chapter = int(np.searchsorted(_ICD9_CHAPTER_ENDS, int(code[:3]))) + 1
    return code[:3], f"ICD9 {chapter:02d}"
