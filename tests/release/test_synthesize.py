"""The door in Python: what is asked becomes settings, and a call gives a release."""

from __future__ import annotations

import pytest
from tests.conftest import ACCEPTED

import adapcla
from adapcla.errors import InputError, UsageError
from adapcla.io.simulator import simulate
from adapcla.release.settings import release_settings
from adapcla.release.synthesize import source_of


def test_a_path_alone_is_a_table_a_cohort_or_refused(tmp_path, capsys):
    table = tmp_path / "visits.csv"
    table.write_text("patient_id,date,code\n")
    assert source_of(str(table)) == ("table", str(table))
    assert "read as a table" in capsys.readouterr().err
    simulate(40, 60, seed=1).save(tmp_path / "cohort")
    assert source_of(str(tmp_path / "cohort")) == ("cohort", str(tmp_path / "cohort"))
    assert source_of("demo") == source_of("simulated") == source_of("planted") == ("planted", "")
    assert release_settings("simulated") == release_settings("planted")
    with pytest.raises(UsageError, match="its source is not named"):
        source_of(str(tmp_path))
    with pytest.raises(InputError, match="no such file"):
        source_of(str(tmp_path / "nowhere.csv"))
    with pytest.raises(InputError, match="a source needs a path"):
        source_of("mimic4")


def test_the_settings_say_everything_that_was_asked(tmp_path):
    settings = release_settings(
        "table", str(tmp_path / "My Visits.csv"), options={"patient": "mrn", "date": None}, minutes=3, repair=True
    )
    assert settings.name == "my-visits.csv" and settings.data.options == {"patient": "mrn"}
    assert settings.minutes == 3 and settings.repair
    assert settings.split.control == 0.15 and settings.method == "tailwise"


def test_an_unknown_setting_is_named_with_the_nearest():
    with pytest.raises(UsageError, match=r"did you mean 'min_patients'"):
        release_settings("planted", changes={"min_patient": 3})


QUICK = {"evaluate.quick": True, "evaluate.suites": ("tail", "privacy")}
SMALL = {"method": "marginal", "settings": QUICK, **ACCEPTED}


def test_synthesize_gives_cohort_scores_verdict_and_page(tmp_path):
    world = simulate(520, 60, seed=1)
    made = adapcla.synthesize(world, out=tmp_path / "release", patients=200, **SMALL)
    assert made.cohort.n_patients == 200 and made.passed and not made.reasons
    assert made.folder == tmp_path / "release" and made.page.is_file()
    assert made.scores.values()["tail_pair_seen"] is not None
