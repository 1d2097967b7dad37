"""The order of codes: what is tried, what is taken, and where nothing is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.data.split import Split
from adapcla.generation import generator_for, load
from adapcla.generation.orders import ORDERS, trial_passes, with_order
from adapcla.generation.settings import Settings

SMALL = {"width": 16, "layers": 1, "heads": 2, "blocks": 6, "passes": 1, "calibration_rounds": 0}


def settings(**changes: object) -> Settings:
    return generator_for("tailwise", **{**SMALL, **changes}).settings


@pytest.mark.parametrize("best", ORDERS)
def test_the_order_of_the_smaller_loss_is_taken(best: str, parts: Split) -> None:
    asked: list[Settings] = []

    def loss_of(tried: Settings, train: Cohort, valid: Cohort) -> float:
        asked.append(tried)
        return 1.0 if tried.architecture.order == best else 2.0  # type: ignore[attr-defined]

    chosen, losses = with_order(settings(seed=5), parts.train, parts.valid, loss_of)
    assert chosen.architecture.order == best  # type: ignore[attr-defined]
    assert losses == {order: 1.0 if order == best else 2.0 for order in ORDERS}
    assert [each.budget.passes for each in asked] == [2.0, 2.0]
    assert chosen == settings(seed=5, order=best)


@pytest.mark.parametrize(("mixed", "best"), [(9.96, "frequent"), (9.94, "mixed")])
def test_another_order_must_be_clearly_better(mixed: float, best: str, parts: Split) -> None:
    """By more than half a percent of the loss."""
    losses = {"frequent": 10.0, "mixed": mixed}
    chosen, _ = with_order(
        settings(),
        parts.train,
        parts.valid,
        lambda tried, *_: losses[tried.architecture.order],  # type: ignore[attr-defined]
    )
    assert chosen.architecture.order == best  # type: ignore[attr-defined]


def test_trials_see_few_patients_and_always_the_same(parts: Split) -> None:
    many = parts.train.subset(np.arange(8500) % parts.train.n_patients)
    seen: list[Cohort] = []

    def loss_of(tried: Settings, train: Cohort, valid: Cohort) -> float:
        seen.append(train)
        return 1.0

    for _ in range(2):
        with_order(settings(), many, parts.valid, loss_of)
    assert {cohort.n_patients for cohort in seen} == {8000}
    assert len({cohort.fingerprint for cohort in seen}) == 1


def test_nothing_is_tried_where_the_order_is_said_or_patients_are_protected(parts: Split) -> None:
    def loss_of(tried: Settings, train: Cohort, valid: Cohort) -> float:
        raise AssertionError("nothing is to be tried")

    said = settings(order="rare")
    assert with_order(said, parts.train, parts.valid, loss_of) == (said, {})
    protected = settings(company=0, privacy={"epsilon": 8})
    chosen, losses = with_order(protected, parts.train, parts.valid, loss_of)
    assert (chosen.architecture.order, losses) == ("frequent", {})  # type: ignore[attr-defined]
    assert trial_passes(said, 1000) == 0.0
    assert trial_passes(settings(), 1000) == 4.0


def test_a_fit_keeps_what_it_chose_and_a_warm_start_follows_it(parts: Split, tmp_path: Path) -> None:
    fitted = generator_for("tailwise", **SMALL).fit(parts.train, parts.valid)
    losses = fitted.model.facts["validation loss by order"]
    assert set(losses) == set(ORDERS)
    order = "mixed" if losses["mixed"] < 0.995 * losses["frequent"] else "frequent"
    folder = fitted.save(tmp_path / "model")
    assert load(folder).model.settings.architecture.order == order  # type: ignore[attr-defined]
    warm = generator_for("tailwise", **SMALL, starts_from=str(folder)).fit(parts.train, parts.valid)
    assert warm.model.settings.architecture.order == order  # type: ignore[attr-defined]
    assert "validation loss by order" not in warm.model.facts
