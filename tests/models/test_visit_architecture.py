"""From settings to a network."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError

from adapcla.data import Cohort
from adapcla.models.base import Shape
from adapcla.models.gpt import GptArchitecture
from adapcla.models.halo import HaloHead
from adapcla.models.independent_head import IndependentHead
from adapcla.models.layers import CausalTrunk, RecurrentTrunk
from adapcla.models.synteg import SyntegArchitecture
from adapcla.models.visit_transformer import VisitArchitecture, visit_network


def _built(cohort: Cohort, **changes: object):  # type: ignore[no-untyped-def]
    architecture = VisitArchitecture(width=16, layers=1, heads=2, **changes)  # type: ignore[arg-type]
    return visit_network(architecture, Shape(cohort.n_codes, 48), cohort.prevalence())


def test_parts_follow_the_settings(tiny: Cohort) -> None:
    assert isinstance(_built(tiny).head, IndependentHead)
    assert isinstance(_built(tiny, head="halo").head, HaloHead)
    assert isinstance(_built(tiny).trunk, CausalTrunk)
    assert isinstance(_built(tiny, trunk="lstm").trunk, RecurrentTrunk)


def test_codes_are_ranked_from_frequent_to_rare(tiny: Cohort) -> None:
    """Ties by code string, and codes of one to ten visits are tied."""
    assert _built(tiny).code_of_rank.tolist() == [0, 1, 2, 3]
    visits = [["A", "D"]] + [["B", "C"]] * 2 + [["C", "D"]] * 11
    assert _built(Cohort.of([visits])).code_of_rank.tolist() == [2, 3, 0, 1]


def test_the_output_bias_is_the_log_odds_of_the_prevalence(tiny: Cohort) -> None:
    bias = _built(tiny).head.bias
    torch.testing.assert_close(torch.sigmoid(bias.detach()), torch.tensor([0.6, 0.6, 0.2, 0.2]), atol=1e-4, rtol=0)


def test_an_unknown_setting_is_an_error() -> None:
    with pytest.raises(ValidationError, match="widht"):
        VisitArchitecture(widht=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("kind", [VisitArchitecture, GptArchitecture, SyntegArchitecture])
def test_a_width_that_the_heads_cannot_share_is_refused(kind: type) -> None:
    with pytest.raises(ValueError, match="7 heads"):
        kind(width=16, heads=7)


def test_a_recurrent_trunk_has_no_heads_to_share_with() -> None:
    assert VisitArchitecture(trunk="lstm", width=17).width == 17
