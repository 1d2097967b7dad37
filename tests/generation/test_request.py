"""What a model may be asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from adapcla.data import Attribute, Cohort, Prevalence
from adapcla.data.criteria import Criteria
from adapcla.errors import UsageError
from adapcla.generation.conditional import Request
from adapcla.generation.model import Model
from adapcla.scaffold import Steering


@pytest.fixture
def model(small_model: Callable[..., Model]) -> Model:
    """C7 was never seen, C6 in five visits."""
    made = small_model("adapcla")
    share = np.where(np.arange(8) == 7, 0.0, 0.2)
    share[6] = 5 / 600
    return replace(made, prevalence=Prevalence(made.vocabulary, share, 600))


def refused(model: Model, said: str, condition: Criteria, **more: object) -> None:
    with pytest.raises(UsageError, match=said):
        Request(model, condition, **more).check()  # type: ignore[arg-type]


def test_what_training_never_showed_is_refused_with_what_is_nearest(model: Model) -> None:
    refused(model, r"C7: no training visit holds it[\s\S]*nearest that it has seen: C0", Criteria.of("C7"))
    Request(model, Criteria.of("C7|C6")).check()


def test_what_nobody_can_fulfil_is_refused(model: Model) -> None:
    refused(model, "with and without C1 at once", Criteria.of("C1", without="C1|C2"))
    refused(model, "the longest record of this model has 3", Criteria.of(visits="4.."))
    refused(model, "expected one of F, M", Criteria.of("C1", where=[("sex", "X")]))
    never = Steering(model.vocabulary, np.where(np.arange(8) == 1, -np.inf, 0.0), model.prevalence)
    refused(model, "never comes", Criteria.of("C1"), steering=never)


def test_a_shareable_model_refuses_what_too_few_training_patients_show(model: Model) -> None:
    shared = replace(model, shareable=True, prevalence=model.prevalence.suppress_small_counts())
    Request(model, Criteria.of("C6")).check()
    refused(shared, "fewer than 11 training patients", Criteria.of("C6"))
    Request(shared, Criteria.of("C1")).check()
    with pytest.raises(UsageError, match="made to be shared"):
        Request(shared, Criteria.of(["C1", "C2"])).check_company(0.01)
    Request(shared, Criteria.of(["C1", "C2"])).check_company(0.1)
    Request(model, Criteria.of(["C1", "C2"])).check_company(0.01)


def test_the_training_patients_decide_where_they_are_at_hand(model: Model) -> None:
    sex = Attribute(np.zeros(40, dtype=np.int16), ("F", "M"))
    train = Cohort.of([[["C1"]]] * 20 + [[["C2"]]] * 20, model.vocabulary, attributes={"sex": sex})
    said = r"no training patient is with C1; with C2\nnearest: with C1: 20 patients; with C2: 20 patients"
    refused(model, said, Criteria.of(["C1", "C2"]), train=train)
    few = train.subset(np.r_[0:5, 20:40])
    Request(model, Criteria.of("C1"), train=few).check()
    refused(replace(model, shareable=True), "fewer than 11", Criteria.of("C1"), train=few)
    refused(model, "with C1: fewer than 11", Criteria.of(["C1", "C2"]), train=few)


def test_the_share_of_the_attributes_counts(model: Model) -> None:
    shared = replace(model, shareable=True)
    Request(shared, Criteria.of("C1")).check_company(0.05)  # 15 of 300 patients, of whom about half are women
    with pytest.raises(UsageError, match="made to be shared"):
        Request(shared, Criteria.of("C1", where=[("sex", "F")])).check_company(0.05)
