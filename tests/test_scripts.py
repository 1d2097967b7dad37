"""The scripts that turn files of others into tables."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from adapcla.errors import InputError
from adapcla.io import read


@pytest.fixture
def script_of(repository: Path) -> Callable[[str], ModuleType]:
    """A function from the name of a script to its module."""

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"script_{name}", repository / "scripts" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    return load


def test_pickles_of_halo_become_a_table_and_nothing_is_run(
    script_of: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    halo = script_of("halo_pickles")
    records = [{"visits": [[0, 1], [1]], "labels": np.zeros(25)}, {"visits": [[0]], "labels": np.ones(25)}]
    for name, content in (("trainDataset", records), ("indexToCode", {0: "0389", 1: "4019"})):
        (tmp_path / f"{name}.pkl").write_bytes(pickle.dumps(content))
    assert halo.write_long(tmp_path, tmp_path / "long.csv") == 2
    assert list(read("table", tmp_path / "long.csv").patients()) == [[["0389", "4019"], ["4019"]], [["0389"]]]
    (tmp_path / "trainDataset.pkl").write_bytes(b"cos\nsystem\n(S'touch /tmp/never'\ntR.")
    with pytest.raises(InputError, match="asks for more"):
        halo.write_long(tmp_path, tmp_path / "again.csv")


def test_the_diabetes_table_becomes_whole_records(script_of: Callable[[str], ModuleType], tmp_path: Path) -> None:
    header = "encounter_id,patient_nbr,race,gender,age,admission_type_id,discharge_disposition_id,time_in_hospital"
    header += ",diag_1,diag_2,diag_3,insulin,A1Cresult,num_medications"
    (tmp_path / "d.csv").write_text(f"{header}\n7,1,?,Female,[70-80),1,11,3,38,250.02,?,Up,>8,12\n")
    script_of("diabetes130_long").write_long(tmp_path / "d.csv", tmp_path / "long.csv")
    options = {"domains": ("dx", "rx", "lab", "stay"), "attributes": ("sex", "age_band", "race")}
    cohort = read("table", tmp_path / "long.csv", **options)
    assert next(cohort.patients()) == [
        [
            *("END/died", "ICD9CM/038", "ICD9CM/250.02", "KIND/emergency-inpatient", "LAB/num_medications"),
            *("RESULT/A1Cresult.above-8", "RX/insulin.up", "STAY/days"),
        ]
    ]
    assert cohort.attributes["age_band"].categories == ("70-79",)
