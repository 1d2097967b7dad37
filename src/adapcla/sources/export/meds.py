"""MEDS 0.4 out: events in Parquet, every code listed, subjects split, all validated by the `meds` package."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from adapcla.files import write_json
from adapcla.records import Cohort
from adapcla.records.split import parts
from adapcla.sources.codebook import NAMES, Codebook
from adapcla.sources.export.rows import Block, blocks, facts
from adapcla.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

#: Subject ids of ours start here, where no hospital's do.
FIRST_SUBJECT = 9_000_000_000_000


def write(cohort: Cohort, folder: Path) -> None:
    """Write a MEDS dataset; a column `visit_id` keeps the visits, which MEDS itself does not know."""
    import pyarrow.parquet as pq
    from meds.schema import DataSchema

    (folder / "data").mkdir()
    (folder / "metadata").mkdir()
    keys = [key for key, _, _ in Codebook.of(cohort).fact_keys()]
    for number, block in enumerate(blocks(cohort)):
        table = DataSchema.align(_events(block, keys))
        DataSchema.validate(table)
        pq.write_table(table, folder / "data" / f"{number:04d}.parquet", compression="zstd")
    _write_metadata(cohort, folder, keys)


def _events(block: Block, keys: list[str]) -> pa.Table:
    """Facts without a time, then every code at the time of its visit, subject by subject."""
    import pyarrow as pa

    cohort = block.cohort
    fact_patient, fact_key = facts(cohort)
    visit = block.cohort.visit_of_entry
    patient = np.concatenate([fact_patient, cohort.patient_of_visit[visit]])
    # Stable: facts stand before entries, entries keep the order of visits.
    order = np.argsort(patient, kind="stable")
    is_fact = (np.arange(len(patient)) < len(fact_patient))[order]
    number = np.concatenate([fact_key + cohort.n_codes, np.asarray(cohort.codes, dtype=np.int64)])[order]
    visit_id = np.concatenate([np.zeros(len(fact_patient), dtype=np.int64), block.visits[visit]])[order]
    time = np.concatenate([np.repeat(block.dates[:1], len(fact_patient)), block.dates[visit]])[order]
    names = pa.array([*cohort.vocabulary.tokens, *keys], pa.string())
    return pa.table(
        {
            "subject_id": pa.array(patient[order] + block.first_patient + FIRST_SUBJECT, pa.int64()),
            "time": pa.array(time.astype("datetime64[us]"), pa.timestamp("us"), mask=is_fact),
            "code": names.take(pa.array(number)),
            "visit_id": pa.array(visit_id, pa.int64(), mask=is_fact),
        }
    )


def _write_metadata(cohort: Cohort, folder: Path, keys: list[str]) -> None:
    """Write the list of codes, the split of subjects and what the dataset is."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from meds import schema

    listed = cohort.vocabulary.codes
    codes = pa.table(
        {
            "code": pa.array([*cohort.vocabulary.tokens, *keys], pa.string()),
            "description": pa.array([*(code.description or None for code in listed), *[None] * len(keys)], pa.string()),
            "parent_codes": pa.nulls(len(listed) + len(keys), pa.list_(pa.string())),
            "domain": pa.array([*(code.domain for code in listed), *["other"] * len(keys)], pa.string()),
        }
    )
    pq.write_table(schema.CodeMetadataSchema.align(codes), folder / schema.code_metadata_filepath)
    where = parts(cohort.n_patients)
    part = np.zeros(cohort.n_patients, dtype=np.int64)
    part[where.valid], part[where.test] = 1, 2
    split = pa.array([schema.train_split, schema.tuning_split, schema.held_out_split]).take(pa.array(part))
    subjects = np.arange(cohort.n_patients, dtype=np.int64) + FIRST_SUBJECT
    splits = pa.table({"subject_id": pa.array(subjects), "split": split})
    pq.write_table(schema.SubjectSplitSchema.align(splits), folder / schema.subject_splits_filepath)
    dataset = {
        "dataset_name": NAMES[cohort.origin.kind],
        "dataset_version": __version__,
        "etl_name": "adapcla export",
        "etl_version": __version__,
        "meds_version": version("meds"),
        "other_extension_columns": ["visit_id"],
    }
    schema.DatasetMetadataSchema.validate(dataset)
    write_json(folder / schema.dataset_metadata_filepath, dataset)
