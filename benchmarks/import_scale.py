"""How much memory and time it takes to import a long CSV of simulated patients, or a long table of labs.

    python benchmarks/import_scale.py --patients 1000000
    python benchmarks/import_scale.py --labs 50000000

The first writes simulated patients as one row per code (patient, visit, date, code), patients scattered,
and imports it with the table source. The second writes a hospital in the form of MIMIC-IV with so many lab events (500
items, 100 events a stay, patients scattered) and imports it with `--domains dx,lab,stay --labs 200`. Both read in a
fresh process and print rows, seconds and peak memory as JSON. The promises: 1 M patients within 2.5 GB, 50 M lab events
within 3 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from adapcla.data import Cohort
from adapcla.io.simulator import simulate
from adapcla.machine import peak_memory_mb

LIMIT_MB, LABS_LIMIT_MB = 2_560, 3_072


def write_long_csv(cohort: Cohort, path: Path, patients_at_once: int = 50_000) -> int:
    """Write one row per code, patients in a scattered order; the number of rows."""
    import polars as pl

    order = np.random.default_rng(0).permutation(cohort.n_patients)
    rows = 0
    with path.open("wb") as stream:
        for start in range(0, cohort.n_patients, patients_at_once):
            chosen = np.sort(order[start : start + patients_at_once])
            part = cohort.subset(chosen)
            visit = part.visit_of_entry
            patient = chosen[part.patient_of_visit]
            number = part.visit_number
            frame = pl.DataFrame(
                {
                    "patient_id": (patient + 10_000_000)[visit],
                    "visit_id": (patient * 100 + number)[visit],
                    "date": (np.datetime64("2010-01-01") + (patient % 3_000 + 30 * number))[visit],
                    "code": np.array(part.vocabulary.tokens)[part.codes],
                }
            )
            frame.write_csv(stream, include_header=start == 0)
            rows += len(frame)
    return rows


def write_hospital(folder: Path, events: int) -> None:
    """Write admissions, patients, diagnoses and lab events in the form of MIMIC-IV."""
    import duckdb

    stays = max(events // 100, 1)
    database = duckdb.connect(config={"memory_limit": "1GB", "threads": 1, "preserve_insertion_order": False})
    begin = "TIMESTAMP '2150-01-01' + to_minutes(CAST(hash(i) % 5000000 AS INTEGER))"
    # Half as many patients as stays; the hash scatters what the row number says.
    tables = {
        "admissions": f"""SELECT 10000000 + i % {max(stays // 2, 1)} AS subject_id, 20000000 + i AS hadm_id,
            {begin} AS admittime, {begin} + to_hours(CAST(24 + hash(i + 1) % 240 AS INTEGER)) AS dischtime,
            'EW EMER.' AS admission_type, 'HOME' AS discharge_location, NULL AS deathtime FROM range({stays}) t(i)""",
        "patients": f"""SELECT 10000000 + i AS subject_id, CASE i % 2 WHEN 0 THEN 'F' ELSE 'M' END AS gender,
            50 AS anchor_age, 2150 AS anchor_year FROM range({max(stays // 2, 1)}) t(i)""",
        "diagnoses_icd": f"""SELECT 10000000 + i % {max(stays // 2, 1)} AS subject_id, 20000000 + i AS hadm_id,
            '4019' AS icd_code, 9 AS icd_version FROM range({stays}) t(i)""",
        "labevents": f"""SELECT 10000000 + i % {max(stays // 2, 1)} AS subject_id, 20000000 + i AS hadm_id,
            50800 + CAST(500 * pow(hash(j + 7) % 100000 / 100000.0, 2) AS INTEGER) AS itemid,
            {begin} + to_minutes(CAST(hash(j) % 10000 AS INTEGER)) AS charttime,
            hash(j + 3) % 20000 / 100.0 AS valuenum, CASE hash(j) % 50 WHEN 0 THEN 'mmol/L' ELSE 'mg/dL' END AS valueuom
            FROM (SELECT j, hash(j + 11) % {stays} AS i FROM range({events}) t(j))""",
    }
    (folder / "hosp").mkdir(parents=True)
    for name, query in tables.items():
        database.execute(f"COPY ({query}) TO '{folder / 'hosp' / name}.csv' (HEADER)")
    database.close()


def measure(path: Path, out: Path) -> dict[str, float]:
    """Import in this process; counts, CPU and wall seconds, peak memory."""
    from adapcla.io import read

    wall, cpu = time.perf_counter(), time.process_time()
    cohort = read("mimic4", path, domains=["dx", "lab", "stay"]) if path.is_dir() else read("table", path)
    cohort.save(out)
    return {
        "patients": cohort.n_patients,
        "visits": cohort.n_visits,
        "entries": cohort.n_entries,
        "wall_seconds": round(time.perf_counter() - wall, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "peak_mb": peak_memory_mb(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--patients", type=int, default=1_000_000)
    parser.add_argument("--labs", type=int, help="so many lab events instead of patients")
    parser.add_argument("--measure", nargs=2, metavar=("CSV", "OUT"), help="import only, in this process")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(Path(arguments.measure[0]), Path(arguments.measure[1]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        data, limit = Path(folder) / "long.csv", LIMIT_MB
        if arguments.labs:
            data, limit, rows = Path(folder) / "hospital", LABS_LIMIT_MB, arguments.labs
            write_hospital(data, rows)
        else:
            rows = write_long_csv(simulate(arguments.patients), data)
        command = [sys.executable, __file__, "--measure", str(data), str(Path(folder) / "cohort")]
        # The promise holds whatever the machine has.
        surroundings = {**os.environ, "ADAPCLA_MEMORY": "500MB"}
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=surroundings)
        files = data.rglob("*.csv") if data.is_dir() else [data]
        result = {"rows": rows, "csv_mb": sum(file.stat().st_size for file in files) >> 20, **json.loads(done.stdout)}
    print(json.dumps(result))
    if result["peak_mb"] > limit:
        sys.exit(f"peak memory {result['peak_mb']} MB is over {limit} MB")


if __name__ == "__main__":
    main()
