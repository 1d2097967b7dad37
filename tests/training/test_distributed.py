"""Devices, and which of several processes this is."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from adapcla.errors import UsageError
from adapcla.generation import generator_for
from adapcla.io import simulator as planted
from adapcla.training import loop
from adapcla.training.distributed import Processes, chosen_device, computing_on, exchange, processes
from adapcla.training.settings import METHODS

PRETENDED = torch.device("meta")
TINY = {"width": 16, "layers": 1, "passes": 1, "batch_size": 32, "validations": 1, "patience": 1}


class _FilledAndMoved(TorchFunctionMode):
    """Tensors of given numbers are made here and moved: torch would leave them empty on "meta"."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") == PRETENDED:
            kwargs["device"] = "cpu"
            return func(*args, **kwargs).to(PRETENDED)
        return func(*args, **kwargs)


def _line() -> str:
    """The innermost line of the package that is being run."""
    ours = [frame for frame in traceback.extract_stack() if "/adapcla/" in frame.filename]
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "backward"


class PretendDevice(TorchDispatchMode):
    """Computes on processors what should be computed on another device, and writes down what would fail there."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed: list[str] = []
        self.n_there = 0
        self.watching = False
        self._there: dict[int, Any] = {}  # storages by address; keeping them keeps the address theirs

    @contextmanager
    def computing_on(self, device: torch.device) -> Iterator[None]:
        """As the loop's, and watched."""
        with computing_on(device):
            self.watching = True
            yield
            self.watching = False

    def _is_there(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self._there

    def _mark(self, result: Any) -> Any:
        if isinstance(result, Tensor) and result.numel():
            storage = result.untyped_storage()
            self._there[storage.data_ptr()] = storage
            self.n_there += 1
        return result

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        asked = kwargs.get("device") is not None and torch.device(kwargs["device"]) == PRETENDED
        if asked:
            kwargs["device"] = torch.device("cpu")
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor) and x.numel() and x.dim()]
        there = [self._is_there(tensor) for tensor in tensors]
        # Copying into a tensor is the one thing that may be done between devices; the result lies where it lay.
        copies = func is torch.ops.aten.copy_.default
        if self.watching and any(there) and not all(there) and not copies:
            self.mixed.append(f"{func} in {_line()}")
        result = func(*args, **kwargs)
        # What torch makes for itself inside an operation, it makes where the operation's tensors lie.
        inside = self.watching and not tensors
        return tree_map(self._mark, result) if asked or inside or (any(there) and not copies) else result


@pytest.fixture(scope="module")
def parts() -> Any:
    return planted.simulate(patients=120, codes=60, seed=1).split(seed=4)


def trained(method: str, parts: Any) -> dict[str, Tensor]:
    generator = generator_for(method, seed=1, **TINY)
    generator.fit(parts.train, parts.valid)
    return dict(generator.network_.state_dict())


@pytest.mark.parametrize("method", sorted(name for name, row in METHODS.items() if row.row.usual))
def test_a_step_touches_nothing_off_the_device_and_computes_the_same(
    method: str, parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = trained(method, parts)
    monkeypatch.setattr(loop, "chosen_device", lambda asked: PRETENDED)
    watch = PretendDevice()
    monkeypatch.setattr(loop, "computing_on", watch.computing_on)
    with _FilledAndMoved(), watch:
        elsewhere = trained(method, parts)
    assert sorted(set(watch.mixed)) == []
    assert watch.n_there > 1000
    for name, value in plain.items():
        torch.testing.assert_close(value, elsewhere[name], rtol=1e-4, atol=1e-6, msg=name)


def test_the_watch_sees_what_a_card_would_refuse() -> None:
    here = torch.ones(3)
    with _FilledAndMoved(), PretendDevice() as watch, watch.computing_on(PRETENDED):
        there = torch.ones(3)
        fine = there * torch.as_tensor(here) * 2.0
        assert not watch.mixed
        fine * here
    assert [line.split(" in ")[0] for line in watch.mixed] == ["aten.mul.Tensor"]


def test_a_card_is_taken_only_when_it_is_asked_for_and_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_device("auto").type == chosen_device("cpu").type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match="no card"):
        chosen_device("cuda")
    with pytest.raises(UsageError, match="expected auto, cpu or cuda"):
        chosen_device("tpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert chosen_device("cuda") == torch.device("cuda", 1)


def test_probes_stay_on_processors(parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "chosen_device", lambda asked: PRETENDED)

    class Watcher:
        looks = 2

        def look(self, modules: Any, moment: Any) -> None: ...

    with pytest.raises(UsageError, match="probes and privacy"):
        generator_for("adapcla", **TINY).fit(parts.train, parts.valid, observers=[Watcher()])


def test_a_process_alone_is_the_first_and_sums_nothing() -> None:
    alone = processes()
    assert alone == Processes(0, 1) and alone.main
    alone.wait()
    parameter = nn.Parameter(torch.ones(2))
    alone.sum_gradients([parameter])
    assert parameter.grad is None
    assert alone.sum_over_processes([1.5, float("inf")]) == [1.5, float("inf")]


def test_shares_are_the_whole_without_repeats() -> None:
    """Seven shards for three processes: 0 3 6, 1 4, 2 5."""
    shares = [list(Processes(index, 3).share(range(7))) for index in range(3)]
    assert shares == [[0, 3, 6], [1, 4], [2, 5]]


def test_a_process_alone_says_what_it_thinks_and_keeps_its_bytes() -> None:
    alone = Processes(0, 1)
    assert (alone.first_says(True), alone.first_says(False)) == (True, False)
    assert alone.bytes_of_first(b"abc") == b"abc" and alone.bytes_of_first(None) is None


@pytest.mark.parametrize(
    ("cards", "nccl", "expected"),
    [(False, False, "gloo"), (False, True, "gloo"), (True, False, "gloo"), (True, True, "cpu:gloo,cuda:nccl")],
)
def test_processes_exchange_by_what_is_there(monkeypatch: pytest.MonkeyPatch, cards, nccl, expected) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cards)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: nccl)
    assert exchange() == expected
