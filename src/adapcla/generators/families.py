"""From settings to a network and the plan that trains it; one line a family of networks."""

from __future__ import annotations

from torch import Tensor

from adapcla.generators.settings import Settings
from adapcla.networks.architecture import Architecture, CopyArchitecture, visit_network
from adapcla.networks.contract import Network, Shape
from adapcla.networks.copies import CopyNetwork
from adapcla.networks.marginal import MarginalNetwork
from adapcla.records import Prevalence
from adapcla.scaffold import schedule
from adapcla.training.plan import Plan, ScaffoldPlan


def network_for(settings: Settings, shape: Shape, prevalence: Prevalence) -> Network:
    """The untrained network of these settings."""
    architecture = settings.architecture
    if isinstance(architecture, Architecture):
        return visit_network(architecture, shape, prevalence)
    if isinstance(architecture, CopyArchitecture):
        return CopyNetwork(architecture, shape)
    return MarginalNetwork(shape, prevalence)


def plan_for(settings: Settings, network: Network, scaffold: Tensor) -> Plan:
    """The way to train it."""
    return ScaffoldPlan(
        network,
        scaffold,
        schedule(settings.schedule),
        settings.positive_weight,
        settings.bias_at_inference or settings.bias_at_validation,
    )
