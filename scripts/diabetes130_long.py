"""Turn the table of UCI data set 296 (Diabetes 130-US hospitals) into a long CSV of whole records.

    python scripts/diabetes130_long.py diabetic_data.csv.gz --out long.csv
    adapcla import table long.csv --out cohort --domains dx,rx,lab,stay --attributes sex,age_band,race

One row a code or value, with what is known of the stay and the patient in every row. The file has no dates: stays are
ordered by their number. It writes ICD-9 without leading zeros (`38` is 038); they are put back. Doses of drugs and
results in words are drugs and diagnoses of their own (`insulin.up`, `A1Cresult.above-8`).
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

DRUGS = (
    *("metformin", "repaglinide", "nateglinide", "chlorpropamide", "glimepiride", "acetohexamide", "glipizide"),
    *("glyburide", "tolbutamide", "pioglitazone", "rosiglitazone", "acarbose", "miglitol", "troglitazone"),
    *("tolazamide", "examide", "citoglipton", "insulin", "glyburide-metformin", "glipizide-metformin"),
    *("glimepiride-pioglitazone", "metformin-rosiglitazone", "metformin-pioglitazone"),
)
RESULTS = {
    "A1Cresult": {">8": "above-8", ">7": "above-7", "Norm": "normal"},
    "max_glu_serum": {">300": "above-300", ">200": "above-200", "Norm": "normal"},
}
COUNTS = ("num_lab_procedures", "num_procedures", "num_medications")
#: Numbers of the file's own key → kinds and endings; those that say nothing (not mapped, not available) are empty.
KINDS = {"3": "elective", **dict.fromkeys("17", "emergency-inpatient"), **dict.fromkeys("24", "inpatient")}
ENDINGS = {
    "1": "home",
    "7": "against-advice",
    **dict.fromkeys(("6", "8"), "home-care"),
    **dict.fromkeys(("13", "14"), "hospice"),
    **dict.fromkeys(("11", "19", "20", "21"), "died"),
    **dict.fromkeys(("9", "12", "16", "17"), "other"),
    **dict.fromkeys(("2", "3", "4", "5", "10", "15", "22", "23", "24", "27", "28", "29", "30"), "facility"),
}
HEADER = (
    *("patient_id", "visit_id", "sex", "age_band", "race", "kind", "ending", "length_of_stay"),
    *("dx", "code_system", "rx", "lab", "value"),
)


def known_of(row: dict[str, str]) -> list[str]:
    """What is known of the patient and the stay."""
    age = int(row["age"].strip("[)").split("-")[0])
    return [
        row["patient_nbr"],
        row["encounter_id"],
        {"Female": "F", "Male": "M"}.get(row["gender"], ""),
        "90+" if age >= 90 else f"{age}-{age + 9}",
        row["race"].replace("?", ""),
        KINDS.get(row.get("admission_type_id", ""), ""),
        ENDINGS.get(row.get("discharge_disposition_id", ""), ""),
        row.get("time_in_hospital", ""),
    ]


def cells_of(row: dict[str, str]) -> Iterator[tuple[str, str, str, str, str]]:
    """The diagnosis, its system, the drug, the lab and the value of each row of the long table."""
    for code in (row[f"diag_{number}"] for number in (1, 2, 3)):
        if code not in ("?", ""):
            whole, dot, rest = code.partition(".")
            yield (whole.zfill(3) if whole.isdigit() else whole) + dot + rest, "ICD9CM", "", "", ""
    for name, words in RESULTS.items():
        if row.get(name) in words:
            yield f"{name}.{words[row[name]]}", "RESULT", "", "", ""
    for drug in DRUGS:
        if row.get(drug, "No") != "No":
            yield "", "", f"{drug}.{row[drug].lower()}", "", ""
    for name in COUNTS:
        if row.get(name):
            yield "", "", "", name, row[name]


def write_long(source: Path, out: Path) -> int:
    """Write the long table; the number of its rows."""
    n = 0
    packed = source.suffix == ".gz"
    with (
        gzip.open(source, "rt", encoding="utf-8") if packed else source.open(encoding="utf-8") as stream,
        out.open("w", encoding="utf-8", newline="") as target,
    ):
        rows = csv.writer(target, lineterminator="\n")
        rows.writerow(HEADER)
        for row in csv.DictReader(stream):
            known = known_of(row)
            for cells in cells_of(row):
                rows.writerow([*known, *cells])
                n += 1
    return n


def main() -> None:
    """Read the arguments and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("source", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    print(f"{arguments.out}: {write_long(arguments.source, arguments.out):,} rows")


if __name__ == "__main__":
    main()
