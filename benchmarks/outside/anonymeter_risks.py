"""anonymeter: how much more an attacker learns about training than about test patients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Guesses of each attack; no more than a tenth of the patients that are attacked.
N_ATTACKS = 300


def results(folder: Path) -> dict[str, Any]:
    """The risk of each kind of attack: 0 where training patients are no worse off than test patients."""
    import numpy
    from anonymeter.evaluators import InferenceEvaluator, LinkabilityEvaluator, SinglingOutEvaluator
    from given import tables

    subject, train, test = tables(folder)
    # Its attacks draw from the global state, which nothing else sets.
    numpy.random.seed(1)  # noqa: NPY002
    n_attacks = min(N_ATTACKS, len(test) - 1, len(train) - 1)
    columns = list(train.columns)
    given: dict[str, Any] = {"ori": train, "syn": subject, "control": test, "n_attacks": n_attacks}
    attacks = {
        "singling out": lambda: SinglingOutEvaluator(**given, n_cols=4).evaluate(mode="multivariate"),
        "linkability": lambda: LinkabilityEvaluator(**given, aux_cols=(columns[::2], columns[1::2])).evaluate(n_jobs=1),
        "inference": lambda: InferenceEvaluator(**given, aux_cols=columns[:-1], secret=columns[-1]).evaluate(n_jobs=1),
    }
    return {name: attack().risk().value for name, attack in attacks.items()}
