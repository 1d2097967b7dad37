"""The usual distance tests, for comparison with other papers; the gate ignores them: they miss copied patients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.evaluation.bootstrap import wilson
from adapcla.evaluation.comparison import ALL, Comparison, Score
from adapcla.evaluation.privacy.distances import aligned_sets, nearest
from adapcla.evaluation.privacy.strata import Groups, assessed, first_patients, too_few

#: Patients of each group; HALO's own test draws about as many.
_MOST = 2_000


def median_accuracy(members: NDArray[np.float32], controls: NDArray[np.float32]) -> float:
    """How often "nearer to the synthetic patients than the median" is right about membership (HALO's test).

    Whether the median itself is near is left to the attacker: the better of both readings counts.

    >>> median_accuracy(np.array([0.0, 1.0]), np.array([2.0, 3.0]))
    1.0
    >>> median_accuracy(np.array([0.0, 0.0, 0.0]), np.array([0.0, 2.0, 3.0]))
    0.8333333333333334
    """
    middle = np.median(np.concatenate([members, controls]))
    n = len(members) + len(controls)
    below = int((members < middle).sum()) + int((controls >= middle).sum())
    up_to = int((members <= middle).sum()) + int((controls > middle).sum())
    return max(below, up_to) / n


def adversarial_accuracy(one: sparse.csr_matrix, other: sparse.csr_matrix) -> float:
    """Nearest-neighbour adversarial accuracy of two sets: ½ where they mix, 0 where they are copies, 1 where apart.

    >>> apart = sparse.csr_matrix(np.array([[1, 0, 0], [1, 1, 0]], dtype=np.float32))
    >>> adversarial_accuracy(apart, apart)
    0.0
    """
    shares = [
        (nearest(a, b).distance > nearest(a, a, same=True).distance).mean() for a, b in ((one, other), (other, one))
    ]
    return float(np.mean(shares))


@assessed
def halo_membership_accuracy(comparison: Comparison, groups: Groups) -> dict[str, Score]:
    """HALO's membership test: accuracy of "nearer than the median", ½ by chance; beside the gate, never in it."""
    members, controls = groups.matched(_MOST)
    if missing := too_few(members.n_patients, controls.n_patients):
        return {ALL: missing.score}
    d, h, s = aligned_sets([members, controls, first_patients(groups.synthetic, 4 * groups.most)])
    n = 2 * members.n_patients
    value = median_accuracy(nearest(d, s).distance, nearest(h, s).distance)
    return {ALL: Score(value, n, *wilson(value * n, n))}


@assessed
def nnaa_privacy_loss(comparison: Comparison, groups: Groups) -> dict[str, Score]:
    """Adversarial accuracy against controls less against members: 0 without a leak; beside the gate, never in it."""
    n = min(groups.n_matched, groups.synthetic.n_patients, _MOST)
    if missing := too_few(n, n):
        return {ALL: missing.score}
    d, h, s = aligned_sets(
        [first_patients(cohort, n) for cohort in (groups.members, groups.controls, groups.synthetic)]
    )
    return {ALL: Score(adversarial_accuracy(h, s) - adversarial_accuracy(d, s), n)}
