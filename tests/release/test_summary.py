"""Comparisons, statuses, advice and refusal: each has a status of its own that follows from its numbers."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.evaluation import Scores, evaluate
from adapcla.evaluation.comparison import Score
from adapcla.evaluation.privacy import GateLine
from adapcla.evaluation.scores import Row, normalise
from adapcla.io.simulator import simulate
from adapcla.release.card import as_json, card
from adapcla.release.page import release_page
from adapcla.release.summary import (
    COMPARISONS,
    Attempt,
    Compared,
    Comparisons,
    Found,
    Measured,
    ReleaseSummary,
    WhatWasRead,
    advice,
    badge,
    compare,
    indicators,
    refusal,
    usefulness,
)

KEYS = [key for key, *_ in COMPARISONS]


@pytest.fixture(scope="module")
def parts() -> tuple[Cohort, Cohort, Cohort]:
    """Training, test and as many other patients of the same distribution."""
    world = simulate(3_000, 60, seed=1)
    train, test, other = (world.subset(np.arange(i * 1_000, (i + 1) * 1_000)) for i in range(3))
    return train, test, other


def compared(train: Cohort, test: Cohort, synthetic: Cohort) -> Comparisons:
    return compare(evaluate(train, test, synthetic, ["tail", "fidelity"], quick=True), train)


def quality(found: Comparisons) -> dict[str, str]:
    return {one.key: one.quality for one in found.each}


def test_other_patients_of_the_same_distribution_are_never_poor(parts):
    found = compared(*parts)
    assert [one.key for one in found.each] == KEYS and found.releasable
    assert "poor" not in quality(found).values(), quality(found)
    assert quality(found)["prevalence"] == quality(found)["codes_per_visit"] == "good"


def test_visits_with_too_many_codes_are_refused(parts):
    """A release with 10.0 codes per visit in place of 7.77 was called good once."""
    train, test, other = parts
    visits = [[list(visit) for visit in patient] for patient in other.patients()]
    rng = np.random.default_rng(1)
    tokens = np.array(train.vocabulary.tokens)
    for patient in visits:
        for visit in patient:
            visit[:] = sorted({*visit, *rng.choice(tokens[:20], size=max(1, len(visit) // 4), replace=False)})
    found = compared(train, test, Cohort.of(visits, train.vocabulary))
    assert quality(found)["codes_per_visit"] == "poor" and not found.releasable
    assert found.quality == "poor" and any("% more" in reason for reason in found.reasons)


def test_rare_codes_that_are_much_too_frequent_are_refused(parts):
    """Every rare code comes three times as often as it did, though most codes are right."""
    train, test, other = parts
    rare = np.flatnonzero(train.strata().tail)
    rng = np.random.default_rng(1)
    patients = [[list(visit) for visit in patient] for patient in other.patients()]
    tokens = train.vocabulary.tokens
    for code in rare:
        for _ in range(3 * int(train.patient_counts[code]) + 10):
            patient = patients[rng.integers(len(patients))]
            visit = patient[rng.integers(len(patient))]
            if tokens[code] not in visit:
                visit.append(tokens[code])
    found = compared(train, test, Cohort.of(patients, train.vocabulary))
    assert quality(found)["rare_prevalence"] == "poor" and not found.releasable


def test_independent_codes_are_poor_at_what_codes_have_to_do_with_each_other(parts):
    from adapcla.evaluation.references import Reference

    train, test, _ = parts
    found = compared(train, test, Reference.MARGINAL.cohort(train, test, train.n_patients, 1))
    assert quality(found)["prevalence"] == "good" and found.releasable
    assert quality(found)["rare_cooccurrence"] == "poor" and found.quality == "poor"


def test_what_was_not_computed_is_grey_and_the_whole_is_fair_at_best():
    train = Cohort.of([[["A", "B"], ["A"]]] * 30)
    rows = (
        Row("prevalence_off_2x", "fidelity", "down", "all", 0.0, None, None, 2, ""),
        Row("codes_per_visit_diff", "fidelity", "match", "all", 0.01, None, None, 2, ""),
    )
    found = compare(Scores("x", 1, rows), train)
    assert quality(found) == {
        **dict.fromkeys(KEYS, "unknown"), "prevalence": "good", "codes_per_visit": "good"
    }  # fmt: skip
    assert found.quality == "fair" and found.releasable
    assert compare(Scores("x", 1, ()), train).quality == "unknown"


def test_what_the_records_do_not_have_is_said_and_does_not_count():
    train = Cohort.of([[["A"]], [["B"]]] * 30)
    found = {one.key: one for one in compare(Scores("x", 1, ()), train).each}
    assert not any(found[key].applies for key in ("cooccurrence", "order", "values", "stays"))
    assert found["order"].sentence == "no patient of these records has two visits"


@pytest.mark.parametrize(
    ("share", "expected"), [(0.9, "good"), (0.6, "fair"), (0.2, "poor"), (1.7, "good"), (None, "unknown")]
)
def test_the_share_of_the_gap_decides_where_more_is_better(share, expected):
    row = Row("pair_seen_heldout", "tail", "up", "halves", 0.5, None, None, 9, "", 0.8, 1.0, 0.2, share)
    train = Cohort.of([[["A", "B"], ["A"]]] * 30)
    assert quality(compare(Scores("x", 1, (row,)), train))["cooccurrence"] == expected


def test_beyond_real_is_as_wrong_as_before_it_where_a_match_is_wanted():
    share, _ = normalise(Score(0.3, 9), 0.0, 0.2, "match")
    row = Row("next_visit_gain", "fidelity", "match", "all", 0.3, None, None, 9, "", 0.2, None, 0.0, share)
    train = Cohort.of([[["A", "B"], ["A"]]] * 30)
    found = {one.key: one for one in compare(Scores("x", 1, (row,)), train).each}
    assert found["order"].quality == "fair" and "50% of that gap" in found["order"].sentence


@pytest.mark.parametrize(("low", "known"), [(0.5, True), (0.25, False)])
def test_a_gap_smaller_than_its_uncertainty_says_nothing(low, known):
    """Independent codes reach 0.1 to 0.3; real patients 0.8, from `low` on."""
    row = Row("pair_seen_heldout", "tail", "up", "halves", 0.5, None, None, 9, "", 0.8, 1.0, 0.2, 0.6)
    row = replace(row, marginal_low=0.1, marginal_high=0.3, real_test_low=low, real_test_high=0.9)
    found = {one.key: one for one in compare(Scores("x", 1, (row,)), Cohort.of([[["A", "B"]]] * 30)).each}
    assert (found["cooccurrence"].quality == "unknown") != known
    assert known or found["cooccurrence"].sentence == "too few patients to tell"


# ---- statuses and advice ----------------------------------------------------------------------------------------
ROLLED = {
    "codes": {"before": 4, "after": 2, "kept in full": 1, "rolled up": 2, "not placed": 1},
    "entries": {"all": 60, "kept in full": 30, "rolled up": 25, "not placed": 5},
    "tail": {"codes": 2, "kept in full": 0, "entries": 30, "entries kept in full": 0},
    "steps": [2],
}
MET = GateLine("copy_excess", "met", 0.0, -0.001, 0.001, 0.01)
EXCEEDED = GateLine("near_copy_excess", "exceeded", 0.2, 0.1, 0.3, 0.03)
NOT_ASSESSED = GateLine("near_copy_excess", "not shown", None, None, None, 0.03, "few")
USEFUL = Row("tstr_next_auroc", "utility", "up", "all", 0.68, None, None, 9, "", real_train=0.7)


def comparisons(*qualities: str) -> Comparisons:
    keys, metrics = ("codes_per_visit", "order"), ("codes_per_visit_diff", "next_visit_gain")
    return Comparisons(
        tuple(
            Compared(key, key, quality, "x", (Measured(metric, "y", Found(quality, "x")),))
            for key, metric, quality in zip(keys, metrics, qualities, strict=True)
        )
    )


def attempt(*rows: Row, lines=(MET,), real: Scores | None = None, qualities=("good", "good")) -> Attempt:
    scores = Scores("tailwise", 1, rows, {"quick": True})
    costs, found = {"passes": 4, "steps": 9}, comparisons(*qualities)
    return Attempt(1, "as asked", 11, scores, real, lines, (), ROLLED, 3, costs, {}, 4.0, {"fit": 2.0}, found)


def release(tried: Attempt) -> ReleaseSummary:
    cohort = Cohort.of([[["4019"], ["25000"]]] * 20)
    return ReleaseSummary("A ward", {}, "table", "tailwise", 5.0, (tried,), cohort, cohort)


def useful(value: float | None, real: float | None, metric: str = "tstr_next_auroc") -> Row:
    return Row(metric, "utility", "up", "all", value, None, None, 9, "", real_train=real)


@pytest.mark.parametrize(
    ("qualities", "outcome", "released"),
    [
        (("good", "good"), "good", True),
        (("good", "fair"), "fair", True),
        (("good", "unknown"), "fair", True),
        (("good", "poor"), "poor", True),
        (("poor", "good"), "poor", False),
    ],
)
def test_the_whole_is_no_better_than_its_worst_part(qualities, outcome, released):
    found = release(attempt(USEFUL, qualities=qualities))
    assert indicators(found)[0].outcome == outcome == advice(found).outcome
    assert found.passed == released and bool(refusal(found)) != released


def test_similar_says_what_is_weakest_and_what_helps():
    shown = indicators(release(attempt(qualities=("good", "poor"))))[0]
    assert "weakest: order" in shown.sentence and "What helps: more real patients." in shown.sentence
    short = replace(attempt(qualities=("good", "poor")), wanted_passes=40.0)
    assert "more minutes" in indicators(release(short))[0].sentence
    assert "What helps" not in indicators(release(attempt()))[0].sentence
    counted = replace(short, costs={"passes": 0, "steps": 0})
    assert "more real patients" in indicators(release(counted))[0].sentence


def test_useful_is_what_models_reach_next_to_those_of_real_patients():
    """From chance (0.5) to real (0.7), 0.68 is nine tenths of the gap."""
    status = indicators(release(attempt(useful(0.68, 0.7))))[1]
    assert (status.outcome, status.value, status.unit) == ("good", "0.68", "(real data 0.70, chance 0.50)")
    assert indicators(release(attempt(useful(0.55, 0.7))))[1].outcome == "poor"


def test_real_models_at_chance_say_nothing_and_the_next_task_is_taken():
    rows = (useful(0.6, 0.51), useful(0.8, 0.9, "tstr_masked_auroc"))
    assert indicators(release(attempt(*rows)))[1].value == "0.80"
    nothing = release(attempt(useful(0.6, 0.51)))
    assert indicators(nothing)[1].outcome == "unknown" and advice(nothing).outcome == "good"


def test_models_of_real_patients_may_be_evaluated_apart():
    real = Scores("real", 1, (useful(0.7, None),))
    assert usefulness(attempt(useful(0.6, None), real=real))[0].real == 0.7


@pytest.mark.parametrize(
    ("lines", "outcome", "word"),
    [
        ((MET,), "met", "No leak was detected by these checks."),
        ((MET, NOT_ASSESSED), "not shown", "too few patients"),
        ((MET, EXCEEDED), "exceeded", "Failed: Near copies"),
    ],
)
def test_private_is_the_gate(lines, outcome, word):
    found = release(attempt(lines=lines))
    status = indicators(found)[2]
    assert status.outcome == outcome and word in status.sentence and found.passed == (outcome == "met")


def test_an_accepted_line_is_released_for_the_house_alone():
    accepted = replace(NOT_ASSESSED, accepted="partners under agreement")
    found = release(attempt(USEFUL, lines=(MET, accepted)))
    assert found.passed and advice(found).outcome == "fair" and badge(found) == ("Released", "fair")
    assert indicators(found)[2].permits == "inside the house"
    assert indicators(release(attempt(USEFUL, lines=(MET, NOT_ASSESSED))))[2].permits == "not at all"
    assert advice(found).sentence.startswith("Inside the house")


def test_what_is_refused_must_not_be_used_and_says_why():
    found = release(attempt(USEFUL, lines=(EXCEEDED,), qualities=("poor", "good")))
    assert advice(found).sentence.startswith("Not at all") and badge(found)[0] == "Not released"
    assert "Near copies" in refusal(found) and "codes_per_visit: x." in refusal(found)


def test_the_model_needs_lines_of_its_own():
    tried = attempt()
    assert not release(tried).model_passed
    assert release(replace(tried, model_lines=(MET,))).model_passed


def test_programs_read_the_same_as_people():
    found = release(attempt(USEFUL, lines=(MET, EXCEEDED)))
    content = json.loads(json.dumps(as_json(found)))
    assert content["released"] is False and content["status"]["private"]["outcome"] == "exceeded"
    assert [one["key"] for one in content["comparisons"]] == ["codes_per_visit", "order"]
    assert content["scores"]["tstr_next_auroc"]["all"]["real_train"] == 0.7
    assert [line["outcome"] for line in content["gate"]] == ["met", "exceeded"]


# ---- what was dropped while reading ---------------------------------------------------------------------------
READ = {
    "description": {
        "dropped": {"codes without a readable date": 40, "codes of no text": 3, "repeated codes in a visit": 7}
    },
    "in source": {"visits": 500, "codes": 1_000, "patients": 300},
    "lost": [
        {"what": "codes", "dropped": 43, "in_source": 1_000,
         "reasons": {"codes without a readable date": 40, "codes of no text": 3}},
    ],
}  # fmt: skip


def test_what_was_dropped_is_on_the_page_in_the_card_and_for_programs_by_reason():
    """Of the source as it was; a count of fewer than eleven is not told."""
    found = replace(release(attempt(USEFUL)), read=WhatWasRead.of(READ))
    text = card(found, {"csv": ""}, model=False)
    page = " ".join(re.sub(r"<[^>]+>", " ", release_page(found).html()).split())
    for words in ("40 codes without a readable date, fewer than 11 codes of no text", "1,000", "4.3%"):
        assert words in page and words in text
    assert "fewer than 11 repeated codes in a visit" in page and "Not everything in the source could be used" in page
    content = as_json(found)["read"]
    assert [row["left out"] for row in content["lost"]] == ["0", "43", "0"]
    assert content["by rule"] == {"repeated codes in a visit": "fewer than 11"}


def test_a_source_that_was_read_whole_is_said_to_be_and_warns_of_nothing():
    found = replace(release(attempt(USEFUL)), read=WhatWasRead.of({**READ, "lost": []}))
    html = release_page(found).html()
    assert "Not everything" not in html and "Read from the source" in html
    assert [row["share"] for row in as_json(found)["read"]["lost"]] == ["0.0%"] * 3
