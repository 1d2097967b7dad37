"""Numbers as choices: each number of a vocabulary is cut into bands, and drawn back inside its band.

A number is cut at quantiles of the training patients. Each band is a code of a choice group that bears the name of the
number, so that whatever learns choices learns numbers. Inside a band the values have the shape of training: pieces
between quantiles, in each of which all values on the grid of the number's decimals are alike.

What is told of patients: every piece, and so every band, holds a number of training patients or more; every edge is a
mean over as many; the two outer ends are where the outer pieces have the mean of their patients, so that nobody's value
and no extreme is told. A number that fewer patients have is not learned at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data.cohort import Cohort
from adapcla.data.criteria import Criteria
from adapcla.data.prevalence import Prevalence
from adapcla.data.vocabulary import Code, Vocabulary
from adapcla.disclosure import MIN_COUNT
from adapcla.errors import InputError
from adapcla.seeds import keyed_uniform, stream_key

#: Bands of a number, and pieces of a band, at most.
N_BANDS, PIECES = 10, 4
#: Decimals that are looked for, and the share of values that must have no more.
_MOST_DECIMALS, _MOST_VALUES = 4, 0.99
#: Where values have no decimals that can be named: steps between the first and the last decile.
_STEPS = 1000
#: What the entries of numbers of too few patients are counted as where they are left out.
LEFT_OUT = "entries of numbers of too few training patients"


@dataclass(frozen=True)
class NumberBins:
    """The bands of one number and the shape of its values."""

    code: Code
    decimals: int
    #: Edges of the pieces, ascending; a piece holds its lower edge and not its upper one.
    edges: tuple[float, ...]
    #: Training entries of each piece.
    mass: tuple[int, ...]
    #: The first piece of each band.
    first_piece: tuple[int, ...]

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.edges, self.edges[1:], strict=False))
        pieces = len(self.mass)
        good = rising and len(self.edges) == pieces + 1 and min(self.mass, default=0) > 0
        starts = self.first_piece
        if not (good and starts[:1] == (0,) and list(starts) == sorted({*starts}) and starts[-1] < pieces):
            raise ValueError(f"bands of {self.code.token} that do not follow each other")

    @property
    def n_bands(self) -> int:
        """Number of bands."""
        return len(self.first_piece)

    @property
    def cuts(self) -> NDArray[np.float32]:
        """The smallest value of each band but the first."""
        return np.array([self.edges[piece] for piece in self.first_piece[1:]], dtype=np.float32)

    def band(self, values: NDArray[np.float32]) -> NDArray[np.int64]:
        """The band of each value.

        >>> glucose = NumberBins(Code.of("glucose", "LAB", unit="mg/dL"), 0, (50.0, 100.0, 200.0), (20, 20), (0, 1))
        >>> glucose.band(np.array([3, 99, 100, 900], dtype=np.float32)).tolist()
        [0, 0, 1, 1]
        """
        return np.searchsorted(self.cuts, values, side="right").astype(np.int64)

    def codes(self) -> Iterator[Code]:
        """The codes of the bands, in order; outer bands have no outer end."""
        for band in range(self.n_bands):
            yield Code(
                f"{self.code.token}/b{band:02d}",
                self.code.system,
                self.code.version,
                f"{self.code.bare}/b{band:02d}",
                f"{self.code.description or self.code.bare} {self._range(band)}",
                self.code.domain,
                self.code.token,
            )

    def _range(self, band: int) -> str:
        """What a band holds, in words."""
        unit = "" if self.code.unit == "1" else f" {self.code.unit}"
        low, high = (f"{cut:.{max(self.decimals, 0)}f}" for cut in (self._edge(band), self._edge(band + 1)))
        if self.n_bands == 1:
            return "of any value"
        if band == 0:
            return f"below {high}{unit}"
        return f"from {low}{unit}" if band == self.n_bands - 1 else f"{low} to below {high}{unit}"

    def _edge(self, band: int) -> float:
        """Where a band begins; with the number of bands, where the last one ends."""
        return self.edges[(*self.first_piece, len(self.mass))[band]]

    def drawn(self, bands: NDArray[np.int64], uniform: NDArray[np.float64]) -> NDArray[np.float32]:
        """Values (n,) inside bands, from two uniform numbers (n, 2) each: a piece, then a value on its grid.

        >>> glucose = NumberBins(Code.of("glucose", "LAB", unit="mg/dL"), 0, (50.0, 100.0, 200.0), (20, 20), (0, 1))
        >>> glucose.drawn(np.array([0, 1]), np.array([[0.5, 0.0], [0.5, 0.999]])).tolist()
        [50.0, 199.0]
        """
        mass, edges = np.cumsum([0, *self.mass]), np.array(self.edges)
        starts = np.array([*self.first_piece, len(self.mass)])
        low, high = mass[starts[bands]], mass[starts[bands + 1]]
        piece = np.searchsorted(mass, low + uniform[:, 0] * (high - low), side="right") - 1
        piece = np.clip(piece, starts[bands], starts[bands + 1] - 1)
        step = 10.0**-self.decimals
        n_steps = np.maximum(np.round((edges[piece + 1] - edges[piece]) / step), 1)
        values = np.round(edges[piece] + step * np.floor(uniform[:, 1] * n_steps), self.decimals).astype(np.float32)
        least, most = edges[piece].astype(np.float32), edges[piece + 1].astype(np.float32)
        return np.clip(values, least, np.nextafter(most, np.float32(-np.inf)))

    def as_json(self) -> dict[str, Any]:
        """The number for the configuration of a model."""
        return {
            "code": list(self.code),
            "decimals": self.decimals,
            "edges": list(self.edges),
            "mass": list(self.mass),
            "bands": list(self.first_piece),
        }


@dataclass(frozen=True, eq=False)
class Quantizer:
    """How the numbers of a vocabulary become bands, and bands numbers.

    >>> lab = Code.of("glucose", "LAB", domain="lab", unit="mg/dL")
    >>> values = np.arange(80, 124, dtype=np.float32)
    >>> cohort = Cohort.of([[["LAB/glucose"]]] * 44, [lab], values=values)
    >>> bands = Quantizer.of(cohort, n_bands=2)
    >>> [(code.token, code.description) for code in bands.banded(cohort).vocabulary.codes]
    [('LAB/glucose/b00', 'glucose below 102 mg/dL'), ('LAB/glucose/b01', 'glucose from 102 mg/dL')]
    """

    #: The vocabulary of the patients as they are read and written.
    natural: Vocabulary
    #: The numbers that are learned, in the order of that vocabulary.
    numbers: tuple[NumberBins, ...]

    @classmethod
    def of(cls, train: Cohort, smallest: int = MIN_COUNT, n_bands: int = N_BANDS) -> Quantizer:
        """The bands of these patients; `smallest` patients stand behind everything that is told of values."""
        codes, values, patients = np.asarray(train.codes), train.values, train.patient_of_entry
        is_number = train.vocabulary.numbers
        entries = np.flatnonzero(is_number[codes])
        entries = entries[np.argsort(codes[entries], kind="stable")]
        numbers = []
        for position in np.flatnonzero(is_number):
            assert values is not None
            mine = entries[slice(*np.searchsorted(codes[entries], (position, position + 1)))]
            number = np.asarray(values)[mine].astype(np.float64)
            found = _number(train.vocabulary.codes[position], number, patients[mine], smallest, n_bands)
            numbers += [] if found is None else [found]
        return cls(train.vocabulary, tuple(numbers))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the banded form: all other codes, and the bands of numbers."""
        plain = [code for code in self.natural.codes if not code.unit]
        return Vocabulary.of([*plain, *(code for number in self.numbers for code in number.codes())])

    @cached_property
    def natural_of_code(self) -> NDArray[np.int64]:
        """The position in the natural vocabulary of each code of the banded one."""
        tokens = [code.group if code.token not in self.natural.index else code.token for code in self.vocabulary.codes]
        return self.natural.positions(tokens, complete=True)

    def banded(self, cohort: Cohort) -> Cohort:
        """The patients with bands in the place of numbers; numbers of too few training patients go, counted."""
        cohort = cohort.on(self.natural)
        learned = {number.code.token for number in self.numbers}
        unknown = np.array([bool(code.unit) and code.token not in learned for code in self.natural.codes], dtype=bool)
        if unknown[cohort.codes].any():
            cohort = cohort.keep_entries(~unknown[cohort.codes], LEFT_OUT)
        codes, values = np.asarray(cohort.codes), cohort.values
        place = self.vocabulary.positions(self.natural.tokens).astype(np.int32)
        out = place[codes]
        for number in self.numbers:
            mine = np.flatnonzero(codes == self.natural.index[number.code.token])
            of_band = self.vocabulary.positions([code.token for code in number.codes()])
            assert values is not None
            out[mine] = of_band[number.band(np.asarray(values)[mine])]
        out = out[np.lexsort((out, cohort.visit_of_entry))]
        return replace(cohort, vocabulary=self.vocabulary, codes=out.astype(np.int32), values=None)

    def with_values(self, cohort: Cohort, seed: int, first: int = 0) -> Cohort:
        """The patients with numbers in the place of bands; `first` is the number of the first patient of the cohort.

        A value depends on the seed, the numbers of its patient and visit, and its code alone.
        """
        codes, natural = np.asarray(cohort.codes), self.natural_of_code[cohort.codes]
        values = np.full(len(codes), np.nan, dtype=np.float32)
        patient, visit = cohort.patient_of_entry + first, cohort.visit_number[cohort.visit_of_entry]
        for number in self.numbers:
            position = self.natural.index[number.code.token]
            mine = np.flatnonzero(natural == position)
            of_band = self.vocabulary.positions([code.token for code in number.codes()])
            key = stream_key(seed, f"values of {number.code.token}")
            values[mine] = number.drawn(
                np.searchsorted(of_band, codes[mine]), keyed_uniform(key, patient[mine], visit[mine], 2)
            )
        order = np.lexsort((natural, cohort.visit_of_entry))
        has_numbers = bool(self.natural.numbers.any())
        return replace(
            cohort,
            vocabulary=self.natural,
            codes=natural[order].astype(np.int32),
            values=values[order] if has_numbers else None,
        )

    def summed(self, by_code: NDArray[np.float64]) -> NDArray[np.float64]:
        """Chances (…, banded codes) as chances (…, natural codes): a number is there if one of its bands is."""
        out = np.zeros((*by_code.shape[:-1], len(self.natural)))
        for band, position in enumerate(self.natural_of_code):
            out[..., position] += by_code[..., band]
        return out

    def spread(self, target: Prevalence, source: Prevalence) -> Prevalence:
        """A target in which the share of a number is shared out over its bands as in the source.

        Bands that the target names itself, and all other codes, stay as they are.
        """
        shares = dict(zip(target.vocabulary.tokens, target.share.tolist(), strict=True))
        have = np.nan_to_num(source.on(self.vocabulary).share)
        for number in self.numbers:
            whole = shares.pop(number.code.token, None)
            tokens = [code.token for code in number.codes()]
            parts = have[self.vocabulary.positions(tokens)]
            if whole is not None and parts.sum() > 0:
                found = zip(tokens, (whole * parts / parts.sum()).tolist(), strict=True)
                shares = dict(found) | shares
        vocabulary = Vocabulary.of(
            self.vocabulary.codes[self.vocabulary.index[token]] if token in self.vocabulary.index else token
            for token in shares
        )
        return Prevalence(vocabulary, np.array([shares[token] for token in vocabulary.tokens]), target.n_visits)

    def asked(self, condition: Criteria) -> Criteria:
        """The condition in the words of the banded form: a number is any of its bands.

        >>> lab = NumberBins(Code.of("glucose", "LAB", unit="mg/dL"), 0, (50.0, 100.0), (20,), (0,))
        >>> Quantizer(Vocabulary.of([lab.code, "A"]), (lab,)).asked(Criteria.of("LAB/glucose|A")).having
        (('LAB/glucose/b*', 'A'),)
        """
        names = {number.code.token: f"{number.code.token}/b*" for number in self.numbers}
        having = tuple(tuple(names.get(code, code) for code in clause) for clause in condition.having)
        return replace(condition, having=having, without=tuple(names.get(code, code) for code in condition.without))

    # ---- for the configuration of a model ---------------------------------------------------------------
    def as_json(self) -> dict[str, Any]:
        """The bands for the configuration of a model; all other codes are those of its vocabulary."""
        learned = {number.code.token for number in self.numbers}
        left = [list(code) for code in self.natural.codes if code.unit and code.token not in learned]
        return {"numbers": [number.as_json() for number in self.numbers], "not learned": left}

    @classmethod
    def from_json(cls, content: Mapping[str, Any], vocabulary: Vocabulary) -> Quantizer:
        """The bands of a configuration, whose model has this vocabulary."""
        try:
            numbers = tuple(
                NumberBins(
                    Code(*map(str, number["code"])),
                    int(number["decimals"]),
                    tuple(float(edge) for edge in number["edges"]),
                    tuple(int(count) for count in number["mass"]),
                    tuple(int(piece) for piece in number["bands"]),
                )
                for number in content["numbers"]
            )
            left = [Code(*map(str, code)) for code in content["not learned"]]
            learned = {number.code.token for number in numbers}
            plain = [code for code in vocabulary.codes if code.group not in learned]
            bands = cls(Vocabulary.of([*plain, *left, *(number.code for number in numbers)]), numbers)
            fits = bands.vocabulary == vocabulary
        except (KeyError, TypeError, ValueError, InputError):
            fits = False
        if not fits:
            raise InputError(
                "bands of numbers that do not fit the codes of the model",
                expected="for each number its code, its edges, and the codes of its bands in the vocabulary",
                remedy="make the model again",
            )
        return bands


