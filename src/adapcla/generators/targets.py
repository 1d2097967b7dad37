"""A target prevalence from whatever the user has: a file, a cohort, a folder, a prevalence."""

from __future__ import annotations

from pathlib import Path

from adapcla.errors import UsageError
from adapcla.generators.contract import Target
from adapcla.records import Cohort, Prevalence


def target_prevalence(target: Target) -> Prevalence:
    """The prevalence that `target` stands for.

    >>> target_prevalence(Cohort.of([[["A"], ["A", "B"]]])).share.tolist()
    [1.0, 0.5]
    """
    if isinstance(target, Prevalence):
        return target
    if isinstance(target, Cohort):
        return target.prevalence()
    path = Path(target)
    if path.is_dir():
        return Cohort.open(path).prevalence()
    if not path.exists():
        raise UsageError(f"{path}: no such file or cohort folder to steer towards")
    from adapcla.sources.prior import read_prevalence

    return read_prevalence(path)
