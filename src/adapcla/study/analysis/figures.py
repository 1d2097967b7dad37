"""Figures of the analyses: one function a figure, each with its caption."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adapcla.report.style import FAINT, GRID, INK, PALETTE, STRATUM_COLOURS, only_horizontal_grid, panels
from adapcla.study.analysis.bound import Flow

# ---- probes along training -----------------------------------------------------------------------------------
KIND_COLOURS = {"related_rare": PALETTE[1], "unrelated_rare": PALETTE[0], "wrong": PALETTE[2]}
_NAMES = {"related_rare": "related rare", "unrelated_rare": "unrelated rare", "wrong": "wrong"}


def probe_dynamics(curves: pl.DataFrame) -> tuple[Figure, str]:
    """Three panels from a curve table, and the caption: strata, probes with Oracle and truth, gains of the probes."""
    kinds = [kind for kind in KIND_COLOURS if kind in set(curves["kind"])]
    with panels(1, 3, width=4.0, height=3.3) as (figure, axes):
        _strata(axes[0, 0], curves)
        _probes(axes[0, 1], curves, kinds)
        _gains(axes[0, 2], curves, kinds)
        for axis in axes[0]:
            axis.set(xlabel="progress of training", xlim=(0, 1))
            _scaffold(axis, curves)
    name = curves["schedule"][0]
    caption = (
        f"Bias-free log-probabilities along training under the schedule {name}; the grey area is the scaffold's "
        "weight α. "
        "(a) Mean over contexts and codes of each stratum. (b) Mean of each kind of probe; dashed: the Oracle line, "
        "θ0 with "
        "the scaffold really applied"
        + ("; dotted: the true log-probability, at least log 10⁻⁶" if curves["truth"].is_not_null().any() else "")
        + ". (c) The same as differences to θ0."
    )
    return figure, caption


def _strata(axis: Axes, curves: pl.DataFrame) -> None:
    for stratum, colour in STRATUM_COLOURS.items():
        part = curves.filter(pl.col("kind") == f"all {stratum}")
        axis.plot(part["progress"], part["log_p"], color=colour, label=stratum)
    axis.set_title("(a) All codes")
    axis.set_ylabel("mean log p")
    axis.legend(fontsize=8)


def _probes(axis: Axes, curves: pl.DataFrame, kinds: list[str]) -> None:
    for kind in kinds:
        part = curves.filter(pl.col("kind") == kind)
        colour = KIND_COLOURS[kind]
        axis.plot(part["progress"], part["log_p"], color=colour, label=_NAMES[kind])
        axis.axhline(part["oracle"][0], color=colour, linestyle="--", linewidth=1)
        if part["truth"][0] is not None:
            axis.axhline(part["truth"][0], color=colour, linestyle=":", linewidth=1.2)
    axis.plot([], [], color=FAINT, linestyle="--", linewidth=1, label="Oracle line")
    if curves["truth"].is_not_null().any():
        axis.plot([], [], color=FAINT, linestyle=":", linewidth=1.2, label="truth")
    axis.set_title("(b) Probes")
    axis.set_ylabel("mean log p")
    axis.legend(fontsize=8)


def _gains(axis: Axes, curves: pl.DataFrame, kinds: list[str]) -> None:
    for kind in kinds:
        part = curves.filter(pl.col("kind") == kind)
        axis.plot(part["progress"], part["log_p"] - part["log_p"][0], color=KIND_COLOURS[kind], label=_NAMES[kind])
    axis.axhline(0, color=FAINT, linewidth=0.8)
    axis.set_title("(c) Gain over θ0")
    axis.set_ylabel("log p − log p at θ0")
    axis.legend(fontsize=8)


def _scaffold(axis: Axes, curves: pl.DataFrame) -> None:
    """The weight of the scaffold as a pale area that takes the whole height at 1."""
    part = curves.filter(pl.col("kind") == "all tail")
    behind = axis.twinx()
    behind.fill_between(part["progress"], part["weight"], color=GRID, alpha=0.6, linewidth=0)
    behind.set(ylim=(0, 1), yticks=[])
    behind.grid(visible=False)
    behind.spines["left"].set_visible(False)
    axis.set_zorder(behind.get_zorder() + 1)
    axis.patch.set_visible(False)


def code_trend(trend: pl.DataFrame, title: str) -> tuple[Figure, str]:
    """One code's mean log-probability along training, with the scaffold's weight behind it, and the caption."""
    with panels(1, 1, width=4.6, height=3.0) as (figure, axes):
        axis = axes[0, 0]
        axis.plot(trend["progress"], trend["log_p"], color=PALETTE[1])
        axis.set(xlabel="progress of training", ylabel="mean log p over contexts", xlim=(0, 1), title=title)
        _scaffold(axis, trend.with_columns(kind=pl.lit("all tail")))
    return (
        figure,
        f"{title}: bias-free log-probability over the probed contexts; the grey area is the scaffold's weight.",
    )


# ---- the bound -----------------------------------------------------------------------------------------------
def bound_against_error(flows: Sequence[Flow]) -> tuple[Figure, str]:
    """One panel per schedule: the error's radius, the theorem's bound and its sharp form over time, and the caption."""
    columns = min(4, len(flows))
    rows = -(-len(flows) // columns)
    with panels(rows, columns, width=3.2, height=2.9) as (figure, axes):
        for number, run in enumerate(flows):
            axis = axes[number // columns, number % columns]
            progress = run.time / run.setting.horizon
            axis.plot(progress, run.radius, color=PALETTE[1], label="error ‖e‖")
            axis.plot(progress, run.sharp_bound(run.path_curvature), color=PALETTE[2], label="bound with ∫|α̇|")
            axis.plot(progress, run.bound(run.path_curvature), color=PALETTE[0], label="theorem")
            axis.set(yscale="log", xlabel="progress", xlim=(0, 1))
            share = float((run.radius / run.bound(run.path_curvature)).max())
            axis.set_title(f"{run.schedule.name}\nuses at most {100 * share:.2g} %", fontsize=9)
            axis.margins(y=0.15)
        for spare in axes.ravel()[len(flows) :]:
            spare.set_axis_off()
        axes[0, 0].set_ylabel("norm of K⁻¹")
        axes[0, 0].legend(fontsize=7.5, loc="center right")
    caption = (
        "A linear head on frozen features on simulated patients, where the theorem's assumptions hold: the "
        "internalisation "
        "error along the integrated flow, the theorem's bound, and the bound before the supremum of |α̇| is taken. The "
        "bound is never crossed; titles say how much of it the error uses at most."
    )
    return figure, caption


def endpoint_deviation(table: pl.DataFrame) -> tuple[Figure, str]:
    """How far the real network's logits moved along the scaffold, by schedule and stratum, and the caption."""
    strata = ["all", "head", "mid", "tail"]
    names = table["schedule"].unique(maintain_order=True).to_list()
    with panels(1, 2, width=4.6, height=3.3) as (figure, axes):
        for axis, column, label in (
            (axes[0, 0], "deviation", "root mean square of z_T − z_0 − b"),
            (axes[0, 1], "share_internalised", "slope of z_T − z_0 on b"),
        ):
            for number, stratum in enumerate(strata):
                mine = table.filter(pl.col("stratum") == stratum)
                part = mine.group_by("schedule", maintain_order=True).agg(pl.col(column).mean())
                places = [names.index(name) + 0.18 * (number - 1.5) for name in part["schedule"]]
                axis.plot(places, part[column], "o", color=PALETTE[number], markersize=4, label=stratum)
            axis.set_xticks(range(len(names)), names, rotation=30, ha="right")
            axis.set_ylabel(label)
        axes[0, 0].set_ylim(bottom=0)
        axes[0, 1].axhline(1, color=FAINT, linewidth=0.8, linestyle="--")
        axes[0, 1].axhline(0, color=FAINT, linewidth=0.8)
        axes[0, 0].legend(fontsize=7.5, ncols=2)
    caption = (
        "The real network: distance of the logits' drift from the scaffold, and the share of the scaffold that the "
        "drift "
        "amounts to (dashed: all of it). A network that starts at the prevalences has no reason to move by b."
    )
    return figure, caption


