"""The settings of each family of networks, and the visit network that its settings describe."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, model_serializer, model_validator
from torch import Tensor, nn

from adapcla.networks.contract import Shape
from adapcla.networks.halo import HaloHead
from adapcla.networks.heads import BlockwiseHead, Head, IndependentHead
from adapcla.networks.layers import CausalTrunk, CodeTable, RecurrentTrunk, VisitEmbedding
from adapcla.networks.recall import N_FACTS, Recall
from adapcla.networks.visits import VisitNetwork
from adapcla.records import Hierarchy, Prevalence
from adapcla.scaffold import Scaffold


class Seen(BaseModel):
    """What every family is shown of a patient."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    width: int = Field(256, ge=8, description="Width of a visit's state.")
    dropout: float = Field(0.1, ge=0, lt=1)
    context: int = Field(48, ge=2, description="Longest history, in visits; later visits are cut and counted.")
    credibility: float = Field(
        0.0, ge=0, description="Visits at which a code's or family's vector is believed by half; 0: at once."
    )
    use_days: bool = Field(True, description="Learn and draw the days between visits where the cohort has them.")
    use_attributes: bool = Field(True, description="Condition on static attributes where the cohort has them.")

    @model_validator(mode="after")
    def _whole_heads(self) -> Seen:
        heads = getattr(self, "heads", 1) if getattr(self, "trunk", "") != "lstm" else 1
        if self.width % heads:
            raise ValueError(f"a width of {self.width} cannot be shared by {heads} heads: expected a multiple")
        return self


class Architecture(Seen):
    """The visit network: a trunk over visits and a head for the codes of the next one."""

    family: Literal["visits"] = "visits"
    trunk: Literal["transformer", "lstm"] = "transformer"
    head: Literal["independent", "blockwise", "halo"] = "independent"
    layers: int = Field(4, ge=1)
    heads: int = Field(8, ge=1)
    blocks: int = Field(24, ge=1, description="Blocks of the blockwise head.")
    hidden: int = Field(64, ge=4, description="Width of the within-visit state of the blockwise head.")
    hierarchy: bool = Field(False, description="Add parts of category, section and chapter where codes show them.")
    recall: bool = Field(False, description="Add a part that all codes share: whether the patient had the code before.")

    @model_validator(mode="after")
    def _room_for_recall(self) -> Architecture:
        if self.recall and self.head == "halo":
            raise ValueError("recall needs logits that it can be added to: expected head=independent or head=blockwise")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_off(self, handler: Any) -> dict[str, Any]:
        """The fields; a network without recall is written as it was before there was any, to the byte."""
        content: dict[str, Any] = handler(self)
        if not content.get("recall"):
            content.pop("recall", None)
        return content


class GptArchitecture(Seen):
    """A decoder over a stream of codes with visit separators."""

    family: Literal["gpt"] = "gpt"
    layers: int = Field(3, ge=1)
    heads: int = Field(8, ge=1)
    order: Literal["fixed", "shuffled"] = Field("fixed", description="Codes of a visit by frequency, or at random.")
    longest_visit: int = Field(256, ge=1, description="Codes after which a drawn visit is closed.")


class EvaArchitecture(Seen):
    """A variational autoencoder of whole records."""

    family: Literal["eva"] = "eva"
    latent: int = Field(32, ge=2, description="Numbers that a record is squeezed into.")
    layers: int = Field(3, ge=1, description="Dilated causal convolutions of the decoder.")
    decode: Literal["bernoulli", "threshold"] = Field("bernoulli", description="Draw codes, or take those above ½.")
    first_divergence: float = Field(0.1, ge=0, le=1, description="Weight of the divergence at the first step.")
    annealed: float = Field(0.5, gt=0, le=1, description="Progress at which that weight has reached 1.")


class SyntegArchitecture(Seen):
    """A visit-state encoder, and a conditional adversarial generator of the next visit."""

    family: Literal["synteg"] = "synteg"
    layers: int = Field(3, ge=1, description="Recurrent layers over visits.")
    heads: int = Field(4, ge=1, description="Heads of the attention among the codes of a visit.")
    condition: int = Field(256, ge=4, description="Width of the state that the generator is given.")
    noise: int = Field(128, ge=2, description="Random numbers that a generated visit is made from.")
    decode: Literal["bernoulli", "threshold"] = Field("bernoulli", description="Draw codes, or take those above ½.")
    encoder_share: float = Field(0.4, gt=0, lt=1, description="Share of the steps that train the encoder.")
    critic_steps: int = Field(5, ge=1, description="Steps of the critic for each of the generator.")
    penalty: float = Field(10.0, gt=0, description="Weight of the gradient penalty.")


