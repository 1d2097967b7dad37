from __future__ import annotations

import polars as pl
import pytest

from adapcla.errors import InputError
from adapcla.evaluation import Reference
from adapcla.study.results import Study, estimate_over_fits, studies_in


def test_a_folder_without_an_experiment_is_refused(tmp_path):
    with pytest.raises(InputError, match="adapcla run"):
        Study.open(tmp_path)


def test_experiments_are_found_in_the_folder_that_holds_them(finished_run):
    assert [study.name for study in studies_in(finished_run.parent)] == ["tiny"]
    assert [study.name for study in studies_in(finished_run)] == ["tiny"]


def test_numbers_of_rows_references_and_steered_samples(finished_run):
    study = Study.open(finished_run)
    assert study.rows == ["adapcla", "adapcla-no-scaffold"] and study.quick
    mine = study.estimate("adapcla", "pair_seen")
    assert mine is not None and mine.low <= mine.value <= mine.high and mine.n == 1
    copy = study.estimate(Reference.TRAIN_COPY, "pair_seen")
    assert copy is not None and copy.value == 1.0
    chance = study.estimate(Reference.MARGINAL, "pair_seen")
    assert chance is not None and chance.low <= chance.value <= chance.high and chance.low < chance.high
    gap = study.estimate("adapcla", "control_mae", target="shifted", mode="paper")
    assert gap is not None and 0 < gap.value < 1
    assert study.estimate("nobody", "pair_seen") is None
    assert study.goal("tail_ctx_jsd") == "down" and study.goal("no such metric") == "none"


def test_a_slow_reference_that_a_quick_look_leaves_out_was_judged_by_itself(finished_run):
    real = Study.open(finished_run).estimate(Reference.REAL_TRAIN, "tstr_auprc")
    assert real is not None and 0 < real.value <= 1


def test_between_seeds_the_interval_is_students_with_the_correction_for_overlapping_training_parts():
    """Three fits 1, 2, 3: variance 1, standard error √(1/3), t(0.975, 2) = 4.3027; a test share of 1/4 adds 1/3."""
    table = pl.DataFrame({"x": [1.0, 2.0, 3.0], "low": [0.0] * 3, "high": [9.0] * 3, "fit": [1, 2, 3]})
    assert estimate_over_fits(table, 0.0).value == 2
    assert estimate_over_fits(table, 0.0).half == pytest.approx(4.3027 * 3**-0.5, abs=1e-3)
    assert estimate_over_fits(table, 0.25).half == pytest.approx(4.3027 * (2 / 3) ** 0.5, abs=1e-3)
    assert estimate_over_fits(table, 0.25, references=True).half == 4.5


def test_draws_of_one_fit_are_one_case():
    """Two draws of fit 1 (0 and 2) and one of fit 2 (3): the mean of 1 and 3."""
    table = pl.DataFrame({"x": [0.0, 2.0, 3.0], "low": [0.0] * 3, "high": [9.0] * 3, "fit": [1, 1, 2]})
    found = estimate_over_fits(table, 0.2)
    assert (found.value, found.n) == (2.0, 2)


def test_the_share_of_test_patients_is_that_of_the_prepared_parts(finished_run):
    study = Study.open(finished_run)
    parts = study.data_record["parts"]
    assert study.test_share == parts["test"][0] / (parts["test"][0] + parts["train"][0])


def test_a_study_of_an_earlier_version_opens(finished_run):
    """Keys that are gone are not asked for."""
    about = Study.open(finished_run).about
    spec = {**about["spec"], "decide": {"claims": []}, "split": {**about["spec"]["split"], "vary": True}}
    old = Study(finished_run, {**about, "spec": spec, "looks": [{"fits": 4, "error": 0.05, "decided": {}}]})
    assert old.estimate("adapcla", "pair_seen") is not None
