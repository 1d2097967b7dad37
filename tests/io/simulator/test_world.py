"""A simulated world: probabilities in closed form, draws that follow them, and references of a known world."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.simulated import planted_pairs, together

from adapcla import evaluate
from adapcla.data import Code, Cohort, Vocabulary
from adapcla.errors import InputError, UsageError
from adapcla.evaluation.comparison import Comparison
from adapcla.evaluation.metric import metrics_of
from adapcla.evaluation.scores import Row
from adapcla.io import simulator
from adapcla.io.simulator import History, World, make_world, simulate
from adapcla.io.simulator import patients as module
from adapcla.io.simulator.codes import CodeLayout
from adapcla.io.simulator.patients import Sampler
from adapcla.io.simulator.structure import MOST_VISITS, N_GROUPS, Balance, Links, Structure
from adapcla.io.simulator.world import tilt

CODES = 600


@pytest.fixture(scope="module")
def world() -> Cohort:
    """The default cohort."""
    return simulate()


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return simulate(6000, CODES, seed=2)


# ---- probabilities, against a world small enough to solve on paper ----------------------------------------------
def by_hand(log_odds=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)) -> World:
    """Codes A, B, C, reasons Y and Z, one syndrome.

    A comes by itself with probability 1/2, B with 1/5, C never. The syndrome comes with 2/5 and shows B with 1/2 and C
    with 3/4. A at a visit brings C at the next with 1/10. A is noted again with 3/5.
    """
    vocabulary = Vocabulary.of([Code.of(c) for c in ("A", "B", "C", "Y", "Z")])
    layout = CodeLayout(vocabulary, np.array([0, 0, 0, -1, -1]), np.array([0.5, 0.2, 0.3, 0, 0]), np.array([3, 4]))
    structure = Structure(
        emissions=Links(np.array([0, 0]), np.array([1, 2]), np.array([0.5, 0.75])),
        is_rare=np.array([True, False]),
        progressions=Links(np.array([0]), np.array([2]), np.array([0.1])),
        persistence=np.array([0.6, 0, 0, 0, 0]),
        group_factor=np.ones((N_GROUPS, 6)),
        syndrome_rate=np.array([0.4]),
        return_weight=np.array([0.0, np.log(3), 0, 0, 0]),
        first_reason=np.tile([0.25, 0.75], (N_GROUPS, 1)),
        next_reason=np.array([[0.9, 0.1], [0.2, 0.8]]),
    )
    hazard = -np.log(1 - np.array([0.5, 0.2, 0.0, 0.0, 0.0, 0.4]))
    return World(layout, structure, Balance(hazard, np.zeros(MOST_VISITS - 1)), np.array(log_odds), "base", 1)


def after(previous, ever, n_visits=1) -> History:
    def row(codes):
        return sparse.csr_matrix(np.isin(np.arange(5), codes)[None, :].astype(np.float32))

    return History(row(previous), row(ever), np.array([n_visits]), np.array([0]))


def test_a_first_visit():
    """B: absent by itself (4/5) and not shown (1 − 2/5 · 1/2 = 4/5), so 1 − 16/25. C: 2/5 · 3/4."""
    chances = by_hand().next_visit(by_hand().newcomers)
    assert chances[0] == pytest.approx([0.5, 9 / 25, 0.3, 0.25, 0.75])


def test_a_visit_after_a():
    """A: 1 − 1/2 · 2/5. C: 1 − 9/10 · 7/10. The reason follows Y."""
    chances = by_hand().next_visit(after([0, 3], [0]))
    assert chances[0] == pytest.approx([0.8, 9 / 25, 0.37, 0.9, 0.1])


def test_what_was_seen_long_ago_persists_but_leads_nowhere():
    chances = by_hand().next_visit(after([4], [0], n_visits=2))
    assert chances[0] == pytest.approx([0.8, 9 / 25, 0.3, 0.2, 0.8])


def test_two_members_of_a_syndrome_come_together():
    """P(B, C) = P(C) P(B | syndrome): 3/10 · (1 − 4/5 · 1/2) = 0.18, against 0.108 if independent."""
    small = by_hand()
    joint = together(small, small.newcomers, np.array([1, 0, 3, 0, 2]), np.array([2, 1, 4, 3, 2]))[0]
    assert joint == pytest.approx([0.18, 0.5 * 9 / 25, 0.0, 0.5 * 0.25, 0.3])


def test_a_moved_code_has_its_odds_multiplied_and_leaves_the_others_alone():
    """A's odds 1 : 1 become 3 : 1; after a visit with A, 4 : 1 become 12 : 1."""
    moved = by_hand((np.log(3), 0, 0, 0, 0, 0))
    assert moved.next_visit(moved.newcomers)[0] == pytest.approx([0.75, 9 / 25, 0.3, 0.25, 0.75])
    assert moved.next_visit(after([0, 3], [0]))[0, 0] == pytest.approx(12 / 13)


