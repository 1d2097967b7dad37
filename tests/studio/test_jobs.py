"""Jobs: processes that live on, whose end is known whoever watches, that stop and go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from adapcla.files import read_json
from adapcla.studio import jobs
from adapcla.studio.jobs import ERR, EXIT, OUT, Job, carry_out, job_at, jobs_in, newest, start


def ended(job: Job, seconds: float = 60) -> Job:
    """The job, when it has ended."""
    until = time.monotonic() + seconds
    while job.running:
        assert time.monotonic() < until, job.said
        time.sleep(0.05)
    return job


def test_a_verb_runs_by_itself_and_leaves_its_answer_to_whoever_looks(tmp_path: Path) -> None:
    """A reload, a second tab, another studio: the folder says to all of them how a job stands."""
    words = ["simulate", "--out=world", "--patients=40", "--codes=40", "--json"]
    job = start(tmp_path / "jobs", words, "World", {"kind": "a"}, tmp_path)
    assert job.state == "running" and job.code is None
    script = (
        "import sys; from pathlib import Path; from adapcla.studio.jobs import newest\n"
        "print(newest(Path(sys.argv[1]), kind='a').state)"
    )
    call = [sys.executable, "-c", script, str(tmp_path / "jobs")]
    assert subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip() in ("running", "done")
    ended(job)
    assert job.state == "done" and job.code == 0 and job.message == ""
    assert subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip() == "done"
    assert job.result["patients"] == 40 and (tmp_path / "world").is_dir()
    assert job.line.startswith("adapcla simulate --out=world") and 0 < job.seconds < 300
    assert job_at(job.folder) == job


def test_an_error_is_the_message_of_the_command(tmp_path: Path) -> None:
    job = ended(start(tmp_path / "jobs", ["describe", "nothing"], "Describe", {}, tmp_path))
    assert job.state == "failed" and job.code == 3
    assert job.message.startswith("nothing") and "to do:" in job.message and "Traceback" not in job.said


def test_the_newest_comes_first_and_keys_choose(tmp_path: Path) -> None:
    from tests.studio.conftest import put

    for number in range(3):
        put(tmp_path, ["methods"], str(number), {"kind": "even" if number % 2 == 0 else "odd"}, tmp_path)
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / jobs.JOB).write_text("{")
    assert [job.title for job in jobs_in(tmp_path)] == ["2", "1", "0"]
    assert [job.title for job in jobs_in(tmp_path, kind="odd")] == ["1"]
    assert newest(tmp_path, kind="none") is None


def test_a_job_that_is_stopped_ends_as_ctrl_c_does_and_goes_on(tmp_path: Path) -> None:
    """Also where the studio itself was started with Ctrl-C ignored, as a shell does behind an ampersand."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        words = ["simulate", "--out=world", "--patients=3000000", "--codes=60"]
        job = start(tmp_path / "jobs", words, "World", {"kind": "w"}, tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    until = time.monotonic() + 60
    while not job.progress and time.monotonic() < until:
        time.sleep(0.05)
    assert 0 <= job.progress["share"] < 1
    job.stop()
    ended(job)
    assert job.state == "stopped" and job.code == 130 and "Traceback" not in job.said
    assert not (tmp_path / "world").exists()
    again = job.again()
    assert again.command == job.command and again.running and newest(tmp_path / "jobs", kind="w") == again
    again.stop()
    ended(again)


def test_a_process_that_was_killed_is_lost_and_a_job_that_ended_is_not_stopped(tmp_path: Path) -> None:
    words = ["simulate", "--out=world", "--patients=3000000", "--codes=60"]
    job = start(tmp_path / "jobs", words, "World", {}, tmp_path)
    os.killpg(int(read_json(job.folder / "pid.json")["pid"]), signal.SIGKILL)
    ended(job)
    assert job.state == "lost" and job.code is None
    job.stop()


@pytest.mark.parametrize(
    ("code", "state"), [(0, "done"), (5, "done"), (130, "stopped"), (-2, "stopped"), (1, "failed"), (3, "failed")]
)
def test_exit_codes_in_words(tmp_path: Path, code: int, state: str) -> None:
    from tests.studio.conftest import put

    job = put(
        tmp_path, ["x"], "x", {}, tmp_path, code=code, said="reading\nadapcla: found\nexpected: that\nto do: this\n"
    )
    assert job.state == state and job.message == "found\nexpected: that\nto do: this"


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
