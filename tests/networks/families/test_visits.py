"""From settings to a network."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError

from adapcla.networks.contract import Shape
from adapcla.networks.families.gpt import GptArchitecture
from adapcla.networks.families.synteg import SyntegArchitecture
from adapcla.networks.families.visits import VisitArchitecture, visit_network
from adapcla.networks.heads import BlockwiseHead, IndependentHead
from adapcla.networks.layers import CausalTrunk, RecurrentTrunk
from adapcla.records import Cohort


def _built(cohort: Cohort, **changes: object):  # type: ignore[no-untyped-def]
    architecture = VisitArchitecture(width=16, layers=1, heads=2, **changes)  # type: ignore[arg-type]
    return visit_network(architecture, Shape(cohort.n_codes, 48), cohort.prevalence())


def test_parts_follow_the_settings(tiny: Cohort) -> None:
    assert isinstance(_built(tiny).head, IndependentHead)
    assert isinstance(_built(tiny, head="blockwise").head, BlockwiseHead)
    assert isinstance(_built(tiny).trunk, CausalTrunk)
    assert isinstance(_built(tiny, trunk="lstm").trunk, RecurrentTrunk)


def test_codes_are_ranked_from_frequent_to_rare(tiny: Cohort) -> None:
    """Ties by code string, and codes of one to ten visits are tied."""
    assert _built(tiny).code_of_rank.tolist() == [0, 1, 2, 3]
    visits = [["A", "D"]] + [["B", "C"]] * 2 + [["C", "D"]] * 11
    assert _built(Cohort.of([visits])).code_of_rank.tolist() == [2, 3, 0, 1]


def test_families_only_where_the_vocabulary_has_them(tiny: Cohort) -> None:
    icd = Cohort.of([[["25000", "25001", "4019", "4280"]]])
    assert len(_built(icd, hierarchy=True).table.parts) == 3
    assert len(_built(tiny, hierarchy=True).table.parts) == 0


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


def test_credibility_follows_the_counts(tiny: Cohort) -> None:
    """Counts 3, 3, 1, 1 with half belief at 3 visits: 1/2, 1/2, 1/4, 1/4; off by default."""
    table = _built(tiny, credibility=3.0).table
    ((_, members, belief),) = table.shares()
    assert members is None and belief[:, 0].tolist() == pytest.approx([0.5, 0.5, 0.25, 0.25])
    assert [belief for *_, belief in _built(tiny).table.shares()] == [None]


def test_a_family_of_one_rare_code_is_believed_no_more_than_the_code() -> None:
    """Counts 6, 2, 2; the first two share a category (8 visits), the third has its own (2); half belief at 2 visits."""
    visits = [["25000"]] * 4 + [["25000", "25001"]] * 2 + [["4019"]] * 2
    cohort = Cohort.of([[visit] for visit in visits])
    network = visit_network(
        VisitArchitecture(width=8, heads=2, layers=1, hierarchy=True, credibility=2.0),
        Shape(3, 48),
        cohort.prevalence(),
    )
    beliefs = (belief for *_, belief in network.table.shares() if belief is not None)
    own, category, section, chapter = (belief[:, 0].tolist() for belief in beliefs)
    assert own == pytest.approx([6 / 8, 2 / 4, 2 / 4])
    assert category == pytest.approx([8 / 10, 8 / 10, 2 / 4])
    assert section == chapter == pytest.approx([8 / 10, 8 / 10, 2 / 4])