def test_a_moved_syndrome_moves_its_members_and_names_them():
    """The syndrome's odds 2 : 3 times 3/2 are 1 : 1. C: 1/2 · 3/4."""
    moved = by_hand((0, 0, 0, 0, 0, np.log(1.5)))
    assert moved.next_visit(moved.newcomers)[0] == pytest.approx([0.5, 1 - 0.8 * 0.75, 0.375, 0.25, 0.75])
    assert moved.moved_members.tolist() == [False, True, True, False, False]
    assert not moved.code_shift.any()


def test_whether_a_record_goes_on():
    """Even odds, three times as much after B; always before the first visit, never after the last."""
    small = by_hand()
    assert small.continues(after([0, 3], [])) == pytest.approx([0.5])
    assert small.continues(after([1, 3], [])) == pytest.approx([0.75])
    assert small.continues(small.newcomers) == pytest.approx(1)
    assert small.continues(after([1, 3], [], n_visits=MOST_VISITS)) == pytest.approx(0)


@given(st.lists(st.floats(1e-6, 1 - 1e-6), min_size=1, max_size=5), st.floats(-4, 4))
def test_tilting_adds_to_the_log_odds_and_can_be_undone(chances, amount):
    chance = np.array(chances)
    moved = tilt(chance, np.full(len(chance), amount))
    assert np.log(moved / (1 - moved)) == pytest.approx(np.log(chance / (1 - chance)) + amount, abs=1e-6)
    assert tilt(moved, np.full(len(chance), -amount)) == pytest.approx(chance, rel=1e-6)


# ---- draws follow the probabilities -----------------------------------------------------------------------------
def misfit(law: World, cohort: Cohort) -> float:
    """Mean squared z-score of the number of visits with each code, over codes expected in at least 5 visits.

    Given its history each visit is a draw of the world, so the counts less the sum of the probabilities is a martingale
    with variance Σ p (1 − p), and the value is near 1 under the true world.
    """
    chance = law.next_visit(law.before_visits(cohort))
    expected, variance = chance.sum(axis=0), (chance * (1 - chance)).sum(axis=0)
    frequent = expected >= 5
    return float(((cohort.visit_counts - expected)[frequent] ** 2 / variance[frequent]).mean())


