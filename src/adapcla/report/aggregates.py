"""The numbers behind the charts of a page, with small counts of real patients suppressed.

Every chart compares training patients with synthetic ones. A code, a pair of codes or a length that fewer training
patients than the smallest count have is not shown, or is shown together with its neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from adapcla.data import Code, Cohort
from adapcla.data.code_systems import add_dot
from adapcla.data.quantization import Quantizer
from adapcla.data.vocabulary import STAY
from adapcla.evaluation.references import some_patients
from adapcla.evaluation.stays import choices
from adapcla.report.timelines import code_names

#: Codes in the chart of prevalence, and codes in that of co-occurrence.
MOST_DOTS, MOST_CODES = 1200, 28
#: Patients behind the chart of co-occurrence at most: enough for its colours.
_ENOUGH = 50_000
#: Values with bars at most, bars of each, and what the choice groups of stays are called.
_MOST_VALUES, _VALUE_BARS = 8, 10
_GROUP_TITLES = {"kind": "Kind of visit", "end": "How visits end"}
#: Bars at most, and days that begin them.
_BARS = 14
_GAP_EDGES = (0, 1, 2, 4, 8, 15, 31, 61, 91, 181, 366, 731)
#: Letters of a label at most.
_LABEL = 22
#: Powers of two, times chance, from which each colour of co-occurrence begins.
_COLOURS = (0.2, 0.5, 0.8, 1.2, 2.0, 3.0)


# ---- prevalence ---------------------------------------------------------------------------------------------
def shares(cohort: Cohort, like: Cohort) -> NDArray[np.float64]:
    """The share of visits that hold each code of `like`'s vocabulary.

    >>> shares(Cohort.of([[["B"], ["A", "B"]]]), Cohort.of([[["A", "B", "C"]]])).tolist()
    [0.5, 1.0, 0.0]
    """
    return np.nan_to_num(cohort.prevalence().on(like.vocabulary).share)


class Dot(NamedTuple):
    """A code in the chart of prevalence: places between 0 and 1, its stratum, and what it is."""

    x: float
    y: float
    kind: str
    title: str


class PrevalencePoints(NamedTuple):
    """Share of visits that hold each code, real against synthetic, on logarithmic scales."""

    dots: list[Dot]
    #: Places and labels of the ticks, the same on both axes.
    ticks: list[tuple[float, str]]
    #: Half the width of the band within a factor of two.
    double: float
    #: Share of the codes inside that band.
    inside: float
    n_codes: int


def prevalence_points(train: Cohort, synthetic: Cohort) -> PrevalencePoints:
    """The share of visits with each code, real against synthetic."""
    real, written = shares(train, train), shares(synthetic, train)
    strata, names = train.strata(), code_names(train)
    codes = np.flatnonzero(real > 0)
    inside = float(np.mean((written[codes] <= 2 * real[codes]) & (written[codes] >= real[codes] / 2)))
    by_rank = codes[np.argsort(-real[codes], kind="stable")]
    if len(by_rank) > MOST_DOTS:
        by_rank = by_rank[np.linspace(0, len(by_rank) - 1, MOST_DOTS).round().astype(int)]
    low = 10.0 ** np.floor(np.log10(real[codes].min() / 2))
    high = max(real.max(), written.max())
    width = np.log10(high) - np.log10(low)

    def place(share: float) -> float:
        return round(float((np.log10(max(share, low)) - np.log10(low)) / width), 4)

    kind = np.where(strata.tail, "tail", np.where(strata.head, "head", "mid"))
    dots = [
        Dot(
            place(real[c]),
            place(written[c]),
            str(kind[c]),
            f"{names[c]}: real {_percent(real[c])}, synthetic {_percent(written[c])} of visits",
        )
        for c in by_rank
    ]
    decades = range(int(np.log10(low).round()), int(np.ceil(np.log10(high))) + 1)
    ticks = [(place(10.0**power), _percent(10.0**power)) for power in decades if 10.0**power <= high]
    return PrevalencePoints(dots, ticks, round(float(np.log10(2) / width), 4), round(inside, 4), len(codes))


# ---- co-occurrence ------------------------------------------------------------------------------------------
class CooccurrenceMaps(NamedTuple):
    """How many times more often than by chance codes are in the same visit, real and synthetic."""

    labels: list[str]
    #: Rows of levels, 0 for chance or less up to the strongest; None where too few patients hold the pair.
    real: list[list[int | None]]
    synthetic: list[list[int | None]]
    titles: list[list[str]]
    #: Correlation of both over the pairs that are shown.
    agreement: float | None
    n_pairs: int


def cooccurrence_maps(train: Cohort, synthetic: Cohort, smallest: int, seed: int = 1) -> CooccurrenceMaps:
    """The co-occurrence of the most frequent codes."""
    # A random part of very many patients looks the same; pairs are counted in it, so that the smallest count holds.
    train, synthetic = some_patients(train, _ENOUGH, seed), some_patients(synthetic, _ENOUGH, seed).on(train.vocabulary)
    codes = np.argsort(-train.patient_counts, kind="stable")[:MOST_CODES]
    codes = codes[train.patient_counts[codes] >= smallest]
    real, written = lifts(train, codes), lifts(synthetic, codes)
    enough = pair_patients(train, codes) >= smallest
    np.fill_diagonal(enough, False)
    order = linkage_order(np.where(enough, np.maximum(real, 0), 0.0))
    codes, grid = codes[order], np.ix_(order, order)
    real, written, enough = real[grid], written[grid], enough[grid]
    names, n = code_names(train), len(codes)
    upper = enough & np.triu(np.ones_like(enough), 1).astype(bool)
    both = real[upper], written[upper]
    varies = len(both[0]) > 2 and np.ptp(both[0]) > 0 and np.ptp(both[1]) > 0
    agreement = round(float(np.corrcoef(*both)[0, 1]), 3) if varies else None
    titles = [
        [
            f"{names[codes[i]]} with {names[codes[j]]}: real {2 ** real[i, j]:.1f}, synthetic {2 ** written[i, j]:.1f} "
            "times chance"
            if enough[i, j]
            else ""
            for j in range(n)
        ]
        for i in range(n)
    ]
    labels = [_label(train.vocabulary.codes[c]) for c in codes]
    levels = _levels(real, enough), _levels(written, enough)
    return CooccurrenceMaps(labels, *levels, titles, agreement, int(upper.sum()))


def _label(code: Code) -> str:
    """A code as short as it can be understood; what describes a visit as a whole needs its system.

    >>> _label(Code.of("25000", "ICD9CM")), _label(Code.of("home", "END", domain=STAY))
    ('250.00', 'END/home')
    """
    text = code.token if code.domain == STAY else add_dot(code.bare, code.system)
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"


def linkage_order(similarity: NDArray[np.float64]) -> NDArray[np.int64]:
    """Positions in the order of average linkage, so that alike codes are side by side.

    >>> linkage_order(np.array([[0.0, 0.0, 5.0], [0.0, 0.0, 0.0], [5.0, 0.0, 0.0]])).tolist()
    [1, 0, 2]
    """
    if len(similarity) < 3:
        return np.arange(len(similarity))
    distance = similarity.max() - similarity
    np.fill_diagonal(distance, 0.0)
    return np.asarray(leaves_list(linkage(squareform(distance, checks=False), method="average")), dtype=np.int64)


def lifts(cohort: Cohort, codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many times more often than by chance codes are in the same visit, as powers of two, from −3 to 6.

    >>> lifts(Cohort.of([[["A", "B"], ["A", "B"], ["C"], ["C"]]]), np.array([0, 1, 2])).round(1)[0].tolist()
    [1.0, 1.0, -3.0]
    """
    visits = cohort.matrix().astype(np.float64)[:, codes]
    together = np.asarray((visits.T @ visits).todense()) / max(cohort.n_visits, 1)
    alone = np.diag(together)
    chance = np.maximum(alone[:, None] * alone[None, :], 1e-12)
    return np.asarray(np.clip(np.log2(np.maximum(together / chance, 2.0**-3)), -3.0, 6.0))


