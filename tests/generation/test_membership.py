"""Likelihoods for membership attacks: shapes, and that a model which learned by heart is read by them."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data.split import Split
from adapcla.errors import UsageError
from adapcla.evaluation import evaluate
from adapcla.generation import Generator, generator_for
from adapcla.generation.membership import evidence
from adapcla.io import simulator as planted


def test_rows_follow_the_cohorts_and_halves_are_halves(plain: Generator, parts: Split) -> None:
    found = evidence(plain.model, parts.train, parts.test, attack_models=2, seed=1)
    n, m = parts.train.n_patients, parts.test.n_patients
    assert found["member_log_likelihood"].shape == (n,) and found["control_log_likelihood"].shape == (m,)
    assert found["member_attack_models"].shape == (n, 2) and found["control_included"].shape == (m, 2)
    seen = np.concatenate([found["member_included"], found["control_included"]])
    assert seen.mean(axis=0) == pytest.approx([0.45, 0.45], abs=0.01)


def test_one_attack_model_is_refused(plain: Generator, parts: Split) -> None:
    with pytest.raises(UsageError, match="at least 2"):
        evidence(plain.model, parts.train, parts.test, attack_models=1)


def test_a_model_that_learned_by_heart_is_read_by_likelihood() -> None:
    """Some 290 patients, forty passes without dropout: members are far more likely than controls."""
    train, valid, test = planted.simulate(patients=400, codes=200, seed=1).split(seed=4)
    learned = generator_for(
        "adapcla", width=32, layers=1, heads=2, passes=40, batch_size=32, dropout=0.0, schedule="none", patience=99,
        validations=1, weight_decay=0.0, table_decay=0.0,
    ).fit(train, valid)  # fmt: skip
    given = evidence(learned.model, train, test, attack_models=0)
    scores = evaluate(
        train, test, learned.sample(200, seed=1), suites=["privacy"], control=test, quick=True, evidence=given
    )
    assert (scores.values()["membership_likelihood_auc"] or 0) > 0.7


def test_attack_models_are_fitted_as_the_model_was(parts: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of two stages has attack models of two stages: as many steps for as many patients."""
    from adapcla.generation import membership

    steps = []

    def count(*arguments: object) -> object:
        fitted = fit(*arguments)
        steps.append(fitted[0].facts["first stage"]["steps"])
        return fitted

    fit = membership.fit
    monkeypatch.setattr(membership, "fit", count)
    small = {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 64, "validations": 2}
    released = generator_for("adapcla-release", **small).fit(parts.train, parts.valid)
    evidence(released.model, parts.train, parts.test, attack_models=2)
    assert len(steps) == 2 and min(steps) > 0
