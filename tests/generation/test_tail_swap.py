"""Tail swap: cases are what they say, counts alone score one half, and a model that knows the company scores more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adapcla.data import Cohort
from adapcla.data.split import Split
from adapcla.evaluation.comparison import Comparison
from adapcla.evaluation.tail_swap import swap_scores
from adapcla.generation import Generator, generator_for
from adapcla.generation import tail_swap as module
from adapcla.generation.tail_swap import _cases, _met, tail_swap


def companions(seed: int, n: int) -> Cohort:
    """Patients of one or two visits: each visit is a disease, its companion and a common code; diseases are rare."""
    draw = np.random.default_rng(seed)
    patients = []
    for _ in range(n):
        diseases = draw.integers(0, 40, size=draw.integers(1, 3))
        patients.append([[f"D{k:02d}", f"P{k % 8}", f"H{draw.integers(0, 3)}"] for k in diseases])
    return Cohort.of(patients, [*(f"D{k:02d}" for k in range(40)), *(f"P{k}" for k in range(8)), "H0", "H1", "H2"])


def test_records_are_the_patient_up_to_the_visit_with_one_code_swapped() -> None:
    cohort = companions(1, 60)
    counts = cohort.visit_counts
    cases = _cases(cohort, counts, most=10, context=48, seed=1)
    records, starts = cases.records(), cases.starts
    assert len(cases.visit) and records.n_patients == starts[-1]
    everybody, swapped = list(cohort.patients()), list(records.patients())
    tokens = cohort.vocabulary.tokens
    for case, (visit, code, peers) in enumerate(zip(cases.visit, cases.code, cases.peers, strict=True)):
        own = everybody[cohort.patient_of_visit[visit]][: cohort.visit_number[visit] + 1]
        assert swapped[starts[case]] == own
        assert not any(tokens[code] in earlier for earlier in own[:-1])
        for record, peer in zip(swapped[starts[case] + 1 : starts[case + 1]], peers, strict=True):
            assert record[:-1] == own[:-1]
            assert set(record[-1]) == set(own[-1]) - {tokens[code]} | {tokens[peer]}
            assert not any(tokens[peer] in earlier for earlier in own)
            assert abs(counts[peer] - counts[code]) <= counts[code] // 4
            assert record[-1] == sorted(record[-1])


def test_peers_have_the_same_count_where_there_are_enough() -> None:
    cohort = Cohort.of([[[f"R{k}", "H"]] for k in range(8)] + [[["S", "H"]]] * 2)
    cases = _cases(cohort, cohort.visit_counts, most=99, context=48, seed=1)
    assert all((cohort.visit_counts[peers] == cohort.visit_counts[code]).all()
               for code, peers in zip(cases.code, cases.peers, strict=True))  # fmt: skip
    # S is held by two visits, and no other code is.
    assert set(cases.code.tolist()) == set(range(1, 9))


def test_a_pair_that_only_the_visit_itself_holds_was_never_met_elsewhere() -> None:
    train = Cohort.of([[["A", "B"]], [["A", "C"]], [["A", "C"]], [["D", "E"]]])
    cases = _cases(train, train.visit_counts, most=99, context=48, seed=1)
    seen = _met(cases, train, own_visit=True)
    names = [train.vocabulary.tokens[code] for code in cases.code]
    met = {(int(visit), name): bool(one) for visit, name, one in zip(cases.visit, names, seen, strict=True)}
    assert met[0, "B"] is False and met[3, "D"] is False
    held_out = Cohort.of([[["A", "B"]], [["B", "C"]]], train.vocabulary.tokens)
    cases = _cases(held_out, train.visit_counts, most=99, context=48, seed=1)
    found = dict(zip(cases.visit.tolist(), _met(cases, train, own_visit=False).tolist(), strict=True))
    assert found == {0: True, 1: False}


def test_a_model_of_counts_alone_scores_one_half_and_no_lift() -> None:
    train, test = companions(1, 400), companions(2, 300)
    counted = generator_for("marginal").fit(train, companions(3, 40))
    evidence = tail_swap(counted.model, train, test)
    comparison = Comparison.of(train, test, train, evidence=evidence)
    assert swap_scores("auc", comparison)["all"].value == pytest.approx(0.5, abs=0.04)
    assert swap_scores("lift", comparison)["all"].value == pytest.approx(0.0, abs=0.03)
    same = evidence["tail_swap_chance"] == 0.5
    assert same.mean() > 0.1 and evidence["tail_swap_auc"][same] == pytest.approx(0.5)


def test_a_model_that_knows_the_company_scores_more_and_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = companions(1, 800), companions(2, 300)
    small = {"width": 32, "layers": 1, "heads": 2, "passes": 12, "batch_size": 64, "validations": 2}
    monkeypatch.setattr(module, "HELD_OUT_CASES", 150)
    monkeypatch.setattr(module, "TRAINING_CASES", 80)
    halo, plain = (generator_for(name, **small).fit(train, companions(3, 80)) for name in ("halo", "adapcla"))
    outcomes = [tail_swap(model.model, train, test, seed=1) for model in (halo, halo, plain)]
    assert all(np.array_equal(outcomes[0][name], outcomes[1][name]) for name in outcomes[0])
    knows, guesses = (swap_scores("auc", Comparison.of(train, test, train, evidence=one))["all"]
                      for one in (outcomes[0], outcomes[2]))  # fmt: skip
    assert knows.low is not None and knows.low > 0.7
    # Codes that are drawn independently cannot place one beside its partner.
    assert guesses.value == pytest.approx(0.5, abs=0.1)


def test_there_is_nothing_to_say_without_a_likelihood(parts: Split) -> None:
    settings = {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 64}
    adversarial = generator_for("synteg", **{k: v for k, v in settings.items() if k not in ("layers", "heads")})
    assert tail_swap(adversarial.fit(parts.train, parts.valid).model, parts.train, parts.test) == {}


def test_codes_that_the_model_does_not_know_are_left_out(plain: Generator, parts: Split) -> None:
    strange = Cohort.of([[["ZZ9", *one[0]], *one[1:]] for one in parts.test.patients()])
    other = replace(strange, attributes=parts.test.attributes, days=parts.test.days)
    evidence = tail_swap(plain.model, parts.train, other)
    assert len(evidence["tail_swap_auc"]) and np.isfinite(evidence["tail_swap_lift"]).all()