def misfit_by_level(law: World, cohort: Cohort) -> list[float]:
    """z-scores of the number of codes that came, among all (later visit, code) with a probability in each band.

    Codes of one visit co-occur, visits given their history do not: the variance is that over visits.
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


@pytest.mark.parametrize("population", simulator.POPULATIONS)
def test_patients_of_a_population_fit_its_world(population):
    law, drawn = make_world(CODES, population), simulate(6000, CODES, seed=2, population=population)
    assert 0.7 < misfit(law, drawn) < 1.3
    assert np.abs(misfit_by_level(law, drawn)).max() < 4


def test_another_world_fails_the_same_check(cohort):
    wrong = make_world(CODES, law_seed=8)
    assert misfit(wrong, cohort) > 5
    assert np.abs(misfit_by_level(wrong, cohort)).max() > 20


@pytest.mark.parametrize("population", ["shifted", "deep"])
def test_another_population_fails_the_same_check(cohort, population):
    assert misfit(make_world(CODES, population), cohort) > 3


def test_records_go_on_as_the_world_says(cohort):
    law = make_world(CODES)
    chance = law.continues(law.after_visits(cohort))
    goes_on = ~np.isin(np.arange(cohort.n_visits), cohort.last_visits)
    assert abs(goes_on.sum() - chance.sum()) / np.sqrt((chance * (1 - chance)).sum()) < 4


def test_planted_pairs_come_together_as_often_as_the_world_says(cohort):
    """First visits: the number with each pair is binomial with its true probability."""
    law = make_world(CODES)
    first = cohort.matrix()[cohort.first_visits].tocsc()
    pairs = planted_pairs(law)
    assert len(pairs) > 300
    assert np.median([pair.lift for pair in pairs]) > 10
    index = law.vocabulary.index
    both = first[:, [index[p.code] for p in pairs]].multiply(first[:, [index[p.partner] for p in pairs]])
    came, expected = float(both.sum()), cohort.n_patients * sum(pair.together for pair in pairs)
    # Members of one syndrome come together, so the total varies more than by Poisson; six pairs a syndrome at most.
    assert abs(came - expected) < 4 * np.sqrt(15 * expected)
    single = law.first_visit
    assert came > 4 * cohort.n_patients * sum(single[index[p.code]] * single[index[p.partner]] for p in pairs)


def test_true_prevalences_fit_a_draw_of_each_population():
    for population in ("base", "shifted"):
        share = simulator.true_prevalence(make_world(CODES, population), patients=3000).share
        drawn = simulate(8000, CODES, seed=9, population=population)
        frequent = share * drawn.n_visits > 20
        # Visits of a patient resemble one another, and later visits of the truth are drawn, too.
        error = np.sqrt(4 * share * (1 - share) / drawn.n_visits)
        z = (drawn.visit_counts / drawn.n_visits - share)[frequent] / error[frequent]
        assert (z**2).mean() < 1.5


def test_a_moved_code_is_moved_by_the_same_log_odds_at_every_history(cohort):
    """The label-shift identity: logit of the shifted probability less logit of the base one is the code's shift."""
    base, shifted = make_world(CODES), make_world(CODES, "shifted")
    history = base.before_visits(cohort).rows(np.arange(0, cohort.n_visits, 7))
    before, moved = base.next_visit(history), shifted.next_visit(history)
    possible = before > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.log(moved / (1 - moved)) - np.log(before / (1 - before))
    exact = ~shifted.moved_members
    wanted = np.broadcast_to(shifted.code_shift, gap.shape)
    assert np.abs((gap - wanted)[:, exact][possible[:, exact]]).max() < 1e-9
    assert (shifted.code_shift != 0).sum() > 20
    members = np.abs(gap[:, shifted.moved_members])
    assert np.median(members[possible[:, shifted.moved_members]]) > 0.05


def test_at_first_visits_prevalences_move_as_shifted_and_nothing_else_moves():
    base, shifted = make_world(CODES), make_world(CODES, "shifted")
    change = np.log(shifted.first_visit / base.first_visit)
    moved, members = shifted.code_shift != 0, shifted.moved_members
    assert (np.sign(change[moved]) == np.sign(shifted.code_shift[moved])).all()
    # A share falls and rises by no more than its odds do.
    assert (np.abs(change[moved]) <= np.abs(shifted.code_shift[moved]) + 1e-12).all()
    assert change[~moved & ~members] == pytest.approx(0, abs=1e-12)
    assert (np.abs(change[members]) > 0).all()


def test_a_cohort_without_the_attributes_is_refused_by_name():
    law = make_world(60)
    with pytest.raises(InputError, match="'sex'"):
        law.before_visits(Cohort.of([[["PLANTED/Z00.00"]]], law.vocabulary))


# ---- patients ---------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def everybody():
    return Sampler(make_world(100), 3).draw(np.arange(400))


