"""The families of networks, one module each; a module with a `FAMILY` is all that a new one needs."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from adapcla.models.family import Family

_MODULES = sorted(module.name for module in iter_modules(__path__))
#: Every family by name.
FAMILIES: dict[str, Family] = {
    family.name: family for family in (import_module(f"{__name__}.{module}").FAMILY for module in _MODULES)
}
