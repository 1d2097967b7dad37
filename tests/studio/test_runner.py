"""The process that waits for a verb and writes its exit code."""

from __future__ import annotations

import signal
from pathlib import Path

from adapcla.files import read_json
from adapcla.studio.jobs import ERR, EXIT, OUT
from adapcla.studio.runner import carry_out


def test_what_a_verb_says_and_its_exit_code_are_kept(tmp_path: Path) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        assert carry_out(tmp_path, ["--version"]) == 0
        assert (tmp_path / OUT).read_text().strip() and read_json(tmp_path / EXIT)["code"] == 0
        assert carry_out(tmp_path, ["describe", "nothing"]) == 3
        assert (tmp_path / ERR).read_text().startswith("adapcla: nothing") and read_json(tmp_path / EXIT)["code"] == 3
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
