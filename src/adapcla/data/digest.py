"""The fingerprint of patients: equal for equal content, whatever file or memory it lies in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data.attribute import Attribute


def digest(
    vocabulary: str,
    arrays: Sequence[NDArray[Any] | None],
    label_names: Sequence[str],
    attributes: Mapping[str, Attribute],
    values: NDArray[np.float32] | None = None,
) -> str:
    """SHA-256 of a vocabulary's fingerprint, arrays, names of labels and attributes.

    Values take part only where there are any, so that records without numbers keep the fingerprint that they have
    always had.

    >>> digest("", [np.array([1])], (), {}) == digest("", [np.array([1])], (), {}, np.array([1], dtype=np.float32))
    False
    """
    out = hashlib.sha256(vocabulary.encode())
    for array in arrays if values is None else (*arrays, values):
        # The length keeps a number from moving over the border between two arrays unseen.
        out.update(b"-" if array is None else str(array.shape).encode())
        if array is not None:
            out.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    out.update("\n".join(label_names).encode())
    for name, attribute in sorted(attributes.items()):
        out.update("\n".join((name, *attribute.categories)).encode())
        out.update(np.ascontiguousarray(attribute.values).tobytes())
    return out.hexdigest()
