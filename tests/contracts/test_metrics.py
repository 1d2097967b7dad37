"""What every registered metric promises, whichever suite it is of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evaluation.conftest import whole_world

from adapcla.data import Cohort, Prevalence, Vocabulary
from adapcla.evaluation.comparison import ALL, Comparison, Score
from adapcla.evaluation.metric import METRICS, SUITES, Metric, metrics_of
from adapcla.evaluation.references import marginal
from adapcla.io.simulator import simulate

EVERY = metrics_of(SUITES)
QUICKLY = metrics_of(["tail", "fidelity", "control"])
COURSE = metrics_of(["course"])
#: Those of whole records that train nothing.
WHOLE = [metric for metric in metrics_of(["numbers", "stays"]) if metric.cost == "cheap"]
#: They draw at random, by position, or add half a visit: what is exact for the others holds for them on average only.
DRAWN = ("next_visit_gain",)
#: More patients are believed more, whoever they are.
BELIEVED = tuple(f"tail_information{which}{share}" for which in ("", "_previous") for share in ("", "_share"))
SIZED_BY_DESIGN = (*DRAWN, *BELIEVED, "control_floor", "prevalence_log_r2")
#: What a cohort or its model knows of the test patients, which training patients need not know best.
OF_TEST = [metric for metric in QUICKLY if metric.key.startswith("tail_info")]
Made = dict[str, dict[str, Score]]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    world = simulate(patients=700, codes=80, seed=1)
    train, _, test, control = world.split(seed=4, control=0.2)
    made = simulate(patients=160, codes=80, seed=2)
    return Comparison.of(train, test, made, control, quick=True, target=train.prevalence())


def in_order(metric: Metric, scores: dict[str, Score]) -> None:
    """Raise unless the scores keep what every score promises."""
    assert ALL in scores, metric.key
    low, high = metric.bounds
    for stratum, score in scores.items():
        if score.value is None:
            assert score.reason, (metric.key, stratum)
            continue
        assert low - 1e-9 <= score.value <= high + 1e-9, (metric.key, stratum, score)
        assert score.n > 0, (metric.key, stratum, score)
        assert (score.low is None) == (score.high is None), (metric.key, stratum, score)
        if score.low is not None and score.high is not None:
            assert score.low <= score.high, (metric.key, stratum, score)


@pytest.mark.parametrize("metric", EVERY, ids=lambda metric: metric.key)
def test_scores_are_in_bounds_and_what_is_missing_has_a_reason(metric: Metric, comparison: Comparison):
    in_order(metric, metric.compute(comparison))
    assert metric.summary.endswith("."), "the first line of the docstring is the summary"
    assert metric.goal in ("up", "down", "match", "none")


@pytest.mark.parametrize("metric", [*QUICKLY, *COURSE], ids=lambda metric: metric.key)
@pytest.mark.parametrize(
    "made",
    [
        pytest.param([[["Z1", "Z2"]]], id="disjoint vocabulary"),
        pytest.param([[["A"]]], id="one code"),
        pytest.param([[["A", "B"], ["A", "B"]]] * 3, id="one visit repeated"),
    ],
)
def test_strange_cohorts_are_scored_or_refused_with_a_reason(metric: Metric, made: list[list[list[str]]]):
    train = Cohort.of([[["A", "B"], ["A"]], [["B", "C"]], [["D", "A"]]])
    in_order(metric, metric.compute(Comparison.of(train, train, Cohort.of(made), target=train.prevalence())))


def scored(metrics: list[Metric], train: Cohort, test: Cohort, made: Cohort) -> dict[str, float | None]:
    comparison = Comparison.of(train, test, made, intervals=False, target=Prevalence.of({"C01": 0.3, "C02": 0.1}))
    return {metric.key: metric.compute(comparison)[ALL].value for metric in metrics}


VOCABULARY = [f"C{i:02d}" for i in range(10)]
visits = st.sets(st.sampled_from(VOCABULARY), min_size=1, max_size=5)
cohorts = st.lists(st.lists(visits, min_size=1, max_size=3), min_size=2, max_size=6).map(
    lambda patients: Cohort.of(patients, VOCABULARY)
)
three = st.tuples(cohorts, cohorts, cohorts)


def unchanged(before: dict[str, float | None], after: dict[str, float | None], but: tuple[str, ...] = ()) -> None:
    for key, value in before.items():
        if key.removesuffix("_heldout") not in but:
            assert after[key] == pytest.approx(value, abs=1e-9), key


@settings(max_examples=25)
@given(three, st.randoms())
def test_the_order_of_patients_means_nothing(trio: tuple[Cohort, Cohort, Cohort], random):
    shuffled = [cohort.subset(random.sample(range(cohort.n_patients), cohort.n_patients)) for cohort in trio]
    unchanged(scored(QUICKLY, *trio), scored(QUICKLY, *shuffled), DRAWN)


@settings(max_examples=10)
@given(three, st.randoms())
def test_the_order_of_patients_means_nothing_to_the_course_of_records(trio: tuple[Cohort, Cohort, Cohort], random):
    shuffled = [cohort.subset(random.sample(range(cohort.n_patients), cohort.n_patients)) for cohort in trio]
    unchanged(scored(COURSE, *trio), scored(COURSE, *shuffled))


@settings(max_examples=25)
@given(three)
def test_the_order_of_visits_means_nothing_to_what_looks_at_single_visits(trio: tuple[Cohort, Cohort, Cohort]):
    reversed_ = [Cohort.of([list(reversed(p)) for p in cohort.patients()], VOCABULARY) for cohort in trio]
    sequential = ("sequential_bigram_r2", *BELIEVED[2:])
    unchanged(scored(QUICKLY, *trio), scored(QUICKLY, *reversed_), (*DRAWN, *sequential))


@settings(max_examples=25)
@given(three)
def test_codes_that_nobody_holds_mean_nothing(trio: tuple[Cohort, Cohort, Cohort]):
    wider = Vocabulary.of([*VOCABULARY, "A00", "C055", "Z99"])
    unchanged(scored(QUICKLY, *trio), scored(QUICKLY, *(cohort.on(wider) for cohort in trio)))


@settings(max_examples=25)
@given(three, st.permutations(VOCABULARY))
def test_names_of_codes_mean_nothing_where_no_tie_is_broken_by_them(trio: tuple[Cohort, Cohort, Cohort], names):
    """The tail cut and the top neighbours break ties by code string, so other metrics are asked."""
    rename = dict(zip(VOCABULARY, names, strict=True))
    renamed = [Cohort.of([[[rename[c] for c in v] for v in p] for p in one.patients()], VOCABULARY) for one in trio]
    free = [m for m in QUICKLY if "tail" not in m.key and m.suite != "control"]
    unchanged(scored(free, *trio), scored(free, *renamed))


@settings(max_examples=25)
@given(three)
def test_twice_the_same_cohort_scores_as_once(trio: tuple[Cohort, Cohort, Cohort]):
    train, test, made = trio
    twice = made.subset(np.tile(np.arange(made.n_patients), 2))
    unchanged(scored(QUICKLY, train, test, made), scored(QUICKLY, train, test, twice), SIZED_BY_DESIGN)


@pytest.fixture(scope="module")
def whole() -> Comparison:
    return Comparison.of(whole_world(300, 1), whole_world(200, 2), whole_world(250, 3))


@pytest.mark.parametrize("metric", WHOLE, ids=lambda metric: metric.key)
def test_scores_of_whole_records_are_in_bounds_with_their_interval(metric: Metric, whole: Comparison):
    scores = metric.compute(whole)
    in_order(metric, scores)
    assert scores[ALL].value is not None and scores[ALL].low is not None, scores[ALL]


@pytest.mark.parametrize("metric", WHOLE, ids=lambda metric: metric.key)
def test_the_order_of_patients_means_nothing_to_whole_records(metric: Metric, whole: Comparison):
    cohorts = whole.whole
    turned = [cohort.subset(np.arange(cohort.n_patients)[::-1]) for cohort in cohorts]
    one, two = (metric.compute(Comparison.of(*trio, intervals=False)) for trio in (cohorts, turned))
    assert {name: score.value for name, score in two.items()} == pytest.approx(
        {name: score.value for name, score in one.items()}, abs=1e-6
    )


@pytest.mark.parametrize("metric", [m for m in WHOLE if m.goal in ("up", "down")], ids=lambda metric: metric.key)
def test_nothing_beats_the_training_patients_themselves_on_whole_records(metric: Metric, whole: Comparison):
    copy = metric.compute(whole.with_synthetic(whole.whole.train))[ALL].value
    for other in (whole.whole.synthetic, whole.whole.test, marginal(whole.whole.train, 400, seed=1)):
        value = metric.compute(whole.with_synthetic(other))[ALL].value
        assert copy is not None and value is not None
        assert better(metric)(copy, value), metric.key


def better(metric: Metric) -> Callable[[float, float], bool]:
    """Whether the first value is at least as good as the second."""
    return (lambda a, b: a >= b - 1e-9) if metric.goal == "up" else (lambda a, b: a <= b + 1e-9)


@pytest.mark.parametrize(
    "metric",
    [
        m
        for m in [*QUICKLY, *COURSE]
        if m.goal in ("up", "down") and not m.heldout and m.suite != "control" and m not in OF_TEST
    ],
    ids=lambda metric: metric.key,
)
def test_nothing_beats_the_training_patients_themselves_on_what_is_measured_against_them(
    metric: Metric, comparison: Comparison
):
    copy = metric.compute(comparison.with_synthetic(comparison.train))[ALL].value
    for other in (comparison.synthetic, comparison.test, marginal(comparison.train, 400, seed=1)):
        value = metric.compute(comparison.with_synthetic(other))[ALL].value
        assert copy is not None
        assert value is None or better(metric)(copy, value), metric.key


def test_every_metric_is_known_by_its_suite():
    assert {metric.suite for metric in METRICS.values()} <= set(SUITES)
