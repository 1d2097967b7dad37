"""The rule of verdicts, on cases that can be solved on paper."""

from __future__ import annotations

import math

import pytest

from adapcla.study.results import Measured
from adapcla.study.ruling import (
    CANNOT_TELL,
    EXCLUDED,
    HELD,
    NOT_HELD,
    Assessed,
    Counts,
    fisher,
    holm,
    over_fits,
    over_patients,
    rulings,
)


def test_students_test_of_four_gains():
    """Gains 0, 2, 0, 2: mean 1, standard error (2/√3)/2 = 1/√3, so t = √3 with 3 degrees of freedom.

    With v = 3, P(T > t) = 1/2 − (θ + sin θ cos θ)/π where θ = arctan(t/√3) = π/4: 1/4 − 1/(2π).
    """
    found = over_fits([0.0, 2.0, 0.0, 2.0])
    assert found.none == pytest.approx(2 * (0.25 - 1 / (2 * math.pi)))
    assert found.no_loss == 1.0
    mirrored = over_fits([0.0, -2.0, 0.0, -2.0])
    assert (mirrored.none, mirrored.no_loss) == (1.0, pytest.approx(found.none))


def test_the_gain_of_the_paper_is_tested_from_below():
    """The same gains against a paper's gain of 2: t = −√3."""
    found = over_fits([0.0, 2.0, 0.0, 2.0], paper=2.0)
    assert found.as_paper == pytest.approx(2 * (0.25 - 1 / (2 * math.pi)))
    assert over_fits([0.0, 2.0, 0.0, 2.0], paper=0.5).as_paper == 1.0


@pytest.mark.parametrize("gains", [[], [0.5], [0.5, 0.6, 0.5], [0.0] * 5, [0.1] * 5, [0.3 - 0.2, 0.2 - 0.1, 0.1, 0.1]])
def test_few_fits_and_equal_fits_decide_nothing(gains):
    found = over_fits(gains)
    assert found.lacking and found.smallest is None
    assert rulings([found]) == [CANNOT_TELL]


def test_an_interval_of_no_width_is_none():
    assert over_fits([0.0] * 5).gain.low is None
    assert over_patients(Measured(0.0, 0.0, 0.0, 5)).lacking == "no interval over patients"
    assert over_patients(Measured(0.1, None, None, 1)).smallest is None


def test_fishers_test_of_two_tables():
    """3 of 3 against 0 of 3: one of C(6,3) = 20 tables at each end."""
    assert fisher(Counts(3, 3, 0, 3)) == (pytest.approx(2 / 20), 1.0)
    assert fisher(Counts(0, 3, 3, 3)) == (1.0, pytest.approx(2 / 20))


def test_counts_decide_where_fits_are_equal_and_hold_back_where_they_are_few():
    assert over_fits([-1.0] * 4, counts=Counts(0, 500, 40, 500)).no_loss < 1e-9
    sure = [0.50, 0.51, 0.49, 0.50]
    assert over_fits(sure).none < 1e-3
    assert over_fits(sure, counts=Counts(2, 2, 1, 2)).none == 1.0


def test_holms_levels():
    """Five claims: .01 passes .05/5, .0125 passes .05/4, .02 does not pass .05/3, and the rest are not asked."""
    levels = holm([0.02, 0.01, 0.9, 0.0125, 0.03])
    assert levels == pytest.approx([0.05 / 3, 0.01, 0.0, 0.0125, 0.0])


def test_one_of_twenty_claims_is_not_won_by_chance():
    lucky = Assessed(Measured(0.1, 0.01, 0.2, 5), 0.03, 1.0)
    idle = Assessed(Measured(0.0, -0.1, 0.1, 5), 0.9, 1.0)
    assert rulings([lucky]) == [HELD]
    assert set(rulings([lucky, *[idle] * 19])) == {CANNOT_TELL}


def test_the_words_and_their_order():
    gain = Measured(0.0, -1.0, 1.0, 5)
    claims = [
        Assessed(gain, 1e-6, 1.0, 0.5, 1e-6),  # better, by less than the paper says
        Assessed(gain, 1.0, 1e-6, 0.5, 1e-6),
        Assessed(gain, 1e-6, 1e-6),  # fewer than the margin, and surely some
        Assessed(gain, 0.5, 0.5, 0.5, 1e-6),
        Assessed(gain, 0.5, 0.5, 0.5, 0.5),
    ]
    assert rulings(claims) == [HELD, NOT_HELD, NOT_HELD, EXCLUDED, CANNOT_TELL]


def test_a_margin_counts_little_as_none():
    """An excess of 0 with an error of .0002 lies five errors below a thousandth."""
    assert rulings([over_patients(Measured(0.0, -0.1, 0.1, 1), margin=0.001)]) == [CANNOT_TELL]
    found = over_patients(Measured(0.0, -0.000392, 0.000392, 1), margin=0.001)
    assert found.none == pytest.approx(5.733e-7, rel=1e-3) and found.no_loss == pytest.approx(1.0)
