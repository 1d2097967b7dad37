"""mostlyai-qa: accuracy, the area of its discriminator, and distances to training patients."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def results(folder: Path) -> dict[str, Any]:
    """The numbers of its report."""
    from given import tables
    from mostlyai import qa

    subject, train, test = tables(folder)
    qa.set_random_state(1)
    _, metrics = qa.report(
        syn_tgt_data=subject, trn_tgt_data=train, hol_tgt_data=test, report_path=folder / "mostlyai-qa.html"
    )
    return {
        "accuracy": metrics.accuracy.overall,
        "discriminator AUC": metrics.similarity.discriminator_auc_training_synthetic,
        "cosine similarity": metrics.similarity.cosine_similarity_training_synthetic,
        "identical to training": metrics.distances.ims_training,
        "share nearer to training": metrics.distances.dcr_share,
    }
