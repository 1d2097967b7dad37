"""evaluate(): the right cohorts in the right places, one table, nothing computed twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.evaluation.conftest import World

from adapcla.data import Code, Cohort, Kind, Origin, Prevalence, Vocabulary
from adapcla.data.provenance import SEPARATED, Group
from adapcla.data.vocabulary import DEATH
from adapcla.errors import InputError, UsageError
from adapcla.evaluation import references
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.metric import METRICS, PLAIN_SUITES, metrics_for, metrics_of, with_whole_record
from adapcla.evaluation.references import halves
from adapcla.evaluation.runner import N_HALVES, ScoreCache, cache_folder, content_key, evaluate
from adapcla.evaluation.scores import HALVES, MATCHED, MATCHED_CODES, Scores


def world(seed: int, n: int) -> Cohort:
    """Patients with structure: a visit holds one or two of forty disorders, each with its own four codes."""
    draw = np.random.default_rng(seed)
    chance = 1 / np.arange(1, 41)
    patients = []
    for _ in range(n):
        record = []
        for _ in range(1 + draw.integers(0, 3)):
            disorders = draw.choice(40, 1 + draw.integers(0, 2), replace=False, p=chance / chance.sum())
            record.append([f"{side}{k:02d}" for k in disorders for side in "ABCD" if draw.random() < 0.8] or ["A00"])
        patients.append(record)
    return Cohort.of(patients, [f"{side}{k:02d}" for k in range(40) for side in "ABCD"])


@pytest.fixture(scope="module")
def cohorts() -> tuple[Cohort, Cohort, Cohort]:
    return world(1, 400), world(2, 200), world(3, 150)


@pytest.fixture(scope="module")
def scores(cohorts: tuple[Cohort, Cohort, Cohort]) -> Scores:
    return evaluate(*cohorts, suites=["tail", "fidelity"], method="fresh", seed=1)


def test_values_are_the_metrics_on_the_whole_synthetic_cohort(cohorts: tuple[Cohort, Cohort, Cohort], scores: Scores):
    comparison = Comparison.of(*cohorts)
    for key in ("pair_seen", "tail_ctx_jsd", "unigram_r2", "bigram_r2_heldout"):
        assert scores.values()[key] == METRICS[key].compute(comparison)[ALL].value


def test_references_are_the_metrics_on_the_reference_cohorts(cohorts: tuple[Cohort, Cohort, Cohort], scores: Scores):
    train, test, _ = cohorts
    row = scores.row("pair_seen")
    assert row.real_test == METRICS["pair_seen"].compute(Comparison.of(train, test, test))[ALL].value
    assert row.train_copy == 1.0
    assert row.marginal is not None and row.value is not None
    assert row.marginal < row.value


def test_one_half_of_the_test_patients_is_the_reference_and_the_other_the_ceiling(
    cohorts: tuple[Cohort, Cohort, Cohort], scores: Scores
):
    """What compares with test patients is the mean over many halves; what does not needs the ceiling of one."""
    train, test, made = cohorts
    over = [halves(test, number) for number in range(N_HALVES)]
    for key, view in (("tail_ctx_jsd", MATCHED), ("pair_seen_heldout", HALVES), ("bigram_r2_heldout", MATCHED)):
        chosen = over if key.endswith("_heldout") else over[:1]
        values = [METRICS[key].compute(Comparison.of(train, *half))[ALL].value for half in chosen]
        assert scores.row(key, view).real_test == pytest.approx(np.mean(values))
    # Pairs of all synthetic patients, whose number does not move the score.
    values = [METRICS["pair_seen_heldout"].compute(Comparison.of(train, h.reference, made))[ALL].value for h in over]
    assert scores.row("pair_seen_heldout", HALVES).value == pytest.approx(np.mean(values))
    assert scores.card["matched_patients"] == 100


def test_references_carry_intervals_that_hold_their_values(scores: Scores):
    for key, stratum in (("pair_seen", ALL), ("tail_ctx_jsd", MATCHED), ("pair_seen_heldout", HALVES)):
        row = scores.row(key, stratum)
        for name in ("real_test", "marginal"):
            value, low, high = (getattr(row, name + end) for end in ("", "_low", "_high"))
            assert low <= value <= high and low < high, (key, name)
    assert scores.row("tail_information").real_train_low < scores.row("tail_information").real_train


def test_the_draw_of_the_test_patients_is_in_the_interval_of_real_patients(scores: Scores):
    """Real patients against real patients by halves: the spread of the halves, with Student's factor."""
    row = scores.row("pair_seen_heldout", HALVES)
    assert row.real_test_high - row.real_test == pytest.approx(row.real_test - row.real_test_low)


