"""Which codes stand together: heat maps of the most frequent codes, and of codes given a label."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import sparse
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from adapcla.data import Cohort
from adapcla.evaluation.utility import label_rule
from adapcla.report.style import panels

#: Codes shown at most, and labels shown at most.
TOP, LABELS, CODES_A_STRATUM = 200, 12, 30
#: Maps in a line, so that each is readable at the width of a page.
_COLUMNS = 5


def ppmi(cohort: Cohort, codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Positive pointwise mutual information of the codes in the same visit, in nats; 0 on the diagonal.

    With 4 visits of which 2 hold A, 2 hold B and 2 hold both: log(0.5 / (0.5 · 0.5)) = log 2.

    >>> cohort = Cohort.of([[["A", "B"], ["A", "B"], ["C"], ["C"]]])
    >>> ppmi(cohort, np.array([0, 1, 2])).round(3).tolist()
    [[0.0, 0.693, 0.0], [0.693, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    visits: sparse.csr_matrix = cohort.matrix().astype(np.float64)[:, codes]
    together = np.asarray((visits.T @ visits).todense()) / max(cohort.n_visits, 1)
    alone = np.diag(together).copy()
    expected = alone[:, None] * alone[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.where(together > 0, np.log(together / expected), 0.0)
    np.fill_diagonal(out, 0.0)
    return np.maximum(out, 0.0)


def linkage_order(similarity: NDArray[np.float64]) -> NDArray[np.int64]:
    """Positions in the order of average linkage, so that alike codes lie side by side.

    >>> linkage_order(np.array([[0.0, 0.0, 5.0], [0.0, 0.0, 0.0], [5.0, 0.0, 0.0]])).tolist()
    [1, 0, 2]
    """
    if len(similarity) < 3:
        return np.arange(len(similarity))
    distance = similarity.max() - similarity
    np.fill_diagonal(distance, 0.0)
    return np.asarray(leaves_list(linkage(squareform(distance, checks=False), method="average")), dtype=np.int64)


def ppmi_heatmaps(train: Cohort, generated: Mapping[str, Cohort], top: int = TOP) -> tuple[Figure, str]:
    """One heat map for the real patients and one for each cohort, all in the real data's order.

    >>> cohort = Cohort.of([[["A", "B"], ["B"]], [["C", "A"]]])
    >>> len(ppmi_heatmaps(cohort, {"copy": cohort})[0].axes)
    3
    """
    present = np.flatnonzero(train.visit_counts > 0)
    codes = present[np.argsort(-train.visit_counts[present], kind="stable")][:top]
    real = ppmi(train, codes)
    order = linkage_order(real)
    cohorts = {"real (training)": train, **generated}
    maps = {name: ppmi(cohort.on(train.vocabulary), codes)[np.ix_(order, order)] for name, cohort in cohorts.items()}
    high = float(np.quantile(real[real > 0], 0.98)) if (real > 0).any() else 1.0
    upper = np.triu_indices(len(codes), 1)
    columns = min(len(maps), _COLUMNS)
    with panels(-(-len(maps) // columns), columns, width=3.1, height=3.3) as (figure, axes):
        for spare in axes.flat[len(maps) :]:
            spare.remove()
        for axis, (name, values) in zip(axes.flat, maps.items(), strict=False):
            drawn = axis.imshow(values, cmap="magma_r", vmin=0, vmax=high, interpolation="nearest", rasterized=True)
            axis.set(xticks=[], yticks=[])
            axis.grid(visible=False)
            one, two = maps["real (training)"][upper], values[upper]
            alike = float(np.corrcoef(one, two)[0, 1]) if np.ptp(one) > 0 and np.ptp(two) > 0 else float("nan")
            axis.set_title(name if values is maps["real (training)"] else f"{name}: r = {alike:.2f}")
        figure.colorbar(drawn, ax=list(figure.axes), shrink=0.6, label="PPMI (nats)")
    caption = (
        f"The {len(codes)} most frequent codes, ordered by average linkage of the real data on both sides of a map. "
        "Dark blocks are groups that come together; r compares a map with the real one, pair by pair. A method that "
        "draws codes independently within a visit loses the blocks."
    )
    return figure, caption


def label_codes(train: Cohort) -> dict[str, NDArray[np.int64]]:
    """For head, mid and tail the codes with most training visits, most frequent first."""
    strata = train.strata()
    out = {}
    for name in ("head", "mid", "tail"):
        inside = np.flatnonzero(getattr(strata, name))
        out[name] = inside[np.argsort(-train.visit_counts[inside], kind="stable")][:CODES_A_STRATUM]
    return out


def given_label(cohort: Cohort, labels: NDArray[np.uint8], codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """P(a patient holds the code | the patient has the label), labels × codes.

    >>> cohort = Cohort.of([[["A"]], [["A", "B"]]])
    >>> given_label(cohort, np.array([[1], [1]], dtype=np.uint8), np.array([0, 1])).tolist()
    [[1.0, 0.5]]
    """
    held = (cohort.patient_matrix()[:, codes] > 0).astype(np.float64)
    counts = np.asarray(labels.astype(np.float64).T @ held)
    return counts / np.maximum(labels.sum(axis=0), 1)[:, None]


def label_heatmaps(train: Cohort, generated: Mapping[str, Cohort]) -> tuple[Figure, str]:
    """A row of heat maps for each cohort: P(code | label) for head, mid and tail codes.

    >>> cohort = Cohort.of([[["A", "B"], ["B"]], [["C", "A"]], [["D"]]])
    >>> len(label_heatmaps(cohort, {"copy": cohort})[0].axes)
    12
    """
    rule, chosen = label_rule(train), label_codes(train)
    cohorts = {"real (training)": train, **generated}
    with panels(len(cohorts), 3, width=4.0, height=1.9) as (figure, axes):
        for line, (name, cohort) in zip(axes, cohorts.items(), strict=True):
            placed = cohort.on(train.vocabulary)
            labels = rule.apply(placed)[:, :LABELS]
            for axis, (stratum, codes) in zip(line, chosen.items(), strict=True):
                values = given_label(placed, labels, codes)
                high = _high(train, rule.apply(train)[:, :LABELS], codes)
                drawn = axis.imshow(values, cmap="magma_r", vmin=0, vmax=high, aspect="auto", interpolation="nearest")
                axis.set(xticks=[], yticks=[])
                axis.grid(visible=False)
                axis.set_title(f"{name}, {stratum}")
                figure.colorbar(drawn, ax=axis, shrink=0.9)
        axes[-1, 0].set(xlabel="codes, most frequent first", ylabel="labels")
    caption = (
        f"Share of the patients with a label (rows, at most {LABELS}) who hold a code (columns, at most "
        f"{CODES_A_STRATUM} of each stratum). Each column of maps has one colour scale, set by the real patients."
    )
    return figure, caption


def _high(train: Cohort, labels: NDArray[np.uint8], codes: NDArray[np.int64]) -> float:
    """The top of a colour scale."""
    values = given_label(train, labels, codes)
    return max(float(np.quantile(values, 0.98)) if values.size else 0.0, 1e-6)
