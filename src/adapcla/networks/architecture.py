"""The settings of a visit network, and the network that they describe."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from adapcla.networks.contract import Shape
from adapcla.networks.heads import BlockwiseHead, Head, IndependentHead
from adapcla.networks.layers import CausalTrunk, CodeTable, RecurrentTrunk, VisitEmbedding
from adapcla.networks.visits import VisitNetwork
from adapcla.records import Hierarchy, Prevalence
from adapcla.scaffold import Scaffold


class Architecture(BaseModel):
    """What the network is made of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trunk: Literal["transformer", "lstm"] = "transformer"
    head: Literal["independent", "blockwise", "halo"] = "independent"
    width: int = Field(256, ge=8, description="Width of a visit's state.")
    layers: int = Field(4, ge=1)
    heads: int = Field(8, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1)
    context: int = Field(48, ge=2, description="Longest history, in visits; later visits are cut and counted.")
    blocks: int = Field(24, ge=1, description="Blocks of the blockwise head.")
    hidden: int = Field(64, ge=4, description="Width of the within-visit state of the blockwise head.")
    hierarchy: bool = Field(False, description="Add category and chapter parts where the vocabulary has families.")
    use_days: bool = Field(True, description="Learn and draw the days between visits where the cohort has them.")
    use_attributes: bool = Field(True, description="Condition on static attributes where the cohort has them.")


def visit_network(architecture: Architecture, shape: Shape, prevalence: Prevalence) -> VisitNetwork:
    """The network of these settings, its output bias at the log-odds of the training prevalence.

    Weights come from torch's global stream: seed it first.
    """
    share = np.nan_to_num(prevalence.share)
    code_of_rank = torch.from_numpy(np.argsort(-share, kind="stable"))
    initial = torch.from_numpy(Scaffold(prevalence).initial_logits).float()[code_of_rank]
    families = _families(prevalence, code_of_rank) if architecture.hierarchy else ()
    width = architecture.width
    table = CodeTable(shape.n_codes, width, families)
    embedding = VisitEmbedding(width, architecture.context, shape.attributes, shape.with_days)
    return VisitNetwork(
        table, embedding, _trunk(architecture), _head(architecture, shape, initial, families), code_of_rank, width
    )


def _families(prevalence: Prevalence, code_of_rank: Tensor) -> tuple[Tensor, ...]:
    """Category and chapter of each code in rank order; nothing where the vocabulary has no families."""
    tree = Hierarchy.of(prevalence.vocabulary)
    if tree is None:
        return ()
    return tuple(torch.from_numpy(level)[code_of_rank] for level in (tree.category, tree.chapter))


def _trunk(architecture: Architecture) -> nn.Module:
    if architecture.trunk == "lstm":
        return RecurrentTrunk(architecture.width, architecture.layers, architecture.dropout)
    return CausalTrunk(architecture.width, architecture.layers, architecture.heads, architecture.dropout)


def _head(architecture: Architecture, shape: Shape, initial: Tensor, families: tuple[Tensor, ...]) -> Head:
    output = CodeTable(shape.n_codes, architecture.width, families)
    if architecture.head == "blockwise":
        within = CodeTable(shape.n_codes, architecture.hidden, families, scale=0.1)
        return BlockwiseHead(
            output, within, initial, architecture.width, architecture.hidden, architecture.blocks, architecture.dropout
        )
    if architecture.head == "halo":
        from adapcla.networks.halo import HaloHead

        return HaloHead(shape.n_codes, architecture.width, initial)
    return IndependentHead(output, initial)
