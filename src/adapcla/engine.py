"""Where tasks run: in this process, or on the workers of a Ray cluster, which schedules, retries and spills.

A task is a function of a module and its arguments: paths, numbers and settings, never patients. What it makes it writes
to a file that all workers see, or returns where it is small. So the same functions run here and on a hundred machines,
with the same results.

    with adapcla.cluster("auto"):               # the workers of RAY_ADDRESS, or one for each core of this machine
        model.sample(1_000_000, seed=1, out="large")
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from adapcla.console import say
from adapcla.errors import AdapclaError, UsageError

Result = TypeVar("Result")

#: In this process; or RAY_ADDRESS and else all cores of this machine.
LOCAL, AUTO = "local", "auto"
#: How often a task is begun again whose worker died. A task writes its file whole or not at all.
RETRIES = 20
#: Tasks that are handed to the cluster ahead of those that are finished, for each worker.
_AHEAD = 4
#: Bytes of the store of results in a cluster that is started here; results are small.
_STORE = 200_000_000
#: The address in use; the last is in force.
_ADDRESSES: list[str] = [LOCAL]


def checked_address(address: str) -> str:
    """The address, if it is one: `local`, `auto`, `ray://host:port`, or `host:port`.

    >>> checked_address("ray://head:10001")
    'ray://head:10001'
    """
    if address in (LOCAL, AUTO) or address.startswith("ray://") or _is_host_and_port(address):
        return address
    raise UsageError(f"cluster {address!r}\nexpected: local, auto, ray://host:port or host:port")


def _is_host_and_port(address: str) -> bool:
    """Whether the text has the form host:port."""
    host, _, port = address.rpartition(":")
    return bool(host) and ":" not in host and "/" not in host and port.isdigit()


@contextmanager
def cluster(address: str = AUTO) -> Iterator[str]:
    """Run the tasks inside of the `with` block on a cluster.

    Args:
        address: `local` (this process), `auto` (the cluster of RAY_ADDRESS; without it, one worker for each core of
            this machine, started here and stopped at the end), `ray://host:port` or `host:port`.

    >>> with cluster("local") as where:
    ...     list(run_tasks(divmod, [(7, 2), (9, 4)]))
    [(3, 1), (2, 1)]
    """
    checked_address(address)
    if address == LOCAL:
        _ADDRESSES.append(LOCAL)
        try:
            yield LOCAL
        finally:
            _ADDRESSES.pop()
        return
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        _connect(ray, address)
    _ADDRESSES.append(address)
    try:
        say(f"cluster: {n_workers()} workers")
        yield address
    finally:
        _ADDRESSES.pop()
        if started:
            ray.shutdown()


def n_workers() -> int:
    """Tasks that can run at the same time.

    >>> n_workers()
    1
    """
    return 1 if _ADDRESSES[-1] == LOCAL else max(1, int(_ray().cluster_resources().get("CPU", 1)))


def run_tasks(function: Callable[..., Result], arguments: Iterable[tuple[Any, ...]]) -> Iterator[Result]:
    """`function(*arguments)` for every tuple of arguments; results in the order of the arguments.

    On a cluster each is a task of one core. A task whose worker or machine is gone is begun again elsewhere; an error
    that the function raises is raised here, as it would be in one process.

    >>> list(run_tasks(pow, [(2, 3), (3, 2)]))
    [8, 9]
    """
    if _ADDRESSES[-1] == LOCAL:
        for given in arguments:
            yield function(*given)
        return
    waiting: list[Any] = []
    most, rest = _AHEAD * n_workers(), iter(arguments)
    try:
        while True:
            for given in rest:
                waiting.append(start_task(function, *given))
                if len(waiting) >= most:
                    break
            if not waiting:
                return
            yield result_of(waiting.pop(0))
    finally:
        cancel_tasks(waiting)


def start_task(function: Callable[..., Any], *given: Any) -> Any:
    """Hand `function(*given)` to the cluster as a task of one core; a handle for `result_of`."""
    return _ray().remote(num_cpus=1, max_retries=RETRIES)(function).remote(*given)


def first_finished(handles: Sequence[Any]) -> Any:
    """Wait for one of several tasks; the handle of the first that is finished, or has failed."""
    return _ray().wait(list(handles), num_returns=1)[0][0]


def cancel_tasks(handles: Iterable[Any]) -> None:
    """End tasks whose results nobody wants any more, with the tasks that they started."""
    for handle in handles:
        _ray().cancel(handle, force=True)


def result_of(handle: Any) -> Any:
    """What a task returned; what it raised is raised here."""
    ray = _ray()
    try:
        return ray.get(handle)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except (
        ray.exceptions.WorkerCrashedError,
        ray.exceptions.NodeDiedError,
        ray.exceptions.OutOfMemoryError,
        ray.exceptions.RaySystemError,
    ) as error:
        raise AdapclaError(
            f"a task failed {RETRIES + 1} times because its worker was gone ({type(error).__name__})\n"
            "to do: look whether the workers have enough memory; the same command goes on with what is finished"
        ) from None


def _ray() -> Any:
    """The library."""
    # Set before the library is loaded: it would report how it is used.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
    except ImportError:
        raise UsageError("Ray is not installed\nto do: pip install 'adapcla[cluster]'") from None
    return ray


def _connect(ray: Any, address: str) -> None:
    """Join the cluster, or start one on this machine."""
    known = os.environ.get("RAY_ADDRESS", "") if address == AUTO else address
    # Workers compute with one thread each, as a process does by itself.
    environment = {"env_vars": {"OMP_NUM_THREADS": "1", "ADAPCLA_QUIET": "1"}}
    quiet = {"log_to_driver": False, "logging_level": "ERROR", "runtime_env": environment}
    try:
        if known:
            _knock(known)
            ray.init(known, **quiet)
        else:
            ray.init(
                num_cpus=os.cpu_count(), include_dashboard=False, _node_ip_address="127.0.0.1",
                object_store_memory=_STORE, **quiet,
            )  # fmt: skip
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
        where = known or "a cluster on this machine"
        raise AdapclaError(
            f"{where}: no connection ({type(error).__name__})\nto do: check the address, and `ray status` there"
        ) from None


def _knock(address: str) -> None:
    """Raise OSError where nobody listens; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()
