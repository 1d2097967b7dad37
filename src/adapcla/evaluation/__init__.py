"""How alike two cohorts are, how useful and how private the synthetic one is.

Lives here: metrics, one class each, grouped by the question they answer; the runner that scores a synthetic cohort
beside its references; scores as a table. Importing this package registers every metric in `METRICS`.
May not: know a generator, a file format or a figure. torch only in the classifiers, imported inside.
May import: data and the root modules.
"""

from adapcla.evaluation import (  # noqa: F401  # Each registers its metrics.
    cooccurrence,
    course,
    discriminator,
    fidelity,
    numeric,
    reliability,
    stays,
    tail_information,
    utility,
)
from adapcla.evaluation.comparison import Comparison, Missing, Score
from adapcla.evaluation.metric import METRICS, Metric
from adapcla.evaluation.privacy import membership, nearest, singletons  # noqa: F401  # These register theirs.
from adapcla.evaluation.references import Reference
from adapcla.evaluation.runner import evaluate
from adapcla.evaluation.scores import Scores

__all__ = ["METRICS", "Comparison", "Metric", "Missing", "Reference", "Score", "Scores", "evaluate"]
