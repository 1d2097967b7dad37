"""The Slurm scripts, run to their end; stand-ins take the place of `sbatch`, `srun` and `scontrol`.

The stand-ins do what Slurm promises and no more: options of #SBATCH lines, one run for each number of an array, the
variables SLURM_*, one task for each node, dependencies on jobs that must have ended well.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from adapcla.generation import load
from adapcla.io import simulator as planted

pytestmark = pytest.mark.behaviour

SBATCH = r"""#!{python}
import os, re, subprocess, sys, pathlib
words = sys.argv[1:]
given = [words.pop(0) for _ in list(words) if words[0].startswith("--")]
script, ended = words[0], pathlib.Path(os.environ["STAND_IN"])
header = re.findall(r"^#SBATCH (--\S+)", pathlib.Path(script).read_text(), re.M)
options = dict(item[2:].partition("=")[::2] for item in header + given)
needed = options.get("dependency", "").rpartition(":")[2]
if needed and (ended / needed).read_text() != "0":
    sys.exit("the job before failed")
number = str(len(list(ended.iterdir())) + 1)
low, _, high = options["array"].partition("-") if "array" in options else ("", "", "")
environment = os.environ | {{
    "SLURM_JOB_ID": number, "SLURM_NNODES": options.get("nodes", "1"), "SLURM_JOB_NODELIST": "node[1-2]",
    "SLURM_CPUS_PER_TASK": options.get("cpus-per-task", "1"),
}}
codes = []
for task in range(int(low), int(high or low) + 1) if low else [None]:
    own = {{}} if task is None else {{"SLURM_ARRAY_TASK_ID": str(task)}}
    codes.append(subprocess.run(["bash", *words], env=environment | own, stdout=sys.stderr).returncode)
(ended / number).write_text(str(max(codes)))
print(number if "parsable" in options else "Submitted batch job " + number)
"""
SRUN = r"""#!{python}
import os, subprocess, sys
nodes = range(int(os.environ["SLURM_NNODES"]))
tasks = [subprocess.Popen(sys.argv[1:], env=os.environ | {{"SLURM_PROCID": str(node)}}) for node in nodes]
sys.exit(max(task.wait() for task in tasks))
"""
SCONTROL = "#!/bin/sh\nprintf '127.0.0.1\\n127.0.0.1\\n'\n"
#: Small enough for a test, given to the scripts as a user gives more options.
TINY = "--set width=16 --set layers=1 --set heads=2 --epochs 1"


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the commands of Slurm are stand-ins."""
    from tests.behaviour.test_nodes import free_port

    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("sbatch", SBATCH), ("srun", SRUN), ("scontrol", SCONTROL)):
        (programs / name).write_text(text.format(python=sys.executable) if "{python}" in text else text)
        (programs / name).chmod(0o755)
    (tmp_path / "ended").mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    for name, value in (
        ("STAND_IN", str(tmp_path / "ended")), ("JOBS", "3"), ("PROCESSES", "1"), ("MASTER_PORT", str(free_port())),
        ("ADAPCLA_QUIET", "1"), ("OMP_NUM_THREADS", "1"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def submitted(*words: str) -> str:
    """What `sbatch` prints; the job has ended then."""
    ran = subprocess.run(["sbatch", *words], capture_output=True, text=True, check=False, timeout=200)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout.strip()


def test_training_on_two_nodes(stand_ins: Path, repository: Path) -> None:
    scripts = repository / "examples" / "slurm"
    planted.simulate(patients=200, codes=40, seed=1).save(stand_ins / "cohort")
    training = submitted("--parsable", str(scripts / "train.sh"), "cohort", "run", *TINY.split())
    assert (stand_ins / "ended" / training).read_text() == "0"
    assert load(stand_ins / "run").sample(5, seed=1).n_patients == 5


def test_a_ray_cluster_is_begun_on_all_nodes_before_the_command(stand_ins: Path, repository: Path) -> None:
    """Stand-ins write down what was started: the head first, then the others, then the command with the address."""
    log = stand_ins / "log"
    for name in ("srun", "ray", "adapcla"):
        text = f'#!/bin/sh\necho "{name} $@ at $RAY_ADDRESS" >> {log}\n'
        (stand_ins / "programs" / name).write_text(text)
        (stand_ins / "programs" / name).chmod(0o755)
    script = str(repository / "examples" / "slurm" / "ray.sh")
    job = submitted("--parsable", script, "adapcla", "sample", "run", "--cluster", "auto")
    assert (stand_ins / "ended" / job).read_text() == "0"
    lines = log.read_text().splitlines()
    assert sum("--head" in line and "--nodes=1 " in line for line in lines) == 1
    assert sum("--nodes=3 " in line and "--address=127.0.0.1:6379" in line for line in lines) == 1
    assert "adapcla sample run --cluster auto at 127.0.0.1:6379" in lines
