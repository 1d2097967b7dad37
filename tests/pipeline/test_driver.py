"""The driver of steps: what is done is not done again, what is not wanted is not done, and who fails is named."""

from __future__ import annotations

import pytest

from adapcla.errors import AdapclaError, InputError
from adapcla.pipeline.driver import Driver
from adapcla.pipeline.folder import RunFolder, making
from adapcla.pipeline.step import Step


class Three(Driver):
    """Three steps of one second that write down that they were done."""

    def __init__(self, folder, fail=None, unwanted=()):
        self.folder, self.failed, self.done = RunFolder(folder), {}, []
        self.fail, self.unwanted = fail or {}, unwanted
        self.steps = tuple(
            Step("work", name, folder / name, "key", 1.0, lambda name=name: self.work(name), "", fit, wanted)
            for name, fit in (("a", None), ("b", ("row", 1)), ("c", ("row", 1)))
            for wanted in [lambda name=name: name not in self.unwanted]
        )

    def work(self, name):
        if name in self.fail:
            raise self.fail[name]
        with making(self.folder.root / name, "key"):
            self.done.append(name)


def test_steps_are_done_once_and_in_order(tmp_path):
    first = Three(tmp_path)
    first.carry_out()
    second = Three(tmp_path)
    second.carry_out()
    assert (first.done, second.done) == (["a", "b", "c"], [])
    second.forget()
    second.carry_out()
    assert second.done == ["a", "b", "c"]


def test_what_is_not_wanted_is_left_out(tmp_path):
    steps = Three(tmp_path, unwanted=("b",))
    steps.carry_out()
    assert steps.done == ["a", "c"]


def test_a_method_that_fails_takes_its_own_steps_along_and_no_others(tmp_path):
    steps = Three(tmp_path, fail={"b": AdapclaError("it exploded\nto do: nothing")})
    steps.carry_out()
    assert steps.done == ["a"] and steps.failed == {("row", 1): "it exploded"}


@pytest.mark.parametrize(("name", "error"), [("a", AdapclaError("x")), ("b", InputError("bad data"))])
def test_what_is_not_a_methods_fault_ends_the_run(tmp_path, name, error):
    with pytest.raises(AdapclaError):
        Three(tmp_path, fail={name: error}).carry_out()


def test_the_bar_of_all_is_told_what_is_left(tmp_path):
    told = []

    class OverallProgress:
        def begin(self, what, expected, rest):
            told.append((what, expected, rest))

    Three(tmp_path, unwanted=("c",)).carry_out(OverallProgress())
    assert [what for what, _, _ in told] == ["work a", "work b"]
    assert told[0][2] == pytest.approx(1.0) and told[1][2] == 0
