"""What every test may lean on: small cohorts, open data sets, one thread per process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from adapcla.data import Attribute, Code, Cohort, Vocabulary
from adapcla.data.vocabulary import LENGTH_OF_STAY, discharge_code, visit_kind_code
from adapcla.evaluation.privacy import LIMITS, MODEL_LIMITS
from adapcla.io.readers.open_data import data_folder

# Torch reads this when it is first loaded, in this process or in one that a test starts.
os.environ.setdefault("OMP_NUM_THREADS", "1")

REPOSITORY = Path(__file__).resolve().parent.parent

# The same examples every time, and no time limit for one of them: a shared machine may be slow at any moment.
# Explore with: pytest --hypothesis-profile=default
settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("steady")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slow tests first, so that no worker is left alone with them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("behaviour") is None)


@pytest.fixture(autouse=True)
def fresh_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `--quiet` or `--debug` of one test set in the environment is not there for the next."""
    for name in ("ADAPCLA_QUIET", "ADAPCLA_DEBUG"):
        monkeypatch.setenv(name, "")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def open_data_at() -> Callable[[str], Path]:
    """A function of a name below the folder of data; a test that asks for what is absent is skipped and says so."""
    folders = (REPOSITORY / data_folder(), REPOSITORY.parent / "shared" / "data")

    def place(name: str) -> Path:
        for folder in folders:
            if (folder / name).exists():
                return folder / name
        return pytest.skip(f"no open data {name} in {folders[0]}: see docs/data.md, or set ADAPCLA_DATA")

    return place


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished experiment, tiny and quick; made once for all workers."""
    import fcntl

    from adapcla.study.runner import StudyPlan
    from adapcla.study.spec import study_from

    base = tmp_path_factory.getbasetemp()
    # Workers that run side by side share the folder above their own.
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    world = {"patients": 260, "codes": 60, "seed": 1}
    settings = {"width": 16, "layers": 1, "heads": 2, "passes": 2, "batch_size": 32}
    shifted = {"source": "planted", "planted": {**world, "seed": 2, "population": "shifted"}}
    spec = study_from(
        {
            "name": "tiny",
            "title": "A tiny experiment",
            "real": False,
            "data": {"source": "planted", "planted": world},
            "split": {"control": 0.2},
            "fit": {"methods": ["adapcla", "adapcla-no-scaffold"], "settings": settings},
            "evaluate": {"quick": True},
            "targets": {"shifted": {"data": shifted, "modes": ["none", "paper"]}},
            "analyse": {"parts": ["bound"], "quick": True},
        }
    )
    with (base / "finished-run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return StudyPlan(spec, base / "finished").run().parent


def write_hospital_table(path: Path, patients: int = 560, marked: int = 12) -> Path:
    """A table as a hospital might keep it: made-up patients under ids and dates that are found again if they leak."""
    import datetime

    from tests.simulated import with_marked_patients

    from adapcla.io.simulator import simulate
    from adapcla.io.simulator.codes import code_layout

    world = with_marked_patients(simulate(patients, 80, seed=1), code_layout(80), marked)
    assert world.days is not None
    lines = ["patient_id,date,code"]
    for visit in range(world.n_visits):
        patient = int(world.patient_of_visit[visit])
        day = datetime.date(1931, 1, 1) + datetime.timedelta(days=17 * (patient % 200) + int(world.days[visit]))
        codes = [world.vocabulary.codes[code].code for code in world.codes_of(visit)]
        lines += [f"MRN7{patient:05d},{day.isoformat()},{code}" for code in codes]
    path.write_text("\n".join(lines) + "\n")
    return path


#: So few patients cannot show that every line of the gate is kept.
ACCEPTED: dict[str, Any] = {
    "accept": (
        *(limit.name for limit in (*LIMITS, *MODEL_LIMITS)),
        *("prevalence", "codes_per_visit"),
    ),
    "reason": "a test with few made-up patients",
}
#: The same on the command line.
ACCEPTING = (*(f"--accept={name}" for name in ACCEPTED["accept"]), f"--reason={ACCEPTED['reason']}")
#: Settings with which a release takes seconds.
TINY_RELEASE: dict[str, Any] = {
    "fit.settings": {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 64},
    "evaluate.suites": ("tail", "fidelity", "privacy"),
    "evaluate.quick": True,
}


@pytest.fixture(scope="session")
def finished_release(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The plan of a finished release of a hospital's table, tiny and quick; made once for all workers."""
    import fcntl

    from adapcla.release.plan import ReleasePlan
    from adapcla.release.settings import release_settings

    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (base / "finished-release.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        table = base / "hospital.csv"
        if not table.exists():
            write_hospital_table(table)
        settings = release_settings(
            "table",
            str(table),
            options={"system": "PLANTED"},
            formats=("csv", "meds", "fhir"),
            changes=TINY_RELEASE,
            **ACCEPTED,
        )
        plan = ReleasePlan(settings, base / "release")
        plan.run()
        return plan


@pytest.fixture
def tiny() -> Cohort:
    """Three patients, five visits, four codes: small enough to count by eye.

    patient 0: {A, B} then {B};  patient 1: {C};  patient 2: {A, B, D} then {A}
    Visits that hold A: 3, B: 3, C: 1, D: 1.
    """
    return Cohort.of([[["A", "B"], ["B"]], [["C"]], [["A", "B", "D"], ["A"]]])


@pytest.fixture
def tiny_full() -> Cohort:
    """The patients of `tiny` with everything a cohort can carry: days, labels, attributes, descriptions, a card."""
    vocabulary = Vocabulary.of(
        [
            Code("A", "SYS", "1", "A", "Alpha, with a comma"),
            Code("B", "SYS", "1", "B", "Beta"),
            Code("C", "SYS", "1", "C", "", "procedure"),
            Code("D", "SYS", "2", "D", "Δ is not ASCII", "drug"),
        ]
    )
    return Cohort.of(
        [[["A", "B"], ["B"]], [["C"]], [["A", "B", "D"], ["A"]]],
        vocabulary,
        days=np.array([0, 30, 0, 0, 7], dtype=np.int32),
        labels=np.array([[1, 0], [0, 0], [1, 1]], dtype=np.uint8),
        label_names=("first", "second"),
        attributes={"sex": Attribute(np.array([0, 1, -1], dtype=np.int16), ("F", "M"))},
        card={"source": "by hand", "dropped": {"empty visits": 2}},
    )


@pytest.fixture
def whole() -> Cohort:
    """Two patients with numbers of several domains, choice groups, and stays of which one ends with a death."""
    vocabulary = Vocabulary.of(
        [
            Code.of("4019", "ICD9CM"),
            Code.of("5491", "ICD9PROC", domain="procedure"),
            *(Code.of(f"insulin.{dose}", "DRUG", domain="drug", group="DRUG/insulin") for dose in ("down", "up")),
            Code.of("50931", "LAB", description="Glucose", domain="lab", unit="mg/dL"),
            Code.of("x", "ODD", unit="°F"),
            LENGTH_OF_STAY,
            *(visit_kind_code(name) for name in ("elective", "home", "inpatient")),
            *(discharge_code(name) for name in ("died", "facility", "home")),
        ]
    )
    first = [["ICD9CM/4019", "LAB/50931", "STAY/days", "KIND/elective", "END/home"], ["KIND/home"]]
    first.append(["DRUG/insulin.up", "ODD/x", "STAY/days", "END/died"])
    last = [["ICD9PROC/5491", "DRUG/insulin.down", "KIND/inpatient", "END/facility"]]
    # By visit, codes in string order: glucose and days of the first, ODD/x and days of the third.
    numbers = {"LAB/50931": [5.4], "STAY/days": [3.25, 0.02], "ODD/x": [98.6]}
    flat = [token for visit in (*first, *last) for token in sorted(visit)]
    values = [numbers[token].pop(0) if token in numbers else np.nan for token in flat]
    return Cohort.of(
        [first, last],
        vocabulary,
        values=np.array(values, dtype=np.float32),
        days=np.array([0, 5, 9, 0], dtype=np.int32),
        attributes={"age_band": Attribute(np.array([0, 1], dtype=np.int16), ("60-69", "70-79"))},
    )
