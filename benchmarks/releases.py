"""`adapcla synthesize` on open data sets: how it ends, how long it takes, what the gate says and the three numbers.

    python benchmarks/releases.py                                        # the built-in simulated patients alone
    python benchmarks/releases.py --sets all --minutes 4 --out DIR --table results/releases.md
    python benchmarks/releases.py --sets million --out DIR               # a million patients, always 60 minutes

Each set is read from the folder of data (ADAPCLA_DATA, else `data/`); one that is not there is named and left out.
The table of a million patients is made here. Every format of a release is read back and must give the same cohort. A
set that was done in DIR is not done again; one that was stopped is taken up, and the times of all calls are added up.
Prints one JSON object; ends with 1 if a run ended otherwise than it may (0, or 5 where the gate is not met; 3 for too
few patients), or a format did not read back.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from adapcla.data import Cohort
from adapcla.io import read
from adapcla.io.readers.open_data import data_folder
from adapcla.pipeline.steps import record
from adapcla.tables import Table

FORMATS = ("csv", "meds", "fhir", "omop")
READERS = {"csv": "table"}


class Set(NamedTuple):
    """The command line, the file it needs, the exit codes that are right, and fixed options."""

    words: tuple[str, ...]
    path: str = ""
    right: tuple[int, ...] = (0, 5)
    #: Minutes and formats that do not follow from the call.
    minutes: float | None = None
    formats: str | None = None
    #: Patients of a table that is made here.
    made: int = 0


#: Columns of a table that is made here; the last ones are attributes.
COLUMNS = ("patient_id", "visit_id", "date", "code", "sex", "birth_band")
ATTRIBUTES = COLUMNS[4:]
SETS = {
    "simulated": Set(("simulated",)),
    "diabetes130": Set(("table", "{}"), "diabetes130/visits.csv.gz"),
    "synpuf": Set(("table", "{}"), "synpuf_inpatient/visits.csv.gz"),
    "chile": Set(("table", "{}", "--attributes", "sex"), "chile_grd_inca2023/visits.csv.gz"),
    "synthea": Set(("table", "{}"), "synthea/visits.csv.gz"),
    "mimic4-demo": Set(("mimic4", "{}"), "mimic4_demo", (3,)),
    "million": Set(
        ("table", "{}", "--attributes", ",".join(ATTRIBUTES), "--patients", "200000"),
        minutes=60,
        formats="csv",
        made=1_000_000,
    ),
}


class Usage(NamedTuple):
    """How a process ended, and what it took."""

    code: int
    seconds: float
    peak_mb: int
    clock: float = 0.0
    calls: int = 1


class Watch:
    """Follows a process: the largest memory it holds at any time, looked up four times a second.

    The system's own peak does not do: training sets it back, so that its card can tell the peak of training alone.
    """

    def __init__(self, pid: int) -> None:
        self.pid, self.peak, self._over = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        status = Path(f"/proc/{self.pid}/status")
        while not self._over.wait(0.25):
            try:
                lines = status.read_text().splitlines()
            except OSError:
                return
            held = [int(line.split()[1]) for line in lines if line.startswith("VmRSS:")]
            self.peak = max([self.peak, *held])

    def ended(self) -> Usage:
        """Wait for the end."""
        _, status, usage = os.wait4(self.pid, 0)
        self._over.set()
        self._thread.join()
        peak = max(self.peak, usage.ru_maxrss)
        return Usage(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, round(peak * 1024 / 1e6))


def run_release(name: str, out: Path, minutes: float, formats: str, more: list[str]) -> dict[str, Any]:
    """One run of the command in a process of its own, with what it says, its time and its memory."""
    asked, kept = SETS[name], out / f"{name}.json"
    path = large_table(out, asked.made) if asked.made else data_folder() / asked.path
    if asked.path and not path.exists():
        return {"set": name, "skipped": f"no {asked.path} in the folder of data"}
    words = [str(path) if word == "{}" else word for word in asked.words]
    options = {"--out": out / name, "--minutes": asked.minutes or minutes, "--format": asked.formats or formats}
    words += [str(word) for pair in options.items() for word in pair] + ["--set", "birth_year=1950", "--json", *more]
    if kept.is_file() and (before := json.loads(kept.read_text()))["words"] == words:
        return dict(before)
    began = time.monotonic()
    with (out / f"{name}.log").open("a", encoding="utf-8") as log:
        command = [sys.executable, "-m", "adapcla", "synthesize", *words]
        ran = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        watch = Watch(ran.pid)
        stdout = ran.stdout.read() if ran.stdout is not None else ""
        used = _with_earlier(watch.ended()._replace(clock=time.monotonic() - began), out / f"{name}.used.json")
    said = (out / f"{name}.log").read_text(encoding="utf-8").strip().splitlines()
    found: dict[str, Any] = {
        "set": name,
        "words": words,
        "exit": used.code,
        "right": used.code in asked.right,
        "asked": options["--minutes"],
        "minutes": round(used.clock / 60, 1),
        "processor minutes": round(used.seconds / 60, 1),
        "calls": used.calls,
        "peak MB": used.peak_mb,
        "last lines": [line for line in said if not line.startswith("synthesize ")][-4:],
    }
    if stdout.strip():
        summary = json.loads(stdout.splitlines()[-1])
        work = Path(summary["work"])
        found |= {"passed": summary["passed"], "status": summary["status"], "reasons": summary["reasons"]}
        found["reads back"] = _reads_back(Path(summary["out"]), work) if summary["out"] else {}
        found["learned from"] = record(work / "tries" / str(summary["tries"]) / "patients")["sizes"][0]
        found["stages"] = _stages(work)
    if found["right"]:
        kept.write_text(json.dumps(found))
    return found


def _with_earlier(used: Usage, path: Path) -> Usage:
    """What all calls took together, where a run was stopped and taken up; kept beside it."""
    if path.is_file():
        before = Usage(**json.loads(path.read_text()))
        peak, calls = max(before.peak_mb, used.peak_mb), before.calls + 1
        used = Usage(used.code, before.seconds + used.seconds, peak, before.clock + used.clock, calls)
    path.write_text(json.dumps(used._asdict()))
    return used


def _stages(work: Path) -> dict[str, float]:
    """Processor minutes of each stage, over all tries."""
    places = {"read": [work / "data"], "write": [work / "write"]}
    for stage, name in (("codes", "patients"), ("train", "fit"), ("sample", "sample"), ("real", "real")):
        places[stage] = sorted((work / "tries").glob(f"*/{name}"))
    places["evaluate"] = sorted((work / "tries").glob("*/scores"))
    seconds = {
        stage: sum(record(place).get("processor seconds", 0) for place in all_) for stage, all_ in places.items()
    }
    return {stage: round(total / 60, 2) for stage, total in seconds.items()}


def _reads_back(release: Path, work: Path) -> dict[str, bool]:
    """Whether each format of a release gives the cohort that was sampled."""
    tries = sorted((work / "tries").iterdir(), key=lambda path: int(path.name))
    sampled = Cohort.open(next(path for path in reversed(tries) if (path / "sample").is_dir()) / "sample").fingerprint
    there = [name for name in FORMATS if (release / name).is_dir()]
    return {name: read(READERS.get(name, name), release / name).fingerprint == sampled for name in there}


def large_table(out: Path, n: int, codes: int = 3000) -> Path:
    """A table of so many made-up patients as a hospital would hand it over: one row for each code, no codebook."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv

    from adapcla.io import simulator
    from adapcla.seeds import random_stream

    path = out / f"patients-{n}.csv"
    if path.is_file():
        return path
    cohort, half = simulator.simulate(n, codes, seed=3), path.with_suffix(".half")
    began = random_stream(3, "benchmarks/releases/dates").integers(15_000, 19_000, n).astype(np.int32)
    names = pa.array([code.code for code in cohort.vocabulary.codes])
    with csv.CSVWriter(half, pa.schema([(name, pa.string()) for name in COLUMNS])) as writer:
        for first in range(0, n, 20_000):
            some = cohort.subset(np.arange(first, min(first + 20_000, n)))
            visit = np.repeat(np.arange(some.n_visits), np.diff(some.visit_starts))
            person = np.repeat(np.arange(some.n_patients), np.diff(some.patient_starts))
            days = (np.asarray(some.days) + began[first + person]).astype(np.int32)
            before = int(cohort.patient_starts[first])
            columns = [pa.array(each).cast(pa.string()) for each in (first + person[visit], before + visit)]
            columns.append(pa.array(days[visit], pa.date32()).cast(pa.string()))
            columns.append(names.take(pa.array(np.asarray(some.codes))))
            for name in COLUMNS[4:]:
                attribute = some.attributes[name]
                values = pa.array(np.asarray(attribute.values)[person[visit]])
                columns.append(pa.array(attribute.categories).take(values))
            writer.write_batch(pa.record_batch(columns, names=list(COLUMNS)))
    return half.replace(path)


