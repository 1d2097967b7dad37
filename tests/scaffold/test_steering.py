"""The shift towards another population: its sign, its exactness where it should be exact, and its refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Code, Prevalence, Vocabulary
from adapcla.errors import InputError, UsageError
from adapcla.scaffold import shift
from adapcla.scaffold.steering import logit, measure_gap

inner = st.floats(1e-4, 1 - 1e-4)
populations = st.dictionaries(st.sampled_from("ABCDEFGH"), inner, min_size=1)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


# ---- the sign and the size --------------------------------------------------------------------------------
def test_the_sign_is_pinned():
    """A becomes commoner in the target, so its logit rises; B rarer, so it falls."""
    delta = shift(Prevalence.of({"A": 0.1, "B": 0.5}), Prevalence.of({"A": 0.2, "B": 0.4})).delta
    assert delta[0] > 0 > delta[1]


def test_the_size_by_hand():
    """Odds 1/9 to odds 1: a factor of 9."""
    assert shift(Prevalence.of({"A": 0.1}), Prevalence.of({"A": 0.5})).delta[0] == pytest.approx(np.log(9))


@given(populations)
def test_target_equal_to_source_moves_nothing(values):
    steering = shift(Prevalence.of(values), Prevalence.of(values))
    assert steering.delta.tolist() == [0.0] * len(values)
    assert not steering.moves


@given(populations, populations, st.sampled_from(["keep", "drop"]))
def test_strength_zero_is_exactly_no_control(source, target, missing):
    delta = shift(Prevalence.of(source), Prevalence.of({**target, "A": 0.0}), strength=0, missing=missing).delta
    assert delta.tobytes() == np.zeros(len(source)).tobytes()


@given(populations, populations, st.floats(0.01, 1))
def test_strength_scales_the_full_shift(source, target, strength):
    full, part = (shift(Prevalence.of(source), Prevalence.of(target), s).delta for s in (1.0, strength))
    assert np.allclose(part, strength * full)


@given(populations, populations, st.randoms())
def test_permuted_rows_change_nothing(source, target, random):
    rows = list(target.items())
    random.shuffle(rows)
    one = shift(Prevalence.of(source), Prevalence.of(target))
    two = shift(Prevalence.of(source), Prevalence.of(dict(rows)))
    assert one.delta.tobytes() == two.delta.tobytes()


@given(populations, populations)
def test_moving_there_and_back_is_no_move(source, target):
    common = {token: target.get(token, 0.5) for token in source}
    there = shift(Prevalence.of(source), Prevalence.of(common)).delta
    back = shift(Prevalence.of(common), Prevalence.of(source)).delta
    assert np.allclose(there + back, 0, atol=1e-12)


def test_bayes_identity_is_exact_where_only_the_prior_changes():
    """A world of one code y and a history x of four values. p(x | y) is the same in both populations, p(y) is not.

    By Bayes, odds_T(y | x) = p(x|1) π_T / (p(x|0) (1 − π_T)) = odds_S(y | x) · odds(π_T) / odds(π_S): so adding
    Δb to the source's exact logit must give the target's exact logit for every history.
    """
    given_present, given_absent = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.55, 0.25, 0.15, 0.05])

    def posterior(prior: float) -> np.ndarray:
        return prior * given_present / (prior * given_present + (1 - prior) * given_absent)

    for prior_source, prior_target in [(0.02, 0.3), (0.5, 0.001), (0.9, 0.1)]:
        steering = shift(Prevalence.of({"Y": prior_source}), Prevalence.of({"Y": prior_target}))
        moved = sigmoid(logit(posterior(prior_source)) + steering.delta[0])
        assert np.allclose(moved, posterior(prior_target), rtol=1e-12)


def test_the_wrong_sign_would_break_the_identity():
    """The check above can fail: with the sign turned round the moved posterior lies on the other side."""
    steering = shift(Prevalence.of({"Y": 0.1}), Prevalence.of({"Y": 0.3}))
    assert (
        sigmoid(logit(np.array([0.1])) - steering.delta[0])[0]
        < 0.1
        < sigmoid(logit(np.array([0.1])) + steering.delta[0])[0]
    )


# ---- edges ------------------------------------------------------------------------------------------------
def test_codes_meet_by_string_and_strangers_are_listed():
    """Position 0 is A in one vocabulary and 0AA in the other; only B is common."""
    steering = shift(Prevalence.of({"A": 0.1, "B": 0.1}), Prevalence.of({"0AA": 0.5, "B": 0.5, "Z": 0.5}))
    assert steering.delta.round(3).tolist() == [0.0, 2.197]
    assert steering.unknown == ("0AA", "Z")
    assert steering.vocabulary.tokens == ("A", "B")


def test_target_zero_is_never_at_any_strength():
    assert shift(Prevalence.of({"A": 0.1}), Prevalence.of({"A": 0.0}), strength=0.3).delta[0] == -np.inf


@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_target_one_is_refused_and_the_code_named(strength):
    with pytest.raises(InputError, match="code B"):
        shift(Prevalence.of({"A": 0.1, "B": 0.1}), Prevalence.of({"A": 0.5, "B": 1.0}), strength)


def test_codes_that_no_shift_can_reach_are_listed_and_left_alone():
    """A was never seen and C is in every visit: their log-odds are not finite, so no finite shift moves them."""
    steering = shift(Prevalence.of({"A": 0.0, "B": 0.1, "C": 1.0}), Prevalence.of({"A": 0.5, "B": 0.1, "C": 0.5}))
    assert steering.delta.tolist() == [0.0, 0.0, 0.0]
    assert steering.unreachable == ("A", "C")


def test_an_unknown_target_is_no_target():
    target = Prevalence(Vocabulary.of("AB"), np.array([np.nan, 0.2]))
    source = Prevalence.of({"A": 0.1, "B": 0.1})
    assert shift(source, target).delta[0] == 0.0
    assert shift(source, target, missing="drop").delta[0] == -np.inf


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan")])
def test_a_strength_outside_zero_to_one_is_wrong_usage(strength):
    with pytest.raises(UsageError, match="strength"):
        shift(Prevalence.of({"A": 0.1}), Prevalence.of({"A": 0.2}), strength)


def test_missing_knows_two_words():
    with pytest.raises(UsageError, match="missing"):
        shift(Prevalence.of({"A": 0.1}), Prevalence.of({"A": 0.2}), missing="remove")


# ---- the closed loop --------------------------------------------------------------------------------------
def test_a_target_that_is_met_needs_no_correction():
    target = Prevalence.of({"A": 0.3, "B": 0.01})
    steering = shift(Prevalence.of({"A": 0.1, "B": 0.1}), target)
    assert np.allclose(steering.correct(target, n_visits=1000).delta, steering.delta)


def test_corrections_go_towards_the_target_and_are_bounded():
    steering = shift(Prevalence.of({"A": 0.1, "B": 0.1, "C": 0.1}), Prevalence.of({"A": 0.3, "B": 0.01, "C": 0.5}))
    step = steering.correct(Prevalence.of({"A": 0.2, "B": 0.05, "C": 0.0}), 1000).delta - steering.delta
    assert step[0] > 0 > step[1]
    assert step[2] == pytest.approx(2.0 * 500 / 510)


def test_the_step_of_a_rare_code_is_believed_as_far_as_it_is_known():
    """Both codes come out half as often as asked; 10 expected visits are believed by half, 1,000 by 100/101."""
    steering = shift(Prevalence.of({"A": 0.1, "B": 0.1}), Prevalence.of({"A": 0.1, "B": 0.001}))
    step = steering.correct(Prevalence.of({"A": 0.05, "B": 0.0005}), 10_000).delta - steering.delta
    assert step[0] == pytest.approx(np.log(19 / 9) * 100 / 101, rel=2e-3)
    # Half a visit is added to the 10 and to the 5.
    assert step[1] == pytest.approx(np.log(10.5 / 5.5) / 2, rel=2e-3)


def test_damping_scales_the_step():
    steering = shift(Prevalence.of({"A": 0.1}), Prevalence.of({"A": 0.3}))
    got = Prevalence.of({"A": 0.2})
    full, half = (steering.correct(got, 1000, damping).delta - steering.delta for damping in (1.0, 0.5))
    assert half == pytest.approx(full / 2)


def test_never_stays_never_and_the_unreachable_stays():
    steering = shift(Prevalence.of({"A": 0.1, "B": 0.0}), Prevalence.of({"A": 0.0, "B": 0.5}))
    corrected = steering.correct(Prevalence.of({"A": 0.0, "B": 0.0}), 1000)
    assert corrected.delta.tolist() == [-np.inf, 0.0]


def test_a_code_that_the_sample_does_not_list_was_not_drawn():
    """Achieved prevalences on a smaller vocabulary: the code left out has share 0, never NaN."""
    steering = shift(Prevalence.of({"A": 0.1, "B": 0.1}), Prevalence.of({"A": 0.1, "B": 0.2}))
    corrected = steering.correct(Prevalence.of({"A": 0.1}), 1000)
    assert np.isfinite(corrected.delta).all()
    assert corrected.delta[1] > steering.delta[1]


def test_the_loop_settles_on_the_target_when_the_response_is_not_the_promised_one():
    """A sampler whose log-odds move by only 0.6 of what is asked: repeated correction still lands on the target."""
    source, target = Prevalence.of({"A": 0.1, "B": 0.4}), Prevalence.of({"A": 0.35, "B": 0.2})
    steering = shift(source, target)
    for _ in range(30):
        got = Prevalence(source.vocabulary, sigmoid(logit(source.share) + 0.6 * steering.delta))
        steering = steering.correct(got, n_visits=100_000)
    assert np.allclose(got.share, target.share, atol=1e-4)


# ---- how near ---------------------------------------------------------------------------------------------
def test_achieved_by_hand():
    """n = 10,000: standard errors 0.005 (A) and 0.003 (B). A is off by 0.01 (2 errors), B by 0.02 (6.7): half inside.

    C is expected 10 times only and is not judged; D has no target.
    """
    target = Prevalence(Vocabulary.of("ABCD"), np.array([0.5, 0.1, 0.001, np.nan]))
    found = measure_gap(target, Prevalence.of({"A": 0.51, "B": 0.12, "C": 0.5, "D": 0.5}), 10_000)
    assert (found.n_judged, found.inside_sampling_error) == (2, 0.5)
    assert (found.mae, found.max_gap) == (0.015, 0.02)
    # About √(2/π) standard errors each: 0.798 · (0.005 + 0.003) / 2.
    assert found.floor == pytest.approx(0.00319, rel=1e-2)


def test_nothing_to_judge_is_said_not_scored():
    found = measure_gap(Prevalence.of({"A": 0.1}), Prevalence.of({"A": 0.1}), 100)
    assert found.n_judged == 0
    assert np.isnan(found.mae)


# ---- choice groups ----------------------------------------------------------------------------------------
CHOICES = Vocabulary.of([*(Code.of(name, group="kind") for name in "abc"), "z"])


def of(*shares: float) -> Prevalence:
    """Prevalences of three choices and a code of its own."""
    return Prevalence(CHOICES, np.array(shares))


def steered(source: Prevalence, delta: np.ndarray) -> np.ndarray:
    """The shares of one categorical draw with the source's shares, shifted."""
    rest = max(1 - source.share[:3].sum(), 0.0)
    weight = np.append(source.share[:3] * np.exp(delta[:3]), rest)
    return weight[:3] / weight.sum()


