"""Mutated NDJSON and Parquet: reading ends in a cohort or in a named error, never in anything else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.io.fuzz import mutated

from adapcla.data import Code, Cohort
from adapcla.errors import AdapclaError
from adapcla.io import read
from adapcla.io import writers as export

#: Enough to meet each kind of mutation several times; more would not fit into a minute for all sources.
MUTATIONS = 25


@pytest.mark.parametrize("source", ["meds", "fhir"])
def test_a_mutated_export_is_a_cohort_or_a_named_error(source: str, tmp_path: Path) -> None:
    cohort = Cohort.of(
        [[["ICD9CM/4019", "ICD9CM/25000"], ["ICD9CM/4019"]]] * 3,
        [Code.of("4019", "ICD9CM"), Code.of("25000", "ICD9CM")],
    )
    folder = tmp_path / "x"
    export.write(cohort, folder, source)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and "metadata" not in path.parts)
    contents = {path: path.read_bytes() for path in files}
    ended = {"cohort": 0, "error": 0}
    for seed in range(MUTATIONS):
        draws = random.Random(seed)
        path = draws.choice(files)
        path.write_bytes(mutated(contents[path], draws))
        try:
            ended["cohort"] += read(source, folder).n_patients > 0
        except AdapclaError as error:
            assert error.exit_code == 3, error
            ended["error"] += 1
        path.write_bytes(contents[path])
    assert ended["cohort"] + ended["error"] == MUTATIONS
    assert ended["error"] > 0
