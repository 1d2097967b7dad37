"""The one driver of all plans: does every step that is not done, in order, and knows about how long the rest takes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from adapcla.console import OverallProgress, say
from adapcla.errors import AdapclaError, InterruptedRun
from adapcla.pipeline.estimate import Timed, as_seen
from adapcla.pipeline.folder import STAMP, RunFolder, stamp
from adapcla.pipeline.step import Step


class Driver:
    """Steps in a folder, and what it takes to carry them out."""

    folder: RunFolder
    steps: tuple[Step, ...]
    #: Row and fit seed → why the method failed, in this process.
    failed: dict[tuple[str, int], str]

    def expected(self) -> list[float]:
        """Rough seconds of each step, from what like steps took in this folder where some are done."""
        return as_seen(
            [
                Timed(s.stage, s.kind or s.what, s.seconds, stamp(s.folder).get("seconds") if s.done else None)
                for s in self.steps
            ]
        )

    def carry_out(self, whole: OverallProgress | None = None, stages: Sequence[str] = ()) -> None:
        """Do every step (of these stages) that is wanted and not done yet; a bar for the whole follows the steps."""
        for number, step in enumerate(self.steps, 1):
            if (stages and step.stage not in stages) or step.done or step.fit in self.failed or not step.wanted():
                continue
            if whole is None:
                say(f"[{number}/{len(self.steps)}] {step.stage} {step.what}")
            else:
                # What is not wanted after all takes no time, and what took longer than expected tells of the rest.
                seconds = self.expected()
                rest = [seconds[i] for i, s in enumerate(self.steps[number:], number) if not s.done and s.wanted()]
                whole.begin(f"{step.stage} {step.what}".strip(), seconds[number - 1], sum(rest))
            self._do(step)

    def _do(self, step: Step) -> None:
        """Do a step; a method that fails is left out of the rest and named on the page, other faults end the run."""
        try:
            step.work()
        except InterruptedRun:
            raise
        except AdapclaError as error:
            # Wrong settings, unreadable data and full disks have other exit codes: they are not the method's fault.
            if step.fit is None or error.exit_code != 1:
                raise
            self.failed[step.fit] = str(error).partition("\n")[0]
            say(f"{step.what} failed: {self.failed[step.fit]}")

    def forget(self) -> None:
        """Take away the stamps, so that every step is done again; results stay until they are replaced."""
        for path in self.folder.root.rglob(STAMP):
            path.unlink()
        shutil.rmtree(self.folder.cache, ignore_errors=True)
