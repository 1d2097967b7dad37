"""The visit networks: a trunk over visits and a head for the codes of the next one.

AdaPCLA, its ablations, `tailwise`, the LSTM and HALO are rows of this family.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_serializer, model_validator
from torch import Tensor, nn

from adapcla.data import Hierarchy, Prevalence
from adapcla.data.vocabulary import DEATH
from adapcla.models.block_order import all_blocks
from adapcla.models.company import Company, frequency_band
from adapcla.models.contract import Shape
from adapcla.models.counting import Counting
from adapcla.models.family import Architecture, Family, Row, Traits
from adapcla.models.groups import Groups
from adapcla.models.halo import HaloHead
from adapcla.models.heads import BlockwiseHead, Head, IndependentHead
from adapcla.models.kinship import MOST_FAMILIES, Kinship
from adapcla.models.layers import CausalTrunk, CodeTable, RecurrentTrunk, VisitEmbedding
from adapcla.models.leads import Leads
from adapcla.models.objective import ScaffoldedLikelihood
from adapcla.models.ranks import ranked
from adapcla.models.recall import N_FACTS, Recall
from adapcla.models.visits import VisitNetwork
from adapcla.scaffold import Scaffold


class VisitArchitecture(Architecture):
    """The visit network: a trunk over visits and a head for the codes of the next one."""

    family: Literal["visits"] = "visits"
    trunk: Literal["transformer", "lstm"] = "transformer"
    head: Literal["independent", "blockwise", "halo"] = "independent"
    layers: int = Field(4, ge=1)
    heads: int = Field(8, ge=1)
    blocks: int = Field(24, ge=1, description="Blocks of the blockwise head; beyond 60, one for four codes at most.")
    hidden: int = Field(64, ge=0, description="Width of the within-visit state of the blockwise head; 0 for none.")
    order: Literal["frequent", "rare", "mixed", "tried"] = Field(
        "frequent",
        description="Which codes of a visit come first in blocks; mixed: rare ones, then from frequent on; tried: "
        "frequent or mixed, as validation patients like better after short fits.",
    )
    rare_visits: int = Field(
        100, ge=1, description="Codes of fewer training visits than this come first where the order is mixed."
    )
    counting: bool = Field(False, description="Tell each block how many codes the visit holds so far.")
    company: int = Field(0, ge=0, description="Patients from which a pair of codes counts in the prior; 0: no prior.")
    kinship: bool = Field(False, description="Let families of codes speak of each other too, where company does.")
    leads: bool = Field(False, description="Let codes of the visit before speak of new ones too, where company does.")
    hierarchy: bool = Field(False, description="Add parts of category, section and chapter where codes show them.")
    recall: bool = Field(False, description="Add a part that all codes share: whether the patient had the code before.")

    @property
    def depth(self) -> int:
        """Layers of the trunk."""
        return self.layers

    @property
    def attention_heads(self) -> int:
        """Heads of the trunk's attention."""
        return self.heads if self.trunk == "transformer" else 1

    @property
    def counts_pairs(self) -> bool:
        """Pairs are counted for company."""
        return self.company > 0

    @property
    def leads_to_codes(self) -> bool:
        """Codes of the visit before speak; how many patients a pair needs is what company says."""
        return self.leads and self.company > 0

    @property
    def one_shot(self) -> bool:
        """Only independent codes have one logit each."""
        return self.head == "independent"

    @property
    def chooses(self) -> bool:
        """HALO's head draws code by code."""
        return self.head != "halo"

    def multiplications(self, n_codes: int, codes_per_visit: float) -> float:
        """Roughly, the multiplications and additions that one visit takes in one direction."""
        within_visit = 4.0 if self.head == "halo" else 1.0
        return 2.0 * (12 * self.layers * self.width**2 + within_visit * n_codes * self.width)

    @model_validator(mode="after")
    def _room_for_company(self) -> VisitArchitecture:
        if (self.company or self.order != "frequent" or self.counting) and self.head != "blockwise":
            raise ValueError(
                "company, order and counting belong to codes that are drawn in blocks: expected head=blockwise"
            )
        return self

    @model_validator(mode="after")
    def _room_for_recall(self) -> VisitArchitecture:
        if self.recall and self.head == "halo":
            raise ValueError("recall needs logits that it can be added to: expected head=independent or head=blockwise")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_off(self, handler: Any) -> dict[str, Any]:
        """The fields; a network without recall or company is written as it was before there was any, to the byte."""
        content: dict[str, Any] = handler(self)
        if self.order != "mixed":
            content.pop("rare_visits", None)
        for name, off in (
            ("recall", False),
            ("company", 0),
            ("order", "frequent"),
            ("counting", False),
            ("kinship", False),
            ("leads", False),
        ):
            if content.get(name) == off:
                content.pop(name, None)
        return content