def test_test_patients_are_never_their_own_ceiling(scores: Scores):
    for row in scores.rows:
        if row.metric.endswith("_heldout") and not row.stratum.startswith(("matched", "halves")):
            assert row.real_test is None
            assert row.normalised is None
    assert scores.row("pair_seen_heldout").normalised_reason.endswith("see stratum halves")


def test_a_score_that_depends_on_size_is_normalised_at_matched_sizes_only(scores: Scores):
    assert "size" in scores.row("tail_ctx_jsd").normalised_reason
    assert scores.row("tail_ctx_jsd").normalised is None
    assert scores.row("pair_seen").normalised is not None


def test_every_thinned_metric_has_its_second_column(scores: Scores):
    with_codes = {row.metric for row in scores.rows if row.stratum == MATCHED_CODES}
    assert with_codes == {metric.key for metric in metrics_of(["tail"]) if metric.thinned}
    assert {row.metric for row in scores.rows if row.stratum in (MATCHED, HALVES)} >= with_codes


def test_matched_means_equal_numbers_and_halves_means_all_synthetic_patients(scores: Scores):
    """A metric has one of the two views or neither, by what moves it."""
    views = {
        metric.key: {row.stratum for row in scores.rows if row.metric == metric.key} for metric in METRICS.values()
    }
    for metric in metrics_of(["tail", "fidelity"]):
        assert (HALVES in views[metric.key]) == (metric.heldout and not metric.sized), metric.key
        moved = metric.sized or (metric.thinned and not metric.heldout)
        assert (MATCHED in views[metric.key]) == moved, metric.key


def test_every_number_has_n_and_interval_or_reason(scores: Scores):
    for row in scores.rows:
        if row.value is None:
            assert row.reason, row
        elif row.stratum == ALL:
            assert row.n > 0, row
            assert row.low is not None and row.high is not None, row


def test_fresh_patients_of_the_world_score_near_the_ceiling_and_chance_does_not(cohorts: tuple[Cohort, Cohort, Cohort]):
    train, test, _ = cohorts
    fresh = evaluate(train, test, world(7, 200), suites=["fidelity"]).row("bigram_r2", MATCHED)
    assert fresh.value is not None and fresh.real_test is not None and fresh.marginal is not None
    assert abs(fresh.value - fresh.real_test) < 0.2
    assert fresh.marginal < fresh.value - 0.1


def test_same_seed_same_scores(cohorts: tuple[Cohort, Cohort, Cohort], scores: Scores):
    assert evaluate(*cohorts, suites=["tail", "fidelity"], method="fresh", seed=1).rows == scores.rows


