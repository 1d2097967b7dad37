"""Numbers and stays, real against written: quantiles against quantiles, and shares of kinds, endings and returns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.data.vocabulary import STAY
from adapcla.disclosure import MIN_COUNT
from adapcla.evaluation.measured import Scales, by_number, values_of
from adapcla.evaluation.stays import choices
from adapcla.report.style import FAINT, INK, PALETTE, panels

#: Numbers that are drawn at most, panels side by side, and quantiles of each.
MOST_NUMBERS, _COLUMNS, _QUANTILES = 12, 4, np.linspace(0.01, 0.99, 99)


def quantile_panels(train: Cohort, generated: Mapping[str, Cohort]) -> tuple[Figure, str]:
    """One panel a number: written quantiles against those of training, a line for each cohort with values."""
    scales = Scales.of(train)
    numbers = scales.shown[:MOST_NUMBERS]
    real = dict(by_number(values_of(train)))
    written = {name: dict(by_number(values_of(cohort))) for name, cohort in generated.items()}
    n_rows = -(-len(numbers) // _COLUMNS)
    with panels(n_rows, min(_COLUMNS, len(numbers)), width=2.9, height=2.7) as (figure, axes):
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
            axis.set(xlabel=f"real{unit}", ylabel="written")
        for axis in axes.ravel()[len(numbers) :]:
            axis.remove()
        if axes[0, 0].get_legend_handles_labels()[0]:
            axes[0, 0].legend(fontsize=7)
    caption = (
        "Hundredths of the values, written against training patients; the numbers that most patients have. On the "
        "black line the shapes are equal. Below it written values are too low, a flat line has too few different ones. "
        "Whether values are those of the right patients is in the table."
    )
    return figure, caption


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
