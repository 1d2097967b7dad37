"""In the planted world the next visit follows from the history: real patients teach it, independent codes do not."""

import numpy as np
import pytest

from adapcla.evaluation import Comparison
from adapcla.evaluation.metric import METRICS
from adapcla.evaluation.references import marginal
from adapcla.io import simulator as planted

pytestmark = pytest.mark.behaviour


def test_real_patients_teach_the_next_visit_and_independent_codes_are_at_chance():
    everybody = planted.simulate(patients=6_000, codes=120, seed=1)
    train, test = everybody.subset(np.arange(3_750)), everybody.subset(np.arange(3_750, 6_000))
    real, floor = (
        Comparison.of(train, test, synthetic, quick=True) for synthetic in (train, marginal(train, 3_750, seed=1))
    )
    area, precision = METRICS["tstr_next_auroc"].compute, METRICS["tstr_next_auprc"].compute
    assert area(real)["all"].low > 0.5
    assert area(floor)["all"].value == pytest.approx(0.5, abs=0.05)
    for score in (area, precision):
        assert score(real)["all"].low > score(floor)["all"].high