def _number(
    code: Code, values: NDArray[np.float64], patients: NDArray[np.int64], smallest: int, n_bands: int
) -> NumberBins | None:
    """The bands of one number; None where too few patients have it."""
    n_patients = len(np.unique(patients))
    if n_patients < smallest:
        return None
    # Somewhat more patients to a piece than it needs: rounded edges move some of them to its neighbour.
    n_pieces = min(n_bands * PIECES, max(1, 2 * n_patients // (3 * smallest)))
    order = np.argsort(values, kind="stable")
    values, patients = values[order], patients[order]
    decimals = _decimals(values)
    cuts = _cuts(values, patients, smallest, n_pieces, decimals)
    starts = np.concatenate([[0], np.searchsorted(values, cuts), [len(values)]])
    mass = np.diff(starts)
    # Bands begin with the pieces that begin nearest to their part of the entries.
    wanted = np.arange(n_bands) * len(values) / n_bands
    firsts = tuple(np.unique(np.abs(starts[:-1, None] - wanted).argmin(axis=0)).tolist())
    low, high = _ends(values, cuts, starts, decimals)
    return NumberBins(code, decimals, (low, *cuts.tolist(), high), tuple(mass.tolist()), firsts)


def _decimals(values: NDArray[np.float64]) -> int:
    """The fewest decimals that nearly all values have; where there are none, such that steps are small.

    >>> _decimals(np.array([1.0, 2.0])), _decimals(np.array([7.35, 7.4])), _decimals(np.array([0.0, np.pi, 2 * np.pi]))
    (0, 2, 3)
    """
    near = 3e-7 * np.maximum(np.abs(values), 1e-3)  # single precision
    for decimals in range(_MOST_DECIMALS + 1):
        if (np.abs(np.round(values, decimals) - values) <= near).mean() >= _MOST_VALUES:
            return decimals
    low, high = np.quantile(values, (0.1, 0.9))
    return int(np.ceil(-np.log10((high - low) / _STEPS))) if high > low else _MOST_DECIMALS


def _cuts(
    values: NDArray[np.float64], patients: NDArray[np.int64], smallest: int, n_pieces: int, decimals: int
) -> NDArray[np.float64]:
    """Where sorted values are cut into pieces of `smallest` patients or more: rounded means around quantiles."""
    wanted = np.arange(1, n_pieces) * len(values) // n_pieces
    rounded = np.unique([np.round(_mean_around(values, patients, at, smallest), decimals) for at in wanted.tolist()])
    cuts: list[float] = []
    begin = 0
    for cut in rounded.tolist():
        end = int(np.searchsorted(values, cut))
        if len(np.unique(patients[begin:end])) >= smallest:
            cuts.append(cut)
            begin = end
    while cuts and len(np.unique(patients[begin:])) < smallest:
        cuts.pop()
        begin = int(np.searchsorted(values, cuts[-1])) if cuts else 0
    return np.array(cuts, dtype=np.float64)


def _mean_around(values: NDArray[np.float64], patients: NDArray[np.int64], at: int, smallest: int) -> float:
    """The mean of the sorted values around a place, of `smallest` patients or more."""
    half = smallest // 2 + 1
    while True:
        window = slice(max(at - half, 0), at + half)
        if len(np.unique(patients[window])) >= smallest:
            return float(values[window].mean())
        half *= 2


def _ends(
    values: NDArray[np.float64], cuts: NDArray[np.float64], starts: NDArray[np.int64], decimals: int
) -> tuple[float, float]:
    """The outer ends: where the outer pieces have the mean of their values, or a single piece its spread.

    A number that was never negative is not drawn negative.
    """
    step = 10.0**-decimals
    if len(cuts):
        low = 2 * values[: starts[1]].mean() + step - cuts[0]
        high = 2 * values[starts[-2] :].mean() + step - cuts[-1]
        low, high = min(low, cuts[0] - step), max(high, cuts[-1] + step)
    else:
        spread = np.sqrt(3.0) * values.std()
        low, high = values.mean() - spread, values.mean() + spread + step
    if values[0] >= 0:
        low = max(low, 0.0)
    low = float(np.round(low, decimals))
    return low, max(float(np.round(high, decimals)), float(np.round(low + step, decimals)))
