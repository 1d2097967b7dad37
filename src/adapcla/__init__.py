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
    from adapcla.data import Cohort, Prevalence, Vocabulary
    from adapcla.engine import cluster
    from adapcla.evaluation import Scores, evaluate
    from adapcla.generation import AdaPCLA, Generator, load
    from adapcla.generation.generator import methods, train
    from adapcla.io import read
    from adapcla.io.simulator import simulate
    from adapcla.release.synthesize import Release, synthesize

_HOME = {
    "AdaPCLA": "adapcla.generation",
    "Cohort": "adapcla.data",
    "Generator": "adapcla.generation",
    "Prevalence": "adapcla.data",
    "Release": "adapcla.release.synthesize",
    "Scores": "adapcla.evaluation",
    "Vocabulary": "adapcla.data",
    "cluster": "adapcla.engine",
    "evaluate": "adapcla.evaluation",
    "load": "adapcla.generation",
    "methods": "adapcla.generation.generator",
    "read": "adapcla.io",
    "simulate": "adapcla.io.simulator",
    "synthesize": "adapcla.release.synthesize",
    "train": "adapcla.generation.generator",
}

__all__ = [
    "AdaPCLA",
    "Cohort",
    "Generator",
    "Prevalence",
    "Release",
    "Scores",
    "Vocabulary",
    "__version__",
    "cluster",
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