def test_cached_scores_are_equal_and_references_are_shared_between_methods(
    cohorts: tuple[Cohort, Cohort, Cohort], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    train, test, made = cohorts
    plain = evaluate(train, test, made, suites=["tail"])
    first = evaluate(train, test, made, suites=["tail"], cache=tmp_path)
    drawn: list[int] = []
    real_marginal = references.marginal
    monkeypatch.setattr(references, "marginal", lambda *a: drawn.append(1) or real_marginal(*a))
    second = evaluate(train, test, made, suites=["tail"], cache=tmp_path)
    assert drawn == []
    other = evaluate(train, test, world(4, 150), suites=["tail"], cache=tmp_path)
    assert first.rows == second.rows == plain.rows
    assert other.row("pair_seen").marginal == first.row("pair_seen").marginal
    assert other.row("pair_seen").value != first.row("pair_seen").value
    # Only the view that is thinned to the new cohort's own visits needs new draws.
    assert len(drawn) == 1


def test_a_request_adds_the_control_suite(cohorts: tuple[Cohort, Cohort, Cohort]):
    scores = evaluate(*cohorts, suites=["control"], target=Prevalence.of({"A00": 0.5, "A01": 0.25}))
    assert set(scores.values()) == {
        "control_mae",
        "control_floor",
        "control_max_gap",
        "control_spearman",
    }
    with pytest.raises(UsageError, match="target"):
        evaluate(*cohorts, suites=["control"])


def test_privacy_without_control_patients_takes_its_ceiling_from_half_of_the_test_patients(
    cohorts: tuple[Cohort, Cohort, Cohort],
):
    """Test patients scored against themselves as control would look like negative leakage."""
    train, test, made = cohorts
    reference, ceiling = halves(test)
    row = evaluate(train, test, made, suites=["privacy"], quick=True).row("unique_pair_gap")
    expected = METRICS["unique_pair_gap"].compute(Comparison.of(train, reference, ceiling, quick=True))[ALL]
    assert row.real_test == expected.value


@pytest.mark.parametrize("n_test", [1, 2])
def test_tiny_cohorts_do_not_fail(n_test: int):
    tiny = Cohort.of([[["A", "B"], ["A"]], [["C"]]])
    test = Cohort.of([[["A", "B"]], [["C"]]]).subset(list(range(n_test)))
    scores = evaluate(tiny, test, tiny, suites=["tail", "fidelity"])
    assert scores.values()["pair_seen"] == 1.0


def test_an_empty_synthetic_cohort_is_missing_everywhere_and_says_why():
    train = Cohort.of([[["A", "B"], ["A"]], [["C"]]])
    scores = evaluate(train, train.subset([0]), train.subset([]), suites=["tail", "fidelity"])
    assert {row.value for row in scores.rows} == {None}
    assert {row.reason for row in scores.rows} == {"there is no synthetic patient"}


def test_without_real_patients_there_is_nothing_to_compare_with():
    some = Cohort.of([[["A"]]])
    for train, test, name in ((some.subset([]), some, "train"), (some, some.subset([]), "test")):
        with pytest.raises(InputError, match=f"no patient in the {name} cohort"):
            evaluate(train, test, some, suites=["tail"])


def test_an_observer_is_shown_the_comparison_once():
    """Curves are drawn from the same comparison that was scored, on the same vocabulary."""
    train = Cohort.of([[["A", "B"]], [["A", "C"]]])
    seen = []
    evaluate(train, train.subset([0]), train, suites=["tail"], observe=seen.append)
    assert [comparison.synthetic.n_patients for comparison in seen] == [2]


def test_scores_say_whether_training_patients_are_known_to_be_apart_and_refuse_those_that_are_not(
    cohorts: tuple[Cohort, Cohort, Cohort], scores: Scores, tmp_path: Path
):
    assert scores.card[SEPARATED] == scores.summary()[SEPARATED] == "not known"
    assert f"{SEPARATED}: not known" in scores.markdown()
    train, valid, test, control = cohorts[0].split(control=0.2)
    learned = (Group("train", train.fingerprint, train.origin), Group("valid", valid.fingerprint, valid.origin))
    made = replace(cohorts[2], card=Origin(Kind.SYNTHETIC, (), learned).as_card())
    known = evaluate(train, test, made, suites=["tail"], control=control)
    assert known.card[SEPARATED] == "yes" and f"{SEPARATED}: yes" in known.markdown()
    assert Scores.open(known.save(tmp_path / "s")).card[SEPARATED] == "yes"
    assert evaluate(train, test, cohorts[2], suites=["tail"]).card[SEPARATED] == "not known"
    for wrong in ({"test": train.subset([1])}, {"test": valid}, {"test": test, "control": cohorts[0].split().train}):
        with pytest.raises(InputError, match="took part in training"):
            evaluate(train, synthetic=made, suites=["tail"], **wrong)
    with pytest.raises(InputError, match="test patients took part in training"):
        evaluate(train, replace(train, card={}), cohorts[2], suites=["tail"])


# ---- what is kept on disk -----------------------------------------------------------------------------------
def test_scores_come_back_as_they_were(tmp_path: Path):
    cache = ScoreCache(tmp_path / "deep" / "cache")
    scores = {"pair_seen@1": {"rare20": Missing("none").score, "all": Score(0.5, 3, 0.4, 0.6)}}
    cache.write("k", scores)
    assert cache.read("k") == scores
    assert list(cache.read("k")["pair_seen@1"]) == ["rare20", "all"]
    assert cache.read("other") == {}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"scores": 3}', b'{"scores": {"a": [["all", {"bad": 1}]]}}', b'{"scores": {"a": [3]}}'],
)
def test_a_damaged_file_counts_as_none(tmp_path: Path, content: bytes):
    cache = ScoreCache(tmp_path)
    (tmp_path / "k.json").write_bytes(content)
    assert cache.read("k") == {}


