"""Attacks on a model, through the arrays that its maker hands over."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.errors import InputError
from adapcla.evaluation.comparison import ALL, Comparison
from adapcla.evaluation.metric import METRICS
from adapcla.evaluation.privacy.likelihoods import NO_ATTACK_MODELS, NO_MODEL, model_scores
from adapcla.seeds import random_stream

N = 60


def _comparison(evidence: dict[str, np.ndarray]) -> Comparison:
    """60 members of one code, 60 controls of two; the synthetic patient does not matter."""
    train, control = Cohort.of([[["A"]]] * N, ["A", "B"]), Cohort.of([[["A", "B"]]] * N, ["A", "B"])
    return Comparison.of(train, control, Cohort.of([[["B"]]], ["A", "B"]), control=control, evidence=evidence)


def _memorised() -> dict[str, np.ndarray]:
    """Per code the model gives members −1 and controls −3; attack models give all −3, give or take."""
    noise = random_stream(1, "references").normal(scale=0.1, size=(2, N, 4))
    return {
        "member_log_likelihood": np.full(N, -1.0),
        "control_log_likelihood": np.full(N, -6.0),
        "member_attack_models": -3.0 + noise[0],
        "control_attack_models": 2 * (-3.0 + noise[1]),
    }


@pytest.mark.parametrize("attack", ["likelihood", "reference", "lira"])
def test_a_model_that_knows_its_members_is_caught(attack: str) -> None:
    comparison = _comparison(_memorised())
    assert METRICS[f"membership_{attack}_auc"].compute(comparison)[ALL].value == 1.0
    assert METRICS[f"membership_{attack}_caught"].compute(comparison)[ALL].value == 1.0


def test_likelihoods_are_per_code() -> None:
    """Members hold one code with −1, controls two codes with −2 together: per code nobody stands out."""
    given = {"member_log_likelihood": np.full(N, -1.0), "control_log_likelihood": np.full(N, -2.0)}
    assert METRICS["membership_likelihood_auc"].compute(_comparison(given))[ALL].value == 0.5


def test_without_a_model_or_attack_models_the_reason_is_named() -> None:
    assert METRICS["membership_lira_auc"].compute(_comparison({}))[ALL].reason == NO_MODEL.reason
    alone = {name: value for name, value in _memorised().items() if "attack_models" not in name}
    assert METRICS["membership_reference_auc"].compute(_comparison(alone))[ALL].reason == NO_ATTACK_MODELS.reason
    few = {name: value[:, :3] if "attack_models" in name else value for name, value in _memorised().items()}
    assert METRICS["membership_lira_auc"].compute(_comparison(few))[ALL].reason == "3 attack models, 4 needed"


def test_rows_that_do_not_fit_the_cohort_are_refused() -> None:
    given = _memorised()
    given["member_log_likelihood"] = given["member_log_likelihood"][1:]
    with pytest.raises(InputError, match="'member_log_likelihood' with 59 rows"):
        model_scores(_comparison(given), "likelihood")


def test_values_that_are_not_numbers_are_refused() -> None:
    given = _memorised()
    given["control_attack_models"][3, 1] = np.nan
    with pytest.raises(InputError, match="1 values not finite"):
        model_scores(_comparison(given), "reference")


def test_models_trained_on_the_patient_are_used_where_they_are_told() -> None:
    """Attack models that saw a patient give −1 per code, others −3: the model's −1 says member."""
    included = np.tile([True, True, False, False], (N, 1))
    given = _memorised()
    for side, codes in (("member", 1), ("control", 2)):
        given[f"{side}_included"] = included
        given[f"{side}_attack_models"] = given[f"{side}_attack_models"] + codes * 2.0 * included
    scores = model_scores(_comparison(given), "lira")
    assert not isinstance(scores, str)
    assert (scores[0] > 0).all() and (scores[1] < 0).all()
