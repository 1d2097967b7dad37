from __future__ import annotations

import polars as pl

from adapcla.data import Cohort
from adapcla.study.analysis.examples import chosen_examples, example_markdown, example_table
from adapcla.study.analysis.histories import next_visits


def test_the_choice_depends_on_the_histories_and_the_seed_alone(world):
    cases = next_visits(world.test)
    first = chosen_examples(cases, 3, seed=1)
    assert len(set(first.tolist())) == 3
    assert chosen_examples(cases, 3, seed=2).tolist() != first.tolist()
    shuffled = cases.some(first[::-1].copy())
    again = cases.patients[first].tolist()
    assert shuffled.patients[chosen_examples(shuffled, 3, seed=1)].tolist() == again


def test_an_example_sorts_every_code_into_correct_wrong_and_missed(world, probed):
    cases = next_visits(world.test)
    table = example_table(cases, {"adapcla": probed.generator}, world.train.strata(), 2)
    case = int(chosen_examples(cases, 1)[0])
    truth = set(table.filter((pl.col("example") == 0) & (pl.col("role") == "truth"))["code"])
    tokens = world.test.vocabulary.tokens
    assert truth == {tokens[c] for c in cases.following[[case]].indices}
    mine = table.filter((pl.col("example") == 0) & (pl.col("source") == "adapcla"))
    roles = {role: set(mine.filter(pl.col("role") == role)["code"]) for role in ("correct", "wrong", "missed")}
    assert roles["correct"] | roles["missed"] == truth
    assert not roles["wrong"] & truth


def test_the_page_marks_what_is_right_wrong_and_rare():
    table = pl.DataFrame(
        [
            {"example": 0, "source": "mine", "role": "correct", "code": "A", "description": "Alpha", "tail": True},
            {"example": 0, "source": "mine", "role": "wrong", "code": "B", "description": "", "tail": False},
        ]
    )
    assert "| mine | ✓ Alpha ◆; ✗ B |" in example_markdown(table)


def test_equal_histories_are_all_candidates():
    cases = next_visits(Cohort.of([[["A"], ["B"]], [["A"], ["A"]]]))
    assert chosen_examples(cases, 5).tolist() == [0, 1]