def table(rows: list[dict[str, Any]], command: str) -> str:
    """The table for people."""
    titles = ("set", "patients learned from", "exit code", "minutes asked", "processor minutes", "by the clock", "gate")
    lines = []
    for row in rows:
        if "skipped" in row:
            lines.append((row["set"], row["skipped"], *[""] * (len(titles) + 5)))
            continue
        statuses = {
            key: f"{status['value']} {status['unit']} ({status['outcome']})"
            for key, status in row.get("status", {}).items()
        }
        gate = "–" if "passed" not in row else "met" if row["passed"] else "not met"
        back = row.get("reads back", {})
        said = "–" if not back else "same: " + ", ".join(name for name, same in back.items() if same)
        took = "; ".join(f"{stage} {part:g}" for stage, part in row.get("stages", {}).items()) or "–"
        lines.append(
            (
                row["set"],
                f"{row['learned from']:,}" if "learned from" in row else row["last lines"][0],
                str(row["exit"]),
                f"{row['asked']:g}",
                f"{row['processor minutes']}",
                f"{row['minutes']}",
                gate,
                *(statuses.get(key, "–") for key in ("similar", "useful", "private")),
                f"{row['peak MB']:,}",
                said,
                took,
            )
        )
    head = f"# Releases of open data sets\n\nMade by `{command}`, one thread, beside other programs.\n\n"
    more = ("like real", "useful", "safe", "peak MB", "read back", "processor minutes of each stage")
    return head + Table((*titles, *more), lines).markdown()


def main() -> None:
    """Run the sets and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="simulated", help="names with commas, or all")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--formats", default="csv,meds,fhir,omop")
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
            rows.append(run_release(name, out, asked.minutes, asked.formats, more))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    if asked.table is not None:
        command = f"python benchmarks/releases.py --sets {asked.sets} --minutes {asked.minutes:g}"
        asked.table.write_text(table(rows, command), encoding="utf-8")
    print(json.dumps({"benchmark": "releases", "rows": rows}))
    wrong = [row for row in rows if not row.get("right", True) or not all(row.get("reads back", {}).values())]
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