@settings(max_examples=25)
@given(st.sets(st.integers(0, 399), min_size=1, max_size=12))
def test_a_patient_is_the_same_whoever_is_drawn_along(everybody, chosen):
    patients = np.array(sorted(chosen))
    alone = Sampler(make_world(100), 3).draw(patients)
    visit_starts, code_starts = np.cumsum([0, *everybody.visits]), np.cumsum([0, *everybody.visit_sizes])
    visits = np.concatenate([np.arange(visit_starts[p], visit_starts[p + 1]) for p in patients])
    assert alone.visits.tolist() == everybody.visits[patients].tolist()
    assert alone.group.tolist() == everybody.group[patients].tolist()
    assert alone.days.tolist() == everybody.days[visits].tolist()
    codes = np.concatenate([everybody.codes[code_starts[v] : code_starts[v + 1]] for v in visits])
    assert alone.codes.tolist() == codes.tolist()


@pytest.mark.parametrize("population", simulator.POPULATIONS)
def test_chunks_change_nothing_but_the_progress(population, monkeypatch):
    whole, reported = simulate(300, 100, seed=5, population=population), []
    monkeypatch.setattr(module, "CHUNK", 140)
    pieces = simulate(300, 100, seed=5, population=population, advance=reported.append)
    assert whole.fingerprint == pieces.fingerprint
    assert reported == [140, 140, 20]


def test_a_larger_cohort_begins_with_the_smaller():
    assert simulate(250, 60).subset(range(100)).fingerprint == simulate(100, 60).fingerprint


def test_the_same_seed_gives_the_patients_that_it_always_gave():
    """Other patients need another `WORLD`."""
    assert simulate(300, 100, seed=5).fingerprint.startswith("3c854c91a5185f70")
    assert simulate(400, 150, seed=5, whole=True).fingerprint.startswith("e799d06e99289e0e")
    assert simulator.WORLD == 2


def test_another_seed_draws_other_patients_with_nothing_in_common_but_the_world():
    one, two = (simulate(2000, 100, seed=seed) for seed in (1, 2))
    assert one.fingerprint != two.fingerprint
    same = (one.attributes["sex"].values == two.attributes["sex"].values).mean()
    assert same == pytest.approx(0.5, abs=0.05)


def test_every_visit_has_exactly_one_reason(cohort):
    reasons = np.asarray(cohort.matrix()[:, make_world(CODES).layout.reasons].sum(axis=1)).ravel()
    assert (reasons == 1).all()


def test_days_ascend_from_zero_and_records_end_by_the_last_visit(cohort):
    days = np.asarray(cohort.days)
    assert (days[cohort.first_visits] == 0).all()
    inside = np.diff(cohort.patient_of_visit) == 0
    assert (np.diff(days)[inside] > 0).all()
    assert cohort.visits_per_patient.max() <= MOST_VISITS


def test_no_patient_has_a_code_of_the_other_sex(cohort):
    law = make_world(CODES)
    factor = law.structure.group_factor[:, : law.n_codes].copy()
    factor[:, law.layout.reasons] = 1
    group = np.repeat(law.groups(cohort)[cohort.patient_of_visit], cohort.codes_per_visit)
    assert (factor == 0).any()
    assert (factor[group, cohort.codes] > 0).all()


def test_the_default_world_has_the_shape_of_hospital_records(world):
    counts = world.visit_counts
    assert (world.n_patients, world.n_codes) == (12_000, 3000)
    assert world.visits_per_patient.mean() == pytest.approx(1.8, abs=0.1)
    assert world.visits_per_patient.min() == 1
    assert world.visits_per_patient.max() <= 20
    assert world.codes_per_visit.mean() == pytest.approx(11, abs=0.6)
    assert (counts < 10).mean() == pytest.approx(0.5, abs=0.04)
    assert (counts == 0).mean() < 0.1
    assert 0.25 < counts.max() / world.n_visits < 0.45


