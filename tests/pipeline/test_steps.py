"""Steps: done once for their key, in order, resumed to the same bytes, with nothing kept that was made otherwise."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from adapcla.errors import AdapclaError, ExistsError, InputError, InterruptedRun
from adapcla.files import read_json, write_json
from adapcla.pipeline.steps import RECORD, Step, expected_seconds, forget_records, key_of, record, run_steps


class Chain:
    """Three steps, each of which adds its name to what the one before it wrote."""

    def __init__(self, root: Path, fail=None, unwanted=(), inputs=None, revision=1):
        self.root, self.fail, self.unwanted, self.done = root, fail or {}, unwanted, []
        steps: list[Step] = []
        for name, row in (("a", None), ("b", ("row", 1)), ("c", ("row", 1))):
            steps.append(
                Step(
                    "work",
                    name,
                    root / name,
                    lambda folder, name=name: self.work(name, folder),
                    (inputs or {}).get(name, {}),
                    tuple(steps[-1:]),
                    revision=revision,
                    row=row,
                    wanted=lambda name=name: name not in self.unwanted,
                )
            )
        self.steps = steps

    def work(self, name, folder):
        if name in self.fail:
            raise self.fail[name]
        before = "" if name == "a" else (self.root / chr(ord(name) - 1) / "text").read_text()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "text").write_text(before + name)
        self.done.append(name)
        return {"length": len(before) + 1}

    def run(self, progress=None):
        return run_steps(self.steps, self.root, progress)


def content(root: Path) -> dict[str, bytes]:
    """Every file that stays but locks; times are taken out of records."""
    out = {}
    for path in sorted(root.rglob("*")):
        if path.name == RECORD:
            kept = {name: value for name, value in read_json(path).items() if "seconds" not in name}
            out[path.relative_to(root).as_posix()] = repr(kept).encode()
        elif path.is_file() and path.name != ".lock":
            out[path.relative_to(root).as_posix()] = path.read_bytes()
    return out


def test_steps_are_done_once_and_in_order_and_leave_a_record(tmp_path):
    first, second = Chain(tmp_path), Chain(tmp_path)
    assert not any(step.done for step in first.steps)
    first.run()
    second.run()
    assert (first.done, second.done) == (["a", "b", "c"], [])
    assert all(step.done for step in second.steps) and record(tmp_path / "c")["length"] == 3
    assert second.steps[2].facts == {"length": 3}
    forget_records(second.steps)
    assert not any(step.done for step in second.steps)
    second.run()
    assert second.done == ["a", "b", "c"]


def test_a_changed_input_does_its_step_and_those_after_it_again(tmp_path):
    Chain(tmp_path).run()
    changed = Chain(tmp_path, inputs={"b": {"size": 2}})
    changed.run()
    assert changed.done == ["b", "c"]


def test_a_raised_revision_does_its_step_and_those_after_it_again(tmp_path):
    Chain(tmp_path).run()
    chain = Chain(tmp_path)
    chain.steps[1] = replace(chain.steps[1], revision=2)
    chain.steps[2] = replace(chain.steps[2], after=(chain.steps[1],))
    chain.run()
    assert chain.done == ["b", "c"]


def test_what_follows_a_choice_depends_on_what_was_chosen_and_not_on_how(tmp_path):
    def steps(minutes, size, done):
        choose = Step("choose", "", tmp_path / "choice", lambda _: {"size": size}, {"minutes": minutes}, by_result=True)
        return [choose, Step("train", "", tmp_path / "fit", lambda _: done.append(size) or {}, {}, (choose,))]

    done = []
    for minutes, size in ((5, 64), (6, 64), (9, 128), (5, 64)):
        run_steps(steps(minutes, size, done), tmp_path)
    assert done == [64, 128, 64]


def test_what_is_not_wanted_is_left_out(tmp_path):
    chain = Chain(tmp_path, unwanted=("c",))
    chain.run()
    assert chain.done == ["a", "b"]


def test_a_method_that_fails_takes_its_own_steps_along_and_no_others(tmp_path):
    chain = Chain(tmp_path, fail={"b": AdapclaError("it exploded\nto do: nothing")})
    assert chain.run() == {("row", 1): "it exploded"}
    assert chain.done == ["a"]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("a", AdapclaError("x")),
        ("b", InputError("bad data")),
        ("b", ExistsError("in use")),
        ("b", InterruptedRun("stopped")),
    ],
)
def test_what_is_not_a_methods_fault_ends_the_run(tmp_path, name, error):
    with pytest.raises(type(error)):
        Chain(tmp_path, fail={name: error}).run()


def test_what_was_made_from_something_else_is_gone_before_the_work_and_unfinished_work_stays(tmp_path):
    seen = []

    def stopped(folder):
        seen.append(sorted(path.name for path in folder.iterdir()) if folder.is_dir() else [])
        folder.mkdir(exist_ok=True)
        (folder / f"part{len(seen)}").write_text("x")
        if len(seen) in (1, 3):
            raise KeyboardInterrupt
        return {}

    def step(size):
        return [Step("train", "", tmp_path / "fit", stopped, {"size": size})]

    with pytest.raises(KeyboardInterrupt):
        run_steps(step(1), tmp_path)
    run_steps(step(1), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_steps(step(2), tmp_path)
    # Asked for the first again: what the second began is nothing of it.
    run_steps(step(1), tmp_path)
    assert seen == [[], ["part1"], [], []]
    assert [path.name for path in tmp_path.iterdir() if path.name != ".lock"] == ["fit"]


def test_a_torn_record_is_no_record(tmp_path):
    Chain(tmp_path).run()
    (tmp_path / "b" / RECORD).write_text("{")
    chain = Chain(tmp_path)
    chain.run()
    assert chain.done == ["b"]


def test_the_work_of_an_earlier_version_is_done_again_and_said(tmp_path, capsys):
    (tmp_path / "a").mkdir()
    write_json(tmp_path / "a" / RECORD, {"key": "0123456789abcdef", "seconds": 3})
    chain = Chain(tmp_path)
    chain.run()
    assert chain.done == ["a", "b", "c"] and "made by an earlier version" in capsys.readouterr().err


def test_a_second_process_is_refused_while_the_first_works(tmp_path):
    with (tmp_path / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ExistsError, match="in use by another process"):
            Chain(tmp_path).run()


def test_the_bar_of_all_knows_what_is_left(tmp_path):
    told = []

    class Progress:
        def begin(self, what, expected, rest):
            told.append((what, expected, rest))

    Chain(tmp_path, unwanted=("c",)).run(Progress())
    assert [what for what, _, _ in told] == ["work a", "work b"]
    assert told[0][2] == pytest.approx(1.0, abs=0.1) and told[1][2] == 0


def test_what_was_seen_goes_before_what_was_guessed(tmp_path):
    """Row a took 30 s and 50 s; b was guessed at half of a, so that it gets half of a's times: 4 × 5 s."""

    def step(name, stage, kind, guess, took):
        made = Step(stage, name, tmp_path / name, lambda _: {}, {}, seconds=guess, kind=kind)
        if took is not None:
            (tmp_path / name).mkdir()
            write_json(tmp_path / name / RECORD, {"key": made.key, "seconds": took})
        return made

    steps = [step("1", "train", "a", 10, 30), step("2", "train", "a", 10, 50), step("3", "train", "a", 10, None)]
    steps += [step("4", "train", "b", 5, None), step("5", "sample", "b", 7, None)]
    assert expected_seconds(steps) == [30, 50, 40, 20, 7]


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, {repository!r})
from tests.pipeline.test_steps import Chain
Chain(Path({root!r})).run()
"""


def test_killed_at_every_point_the_final_bytes_are_the_same(tmp_path, repository):
    Chain(tmp_path / "whole").run()
    points = [(name, n) for name in ("write", "fsync", "rename", "folder", "record") for n in range(1, 7)]
    killed = 0
    for name, n in points:
        root = tmp_path / f"{name}{n}"
        code = KILLED.format(repository=str(repository), root=str(root))
        environment = {**os.environ, "ADAPCLA_CRASH_AT": f"{name}:{n}", "ADAPCLA_QUIET": "1"}
        ended = subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode
        assert ended in (0, -signal.SIGKILL)
        killed += ended != 0
        Chain(root).run()
        left = {name: held for name, held in content(root).items() if not name.endswith(".tmp")}
        assert left == content(tmp_path / "whole"), (name, n)
    assert killed >= 20


def test_equal_parts_have_equal_keys():
    assert key_of({"a": (1, 2)}) == key_of({"a": [1, 2]}) != key_of({"a": [2, 1]})
