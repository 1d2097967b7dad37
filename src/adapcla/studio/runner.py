"""Carries out one job: calls the verb, waits for it, and writes its exit code beside what it said.

It is a process of its own, so that the code is there even if the studio that started it is gone. Signals to the group
reach the verb; this process only waits.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from adapcla.files import write_json
from adapcla.studio.jobs import ERR, EXIT, OUT


def carry_out(folder: Path, command: Sequence[str]) -> int:
    """The exit code of the verb, after it was written to the job's folder."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A handler that does nothing: unlike a signal that is ignored, it is not handed down to the verb.
        signal.signal(number, lambda *_: None)
    with (folder / OUT).open("wb") as out, (folder / ERR).open("wb") as err:
        verb = subprocess.Popen(
            [sys.executable, "-m", "adapcla", *command], stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        code = verb.wait()
    write_json(folder / EXIT, {"code": code, "ended": time.time()})
    return code


if __name__ == "__main__":
    carry_out(Path(sys.argv[1]), sys.argv[2:])
