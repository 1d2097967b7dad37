from __future__ import annotations

import os

import numpy as np
import pytest

from adapcla.data import Attribute, Cohort
from adapcla.errors import UsageError
from adapcla.evaluation import Scores
from adapcla.pipeline import stages
from adapcla.pipeline.folder import stamp
from adapcla.pipeline.settings import DataSettings, EvaluateSettings, PlantedSettings, SplitSettings

PLANTED = DataSettings(planted=PlantedSettings(patients=60, codes=60))
SMALL = {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 32}


@pytest.fixture
def saved(tmp_path):
    cohort = Cohort.of(
        [[["A", "B"]], [["A"]], [["B", "C"]], [["A"], ["A"]]],
        attributes={"sex": Attribute(np.array([0, 1, 0, -1], dtype=np.int16), ("F", "M"))},
    )
    cohort.save(tmp_path / "cohort")
    return tmp_path / "cohort"


def test_patients_are_chosen_by_attribute(saved):
    data = DataSettings(source="cohort", path=str(saved), where={"sex": ["F"]})
    assert list(stages.read_data(data).patients()) == [[["A", "B"]], [["B", "C"]]]


def test_rare_codes_are_left_out_and_counted(saved):
    cohort = stages.read_data(DataSettings(source="cohort", path=str(saved), min_patients=2))
    assert cohort.vocabulary.tokens == ("A", "B") and cohort.card["dropped"]["entries of codes left out"] == 1


def test_some_patients_are_the_same_ones_every_time(saved):
    data = DataSettings(source="cohort", path=str(saved), patients=2)
    one, two = (stages.read_data(data) for _ in range(2))
    assert one.n_patients == 2 and one.fingerprint == two.fingerprint


@pytest.mark.parametrize(
    ("change", "told"),
    [({"where": {"age": ["9"]}}, "expected one of sex"), ({"where": {"sex": ["X"]}}, "expected some of F, M")],
)
def test_an_unknown_attribute_or_category_is_named(saved, change, told):
    with pytest.raises(UsageError, match=told):
        stages.read_data(DataSettings(source="cohort", path=str(saved), **change))


def test_an_unknown_option_of_a_source_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("patient_id,visit_id,dx\n1,1,A\n")
    with pytest.raises(UsageError, match="no option of a source is called 'code'"):
        stages.read_data(DataSettings(source="table", path=str(tmp_path / "t.csv"), options={"code": "dx"}))


def test_the_key_of_data_sees_a_changed_file_and_a_changed_split(saved):
    data = DataSettings(source="cohort", path=str(saved))
    before = stages.data_key(data, SplitSettings())
    assert stages.data_key(data, SplitSettings(seed=5)) != before
    os.utime(saved / "card.json", ns=(1, 1))
    assert stages.data_key(data, SplitSettings()) == before, "a copy with another time is the same data"
    (saved / "card.json").write_text("{}")
    assert stages.data_key(data, SplitSettings()) != before


def test_large_files_are_known_by_their_time(saved, monkeypatch):
    monkeypatch.setattr(stages, "_LARGE", 1)
    data = DataSettings(source="cohort", path=str(saved))
    before = stages.data_key(data, SplitSettings())
    os.utime(saved / "card.json", ns=(1, 1))
    assert stages.data_key(data, SplitSettings()) != before


def test_preparing_twice_reads_once(tmp_path, monkeypatch):
    parts = stages.prepared(PLANTED, SplitSettings(control=0.2), tmp_path / "data", "k")
    assert set(parts) == {"train", "valid", "test", "control"}
    monkeypatch.setattr(stages, "read_data", lambda *_: pytest.fail("read again"))
    again = stages.prepared(PLANTED, SplitSettings(control=0.2), tmp_path / "data", "k")
    assert again["train"].fingerprint == parts["train"].fingerprint


def test_a_fit_with_other_settings_takes_the_place_of_a_stale_one(tmp_path):
    parts = stages.prepared(PLANTED, SplitSettings(), tmp_path / "data", "k")
    train, valid = parts["train"], parts["valid"]
    one = stages.trained(tmp_path / "fit", "a", "adapcla", SMALL, 1, train, valid)
    same = stages.trained(tmp_path / "fit", "a", "adapcla", SMALL, 1, train, valid)
    assert same.settings == one.settings
    other = stages.trained(tmp_path / "fit", "b", "adapcla", {**SMALL, "width": 32}, 1, train, valid)
    assert other.settings.architecture.width == 32
    assert stamp(tmp_path / "fit")["costs"]["parameters"] > 0


