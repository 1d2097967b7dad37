"""Where patients came from: real or simulated, which part of which whole, and what a generator had learned from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from adapcla.data.attributes import Attribute
from adapcla.data.ragged import chunks
from adapcla.data.split import PARTS, split_positions
from adapcla.errors import InputError

#: Where a cohort's card keeps its origin.
CARD_KEY = "origin"


class Kind(StrEnum):
    """Whether patients are real, synthetic, simulated or unknown, as whoever makes a cohort says."""

    REAL = "real"
    #: Written by a trained generator.
    SYNTHETIC = "synthetic"
    #: Drawn from the simulator; the value is that of earlier versions.
    SIMULATED = "planted"
    UNKNOWN = "unknown"

    @property
    def is_artificial(self) -> bool:
        """Whether these patients are made up, so that they may be called synthetic.

        >>> [kind.value for kind in Kind if kind.is_artificial]
        ['synthetic', 'planted']
        """
        return self in (Kind.SYNTHETIC, Kind.SIMULATED)


@dataclass(frozen=True)
class Part:
    """One part of a whole cohort, by the split that made it."""

    #: Fingerprint of the whole, and how many patients it has.
    whole: str
    n_patients: int
    seed: int
    #: Share of control patients that was reserved.
    control: float
    name: str

    def __post_init__(self) -> None:
        if self.name not in PARTS or self.n_patients < 0 or not 0 <= self.control < 0.7:
            raise ValueError(f"no part {self.name!r} of {self.n_patients} patients with a control of {self.control}")

    def positions(self) -> NDArray[np.int64]:
        """The positions of the part's patients in the whole.

        >>> len(Part("ab12", 100, 4, 0.1, "control").positions())
        10
        """
        chosen: NDArray[np.int64] = getattr(split_positions(self.n_patients, self.seed, self.control), self.name)
        return chosen


@dataclass(frozen=True)
class Origin:
    """The kind of some patients, the parts that they are of, and whom the generator that wrote them learned from.

    A choice of patients or codes keeps the origin: what is chosen from a part is of that part. What is chosen from a
    whole is a whole of its own.

    >>> Origin(Kind.REAL).as_card()
    {'origin': {'kind': 'real'}}
    """

    kind: Kind = Kind.UNKNOWN
    #: A part of a whole, which may itself be a part: the outermost first.
    parts: tuple[Part, ...] = ()
    #: The training and validation patients behind these patients; empty where that is not known.
    learned_from: tuple[Group, ...] = ()

    @classmethod
    def from_card(cls, card: Mapping[str, Any]) -> Origin:
        """The origin that a card holds; unknown where it holds none.

        >>> Origin.from_card({"source": "somewhere"}).kind.value
        'unknown'
        """
        try:
            return cls() if CARD_KEY not in card else cls._from_json(card[CARD_KEY])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(
                "an origin that cannot be read",
                expected=f"a kind ({', '.join(Kind)}), and parts as `adapcla split` writes them",
                remedy="make the cohort or model again",
            ) from None

    @classmethod
    def _from_json(cls, content: Mapping[str, Any]) -> Origin:
        divided = (
            Part(str(p["whole"]), int(p["patients"]), int(p["seed"]), float(p["control"]), p["part"])
            for p in content.get("parts", [])
        )
        learned = (
            Group(str(g["role"]), str(g["fingerprint"]), cls._from_json(g["origin"]))
            for g in content.get("learned from", [])
        )
        return cls(Kind(content["kind"]), tuple(divided), tuple(learned))

    def as_card(self) -> dict[str, Any]:
        """The origin as an entry for a card."""
        return {CARD_KEY: self._as_json()}

    def _as_json(self) -> dict[str, Any]:
        content: dict[str, Any] = {"kind": self.kind.value}
        if self.parts:
            content["parts"] = [
                {"whole": p.whole, "patients": p.n_patients, "seed": p.seed, "control": p.control, "part": p.name}
                for p in self.parts
            ]
        if self.learned_from:
            content["learned from"] = [
                {"role": g.role, "fingerprint": g.fingerprint, "origin": g.origin._as_json()} for g in self.learned_from
            ]
        return content

    def ancestors(self) -> Iterator[Group]:
        """Everybody that these patients were learned from, over several generators too."""
        for group in self.learned_from:
            yield group
            yield from group.origin.ancestors()

    def combine(self, other: Origin) -> Origin:
        """The origin of these patients and the other's in one cohort: only what is true of both.

        >>> Origin(Kind.REAL).combine(Origin(Kind.SIMULATED)).kind.value
        'unknown'
        """
        if self == other:
            return self
        kind = self.kind if self.kind == other.kind else Kind.UNKNOWN
        both_told = self.learned_from and other.learned_from
        return Origin(kind, (), tuple(dict.fromkeys(self.learned_from + other.learned_from)) if both_told else ())


@dataclass(frozen=True)
class Group:
    """Some patients as a record can name them: what they were used for, their content, and their origin."""

    role: str
    fingerprint: str
    origin: Origin

    def wholes(self) -> dict[str, NDArray[np.int64] | None]:
        """The wholes that these patients are of, with their positions there; None for all of them."""
        own: dict[str, NDArray[np.int64] | None] = {self.fingerprint: None}
        return own | {part.whole: part.positions() for part in self.origin.parts}


def overlap(one: Group, other: Group) -> bool | None:
    """Whether two groups have patients in common; None where their origins do not tell.

    Parts of one whole are compared by position, whatever their seeds and shares; one whole in which they do not meet
    is enough to know them apart. A choice from a part counts as the part.

    >>> train, test = (Group("", name, Origin(Kind.REAL, (Part("w", 10, 4, 0.0, name),))) for name in ("train", "test"))
    >>> overlap(train, test), overlap(train, train), overlap(train, Group("", "elsewhere", Origin()))
    (False, True, None)
    """
    if one.fingerprint == other.fingerprint:
        return True
    mine, theirs = one.wholes(), other.wholes()
    common = mine.keys() & theirs.keys()
    return all(_meet(mine[whole], theirs[whole]) for whole in common) if common else None


def _meet(one: NDArray[np.int64] | None, other: NDArray[np.int64] | None) -> bool:
    """Whether two choices of positions, or all of them, have one in common."""
    if one is None or other is None:
        rest = other if one is None else one
        return rest is None or len(rest) > 0
    return len(np.intersect1d(one, other, assume_unique=True)) > 0


#: What scores call the answer.
SEPARATED = "training patients apart from test and control"


class Patients(Protocol):
    """What is asked of a cohort here: who they are, and where they came from."""

    @property
    def fingerprint(self) -> str:
        """A hash of everything but the card."""

    @property
    def origin(self) -> Origin:
        """Where the patients came from."""


def training_sources(train: Patients, synthetic: Patients) -> list[Group]:
    """Everybody a synthetic cohort was learned from: the given training patients, and those that its card names."""
    given = Group("training", train.fingerprint, train.origin)
    return [given, *train.origin.ancestors(), *synthetic.origin.ancestors()]


def require_apart(learned_from: Iterable[Group], unseen: Mapping[str, Patients | None]) -> bool:
    """Whether nobody of `unseen` is known to be among the patients that were learned from; False where it is not known.

    Where somebody is, that is an `InputError`: no score of such cohorts means what it says.

    >>> from adapcla.data import Cohort
    >>> train, valid, test = Cohort.of([[["A"]]] * 50).split()
    >>> require_apart([Group("training", train.fingerprint, train.origin)], {"test": test})
    True
    >>> require_apart([], {"test": test})
    False
    """
    groups = list(learned_from)
    apart = bool(groups)
    for name, cohort in unseen.items():
        if cohort is None:
            continue
        here = Group(name, cohort.fingerprint, cohort.origin)
        for group in groups:
            met = overlap(group, here)
            if met:
                raise InputError(
                    f"{name} patients took part in training: they are among the {group.role} patients of the generator",
                    expected="test and control patients that no training has seen",
                    remedy="divide the cohort once (`adapcla split`), train on that folder, and judge with its parts",
                )
            # Patients that a generator wrote are nobody; the people behind them are groups of their own.
            apart &= met is False or bool(group.origin.learned_from)
    return apart


def cohort_fingerprint(
    vocabulary: str,
    arrays: Sequence[NDArray[Any] | None],
    label_names: Sequence[str],
    attributes: Mapping[str, Attribute],
    values: NDArray[np.float32] | None = None,
) -> str:
    """SHA-256 of a vocabulary's fingerprint, arrays, names of labels and attributes.

    Values take part only where there are any, so that records without numbers keep the fingerprint that they have
    always had.

    >>> plain = cohort_fingerprint("", [np.array([1])], (), {})
    >>> plain == cohort_fingerprint("", [np.array([1])], (), {}, np.array([1], dtype=np.float32))
    False
    """
    out = hashlib.sha256(vocabulary.encode())
    for array in arrays if values is None else (*arrays, values):
        # The length keeps a number from moving over the border between two arrays unseen.
        out.update(b"-" if array is None else str(array.shape).encode())
        if array is not None:
            for part in chunks(len(array), array):
                out.update(np.ascontiguousarray(array[part]).reshape(-1).view(np.uint8).data)
    out.update("\n".join(label_names).encode())
    for name, attribute in sorted(attributes.items()):
        out.update("\n".join((name, *attribute.categories)).encode())
        out.update(np.ascontiguousarray(attribute.values).tobytes())
    return out.hexdigest()