SIMPLEX = st.lists(st.floats(0.01, 1), min_size=4, max_size=4).map(lambda x: np.array(x) / sum(x))


@given(have=SIMPLEX, wish=SIMPLEX)
def test_a_choice_drawn_by_itself_comes_out_as_asked(have: np.ndarray, wish: np.ndarray) -> None:
    source, target = of(*have[:3], 0.5), of(*wish[:3], 0.5)
    assert steered(source, shift(source, target).delta) == pytest.approx(wish[:3], rel=1e-6)
    assert shift(source, target).delta[3] == 0


@given(have=SIMPLEX, wish=SIMPLEX)
def test_choices_without_a_target_share_what_is_left(have: np.ndarray, wish: np.ndarray) -> None:
    """Only a has a target; b, c and none keep their odds among each other."""
    source = of(*have[:3], 0.5)
    after = steered(source, shift(source, of(wish[0], np.nan, np.nan, np.nan)).delta)
    assert after[0] == pytest.approx(wish[0], rel=1e-6)
    assert after[1] / after[2] == pytest.approx(have[1] / have[2], rel=1e-6)
    dropped = steered(source, shift(source, of(wish[0], np.nan, np.nan, np.nan), missing="drop").delta)
    assert dropped == pytest.approx([wish[0], 0.0, 0.0], rel=1e-6)


def test_a_choice_that_is_always_made_stays_made() -> None:
    source, target = of(0.5, 0.3, 0.2, 0.5), of(0.1, 0.1, 0.8, 0.5)
    assert steered(source, shift(source, target).delta) == pytest.approx([0.1, 0.1, 0.8], rel=1e-6)


def test_choices_of_more_than_all_visits_are_refused() -> None:
    with pytest.raises(InputError, match=r"kind that sum to 1\.2"):
        shift(of(0.2, 0.2, 0.2, 0.5), of(0.4, 0.4, 0.4, 0.5))


def test_a_correction_of_choices_vanishes_at_the_target() -> None:
    source, target = of(0.2, 0.2, 0.2, 0.5), of(0.4, 0.1, 0.3, 0.5)
    start = shift(source, target)
    assert start.correct(target, n_visits=10**9).delta == pytest.approx(start.delta, abs=1e-6)
    step = start.correct(source, n_visits=10**9).delta - start.delta
    assert step[:3] == pytest.approx(np.clip(start.delta[:3], -2, 2), abs=1e-5)