# ---- the kernel ----------------------------------------------------------------------------------------------
_GROUPS = {"all": "all parameters", "shared": "parameters that codes share"}


def kernel_scatter(
    similarities: pl.DataFrame, eigenvalues: pl.DataFrame, correlations: pl.DataFrame
) -> tuple[Figure, str]:
    """Similarity against gain and λ_min against AUC, one row per parameter group, and the caption."""
    groups = [group for group in _GROUPS if group in set(similarities["group"])]
    most = int(correlations["contexts"].max())  # type: ignore[arg-type]
    with panels(len(groups), 2, width=4.6, height=3.2) as (figure, axes):
        for row, group in enumerate(groups):
            part = similarities.filter(pl.col("group") == group)
            for kind, colour in KIND_COLOURS.items():
                mine = part.filter(pl.col("kind") == kind)
                label = kind.replace("_", " ")
                axes[row, 0].scatter(
                    mine["similarity"], mine["final_gain"], s=10, alpha=0.65, color=colour, label=label
                )
            axes[row, 0].set(xlabel="kernel similarity with the context, θ0", ylabel="final gain, log p")
            axes[row, 0].legend(fontsize=7.5)
            _set_title(axes[row, 0], correlations, most, group, "similarity", "final_gain")
            of_group = eigenvalues.filter(pl.col("group") == group)
            axes[row, 1].scatter(
                of_group["smallest_eigenvalue"], of_group["mean_gain"], s=14, color=PALETTE[1], alpha=0.8
            )
            axes[row, 1].set(xlabel="λ_min over related rare codes, θ0", ylabel="mean gain, log p")
            _set_title(axes[row, 1], correlations, most, group, "smallest_eigenvalue", "mean_gain")
    caption = (
        "Left: similarity of a probe code's gradient with those of the context's codes before training, against the "
        "gain "
        "in log p. Right: the smallest eigenvalue of the kernel over a context's related rare codes against their "
        "mean gain. "
        f"Rows: {', '.join(_GROUPS[group] for group in groups)}. Titles give Spearman's correlation over {most} "
        "contexts."
    )
    return figure, caption