def visit_network(architecture: VisitArchitecture, shape: Shape, prevalence: Prevalence) -> VisitNetwork:
    """The network of these settings, its output bias at the log-odds of the training prevalence.

    Weights come from torch's global stream: seed it first.
    """
    code_of_rank, initial = ranked(prevalence)
    groups = Groups.of(prevalence.vocabulary.group_of_code[code_of_rank.numpy()])
    sizes, order = all_blocks(architecture, _visits(prevalence)[code_of_rank.numpy()], groups)
    code_of_rank, initial = code_of_rank[order], initial[order]
    families = _families(prevalence, code_of_rank) if architecture.hierarchy else ()
    belief = _belief(prevalence, code_of_rank, families, architecture.credibility)
    width = architecture.width
    table = CodeTable(shape.n_codes, width, families, credibility=belief)
    embedding = VisitEmbedding(width, architecture.context, shape.attributes, shape.with_days)
    network = VisitNetwork(
        table,
        embedding,
        _trunk(architecture),
        _head(architecture, shape, initial, families, belief, prevalence, code_of_rank, sizes, groups),
        code_of_rank,
        width,
        # Made last: trunk and head begin as those of a network without it.
        _recall(architecture, prevalence, code_of_rank, families, belief) if architecture.recall else None,
        Leads(shape.n_leads, architecture.company, shape.n_codes) if architecture.leads_to_codes else None,
    )
    network.last_code = prevalence.vocabulary.index.get(DEATH.token)
    return network


def _visits(prevalence: Prevalence) -> NDArray[np.float64]:
    """Training visits of each code, in which small counts are alike."""
    return np.nan_to_num(prevalence.raise_small_counts().share) * (prevalence.n_visits or 1)


def _families(prevalence: Prevalence, code_of_rank: Tensor) -> tuple[Tensor, ...]:
    """Category, section and chapter of each code in rank order; nothing where the vocabulary has no families."""
    tree = Hierarchy.of(prevalence.vocabulary)
    if tree is None:
        return ()
    return tuple(torch.from_numpy(level)[code_of_rank] for level in (tree.category, tree.block, tree.chapter))


def _kin(prevalence: Prevalence, code_of_rank: Tensor) -> Tensor | None:
    """The family of each code in rank order that speaks for it: its section, or its chapter where sections are many.

    Categories meet too rarely to say more than their codes. None where even chapters are too many for a table of all
    pairs, as where most codes show no family.
    """
    for families in _families(prevalence, code_of_rank)[1:]:
        if int(families.max()) < MOST_FAMILIES:
            return families
    return None


def _trunk(architecture: VisitArchitecture) -> nn.Module:
    if architecture.trunk == "lstm":
        return RecurrentTrunk(architecture.width, architecture.layers, architecture.dropout)
    return CausalTrunk(architecture.width, architecture.layers, architecture.heads, architecture.dropout)


def _belief(
    prevalence: Prevalence, code_of_rank: Tensor, families: tuple[Tensor, ...], half: float
) -> tuple[Tensor, ...]:
    """How much the own vector of each code, then that of its families, is believed, in rank order: n / (n + half)."""
    if not half:
        return ()
    visits = torch.from_numpy(np.nan_to_num(prevalence.share) * (prevalence.n_visits or 1))[code_of_rank]
    counts = [visits, *(torch.bincount(members, visits)[members] for members in families)]
    return tuple((count / (count + half)).float() for count in counts)


def _recall(
    architecture: VisitArchitecture,
    prevalence: Prevalence,
    code_of_rank: Tensor,
    families: tuple[Tensor, ...],
    belief: tuple[Tensor, ...],
) -> Recall:
    # Saved with the weights, so that codes of a few visits must not be told apart by it.
    log_odds = torch.from_numpy(Scaffold(prevalence.raise_small_counts()).initial_logits).float()[code_of_rank]
    own = CodeTable(len(code_of_rank), N_FACTS, families, scale=0.0, credibility=belief)
    return Recall(architecture.width, own, log_odds)


def _head(
    architecture: VisitArchitecture,
    shape: Shape,
    initial: Tensor,
    families: tuple[Tensor, ...],
    belief: tuple[Tensor, ...],
    prevalence: Prevalence,
    code_of_rank: Tensor,
    sizes: list[int],
    groups: Groups | None,
) -> Head:
    output = CodeTable(shape.n_codes, architecture.width, families, credibility=belief)
    if architecture.head == "blockwise":
        within = CodeTable(shape.n_codes, architecture.hidden, families, scale=0.1, credibility=belief)
        company = None
        if architecture.company:
            band = frequency_band(prevalence)[code_of_rank]
            kin = _kin(prevalence, code_of_rank) if architecture.kinship else None
            kinship = None if kin is None else Kinship(kin, architecture.company)
            company = Company(shape.n_pairs, architecture.company, band, prevalence.n_visits or 1, kinship)
        counting = Counting(len(sizes), architecture.hidden) if architecture.counting else None
        width, hidden, dropout = architecture.width, architecture.hidden, architecture.dropout
        return BlockwiseHead(output, within, initial, width, hidden, sizes, dropout, company, counting, groups)
    if architecture.head == "halo":
        return HaloHead(shape.n_codes, architecture.width, initial)
    return IndependentHead(output, initial, groups)