def test_the_frequency_rank_curve_is_a_power_law_in_its_body(world):
    """Between ranks 20 and 1,000 log count falls linearly in log rank, by about one and a half."""
    counts = np.sort(world.visit_counts)[::-1]
    rank = np.arange(20, 1001)
    fit = np.polyfit(np.log(rank), np.log(counts[rank - 1]), 1)
    left = np.log(counts[rank - 1]) - np.polyval(fit, np.log(rank))
    assert -1.7 < fit[0] < -0.9
    assert np.std(left) < 0.15


def test_worlds_of_other_sizes_have_a_tail_too():
    for patients, codes in ((1200, 300), (4000, 1000)):
        drawn = simulate(patients, codes)
        assert 0.3 < (drawn.visit_counts < 10).mean() < 0.65
        assert 1.5 < drawn.visits_per_patient.mean() < 2.3


def test_another_law_seed_is_another_world_on_the_same_codes():
    one, two = make_world(300), make_world(300, law_seed=8)
    assert one.vocabulary == two.vocabulary
    first, second = ({(p.code, p.partner) for p in planted_pairs(law)} for law in (one, two))
    assert len(first & second) < 0.2 * len(first)
    # The marginals are nearly the same, so that only structure tells the worlds apart.
    assert np.corrcoef(np.log(one.first_visit), np.log(two.first_visit))[0, 1] > 0.9


def test_the_card_says_what_it_is(tmp_path):
    drawn = simulate(30, 60, seed=3, population="shifted")
    assert drawn.card["source"] == "planted"
    assert drawn.card["arguments"] == {
        "patients": 30,
        "codes": 60,
        "seed": 3,
        "population": "shifted",
        "law_seed": simulator.LAW_SEED,
        "world": simulator.WORLD,
    }
    assert "nobody in this cohort is real" in drawn.card["note"]
    assert Cohort.open(drawn.save(tmp_path / "world")).fingerprint == drawn.fingerprint


@pytest.mark.parametrize(("name", "value"), [("patients", 0), ("patients", -1), ("codes", 10), ("population", "x")])
def test_wrong_settings_are_refused(name, value):
    with pytest.raises(UsageError, match=name):
        simulate(**{"patients": 10, "codes": 60, name: value})


# ---- references of a known world --------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def blurred(world: Cohort) -> dict[tuple[str, str], Row]:
    """Tail scores at the default size, families alone in the place of synthetic patients."""
    split = world.split(seed=4)
    made = simulator.family_only(world, split.test.n_patients, seed=1)
    rows = evaluate(split.train, split.test, made, suites=["tail"], quick=True).rows
    return {(row.metric, row.stratum): row for row in rows}


@pytest.mark.parametrize("metric", ["tail_pair_seen", "tail_topk_jac"])
@pytest.mark.parametrize(("held_out", "stratum"), [("", "all"), ("", "matched"), ("_heldout", "matched")])
def test_real_patients_are_three_times_chance_in_the_tail(blurred, metric, held_out, stratum):
    key = metric + held_out
    row = blurred[key, stratum] if (key, stratum) in blurred else blurred[key, "halves"]
    assert row.real_test >= 3 * row.marginal
    # Which families come together does not say which codes do.
    assert row.value < row.real_test / 3


def test_the_same_world_has_the_rare_pairs_and_another_has_not(world, blurred):
    split = world.split(seed=4)
    n = split.test.n_patients
    right, wrong = (
        Comparison.of(split.train, split.test, made, None, seed=1, quick=True)
        for made in (simulator.ideal(world, n, seed=1), simulate(n, law_seed=8))
    )
    for metric in metrics_of(["tail"]):
        if metric.key in ("tail_pair_seen", "tail_topk_jac"):
            row = blurred[metric.key, "all"]
            assert metric.compute(right)["all"].value > 3 * row.marginal
            assert metric.compute(wrong)["all"].value < row.real_test / 3