def _set_title(axis: Axes, correlations: pl.DataFrame, contexts: int, group: str, x: str, y: str) -> None:
    """Write the correlation of a panel as its title."""
    chosen = (pl.col("contexts") == contexts) & (pl.col("group") == group) & (pl.col("x") == x) & (pl.col("y") == y)
    row = correlations.filter(chosen & (pl.col("kind") == "all")).to_dicts()[0]
    correlation = (
        "not defined"
        if row["rho"] is None or row["rho"] != row["rho"]
        else f"ρ = {row['rho']:+.2f}, p = {row['p']:.2g}"
    )
    axis.set_title(f"{_GROUPS[group]}\n{correlation}, n = {row['n']}", fontsize=9)


# ---- schedules -----------------------------------------------------------------------------------------------
_SHOWN = {"auc": "AUC of related rare codes", "mean_gain": "mean gain of related rare codes"}


def schedule_comparison(table: pl.DataFrame, explained: pl.DataFrame) -> tuple[Figure, str]:
    """Final gain by schedule, then AUC and signed mean gain against ∫(1 − α), and the caption."""
    with panels(1, 3, width=4.1, height=3.5) as (figure, axes):
        _final_gain(axes[0, 0], table.filter(pl.col("measure") == "final_gain"))
        for axis, (measure, label) in zip(axes[0, 1:], _SHOWN.items(), strict=True):
            _against_free_share(axis, table.filter(pl.col("measure") == measure), label)
            share = explained.filter((pl.col("measure") == measure) & (pl.col("by") == "free_share"))["between"][0]
            percentage = "not defined" if share is None or share != share else f"{share:.2f}"
            axis.set_title(f"explained by ∫(1 − α): {percentage}")
    caption = (
        "Related-rare probes under each schedule, same seeds and steps; bars and whiskers are 95 % intervals over "
        "contexts. "
        "Left: final gain over θ0. Middle and right: the paper's AUC and the signed mean gain against the share of "
        "training without a scaffold; the title gives the share of the variance between runs that this share "
        "explains alone."
    )
    return figure, caption


