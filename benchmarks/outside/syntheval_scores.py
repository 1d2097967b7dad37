"""SynthEval: the metrics of its fast evaluation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def results(folder: Path) -> dict[str, Any]:
    """Every metric of the fast evaluation, by the name that it has there."""
    from given import content, tables
    from syntheval import SynthEval

    subject, train, test = tables(folder)
    words = [name for name, kind in content(folder / "columns.json").items() if kind == "category"]
    # It writes its files into the working folder.
    os.chdir(folder)
    evaluator = SynthEval(train, holdout_dataframe=test, cat_cols=words, verbose=False)
    said = evaluator.evaluate(subject, words[-1], presets_file="fast_eval")
    return {str(row["metric"]): row["val"] for _, row in said.reset_index().iterrows() if row["val"] == row["val"]}
