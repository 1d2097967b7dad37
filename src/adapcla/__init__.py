"""AdaPCLA: synthetic longitudinal health records that are right in the long tail.

Names are imported when first asked for, so that `import adapcla` stays light and never loads torch.

>>> from adapcla import Cohort
>>> Cohort.of([[["I10"], ["I10", "E11"]]]).n_visits
2
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adapcla.version import __version__

if TYPE_CHECKING:
    # For type checkers alone, which do not see what `__getattr__` returns.
    from adapcla.experiment.synthesis import synthesize
    from adapcla.generators import AdaPCLA, load
    from adapcla.generators.api import methods, train
    from adapcla.metrics import Scores, evaluate
    from adapcla.records import Cohort, Prevalence, Vocabulary
    from adapcla.sources import read
    from adapcla.sources.planted import simulate

_HOME = {
    "AdaPCLA": "adapcla.generators",
    "Cohort": "adapcla.records",
    "Prevalence": "adapcla.records",
    "Scores": "adapcla.metrics",
    "Vocabulary": "adapcla.records",
    "evaluate": "adapcla.metrics",
    "load": "adapcla.generators",
    "methods": "adapcla.generators.api",
    "read": "adapcla.sources",
    "simulate": "adapcla.sources.planted",
    "synthesize": "adapcla.experiment.synthesis",
    "train": "adapcla.generators.api",
}

__all__ = [
    "AdaPCLA",
    "Cohort",
    "Prevalence",
    "Scores",
    "Vocabulary",
    "__version__",
    "evaluate",
    "load",
    "methods",
    "read",
    "simulate",
    "synthesize",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'adapcla' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
