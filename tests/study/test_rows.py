from __future__ import annotations

import pytest

from adapcla.errors import UsageError
from adapcla.pipeline.tasks import checked_row, known_settings
from adapcla.study.runner import check_rows, method_names
from adapcla.study.spec import study_from
from adapcla.training.settings import METHODS


def test_all_means_every_usual_row():
    every = method_names("all")
    assert {"adapcla", "tailwise", "halo", "gpt", "lstm", "eva", "synteg", "adapcla-release"} <= set(every)
    assert not {"marginal", "halo-paper-size"} & set(every)
    assert method_names("lstm, lstm") == ("lstm",)
    with pytest.raises(UsageError, match="did you mean 'halo'"):
        method_names("hallo")


@pytest.mark.parametrize("method", METHODS)
def test_settings_reach_the_rows_that_know_them(method):
    mine = known_settings(method, {"heads": 2, "passes": 3, "latent": 5, "nonsense": 1})
    assert mine["passes"] == 3 and mine["nonsense"] == 1
    assert ("latent" in mine) == (method == "eva")


def test_a_setting_that_is_off_reaches_its_row_too():
    assert known_settings("gpt", {"copy_head": False}) == {"copy_head": False}
    assert known_settings("adapcla", {"copy_head": False}) == {}


def test_a_setting_that_nobody_knows_is_refused():
    with pytest.raises(UsageError, match="no setting is called 'widht'"):
        checked_row("lstm", {"widht": 3})


def test_what_rows_differ_in_cannot_be_set_for_all_of_them():
    """With one schedule for all, AdaPCLA and its control without a scaffold would be the same fit."""
    fit = {"methods": ["adapcla", "adapcla-no-scaffold"], "settings": {"schedule": "fast"}}
    with pytest.raises(UsageError, match="'adapcla' and 'adapcla-no-scaffold' have the same settings"):
        check_rows(study_from({"name": "a", "fit": fit}).fit)
    assert set(check_rows(study_from({"name": "a", "fit": {**fit, "settings": {}}}).fit)) == set(fit["methods"])
