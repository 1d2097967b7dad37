"""What steps do, as functions of folders: prepare, train, sample, evaluate, and what their keys hold."""

from __future__ import annotations

import os
import pickle
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from adapcla.data import Attribute, Cohort
from adapcla.data.split_folder import open_splits
from adapcla.errors import InputError, UsageError
from adapcla.evaluation import Scores
from adapcla.generation import load
from adapcla.io.simulator import simulate
from adapcla.pipeline import tasks
from adapcla.pipeline.settings import DataSettings, EvaluateSettings, PlantedSettings, SplitSettings
from adapcla.pipeline.steps import Step, record, run_steps

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


@pytest.fixture
def parts(tmp_path) -> Path:
    """Prepared patients."""
    tasks.prepare(tmp_path / "data", PLANTED, SplitSettings(control=0.2))
    return tmp_path / "data"


@pytest.fixture
def fit(tmp_path, parts) -> Path:
    """A fit by counting."""
    tasks.train(tmp_path / "fit", parts, ("marginal", {}), 1)
    return tmp_path / "fit"


def data_key(data: DataSettings, split: SplitSettings = SplitSettings(), cohort: Cohort | None = None) -> str:
    return Step("read", "", Path("nowhere"), lambda _: {}, tasks.data_inputs(data, split, cohort)).key


# ---- prepare ----------------------------------------------------------------------------------------------
def test_patients_are_chosen_by_attribute(saved):
    data = DataSettings(source="cohort", path=str(saved), where={"sex": ["F"]})
    assert list(tasks.read_data(data).patients()) == [[["A", "B"]], [["B", "C"]]]


def test_rare_codes_are_left_out_and_counted(saved):
    cohort = tasks.read_data(DataSettings(source="cohort", path=str(saved), min_patients=2))
    assert cohort.vocabulary.tokens == ("A", "B") and cohort.card["dropped"]["entries of codes left out"] == 1


def test_some_patients_are_the_same_ones_every_time(saved):
    data = DataSettings(source="cohort", path=str(saved), patients=2)
    one, two = (tasks.read_data(data) for _ in range(2))
    assert one.n_patients == 2 and one.fingerprint == two.fingerprint


@pytest.mark.parametrize(
    ("change", "told"),
    [({"where": {"age": ["9"]}}, "expected one of sex"), ({"where": {"sex": ["X"]}}, "expected some of F, M")],
)
def test_an_unknown_attribute_or_category_is_named(saved, change, told):
    with pytest.raises(UsageError, match=told):
        tasks.read_data(DataSettings(source="cohort", path=str(saved), **change))


def test_an_unknown_option_of_a_source_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("patient_id,visit_id,dx\n1,1,A\n")
    data = DataSettings(source="table", path=str(tmp_path / "t.csv"), options={"code": "dx"})
    with pytest.raises(UsageError, match="no option of a source is called 'code'"):
        tasks.read_data(data)
    with pytest.raises(UsageError, match="no option of a source is called 'code'"):
        tasks.data_inputs(data, SplitSettings())


def test_the_key_of_a_cohort_sees_other_patients_another_card_and_another_split(saved, tmp_path):
    data = DataSettings(source="cohort", path=str(saved))
    before = data_key(data)
    assert data_key(data, SplitSettings(seed=5)) != before
    os.utime(saved / "card.json", ns=(1, 1))
    assert data_key(data) == before
    shutil.copytree(saved, tmp_path / "copy")
    assert data_key(DataSettings(source="cohort", path=str(tmp_path / "copy"))) == before
    cohort = Cohort.open(saved)
    cohort.subset(np.array([0, 1])).save(tmp_path / "fewer")
    assert data_key(DataSettings(source="cohort", path=str(tmp_path / "fewer"))) != before


def test_a_cohort_in_memory_has_the_key_of_its_folder(tmp_path):
    cohort = simulate(60, 60, seed=1)
    cohort.save(tmp_path / "cohort")
    data = DataSettings(source="cohort", path=str(tmp_path / "cohort"))
    elsewhere = DataSettings(source="cohort", path="not a folder")
    assert data_key(elsewhere, cohort=cohort) == data_key(data)


