"""Comparisons: what is missing is done, what is there is not, and the table says what happened."""

from __future__ import annotations

import json
from pathlib import Path

import polars
import pytest

from adapcla.errors import AdapclaError, ExistsError, UsageError
from adapcla.experiment import compare as comparison
from adapcla.experiment.compare import Asked, Line, chosen_methods, compare, known_settings, markdown
from adapcla.experiment.spec import EvaluateSpec
from adapcla.generators.methods import METHODS
from adapcla.sources import planted

TINY = {"width": 16, "layers": 1, "heads": 2, "passes": 0.5, "batch_size": 64}
TAIL = EvaluateSpec(suites=("tail",), quick=True)


@pytest.fixture(scope="module")
def cohort(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("compared") / "cohort"
    planted.simulate(patients=300, codes=60, seed=1).save(place)
    return place


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("ADAPCLA_QUIET", "1")


def asked(cohort: Path, out: Path, *methods: str, **more) -> Asked:
    return Asked(cohort, out, methods, settings=TINY, evaluate=TAIL, **more)


def test_all_rows_stand_beside_the_references(cohort, tmp_path):
    out = tmp_path / "out"
    lines = compare(asked(cohort, out, "lstm", "eva", seeds=(1, 2), external={"theirs": cohort}))
    assert [(line.method, line.seed) for line in lines] == [
        ("real-test", None), ("train-copy", None), ("marginal", None),
        ("lstm", 1), ("lstm", 2), ("eva", 1), ("eva", 2), ("theirs", None),
    ]  # fmt: skip
    table = polars.read_csv(out / comparison.TABLE)
    assert table["method"].to_list() == [line.method for line in lines]
    copy = table.filter(polars.col("method") == "train-copy")
    assert copy["pair_seen"].item() == 1.0
    trained = table.filter(polars.col("method").is_in(["lstm", "eva"]))
    for cost in ("parameters", "passes", "peak memory MB"):
        assert (trained[cost] > 0).all(), cost
    assert polars.read_csv(out / comparison.SCORES).filter(polars.col("method") == "theirs").height > 5
    text = (out / comparison.MARKDOWN).read_text()
    assert "| lstm |" in text and "| marginal |" in text and "2 seed(s) of fit and sample" in text


def test_what_is_done_is_not_done_again_and_what_is_missing_is_added(cohort, tmp_path, monkeypatch):
    compare(asked(cohort, tmp_path / "out", "lstm"))
    first = (tmp_path / "out" / comparison.TABLE).read_text()
    monkeypatch.setattr("adapcla.experiment.stages.train_run", _never)
    compare(asked(cohort, tmp_path / "out", "lstm"))
    assert (tmp_path / "out" / comparison.TABLE).read_text() == first
    with pytest.raises(AssertionError, match="trained"):
        compare(asked(cohort, tmp_path / "out", "lstm", "eva"))
    with pytest.raises(AssertionError, match="trained"):
        compare(Asked(cohort, tmp_path / "out", ("lstm",), settings={**TINY, "width": 24}, evaluate=TAIL))


def _never(*_: object, **__: object) -> None:
    raise AssertionError("trained")


def test_a_method_that_fails_is_a_row_that_says_why(cohort, tmp_path, monkeypatch):
    plain = comparison.trained

    def breaks(place, key, method, *rest):
        if method == "lstm":
            raise AdapclaError("step 3: loss is nan\nto do: something")
        return plain(place, key, method, *rest)

    monkeypatch.setattr(comparison, "trained", breaks)
    lines = compare(asked(cohort, tmp_path / "out", "lstm", "eva"))
    failed = next(line for line in lines if line.method == "lstm")
    assert failed.failed == "step 3: loss is nan" and failed.values == {}
    assert "seed 1 failed: step 3: loss is nan" in (tmp_path / "out" / comparison.MARKDOWN).read_text()


def test_a_folder_of_something_else_is_refused(cohort, tmp_path):
    (tmp_path / "letters.txt").write_text("private")
    with pytest.raises(ExistsError, match="no comparison"):
        compare(asked(cohort, tmp_path, "lstm"))
    with pytest.raises(UsageError, match="nothing to compare"):
        compare(asked(cohort, tmp_path / "out"))
    with pytest.raises(UsageError, match="no setting is called 'widht'"):
        compare(Asked(cohort, tmp_path / "out", ("lstm",), settings={"widht": 3}))
    assert not (tmp_path / "out").exists()


def test_all_means_every_usual_row():
    every = chosen_methods("all")
    assert {"adapcla", "tailwise", "halo", "gpt", "lstm", "eva", "synteg", "adapcla-release"} <= set(every)
    assert not {"marginal", "halo-paper-size"} & set(every)
    with pytest.raises(UsageError, match="did you mean 'halo'"):
        chosen_methods("hallo")


@pytest.mark.parametrize("method", METHODS)
def test_settings_reach_the_rows_that_know_them(method):
    mine = known_settings(method, {"heads": 2, "passes": 3, "latent": 5, "nonsense": 1})
    assert mine["passes"] == 3 and mine["nonsense"] == 1
    assert ("latent" in mine) == (method == "eva")


def test_a_setting_that_is_off_reaches_its_row_too():
    assert known_settings("adapcla", {"recall": True}) == {"recall": True}
    assert known_settings("gpt", {"recall": True}) == {}


def test_the_mean_over_seeds_by_hand():
    """.2 and .4: mean .3, standard deviation .14; one seed has no spread; no value is a dash."""
    lines = [Line("lstm", 1, {"m": 0.2}), Line("lstm", 2, {"m": 0.4}), Line("eva", 1, {"m": None})]
    text = markdown(lines, {"tail": {"m": "up"}}, Asked(Path(), Path(), ("lstm",), (1, 2)))
    assert "| lstm | 0.3 ± 0.14 |" in text
    assert "| eva | – |" in text
    assert "| method | m ↑ |" in text


def test_what_was_asked_is_kept(cohort, tmp_path):
    compare(asked(cohort, tmp_path / "out", "lstm"))
    kept = json.loads((tmp_path / "out" / comparison.ASKED).read_text())
    assert kept["methods"] == ["lstm"] and kept["settings"] == TINY
