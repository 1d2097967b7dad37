"""The law against draws from it, and a wrong law against the same draws."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.errors import InputError, UsageError
from adapcla.io import simulator as planted

CODES = 600


def misfit(law: planted.Law, cohort: Cohort) -> float:
    """Mean squared z-score of the number of visits with each code, over codes expected in at least 5 visits.

    Given its history each visit is a draw of the law, so the counts less the sum of the chances is a martingale with
    variance Σ p (1 − p), and the value is near 1 under the true law.
    """
    chance = law.next_visit(law.before_visits(cohort))
    expected, variance = chance.sum(axis=0), (chance * (1 - chance)).sum(axis=0)
    judged = expected >= 5
    return float(((cohort.visit_counts - expected)[judged] ** 2 / variance[judged]).mean())


def misfit_by_level(law: planted.Law, cohort: Cohort) -> list[float]:
    """z-scores of the number of codes that came, among all (later visit, code) with a chance in each band.

    Codes of one visit come in company, visits given their history do not: the variance is that over visits.
    """
    history = law.before_visits(cohort)
    later = np.flatnonzero(history.n_visits)
    chance = law.next_visit(history.rows(later))
    came = cohort.matrix()[later].toarray() > 0
    out = []
    for low, high in ((1e-6, 1e-3), (1e-3, 0.01), (0.01, 0.1), (0.1, 0.4), (0.4, 1.0)):
        band = (chance >= low) & (chance < high)
        surplus = np.where(band, came - chance, 0.0).sum(axis=1)
        out.append(float(surplus.sum() / np.sqrt((surplus**2).sum())))
    return out


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return planted.simulate(6000, CODES, seed=2)


@pytest.mark.parametrize("population", planted.POPULATIONS)
def test_the_law_of_a_population_fits_its_draws(population):
    law, drawn = planted.law(CODES, population), planted.simulate(6000, CODES, seed=2, population=population)
    assert 0.7 < misfit(law, drawn) < 1.3
    assert np.abs(misfit_by_level(law, drawn)).max() < 4


def test_the_law_of_another_world_fails_the_same_check(cohort):
    wrong = planted.law(CODES, law_seed=8)
    assert misfit(wrong, cohort) > 5
    assert np.abs(misfit_by_level(wrong, cohort)).max() > 20


@pytest.mark.parametrize("population", ["shifted", "deep"])
def test_the_law_of_another_population_fails_the_same_check(cohort, population):
    assert misfit(planted.law(CODES, population), cohort) > 3


def test_records_go_on_as_the_law_says(cohort):
    law = planted.law(CODES)
    chance = law.continues(law.after_visits(cohort))
    last = np.zeros(cohort.n_visits, dtype=bool)
    last[np.asarray(cohort.patient_starts[1:]) - 1] = True
    z = ((~last).sum() - chance.sum()) / np.sqrt((chance * (1 - chance)).sum())
    assert abs(z) < 4


def test_planted_pairs_come_together_as_often_as_the_law_says(cohort):
    """First visits: the number with each pair is binomial with the chance that the law gives."""
    law = planted.law(CODES)
    first = cohort.matrix()[np.asarray(cohort.patient_starts[:-1])].tocsc()
    pairs = law.pairs()
    assert len(pairs) > 300
    assert np.median([pair.lift for pair in pairs]) > 10
    index = law.vocabulary.index
    both = first[:, [index[p.code] for p in pairs]].multiply(first[:, [index[p.partner] for p in pairs]])
    came, expected = float(both.sum()), cohort.n_patients * sum(pair.together for pair in pairs)
    # Members of one syndrome come together, so the total varies more than by Poisson; six pairs a syndrome at most.
    assert abs(came - expected) < 4 * np.sqrt(15 * expected)
    single = law.first_visit
    alone = cohort.n_patients * sum(single[index[p.code]] * single[index[p.partner]] for p in pairs)
    assert came > 4 * alone


def test_true_prevalences_fit_a_draw_of_each_population():
    for population in ("base", "shifted"):
        truth = planted.law(CODES, population).prevalence(patients=3000)
        drawn = planted.simulate(8000, CODES, seed=9, population=population)
        share = truth.prevalence.share
        judged = share * drawn.n_visits > 20
        # Visits of a patient resemble one another: a persistent code is seen again and again.
        error = np.sqrt(truth.error**2 + 3 * share * (1 - share) / drawn.n_visits)
        z = (drawn.visit_counts / drawn.n_visits - share)[judged] / error[judged]
        assert (z**2).mean() < 1.5


def test_a_moved_code_is_moved_by_the_same_log_odds_at_every_history(cohort):
    """The label-shift identity: logit of the shifted chance less logit of the base chance is the code's shift."""
    base, shifted = planted.law(CODES), planted.law(CODES, "shifted")
    history = base.before_visits(cohort).rows(np.arange(0, cohort.n_visits, 7))
    before, after = base.next_visit(history), shifted.next_visit(history)
    possible = before > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.log(after / (1 - after)) - np.log(before / (1 - before))
    exact = ~shifted.moved_members
    wanted = np.broadcast_to(shifted.code_shift, gap.shape)
    assert np.abs((gap - wanted)[:, exact][possible[:, exact]]).max() < 1e-9
    assert (shifted.code_shift != 0).sum() > 20
    members = np.abs(gap[:, shifted.moved_members])
    assert np.median(members[possible[:, shifted.moved_members]]) > 0.05


