"""Two machines that share no folder: torchrun starts a node on each, one is killed, and the job goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from adapcla.generation import generator_for, load
from adapcla.io import simulator as planted

pytestmark = pytest.mark.behaviour

#: Dropout differs between processes, as it does between batches, so it is off where curves are compared. A checkpoint
#: follows every step, and there are enough steps that a kill after the first falls before the last.
SETTINGS = {
    "width": 16, "layers": 1, "heads": 2, "passes": 12, "batch_size": 60, "validations": 4, "dropout": 0.0,
    "threads": 1, "checkpoint_seconds": 0.0, "patience": 99,
}  # fmt: skip
TRAIN = f"""
import sys
from adapcla.generation import generator_for
from adapcla.generation.run_folder import train_run
from adapcla.io import simulator as planted
train, valid, _ = planted.simulate(patients=260, codes=60, seed=1).split(seed=4)
train_run(generator_for("adapcla", **{SETTINGS!r}), train, valid, "run", resume=True)
"""


class Node:
    """One machine: how commands are started there, its address, its network device and its own working folder."""

    def __init__(self, enter: list[str], address: str, device: str, folder: Path) -> None:
        self.enter, self.address, self.device, self.folder = enter, address, device, folder
        folder.mkdir()
        (folder / "train.py").write_text(TRAIN)

    def start(self, rank: int, first: str, port: int) -> subprocess.Popen[str]:
        """A node of a job of two."""
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1"]
        place = [f"--node_rank={rank}", f"--master_addr={first}", f"--master_port={port}"]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": self.device}
        return subprocess.Popen(
            [*self.enter, *launcher, *place, "train.py"], cwd=self.folder, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip


def _ip(*words: str) -> bool:
    """Whether a command of `ip` worked."""
    return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Node]]:
    """Two network namespaces with a cable between them; two ports of one machine where they may not be made."""
    names = [f"adapcla-{os.getpid()}-{letter}" for letter in "ab"]
    folders = [tmp_path / "first", tmp_path / "second"]
    if not (shutil.which("ip") and os.geteuid() == 0 and all(_ip("netns", "add", name) for name in names)):
        for name in names:
            _ip("netns", "del", name)
        yield [Node([], "127.0.0.1", "lo", folder) for folder in folders]
        return
    try:
        _ip("link", "add", "one", "netns", names[0], "type", "veth", "peer", "name", "one", "netns", names[1])
        for number, name in enumerate(names, 1):
            assert _ip("-n", name, "addr", "add", f"10.97.53.{number}/24", "dev", "one")
            assert _ip("-n", name, "link", "set", "one", "up") and _ip("-n", name, "link", "set", "lo", "up")
        yield [
            Node(["ip", "netns", "exec", name], f"10.97.53.{number}", "one", folder)
            for number, (name, folder) in enumerate(zip(names, folders, strict=True), 1)
        ]
    finally:
        for name in names:
            _ip("netns", "del", name)


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def losses(run: Path) -> list[tuple[str, int, float]]:
    """Losses of steps and validations, in order."""
    return [told(json.loads(line)) for line in (run / "journal.jsonl").read_text().splitlines()]


def told(line: dict[str, Any]) -> tuple[str, int, float]:
    """What a line of a journal says that does not depend on the machine."""
    return line["kind"], line["step"], line["loss"]


def kill(node: subprocess.Popen[str]) -> None:
    """Kill a launcher and all that it started, as when a machine loses power; workers have own sessions."""
    family, asked = [], [node.pid]
    while asked:
        pid = asked.pop()
        family.append(pid)
        for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
            asked += [int(word) for word in tasks.read_text().split()]
    for pid in family:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def end(started: list[subprocess.Popen[str]]) -> None:
    """Kill what is left of the nodes."""
    for node in started:
        if node.poll() is None:
            kill(node)
        node.communicate()


def test_a_node_is_killed_and_the_job_resumes(nodes: list[Node]) -> None:
    port, first = free_port(), nodes[0].address
    started = [node.start(rank, first, port) for rank, node in enumerate(nodes)]
    try:
        pointer = nodes[0].folder / "run" / "checkpoints" / "LATEST.json"
        limit = time.monotonic() + 90
        while not pointer.exists():
            assert time.monotonic() < limit and all(node.poll() is None for node in started), "no checkpoint came"
            time.sleep(0.005)
        kill(started[1])
        # The other node learns that its partner is gone, and ends with a failure instead of waiting.
        assert started[0].wait(timeout=60) != 0
    finally:
        end(started)
    assert not (nodes[0].folder / "run" / "model").exists(), "the run was complete before the kill"
    reached = json.loads(pointer.read_text())["generations"][0]["step"]
    assert 0 < reached < 48

    again = [node.start(rank, first, port) for rank, node in enumerate(nodes)]
    try:
        ended = [(node.communicate(timeout=120)[1], node.returncode) for node in again]
    finally:
        end(again)
    assert [code for _, code in ended] == [0, 0], ended
    assert [path.name for path in nodes[1].folder.iterdir()] == ["train.py"], "only the first node writes"

    train, valid, _ = planted.simulate(patients=260, codes=60, seed=1).split(seed=4)
    outcome = generator_for("adapcla", **SETTINGS).fit(train, valid).outcome_
    assert outcome is not None
    together, alone = losses(nodes[0].folder / "run"), [told(line) for line in outcome.journal.lines]
    assert [line[:2] for line in together] == [line[:2] for line in alone]
    assert [line[2] for line in together] == pytest.approx([line[2] for line in alone], rel=1e-3)
    assert load(nodes[0].folder / "run").sample(5, seed=1).n_patients == 5
