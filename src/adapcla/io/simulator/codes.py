"""The made-up codes of simulated patients: an ICD-like tree with readable names and long-tailed target prevalences.

Nothing here depends on the seed of a world: worlds of one size share their codes, names and target prevalences, so
that two of them differ in structure alone.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from adapcla.data import Code, Vocabulary
from adapcla.errors import UsageError
from adapcla.seeds import random_stream

SYSTEM = "PLANTED"
FEWEST_CODES, MOST_CODES = 40, 100_000
#: Chapters of disorders; the chapter Z holds the reasons for a visit.
CHAPTERS = "ABCDEFGHJKLMNPQRSTUV"
#: Share of visits with the most common disorder.
_TOP_SHARE = 0.35
#: Mean number of codes per visit, the reason included, in a world of the default size.
_CODES_PER_VISIT, _DEFAULT_CODES = 11.0, 3000
#: Share of visits with the median disorder at the default size: under 10 of the 21,600 visits of 12,000 patients.
_MEDIAN_SHARE = 4.0e-4
_ONSETS = ("Bel", "Cor", "Dal", "Fen", "Gar", "Hol", "Jor", "Kel", "Lum", "Mor", "Nar", "Ost", "Pel", "Quer")
_MIDDLES = ("a", "o", "i", "u", "ava", "ola", "eri", "undo")
_CORES = ("var", "dim", "lor", "nex", "pri", "ston", "tal", "vin", "zet", "mond", "gril", "shan")
_PROCESSES = ("itis", "osis", "opathy", "algia", "emia", "oma", "esis", "plegia", "uria", "ectasia")
_COURSES = ("", "acute ", "recurrent ", "chronic ", "latent ", "relapsing ", "early ", "late ", "mixed ", "silent ")
_SITES = (
    "unspecified site", "left side", "right side", "both sides", "upper part", "lower part", "with effusion",
    "with fever", "without fever", "after injury",
)  # fmt: skip
_REASONS = ("Emergency", "Planned", "Transfer", "Review", "Observation", "Referral", "Readmission", "Screening")
_WARDS = ("day ward", "general ward", "surgical ward", "heart ward", "lung ward", "night clinic", "walk-in", "unit")


@dataclass(frozen=True, eq=False)
class CodeLayout:
    """The codes of a world, their families, and how common each is meant to be."""

    vocabulary: Vocabulary
    #: Family number of each code; reasons for a visit are −1.
    category: NDArray[np.int64]
    #: The share of visits aimed at for each disorder; reasons have a distribution of their own and 0 here.
    target: NDArray[np.float64]
    #: Positions of the reasons for a visit, of which each visit holds exactly one.
    reasons: NDArray[np.int64]

    @property
    def disorders(self) -> NDArray[np.int64]:
        """Positions of all codes that are not reasons for a visit."""
        return np.flatnonzero(self.category >= 0)


@lru_cache(maxsize=8)
def code_layout(codes: int = _DEFAULT_CODES) -> CodeLayout:
    """The codes of a world of this size.

    >>> small = code_layout(60)
    >>> len(small.vocabulary), len(small.reasons), small.vocabulary.tokens[0]
    (60, 6, 'PLANTED/A00.00')
    """
    if not FEWEST_CODES <= codes <= MOST_CODES:
        raise UsageError(f"{codes} codes: a simulated world has from {FEWEST_CODES} to {MOST_CODES:,}")
    rng = random_stream(0, "planted/layout", codes)
    n_reasons = int(np.clip(codes // 75, 6, 40))
    sizes = _family_sizes(codes - n_reasons, rng)
    vocabulary = Vocabulary.of(itertools.chain(_disorders(sizes), _reasons(n_reasons)))
    # Families are named in ascending order, so the family numbers follow the vocabulary's order; Z comes last.
    category = np.concatenate([np.repeat(np.arange(len(sizes)), sizes), np.full(n_reasons, -1)])
    # Siblings are alike in how common they are: half of the variance is the family's.
    score = rng.normal(size=len(sizes))[category[:-n_reasons]] + rng.normal(size=codes - n_reasons)
    target = np.zeros(codes)
    target[np.argsort(-score, kind="stable")] = long_tail(codes - n_reasons)
    return CodeLayout(vocabulary, category, target, np.arange(codes - n_reasons, codes))


def long_tail(n: int) -> NDArray[np.float64]:
    """Shares of visits of `n` disorders, most common first: Zipf–Mandelbrot with a falling end.

    >>> shares = long_tail(3000)
    >>> round(float(shares.sum()), 3), bool((shares[1:] < shares[:-1]).all())
    (10.0, True)
    """
    scale = n / _DEFAULT_CODES
    total = (_CODES_PER_VISIT - 1) * min(1.0, scale) ** 0.25
    median = _MEDIAN_SHARE * min(1.0, scale) ** -0.8
    rank = np.arange(n, dtype=float)

    def curve(exponent: float) -> NDArray[np.float64]:
        def shares(log_knee: float) -> NDArray[np.float64]:
            return _TOP_SHARE * (1 + rank / np.exp(log_knee)) ** -exponent * (1 - 0.93 * rank / n)

        return shares(brentq(lambda knee: float(shares(knee).sum()) - total, -12.0, 25.0))

    low, high = 1.01, 6.0
    gaps = [float(np.median(curve(exponent))) - median for exponent in (low, high)]
    if gaps[0] <= 0:
        return curve(low)
    return curve(high) if gaps[1] >= 0 else curve(brentq(lambda a: float(np.median(curve(a))) - median, low, high))


def _family_sizes(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Numbers of codes of the families: about 8 each, at most 100, at most 100 families a chapter."""
    n_families = int(np.clip(n // 8, 4, 100 * len(CHAPTERS)))
    weights = rng.gamma(4.0, size=n_families)
    sizes = np.minimum(np.floor(weights / weights.sum() * n).astype(np.int64), 99)
    sizes = np.maximum(sizes, 1)
    while (rest := n - int(sizes.sum())) != 0:
        order = np.argsort(sizes, kind="stable")
        chosen = order[: min(rest, n_families)] if rest > 0 else order[rest:]
        sizes[chosen] += 1 if rest > 0 else -1
    return sizes


def _disorders(sizes: NDArray[np.int64]) -> list[Code]:
    """The codes of the families, such as K21.04, family after family."""
    n_families = len(sizes)
    a_chapter = -(-n_families // len(CHAPTERS))
    step = max(1, 100 // a_chapter)
    stems = list(itertools.product(_ONSETS, _MIDDLES, _CORES, _PROCESSES))
    order = random_stream(0, "planted/stems").permutation(len(stems))[:n_families]
    out = []
    for family, (size, stem) in enumerate(zip(sizes, order, strict=True)):
        chapter, in_chapter = divmod(family, a_chapter)
        prefix = f"{CHAPTERS[chapter]}{in_chapter * step:02d}"
        name = "".join(stems[stem]).lower()
        for number in range(size):
            course, site = _COURSES[number // 10], _SITES[number % 10]
            text = f"{course}{name}, {site}"
            out.append(Code.of(f"{prefix}.{number:02d}", SYSTEM, "1", text[0].upper() + text[1:]))
    return out


def _reasons(n: int) -> list[Code]:
    """The codes of chapter Z: why the patient came."""
    texts = [f"{reason} visit, {ward}" for ward in _WARDS for reason in _REASONS]
    return [Code.of(f"Z{number // 10:02d}.{number % 10:02d}", SYSTEM, "1", texts[number]) for number in range(n)]
