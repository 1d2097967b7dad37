"""The family tree of codes: chapter → category → code, read off the form of ICD-like codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adapcla.records import icd
from adapcla.records.vocabulary import Vocabulary

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
    return (icd.category(code, revision), icd.chapter(code, revision)) if icd.has_form(code, revision) else None
