"""The bars of a release: records of diagnoses have one section, whole records three, and small counts none."""

from __future__ import annotations

import numpy as np
import pytest
from tests.evaluation.conftest import whole_world

from adapcla.data import Cohort
from adapcla.release.bars import bar_sections, numbers, stays


@pytest.fixture(scope="module")
def train() -> Cohort:
    return whole_world(300, 1)


def test_records_of_diagnoses_have_lengths_alone(train: Cohort):
    plain = Cohort.of([[["A", "B"], ["A"]]] * 30)
    assert [section.id for section in bar_sections(plain, plain, 11)] == ["lengths"]
    assert [section.id for section in bar_sections(train, train, 11)] == ["lengths", "numbers", "stays"]


def test_bars_of_a_copy_end_at_their_marks_and_add_up(train: Cohort):
    for bars in (*numbers(train, train, 11), *stays(train, train, 11)):
        assert bars.real == bars.synthetic and sum(bars.real) <= 1.001
    assert {bars.title for bars in stays(train, train, 11)} == {"How visits end", "Kind of visit"}
    assert all(bars.words for bars in stays(train, train, 11)) and not any(b.words for b in numbers(train, train, 11))
    assert {len(bars.labels) for bars in numbers(train, train, 11)} <= set(range(2, 11))


def test_an_ending_of_few_patients_is_not_shown(train: Cohort):
    n_died = int(train.patient_counts[train.vocabulary.index["END/died"]])
    shown = {bars.title: bars.labels for bars in stays(train, train, n_died + 1)}
    assert "died" not in shown["How visits end"] and "home" in shown["How visits end"]


def test_every_bar_of_a_number_holds_enough_patients(train: Cohort):
    from adapcla.data.quantization import Quantizer

    cut = Quantizer.of(train, smallest=40)
    banded = cut.banded(train)
    counts = banded.patient_counts[[banded.vocabulary.index[code.token] for n in cut.numbers for code in n.codes()]]
    assert counts.min() >= 40 and np.all([len(bars.labels) <= 10 for bars in numbers(train, train, 40)])
