"""Records as 128-bit numbers, so that equal records are found by sorting numbers instead of comparing sequences."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from adapcla.data.cohort import Cohort
from adapcla.data.ragged import segment_sums
from adapcla.data.vocabulary import Vocabulary
from adapcla.seeds import keyed_uniform, stream_key

#: Two independent 64-bit lanes: by chance, two of a billion different records agree in both once in 10^20 tries.
LANES = 2


def code_keys(vocabulary: Vocabulary) -> NDArray[np.uint64]:
    """A fixed 128-bit number for each code string, one row per code: the same on every vocabulary that holds it.

    >>> one, other = code_keys(Vocabulary.of(["A", "B"])), code_keys(Vocabulary.of(["B", "C"]))
    >>> bool((one[1] == other[0]).all())
    True
    """
    digests = b"".join(hashlib.blake2b(token.encode(), digest_size=8 * LANES).digest() for token in vocabulary.tokens)
    return np.frombuffer(digests, dtype="<u8").reshape(-1, LANES).astype(np.uint64)


def visit_fingerprints(cohort: Cohort, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A 128-bit number for each visit, equal for equal sets of codes: the sum of the codes' numbers.

    >>> cohort = Cohort.of([[["A", "B"], ["B", "A"], ["A"]]])
    >>> prints = visit_fingerprints(cohort, code_keys(cohort.vocabulary))
    >>> bool((prints[0] == prints[1]).all()), bool((prints[0] == prints[2]).any())
    (True, False)
    """
    return segment_sums(keys[np.asarray(cohort.codes)], np.asarray(cohort.visit_starts))


def record_fingerprints(cohort: Cohort, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A 128-bit number for each patient, equal for equal sequences of visits.

    >>> cohort = Cohort.of([[["A"], ["B"]], [["B"], ["A"]], [["A"], ["B"]]])
    >>> prints = record_fingerprints(cohort, code_keys(cohort.vocabulary))
    >>> bool((prints[0] == prints[2]).all()), bool((prints[0] == prints[1]).any())
    (True, False)
    """
    number = cohort.visit_number
    with np.errstate(over="ignore"):
        numbered = visit_fingerprints(cohort, keys) * _number_keys(int(number.max(initial=0)) + 1)[number]
    return segment_sums(numbered, np.asarray(cohort.patient_starts))


def leave_one_out_fingerprints(cohort: Cohort, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """For each code of each visit the number of the patient's record without it; patients, visits, codes in order.

    >>> cohort = Cohort.of([[["A", "B"], ["C"]], [["A"], ["C"]]])
    >>> keys = code_keys(cohort.vocabulary)
    >>> bool((leave_one_out_fingerprints(cohort, keys)[1] == record_fingerprints(cohort, keys)[1]).all())
    True
    """
    number = cohort.visit_number
    codes = np.asarray(cohort.codes)
    with np.errstate(over="ignore"):
        each = keys[codes] * _number_keys(int(number.max(initial=0)) + 1)[np.repeat(number, cohort.codes_per_visit)]
        return np.repeat(record_fingerprints(cohort, keys), np.diff(cohort.entry_starts), axis=0) - each


def identities(*fingerprints: NDArray[np.uint64]) -> list[NDArray[np.int64]]:
    """Small integers in place of the fingerprints of several cohorts: equal exactly where the fingerprints are.

    >>> a, b = np.array([[7, 7], [5, 5]], dtype=np.uint64), np.array([[5, 5]], dtype=np.uint64)
    >>> [ids.tolist() for ids in identities(a, b)]
    [[1, 0], [0]]
    """
    together = np.concatenate(fingerprints)
    order = np.lexsort(together.T)
    ordered = together[order]
    new = np.concatenate([[False], (ordered[1:] != ordered[:-1]).any(axis=1)]) if len(order) else np.zeros(0, bool)
    out = np.empty(len(order), dtype=np.int64)
    out[order] = np.cumsum(new)
    return np.split(out, np.cumsum([len(part) for part in fingerprints])[:-1])


def random_order(fingerprints: NDArray[np.uint64], seed: int, stream: str) -> NDArray[np.int64]:
    """Positions in a seeded random order that depends on what the records hold, not on where they stand.

    Equal records are told apart by their rank among their equals, so each is drawn on its own; a permuted cohort
    gives the same records in the same order.

    >>> prints = np.array([[3, 3], [1, 1], [2, 2]], dtype=np.uint64)
    >>> order, turned = random_order(prints, 1, "draw"), random_order(prints[::-1], 1, "draw")
    >>> prints[order].tolist() == prints[::-1][turned].tolist()
    True
    """
    (ids,) = identities(fingerprints)
    order = np.argsort(ids, kind="stable")
    begins = np.searchsorted(ids[order], ids[order], side="left")
    rank = np.empty(len(ids), dtype=np.int64)
    rank[order] = np.arange(len(ids)) - begins
    drawn = keyed_uniform(stream_key(seed, stream), fingerprints[:, 0].view(np.int64), rank, 1)[:, 0]
    return np.lexsort((rank, fingerprints[:, 0], drawn))


def _number_keys(n: int) -> NDArray[np.uint64]:
    """Odd random multipliers for the first `n` visits of a record, one row per visit."""
    numbers = np.arange(n, dtype=np.int64)
    lanes = [
        keyed_uniform(stream_key(0, "privacy/place", lane), numbers, np.zeros(n, np.int64), 2) for lane in range(LANES)
    ]
    high, low = (np.stack([np.floor(lane[:, k] * 2.0**32) for lane in lanes], axis=1) for k in range(2))
    return (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64) | np.uint64(1)