def test_a_copied_table_has_the_same_key_and_a_changed_one_another(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("patient_id,visit_id,dx\n1,1,A\n")
    os.utime(tmp_path / "b.csv", ns=(1, 1))
    one, two = (DataSettings(source="table", path=str(tmp_path / name)) for name in ("a.csv", "b.csv"))
    assert data_key(one) == data_key(two)
    (tmp_path / "b.csv").write_text("patient_id,visit_id,dx\n1,1,B\n")
    assert data_key(one) != data_key(two)


def test_an_option_that_says_the_default_changes_no_key_and_a_listed_file_counts_by_content(tmp_path):
    (tmp_path / "t.csv").write_text("patient_id,visit_id,dx\n1,1,A\n")

    def key(**options):
        return data_key(DataSettings(source="table", path=str(tmp_path / "t.csv"), options=options))

    assert key() == key(domains=("dx",), level="full", labs="200") == key(domains=["dx"])
    assert key() != key(level="category")
    (tmp_path / "labels.csv").write_text("code,label\nA,first\n")
    before = key(labels=str(tmp_path / "labels.csv"))
    (tmp_path / "labels.csv").write_text("code,label\nA,second\n")
    assert key(labels=str(tmp_path / "labels.csv")) != before


def test_a_table_is_read_once_for_several_keys(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("patient_id,visit_id,dx\n1,1,A\n")
    read = []
    plain = tasks.files.sha256_of
    monkeypatch.setattr(tasks.files, "sha256_of", lambda path: read.append(path) or plain(path))
    data = DataSettings(source="table", path=str(tmp_path / "t.csv"))
    keys = {data_key(data, SplitSettings(seed=seed)) for seed in (1, 2, 3)}
    assert len(keys) == 3 and len(read) == 1


def test_prepared_patients_are_described_before_they_are_divided(parts):
    assert set(open_splits(parts)) == {"train", "valid", "test", "control"}
    again = tasks.prepare(parts, PLANTED, SplitSettings(control=0.2))
    assert again["description"]["patients"] == 60
    assert sum(patients for patients, _ in again["parts"].values()) == 60


def test_absent_data_is_named_with_what_to_set(tmp_path):
    with pytest.raises(InputError, match=r"data\.path"):
        tasks.data_inputs(DataSettings(source="table", path=str(tmp_path / "nowhere.csv")), SplitSettings())


# ---- train and sample -------------------------------------------------------------------------------------
def test_a_fit_with_other_settings_takes_the_place_of_a_stale_one(tmp_path, parts):
    def train(settings):
        row = ("adapcla", settings)
        run_steps(
            [Step("train", "", tmp_path / "f", partial(tasks.train, parts=parts, row=row, seed=1), settings)], tmp_path
        )
        return load(tmp_path / "f").settings.architecture.width

    assert train(SMALL) == 16 and train({**SMALL, "width": 32}) == 32
    assert record(tmp_path / "f")["costs"]["parameters"] > 0


def test_a_finished_run_of_the_same_settings_and_patients_is_taken(tmp_path, parts, monkeypatch):
    facts = tasks.train(tmp_path / "cell", parts, ("adapcla", SMALL), 1)
    asked = []
    plain = tasks.train_run
    monkeypatch.setattr(
        tasks, "train_run", lambda *a, **k: asked.append((Path(a[3]) / "model").is_dir()) or plain(*a, **k)
    )
    for name, settings in (("same", SMALL), ("wider", {**SMALL, "width": 32})):
        found = tasks.train(tmp_path / name, parts, ("adapcla", settings), 1, same_as=tmp_path / "cell")
        assert (found["costs"] == facts["costs"]) == (name == "same")
    assert asked == [True, False]


def test_a_sample_is_what_was_asked_for(tmp_path, fit):
    tasks.sample(tmp_path / "s", fit, 30, 1)
    assert Cohort.open(tmp_path / "s").n_patients == 30
    tasks.sample(tmp_path / "s", fit, 20, 1)
    assert Cohort.open(tmp_path / "s").n_patients == 20


def test_patients_with_a_visit_too_large_are_drawn_again_and_lie_on_disk_once(tmp_path, fit):
    """Half of the visits are larger than the median, so that many of 60 patients go; others take their place."""
    tasks.sample(tmp_path / "plain", fit, 60, 1)
    plain = Cohort.open(tmp_path / "plain")
    most = int(np.median(plain.codes_per_visit))
    facts = tasks.sample(tmp_path / "s", fit, 60, 1, most_codes=most)
    made = Cohort.open(tmp_path / "s")
    assert made.n_patients == 60 and made.codes_per_visit.max() <= most < plain.codes_per_visit.max()
    assert facts["drawn again"] == 60 - tasks.within(plain, most).n_patients > 0
    assert made.origin == plain.origin and (made.days is None) == (plain.days is None)
    tasks.sample(tmp_path / "t", fit, 60, 1, most_codes=most)
    assert Cohort.open(tmp_path / "t").fingerprint == made.fingerprint
    assert {path.name for path in tmp_path.iterdir()} == {"data", "fit", "plain", "s", "t"}
    # Where nobody is drawn again, the sample is the one that was drawn.
    assert tasks.sample(tmp_path / "u", fit, 60, 1, most_codes=1000)["drawn again"] == 0
    assert Cohort.open(tmp_path / "u").fingerprint == plain.fingerprint


@pytest.mark.parametrize("point", ["within", "save"])
def test_a_sample_that_was_stopped_ends_with_the_same_patients_and_counts(point, tmp_path, fit, monkeypatch):
    def step(root):
        return [
            Step("sample", "", root / "s", partial(tasks.sample, fit=fit, n=60, seed=1, most_codes=most), {"n": 60})
        ]

    tasks.sample(tmp_path / "plain", fit, 60, 1)
    most = int(np.median(Cohort.open(tmp_path / "plain").codes_per_visit))
    run_steps(step(tmp_path / "whole"), tmp_path / "whole")
    with monkeypatch.context() as patched:

        def stop(*_, **__):
            raise KeyboardInterrupt

        patched.setattr(*((tasks, "within") if point == "within" else (Cohort, "save")), stop)
        with pytest.raises(KeyboardInterrupt):
            run_steps(step(tmp_path / "cut"), tmp_path / "cut")
    run_steps(step(tmp_path / "cut"), tmp_path / "cut")
    one, two = (Cohort.open(tmp_path / name / "s") for name in ("whole", "cut"))
    assert one.fingerprint == two.fingerprint
    assert step(tmp_path / "whole")[0].facts == step(tmp_path / "cut")[0].facts
    assert {path.name for path in (tmp_path / "cut").iterdir()} == {"s", ".lock"}


# ---- evaluate ---------------------------------------------------------------------------------------------
def test_all_but_privacy_is_evaluated_by_some_patients_of_each_part(tmp_path, parts, fit):
    tasks.sample(tmp_path / "s", fit, 50, 1)
    asked = EvaluateSettings(suites=("privacy", "tail"), quick=True)
    tasks.evaluate(tmp_path / "c", "marginal", tmp_path / "s", parts, asked, most=10)
    tasks.evaluate(tmp_path / "d", "marginal", tmp_path / "s", parts, asked)
    some, whole = Scores.open(tmp_path / "c"), Scores.open(tmp_path / "d")
    by_suite = some.card["patients by suite"]
    assert set(by_suite["tail"].values()) == {10}
    n_train = open_splits(parts)["train"].n_patients
    assert by_suite["privacy"]["train"] == n_train and by_suite["privacy"]["synthetic"] == 50
    assert whole.by_stratum("privacy") == some.by_stratum("privacy")
    assert {row.metric for row in whole.rows} == {row.metric for row in some.rows}


def test_scores_are_made_again_when_a_metric_is_new(monkeypatch):
    asked = EvaluateSettings(suites=("tail",))
    before = tasks.evaluate_inputs(asked)
    monkeypatch.setattr(tasks, "metrics_for", lambda _: [])
    assert tasks.evaluate_inputs(asked) != before


def test_tasks_can_be_sent_to_another_process(tmp_path, parts, fit):
    """Functions of folders and plain settings: nothing is shared, so that a step may run elsewhere."""
    asked = EvaluateSettings(suites=("tail",), quick=True)
    tasks_of_a_chain = (
        partial(tasks.prepare, data=PLANTED, split=SplitSettings()),
        partial(tasks.train, parts=parts, row=("marginal", {}), seed=1),
        partial(tasks.sample, fit=fit, n=20, seed=1),
        partial(tasks.evaluate, name="marginal", synthetic=tmp_path / "2", parts=parts, asked=asked),
    )
    for number, task in enumerate(tasks_of_a_chain):
        facts = pickle.loads(pickle.dumps(task))(tmp_path / str(number))
        assert isinstance(facts, dict) and (tmp_path / str(number)).is_dir()
