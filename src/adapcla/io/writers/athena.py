"""The standardized vocabularies of OHDSI, as Athena hands them out: which standard concepts a source code maps to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from adapcla.data.code_systems import remove_dot
from adapcla.errors import InputError
from adapcla.io.workbench import Workbench
from adapcla.io.writers.cdm import COLUMNS, Concept

_NEEDED = {"CONCEPT": COLUMNS["concept"], "CONCEPT_RELATIONSHIP": ("concept_id_1", "concept_id_2", "relationship_id")}


class Mapped(NamedTuple):
    """A source code in the vocabulary: its own concept, and the standard concepts that it maps to."""

    source: Concept
    targets: tuple[Concept, ...]


def mapped(folder: Path, codes: Sequence[tuple[str, str]]) -> dict[int, Mapped]:
    """Position in `codes` (system, code) → what the vocabulary says of it; codes that it lacks are absent.

    Systems and codes are compared without case and dots. The files, of millions of rows, are read as a stream.
    """
    import pyarrow as pa

    with Workbench() as bench:
        for name in _NEEDED:
            _open(bench, folder, name)
        columns = {
            "position": [str(position) for position in range(len(codes))],
            "system": [system.upper() for system, _ in codes],
            "code": [remove_dot(code) for _, code in codes],
        }
        bench.add("codes", [pa.record_batch({name: pa.array(c, pa.string()) for name, c in columns.items()})])
        row = ", ".join(f"c.{name}" for name in COLUMNS["concept"])
        # Of several concepts of one code the valid one counts, then the one with the smallest number.
        bench.run(
            f"""CREATE TABLE sources AS SELECT CAST(k.position AS BIGINT) AS position, {row} FROM concept c JOIN codes k
                ON upper(c.vocabulary_id) = k.system AND upper(replace(c.concept_code, '.', '')) = k.code
                QUALIFY row_number() OVER (PARTITION BY k.position
                    ORDER BY coalesce(c.invalid_reason, ''), CAST(c.concept_id AS BIGINT)) = 1"""
        )
        bench.run(
            """CREATE TABLE maps AS SELECT DISTINCT s.position, r.concept_id_2 AS concept_id FROM concept_relationship r
               JOIN sources s ON s.concept_id = r.concept_id_1
               WHERE r.relationship_id = 'Maps to' AND coalesce(r.invalid_reason, '') = ''"""
        )
        sources = bench.query(f"SELECT position, {row} FROM sources c ORDER BY position")
        targets = bench.query(
            f"""SELECT m.position, {row} FROM concept c JOIN maps m ON m.concept_id = c.concept_id
                WHERE c.standard_concept = 'S' AND coalesce(c.invalid_reason, '') = ''
                ORDER BY m.position, CAST(c.concept_id AS BIGINT)"""
        )
    found = {position: Mapped(_concept(cells), ()) for position, *cells in sources}
    for position, *cells in targets:
        found[position] = Mapped(found[position].source, (*found[position].targets, _concept(cells)))
    return found


def _open(bench: Workbench, folder: Path, name: str) -> None:
    """Make a view of one of Athena's files: tabs between cells, no quotes."""
    path = folder / f"{name}.csv"
    try:
        with path.open(encoding="utf-8") as stream:
            header = stream.readline().rstrip("\r\n").lower().split("\t")
    except (OSError, UnicodeDecodeError):
        raise InputError(
            f"no readable {name}.csv in the vocabulary",
            path=folder,
            expected="an unpacked download from athena.ohdsi.org with CONCEPT.csv and CONCEPT_RELATIONSHIP.csv",
            remedy="check the path of --vocabulary",
        ) from None
    for column in (*_NEEDED[name], "invalid_reason"):
        if column not in header:
            raise InputError(
                f"no column {column!r}",
                path=path,
                row=1,
                expected="a header with it, and tabs between cells",
                remedy="download the vocabulary again",
            )
    quoted = str(path).replace("'", "''")
    bench.run(
        f"""CREATE VIEW {name.lower()} AS SELECT * FROM read_csv('{quoted}', delim = '\t', quote = '', escape = '',
            header = true, all_varchar = true)"""
    )


def _concept(row: Sequence[str | None]) -> Concept:
    """A row of text as a concept; Athena writes dates without marks."""
    number, name, domain, vocabulary, kind, standard, code, first, last, reason = row
    words = [text or "" for text in (name, domain, vocabulary, kind)]
    days = [datetime.strptime((day or "").replace("-", ""), "%Y%m%d").date() for day in (first, last)]
    return Concept(
        int(number or 0), words[0], words[1], words[2], words[3], standard, code or "", days[0], days[1], reason
    )
