"""Figures of cohorts: the long tail, code frequencies, co-occurrence, values and stays, single diseases."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from scipy import sparse, stats

from adapcla.data import Cohort
from adapcla.data.criteria import Criteria
from adapcla.disclosure import MIN_COUNT
from adapcla.evaluation.conditioned import holdings, marked_visits
from adapcla.evaluation.numeric import ValueScales, by_number, values_of
from adapcla.evaluation.stays import choices
from adapcla.evaluation.utility import label_rule
from adapcla.report.aggregates import group_shares, linkage_order, shares, stay_groups
from adapcla.report.style import FAINT, INK, PALETTE, STRATUM_COLOURS, only_horizontal_grid, panels, thousands

# ---- the long tail ---------------------------------------------------------------------------------------
#: Bars of a histogram at most; what lies beyond is one last bar.
_MOST_BARS = 40


def longtail(cohort: Cohort) -> Figure:
    """Three panels: frequency against rank by stratum, codes per visit, visits per patient.

    >>> len(longtail(Cohort.of([[["A", "B"], ["B"]], [["C"]]])).axes)
    3
    """
    with panels(1, 3, width=4.0, height=3.2) as (figure, axes):
        _frequency_rank(axes[0, 0], cohort)
        _histogram(axes[0, 1], cohort.codes_per_visit, "Codes per visit", "codes", "visits")
        _histogram(axes[0, 2], cohort.visits_per_patient, "Visits per patient", "visits", "patients")
    return figure


def _frequency_rank(axes: Axes, cohort: Cohort) -> None:
    """Visits of each code against its rank, both on logarithmic scales."""
    strata = cohort.strata()
    present = np.flatnonzero(strata.present)
    # The strata count from the rarest, ties by code string: reversed, their parts lie side by side.
    order = present[np.argsort(strata.counts[present], kind="stable")][::-1]
    rank = np.arange(1, len(order) + 1)
    for name, colour in STRATUM_COLOURS.items():
        inside = getattr(strata, name)[order]
        share = strata.counts[order][inside].sum() / max(cohort.n_entries, 1)
        axes.plot(
            rank[inside],
            strata.counts[order][inside],
            color=colour,
            linewidth=2.6,
            solid_capstyle="butt",
            marker="o" if inside.sum() < 30 else "",
            markersize=3,
            label=f"{name}: {int(inside.sum()):,} codes, {100 * share:.1f} % of entries",
        )
    axes.set(xscale="log", yscale="log", xlabel="rank of the code", ylabel="visits with the code")
    axes.set_title("The long tail")
    axes.set_ylim(bottom=0.8)
    axes.set_xlim(left=0.9)
    thousands(axes.xaxis)
    thousands(axes.yaxis)
    axes.minorticks_off()
    axes.legend(loc="lower left", fontsize=7.5, handlelength=1.2)


def _histogram(axes: Axes, values: NDArray[np.int64], title: str, each: str, what: str) -> None:
    """Shares of each value, with the mean marked; values beyond the last bar are gathered in it."""
    axes.set_title(title)
    axes.set(xlabel=each, ylabel=f"share of {what}")
    only_horizontal_grid(axes)
    if len(values) == 0:
        return
    top = int(min(values.max(), max(_MOST_BARS, 1)))
    counts = np.bincount(np.minimum(values, top), minlength=top + 1)[1:]
    axes.bar(np.arange(1, top + 1), counts / len(values), width=0.85, color=PALETTE[0])
    mean = float(values.mean())
    axes.axvline(mean, color=FAINT, linewidth=1, linestyle="--")
    # Above the axes: a bar may reach the top anywhere.
    axes.set_title(
        f"mean {mean:.1f}, most {int(values.max()):,}", loc="right", color=FAINT, fontsize=8, weight="normal"
    )
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set_xlim(0.3, top + 0.7)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if values.max() > top:
        axes.set_xlabel(f"{each} (the last bar: {top} or more)")


# ---- frequency against rank and frequency ----------------------------------------------------------------
_FREQUENCY_COLUMNS = 4


def frequency_rank(train: Cohort, generated: Mapping[str, Cohort]) -> tuple[Figure, str]:
    """Two panels: ranked frequencies over all codes, and over the tail alone on plain scales.

    >>> cohort = Cohort.of([[["A", "B"], ["B"]], [["C"]]])
    >>> len(frequency_rank(cohort, {"copy": cohort})[0].axes)
    2
    """
    n_tail = int(train.strata().tail.sum())
    n_codes = int((train.visit_counts > 0).sum())
    with panels(1, 2, width=5.4, height=3.6) as (figure, axes):
        for number, (name, cohort) in enumerate({"real (training)": train, **generated}.items()):
            ranked = np.sort(shares(cohort, train))[::-1]
            look = {"color": INK, "linewidth": 2.2} if number == 0 else {"color": PALETTE[(number - 1) % len(PALETTE)]}
            rank = np.arange(1, len(ranked) + 1)
            axes[0, 0].plot(rank[ranked > 0], ranked[ranked > 0], label=name, **look)
            tail = slice(max(n_codes - n_tail, 0), n_codes)
            axes[0, 1].plot(rank[tail], ranked[tail], **look)
        axes[0, 0].set(xscale="log", yscale="log", xlabel="rank of the code", ylabel="share of visits")
        axes[0, 0].set_title("All codes")
        axes[0, 1].set(xlabel="rank of the code", ylabel="share of visits")
        axes[0, 1].set_title("The rarest third")
        axes[0, 1].ticklabel_format(axis="y", style="sci", scilimits=(-2, 2))
        axes[0, 0].legend(fontsize=7.5)
        thousands(axes[0, 0].xaxis)
    caption = (
        "Each cohort's own codes, most frequent first. A line below the black one has too few rare codes, a line that "
        "ends early never writes some of them. The curve says nothing about which codes stand together."
    )
    return figure, caption


def frequency_frequency(train: Cohort, generated: Mapping[str, Cohort]) -> tuple[Figure, str]:
    """For each cohort its frequencies against the real ones, code by code, on scales that show zero.

    >>> cohort = Cohort.of([[["A", "B"], ["B"]], [["C"]]])
    >>> len(frequency_frequency(cohort, {"copy": cohort})[0].axes)
    1
    """
    real, strata = shares(train, train), train.strata()
    least = 1 / max(train.n_visits, 1)
    with _grid(len(generated)) as (figure, axes):
        for axis, (name, cohort) in zip(axes, generated.items(), strict=False):
            generated_share = shares(cohort, train)
            _by_stratum(axis, real, generated_share, strata)
            top = max(real.max(), generated_share.max(), least)
            axis.plot([0, top], [0, top], color=INK, linewidth=0.8)
            axis.set_xscale("symlog", linthresh=least)
            axis.set_yscale("symlog", linthresh=least)
            axis.set_title(
                f"{name}: {100 * (generated_share[real > 0] == 0).mean():.0f} % never generated", fontsize=8.5
            )
            axis.set(xlabel="real share of visits", ylabel="generated share")
            _few_ticks(axis, least)
        axes[0].legend(fontsize=7.5, loc="upper left", markerscale=2)
    caption = (
        "Every dot is a code; the line is equality. Dots at the bottom are codes that the method never generated. "
        "Scales are logarithmic down to one training visit and linear below."
    )
    return figure, caption


def rank_rank(train: Cohort, generated: Mapping[str, Cohort]) -> tuple[Figure, str]:
    """For each cohort the rank of every code against its real rank.

    >>> cohort = Cohort.of([[["A", "B"], ["B"]], [["C"]]])
    >>> len(rank_rank(cohort, {"copy": cohort})[0].axes)
    1
    """
    present = train.visit_counts > 0
    real = stats.rankdata(-train.visit_counts[present])
    with _grid(len(generated)) as (figure, axes):
        for axis, (name, cohort) in zip(axes, generated.items(), strict=False):
            generated_share = shares(cohort, train)[present]
            rank = stats.rankdata(-generated_share)
            axis.plot([1, len(real)], [1, len(real)], color=INK, linewidth=0.8)
            axis.scatter(real, rank, s=5, alpha=0.4, color=PALETTE[0], linewidths=0, rasterized=True)
            rho = stats.spearmanr(real, rank).statistic if np.ptp(rank) > 0 and len(real) > 1 else float("nan")
            axis.set_title(f"{name}: Spearman {rho:.3f}", fontsize=8.5)
            axis.set(xlabel="real rank", ylabel="generated rank")
    caption = (
        "Ranks of all codes, 1 the most frequent; equal counts share a rank. The cloud widens where counts are small."
    )
    return figure, caption


def _by_stratum(axis: Axes, real: NDArray[np.float64], other: NDArray[np.float64], strata: object) -> None:
    """Dots coloured by head, mid and tail."""
    for name, colour in STRATUM_COLOURS.items():
        inside = getattr(strata, name)
        axis.scatter(
            real[inside], other[inside], s=6, alpha=0.5, color=colour, linewidths=0, label=name, rasterized=True
        )


def _few_ticks(axis: Axes, least: float) -> None:
    """Zero and the round decades above one visit."""
    decades = [10.0**power for power in range(-6, 1) if 10.0**power >= least]
    for side in (axis.xaxis, axis.yaxis):
        side.set_ticks([0.0, *decades], ["0", *(f"$10^{{{round(np.log10(d))}}}$" for d in decades)])
        side.set_ticks([], minor=True)
    axis.tick_params(colors=FAINT)


class _grid:
    """Panels for a number of cohorts, in rows of four; those left over are taken away."""

    def __init__(self, n: int) -> None:
        self.n, self.columns = n, min(max(n, 1), _FREQUENCY_COLUMNS)
        self.panels = panels(-(-max(n, 1) // self.columns), self.columns, width=3.3, height=3.1)

    def __enter__(self) -> tuple[Figure, NDArray[np.object_]]:
        figure, axes = self.panels.__enter__()
        for spare in axes.ravel()[self.n :]:
            spare.remove()
        return figure, axes.ravel()[: self.n]

    def __exit__(self, *error: object) -> None:
        self.panels.__exit__(None, None, None)


# ---- co-occurrence ---------------------------------------------------------------------------------------
#: Codes shown at most, and labels shown at most.
COOCCURRENCE_TOP, LABELS, CODES_A_STRATUM = 200, 12, 30
#: Maps in a line, so that each is readable at the width of a page.
_COOCCURRENCE_COLUMNS = 5


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


def ppmi_heatmaps(train: Cohort, generated: Mapping[str, Cohort], top: int = COOCCURRENCE_TOP) -> tuple[Figure, str]:
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
    columns = min(len(maps), _COOCCURRENCE_COLUMNS)
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


# ---- values and stays ------------------------------------------------------------------------------------
#: Numbers that are drawn at most, panels side by side, and quantiles of each.
MOST_NUMBERS, _WHOLE_RECORD_COLUMNS, _QUANTILES = 12, 4, np.linspace(0.01, 0.99, 99)


def quantile_panels(train: Cohort, generated: Mapping[str, Cohort]) -> tuple[Figure, str]:
    """One panel a number: synthetic quantiles against those of training, a line for each cohort with values."""
    scales = ValueScales.of(train)
    numbers = list(scales.strata.values())[:MOST_NUMBERS]
    real = dict(by_number(values_of(train)))
    written = {name: dict(by_number(values_of(cohort))) for name, cohort in generated.items()}
    n_rows = -(-len(numbers) // _WHOLE_RECORD_COLUMNS)
    with panels(n_rows, min(_WHOLE_RECORD_COLUMNS, len(numbers)), width=2.9, height=2.7) as (figure, axes):
        for axis, number in zip(axes.ravel(), numbers, strict=False):
            low, high = scales.low[number], scales.high[number]
            truth = np.clip(np.quantile(real[number].value, _QUANTILES), low, high)
            axis.plot(truth[[0, -1]], truth[[0, -1]], color=INK, linewidth=0.8)
            for k, (name, values) in enumerate(written.items()):
                if number in values:
                    guess = np.quantile(values[number].value, _QUANTILES)
                    axis.plot(truth, guess, color=PALETTE[k % len(PALETTE)], label=name)
            code = train.vocabulary.codes[number]
            axis.set_title(textwrap.shorten(code.description or code.bare, 34, placeholder=" …"), fontsize=8.5)
            unit = "" if code.unit == "1" else f" ({code.unit})"
            axis.set(xlabel=f"real{unit}", ylabel="synthetic")
        for axis in axes.ravel()[len(numbers) :]:
            axis.remove()
        if axes[0, 0].get_legend_handles_labels()[0]:
            axes[0, 0].legend(fontsize=7)
    caption = (
        "Percentiles of the values, synthetic against training patients; the numbers that most patients have. On the "
        "black line the shapes are equal. Below it synthetic values are too low, a flat line has too few values. "
        "Whether values are those of the right patients is in the table."
    )
    return figure, caption


def stay_bars(train: Cohort, generated: Mapping[str, Cohort]) -> tuple[Figure, str]:
    """One panel a choice group of stays: shares of visits, training patients first."""
    groups = stay_groups(train)
    cohorts = {"real (training)": train, **generated}
    with panels(1, len(groups), width=4.2, height=3.4) as (figure, axes):
        for axis, group in zip(axes[0], groups, strict=True):
            codes = choices(train, group)
            codes = codes[train.patient_counts[codes] >= MIN_COUNT]
            codes = codes[np.argsort(train.visit_counts[codes], kind="stable")]
            height = 0.8 / len(cohorts)
            for k, (name, cohort) in enumerate(cohorts.items()):
                place = np.arange(len(codes)) + 0.4 - (k + 0.5) * height
                colour = FAINT if k == 0 else PALETTE[(k - 1) % len(PALETTE)]
                axis.barh(place, group_shares(cohort, codes), height * 0.92, color=colour, label=name)
            axis.set_yticks(np.arange(len(codes)), [train.vocabulary.codes[code].bare for code in codes], fontsize=8)
            axis.grid(visible=False, axis="y")
            axis.set(xlabel="share of visits")
            axis.set_title(group)
        axes[0, 0].legend(fontsize=7.5, loc="lower right")
    caption = (
        "Shares of visits of each kind and with each ending, and what else visits tell one of; what fewer than "
        f"{MIN_COUNT} training patients have is left out. Bars of one length are right."
    )
    return figure, caption


# ---- a disease: co-occurring codes and course ------------------------------------------------------------
#: Codes shown at most, and visits before and after the first one with the code.
DISEASE_TOP, BACK, AHEAD = 12, 2, 3
_NAMES = ("real (held out)", "synthetic")


def cooccurring_shares(cohort: Cohort, condition: Criteria) -> NDArray[np.float64]:
    """Share of patients who have each code in a visit with one of the condition.

    >>> cooccurring_shares(Cohort.of([[["A", "B"]], [["A"], ["C"]]]), Criteria.of("A")).tolist()
    [0.0, 0.5, 0.0]
    """
    held = holdings(cohort, condition)["same_visit"] > 0
    return np.asarray(held.sum(axis=0), dtype=float).ravel() / max(cohort.n_patients, 1)


def course(cohort: Cohort, condition: Criteria) -> NDArray[np.int64]:
    """Patients with a visit at each distance from their first one with the code, and those with the code there.

    Rows are distances from `BACK` visits before to `AHEAD` visits after.

    >>> course(Cohort.of([[["B"], ["A"], ["A"]]]), Criteria.of("A")).tolist()
    [[0, 0], [1, 0], [1, 1], [1, 1], [0, 0], [0, 0]]
    """
    marked, number = marked_visits(cohort, condition), cohort.visit_number
    first = np.full(cohort.n_patients, np.iinfo(np.int64).max)
    np.minimum.at(first, cohort.patient_of_visit[marked], number[marked])
    distance = number - first[cohort.patient_of_visit] + BACK
    near = (distance >= 0) & (distance <= BACK + AHEAD)
    both = [np.bincount(distance[near & which], minlength=BACK + AHEAD + 1) for which in (number >= 0, marked)]
    return np.stack(both, axis=1).astype(np.int64)


def disease(condition: Criteria, real: Cohort, written: Cohort) -> Figure:
    """Co-occurring codes on the left, course on the right; small counts of real patients are suppressed.

    >>> cohort = Cohort.of([[["A", "B"], ["A"]]] * 30)
    >>> len(disease(Criteria.of("A"), cohort, cohort).axes)
    3
    """
    written = written.on(real.vocabulary)
    shares = [cooccurring_shares(cohort, condition) for cohort in (real, written)]
    shown = np.flatnonzero(shares[0] * real.n_patients >= MIN_COUNT - 0.5)
    top = shown[np.argsort(-shares[0][shown], kind="stable")][:DISEASE_TOP][::-1]
    with panels(1, 3, width=3.6, height=0.9 + 0.24 * max(len(top), 8)) as (figure, axes):
        together, there, again = axes[0]
        for k, (name, of_codes) in enumerate(zip(_NAMES, shares, strict=True)):
            together.barh(np.arange(len(top)) + 0.2 - 0.4 * k, of_codes[top], 0.38, color=PALETTE[k], label=name)
        together.set_yticks(np.arange(len(top)), [_code_label(real, int(code)) for code in top])
        together.set(title="in the same visit", xlabel="share of patients", xlim=(0, None))
        counts = [course(cohort, condition) for cohort in (real, written)]
        enough = counts[0][:, 0] >= MIN_COUNT
        shown_again = enough & ((counts[0][:, 1] == 0) | (counts[0][:, 1] >= MIN_COUNT))
        away = np.arange(-BACK, AHEAD + 1)
        for k, (name, cohort) in enumerate(zip(_NAMES, (real, written), strict=True)):
            seen = counts[k]
            there.plot(away[enough], seen[enough, 0] / cohort.n_patients, "o-", color=PALETTE[k], label=name)
            share = seen[:, 1] / np.maximum(seen[:, 0], 1)
            again.plot(away[shown_again], share[shown_again], "o-", color=PALETTE[k])
        distance = "visits from the first one with the code"
        there.set(title="patients with such a visit", xlabel=distance, ylim=(0, 1.25), xticks=away)
        there.legend(loc="upper left")
        again.set(title="share of them with the code", xlabel=distance, ylim=(-0.05, 1.25), xticks=away)
    return figure


def _code_label(cohort: Cohort, position: int) -> str:
    """A code with as much of its description as fits."""
    code = cohort.vocabulary.codes[position]
    return f"{code.token} {code.description[:24]}".strip()


def rarest(test: Cohort, fewest: int, most: int) -> list[int]:
    """The rarest codes that at least so many patients hold, rarest first.

    >>> rarest(Cohort.of([[["A", "B"]], [["A"]], [["A", "C"]]]), fewest=1, most=2)
    [1, 2]
    """
    counts = test.patient_counts
    order = np.lexsort((np.arange(len(counts)), counts))
    return [int(code) for code in order if counts[code] >= fewest][:most]
