"""From settings to a network."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError

from adapcla.data import Cohort
from adapcla.models.contract import Shape
from adapcla.models.families.gpt import GptArchitecture
from adapcla.models.families.synteg import SyntegArchitecture
from adapcla.models.families.visits import VisitArchitecture, visit_network
from adapcla.models.heads import BlockwiseHead, IndependentHead
from adapcla.models.kinship import Kinship
from adapcla.models.layers import CausalTrunk, RecurrentTrunk


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


def test_rare_codes_come_first_in_the_mixed_order_and_in_blocks_of_their_own() -> None:
    """Of twenty codes, code i stands in 11 + i visits: those of fewer than 20 come first, the rarest at the head."""
    tokens = [f"C{i:02d}" for i in range(20)]
    cohort = Cohort.of([[[token for i, token in enumerate(tokens) if visit < 11 + i]] for visit in range(30)])
    network = _built(cohort, head="blockwise", order="mixed", rare_visits=20, blocks=6)
    assert network.code_of_rank.tolist() == [*range(9), *range(19, 8, -1)]
    assert network.head.sizes[:2] == [5, 4] and sum(network.head.sizes) == 20
    counted = _built(cohort, head="blockwise", counting=True, blocks=6).head
    assert counted.sizes[0] == 1 and sum(counted.sizes) == 20


def test_without_rare_codes_the_mixed_order_is_that_from_frequent_on() -> None:
    cohort = Cohort.of([[["A", "B", "C", "D"]]] * 30)
    mixed, frequent = (_built(cohort, head="blockwise", order=order) for order in ("mixed", "frequent"))
    assert torch.equal(mixed.code_of_rank, frequent.code_of_rank) and mixed.head.sizes == frequent.head.sizes


def test_sections_speak_for_codes_and_chapters_where_sections_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = Cohort.of([[["4019", "41000", "4110", "25000"]]] * 3)

    def kinship() -> Kinship | None:
        built: BlockwiseHead = _built(cohort, head="blockwise", company=2, kinship=True).head
        assert built.company is not None
        return built.company.kinship

    for most, families in ((1024, 3), (2, 2), (1, None)):
        monkeypatch.setattr("adapcla.models.families.visits.MOST_FAMILIES", most)
        kin = kinship()
        assert (None if kin is None else len(kin.cell)) == families


def test_a_network_without_new_parts_is_written_as_before() -> None:
    written = VisitArchitecture().model_dump()
    assert not {"order", "rare_visits", "counting", "kinship", "company"} & written.keys()
    assert VisitArchitecture(head="blockwise", order="mixed").model_dump()["rare_visits"] == 100


@pytest.mark.parametrize("setting", [{"counting": True}, {"order": "mixed"}, {"company": 2}])
def test_parts_of_blocks_need_blocks(setting: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="blockwise"):
        VisitArchitecture(**setting)  # type: ignore[arg-type]