def test_ideal_patients_are_of_the_same_world_and_nobody_of_the_cohort():
    drawn = simulate(400, 150, seed=1, population="shifted")
    fresh = simulator.ideal(drawn, 400, seed=1)
    assert fresh.card["arguments"] == {**drawn.card["arguments"], "seed": fresh.card["arguments"]["seed"]}
    assert fresh.fingerprint != drawn.fingerprint
    assert fresh.fingerprint == simulator.ideal(drawn.split(seed=4).test, 400, seed=1).fingerprint
    same = fresh.attributes["sex"].values == drawn.attributes["sex"].values
    assert 0.4 < same.mean() < 0.6


def test_family_only_keeps_families_and_prevalences_and_loses_pairs():
    drawn, law = simulate(6000, 300, seed=1), make_world(300)
    exact, made = simulator.ideal(drawn, 6000, seed=1), simulator.family_only(drawn, 6000, seed=1)
    category = law.layout.category
    families = np.sort(exact.visit_of_entry * 1000 + category[exact.codes])
    assert np.array_equal(np.sort(made.visit_of_entry * 1000 + category[made.codes]), families)
    reasons = np.isin(exact.codes, law.layout.reasons)
    assert np.array_equal(made.codes[np.isin(made.codes, law.layout.reasons)], exact.codes[reasons])
    inside = np.diff(made.visit_of_entry) == 0
    assert (np.diff(made.codes)[inside] > 0).all()
    common = exact.visit_counts > 100
    assert np.corrcoef(np.log(exact.visit_counts[common]), np.log(made.visit_counts[common] + 1))[0, 1] > 0.95
    pairs, index = planted_pairs(law)[:500], law.vocabulary.index
    first, second = (np.array([index[getattr(pair, name)] for pair in pairs]) for name in ("code", "partner"))
    counts = [c.matrix().tocsc()[:, first].multiply(c.matrix().tocsc()[:, second]).sum() for c in (exact, made)]
    assert counts[1] < counts[0] / 3


def test_references_of_whole_records_are_whole_records_of_the_same_world():
    drawn = simulate(400, 60, seed=1, population="shifted", whole=True)
    fresh = simulator.ideal(drawn.split(seed=4).test, 400, seed=1)
    assert fresh.card["arguments"] == {**drawn.card["arguments"], "seed": fresh.card["arguments"]["seed"]}
    assert fresh.vocabulary == drawn.vocabulary
    assert fresh.fingerprint != drawn.fingerprint
    blurred = simulator.family_only(drawn, 400, seed=1)
    law = make_world(60, population="shifted")
    disorders = fresh.vocabulary.positions(law.vocabulary.tokens)[law.layout.category >= 0]
    moved, others = np.isin(blurred.codes, disorders), np.isin(fresh.codes, disorders)
    # Kinds, endings, drugs and values stay where they are, with their numbers; disorders became siblings.
    assert np.array_equal(blurred.codes[~moved], fresh.codes[~others])
    assert np.array_equal(blurred.visit_of_entry[~moved], fresh.visit_of_entry[~others])
    assert np.array_equal(blurred.values[~moved], fresh.values[~others], equal_nan=True)
    assert np.isnan(blurred.values[moved]).all()
    assert (blurred.codes[moved] != fresh.codes[others]).mean() > 0.2
    assert simulator.whole_record_world_of(blurred) is None


@pytest.mark.parametrize(("whole", "world_of"), [(False, simulator.world_of), (True, simulator.whole_record_world_of)])
@pytest.mark.parametrize("version", [{"world": simulator.WORLD - 1}, {}])
def test_patients_of_another_version_are_refused_where_their_world_is_needed(whole, world_of, version):
    drawn = simulate(5, 60, whole=whole)
    arguments = {name: value for name, value in drawn.card["arguments"].items() if name != "world"}
    assert world_of(drawn) is not None
    with pytest.raises(InputError, match="another version"):
        world_of(replace(drawn, card={**drawn.card, "arguments": {**arguments, **version}}))


@pytest.mark.parametrize("reference", [simulator.ideal, simulator.family_only])
def test_only_simulated_patients_have_a_world(reference):
    with pytest.raises(InputError, match="was not simulated"):
        reference(Cohort.of([[["A"]]]), 5, seed=1)