def _final_gain(axis: Axes, table: pl.DataFrame) -> None:
    names = table["schedule"].to_list()
    places = range(len(names))
    low, high = table["mean"] - table["low"], table["high"] - table["mean"]
    axis.errorbar(
        table["mean"], list(places), xerr=[low.fill_nan(0).fill_null(0), high.fill_nan(0).fill_null(0)],
        fmt="o", color=PALETTE[0], markersize=4, elinewidth=1,
    )  # fmt: skip
    axis.axvline(0, color=FAINT, linewidth=0.8)
    axis.set_yticks(list(places), names)
    axis.invert_yaxis()
    axis.set(xlabel="final gain, log p", title="Final gain")


def _against_free_share(axis: Axes, table: pl.DataFrame, label: str) -> None:
    ramps = table["schedule"].str.starts_with("ramp")
    for mask, colour, name in ((~ramps, PALETTE[1], "the paper's"), (ramps, PALETTE[0], "one onset, other slopes")):
        part = table.filter(mask)
        if len(part):
            axis.scatter(part["free_share"], part["mean"], color=colour, s=24, label=name, zorder=3)
    # Neighbours on the axis take turns on the right and on the left, so that their names do not meet.
    for number, row in enumerate(table.sort("free_share", "schedule").to_dicts()):
        name, at = row["schedule"].removeprefix("ramp:"), (row["free_share"], row["mean"])
        side, offset = ("right", (-6, -3)) if number % 2 else ("left", (6, -3))
        axis.annotate(name, at, xytext=offset, ha=side, textcoords="offset points", fontsize=7, color=FAINT)
    axis.margins(x=0.18, y=0.15)
    axis.set(xlabel="share of training without scaffold, ∫(1 − α)", ylabel=label)
    axis.legend(fontsize=7.5)


# ---- cases ---------------------------------------------------------------------------------------------------
_STRATA = ("all", "head", "mid", "tail", "new all", "new tail")
_BARS = {"hit_rate": "drawn codes that came", "recall_at_20": "real codes among the 20 likeliest"}
#: Colours of the paper's table: correct teal, tail orange, wrong red, missed grey.
ROLE_COLOURS = {"correct": "#00796B", "wrong": "#C62828", "missed": "#8A8A8A", "history": INK, "truth": INK}
TAIL_COLOUR = "#C77700"
_MARKS = {"correct": "✓ ", "wrong": "✗ ", "missed": "○ "}


def next_visit_scores(scores: pl.DataFrame) -> tuple[Figure, str]:
    """Hit rate and recall by stratum for every method, with intervals, and the caption."""
    methods = scores["method"].unique(maintain_order=True).to_list()
    strata = [name for name in _STRATA if name in set(scores["stratum"])]
    with panels(1, 2, width=5.4, height=3.4) as (figure, axes):
        for axis, (measure, label) in zip(axes[0], _BARS.items(), strict=True):
            _grouped_bars(axis, scores.filter(pl.col("measure") == measure), methods, strata)
            axis.set_title(label)
            axis.set_ylabel("share")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6), fontsize=8)
    patients = int(scores["patients"][0])
    caption = (
        f"The next visit of all {patients:,} eligible held-out patients, given every visit before it. Left: share of "
        "the "
        "codes drawn by a method that really came. Right: share of the real codes among the 20 that the method holds "
        "likeliest. 'new' leaves out codes of the patient's own history. Whiskers: 95 % intervals over patients."
    )
    return figure, caption


def _grouped_bars(axis: Axes, table: pl.DataFrame, methods: list[str], strata: list[str]) -> None:
    width = 0.84 / max(len(methods), 1)
    for number, method in enumerate(methods):
        rows = {row["stratum"]: row for row in table.filter(pl.col("method") == method).to_dicts()}
        centres, values, below, above = [], [], [], []
        for column, stratum in enumerate(strata):
            row = rows.get(stratum)
            if row is None or row["value"] is None:
                continue
            centres.append(column + (number - (len(methods) - 1) / 2) * width)
            values.append(row["value"])
            below.append(max(0.0, row["value"] - row["low"]))
            above.append(max(0.0, row["high"] - row["value"]))
        axis.bar(
            centres, values, width * 0.92, yerr=[below, above], color=PALETTE[number % len(PALETTE)], label=method,
            error_kw={"elinewidth": 0.8, "ecolor": FAINT},
        )  # fmt: skip
    axis.set_xticks(range(len(strata)), strata)
    only_horizontal_grid(axis)