def pair_patients(cohort: Cohort, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many patients hold each pair of codes in one visit.

    >>> pair_patients(Cohort.of([[["A", "B"], ["A", "B"]], [["A"], ["B"]]]), np.array([0, 1])).tolist()
    [[2, 1], [1, 2]]
    """
    visits, n = cohort.matrix()[:, codes].tocsr(), len(codes)
    by_code, out = visits.tocsc(), np.zeros((len(codes), len(codes)), dtype=np.int64)
    for i in range(n):
        held = by_code[:, i].indices
        rows, columns = visits[held].nonzero()
        # A patient counts once for a pair, in however many visits it stands.
        pairs = np.unique(cohort.patient_of_visit[held[rows]] * n + columns)
        out[i] = np.bincount(pairs % n, minlength=n)
    return out


def _levels(lift: NDArray[np.float64], enough: NDArray[np.bool_]) -> list[list[int | None]]:
    """The colour of each pair."""
    level = np.digitize(lift, _COLOURS)
    return [
        [int(x) if shown else None for x, shown in zip(*row, strict=True)] for row in zip(level, enough, strict=True)
    ]


# ---- distributions as bars ----------------------------------------------------------------------------------
class Bars(NamedTuple):
    """A distribution, real and synthetic: shares of each bar and what it stands for."""

    title: str
    unit: str
    labels: list[str]
    real: list[float]
    synthetic: list[float]
    #: Real and synthetic; None where a mean means nothing.
    means: tuple[float, float] | None
    #: Whether the labels are words, which need space beside the bars.
    words: bool = False


def lengths(train: Cohort, synthetic: Cohort, smallest: int) -> list[Bars]:
    """Visits per patient, codes per visit, and days between visits where there are days."""
    everybody = np.arange(train.n_patients)
    out = [
        _length_bars(
            "Visits per patient", "visits", train.visits_per_patient, everybody, synthetic.visits_per_patient, smallest
        ),
        _length_bars(
            "Codes per visit",
            "codes",
            train.codes_per_visit,
            train.patient_of_visit,
            synthetic.codes_per_visit,
            smallest,
        ),
    ]
    if train.days is not None and synthetic.days is not None and len(train.visits_with_next):
        real, written = _gaps(train), _gaps(synthetic)
        who = train.patient_of_visit[train.visits_with_next]
        edges = merge_bars(np.array(_GAP_EDGES), real, who, smallest)
        out.append(_bars("Days between visits", "days", real, written, edges))
    return out


def _gaps(cohort: Cohort) -> NDArray[np.int64]:
    """Days from each visit to the same patient's next one."""
    days: NDArray[np.int64] = np.asarray(cohort.days).astype(np.int64)
    return days[cohort.visits_with_next + 1] - days[cohort.visits_with_next]


def _length_bars(
    title: str,
    unit: str,
    real: NDArray[np.int64],
    who: NDArray[np.int64],
    written: NDArray[np.int64],
    smallest: int,
) -> Bars:
    """The bars of a number that is mostly small."""
    most = int(np.quantile(real, 0.99)) + 1
    step = max(1, -(-most // _BARS))
    edges = merge_bars(np.arange(1, most + 1, step), real, who, smallest)
    return _bars(title, unit, real, written, edges)


def merge_bars(
    edges: NDArray[np.int64], values: NDArray[np.int64], who: NDArray[np.int64], smallest: int
) -> NDArray[np.int64]:
    """The lower edges of bars that at least `smallest` patients are in each; the last bar has no upper end.

    >>> merge_bars(np.array([1, 2, 3]), np.array([1, 1, 2, 3, 3]), np.arange(5), 2).tolist()
    [1, 3]
    """
    edges = np.asarray(edges)
    while len(edges) > 1:
        bar = np.searchsorted(edges, values, side="right") - 1
        pairs = np.unique(np.stack([bar, who]), axis=1)[0]
        n_patients = np.bincount(pairs[pairs >= 0], minlength=len(edges))
        few = np.flatnonzero(n_patients < smallest)
        if not len(few):
            break
        # A bar of few joins the one below it; the first has none below and takes the next one in.
        edges = np.delete(edges, max(int(few[-1]), 1))
    return edges


def _bars(title: str, unit: str, real: NDArray[np.int64], written: NDArray[np.int64], edges: NDArray[np.int64]) -> Bars:
    upper = [*(int(edge) - 1 for edge in edges[1:]), None]
    labels = [
        f"{low}+" if high is None else str(low) if low == high else f"{low}–{high}"
        for low, high in zip(edges.tolist(), upper, strict=True)
    ]

    def share(values: NDArray[np.int64]) -> list[float]:
        bar = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, None)
        return [round(float(x), 4) for x in np.bincount(bar, minlength=len(edges)) / max(len(values), 1)]

    means = tuple(round(float(values.mean()), 2) if len(values) else 0.0 for values in (real, written))
    return Bars(title, unit, labels, share(real), share(written), (means[0], means[1]))


def values(train: Cohort, synthetic: Cohort, smallest: int) -> list[Bars]:
    """The bands of the values that most training patients have; each band holds enough of them."""
    if train.values is None or synthetic.values is None:
        return []
    cut = Quantizer.of(train, smallest=smallest, n_bins=_VALUE_BARS)
    most = sorted(cut.numbers, key=lambda number: -int(train.patient_counts[train.vocabulary.index[number.code.token]]))
    out = []
    for number in most[:_MOST_VALUES]:
        position = train.vocabulary.index[number.code.token]
        of_code = [np.asarray(one.values)[np.asarray(one.codes) == position] for one in (train, synthetic)]
        of_band = [np.bincount(number.bin_of(some), minlength=number.n_bins) / max(len(some), 1) for some in of_code]
        labels = [f"{number.edges[piece]:g}" for piece in number.first_piece]
        labels[-1] += "+"
        means = tuple(round(float(some.mean()), 2) if len(some) else 0.0 for some in of_code)
        unit = "" if number.code.unit == "1" else number.code.unit
        real, written = ([round(float(x), 4) for x in some] for some in of_band)
        name = number.code.description or number.code.bare
        out.append(Bars(name, unit, labels, real, written, (means[0], means[1])))
    return out


def stay_groups(train: Cohort) -> list[str]:
    """The choice groups of stays that training patients have.

    >>> stay_groups(Cohort.of([[["A"]]]))
    []
    """
    codes = train.vocabulary.codes
    held = {codes[i].group for i in np.flatnonzero(train.visit_counts) if codes[i].domain == STAY}
    return sorted(held - {""})


def group_shares(cohort: Cohort, codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of visits with each of some codes.

    >>> group_shares(Cohort.of([[["A"], ["A", "B"]]]), np.array([1, 0])).tolist()
    [0.5, 1.0]
    """
    return cohort.visit_counts[codes] / max(cohort.n_visits, 1)


def stays(train: Cohort, synthetic: Cohort, smallest: int) -> list[Bars]:
    """Shares of visits of each kind and with each ending that enough training patients have."""
    out = []
    for group in stay_groups(train):
        codes = choices(train, group)
        codes = codes[train.patient_counts[codes] >= smallest]
        codes = codes[np.argsort(-train.visit_counts[codes], kind="stable")]
        real, written = ([round(float(x), 4) for x in group_shares(one, codes)] for one in (train, synthetic))
        if len(codes):
            labels = [train.vocabulary.codes[code].bare for code in codes]
            title = _GROUP_TITLES.get(group, group.capitalize())
            out.append(Bars(title, "", labels, real, written, None, words=True))
    return out


def _percent(share: float) -> str:
    """A share in percent with two digits that matter.

    >>> _percent(0.1234), _percent(0.00002)
    ('12%', '0.002%')
    """
    return f"{float(f'{100 * share:.2g}'):g}%"
