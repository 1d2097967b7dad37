"""Whether an installed package works: run by the Python of the environment to try, with nothing but the package in it.

    python scripts/smoke.py            # all that there is
    python scripts/smoke.py --no-torch # what needs no torch, where torch cannot be had

Every command runs in an empty folder that is no part of the repository, so that what is tried is what was installed.
Ends with 1 at the first command that fails, and prints what it said.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

#: Commands that need no torch.
LIGHT = (
    "--version",
    "--help",
    "simulate --out world --patients 300 --codes 60 --seed 1",
    "describe world --json",
    "split world --control 0.1 --out parts",
    "prior export world --out prior.csv",
    "export world --to csv --out csv",
    "export world --to meds --out meds",
    "import meds meds --out again",
    "import table visits.csv --out own --patient who --date day --codes dx",
)
#: The rest of the way: training, sampling, steering, evaluating.
WHOLE = (
    "methods",
    "train parts --out run --method tailwise --seed 1 --set width=16 --set layers=1 --set heads=2 --epochs 1",
    "sample run --patients 100 --out made",
    "sample run --patients 100 --toward prior.csv --out steered",
    "evaluate --train parts/train --test parts/test --synthetic made --suites tail,fidelity --quick --out scores",
    "doctor",
)


def run(words: list[str], where: Path) -> str:
    """What a command printed; the end of everything if it failed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    place = {"XDG_CACHE_HOME": str(where / "cache"), "OMP_NUM_THREADS": "1", "ADAPCLA_QUIET": "1"}
    done = subprocess.run(words, cwd=where, env=kept | place, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def main() -> None:
    """Try the package that is installed for this Python."""
    commands = LIGHT if "--no-torch" in sys.argv[1:] else LIGHT + WHOLE
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        (where / "visits.csv").write_text("who,day,dx\n1,2020-01-01,I10\n1,2020-02-01,E11\n2,2020-01-05,I10\n")
        place = run(
            [sys.executable, "-c", "import adapcla, importlib.resources as r; print(r.files('adapcla'))"], where
        )
        typed = Path(place.strip()) / "py.typed"
        if not typed.is_file() or "site-packages" not in typed.parts:
            sys.exit(f"{place.strip()}: expected an installed package with py.typed")
        for command in commands:
            run([sys.executable, "-m", "adapcla", *command.split()], where)
        program = Path(sys.executable).with_name("adapcla")
        version = run([str(program), "--version"], where).strip()
    python = ".".join(map(str, sys.version_info[:3]))
    print(json.dumps({"python": python, "adapcla": version, "commands": len(commands), "torch": commands is not LIGHT}))


if __name__ == "__main__":
    main()
