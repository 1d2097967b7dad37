"""The bars of a release: how long records are and, where they have them, how numbers come out and stays end.

Nothing of fewer real patients than the smallest count is shown: a band of a number holds as many, and a kind or ending
that fewer have is left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from adapcla.data import Cohort
from adapcla.data.quantization import Quantizer
from adapcla.evaluation.stays import choices
from adapcla.release.pictures import Bars, lengths
from adapcla.report.figures.cohorts import group_shares, stay_groups

#: Numbers with bars at most, bars of each, and what the choice groups of stays are called.
_MOST_NUMBERS, _NUMBER_BARS = 8, 10
_GROUP_TITLES = {"kind": "Kind of visit", "end": "How visits end"}


class BarSection(NamedTuple):
    """Bars under one heading, with what good looks like and how to read them."""

    id: str
    title: str
    good: str
    bars: list[Bars]
    legend: str


def bar_sections(train: Cohort, synthetic: Cohort, smallest: int) -> list[BarSection]:
    """The sections of bars: lengths of records and, where they have them, numbers and stays."""
    good, begins = "Bars that end at their marks.", "a number under a bar is where it begins; + has no end"
    sections = [BarSection("lengths", "Are records as long?", good, lengths(train, synthetic, smallest), begins)]
    wholes = [
        BarSection("numbers", "Do numbers come out alike?", good, numbers(train, synthetic, smallest), begins),
        BarSection(
            "stays", "Do stays begin and end alike?", good, stays(train, synthetic, smallest), "share of all visits"
        ),
    ]
    return sections + [section for section in wholes if section.bars]


def numbers(train: Cohort, synthetic: Cohort, smallest: int) -> list[Bars]:
    """The bands of the numbers that most training patients have; each band holds enough of them."""
    if train.values is None or synthetic.values is None:
        return []
    cut = Quantizer.of(train, smallest=smallest, n_bands=_NUMBER_BARS)
    most = sorted(cut.numbers, key=lambda number: -int(train.patient_counts[train.vocabulary.index[number.code.token]]))
    out = []
    for number in most[:_MOST_NUMBERS]:
        position = train.vocabulary.index[number.code.token]
        values = [np.asarray(one.values)[np.asarray(one.codes) == position] for one in (train, synthetic)]
        shares_of = [np.bincount(number.band(some), minlength=number.n_bands) / max(len(some), 1) for some in values]
        labels = [f"{number.edges[piece]:g}" for piece in number.first_piece]
        labels[-1] += "+"
        means = tuple(round(float(some.mean()), 2) if len(some) else 0.0 for some in values)
        unit = "" if number.code.unit == "1" else number.code.unit
        real, written = ([round(float(x), 4) for x in some] for some in shares_of)
        name = number.code.description or number.code.bare
        out.append(Bars(name, unit, labels, real, written, (means[0], means[1])))
    return out


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
            out.append(Bars(_GROUP_TITLES.get(group, group.capitalize()), "", labels, real, written, None, words=True))
    return out