def test_a_torn_record_of_what_was_asked_is_begun_again(tmp_path):
    parts = stages.prepared(PLANTED, SplitSettings(), tmp_path / "data", "k")
    (tmp_path / "fit").mkdir()
    (tmp_path / "fit" / "asked.json").write_text("{")
    fitted = stages.trained(tmp_path / "fit", "a", "marginal", {}, 1, parts["train"], parts["valid"])
    assert fitted.method == "marginal" and stages.is_done(tmp_path / "fit", "a")


def test_a_sample_and_its_scores_are_made_once(tmp_path, monkeypatch):
    parts = stages.prepared(PLANTED, SplitSettings(), tmp_path / "data", "k")
    generator = stages.trained(tmp_path / "fit", "a", "marginal", {}, 1, parts["train"], parts["valid"])
    made = stages.sampled(tmp_path / "s", "s1", generator, 30, 1)
    assert made.n_patients == 30
    assert stages.sampled(tmp_path / "s", "s2", generator, 20, 1).n_patients == 20
    asked = EvaluateSettings(suites=("tail",), quick=True)
    scores = stages.scored(tmp_path / "c", "c1", "marginal", made, parts, asked)
    monkeypatch.setattr(stages, "evaluate", lambda *_, **__: pytest.fail("scored again"))
    again = stages.scored(tmp_path / "c", "c1", "marginal", made, parts, asked)
    assert isinstance(again, Scores) and again.values() == scores.values()


def test_patients_with_a_visit_too_large_are_drawn_again(tmp_path):
    """Half of the visits are larger than the median, so that many of 60 patients go; others take their place."""
    parts = stages.prepared(PLANTED, SplitSettings(), tmp_path / "data", "k")
    generator = stages.trained(tmp_path / "fit", "a", "marginal", {}, 1, parts["train"], parts["valid"])
    plain = stages.sampled(tmp_path / "plain", "p", generator, 60, 1)
    most = int(np.median(plain.codes_per_visit))
    made = stages.sampled_within(tmp_path / "s", "s1", generator, 60, 1, most)
    assert made.n_patients == 60 and made.codes_per_visit.max() <= most < plain.codes_per_visit.max()
    again = stamp(tmp_path / "s")["drawn again"]
    assert again == 60 - stages.within(plain, most).n_patients > 0
    assert made.origin == plain.origin and (made.days is None) == (plain.days is None)
    other = stages.sampled_within(tmp_path / "t", "s1", generator, 60, 1, most)
    assert other.fingerprint == made.fingerprint


def test_all_but_privacy_is_judged_by_some_patients_of_each_part(tmp_path):
    parts = stages.prepared(PLANTED, SplitSettings(), tmp_path / "data", "k")
    generator = stages.trained(tmp_path / "fit", "a", "marginal", {}, 1, parts["train"], parts["valid"])
    made = stages.sampled(tmp_path / "s", "s1", generator, 50, 1)
    asked = EvaluateSettings(suites=("privacy", "tail"), quick=True)
    scores = stages.scored(tmp_path / "c", "c1", "marginal", made, parts, asked, most=10)
    by_suite = scores.card["patients by suite"]
    assert set(by_suite["tail"].values()) == {10}
    assert by_suite["privacy"]["train"] == parts["train"].n_patients and by_suite["privacy"]["synthetic"] == 50
    whole = stages.scored(tmp_path / "d", "d1", "marginal", made, parts, asked)
    assert whole.by_stratum("privacy") == scores.by_stratum("privacy")
    assert {row.metric for row in whole.rows} == {row.metric for row in scores.rows}


def test_scores_are_made_again_when_a_metric_is_new(monkeypatch):
    asked = EvaluateSettings(suites=("tail",))
    before = stages.scores_key("s", asked)
    monkeypatch.setattr(stages, "metrics_asked", lambda _: [])
    assert stages.scores_key("s", asked) != before
