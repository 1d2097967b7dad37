"""A small world of whole records: diabetes raises glucose, values last, old people die, the ill stay longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from adapcla.data import Attribute, Code, Cohort
from adapcla.data.vocabulary import LENGTH_OF_STAY, discharge_code, visit_kind_code
from adapcla.evaluation.comparison import ALL, Comparison, Score
from adapcla.evaluation.metric import METRICS

GLUCOSE, SODIUM = (Code.of(name, "LAB", domain="lab", unit=unit) for name, unit in (("glucose", "mg/dL"), ("na", "1")))
CODES = (
    *(Code.of(name) for name in ("cold", "diabetes", "fracture", "sepsis")),
    *(Code.of(name, domain="drug") for name in ("aspirin", "insulin")),
    GLUCOSE,
    SODIUM,
    LENGTH_OF_STAY,
    *map(discharge_code, ("died", "facility", "home")),
    *map(visit_kind_code, ("inpatient", "outpatient")),
)
BANDS = ("under 60", "60 and more")
World = Callable[..., Cohort]


def whole_world(patients: int = 400, seed: int = 1) -> Cohort:
    """Patients of one to four visits with codes, two labs, a kind, a length and an ending."""
    draw = np.random.default_rng(seed)
    records: list[list[dict[str, float]]] = []
    days: list[int] = []
    old = draw.random(patients) < 0.5
    for who in range(patients):
        diabetic, own, day, record = draw.random() < 0.4, draw.normal(), 0, []
        for _ in range(draw.integers(1, 5)):
            visit = _visit(draw, bool(diabetic), float(own), bool(old[who]))
            record.append(visit)
            days.append(day)
            day += int(draw.choice([10, 200])) + round(visit.get(LENGTH_OF_STAY.token, 0))
            if discharge_code("died").token in visit:
                break
        records.append(record)
    values = [visit[token] for record in records for visit in record for token in sorted(visit)]
    return Cohort.of(
        [[list(visit) for visit in record] for record in records],
        CODES,
        values=np.array(values, dtype=np.float32),
        days=np.array(days, dtype=np.int32),
        attributes={"age_band": Attribute(old.astype(np.int16), BANDS)},
    )


def _visit(draw: np.random.Generator, diabetic: bool, own: float, old: bool) -> dict[str, float]:
    """One visit: its codes and, of numbers, their values."""
    ill = draw.random() < 0.3
    days = draw.gamma(2.0, 3.0 if ill else 1.0)
    died = draw.random() < (0.35 if old and ill else 0.01)
    codes = {"cold": draw.random() < 0.3, "fracture": draw.random() < 0.2, "sepsis": ill, "diabetes": diabetic}
    codes |= {"insulin": diabetic and draw.random() < 0.7, "aspirin": draw.random() < 0.3}
    out = {token: np.nan for token, there in codes.items() if there}
    out[GLUCOSE.token] = round(100 + 60 * diabetic + 10 * own + 5 * draw.normal())
    if draw.random() < 0.8:
        out[SODIUM.token] = round(140 - 4 * ill + 2 * draw.normal())
    out[visit_kind_code("inpatient" if ill or draw.random() < 0.5 else "outpatient").token] = np.nan
    out[LENGTH_OF_STAY.token] = round(days, 1)
    out[discharge_code("died" if died else "facility" if draw.random() < 0.2 else "home").token] = np.nan
    return out


@pytest.fixture(scope="session")
def world() -> World:
    """A function of a number of patients and a seed."""
    return whole_world


def scores_of(
    key: str, train: Cohort, synthetic: Cohort, test: Cohort | None = None, **options: Any
) -> dict[str, Score]:
    """The scores of a metric by stratum; the training patients are the test patients unless these are given."""
    return METRICS[key].compute(Comparison.of(train, train if test is None else test, synthetic, **options))


def score_of(key: str, train: Cohort, synthetic: Cohort, test: Cohort | None = None, **options: Any) -> Score:
    """The headline of a metric."""
    return scores_of(key, train, synthetic, test, **options)[ALL]


def value_of(key: str, train: Cohort, synthetic: Cohort, test: Cohort | None = None, **options: Any) -> Any:
    """The value of the headline of a metric."""
    return score_of(key, train, synthetic, test, **options).value