_PAPER = "AdaPCLA (Cui et al.)"
_HALO = "HALO (Theodorou, Xiao and Sun, 2023)"
_PAPER_SIZE = {"width": 768, "layers": 12, "heads": 12, "context": 48, "learning_rate": 1e-4, "batch_size": 48}
#: What the release and the rows of its parts share.
_RELEASE = {"head": "halo", "last_weights": True}
_TWICE = "twice the passes: a full budget for each stage, whose last weights are kept; nothing is chosen by validation"
_OURS_AND_ABLATIONS = (
    Row("adapcla", "The paper's method: independent head, annealed scaffold (base), no bias when sampling.", _PAPER),
    Row(
        "adapcla-paper-size",
        "The same at the paper's size: width 768, 12 layers, 12 heads, 48 rows.",
        _PAPER,
        _PAPER_SIZE,
        usual=False,
    ),
    Row(
        "tailwise",
        "Ours: codes of a visit know their company; rare ones lean on their family, and on having been there before.",
        "this project",
        {
            "head": "blockwise",
            "hierarchy": True,
            "recall": True,
            "credibility": 50.0,
            "company": 3,
            "kinship": True,
            "leads": True,
            "order": "tried",
            "counting": True,
            "blocks": 120,
            "hidden": 16,
            "dropout": 0.3,
            "schedule": "base",
            "calibration_rounds": 13,
        },
    ),
    Row(
        "adapcla-company",
        "The paper's method with the prior over pairs and nothing else by which codes of a visit know each other.",
        "this project",
        {"head": "blockwise", "hidden": 0, "company": 3},
    ),
    Row(
        "static-pcla",
        "The scaffold stays throughout training and is kept when sampling (consistent).",
        _PAPER,
        {"schedule": "constant", "bias_at_inference": True},
    ),
    Row(
        "static-pcla-train-only",
        "The same weights as static-pcla, sampled without the scaffold: a negative control, expected to lose the tail.",
        _PAPER,
        {"schedule": "constant", "bias_at_validation": True},
        note="its weights are chosen as static-pcla's are, so its validation loss is with the scaffold",
    ),
    Row(
        "adapcla-no-scaffold",
        "The same network, passes and seed with no scaffold at all: the control of what the scaffold does.",
        _PAPER,
        {"schedule": "none"},
    ),
    Row(
        "adapcla-reversed",
        "The scaffold with its sign turned round: a control on what the sign does.",
        _PAPER,
        {"tempering": -1.0},
    ),
    Row(
        "adapcla-halo",
        "The paper's ablation, whose backbone is HALO: HALO's head, annealed scaffold (base), no bias when sampling.",
        _PAPER,
        {"head": "halo"},
    ),
    Row(
        "adapcla-release",
        "As the public release ran: HALO's head, scaffold times 0.2, present codes weigh 1.5, from a static model.",
        _PAPER,
        {**_RELEASE, "positive_weight": 1.5, "tempering": 0.2, "first_stage": "static"},
        starts_from="a static-pcla with the same settings, which this row trains first",
        note=_TWICE,
    ),
    Row(
        "release-stages",
        "A part of adapcla-release: its two stages and last weights, without scaffold and without extra weight.",
        _PAPER,
        {**_RELEASE, "schedule": "none", "first_stage": "plain"},
        starts_from="a halo with the same settings, which this row trains first",
        usual=False,
        note=_TWICE,
    ),
    Row(
        "release-weight",
        "The next part of adapcla-release: two stages in which present codes weigh 1.5, without scaffold.",
        _PAPER,
        {**_RELEASE, "positive_weight": 1.5, "schedule": "none", "first_stage": "plain"},
        starts_from="a halo with the same settings, which this row trains first",
        usual=False,
        note=_TWICE,
    ),
)
_BASELINES = (
    Row(
        "halo",
        "Visit Transformer with the within-visit autoregressive head; exact ancestral sampling.",
        _HALO,
        {"head": "halo", "schedule": "none"},
        note="the paper's factorisation at this project's default width; halo-paper-size has the paper's",
    ),
    Row(
        "halo-paper-size",
        "HALO at its paper's size and recipe: width 768, 12 layers, 12 heads, rate 1e-4, batches of 48, 50 passes.",
        _HALO,
        {"head": "halo", "schedule": "none", "passes": 50, **_PAPER_SIZE},
        usual=False,
    ),
    Row(
        "lstm",
        "Recurrent next-visit multi-label network with independent outputs.",
        "Doctor AI (Choi et al., 2016)",
        {"trunk": "lstm", "schedule": "none", "layers": 2},
    ),
)
FAMILY = Family(
    VisitArchitecture,
    visit_network,
    Traits(scaffold=True, positive_weight=True, output_bias=True),
    (*_OURS_AND_ABLATIONS, *_BASELINES),
    objective=ScaffoldedLikelihood,
)
