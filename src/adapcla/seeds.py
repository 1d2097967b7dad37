"""Random streams keyed by what they are for, so that no state of random numbers is ever saved or shared.

The same (seed, stream, counter) always gives the same numbers, whatever was drawn before, in whichever order,
process or batch. That is what makes a killed run resume to the same bytes.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)


def stream_key(seed: int, stream: str, *index: int) -> int:
    """A 64-bit key for a named stream.

    >>> stream_key(1, "split") == stream_key(1, "split")
    True
    >>> stream_key(1, "split") == stream_key(1, "fit")
    False
    """
    text = "/".join([str(int(seed)), stream, *(str(int(i)) for i in index)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def random_stream(seed: int, stream: str, *index: int) -> np.random.Generator:
    """The random numbers of a named stream.

    >>> float(random_stream(1, "demo").random()) == float(random_stream(1, "demo").random())
    True
    """
    return np.random.Generator(np.random.Philox(key=stream_key(seed, stream, *index)))


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The splitmix64 finaliser (Steele, Lea and Flood, 2014), element by element."""
    values = (values ^ (values >> np.uint64(30))) * _MIX_A
    values = (values ^ (values >> np.uint64(27))) * _MIX_B
    return values ^ (values >> np.uint64(31))


def keyed_uniform(key: int, rows: NDArray[np.int64], counters: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """Uniform numbers in (0, 1) of shape (len(rows), n); row r depends on (key, rows[r], counters[r]) alone.

    >>> one = keyed_uniform(7, np.array([5]), np.array([0]), 3)
    >>> two = keyed_uniform(7, np.array([4, 5]), np.array([0, 0]), 3)
    >>> bool((one[0] == two[1]).all())
    True
    """
    with np.errstate(over="ignore"):
        base = _mix(rows.astype(np.uint64) * _GOLDEN + np.uint64(key & 0xFFFFFFFFFFFFFFFF))
        base = _mix(base + (counters.astype(np.uint64) + np.uint64(1)) * _MIX_B)
        steps = np.arange(1, n + 1, dtype=np.uint64) * _GOLDEN
        bits = _mix(_mix(base[:, None] + steps[None, :]) + _GOLDEN)
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * (1.0 / (1 << 53))