def test_without_a_folder_nothing_is_kept():
    cache = ScoreCache(None)
    cache.write("k", {"a@1": {"all": Score(1.0, 1)}})
    assert cache.read("k") == {}


def test_the_key_changes_with_everything_that_scores_depend_on():
    train, other = Cohort.of([[["A"]], [["B"]]]), Cohort.of([[["B"]], [["A"]]])
    drugs = Vocabulary.of([Code.of("A", domain="drug"), Code.of("B")])
    target = Prevalence.of({"A": 0.5, "B": 0.5})
    comparisons = [
        Comparison.of(train, train, train),
        Comparison.of(other, train, train),
        Comparison.of(train, other, train),
        Comparison.of(train, train, train, control=train),
        Comparison.of(train, train, train, seed=2),
        Comparison.of(train, train, train, quick=True),
        Comparison.of(train, train, train, target=target),
        Comparison.of(*[Cohort(drugs, np.array(train.codes), train.visit_starts, train.patient_starts)] * 3),
    ]
    keys = [content_key(one, "marginal", 5) for one in comparisons] + [content_key(comparisons[0], "marginal", 6)]
    assert len(set(keys)) == len(keys)
    assert content_key(Comparison.of(train, train, other), "marginal", 5) == keys[0]


def test_the_users_cache_folder_follows_the_standard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "adapcla" / "scores"


# ---- whole records ------------------------------------------------------------------------------------------
WHOLE_RECORD = metrics_of(["numbers", "stays"])


def test_records_of_diagnoses_alone_get_no_new_row():
    train, test = Cohort.of([[["A", "B"], ["A"]], [["B"]]] * 6), Cohort.of([[["A", "B"]], [["B"]]] * 5)
    scores = evaluate(train, test, train, ["fidelity"])
    assert {row.suite for row in scores.rows} == {"fidelity"}
    assert not [row for row in scores.rows if row.stratum.startswith(("only:", "domain:", "number:"))]


def test_a_code_of_death_brings_stays_and_no_numbers():
    train = Cohort.of([[["A", DEATH.token]]], ["A", DEATH])
    assert with_whole_record(["fidelity"], train.vocabulary) == ["fidelity", "stays"]
    assert with_whole_record(["tail"], train.vocabulary) == ["tail"]
    learned = {metric.key for metric in metrics_for(["utility"], train.vocabulary) if metric.suite == "stays"}
    assert learned == {"mortality_auroc", "readmission_auroc"}
    assert not {"numbers", "stays"} & set(PLAIN_SUITES)
    assert not learned & {metric.key for metric in metrics_for(["tail"], train.vocabulary)}
    together = [metric.key for metric in metrics_for(["fidelity", "utility"], train.vocabulary)]
    assert len(together) == len(set(together)) and learned <= set(together)


def test_every_score_of_a_whole_record_stands_beside_its_references(world: World):
    train, _, test = world(300, 1).split(seed=4)
    scores = evaluate(train, test, world(150, 2), ["fidelity"], quick=True)
    cheap = [metric for metric in WHOLE_RECORD if metric.cost == "cheap"]
    for metric in cheap:
        row = scores.row(metric.key)
        assert row.value is not None, (metric.key, row.reason)
        assert None not in (row.real_test, row.train_copy, row.marginal), metric.key
        assert row.low is not None and row.low <= row.value <= row.high
    assert scores.row("value_effect_corr").normalised_reason or scores.row("value_effect_corr", "matched").normalised
    assert scores.row("unigram_r2", "only:drug").marginal is not None