def test_at_first_visits_prevalences_move_as_pushed_and_nothing_else_moves():
    base, shifted = planted.law(CODES), planted.law(CODES, "shifted")
    change = np.log(shifted.first_visit / base.first_visit)
    push = shifted.code_shift
    moved, members = push != 0, shifted.moved_members
    assert (np.sign(change[moved]) == np.sign(push[moved])).all()
    # A share falls and rises by no more than its odds do.
    assert (np.abs(change[moved]) <= np.abs(push[moved]) + 1e-12).all()
    assert change[~moved & ~members] == pytest.approx(0, abs=1e-12)
    assert (np.abs(change[members]) > 0).all()


def test_histories_of_lists_and_of_cohorts_agree():
    law, cohort = planted.law(60), planted.simulate(40, 60, seed=4)
    records = list(cohort.patients())
    sex = [cohort.attributes["sex"].categories[i] for i in cohort.attributes["sex"].values]
    band = [cohort.attributes["birth_band"].categories[i] for i in cohort.attributes["birth_band"].values]
    listed = law.next_visit(law.history([record[:-1] for record in records], sex, band))
    flat = law.next_visit(law.before_visits(cohort).rows(np.asarray(cohort.patient_starts[1:]) - 1))
    assert listed == pytest.approx(flat)
    code = cohort.vocabulary.tokens[5]
    assert law.probability(code, records[0][:-1], sex[0], band[0]) == pytest.approx(flat[0, 5])


def test_progressions_raise_what_they_lead_to():
    law = planted.law(CODES)
    strongest = law.progressions()[0]
    bare = law.probability(strongest.leads_to, [["PLANTED/Z00.00"]])
    after = law.probability(strongest.leads_to, [["PLANTED/Z00.00", strongest.code]])
    assert after >= 1 - (1 - bare) * (1 - strongest.chance) - 1e-9
    assert after > 2 * bare


def test_a_cohort_without_the_attributes_is_refused_by_name():
    law = planted.law(60)
    bare = Cohort.of([[["PLANTED/Z00.00"]]], law.vocabulary)
    with pytest.raises(InputError, match="'sex'"):
        law.before_visits(bare)


def test_unknown_codes_sexes_and_populations_are_refused():
    law = planted.law(60)
    with pytest.raises(InputError, match="outside the vocabulary"):
        law.history([[["nothing"]]], ["male"], ["1950-1959"])
    with pytest.raises(UsageError, match="sex"):
        law.history([[]], ["other"], ["1950-1959"])
    with pytest.raises(UsageError, match="population"):
        planted.law(60, "elsewhere")
