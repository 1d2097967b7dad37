"""Whether test or control patients took part in training, as far as the origins of the cohorts tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adapcla.data import Cohort
from adapcla.data.origin import Group, shared
from adapcla.errors import InputError

#: What scores call the answer.
APART = "training patients apart from test and control"


def behind(train: Cohort, synthetic: Cohort) -> list[Group]:
    """Everybody a synthetic cohort was learned from: the given training patients, and those that its card names."""
    given = Group("training", train.fingerprint, train.origin)
    return [given, *train.origin.ancestors(), *synthetic.origin.ancestors()]


def require_apart(learned_from: Iterable[Group], unseen: Mapping[str, Cohort | None]) -> bool:
    """Whether nobody of `unseen` is known to be among the patients that were learned from; False where it is not known.

    Where somebody is, that is an `InputError`: no score of such cohorts means what it says.

    >>> train, valid, test = Cohort.of([[["A"]]] * 50).split()
    >>> require_apart([Group("training", train.fingerprint, train.origin)], {"test": test})
    True
    >>> require_apart([], {"test": test})
    False
    """
    groups = list(learned_from)
    apart = bool(groups)
    for name, cohort in unseen.items():
        if cohort is None:
            continue
        here = Group(name, cohort.fingerprint, cohort.origin)
        for group in groups:
            met = shared(group, here)
            if met:
                raise InputError(
                    f"{name} patients took part in training: they are among the {group.role} patients of the generator",
                    expected="test and control patients that no training has seen",
                    remedy="divide the cohort once (`adapcla split`), train on that folder, and judge with its parts",
                )
            # Patients that a generator wrote are nobody; the people behind them are groups of their own.
            apart &= met is False or bool(group.origin.learned_from)
    return apart
