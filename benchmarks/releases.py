"""`adapcla synthesize` on open data sets: how it ends, how long it takes, what the gate says and the three numbers.

    python benchmarks/releases.py                                        # the built-in world alone, about a minute
    python benchmarks/releases.py --sets all --minutes 4 --out DIR --table results/releases.md
    python benchmarks/releases.py --sets table-1000000 --minutes 60 --formats csv --out DIR  # a million patients

Each set is read from the folder of data (ADAPCLA_DATA, else `data/`); one that is not there is named and left out.
Every format of a release is read back and must give the same cohort. A set that was done in DIR is not done again.
Prints one JSON object; ends with 1 if a run ended otherwise than it may (0, or 5 where the gate is not met; 3 for too
few patients), or a format did not read back.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from adapcla.experiment.folder import stamp
from adapcla.records import Cohort
from adapcla.sources import read
from adapcla.sources.open_data import data_folder
from adapcla.tables import Table

FORMATS = ("csv", "meds", "fhir", "omop", "halo")
READERS = {"csv": "table"}


class Set(NamedTuple):
    """What stands on the command line, what must be there, and which exit codes are right."""

    words: tuple[str, ...]
    path: str = ""
    right: tuple[int, ...] = (0, 5)


SETS = {
    "planted": Set(("planted",)),
    "diabetes130": Set(("table", "{}"), "diabetes130/visits.csv.gz"),
    "synpuf": Set(("table", "{}"), "synpuf_inpatient/visits.csv.gz"),
    "chile": Set(("table", "{}", "--attributes", "sex"), "chile_grd_inca2023/visits.csv.gz"),
    "synthea": Set(("table", "{}"), "synthea/visits.csv.gz"),
    "mimic4-demo": Set(("mimic4", "{}"), "mimic4_demo", (3,)),
}


def made(name: str, out: Path, minutes: float, formats: str, more: list[str]) -> dict[str, Any]:
    """One run of the command in a process of its own, with what it says, its time and its memory."""
    asked = SETS.get(name) or Set(("table", str(large_table(out, int(name.removeprefix("table-"))))))
    path = data_folder() / asked.path
    if asked.path and not path.exists():
        return {"set": name, "skipped": f"no {asked.path} in the folder of data"}
    words = [word.format(path) if word == "{}" else word for word in asked.words]
    words += [
        "--out",
        str(out / name),
        "--minutes",
        str(minutes),
        "--format",
        formats,
        "--birth-year",
        "1950",
        "--json",
    ]
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(
        [sys.executable, "-m", "adapcla", "--quiet", "synthesize", *words, *more],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found: dict[str, Any] = {
        "set": name,
        "exit": ran.returncode,
        "right": ran.returncode in asked.right,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "processor minutes": round((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 60, 1),
        "peak MB": round(after.ru_maxrss / 1024),
        "said": ran.stderr.strip().splitlines()[-4:],
    }
    if ran.stdout.strip():
        told = json.loads(ran.stdout.splitlines()[-1])
        found |= {"passed": told["passed"], "lamps": told["lamps"], "reasons": told["reasons"]}
        found["reads back"] = _reads_back(Path(told["out"]), Path(told["work"])) if told["out"] else {}
        found["learned from"] = stamp(Path(told["work"]) / "tries" / str(told["tries"]) / "patients")["sizes"][0]
    return found


def _reads_back(release: Path, work: Path) -> dict[str, bool]:
    """Whether each format of a release gives the cohort that was sampled."""
    tries = sorted((work / "tries").iterdir(), key=lambda path: int(path.name))
    sampled = Cohort.open(next(path for path in reversed(tries) if (path / "sample").is_dir()) / "sample").fingerprint
    there = [name for name in FORMATS if (release / name).is_dir()]
    return {name: read(READERS.get(name, name), release / name).fingerprint == sampled for name in there}


def large_table(out: Path, n: int, codes: int = 3000) -> Path:
    """A table of so many made-up patients, one row for each code."""
    from adapcla.sources import planted
    from adapcla.sources.export import write

    folder = out / f"patients-{n}"
    if not folder.is_dir():
        cohort = planted.simulate(n, codes, seed=3)
        write(cohort, folder, "csv")
        # Somebody's table has no codebook beside it.
        for name in ("adapcla.json", "visits.csv", "patients.csv", "vocabulary.csv"):
            (folder / name).unlink()
    return folder / "long.csv"


def table(rows: list[dict[str, Any]], command: str) -> str:
    """The table for people."""
    titles = ("set", "patients learned from", "exit code", "minutes (processor)", "gate", "like real", "useful", "safe")
    lines = []
    for row in rows:
        if "skipped" in row:
            lines.append((row["set"], row["skipped"], *[""] * 8))
            continue
        lamps = {key: f"{lamp['value']} {lamp['unit']} ({lamp['light']})" for key, lamp in row.get("lamps", {}).items()}
        gate = "–" if "passed" not in row else "met" if row["passed"] else "not met"
        back = row.get("reads back", {})
        said = "–" if not back else "same: " + ", ".join(name for name, same in back.items() if same)
        lines.append(
            (
                row["set"],
                f"{row['learned from']:,}" if "learned from" in row else row["said"][0],
                str(row["exit"]),
                f"{row['minutes']} ({row['processor minutes']})",
                gate,
                *(lamps.get(key, "–") for key in ("like", "useful", "safe")),
                f"{row['peak MB']:,}",
                said,
            )
        )
    head = f"# Releases of open data sets\n\nMade by `{command}`.\n\n"
    return head + Table((*titles, "peak MB", "read back"), lines).markdown()


def main() -> None:
    """Run the sets and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="planted", help="names with commas, all, or table-N for N made-up patients")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--formats", default="csv,meds,fhir,omop,halo")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path, help="write the table here too")
    asked, more = parser.parse_known_args()
    names = list(SETS) if asked.sets == "all" else asked.sets.split(",")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as temporary:
        out = asked.out or Path(temporary)
        out.mkdir(parents=True, exist_ok=True)
        rows = []
        for name in names:
            rows.append(made(name, out, asked.minutes, asked.formats, more))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    if asked.table is not None:
        command = f"python benchmarks/releases.py --sets {asked.sets} --minutes {asked.minutes:g}"
        asked.table.write_text(table(rows, command), encoding="utf-8")
    print(json.dumps({"benchmark": "releases", "rows": rows}))
    wrong = [row for row in rows if not row.get("right", True) or not all(row.get("reads back", {}).values())]
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
