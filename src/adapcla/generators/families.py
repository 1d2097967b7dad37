"""From settings to a network and the plan that trains it; one line a family of networks."""

from __future__ import annotations

from torch import Tensor

from adapcla.errors import UsageError
from adapcla.generators.settings import Settings
from adapcla.networks.architecture import (
    Architecture,
    CopyArchitecture,
    EvaArchitecture,
    GptArchitecture,
    SyntegArchitecture,
    visit_network,
)
from adapcla.networks.contract import Network, Shape
from adapcla.networks.copies import CopyNetwork
from adapcla.networks.eva import EvaNetwork
from adapcla.networks.gpt import GptNetwork
from adapcla.networks.marginal import MarginalNetwork
from adapcla.networks.synteg import SyntegNetwork
from adapcla.records import Prevalence
from adapcla.scaffold import schedule
from adapcla.training.adversarial import AdversarialPlan
from adapcla.training.elbo import ElboPlan
from adapcla.training.plan import Plan, ScaffoldPlan


def network_for(settings: Settings, shape: Shape, prevalence: Prevalence) -> Network:
    """The untrained network of these settings."""
    architecture = settings.architecture
    if isinstance(architecture, Architecture):
        return visit_network(architecture, shape, prevalence)
    if isinstance(architecture, GptArchitecture):
        return GptNetwork(architecture, shape, prevalence)
    if isinstance(architecture, EvaArchitecture):
        return EvaNetwork(architecture, shape, prevalence)
    if isinstance(architecture, SyntegArchitecture):
        return SyntegNetwork(architecture, shape, prevalence)
    if isinstance(architecture, CopyArchitecture):
        return CopyNetwork(architecture, shape)
    return MarginalNetwork(shape, prevalence)


def plan_for(settings: Settings, network: Network, scaffold: Tensor) -> Plan:
    """The way to train it."""
    if settings.architecture.family not in ("visits", "gpt") and settings.schedule != "none":
        raise UsageError(
            f"schedule {settings.schedule!r}: the {settings.architecture.family} family is trained without a scaffold\n"
            "to do: leave the schedule at 'none'"
        )
    if settings.architecture.family != "visits" and settings.positive_weight != 1:
        raise UsageError("positive_weight belongs to the visit networks; the other families have no such weight")
    if settings.architecture.family != "visits" and settings.calibration_rounds:
        raise UsageError("calibration_rounds needs the output bias of a visit network; leave it at 0")
    if isinstance(network, EvaNetwork):
        return ElboPlan(network)
    if isinstance(network, SyntegNetwork):
        return AdversarialPlan(network)
    return ScaffoldPlan(
        network,
        scaffold,
        schedule(settings.schedule),
        settings.positive_weight,
        settings.bias_at_inference or settings.bias_at_validation,
    )
