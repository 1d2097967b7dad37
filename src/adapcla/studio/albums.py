"""Synthetic cohorts and models as pages need them: opened, checked, their codes named and the rare ones known.

Nothing here opens a cohort whose patients may be real to show them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort, Strata, Vocabulary, storage
from adapcla.data.code_systems import describe_codes
from adapcla.errors import InputError
from adapcla.files import read_json
from adapcla.report.timelines import Album
from adapcla.studio.workspace import Workspace, may_be_shown

#: Visits of a patient, and codes of a visit, that a page shows.
MOST_VISITS, MOST_CODES = 12, 14


@dataclass(frozen=True, eq=False)
class Known:
    """What a saved model knows about codes; its network is not loaded."""

    vocabulary: Vocabulary
    #: Share of training visits that hold each code; nan where it is too rare to be told.
    share: NDArray[np.float64]
    n_visits: int
    attributes: dict[str, tuple[str, ...]]

    @cached_property
    def names(self) -> dict[str, str]:
        """Token → name, or the code itself."""
        known = describe_codes(self.vocabulary)
        return {code.token: known.get(code.token, code.bare) for code in self.vocabulary.codes}

    def label(self, token: str) -> str:
        """A code with its name, for a list; what somebody typed stays as it is."""
        name = self.names.get(token, "")
        return f"{token}  {name}" if name and not token.endswith(name) else token

    @property
    def rare(self) -> NDArray[np.bool_]:
        """The rarest third of the codes that were seen in training; what is too rare to be told is rare."""
        counts = np.round(np.nan_to_num(self.share, nan=0.5 / max(self.n_visits, 1)) * self.n_visits).astype(np.int64)
        hidden = np.isnan(self.share)
        return Strata.of(np.where(hidden, 1, counts), self.vocabulary).tail


def known_by(model: Path) -> Known:
    """What the model in a folder, or in the folder of its run, knows about codes."""
    folder = model / "model" if (model / "model").is_dir() else model
    config = read_json(folder / "config.json")
    vocabulary = Vocabulary(tuple(storage.read_vocabulary(folder / storage.VOCABULARY)))
    share = np.asarray(storage.read_array(folder / "prior.npy"), dtype=np.float64)
    if share.shape != (len(vocabulary),):
        raise InputError("prevalences that do not fit the codes", path=folder, remedy="train it again")
    told = config.get("attributes", {})
    attributes = {
        str(name): tuple(map(str, categories))
        for name, categories in zip(told.get("names", ()), told.get("categories", ()), strict=True)
    }
    return Known(vocabulary, share, int(config.get("n_visits") or 0), attributes)


def album_of(space: Workspace, name: str, model: str = "") -> tuple[Album, str]:
    """The patients of a synthetic cohort in the folder, and who says which codes are rare.

    The model that wrote them says it, where it is known or lies beside them; else they say it themselves.
    """
    folder = space.inside(name)
    if not may_be_shown(read_json(folder / storage.CARD)):
        raise InputError(
            "these patients may be real, and are not shown",
            path=name,
            expected="patients that a generator wrote",
            remedy="choose a sample or a release",
        )
    cohort = Cohort.open(folder)
    beside = (folder.parent / "fit", folder.parent.parent, *([space.inside(model)] if model else ()))
    for place in reversed(beside):
        if (place / "model" / "config.json").is_file() or (place / "config.json").is_file():
            known = known_by(place)
            if known.vocabulary.tokens == cohort.vocabulary.tokens:
                return Album(cohort, known.rare, MOST_VISITS, MOST_CODES), "the patients that the model learned from"
    return Album(cohort, cohort.strata().tail, MOST_VISITS, MOST_CODES), "these synthetic patients themselves"
