"""How common each code is: shares of visits, their table, tails of rare codes, and what to expect in other patients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from adapcla.console import say
from adapcla.data.vocabulary import Code, Vocabulary, is_code
from adapcla.disclosure import MIN_COUNT
from adapcla.errors import InputError, UsageError
from adapcla.files import write_bytes


@dataclass(frozen=True, eq=False)
class Prevalence:
    """The share of visits that hold each code (the paper's π̂); NaN where nothing is known of a code.

    >>> site = Prevalence(Vocabulary.of(["A", "B"]), np.array([0.5, 0.1]))
    >>> site.on(Vocabulary.of(["B", "C"])).share.tolist()
    [0.1, nan]
    """

    vocabulary: Vocabulary
    share: NDArray[np.float64]
    #: Number of visits behind the shares, where known: it says how exact they are.
    n_visits: int | None = None

    def __post_init__(self) -> None:
        if self.share.shape != (len(self.vocabulary),):
            raise InputError(
                f"{self.share.shape} prevalences for {len(self.vocabulary)} codes",
                expected="one share for each code",
                remedy="build it with Prevalence.of or Cohort.prevalence",
            )
        known = self.share[~np.isnan(self.share)]
        if known.size and (known.min() < 0 or known.max() > 1):
            raise InputError(
                "a prevalence outside 0 to 1",
                expected="the share of visits that hold the code, as a fraction",
                remedy="divide percentages by 100, or give a denominator for counts",
            )

    @classmethod
    def of(cls, shares: dict[str, float], n_visits: int | None = None) -> Prevalence:
        """A prevalence by code string.

        >>> Prevalence.of({"B": 0.1, "A": 0.5}).share.tolist()
        [0.5, 0.1]
        """
        vocabulary = Vocabulary.of(shares)
        return cls(vocabulary, np.array([shares[token] for token in vocabulary.tokens], dtype=float), n_visits)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Codes with a value."""
        return ~np.isnan(self.share)

    @property
    def rare(self) -> NDArray[np.bool_]:
        """The rarest third of the codes that were seen; a share that is withheld is of a rare code.

        >>> Prevalence(Vocabulary.of(["A", "B", "C"]), np.array([0.5, np.nan, 0.25]), 100).rare.tolist()
        [False, True, False]
        """
        n_visits = max(self.n_visits or 0, 1)
        counts = np.round(np.nan_to_num(self.share) * n_visits).astype(np.int64)
        return Strata.of(np.where(self.known, counts, 1), self.vocabulary).tail

    def rest(self, among: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """The share of visits without each code; for a code of a choice group, without any code of the group.

        Where only some codes are meant (`among`), the others of a group count as visits without any. Unknown shares
        count as 0.

        >>> from adapcla.data.vocabulary import Code
        >>> codes = Vocabulary.of([Code.of("home", "END", group="end"), Code.of("died", "END", group="end"), "A"])
        >>> Prevalence(codes, np.array([0.25, 0.125, 0.5])).rest().tolist()
        [0.75, 0.375, 0.375]
        """
        share = np.nan_to_num(self.share)
        rest, group = 1 - share, self.vocabulary.group_of_code
        grouped = np.flatnonzero(group >= 0)
        if len(grouped):
            counted = share[grouped] if among is None else np.where(among, share, 0.0)[grouped]
            sums = np.bincount(group[grouped], counted)
            rest[grouped] = np.maximum(1 - sums[group[grouped]], 0.0)
        return rest

    def on(self, vocabulary: Vocabulary) -> Prevalence:
        """The same prevalences on another vocabulary, by code string; the only way from one vocabulary to another."""
        if vocabulary == self.vocabulary:
            return self
        positions = self.vocabulary.positions(vocabulary.tokens)
        share = np.full(len(vocabulary), np.nan)
        known = positions >= 0
        share[known] = self.share[positions[known]]
        return Prevalence(vocabulary, share, self.n_visits)

    def sampling_error(self, n_visits: int) -> NDArray[np.float64]:
        """How far the shares among `n_visits` independent visits of these prevalences are expected to be off.

        The mean absolute deviation of a binomial count (de Moivre), over the number of visits. Unknown shares stay NaN.

        >>> Prevalence.of({"A": 0.5, "B": 0.0}).sampling_error(2).tolist()
        [0.25, 0.0]
        """
        from scipy import stats

        above = np.floor(np.nan_to_num(self.share) * n_visits) + 1
        return np.asarray(2 * above * (1 - self.share) * stats.binom.pmf(above, n_visits, self.share) / n_visits)

    def raise_small_counts(self, min_cell: int = MIN_COUNT) -> Prevalence:
        """A copy in which codes of 1 to `min_cell` − 1 visits are all as frequent as the most frequent of them may be.

        >>> counts = Prevalence(Vocabulary.of(["A", "B", "C"]), np.array([0.5, 0.02, 0.0]), n_visits=100)
        >>> counts.raise_small_counts(11).share.tolist()
        [0.5, 0.1, 0.0]
        """
        if self.n_visits is None:
            return self
        most = min(1.0, (min_cell - 1) / self.n_visits)
        return Prevalence(self.vocabulary, np.where(self._small(min_cell), most, self.share), self.n_visits)

    def suppress_small_counts(self, min_cell: int = MIN_COUNT) -> Prevalence:
        """A copy in which codes of 1 to `min_cell` − 1 visits are unknown, so that small counts cannot be read.

        >>> counts = Prevalence(Vocabulary.of(["A", "B"]), np.array([0.5, 0.05]), n_visits=100)
        >>> counts.suppress_small_counts(11).share.tolist()
        [0.5, nan]
        """
        if self.n_visits is None:
            raise InputError(
                "the number of visits behind this prevalence is unknown",
                expected="a denominator, to tell which cells are small",
                remedy="export it from a cohort",
            )
        return Prevalence(self.vocabulary, np.where(self._small(min_cell), np.nan, self.share), self.n_visits)

    def _small(self, min_cell: int) -> NDArray[np.bool_]:
        """Codes of 1 to `min_cell` − 1 visits."""
        visits = np.nan_to_num(self.share) * (self.n_visits or 0)
        return (visits > 0.5) & (visits < min_cell - 0.5)


# ---- head, mid and tail ---------------------------------------------------------------------------------
#: Count bands reported beside the cuts: name → (lowest, highest count).
COUNT_BANDS: dict[str, tuple[int, int]] = {"1": (1, 1), "2-5": (2, 5), "6-20": (6, 20), "21+": (21, 2**62)}
#: The bands of rare codes that scores of single tail codes are given for: name → (lowest, highest count).
RARE_BANDS: dict[str, tuple[int, int]] = {"1-5": (1, 5), "6-20": (6, 20), "21-100": (21, 100)}
#: The bands of rare codes whose company is learned with one strength of smoothing; finer, as strength goes with count.
INFORMATION_BANDS: dict[str, tuple[int, int]] = {"1-5": (1, 5), "6-10": (6, 10), "11-30": (11, 30), "31-100": (31, 100)}
#: Tails by the number of training visits of a code, which cohorts of all sizes share: name → highest count.
COUNT_CUTS: dict[str, int] = {"up to 5": 5, "up to 20": 20, "up to 100": 100}
#: The tail cuts, the default first.
TAIL_CUTS = ("third", "rare20", "singletons")


@dataclass(frozen=True, eq=False)
class Strata:
    """Which codes are head, mid and tail, as masks over the vocabulary.

    Only codes present in training have a stratum; equal counts are ordered by code string.

    >>> strata = Strata.of(np.array([5, 1, 3, 0]), Vocabulary.of(["A", "B", "C", "D"]))
    >>> strata.tail.tolist(), strata.head.tolist(), strata.singletons.tolist()
    ([False, True, False, False], [True, False, False, False], [False, True, False, False])
    """

    vocabulary: Vocabulary
    counts: NDArray[np.int64]
    head: NDArray[np.bool_]
    mid: NDArray[np.bool_]
    tail: NDArray[np.bool_]
    rare20: NDArray[np.bool_]

    @classmethod
    def of(cls, counts: NDArray[np.int64], vocabulary: Vocabulary) -> Strata:
        """Strata from the number of training visits of each code."""
        counts = np.asarray(counts, dtype=np.int64)
        if len(counts) != len(vocabulary):
            raise ValueError(f"{len(counts)} counts for {len(vocabulary)} codes")
        present = np.flatnonzero(counts > 0)
        # The vocabulary is in string order, so a stable sort breaks ties by code string.
        rare_first = present[np.argsort(counts[present], kind="stable")]
        third, fifth = len(present) // 3, len(present) // 5

        def mask(chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
            out = np.zeros(len(counts), dtype=bool)
            out[chosen] = True
            return out

        return cls(
            vocabulary,
            counts,
            head=mask(rare_first[len(present) - third :]),
            mid=mask(rare_first[third : len(present) - third]),
            tail=mask(rare_first[:third]),
            rare20=mask(rare_first[:fifth]),
        )

    @property
    def present(self) -> NDArray[np.bool_]:
        """Codes seen in training."""
        return self.counts > 0

    @property
    def singletons(self) -> NDArray[np.bool_]:
        """Codes of exactly one training visit."""
        return self.counts == 1

    def cut(self, name: str) -> NDArray[np.bool_]:
        """The tail by one of `TAIL_CUTS` (the rarest third, the rarest 20 %, the singletons) or of `COUNT_CUTS`.

        >>> Strata.of(np.array([1, 2]), Vocabulary.of(["A", "B"])).cut("singletons").tolist()
        [True, False]
        """
        if name in COUNT_CUTS:
            return self.present & (self.counts <= COUNT_CUTS[name])
        return {"third": self.tail, "rare20": self.rare20, "singletons": self.singletons}[name]

    def band(self, name: str) -> NDArray[np.bool_]:
        """Codes whose training count lies in one of `COUNT_BANDS`, `RARE_BANDS` or `INFORMATION_BANDS`.

        >>> Strata.of(np.array([1, 4]), Vocabulary.of(["A", "B"])).band("2-5").tolist()
        [False, True]
        """
        low, high = (COUNT_BANDS | RARE_BANDS | INFORMATION_BANDS)[name]
        return (self.counts >= low) & (self.counts <= high)


# ---- expected counts in other patients ------------------------------------------------------------------
#: Codes of more patients, or of a larger share of them, are expected as often as they were counted.
RARE_PATIENTS, RARE_SHARE = 100, 0.05
#: Rates that a code may have, in patients, and rounds of the fit of how common each rate is.
_RATES = np.geomspace(0.05, 4.0 * RARE_PATIENTS, 160)
_ROUNDS = 100
#: Patients of a code at which its own visits for each patient weigh as much as those of all rare codes.
OWN_HALF = 5.0


def expected_counts(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The expected number of as many other patients that hold each code, given how many hold it here.

    Counts are taken as Poisson with rates whose law is fitted to all of them (maximum likelihood on a grid, by
    expectation and maximisation, given that a code is there at all). What was never counted stays at zero.

    A hundred codes with one patient among a thousand with four or five: some of the hundred had bad luck.

    >>> expected_counts(np.repeat([0, 1, 4, 5, 900], [1, 100, 500, 500, 1]))[[0, 1, -1]].round().tolist()
    [0.0, 3.0, 900.0]
    """
    expected = counts.astype(np.float64)
    number_of_codes = np.bincount(counts)[: 2 * RARE_PATIENTS + 1]
    number_of_codes[:1] = 0
    seen = np.flatnonzero(number_of_codes)
    if not len(seen):
        return expected
    there = -np.expm1(-_RATES)
    chance = np.exp(seen[:, None] * np.log(_RATES) - _RATES - gammaln(seen + 1)[:, None]) / there  # (counts, rates)
    share = np.full(len(_RATES), 1 / len(_RATES))
    weight = number_of_codes[seen] / number_of_codes.sum()
    for _ in range(_ROUNDS):
        belief = chance * share
        belief /= belief.sum(axis=1, keepdims=True)
        share = weight @ belief
    mean = np.arange(len(number_of_codes), dtype=np.float64)
    mean[seen] = belief @ _RATES
    rare = counts <= min(RARE_PATIENTS, len(mean) - 1)
    expected[rare] = mean[counts[rare]]
    return expected


# ---- the table of a site --------------------------------------------------------------------------------
#: Names of columns that hold something else than a share, and what to do about each.
_WRONG_UNITS = {
    "count": "divide by the number of visits, or add it as a column `denominator`",
    "n": "divide by the number of visits, or add it as a column `denominator`",
    "visits": "divide by the number of visits, or add it as a column `denominator`",
    "percent": "divide by 100 and name the column `prevalence`",
    "pct": "divide by 100 and name the column `prevalence`",
    "per_1000": "divide by 1000 and name the column `prevalence`",
    "odds": "turn odds into shares: odds / (1 + odds)",
}
_COLUMNS = ("code", "prevalence", "denominator")


def read_prevalence(path: str | Path) -> Prevalence:
    """The prevalences in a CSV, TSV or Parquet table, by code string; each bad case is an error that names its row.

    `prevalence` is the share of visits that hold the code, 0 ≤ p < 1. 0 means the code never occurs. An empty cell
    means unknown. `denominator` is the number of visits behind the shares, the same in every row; where every
    prevalence is a whole number and some exceed 1, the denominator turns counts into shares.
    """
    file = Path(path)
    codes, values, denominators = _cells(file)
    if not codes:
        raise InputError("no row", path=file, expected="a row for each code", remedy="export the table again")
    _refuse_bad_codes(file, codes)
    n_visits = _denominator(file, denominators)
    share = _shares(file, np.array([_number(file, row, text) for row, text in enumerate(values, 2)]), n_visits)
    order = np.argsort(np.array(codes), kind="stable")
    vocabulary = Vocabulary(tuple(_split(codes[i]) for i in order))
    return Prevalence(vocabulary, share[order], n_visits)


def write_prevalence(prevalence: Prevalence, path: str | Path, min_cell: int = MIN_COUNT) -> int:
    """Write a table that `read_prevalence` reads; codes of 1 to `min_cell` − 1 visits are left out. How many are."""
    if min_cell < 1:
        raise UsageError(
            f"--min-cell {min_cell}\nexpected: 1 or more\nto do: 1 leaves nothing out; {MIN_COUNT} is usual"
        )
    shown = prevalence.suppress_small_counts(min_cell)
    lines = ["code,prevalence,denominator"]
    for code, share in zip(shown.vocabulary.tokens, shown.share.tolist(), strict=True):
        if not math.isnan(share):
            lines.append(f"{code},{share!r},{shown.n_visits}")
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(target, ("\n".join(lines) + "\n").encode())
    return int(prevalence.known.sum() - shown.known.sum())


def _cells(file: Path) -> tuple[list[str], list[str], list[str]]:
    """The code, prevalence and denominator cells as text."""
    from adapcla.data.storage import read_text_table, require_columns

    table = read_text_table(file)
    for name, remedy in _WRONG_UNITS.items():
        if name in table and "prevalence" not in table:
            raise InputError(
                "another unit than a share", path=file, row=1, column=name, expected="prevalence", remedy=remedy
            )
    require_columns(table, file, "code", "prevalence")
    unknown = [name for name in table if name not in _COLUMNS]
    if unknown:
        say(f"{file.name}: columns not used: {', '.join(unknown)}")
    return table["code"], table["prevalence"], table.get("denominator", [])


def _refuse_bad_codes(file: Path, codes: list[str]) -> None:
    """Raise on a code of a form that is not allowed, or that comes twice."""
    seen: dict[str, int] = {}
    for row, code in enumerate(codes, 2):
        if not is_code(code):
            raise InputError(
                "no code" if not code else "a code of a form that is not allowed",
                path=file,
                row=row,
                column="code",
                expected="characters that can be printed",
                remedy="write the code as the cohort's vocabulary does",
            )
        if code in seen:
            raise InputError(
                f"the code of row {seen[code]} again",
                path=file,
                row=row,
                column="code",
                expected="each code once",
                remedy="keep one of the rows",
            )
        seen[code] = row


def _number(file: Path, row: int, text: str) -> float:
    """The number in a cell; NaN where the cell is empty, which means unknown."""
    if not text:
        return math.nan
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if math.isfinite(value):
        return value
    found = "a percentage" if text.endswith("%") else "NaN or infinity" if _is_special(text) else "not a number"
    remedy = "divide by 100" if text.endswith("%") else "leave the cell empty if the prevalence is unknown"
    raise InputError(found, path=file, row=row, column="prevalence", expected="a share such as 0.05", remedy=remedy)


def _is_special(text: str) -> bool:
    return text.lower().lstrip("+-") in ("nan", "inf", "infinity")


def _denominator(file: Path, cells: list[str]) -> int | None:
    """The number of visits behind the shares, if the table has it."""
    distinct = {text for text in cells if text}
    if not distinct:
        return None
    number = next(iter(distinct))
    if len(distinct) > 1 or not number.isascii() or not number.isdigit() or int(number) < 1 or len(number) > 15:
        raise InputError(
            "no single whole number",
            path=file,
            column="denominator",
            expected="the number of visits behind all shares, the same in every row",
            remedy="leave the column out if it is unknown",
        )
    return int(number)


def _shares(file: Path, values: np.ndarray, n_visits: int | None) -> np.ndarray:
    """Values as shares: counts are divided by the denominator; percentages and shares of 1 are refused."""

    def refuse(bad: np.ndarray, found: str, expected: str, remedy: str) -> None:
        if bad.any():
            row = int(np.flatnonzero(bad)[0]) + 2
            raise InputError(found, path=file, row=row, column="prevalence", expected=expected, remedy=remedy)

    known = values[~np.isnan(values)]
    refuse(values < 0, "a negative prevalence", "0 ≤ prevalence < 1", "check the export")
    if known.size and known.max() > 1 and n_visits is not None and bool((known == np.floor(known)).all()):
        say(f"{file.name}: whole numbers over 1, taken as counts of {n_visits:,} visits")
        values = values / n_visits
        refuse(values > 1, "a count over the denominator", f"at most {n_visits}", "check the denominator")
    elif known.size and 1 < known.max() <= 100:
        refuse(values > 1, "over 1; the column looks like percentages", "shares of visits", "divide by 100")
    refuse(values > 1, "over 1", "0 ≤ prevalence < 1", "give shares of visits; for counts add a column `denominator`")
    refuse(
        values == 1,
        "a prevalence of 1",
        "0 ≤ prevalence < 1",
        "a code in every visit has no finite log-odds; leave it out",
    )
    return values


def _split(token: str) -> Code:
    """A code from its token: what stands before the first stroke is the system.

    >>> _split("ICD9CM/4019").system
    'ICD9CM'
    """
    system, stroke, code = token.partition("/")
    return Code.of(code, system) if stroke and code else Code.of(token)
