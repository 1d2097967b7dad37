"""Where steps are computed: on processors, or on a graphics card when it is requested."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

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
