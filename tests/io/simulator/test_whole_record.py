"""Whole records of a simulated world: patients follow its probabilities, and disorders stay what they were."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.io import simulator as planted
from adapcla.io.simulator.whole_record import DRUG, ENDS, INPATIENT_ENDS, KINDS, PROCEDURE

CODES, PATIENTS = 40, 6000


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return planted.simulate(PATIENTS, CODES, seed=1, whole=True)


@pytest.fixture(scope="module")
def whole() -> planted.WholeRecordWorld:
    return planted.WholeRecordWorld(planted.make_world(CODES))


def holds(cohort: Cohort, token: str) -> NDArray[np.bool_]:
    """Which visits hold a code."""
    return np.asarray(cohort.matrix()[:, [cohort.vocabulary.index[token]]].todense()).ravel() > 0


def near(share: float, law: float, n: int) -> bool:
    """Whether a share of n visits is within four standard errors of its law."""
    return abs(share - law) <= 4 * np.sqrt(law * (1 - law) / n) + 1e-12


def test_disorders_are_those_of_the_world_without_it(cohort: Cohort, whole: planted.WholeRecordWorld) -> None:
    plain = planted.simulate(PATIENTS, CODES, seed=1)
    assert plain.values is None
    first, before = cohort.first_visits, plain.first_visits
    for token in plain.vocabulary.tokens[::7]:
        assert np.array_equal(holds(cohort, token)[first], holds(plain, token)[before])
    assert (cohort.visits_per_patient <= plain.visits_per_patient).all()
    shorter = cohort.visits_per_patient < plain.visits_per_patient
    assert cohort.died()[shorter].all()
    assert planted.world_of(cohort) is None  # the law of disorders alone is not the law of these visits


def test_patients_are_the_same_for_any_number_of_them(cohort: Cohort) -> None:
    few = planted.simulate(50, CODES, seed=1, whole=True)
    assert few.fingerprint == cohort.subset(np.arange(50)).fingerprint


def test_nothing_follows_upon_death(cohort: Cohort) -> None:
    dead = np.flatnonzero(holds(cohort, "END/died"))
    assert len(dead) > 50
    assert np.isin(dead, cohort.last_visits).all()


def test_kinds_and_endings_follow_their_law(cohort: Cohort, whole: planted.WholeRecordWorld) -> None:
    first = cohort.first_visits
    for kind, law in zip(KINDS, whole.first_kinds, strict=True):
        assert near(holds(cohort, f"KIND/{kind}")[first].mean(), law, len(first))
    assert whole.first_kinds.sum() == pytest.approx(1.0)
    severe = holds(cohort, whole.world.vocabulary.tokens[whole.marked[3]])
    for kind in KINDS:
        for with_disorder in (False, True):
            here = holds(cohort, f"KIND/{kind}") & (severe == with_disorder)
            for end, law in whole.end_chances(kind, with_disorder).items():
                assert near(holds(cohort, f"END/{end}")[here].mean(), law, int(here.sum()))
    assert INPATIENT_ENDS.sum(axis=1) == pytest.approx([1.0, 1.0])
    assert set(ENDS) == {"home", "facility", "died"}


@pytest.mark.parametrize(("token", "mark", "law"), [("RX/belovin", 1, DRUG), ("PX/corscopy", 2, PROCEDURE)])
def test_drug_and_procedure_follow_their_disorder(
    cohort: Cohort, whole: planted.WholeRecordWorld, token: str, mark: int, law: tuple[float, float]
) -> None:
    has = holds(cohort, whole.world.vocabulary.tokens[whole.marked[mark]])
    for with_disorder in (False, True):
        here = has == with_disorder
        assert near(holds(cohort, token)[here].mean(), law[with_disorder], int(here.sum()))


def test_stays_have_their_length(cohort: Cohort, whole: planted.WholeRecordWorld) -> None:
    assert cohort.values is not None
    entries = np.asarray(cohort.codes) == cohort.vocabulary.index["STAY/days"]
    visit, days = cohort.visit_of_entry[entries], cohort.values[entries]
    assert np.array_equal(np.sort(visit), np.flatnonzero(holds(cohort, "KIND/inpatient")))
    longer = holds(cohort, whole.world.vocabulary.tokens[whole.marked[0]])[visit]
    for with_disorder in (False, True):
        mine = days[longer == with_disorder]
        assert abs(mine.mean() - whole.mean_days(with_disorder)) < 4 * mine.std() / np.sqrt(len(mine))


def test_values_have_their_mean_and_correlation(cohort: Cohort, whole: planted.WholeRecordWorld) -> None:
    assert cohort.values is not None
    for value in whole.measured:
        entries = np.asarray(cohort.codes) == cohort.vocabulary.index[value.code.token]
        has = holds(cohort, whole.world.vocabulary.tokens[value.disorder])[cohort.visit_of_entry[entries]]
        numbers = cohort.values[entries].astype(float)
        assert near(entries.sum() / cohort.n_visits, value.chance, cohort.n_visits)
        assert abs(numbers.mean() - value.mean_at(has.mean())) < 4 * numbers.std() / np.sqrt(len(numbers))
        assert np.corrcoef(numbers, has)[0, 1] == pytest.approx(value.correlation_at(has.mean()), abs=0.03)


def test_another_world_has_other_laws(whole: planted.WholeRecordWorld) -> None:
    other = planted.WholeRecordWorld(planted.make_world(CODES, law_seed=planted.LAW_SEED + 1))
    assert other.vocabulary == whole.vocabulary
    assert [(v.disorder, v.shift) for v in other.measured] != [(v.disorder, v.shift) for v in whole.measured]
    assert np.abs(other.first_kinds - whole.first_kinds).max() > 0.02
