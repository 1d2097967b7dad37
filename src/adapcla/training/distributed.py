"""Where steps are computed: on processors or on a graphics card, in one process or in several."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import nn

from adapcla.errors import UsageError


def chosen_device(name: str) -> torch.device:
    """The device of this name; processes that share a machine take a card each.

    A card is never taken unasked: what a processor trains is the same to the last bit on every run.

    >>> chosen_device("auto")
    device(type='cpu')
    """
    if name in ("auto", "cpu"):
        return torch.device("cpu")
    if name != "cuda":
        raise UsageError(f"device {name!r}: expected auto, cpu or cuda")
    if not torch.cuda.is_available():
        raise UsageError(
            "device 'cuda': torch sees no card here\nto do: leave --device out, or install torch for your card"
        )
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


@contextmanager
def computing_on(device: torch.device) -> Iterator[None]:
    """Inside the block, new tensors are made on the device; nothing changes on a processor."""
    if device.type == "cpu":
        yield
        return
    with device:
        yield


@dataclass(frozen=True)
class Processes:
    """The place of this process among `count`.

    >>> alone = Processes(0, 1)
    >>> alone.main, alone.sum_over_processes([2.0, 3.0]), list(alone.share(range(4)))
    (True, [2.0, 3.0], [0, 1, 2, 3])
    """

    index: int
    count: int

    @property
    def main(self) -> bool:
        """Whether this process writes files."""
        return self.index == 0

    def share(self, items: Sequence[int]) -> Sequence[int]:
        """Every `count`-th item, so that the shares of all processes make the whole.

        >>> Processes(1, 2).share([10, 11, 12, 13, 14])
        [11, 13]
        """
        return items[self.index :: self.count]

    def wait(self) -> None:
        """Go on when all processes have come here."""
        if self.count > 1:
            from accelerate import PartialState

            PartialState().wait_for_everyone()

    def sum_over_processes(self, numbers: Sequence[float]) -> list[float]:
        """The numbers, added up over all processes."""
        if self.count == 1:
            return list(numbers)
        from accelerate.utils import reduce

        return list(reduce(torch.tensor(list(numbers), dtype=torch.float64), reduction="sum").tolist())

    def first_says(self, answer: bool) -> bool:
        """What the first process answers; machines may not see the same folder, and must go the same way."""
        return self.sum_over_processes([float(answer and self.main)])[0] > 0

    def bytes_of_first(self, content: bytes | None) -> bytes | None:
        """The bytes that the first process holds, or None if it holds none; what others hold does not matter."""
        if self.count == 1:
            return content
        from accelerate.utils import broadcast

        size = int(
            self.sum_over_processes([-1.0 if content is None else float(len(content))] if self.main else [0.0])[0]
        )
        if size < 0:
            return None
        mine = np.frombuffer(content, dtype=np.uint8) if self.main and content else np.zeros(size, dtype=np.uint8)
        return bytes(broadcast(torch.from_numpy(mine.copy())).numpy())

    def sum_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Give every process the sum of all processes' gradients.

        One exchange per step, after all pieces of a batch: processes may have different numbers of pieces, or none. A
        parameter that no process has a gradient for keeps none, so that the optimiser passes it over.
        """
        if self.count == 1:
            return
        from accelerate.utils import reduce

        flags = torch.tensor([float(p.grad is not None) for p in parameters])
        parts = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters]
        whole = reduce(torch.cat([flags, *parts]), reduction="sum")
        at = len(parameters)
        for number, parameter in enumerate(parameters):
            piece = whole[at : at + parameter.numel()].view_as(parameter)
            at += parameter.numel()
            if whole[number] > 0:
                parameter.grad = piece.clone()


def exchange() -> str:
    """How processes exchange tensors, by what is there: gloo, and NCCL for tensors on cards.

    Counts and flags are on processors on every machine, gradients where the training step is computed, so that who
    computes where need not be known here.

    >>> exchange() if not torch.cuda.is_available() else "gloo"
    'gloo'
    """
    cards = torch.cuda.is_available() and torch.distributed.is_nccl_available()
    return "cpu:gloo,cuda:nccl" if cards else "gloo"


@cache
def processes() -> Processes:
    """The place of this process, from what its launcher said; joins the group if there is one.

    >>> processes().count
    1
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Processes(0, 1)
    from accelerate import PartialState

    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group(exchange())
    # It takes the group that is there.
    state = PartialState(cpu=True)
    if state.process_index:
        # One bar and one log are enough.
        os.environ["ADAPCLA_QUIET"] = "1"
    return Processes(state.process_index, state.num_processes)
