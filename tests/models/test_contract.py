"""The contract of networks names what the one loop and the one sampler call."""

from __future__ import annotations

import numpy as np

from adapcla.models.base import DrawRule, Network, Shape
from adapcla.models.visit_transformer import VisitNetwork


def test_the_visit_network_offers_everything_the_contract_asks_for() -> None:
    asked = {name for name in vars(Network) if not name.startswith("_")}
    assert asked <= set(dir(VisitNetwork))


def test_defaults_are_the_papers_inference() -> None:
    rule = DrawRule()
    assert rule.bias is None and rule.counts is None and rule.temperature == 1.0
    assert Shape(5, 3) == (5, 3, (), False, 0)
    assert np.isfinite(rule.temperature)
