"""The families of models, each a file of this package with a `FAMILY`."""

from __future__ import annotations

from adapcla.models import eva, gpt, marginal, synteg, visit_transformer
from adapcla.models.base import Family

#: Every family by name.
FAMILIES: dict[str, Family] = {
    module.FAMILY.name: module.FAMILY for module in (eva, gpt, marginal, synteg, visit_transformer)
}
