"""Every line of the gate has words, and one table shows them everywhere."""

from __future__ import annotations

from dataclasses import replace

from adapcla.evaluation.privacy import LIMITS, MODEL_LIMITS, Detectable, GateLine, accept, gate
from adapcla.report.gate_words import detectable_words, gain, gate_table, in_words, words_of


def test_every_line_has_a_question_and_a_title_of_its_own():
    lines = [*gate({}), *gate({}, MODEL_LIMITS)]
    assert len(lines) == len(LIMITS) + len(MODEL_LIMITS)
    titles = [words_of(line).title for line in lines]
    assert len(set(titles)) == len(titles)
    assert all(words_of(line).asks.endswith("?") for line in lines)


def test_a_line_without_a_value_says_why():
    line = GateLine("copy_excess", "not shown", None, None, None, 0.01, "too few patients")
    assert in_words(line) == "Copies: this could not be assessed (too few patients)."


def test_the_table_shows_bound_outcome_gain_and_the_reason_of_whoever_accepted():
    met = GateLine("singleton_transition_gap", "met", 0.05, 0.0, 0.1, 0.1)
    nobody = GateLine("membership_auc [exposed]", "met", None, None, None, 0.58, "concerns nobody apart", 0.5, 17)
    (accepted,) = accept([GateLine("copy_excess", "not shown", 0.0, -0.02, 0.02, 0.01)], ["copy_excess"], "in house")
    text = gate_table([met, nobody, accepted]).markdown()
    assert "met, fair" in text and "55 of 100" in text
    assert "17 people" in text and "not shown, accepted" in text and "in house" in text


def test_an_area_of_58_per_cent_is_a_right_guess_in_58_of_100():
    line = GateLine("membership_auc", "met", 0.55, 0.52, 0.58, 0.58, no_leak=0.5)
    assert "58 of 100" in gain(line) and gain(replace(line, upper=None)) == ""


def test_what_cannot_be_shown_is_said_with_what_helps():
    found = {name: Detectable(0.05, width, width < 0.02) for name, width in (("copy_excess", 0.01), ("a", 0.04))}
    text = detectable_words(found)
    assert "cannot show 1 of 2 lines" in text and "±0.04" in text and "more control patients" in text
