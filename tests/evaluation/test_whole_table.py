"""The rows of whole records: they come along with fidelity where the codes call for them, and nowhere else."""

from __future__ import annotations

from pathlib import Path

from tests.evaluation.conftest import World

from adapcla.data import Cohort
from adapcla.data.vocabulary import DEATH
from adapcla.evaluation.evaluation import evaluate, metrics_asked
from adapcla.evaluation.suites import PLAIN_SUITES, with_whole_record
from adapcla.evaluation.table import METRICS
from adapcla.evaluation.whole_table import WHOLE_RECORD


def test_the_rows_are_the_last_of_the_one_table_and_their_suites_are_no_plain_ones():
    assert METRICS[-len(WHOLE_RECORD) :] == WHOLE_RECORD
    assert {metric.suite for metric in WHOLE_RECORD} == {"numbers", "stays"}
    assert not {"numbers", "stays"} & set(PLAIN_SUITES)


def test_records_of_diagnoses_alone_get_no_new_row():
    train, test = Cohort.of([[["A", "B"], ["A"]], [["B"]]] * 6), Cohort.of([[["A", "B"]], [["B"]]] * 5)
    scores = evaluate(train, test, train, ["fidelity"])
    assert {row.suite for row in scores.rows} == {"fidelity"}
    assert not [row for row in scores.rows if row.stratum.startswith(("only:", "domain:", "number:"))]


def test_a_code_of_death_brings_stays_and_no_numbers():
    train = Cohort.of([[["A", DEATH.token]]], ["A", DEATH])
    assert with_whole_record(["fidelity"], train.vocabulary) == ["fidelity", "stays"]
    assert with_whole_record(["tail"], train.vocabulary) == ["tail"]
    learned = {metric.key for metric in metrics_asked(["utility"], train.vocabulary) if metric.suite == "stays"}
    assert learned == {f"{what}_{score}" for what in ("mortality", "readmission") for score in ("auroc", "auprc")}
    assert not learned & {metric.key for metric in metrics_asked(["tail"], train.vocabulary)}
    together = [metric.key for metric in metrics_asked(["fidelity", "utility"], train.vocabulary)]
    assert len(together) == len(set(together)) and learned <= set(together)


def test_every_score_of_a_whole_record_stands_beside_its_references(world: World):
    train, _, test = world(300, 1).split(seed=4)
    scores = evaluate(train, test, world(150, 2), ["fidelity"], quick=True)
    cheap = [metric for metric in WHOLE_RECORD if metric.cost == "cheap"]
    for metric in cheap:
        row = scores.row(metric.key)
        assert row.value is not None, (metric.key, row.reason)
        assert None not in (row.real_test, row.train_copy, row.marginal), metric.key
        assert row.low is not None and row.low <= row.value <= row.high
    assert scores.row("value_effect_corr").normalised_reason or scores.row("value_effect_corr", "matched").normalised
    assert scores.row("prevalence_r2", "only:drug").marginal is not None


def test_the_page_on_metrics_names_every_key(repository: Path):
    page = (repository / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert [metric.key for metric in WHOLE_RECORD if f"`{metric.key}`" not in page] == []
