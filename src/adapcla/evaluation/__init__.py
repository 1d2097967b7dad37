"""How alike two cohorts are, how useful and how private the synthetic one is.

Lives here: small functions from a `Comparison` to `Score`s, each a row of the table with goal, bounds and origin.
May not: know a generator, a file format or a figure. torch only in the utility classifiers, imported inside.
May import: data and the ground floor.
"""

from adapcla.evaluation.contract import Comparison, Metric, Missing, Score
from adapcla.evaluation.evaluation import evaluate
from adapcla.evaluation.references import Reference
from adapcla.evaluation.scores import Scores

__all__ = ["Comparison", "Metric", "Missing", "Reference", "Score", "Scores", "evaluate"]