def next_visit_calibration(bins: pl.DataFrame) -> tuple[Figure, str]:
    """Observed against expected share in bins of probability, one panel per stratum, and the caption."""
    methods = bins["method"].unique(maintain_order=True).to_list()
    with panels(1, 3, width=3.6, height=3.4) as (figure, axes):
        for axis, stratum in zip(axes[0], ("head", "mid", "tail"), strict=True):
            for number, method in enumerate(methods):
                mine = (pl.col("method") == method) & (pl.col("stratum") == stratum) & (pl.col("events") > 0)
                part = bins.filter(mine & (pl.col("expected") > 0))
                colour = PALETTE[number % len(PALETTE)]
                axis.plot(
                    part["expected"], part["observed"], "o-", color=colour, markersize=3, linewidth=1, label=method
                )
            axis.plot([1e-5, 1], [1e-5, 1], color=FAINT, linewidth=0.8)
            axis.set(xscale="log", yscale="log", xlabel="expected share", ylabel="observed share", title=stratum)
        axes[0, 0].legend(fontsize=7)
    caption = (
        "Calibration of next-visit probabilities by stratum: codes of all patients in bins of the probability that a "
        "method "
        "gave them, against how often they came. Bins without any event are not drawn. On the line is calibrated."
    )
    return figure, caption


def neighbour_overlap(table: pl.DataFrame) -> tuple[Figure, str]:
    """Share of the real top neighbours of tail codes that each method has too, and the caption."""
    references = table["reference"].unique(maintain_order=True).to_list()
    with panels(1, len(references), width=4.4, height=0.9 + 0.3 * table["method"].n_unique()) as (figure, axes):
        for axis, reference in zip(axes[0], references, strict=True):
            part = table.filter(pl.col("reference") == reference)
            places = list(range(len(part)))
            spread = [(part["mean"] - part["low"]).to_list(), (part["high"] - part["mean"]).to_list()]
            axis.errorbar(part["mean"], places, xerr=spread, fmt="o", color=PALETTE[0], markersize=4, elinewidth=1)
            axis.set_yticks(places, part["method"].to_list())
            axis.set_ylim(len(part) - 0.5, -0.5)
            axis.set_xlim(left=0)
            axis.set(xlabel="share of the top neighbours", title=f"against {reference}")
    top = int(table["top"][0])
    caption = (
        f"Of the {top} most frequent neighbours of each tail code in reality, the share that are among its {top} most "
        "frequent ones in what a method wrote; mean over tail codes with 95 % intervals. A code that is never written "
        "counts 0. Held-out patients show what real people of that number reach."
    )
    return figure, caption


def example_figure(table: pl.DataFrame, example: int = 0) -> tuple[Figure, str]:
    """One example as the paper's table, a column for each source, and the caption."""
    part = table.filter(pl.col("example") == example)
    sources = part["source"].unique(maintain_order=True).to_list()
    longest = max(len(part.filter(pl.col("source") == source)) for source in sources)
    with panels(1, 1, width=2.5 * len(sources), height=0.5 + 0.22 * longest) as (figure, axes):
        axis = axes[0, 0]
        axis.set_axis_off()
        axis.set(xlim=(0, len(sources)), ylim=(longest + 0.6, -0.9))
        for column, source in enumerate(sources):
            axis.text(column + 0.02, -0.5, source, fontweight="bold", fontsize=8.5)
            for line, row in enumerate(part.filter(pl.col("source") == source).to_dicts()):
                axis.text(column + 0.02, line + 0.3, _example_text(row), fontsize=7, color=_colour(row), va="center")
        axis.axhline(-0.25, color=FAINT, linewidth=0.8)
    caption = (
        "One held-out history, the visit that really followed and one visit drawn by each method: ✓ correct (teal), "
        "◆ correct and a tail code (orange), ✗ wrong (red), ○ missed (grey). The example was chosen by a hash of its "
        "history, without a look at what followed."
    )
    return figure, caption


def _example_text(row: dict[str, Any]) -> str:
    text = row["description"] or row["code"]
    return _MARKS.get(row["role"], "") + textwrap.shorten(text, 34, placeholder=" …") + (" ◆" if row["tail"] else "")


def _colour(row: dict[str, Any]) -> str:
    return TAIL_COLOUR if row["role"] == "correct" and row["tail"] else ROLE_COLOURS[row["role"]]
