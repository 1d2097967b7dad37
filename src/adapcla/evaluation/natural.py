"""The patients of a comparison as they came: with the values of their numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from adapcla.data import Cohort, Vocabulary
from adapcla.errors import InputError


class Natural(NamedTuple):
    """Train, test and synthetic patients with values, on one vocabulary."""

    train: Cohort
    test: Cohort
    synthetic: Cohort

    @classmethod
    def of(cls, train: Cohort, test: Cohort, synthetic: Cohort, union: Vocabulary) -> Natural | None:
        """The patients on the vocabulary `union` with its numbers; None where training has none or somebody lacks them.

        >>> cohort = Cohort.of([[["A"]]])
        >>> Natural.of(cohort, cohort, cohort, cohort.vocabulary) is None
        True
        """
        if train.values is None:
            return None
        units = units_of(train, test, synthetic)
        vocabulary = Vocabulary(tuple(code._replace(unit=units.get(code.token, "")) for code in union.codes))
        cohorts = (train, test, synthetic)
        return (
            cls(*(cohort.on(vocabulary) for cohort in cohorts)) if all(has_values(c, units) for c in cohorts) else None
        )

    def instead(self, synthetic: Cohort, test: Cohort | None) -> Natural | None:
        """These patients with another synthetic (and perhaps test) cohort; None where one of them lacks its values."""
        vocabulary = self.train.vocabulary
        units = {code.token: code.unit for code in vocabulary.codes if code.unit}
        test = self.test if test is None else test
        if not (has_values(synthetic, units) and has_values(test, units)):
            return None
        return Natural(self.train, test.on(vocabulary), synthetic.on(vocabulary))


def has_values(cohort: Cohort, units: dict[str, str]) -> bool:
    """Whether every number that the cohort holds carries its value.

    >>> has_values(Cohort.of([[["A"]]]), {"A": "mg/dL"}), has_values(Cohort.of([[["B"]]]), {"A": "mg/dL"})
    (False, True)
    """
    held = np.flatnonzero(cohort.visit_counts)
    codes = cohort.vocabulary.codes
    return all(codes[c].unit or codes[c].token not in units for c in held)


def units_of(*cohorts: Cohort) -> dict[str, str]:
    """The unit of each number; two units of one number are an error, since their values cannot be compared.

    >>> units_of(Cohort.of([[["A"]]]))
    {}
    """
    out: dict[str, str] = {}
    for cohort in cohorts:
        for code in cohort.vocabulary.codes:
            if code.unit and out.setdefault(code.token, code.unit) != code.unit:
                raise InputError(
                    f"{code.token}: in {out[code.token]} in one cohort and in {code.unit} in another",
                    expected="one unit for each number",
                    remedy="convert one of the two before they are compared",
                )
    return out
