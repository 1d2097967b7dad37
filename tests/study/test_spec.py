from __future__ import annotations

import pytest

from adapcla.errors import InputError, UsageError
from adapcla.pipeline.settings import DataSettings, data_path
from adapcla.pipeline.steps import key_of
from adapcla.study.runner import check_rows
from adapcla.study.spec import StudySpec, read_study, study_from


def test_every_shipped_experiment_is_valid_and_bears_its_files_name(repository):
    found = sorted((repository / "experiments").glob("*.toml"))
    wanted = {"demo", "paper", "diabetes130", "synpuf", "chile", "simulated", "ablation", "zero-shot", "trade-off"}
    assert wanted == {path.stem for path in found}
    for path in found:
        spec = read_study(path)
        assert spec.name == path.stem
        assert check_rows(spec.fit)


def test_the_demonstration_is_one_file_that_the_package_holds(repository):
    shipped = repository / "src" / "adapcla" / "study" / "demo.toml"
    assert (repository / "experiments" / "demo.toml").samefile(shipped)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"nmae": "a"}, "name"),
        ({"name": "a", "splitt": {}}, "no setting is called 'splitt'; did you mean 'split'?"),
        ({"name": "a", "fit": {"sedes": [1]}}, "did you mean 'fit.seeds'?"),
        ({"name": "a", "data": {"planted": {"patient": 3}}}, "did you mean 'data.planted.patients'?"),
        ({"name": "a", "targets": {"x": {"data": {}, "mode": []}}}, "did you mean 'targets.x.modes'?"),
        ({"name": "a", "evaluate": {"suites": ["tale"]}}, "suite 'tale': expected some of tail"),
        ({"name": "A b"}, "name: expected small letters"),
        ({"name": "a", "data": {"source": "mimic3"}}, "needs a path: set data.path"),
        ({"name": "a", "fit": {"variants": {"data": {"method": "lstm"}}}}, "row 'data'"),
    ],
)
def test_a_wrong_setting_is_named(content, message):
    with pytest.raises(UsageError) as error:
        study_from(content)
    assert message in str(error.value)


def test_a_setting_of_the_command_line_wins():
    spec = study_from({"name": "a", "data": {"source": "mimic3", "path": "x"}}, {"data.path": "/y", "fit.seeds": [7]})
    assert (spec.data.path, spec.fit.seeds) == ("/y", (7,))


def test_changes_leave_what_they_were_given_alone():
    content = {"name": "a", "evaluate": {"seed": 1}}
    study_from(content, {"evaluate.seed": 2})
    assert content == {"name": "a", "evaluate": {"seed": 1}}


def test_a_setting_inside_a_number_is_refused():
    with pytest.raises(UsageError, match="not a group"):
        study_from({"name": "a"}, {"name.x": 1})


def test_variants_are_rows_with_their_own_settings():
    spec = study_from(
        {
            "name": "a",
            "fit": {
                "methods": ["lstm"],
                "settings": {"passes": 2},
                "variants": {"fast": {"method": "adapcla", "settings": {"schedule": "fast"}}},
            },
        }
    )
    assert spec.fit.rows() == {"lstm": ("lstm", {"passes": 2}), "fast": ("adapcla", {"passes": 2, "schedule": "fast"})}


def test_the_fingerprint_knows_every_setting():
    one = StudySpec(name="a")
    assert one.fingerprint() != study_from({"name": "a", "sample": {"patients": 3}}).fingerprint()
    assert key_of("a", 1) != key_of("a", 2)


def test_data_are_looked_for_in_one_folder_and_absence_says_what_to_set(tmp_path, monkeypatch):
    monkeypatch.setenv("ADAPCLA_DATA", str(tmp_path))
    data = DataSettings(source="table", path="visits.csv")
    with pytest.raises(InputError) as error:
        data_path(data)
    assert "--set data.path=" in str(error.value) and "ADAPCLA_DATA" in str(error.value)
    (tmp_path / "visits.csv").write_text("x")
    assert data_path(data) == tmp_path / "visits.csv"
    monkeypatch.delenv("ADAPCLA_DATA")
    assert data_path(DataSettings(source="table", path=str(tmp_path / "visits.csv"))) == tmp_path / "visits.csv"


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(UsageError, match="beside it are: none"):
        read_study(tmp_path / "no.toml")
    (tmp_path / "bad.toml").write_text("name = [")
    with pytest.raises(InputError, match="not valid TOML"):
        read_study(tmp_path / "bad.toml")
