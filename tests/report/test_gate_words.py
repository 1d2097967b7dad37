"""Every line of the gate has words."""

from __future__ import annotations

from adapcla.evaluation.privacy import LIMITS, MODEL_LIMITS, GateLine, gate
from adapcla.report.gate_words import in_words, words_of


def test_every_line_has_a_question_and_a_title_of_its_own():
    lines = [*gate({}), *gate({}, MODEL_LIMITS)]
    assert len(lines) == len(LIMITS) + len(MODEL_LIMITS)
    titles = [words_of(line).title for line in lines]
    assert len(set(titles)) == len(titles)
    assert all(words_of(line).asks.endswith("?") for line in lines)


def test_a_line_without_a_value_says_why():
    assert in_words(GateLine("copy_excess", None, None, 1e-4, False, "too few patients")) == (
        "Copies: this could not be assessed (too few patients)."
    )
