"""The command line, Python, a TOML file and the studio resolve to the same settings of a release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import adapcla
from adapcla.cli.main import app
from adapcla.pipeline.options import arguments_of, options_of
from adapcla.release import plan as module
from adapcla.release.settings import ReleaseSettings
from adapcla.release.synthesize import settings_of

GIVEN: dict[str, Any] = {
    "minutes": 3.0, "formats": ("csv", "omop"), "method": "marginal", "min_patients": 20, "repair": True,
    "rollup": "ccs", "accept": ("copy_excess",), "reason": "few patients", "birth_year": 1950,
    "allow_dropped": 0.2, "seed": 3,
}  # fmt: skip
READING = {"patient": "who", "date": "when", "codes": "what", "system": "ICD9CM", "max_visits": 3, "labs": "all"}
DOTTED = {"fit.settings.batch_size": 32, "evaluate.quick": True, "split.control": 0.2}


class Asked(Exception):
    """Carries the settings out of a call that would begin the work."""


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> list[ReleaseSettings]:
    """The settings that plans are made of; none is carried out."""
    seen: list[ReleaseSettings] = []

    class Plan:
        def __init__(self, settings: ReleaseSettings, *_: object, **__: object) -> None:
            seen.append(settings)
            raise Asked

    monkeypatch.setattr(module, "ReleasePlan", Plan)
    return seen


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    path.write_text("who,when,what\n")
    return path


def test_every_door_gives_the_same_settings(table: Path, tmp_path: Path, resolved: list[ReleaseSettings]) -> None:
    typed = [
        *("synthesize", str(table), "--out", str(tmp_path / "out"), "--minutes", "3", "--format", "csv,omop"),
        *("--method", "marginal", "--min-patients", "20", "--repair", "--set", "rollup=ccs", "--accept", "copy_excess"),
        *("--reason", "few patients", "--set", "birth_year=1950", "--allow-dropped", "0.2", "--seed", "3"),
        *("--patient", "who", "--date", "when", "--codes", "what", "--system", "ICD9CM"),
        *("--read", "max_visits=3", "--read", "labs=all", "--set", "fit.settings.batch_size=32"),
        *("--set", "evaluate.quick=true", "--set", "split.control=0.2"),
    ]
    assert isinstance(CliRunner().invoke(app, typed).exception, Asked)
    # As the studio writes it: words made of settings.
    words = arguments_of(options_of(ReleaseSettings), {**GIVEN, **DOTTED})
    columns = [
        "--patient=who",
        "--date=when",
        "--codes=what",
        "--system=ICD9CM",
        "--read=max_visits=3",
        "--read=labs=all",
    ]
    begun = CliRunner().invoke(app, ["synthesize", str(table), f"--out={tmp_path / 'out'}", *words, *columns])
    assert isinstance(begun.exception, Asked)
    with pytest.raises(Asked):
        adapcla.synthesize(str(table), out=tmp_path / "out", settings=DOTTED, **GIVEN, **READING)
    toml = tmp_path / "release.toml"
    toml.write_text(
        'name = "visits.csv"\ntitle = "visits"\nminutes = 3.0\nformats = ["csv", "omop"]\nmethod = "marginal"\n'
        'min_patients = 20\nrepair = true\nrollup = "ccs"\naccept = ["copy_excess"]\nreason = "few patients"\n'
        "birth_year = 1950\nallow_dropped = 0.2\nseed = 3\n"
        f'[data]\nsource = "table"\npath = "{table}"\n'
        'options = { patient = "who", date = "when", codes = "what", system = "ICD9CM", max_visits = 3, '
        'labs = "all" }\n'
        "[fit.settings]\nbatch_size = 32\n[evaluate]\nquick = true\n[split]\ncontrol = 0.2\n"
    )
    assert isinstance(CliRunner().invoke(app, ["synthesize", str(toml), "--out", "x"]).exception, Asked)
    assert len(resolved) == 4
    first = resolved[0].model_dump()
    for other in resolved[1:]:
        assert other.model_dump() == first
    assert first["formats"] == ("csv", "omop") and first["split"]["control"] == 0.2 and first["seed"] == 3


def test_what_is_as_usual_is_the_same_whether_it_is_said_or_not(table: Path) -> None:
    plain = settings_of(str(table))
    said = settings_of(str(table), minutes=10.0, formats=("csv",), changes={"rollup": "icd"})
    assert plain.model_dump() == said.model_dump()