class MarginalArchitecture(Seen):
    """Independent draws from the training prevalence: counted, not trained."""

    family: Literal["marginal"] = "marginal"


class CopyArchitecture(Seen):
    """Real patients, drawn with repeats; the sizes are filled in when the patients are known."""

    family: Literal["copy"] = "copy"
    patients: int = Field(0, ge=0)
    visits: int = Field(0, ge=0)
    entries: int = Field(0, ge=0)


AnyArchitecture = Annotated[
    Architecture | GptArchitecture | EvaArchitecture | SyntegArchitecture | MarginalArchitecture | CopyArchitecture,
    Field(discriminator="family"),
]
FAMILIES: dict[str, type[Seen]] = {
    "visits": Architecture,
    "gpt": GptArchitecture,
    "eva": EvaArchitecture,
    "synteg": SyntegArchitecture,
    "marginal": MarginalArchitecture,
    "copy": CopyArchitecture,
}


def ranked(prevalence: Prevalence) -> tuple[Tensor, Tensor]:
    """The code at each rank, most frequent first, and the log-odds of the training prevalence in that order.

    Codes of a few visits are taken as equally frequent: the order is saved, and small counts could be read from it.
    """
    code_of_rank = torch.from_numpy(np.argsort(-np.nan_to_num(prevalence.floored().share), kind="stable"))
    return code_of_rank, torch.from_numpy(Scaffold(prevalence).initial_logits).float()[code_of_rank]


def visit_network(architecture: Architecture, shape: Shape, prevalence: Prevalence) -> VisitNetwork:
    """The network of these settings, its output bias at the log-odds of the training prevalence.

    Weights come from torch's global stream: seed it first.
    """
    code_of_rank, initial = ranked(prevalence)
    families = _families(prevalence, code_of_rank) if architecture.hierarchy else ()
    belief = _belief(prevalence, code_of_rank, families, architecture.credibility)
    width = architecture.width
    table = CodeTable(shape.n_codes, width, families, credibility=belief)
    embedding = VisitEmbedding(width, architecture.context, shape.attributes, shape.with_days)
    return VisitNetwork(
        table,
        embedding,
        _trunk(architecture),
        _head(architecture, shape, initial, families, belief),
        code_of_rank,
        width,
        # Made last: trunk and head begin as those of a network without it.
        _recall(architecture, prevalence, code_of_rank, families, belief) if architecture.recall else None,
    )


def _families(prevalence: Prevalence, code_of_rank: Tensor) -> tuple[Tensor, ...]:
    """Category, section and chapter of each code in rank order; nothing where the vocabulary has no families."""
    tree = Hierarchy.of(prevalence.vocabulary)
    if tree is None:
        return ()
    return tuple(torch.from_numpy(level)[code_of_rank] for level in (tree.category, tree.section, tree.chapter))


def _trunk(architecture: Architecture) -> nn.Module:
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
    architecture: Architecture,
    prevalence: Prevalence,
    code_of_rank: Tensor,
    families: tuple[Tensor, ...],
    belief: tuple[Tensor, ...],
) -> Recall:
    # Saved with the weights, so that codes of a few visits must not be told apart by it.
    log_odds = torch.from_numpy(Scaffold(prevalence.floored()).initial_logits).float()[code_of_rank]
    own = CodeTable(len(code_of_rank), N_FACTS, families, scale=0.0, credibility=belief)
    return Recall(architecture.width, own, log_odds)


def _head(
    architecture: Architecture,
    shape: Shape,
    initial: Tensor,
    families: tuple[Tensor, ...],
    belief: tuple[Tensor, ...],
) -> Head:
    output = CodeTable(shape.n_codes, architecture.width, families, credibility=belief)
    if architecture.head == "blockwise":
        within = CodeTable(shape.n_codes, architecture.hidden, families, scale=0.1, credibility=belief)
        return BlockwiseHead(
            output, within, initial, architecture.width, architecture.hidden, architecture.blocks, architecture.dropout
        )
    if architecture.head == "halo":
        return HaloHead(shape.n_codes, architecture.width, initial)
    return IndependentHead(output, initial)
