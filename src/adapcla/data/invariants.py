"""What must hold in the flat arrays of a cohort; checked once, vectorised, here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data.offsets import pieces
from adapcla.errors import InputError


def require(good: bool, found: str, expected: str) -> None:
    """Raise with what was found and expected, unless `good`."""
    if not good:
        raise InputError(found, expected=expected, remedy="read the source again; the arrays do not fit together")


def require_form(name: str, array: NDArray[Any], dtype: type[np.generic]) -> None:
    """Raise unless the array is flat and of this type: other types would give the same patients other bytes."""
    require(array.ndim == 1, f"{name} of shape {array.shape}", "a flat array")
    require(array.dtype == dtype, f"{name} of type {array.dtype}", str(np.dtype(dtype)))


def check_runs(name: str, starts: NDArray[np.int64], end: int) -> None:
    """Raise unless `starts` cuts 0 … `end` into runs, none of them empty."""
    require_form(name, starts, np.int64)
    spans = len(starts) >= 1 and starts[0] == 0 and starts[-1] == end
    require(bool(spans), f"{name} does not span its array", f"0 … {end}")
    require(
        bool((np.diff(starts) > 0).all()), f"{name} holds an empty run", "no empty visit, no patient without visits"
    )


def check_visits(
    codes: NDArray[np.int32], visit_starts: NDArray[np.int64], patient_starts: NDArray[np.int64], n_codes: int
) -> None:
    """Raise unless patients have visits, and visits have known codes, each once, ascending."""
    require_form("codes", codes, np.int32)
    check_runs("visit_starts", visit_starts, len(codes))
    check_runs("patient_starts", patient_starts, len(visit_starts) - 1)
    check_codes(codes, visit_starts, n_codes)


def check_codes(codes: NDArray[np.int32], visit_starts: NDArray[np.int64], n_codes: int) -> None:
    """Raise unless every visit holds known codes, each once, ascending."""
    if len(codes) == 0:
        return
    inside = int(codes.min()) >= 0 and int(codes.max()) < n_codes
    require(inside, "a code index out of range", "0 ≤ index < size of the vocabulary")
    for part in pieces(len(codes) - 1):
        rising = np.diff(codes[part.start : part.stop + 1]) > 0
        # The last code of a visit says nothing about the first of the next.
        low, high = np.searchsorted(visit_starts, (part.start + 1, part.stop + 1))
        rising[visit_starts[low:high] - 1 - part.start] = True
        require(bool(rising.all()), "a visit with repeated or unordered codes", "each code once, ascending")


def check_days(days: NDArray[np.int32] | None, patient_starts: NDArray[np.int64]) -> None:
    """Raise unless days, where there are any, count from each patient's first visit and never fall."""
    if days is None:
        return
    require_form("days", days, np.int32)
    require(len(days) == patient_starts[-1], "days do not match the visits", "one day per visit")
    if len(days) == 0:
        return
    require(bool((days[patient_starts[:-1]] == 0).all()), "days that do not begin at 0", "days since the first visit")
    going_on = np.diff(days) >= 0
    going_on[patient_starts[1:-1] - 1] = True
    require(bool(going_on.all()), "days that go back in time", "visits in time order")


def check_labels(labels: NDArray[np.uint8] | None, n_patients: int, n_labels: int) -> None:
    """Raise unless there is one row of zeros and ones per patient, or neither labels nor names."""
    if labels is None:
        require(n_labels == 0, f"{n_labels} label names without labels", "names with labels, or neither")
        return
    shape = (n_patients, n_labels)
    require(labels.shape == shape, f"labels of shape {labels.shape}", f"shape {shape}")
    require(labels.dtype == np.uint8, f"labels of type {labels.dtype}", "uint8")
    require(labels.size == 0 or int(labels.max()) <= 1, "a label that is neither 0 nor 1", "0 or 1")


def check_attributes(attributes: Mapping[str, tuple[NDArray[np.int16], tuple[str, ...]]], n_patients: int) -> None:
    """Raise unless every attribute has one known category, or −1, per patient."""
    for name, (values, categories) in attributes.items():
        require(name.isidentifier(), "an attribute whose name is no word", "letters, digits and underscores")
        require_form(f"attribute {name}", values, np.int16)
        require(len(values) == n_patients, f"attribute {name} does not match the patients", "one value per patient")
        inside = n_patients == 0 or (int(values.min()) >= -1 and int(values.max()) < len(categories))
        require(inside, f"attribute {name} outside its categories", f"−1 (unknown) to {len(categories) - 1}")


def check_groups(codes: NDArray[np.int32], visit_starts: NDArray[np.int64], group_of_code: NDArray[np.int32]) -> None:
    """Raise unless every visit holds at most one code of each choice group."""
    if not len(group_of_code) or int(group_of_code.max()) < 0:
        return
    n_groups = int(group_of_code.max()) + 1
    grouped = np.flatnonzero(group_of_code[codes] >= 0)
    visit = np.searchsorted(visit_starts, grouped, side="right") - 1
    choices = visit * n_groups + group_of_code[codes[grouped]]
    require(len(np.unique(choices)) == len(choices), "two codes of one choice group in a visit", "at most one of them")


def check_values(values: NDArray[np.float32] | None, codes: NDArray[np.int32], is_number: NDArray[np.bool_]) -> None:
    """Raise unless entries of numbers carry a finite value each, and no other entry does."""
    if values is None:
        require(not is_number.any(), "a vocabulary with numbers, and no values", "one value for each entry")
        return
    require(bool(is_number.any()), "values, and a vocabulary without numbers", "no values")
    require_form("values", values, np.float32)
    require(len(values) == len(codes), "values do not match the codes", "one value for each entry, NaN for no number")
    for part in pieces(len(codes)):
        fits = np.isfinite(values[part]) == is_number[codes[part]]
        require(bool(fits.all()), "a value at a code that is no number, or a number without one", "values for numbers")
