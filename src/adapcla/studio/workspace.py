"""The folder that the studio works in: where things are put, what lies there, and which paths may be named.

Whether a cohort's patients may be shown is decided here: only those that a generator wrote. Real ones are never, and
neither are those of whom it is not known. Nothing here opens a cohort whose patients may be real to show them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort, Prevalence, Vocabulary, storage
from adapcla.data.code_systems import describe_codes
from adapcla.errors import InputError
from adapcla.files import MANIFEST, read_json
from adapcla.report.timelines import Album

#: Files that say what a folder is.
_COHORT, _MODEL, _STUDY, _TRIES = "card.json", "config.json", "study.json", "tries"
#: Folders that hold nothing to be found, and how deep and how many are looked through.
_CLOSED, _DEEPEST, _MOST = ("cache", "figures", "tables", "splits", "analysis", "node_modules"), 7, 4000
#: Endings of a table that may be dropped on the page.
TABLES = ("csv", "tsv", "txt", "gz", "parquet", "xlsx")
_PLACES = ("uploads", "cohorts", "releases", "samples", "targets", "histories", "comparisons")
#: Visits of a patient, and codes of a visit, that a page shows.
MOST_VISITS, MOST_CODES = 12, 14


@dataclass(frozen=True)
class Contents:
    """What lies in the folder, as paths relative to it."""

    #: Cohort → its card.
    cohorts: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Folders of trained runs and saved models.
    models: list[str] = field(default_factory=list)
    #: Folders of finished experiments.
    studies: list[str] = field(default_factory=list)
    #: Working folders of releases.
    works: list[str] = field(default_factory=list)

    @property
    def synthetic(self) -> list[str]:
        """Cohorts whose patients may be looked at: a generator wrote them."""
        return [name for name, card in self.cohorts.items() if may_be_shown(card)]

    @property
    def sources(self) -> list[str]:
        """Cohorts that somebody read or simulated, to learn from; parts inside of runs are not among them."""
        inside = tuple(f"{work}/" for work in (*self.works, *self.studies))
        return [name for name, card in self.cohorts.items() if not may_be_shown(card) and not name.startswith(inside)]


def may_be_shown(card: dict[str, Any]) -> bool:
    """Whether the patients of a cohort with this card were written by a generator.

    >>> may_be_shown({"origin": {"kind": "synthetic"}}), may_be_shown({"origin": {"kind": "real"}}), may_be_shown({})
    (True, False, False)
    """
    origin = card.get("origin")
    return isinstance(origin, dict) and origin.get("kind") == "synthetic"


@dataclass(frozen=True)
class Workspace:
    """A folder, and the places in it."""

    root: Path

    @property
    def jobs(self) -> Path:
        """The folder of jobs."""
        return self.root / ".studio" / "jobs"

    def place(self, kind: str) -> Path:
        """A folder for things of one kind; only its owner can look into it."""
        if kind not in _PLACES:
            raise ValueError(f"no place for {kind!r}")
        folder = self.root / kind
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def fresh(self, kind: str, wish: str, ending: str = "", promised: frozenset[str] = frozenset()) -> str:
        """A path, relative to the folder, that nothing has and that is not promised: the wish, or one with a number.

        >>> import tempfile
        >>> Workspace(Path(tempfile.mkdtemp())).fresh("samples", "Cystic fibrosis!")
        'samples/cystic-fibrosis'
        """
        folder, stem = self.place(kind), plain_name(wish)
        taken = {path.name for path in folder.iterdir()} | {Path(path).name for path in promised}
        number, name = 1, f"{stem}{ending}"
        while any(f"{name}{more}" in taken for more in ("", "-work")):
            number += 1
            name = f"{stem}-{number}{ending}"
        return f"{kind}/{name}"

    def keep(self, kind: str, name: str, content: bytes) -> str:
        """Keep a dropped file under a harmless name; its path relative to the folder."""
        stem, _, ending = Path(name).name.partition(".")
        if Path(name).suffix.lower().lstrip(".") not in TABLES:
            raise InputError(
                f"{Path(name).suffix or 'a file without an ending'} is no table",
                expected=", ".join(f".{known}" for known in TABLES),
                remedy="save it as CSV or Parquet; a folder of tables is named by its path",
            )
        target = self.fresh(kind, stem, f".{plain_name(ending, '.')}")
        handle = os.open(self.root / target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        return target

    def named_path(self, text: str) -> Path:
        """The file or folder that somebody named by its path on this computer."""
        wished = Path(text.strip()).expanduser()
        path = (self.root / wished).resolve()
        if not text.strip() or not path.exists():
            raise InputError(
                "no such file or folder",
                path=text.strip() or "(nothing)",
                expected="a path on this computer",
                remedy="copy it from the file manager",
            )
        if path.is_relative_to(self.root / ".studio"):
            raise InputError("a folder of the studio itself", path=text, remedy="name the folder of your data")
        if not os.access(path, os.R_OK):
            raise InputError("not readable", path=text, remedy="ask its owner for the right to read it")
        return path

    def inside(self, name: str) -> Path:
        """The path of something in the folder; one that leads out of it is refused."""
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root) or not path.exists():
            raise InputError("not in the folder of the studio", path=name, remedy="choose something that is listed")
        return path

    def contents(self) -> Contents:
        """What lies in the folder now."""
        found = Contents()
        for folder, names in _folders(self.root):
            name = folder.relative_to(self.root).as_posix()
            if _COHORT in names and MANIFEST in names:
                found.cohorts[name] = _card(folder / _COHORT)
            if _MODEL in names and MANIFEST in names:
                found.models.append(name.removesuffix("/model"))
            if _STUDY in names:
                found.studies.append(name)
            if _TRIES in names:
                found.works.append(name)
        return found


def _folders(root: Path) -> Iterator[tuple[Path, set[str]]]:
    """Folders with the names in them, by name; what is a cohort or a model is not looked into."""
    waiting, looked = [(root, 0)], 0
    while waiting and looked < _MOST:
        folder, depth = waiting.pop()
        looked += 1
        try:
            with os.scandir(folder) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        names = {entry.name for entry in inside}
        yield folder, names
        if MANIFEST in names or depth >= _DEEPEST:
            continue
        below = [e for e in inside if e.is_dir(follow_symlinks=False) and not e.name.startswith(".")]
        waiting += [(Path(e.path), depth + 1) for e in reversed(below) if e.name not in _CLOSED]


def _card(path: Path) -> dict[str, Any]:
    try:
        return read_json(path)
    except InputError:
        return {}


def plain_name(wish: str, more: str = "") -> str:
    """A name of small letters, digits and hyphens.

    >>> plain_name("../Éa B.csv"), plain_name("csv.gz", "."), plain_name("")
    ('a-b-csv', 'csv.gz', 'unnamed')
    """
    return re.sub(rf"[^a-z0-9{re.escape(more)}]+", "-", wish.lower())[:60].strip("-.") or "unnamed"


# ---- what lies there, opened ------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Known:
    """What a saved model knows about codes; its network is not loaded."""

    vocabulary: Vocabulary
    #: Share of training visits that hold each code; nan where it is too rare to be known.
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
        """The rarest third of the codes that were seen in training; a share that is withheld is of a rare code."""
        return Prevalence(self.vocabulary, self.share, self.n_visits).rare


def known_by(model: Path) -> Known:
    """What the model in a folder, or in the folder of its run, knows about codes."""
    folder = model / "model" if (model / "model").is_dir() else model
    config = read_json(folder / "config.json")
    vocabulary = Vocabulary(tuple(storage.read_vocabulary(folder / storage.VOCABULARY)))
    share = np.asarray(storage.read_array(folder / "prior.npy"), dtype=np.float64)
    if share.shape != (len(vocabulary),):
        raise InputError("prevalences that do not fit the codes", path=folder, remedy="train it again")
    saved = config.get("attributes", {})
    attributes = {
        str(name): tuple(map(str, categories))
        for name, categories in zip(saved.get("names", ()), saved.get("categories", ()), strict=True)
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
