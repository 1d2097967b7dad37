"""Writes HALO pickles: train, validation and test records with the paper's shares, and their code lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from adapcla.data import Cohort
from adapcla.io.codebook import Codebook
from adapcla.io.readers.halo import write_pickles
from adapcla.io.writers.options import ExportOptions
from adapcla.io.writers.rows import facts


def write(cohort: Cohort, folder: Path, options: ExportOptions) -> None:
    """Write HALO's files; attributes go along as facts, labels as HALO's own label arrays."""
    keys = [key for key, _, _ in Codebook.of(cohort).fact_keys()]
    patient, key = facts(cohort)
    patient, key = patient[key < len(keys) - len(cohort.label_names)], key[key < len(keys) - len(cohort.label_names)]
    starts = np.searchsorted(patient, np.arange(cohort.n_patients + 1))
    write_pickles(cohort, folder, lambda p: [keys[k] for k in key[starts[p] : starts[p + 1]]])
