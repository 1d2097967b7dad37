"""A fit of the whole planted record finds the laws that drew it; the laws of another world it does not find."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.data.quantization import Quantizer
from adapcla.generation import Generator, generator_for
from adapcla.io import simulator as planted

CODES, PATIENTS, DRAWN = 40, 16_000, 6000
SMALL: dict[str, Any] = {"width": 32, "layers": 1, "heads": 2, "batch_size": 128, "learning_rate": 1e-2, "dropout": 0.0}


class Fitted(NamedTuple):
    """A generator, what it wrote, and how many first visits it learned from."""

    generator: Generator
    drawn: Cohort
    n_learned: int


def fitted(method: str = "adapcla-no-scaffold", patients: int = PATIENTS, **settings: Any) -> Fitted:
    train, valid, _ = planted.simulate(patients, CODES, seed=1, whole=True).split(seed=4)
    generator = generator_for(method, **SMALL, **settings).fit(train, valid)
    return Fitted(generator, generator.sample(DRAWN, seed=3), train.n_patients)


@pytest.fixture(scope="module")
def tailwise() -> Fitted:
    """So small a network knows only part of what the many numbers say."""
    return fitted("tailwise", passes=16)


@pytest.fixture(scope="module")
def independent() -> Fitted:
    return fitted(patients=6000, passes=4)


def law(seed: int = planted.LAW_SEED) -> planted.WholeRecordWorld:
    return planted.WholeRecordWorld(planted.make_world(CODES, law_seed=seed))


WRONG = planted.LAW_SEED + 1


def holds(cohort: Cohort, token: str) -> NDArray[np.bool_]:
    return np.asarray(cohort.matrix()[:, [cohort.vocabulary.index[token]]].todense()).ravel() > 0


def errors_off(found: float, true: float, n_drawn: int, n_learned: int) -> float:
    """How many standard errors a share is off, of what was drawn and of what was learned from."""
    return float(abs(found - true) / np.sqrt(true * (1 - true) * (1 / n_drawn + 1 / n_learned)))


def kinds_off(fit: Fitted, world: planted.WholeRecordWorld) -> float:
    """The largest deviation of kinds at first visits, in standard errors."""
    first = fit.drawn.first_visits
    return max(
        errors_off(holds(fit.drawn, f"KIND/{kind}")[first].mean(), true, DRAWN, fit.n_learned)
        for kind, true in zip(("inpatient", "emergency", "outpatient"), world.first_kinds, strict=True)
    )


def correlations(drawn: Cohort, world: planted.WholeRecordWorld) -> NDArray[np.float64]:
    """(values, 2) the correlation of each value with its disorder, as it was found and by the law."""
    assert drawn.values is not None
    rows = []
    for value in world.measured:
        entries = np.asarray(drawn.codes) == drawn.vocabulary.index[value.code.token]
        has = holds(drawn, world.world.vocabulary.tokens[value.disorder])[drawn.visit_of_entry[entries]]
        found = np.corrcoef(drawn.values[entries].astype(float), has)[0, 1]
        rows.append((found, value.correlation_at(has.mean())))
    return np.array(rows)


def correlations_off(drawn: Cohort, world: planted.WholeRecordWorld) -> float:
    """The largest deviation of a correlation of value and disorder from the law."""
    return float(np.abs(np.diff(correlations(drawn, world))).max())


def test_bands_alone_take_little_of_a_correlation() -> None:
    real = planted.simulate(PATIENTS, CODES, seed=1, whole=True)
    bands = Quantizer.of(real)
    back = bands.dequantize(bands.quantize(real), seed=1)
    assert np.abs(correlations(real, law())[:, 0] - correlations(back, law())[:, 0]).max() < 0.02


@pytest.mark.parametrize("head", ["independent", "tailwise"])
def test_kinds_come_at_their_chances(head: str, request: pytest.FixtureRequest) -> None:
    fit: Fitted = request.getfixturevalue(head)
    assert kinds_off(fit, law()) < 4
    assert kinds_off(fit, law(WRONG)) > 4


def test_values_go_with_disorders(tailwise: Fitted) -> None:
    assert correlations_off(tailwise.drawn, law()) < 0.08
    assert correlations_off(tailwise.drawn, law(WRONG)) > 0.2


def test_independent_draws_do_not_go_together(independent: Fitted) -> None:
    """The check can fail: values that know the history alone."""
    assert correlations_off(independent.drawn, law()) > 0.3


def test_endings_follow_kind_and_disorder(tailwise: Fitted) -> None:
    drawn, world = tailwise.drawn, law()
    severe = holds(drawn, world.world.vocabulary.tokens[world.marked[3]])
    inpatient, dead = holds(drawn, "KIND/inpatient"), holds(drawn, "END/died")
    assert dead[~inpatient].mean() < 0.005
    share = severe[inpatient].mean()
    true = sum(
        part * world.end_chances("inpatient", with_disorder)["died"]
        for part, with_disorder in ((1 - share, False), (share, True))
    )
    n = int(inpatient.sum())
    assert errors_off(dead[inpatient].mean(), true, n, n) < 4
    for with_disorder in (False, True):
        found = dead[inpatient & (severe == with_disorder)].mean()
        assert abs(found - world.end_chances("inpatient", with_disorder)["died"]) < 0.08
    assert dead[inpatient & severe].mean() > 3 * dead[inpatient & ~severe].mean()


def test_stays_and_drugs_follow_their_disorders(tailwise: Fitted) -> None:
    drawn, world = tailwise.drawn, law()
    assert drawn.values is not None
    entries = np.asarray(drawn.codes) == drawn.vocabulary.index["STAY/days"]
    longer = holds(drawn, world.world.vocabulary.tokens[world.marked[0]])[drawn.visit_of_entry[entries]]
    for with_disorder in (False, True):
        found = drawn.values[entries][longer == with_disorder].mean()
        assert found == pytest.approx(world.mean_days(with_disorder), rel=0.3)
    treated = holds(drawn, world.world.vocabulary.tokens[world.marked[1]])
    assert holds(drawn, "RX/belovin")[treated].mean() == pytest.approx(0.7, abs=0.05)
    assert holds(drawn, "RX/belovin")[~treated].mean() == pytest.approx(0.03, abs=0.02)


def test_nothing_is_written_after_death(tailwise: Fitted) -> None:
    dead = np.flatnonzero(holds(tailwise.drawn, "END/died"))
    assert len(dead) > 50
    assert np.isin(dead, tailwise.drawn.last_visits).all()
